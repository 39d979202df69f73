"""Ops about sizes known only at run time."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("dynamic_reshape")
@dataclass(frozen=True, slots=True)
class DynamicReshape(Op):
    """`reshape` to sizes given by operands."""


@op("dynamic_broadcast_in_dim")
@dataclass(frozen=True, slots=True)
class DynamicBroadcastInDim(Op):
    """`broadcast_in_dim` to sizes given by operand 1."""

    broadcast_dimensions: Dims
    known_expanding_dimensions: Dims | None = None
    known_nonexpanding_dimensions: Dims | None = None


@op("dynamic_iota")
@dataclass(frozen=True, slots=True)
class DynamicIota(Op):
    """`iota` of sizes given by operand 0."""

    iota_dimension: int


@op("dynamic_pad")
@dataclass(frozen=True, slots=True)
class DynamicPad(Op):
    """`pad` with amounts given by operands 2, 3 and 4."""


@op("get_dimension_size")
@dataclass(frozen=True, slots=True)
class GetDimensionSize(Op):
    """Size of a dimension as a scalar."""

    dimension: int


@op("set_dimension_size")
@dataclass(frozen=True, slots=True)
class SetDimensionSize(Op):
    """The operand with a dimension's run-time size set."""

    dimension: int
