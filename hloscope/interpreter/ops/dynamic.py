"""Ops that take sizes as operands, or return them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloscope.interpreter.ops.shape import broadcast, iota, pad, reshaped
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, claim, dtype_of
from hloscope.ops import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
)


def run_time_sizes(given: Any, at: Site) -> list[int]:
    """Return the sizes that an operand gives for the result of an instruction.

    Raises:
        EvaluationError: A size is negative or contradicts the result's type, or the result would
            exceed the memory limit.
    """
    sizes = [int(size) for size in given]
    return checked_sizes(sizes, at)


def checked_sizes(sizes: list[int], at: Site) -> list[int]:
    """Check sizes of the result of an instruction, and return them.

    Raises:
        EvaluationError: A size is negative or contradicts the result's type, or the result would
            exceed the memory limit.
    """
    result = at.result
    if len(sizes) != result.rank or any(
        have < 0 or (want is not None and have != want) or (most is not None and have > most)
        for have, want, most in zip(sizes, result.sizes, result.each_bound, strict=True)
    ):
        declared_text = ", ".join("?" if s is None else str(s) for s in result.most)
        raise EvaluationError(
            f"the result has sizes {sizes}, which are none of its type, [{declared_text}]"
        )
    claim(prod(sizes) * -(-result.element.bits // 8), f"`{at.ins.name}`")
    return sizes


@evaluates(DynamicReshape)
def _dynamic_reshape(op: DynamicReshape, at: Site) -> Kernel:
    """Reshape to run-time sizes, which must have as many elements."""

    def kernel(value: Any, *given: Any) -> Value:
        is_vector = len(given) == 1 and given[0].ndim == 1  # HLO has a scalar for each size
        sizes = run_time_sizes(given[0] if is_vector else given, at)
        if prod(sizes) != value.size:
            raise EvaluationError(f"{value.size} elements cannot have sizes {sizes}")
        return reshaped(value, sizes)

    return kernel


@evaluates(DynamicBroadcastInDim)
def _dynamic_broadcast_in_dim(op: DynamicBroadcastInDim, at: Site) -> Kernel:
    """Broadcast to run-time sizes; operand sizes have to be 1 or equal."""
    dims = op.broadcast_dimensions

    def kernel(value: Any, given: Any) -> Value:
        sizes = run_time_sizes(given, at)
        for d, size in zip(dims, value.shape, strict=True):
            if size not in (1, sizes[d]):
                raise EvaluationError(f"size {size} cannot be broadcast to {sizes[d]}")
        return broadcast(value, dims, sizes)

    return kernel


@evaluates(DynamicIota)
def _dynamic_iota(op: DynamicIota, at: Site) -> Kernel:
    dtype = dtype_of(at.result.element)
    return lambda given: iota(run_time_sizes(given, at), op.iota_dimension, dtype)


@evaluates(DynamicPad)
def _dynamic_pad(op: DynamicPad, at: Site) -> Kernel:
    """Padding by run-time amounts."""

    def kernel(value: Array, padding: Array, *given: Array) -> Value:
        low, high, interior = ([int(x) for x in amounts] for amounts in given)
        if min(interior, default=0) < 0:
            raise EvaluationError(f"interior padding is negative: {interior}")
        ends = zip(value.shape, low, high, interior, strict=True)
        checked_sizes([a + n + max(n - 1, 0) * i + b for n, a, b, i in ends], at)
        return pad(value, padding, low, high, interior)

    return kernel


@evaluates(GetDimensionSize)
def _get_dimension_size(op: GetDimensionSize, at: Site) -> Kernel:
    d = op.dimension
    return lambda x: np.asarray(x.shape[d], np.int32)[()]
