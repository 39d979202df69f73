"""Slices with fixed and with run-time starts."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("slice")
@dataclass(frozen=True, slots=True)
class Slice(Op):
    """`result[i] = operand[start_indices + i * strides]`.  All sizes are in elements.

    Source: StableHLO spec `slice`.
    """

    start_indices: Dims
    limit_indices: Dims
    strides: Dims


@op("dynamic_slice")
@dataclass(frozen=True, slots=True)
class DynamicSlice(Op):
    """`result[i] = operand[clamp(0, start, shape(operand) - slice_sizes) + i]`.

    Operands: the array, then one scalar start per dimension (or, in old HLO, one vector).
    """

    slice_sizes: Dims


@op("dynamic_update_slice")
@dataclass(frozen=True, slots=True)
class DynamicUpdateSlice(Op):
    """The operand with `update` written at the clamped start.

    Operands: the array, the update, then one scalar start per dimension (or one vector).
    """


@op("real_dynamic_slice")
@dataclass(frozen=True, slots=True)
class RealDynamicSlice(Op):
    """`slice` whose starts, limits and strides are operands 1, 2 and 3 (vectors)."""
