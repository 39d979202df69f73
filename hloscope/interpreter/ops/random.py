"""Random numbers: the same bits as XLA, and `rng` from the same generator.

StableHLO does not specify the numbers of `rng` or the `DEFAULT` algorithm.  As in XLA on CPUs it is
Philox here, and every evaluation gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, prod
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.generators import philox_bits, threefry_bits
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, dtype_of
from hloscope.interpreter.world import World
from hloscope.ir import Dims, ElementType, TensorType
from hloscope.ops import Rng, RngBitGenerator, RngGetAndUpdateState

_STATE: Final = "rng"
"""Key of `World.extra`: the 128-bit state that `rng` and `rng-get-and-update-state` share."""
_FIRST: Final = 0x7012395
"""Initial state, that of XLA on CPUs."""
_SEED: Final = 42
_ALGORITHMS: Final = {
    "DEFAULT": philox_bits,
    "PHILOX": philox_bits,
    "THREE_FRY": threefry_bits,
}
_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@evaluates(RngBitGenerator)
def _rng_bit_generator(op: RngBitGenerator, at: Site) -> Kernel:
    """Random bits; elements of fewer than 32 bits are the low bits of 32-bit words."""
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
    """Return the function from words of 32 or 64 bits to elements made of their low bits.

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
    world, delta = at.world, op.delta

    def kernel() -> Value:
        return _next_state(world, delta)

    return kernel


def _next_state(world: World, delta: int) -> Array:
    """Return the two 64-bit words of the shared state, and advance it by `delta`."""
    state: int = world.extra.get(_STATE, _FIRST)
    world.extra[_STATE] = (state + delta) % (1 << 128)
    return np.array([state % (1 << 64), state >> 64], np.uint64)


@evaluates(Rng)
def _rng(op: Rng, at: Site) -> Kernel:
    """Numbers in `[a, b)`, or normally distributed with mean a and deviation b."""
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
        return _whole(words(shape), int(a), int(b), dtype)

    return kernel


def _unit(words: Array, bits: int) -> Array:
    """Floats in [0, 1), made of the high bits of the words, as many as the mantissa has."""
    mantissa, kind = (52, np.float64) if bits == 64 else (23, np.float32)
    high = (words >> words.dtype.type(bits - mantissa)).astype(kind)
    return np.asarray(high * kind(2.0**-mantissa))


def _whole(words: Array, least: int, most: int, dtype: Any) -> Array:
    """Integers in `[least, most)`; all are `least` if the interval is empty."""
    if most <= least:
        return np.full(words.shape, least).astype(dtype)
    found = words % words.dtype.type(most - least)
    shift = words.dtype.type(least % (1 << 8 * words.itemsize))
    return np.asarray((found + shift).astype(dtype))


def _normal(
    words: Callable[[Dims], Array], shape: Dims, bits: int, mean: Any, spread: Any
) -> Array:
    """Normally distributed numbers by the Box-Muller transform."""
    count = prod(shape)
    unit = _unit(words((2, (count + 1) // 2)), bits)
    # The lower limit avoids the logarithm of 0.
    length = np.sqrt(-2 * np.log(np.maximum(unit[0], unit.dtype.type(1e-7))))
    angle = unit.dtype.type(2 * pi) * unit[1]
    both = np.concatenate([np.sin(angle) * length, np.cos(angle) * length])[:count].reshape(shape)
    return np.asarray(both * spread.astype(unit.dtype) + mean.astype(unit.dtype))
