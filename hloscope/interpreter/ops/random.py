"""Random numbers: the same bits as XLA, from the generators ThreeFry and Philox."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi, prod
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, World, dtype_of
from hloscope.ir import Dims, ElementType, TensorType
from hloscope.ops import Rng, RngBitGenerator, RngGetAndUpdateState

# --------------------------------------------------------------------------------------------------
# Counter-based random generators, ThreeFry-2x32 and Philox-4x32, bitwise equal to XLA's.
#
# Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), for the functions;
# XLA's `prng.cc` for the order of counters over the elements.


Pair = tuple[Array, Array]
Four = tuple[Array, Array, Array, Array]

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = np.uint32(0x1BD11BDA)
_MULTIPLIERS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_RAISES: Final = np.array([0x9E3779B9], np.uint32), np.array([0xBB67AE85], np.uint32)
_HALF: Final = np.uint64(32)
_U32, _U64 = np.uint32, np.uint64


def halves(x: Array) -> Pair:
    """Return the low and the high 32-bit words of 64-bit integers, two arrays."""
    return x.astype(_U32), (x >> _HALF).astype(_U32)


def joined(low: Array, high: Array) -> Array:
    """Return 64-bit integers, given their low and high 32-bit words."""
    return low.astype(_U64) | (high.astype(_U64) << _HALF)


def threefry(counter: Pair, key: Pair) -> Pair:
    """Return the two 32-bit words that ThreeFry-2x32 with 20 rounds gives for `counter` and `key`.

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
    """Return the four 32-bit words that Philox-4x32 with 10 rounds gives for `counter` and `key`.

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
    """Return the next state of ThreeFry, and random words.

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
    """Return the axis along which ThreeFry's pairs of words alternate.

    It is the first axis of even size, else the largest.
    """
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=lambda i: shape[i], default=0)


def _counters(state: Array, count: int) -> Pair:
    """Return the low and the high words of `count` consecutive counters.

    The first counter is the second word of `state`.
    """
    return halves(state[1:2] + np.arange(count, dtype=_U64))


def _advanced(state: Array, count: int) -> Array:
    """Return the state of a generator with `count` added to its counter, the second word."""
    return np.concatenate([state[:1], state[1:2] + _U64(count)])


def philox_bits(state: Array, shape: Dims, bits: int) -> tuple[Array, Array]:
    """Return the next state of Philox, and random words.

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
    """Return the four 32-bit words of `count` consecutive 128-bit counters.

    `low` and `high` are the 64-bit words of the first counter.
    """
    lows = low + np.arange(count, dtype=_U64)
    highs = high + (lows < low)
    return (*halves(lows), *halves(highs))


# --------------------------------------------------------------------------------------------------
# Random numbers: the same bits as XLA, and `rng` from the same generator.
#
# StableHLO does not specify the numbers of `rng` or the `DEFAULT` algorithm.  As in XLA on CPUs it
# is Philox here, and every evaluation gives the same numbers.


_STATE: Final = "rng"
"""Key of `World.extra` for the 128-bit state that `rng` and `rng-get-and-update-state` share."""
_FIRST: Final = 0x7012395
"""Initial state of `rng`, as in XLA on CPUs."""
_SEED: Final = 42
_ALGORITHMS: Final = {
    "DEFAULT": philox_bits,
    "PHILOX": philox_bits,
    "THREE_FRY": threefry_bits,
}
_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@evaluates(RngBitGenerator)
def _rng_bit_generator(op: RngBitGenerator, at: Site) -> Kernel:
    """Return the kernel of `rng_bit_generator`.

    Elements of fewer than 32 bits are the low bits of 32-bit words.
    """
    generate = _ALGORITHMS.get(op.rng_algorithm.removeprefix("RNG_").upper())
    if generate is None:
        raise UnsupportedError(f"`{op.name}` knows no algorithm {op.rng_algorithm}")
    type_ = at.results[-1]
    assert isinstance(type_, TensorType)
    shape, bits = type_.shape, max(type_.element.bits, 32)
    finish = bits_as(type_.element)
    only_bits = len(at.results) == 1
    before, after = at.operands[0], at.results[0]
    assert isinstance(before, TensorType)
    assert isinstance(after, TensorType)
    if not only_bits and before.element != after.element:
        raise UnsupportedError(f"`{op.name}` is not evaluated where the state changes its type")

    def kernel(state: Any) -> Value:
        # A state may have any integer type; its bytes are the two or three words.
        flat = np.ascontiguousarray(state).reshape(-1)
        if flat.nbytes not in (16, 24):
            size = f"{flat.nbytes / 8:g} words"
            raise EvaluationError(f"{op.name} has a state of {size}, needs 2 or 3")
        words = flat.view(np.uint64)
        next_words, found = generate(words, shape, bits)
        if only_bits:
            return finish(found)
        return next_words.view(state.dtype).reshape(state.shape), finish(found)

    return kernel


def bits_as(element: ElementType) -> Callable[[Array], Array]:
    """Return the function that turns words of 32 or 64 bits into elements made of their low bits.

    Raises:
        UnsupportedError: Elements of this type cannot be made of bits.
    """
    dtype = dtype_of(element)
    if element.kind == "pred":
        return lambda words: (words & 1).astype(bool)
    if element.bits < 8:
        high = 32 - element.bits
        if element.kind == "signed":
            return lambda words: ((words << high).view(np.int32) >> high).astype(dtype)
        return lambda words: (words & (2**element.bits - 1)).astype(dtype)
    word = _WORDS.get(element.bits)
    if word is None or element.kind == "complex":
        raise UnsupportedError(f"random bits cannot be elements of {element}")
    return lambda words: words.astype(word).view(dtype)


@evaluates(RngGetAndUpdateState)
def _rng_get_and_update_state(op: RngGetAndUpdateState, at: Site) -> Kernel:
    return partial(_next_state, at.world, op.delta)


def _next_state(world: World, delta: int) -> Array:
    """Return the state that random ops share, as two 64-bit words, low word first.

    The stored state is then advanced by `delta`.
    """
    state: int = world.extra.get(_STATE, _FIRST)
    world.extra[_STATE] = (state + delta) % (1 << 128)
    return np.array([state % (1 << 64), state >> 64], np.uint64)


@evaluates(Rng)
def _rng(op: Rng, at: Site) -> Kernel:
    """Return the kernel of `rng`.

    Uniform numbers are in `[a, b)`; normal ones have mean a and standard deviation b.
    """
    element, sizes = at.result.element, at.result.sizes
    world, dtype = at.world, dtype_of(element)
    is_normal = op.rng_distribution.removeprefix("RNG_").upper() == "NORMAL"
    is_float = element.kind == "float"
    if element.kind not in ("float", "signed", "unsigned", "pred"):
        raise UnsupportedError(f"`{op.name}` makes no {element}")
    bits = 64 if element.bits == 64 else 32

    def words(shape: Dims) -> Array:
        counter = _next_state(world, -(-prod(shape) * bits // 128))
        state = np.concatenate([np.array([_SEED], np.uint64), counter])
        return philox_bits(state, shape, bits)[1]

    def kernel(a: Any, b: Any, *given: Any) -> Value:
        is_given = bool(given) and given[0].ndim == 1  # HLO declares the sizes
        shape = tuple(int(n) for n in given[0]) if is_given else tuple(s or 0 for s in sizes)
        if is_normal:
            return _normal(words, shape, bits, a, b).astype(dtype, copy=False)
        if is_float:
            unit = _unit(words(shape), bits)
            wide = unit * (b.astype(unit.dtype) - a.astype(unit.dtype)) + a.astype(unit.dtype)
            return np.asarray(wide.astype(dtype))
        return _integers(words(shape), int(a), int(b), dtype)

    return kernel


def _unit(words: Array, bits: int) -> Array:
    """Return floats in [0, 1), made of the high bits of random words of `bits` bits.

    As many bits are used as the mantissa has.
    """
    mantissa, kind = (52, np.float64) if bits == 64 else (23, np.float32)
    high = (words >> words.dtype.type(bits - mantissa)).astype(kind)
    return np.asarray(high * kind(2.0**-mantissa))


def _integers(words: Array, least: int, most: int, dtype: Any) -> Array:
    """Return integers in `[least, most)` of type `dtype`, made of random words.

    All are `least` if the interval is empty.
    """
    if most <= least:
        return np.full(words.shape, least).astype(dtype)
    found = words % words.dtype.type(most - least)
    shift = words.dtype.type(least % (1 << 8 * words.itemsize))
    return np.asarray((found + shift).astype(dtype))


def _normal(
    words: Callable[[Dims], Array], shape: Dims, bits: int, mean: Any, spread: Any
) -> Array:
    """Return normally distributed numbers of a shape, by the Box-Muller transform.

    Args:
        words: Returns random words of `bits` bits for a shape.
        shape: Shape of the result.
        bits: Bits of a word.
        mean: Mean of the distribution.
        spread: Its standard deviation.
    """
    count = prod(shape)
    unit = _unit(words((2, (count + 1) // 2)), bits)
    # The lower limit avoids the logarithm of 0.
    length = np.sqrt(-2 * np.log(np.maximum(unit[0], unit.dtype.type(1e-7))))
    angle = unit.dtype.type(2 * pi) * unit[1]
    both = np.concatenate([np.sin(angle) * length, np.cos(angle) * length])[:count].reshape(shape)
    return np.asarray(both * spread.astype(unit.dtype) + mean.astype(unit.dtype))
