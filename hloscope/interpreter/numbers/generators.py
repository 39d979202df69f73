"""Counter-based random generators, ThreeFry-2x32 and Philox-4x32, bitwise equal to XLA's.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), for the functions;
XLA's `prng.cc` for the order of counters over the elements.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from hloscope.interpreter.values import Array
from hloscope.ir import Dims

Pair = tuple[Array, Array]
Four = tuple[Array, Array, Array, Array]

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = np.uint32(0x1BD11BDA)
_MULTIPLIERS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_RAISES: Final = np.array([0x9E3779B9], np.uint32), np.array([0xBB67AE85], np.uint32)
_HALF: Final = np.uint64(32)
_U32, _U64 = np.uint32, np.uint64


def halves(x: Array) -> Pair:
    """Return the low and the high 32-bit words of 64-bit integers."""
    return x.astype(_U32), (x >> _HALF).astype(_U32)


def joined(low: Array, high: Array) -> Array:
    """Return the 64-bit integers of low and high 32-bit words."""
    return low.astype(_U64) | (high.astype(_U64) << _HALF)


def threefry(counter: Pair, key: Pair) -> Pair:
    """Return the 32-bit words of ThreeFry-2x32 with 20 rounds.

    >>> zero = np.zeros(1, np.uint32)
    >>> [hex(x[0]) for x in threefry((zero, zero), (zero, zero))]
    ['0x6b200159', '0x99ba4efe']
    """
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << _U32(distance)) | (b >> _U32(32 - distance)))
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + _U32(group + 1)
    return a, b


def philox(counter: Four, key: Pair) -> Four:
    """Return the 32-bit words of Philox-4x32 with 10 rounds.

    >>> zero = np.zeros(1, np.uint32)
    >>> [hex(x[0]) for x in philox((zero,) * 4, (zero, zero))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        low0, high0 = halves(a.astype(_U64) * _MULTIPLIERS[0])
        low1, high1 = halves(c.astype(_U64) * _MULTIPLIERS[1])
        a, b, c, d = high1 ^ b ^ k, low1, high0 ^ d ^ m, low0
        k, m = k + _RAISES[0], m + _RAISES[1]
    return a, b, c, d


def threefry_bits(state: Array, shape: Dims, bits: int) -> tuple[Array, Array]:
    """Return a new state, and random words of 32 or 64 bits.

    Args:
        state: Key and counter, a 64-bit word each.
        shape: Shape of the result.
        bits: Bits of a word, 32 or 64.
    """
    key = halves(state[:1])
    if bits == 64:
        words = joined(*threefry(_counters(state, prod(shape)), key))
        return _advanced(state, prod(shape)), words.reshape(shape)
    # Each call gives two words, the halves of a pair.  XLA interleaves the halves along one axis of
    # the result, so counters run over an array of half the size there.
    axis = _split_axis(shape)
    half = tuple(-(-n // 2) if i == axis else n for i, n in enumerate(shape)) or (1,)
    count = prod(half)
    pair = [x.reshape(half) for x in threefry(_counters(state, count), key)]
    if not shape:
        return _advanced(state, count), pair[0].reshape(())
    wide = [2 * n if i == axis else n for i, n in enumerate(half)]
    both = np.stack(pair, axis + 1).reshape(wide)
    return _advanced(state, count), np.take(both, range(shape[axis]), axis)


def _split_axis(shape: Dims) -> int:
    """Axis along which pairs are interleaved: the first of even size, else the largest."""
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=lambda i: shape[i], default=0)


def _counters(state: Array, count: int) -> Pair:
    """Low and high words of `count` consecutive counters."""
    return halves(state[1:2] + np.arange(count, dtype=_U64))


def _advanced(state: Array, count: int) -> Array:
    """The state after `count` counters."""
    return np.concatenate([state[:1], state[1:2] + _U64(count)])


def philox_bits(state: Array, shape: Dims, bits: int) -> tuple[Array, Array]:
    """Return a new state, and random words of 32 or 64 bits.

    Args:
        state: Key and counter, low word first; without a high word, the key is used for it.
        shape: Shape of the result.
        bits: Bits of a word, 32 or 64.
    """
    low, high = (state[1:2], state[2:3]) if len(state) > 2 else (state[1:2], state[:1])
    count = -(-prod(shape) * (bits // 32) // 4)
    a, b, c, d = philox(_wide_counters(low, high, count), halves(state[:1]))
    columns = (joined(a, b), joined(c, d)) if bits == 64 else (a, b, c, d)
    words = np.stack(columns, axis=1).reshape(-1)[: prod(shape)].reshape(shape)
    # Unsigned sums wrap around; the sum is less than a summand exactly if there is a carry.
    after, carry = low + _U64(count), low
    counter = (after, high + (after < carry)) if len(state) > 2 else (after,)
    return np.concatenate([state[:1], *counter]).astype(_U64), words


def _wide_counters(low: Array, high: Array, count: int) -> Four:
    """The four words of `count` consecutive 128-bit counters."""
    lows = low + np.arange(count, dtype=_U64)
    highs = high + (lows < low)
    return (*halves(lows), *halves(highs))
