"""Products summed over dimensions: dot, scaled-dot, ragged-dot, einsum."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ir.types import TensorType
from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    Extent,
    array,
    check_dims,
    count,
    extents,
    may_equal,
    merged,
    require,
    tensors,
    wider,
    without,
)


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """Batch and contracting dimensions of both sides, pairwise in order."""

    lhs_batch: Dims
    rhs_batch: Dims
    lhs_contracting: Dims
    rhs_contracting: Dims


def _contracted(
    op: str, dims: DotDimensions, lhs: TensorType, rhs: TensorType, *, sparse: bool = False
) -> list[Extent]:
    """Sizes of the result: batch, free dimensions of `lhs`, free dimensions of `rhs`."""
    pairs = (
        ("batch", dims.lhs_batch, dims.rhs_batch, "c1", "c9"),
        ("contracting", dims.lhs_contracting, dims.rhs_contracting, "c2", "c10"),
    )
    check_dims(
        dims.lhs_batch + dims.lhs_contracting,
        lhs.rank,
        "dimensions of lhs",
        unique="dot_general_c3",
        inside="dot_general_c5",
    )
    check_dims(
        dims.rhs_batch + dims.rhs_contracting,
        rhs.rank,
        "dimensions of rhs",
        unique="dot_general_c4",
        inside="dot_general_c7",
    )
    left, right = extents(lhs), extents(rhs)
    for what, of_left, of_right, number, size in pairs:
        require(
            len(of_left) == len(of_right),
            f"dot_general_{number}",
            f"{len(of_left)} {what} dimensions of lhs, {len(of_right)} of rhs",
        )
        for i, j in zip(of_left, of_right, strict=True):
            require(
                may_equal(left[i], right[j]) or (sparse and what == "contracting"),
                f"dot_general_{size}",
                f"{what} dimension {i} of `{op}` has size {left[i][0]}, {j} of rhs {right[j][0]}",
            )
    batch = [merged(left[i], right[j]) for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True)]
    return [
        *batch,
        *without(left, dims.lhs_batch + dims.lhs_contracting),
        *without(right, dims.rhs_batch + dims.rhs_contracting),
    ]


@op("dot_general")
class DotGeneral(Op):
    """`result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`; HLO `dot` is the same op.

    Result dimensions: batch, free dimensions of `lhs`, free dimensions of `rhs`.  A program may
    write another element type of the result than the wider one of the operands.
    Source: StableHLO spec `dot_general`.
    """

    dimensions: DotDimensions
    settings: tuple[tuple[str, str], ...] = ()  # operand_precision, algorithm, sparsity …

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2, at_least=True)
        lhs, rhs = tensors(self.name, operands[:2])
        sparse = any(name == "sparsity" for name, _ in self.settings)
        dims = _contracted(self.name, self.dimensions, lhs, rhs, sparse=sparse)
        return array(wider(lhs.element, rhs.element), dims)


@op("dot")
class Dot(Op):
    """StableHLO's old `dot`: contracts the last dimension of `lhs` with the first of `rhs`."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        lhs, rhs = tensors(self.name, operands)
        require(
            lhs.rank in (1, 2) and rhs.rank in (1, 2),
            "",
            f"operands of `dot` have ranks {lhs.rank} and {rhs.rank}, need 1 or 2",
        )
        dims = _contracted(self.name, DotDimensions((), (), (lhs.rank - 1,), (0,)), lhs, rhs)
        return array(wider(lhs.element, rhs.element), dims)


@op("scaled_dot")
class ScaledDot(Op):
    """`dot` of block-scaled operands.  Operands: lhs, rhs, lhs scale, rhs scale."""

    dimensions: DotDimensions
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 4)
        lhs, rhs, _, _ = tensors(self.name, operands)
        dims = _contracted(self.name, self.dimensions, lhs, rhs)
        return array(wider(lhs.element, rhs.element), dims)


@op("ragged_dot")
class RaggedDot(Op):
    """`dot` with one ragged dimension split into groups.  Operands: lhs, rhs, group sizes."""

    dimensions: DotDimensions
    lhs_ragged: Dims
    rhs_group: Dims
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 3)
        lhs, rhs, sizes = tensors(self.name, operands)
        check_dims(self.lhs_ragged, lhs.rank, "ragged dimensions of lhs", unique="", inside="")
        check_dims(self.rhs_group, rhs.rank, "group dimensions of rhs", unique="", inside="")
        dims = self.dimensions
        kept = [d for d in range(rhs.rank) if d not in self.rhs_group]
        place = {d: i for i, d in enumerate(kept)}
        group_free = DotDimensions(
            dims.lhs_batch,
            tuple(place[d] for d in dims.rhs_batch),
            dims.lhs_contracting,
            tuple(place[d] for d in dims.rhs_contracting),
        )
        one_group = array(rhs.element, [extents(rhs)[d] for d in kept])
        result = _contracted(self.name, group_free, lhs, one_group)
        if set(self.lhs_ragged) & set(dims.lhs_contracting):
            result = [extents(sizes)[-1], *result]
        return array(wider(lhs.element, rhs.element), result)


@op("einsum")
class Einsum(Op):
    """Sum of products by an Einstein summation text."""

    einsum_config: str


@op("unary_einsum")
class UnaryEinsum(Op):
    """`einsum` of one operand."""

    einsum_config: str
