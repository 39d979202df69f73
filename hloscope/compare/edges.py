"""Test arguments that distinguish programs: distinct numbers, start indices at limits, edge values.

Candidates for start indices and sizes are taken from the types and constants of the programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from hloscope.arrays import ml_dtypes
from hloscope.interpreter import TOKEN, Array, Value, byte_size, dtype_of
from hloscope.ir import Computation, QuantizedType, TensorType, TupleType, Type
from hloscope.ops import Constant
from hloscope.walks import reached

_MOST_SIZES: Final = 48
"""Maximum number of sizes and constants of a program that are tried as start indices."""
_ORDINARY: Final = 4
"""Number of first runs with ordinary numbers; floats that are not finite come later."""


def limits_of(computations: Iterable[Computation]) -> tuple[int, ...]:
    """Return integers near which start indices are clamped: sizes, constants, neighbours."""
    sizes: dict[int, None] = {}
    for computation in reached(computations, lambda c: c.callees):
        for ins in computation.instructions:
            if isinstance(ins.type, TensorType):
                sizes.update(dict.fromkeys(n for n in ins.type.sizes if n is not None))
            if isinstance(ins.op, Constant) and len(text := str(ins.op.literal)) < 20:
                text = text.strip()
                if text.removeprefix("-").isdecimal():
                    sizes[int(text)] = None
    some = [*sizes][:_MOST_SIZES]
    # A start is clamped to the array's size minus the slice's size, so differences of sizes are
    # limits.
    gaps = [a - b for a in some[:8] for b in some[:8]]
    near = [n + d for n in (*some, *gaps) for d in (-1, 0, 1)]
    return tuple(dict.fromkeys([*range(-1, 4), *near]))


def edge_arguments(
    types: Sequence[Type], limits: Sequence[int], run: int, device: int = 0
) -> list[Value]:
    """Return the arguments of one run, which depend on the numbers of run and device only.

    Args:
        types: Types of the parameters.
        limits: Numbers that integers are drawn from.
        run: Number of the run, from 0.
        device: Number of the device that gets them.
    """
    generator = np.random.default_rng([run, device])
    # One size for all dynamic dimensions, on all devices, so that operands match.
    unknown = int(np.random.default_rng(run).integers(1, 4))
    return [_value(type_, limits, run, unknown, generator) for type_ in types]


def argument_bytes(types: Iterable[Type]) -> int:
    """Return the bytes of all arguments."""
    return sum(map(byte_size, types))


def _value(
    type_: Type, limits: Sequence[int], run: int, unknown: int, generator: np.random.Generator
) -> Any:
    """Return a value of the type."""
    if isinstance(type_, TupleType):
        parts = [_value(inner, limits, run, unknown, generator) for inner in type_.elements]
        return tuple(parts)
    if not isinstance(type_, TensorType):
        return TOKEN
    shape = tuple(
        min(unknown, unknown if bound is None else bound) if size is None else size
        for size, bound in zip(type_.sizes, type_.each_bound, strict=True)
    )
    element = type_.element
    kind = "signed" if isinstance(element, QuantizedType) else element.kind
    dtype = dtype_of(element)
    made: Array
    if kind == "pred":
        made = generator.integers(0, 2, shape).astype(dtype)
    elif kind in ("signed", "unsigned"):
        made = _integers(shape, dtype, limits, run, generator)
    elif kind == "complex":
        real, imaginary = (_floats(shape, run, generator, np.float32) for _ in range(2))
        with np.errstate(all="ignore"):
            made = (real.astype(np.float64) + 1j * imaginary.astype(np.float64)).astype(dtype)
    else:
        made = _floats(shape, run, generator, dtype)
    return made if shape else made[()]


def _integers(
    shape: tuple[int, ...],
    dtype: Any,
    limits: Sequence[int],
    run: int,
    generator: np.random.Generator,
) -> Array:
    """Return distinct numbers, start indices, small numbers or the limits of the type."""
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    way = generator.random()
    if len(shape) and (run == 0 or way < 0.45):
        return _distinct(shape, generator, low, high).astype(dtype)
    if way < 0.85 or run < _ORDINARY:
        fitting = [n for n in limits if low <= n <= high]
        return _chosen(shape, fitting or [0], dtype, generator)
    if way < 0.93:
        return _chosen(shape, [n for n in range(-3, 4) if low <= n <= high], dtype, generator)
    return _chosen(shape, [n for n in (low, high, -1, 0, 1) if low <= n <= high], dtype, generator)


def _chosen(
    shape: tuple[int, ...], numbers: Sequence[int], dtype: Any, generator: np.random.Generator
) -> Array:
    """Return an array of numbers drawn from a list."""
    at = generator.integers(0, len(numbers), shape)
    exact = np.array(numbers, np.uint64 if max(numbers) >= 1 << 63 else np.int64)
    return np.asarray(exact[at]).astype(dtype)


def _distinct(shape: tuple[int, ...], generator: np.random.Generator, low: int, high: int) -> Array:
    """Return each number once, in random order, as far as the type has enough numbers."""
    count = int(np.prod(shape))
    numbers = generator.permutation(count) % min(high + 1, 1 << 31)
    return np.asarray(numbers).reshape(shape)


def _floats(shape: tuple[int, ...], run: int, generator: np.random.Generator, dtype: Any) -> Array:
    """Return distinct numbers, normally distributed ones, or edge values."""
    info = ml_dtypes.finfo(dtype)
    way = generator.random()
    with np.errstate(all="ignore"):
        if run == 0 or way < 0.3:
            count = int(np.prod(shape))
            numbers = (generator.permutation(count) - count // 2) * 0.25
            return np.asarray(numbers).reshape(shape).astype(dtype)
        if way < 0.75 or run < _ORDINARY:
            return np.asarray(generator.standard_normal(shape)).astype(dtype)
        edges = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan]
        edges += [float(info.max), -float(info.max), float(info.tiny)]
        at = generator.integers(0, len(edges), shape)
        return np.asarray(np.array(edges)[at]).astype(dtype)
