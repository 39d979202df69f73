"""Reductions, scans, and computations applied to each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.interpreter.numbers.rounding import promoted
from hloscope.interpreter.ops.folding import (
    MONOIDS,
    dtypes,
    fold,
    is_quantized,
    lifted,
    one_or_all,
    reduced,
)
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, Value
from hloscope.ir import TensorType, Type
from hloscope.ops import Map, Reduce, Scan


def _as(kinds: list[np.dtype[Any]], values: tuple[Array, ...]) -> list[Array]:
    """Values converted to other types; accumulators may be wider than the operands."""
    return [promoted(x, t) for x, t in zip(values, kinds, strict=True)]


@evaluates(Reduce)
def _reduce(op: Reduce, at: Site) -> Kernel:
    """Reduction by numpy if the order may change, else by folding whole slices."""
    axes = tuple(sorted(op.dimensions))
    kinds = dtypes(at.results)
    number = len(kinds)
    may_regroup = number == 1 and bool(axes) and not is_quantized(at.results)

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        (body,) = regions
        inputs = _as(kinds, operands[:number])
        inits = tuple(_as(kinds, operands[number:]))
        # Several results depend on each other and quantized ops round, so those are never
        # regrouped.
        if may_regroup and body.monoid in MONOIDS:
            total = reduced(body.monoid, inputs[0], axes, inits[0])
            if total is not None:
                return one_or_all(at, (total,))
        kept = [d for d in range(inputs[0].ndim) if d not in axes]
        shape = [inputs[0].shape[d] for d in kept]
        count = int(np.prod([inputs[0].shape[d] for d in axes], dtype=np.int64))
        rows = tuple([x.transpose(*axes, *kept).reshape(count, *shape) for x in inputs])
        return one_or_all(at, fold(body, inits, rows))

    return kernel


@evaluates(Map)
def _map(op: Map, at: Site) -> Kernel:
    """Application of a computation to each element."""
    kinds = dtypes(at.results)

    def kernel(regions: tuple[Region, ...], *inputs: Array) -> Value:
        return lifted(regions[0], kinds)(*inputs)[0]

    return kernel


@evaluates(Scan)
def _scan(op: Scan, at: Site) -> Kernel:
    """Apply the body to one slice after another along the scanned dimension."""
    axis, number = op.scan_dimension, len(at.ins.operands) - op.num_carries
    results = at.results
    outputs = results[: len(results) - op.num_carries]
    kinds = dtypes(outputs)

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        (body,) = regions
        inputs = [np.moveaxis(x, axis, 0) for x in operands[:number]]
        state: tuple[Value, ...] = operands[number:]
        count = len(inputs[0]) if inputs else op.scan_dim_size or 0
        made: list[list[Value]] = [[] for _ in outputs]
        steps = range(count - 1, -1, -1) if op.is_reverse else range(count)
        # Each step needs the carries of the one before, but computes a whole slice at once.
        for k in steps:
            values = body(*[x[k] for x in inputs], *state)
            for parts, value in zip(made, values, strict=False):
                parts.append(value)
            state = values[len(outputs) :]
        stacked = [
            # Outputs are in the order of the inputs' slices, not of the steps.
            _stack(parts[::-1] if op.is_reverse else parts, axis, t, kind)
            for parts, t, kind in zip(made, outputs, kinds, strict=True)
        ]
        return one_or_all(at, (*stacked, *state))

    return kernel


def _stack(parts: list[Any], axis: int, type_: Type, kind: np.dtype[Any]) -> Array:
    """Stacked slices; zeros without slices."""
    if parts:
        return np.stack(parts, axis)
    assert isinstance(type_, TensorType)
    return np.zeros([size or 0 for size in type_.sizes], kind)
