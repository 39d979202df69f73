"""Ops about sizes known only at run time."""

from __future__ import annotations

from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import S32, array, count, extents, require, scalar, tensor


def _check_dimension(op: str, d: int, rank: int) -> None:
    require(0 <= d < rank, f"{op}_c1", f"dimension {d} is not in [0, {rank})")


@op("dynamic_reshape")
class DynamicReshape(Op):
    """`reshape` to sizes given by operands."""


@op("dynamic_broadcast_in_dim")
class DynamicBroadcastInDim(Op):
    """`broadcast_in_dim` to sizes given by operand 1."""

    broadcast_dimensions: Dims
    known_expanding_dimensions: Dims | None = None
    known_nonexpanding_dimensions: Dims | None = None


@op("dynamic_iota")
class DynamicIota(Op):
    """`iota` of sizes given by operand 0."""

    iota_dimension: int


@op("dynamic_pad")
class DynamicPad(Op):
    """`pad` with amounts given by operands 2, 3 and 4."""


@op("get_dimension_size")
class GetDimensionSize(Op):
    """Size of a dimension as a scalar."""

    dimension: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        _check_dimension(self.name, self.dimension, t.rank)
        return array(S32, ())


@op("set_dimension_size")
class SetDimensionSize(Op):
    """The operand with a dimension's run-time size set."""

    dimension: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        t = tensor(self.name, operands[0], "the operand")
        scalar(self.name, operands[1], "the size", "")
        _check_dimension(self.name, self.dimension, t.rank)
        dims = extents(t)
        size, bound = dims[self.dimension]
        dims[self.dimension] = (None, bound if size is None else size)
        return array(t.element, dims)
