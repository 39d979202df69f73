"""Products summed over dimensions: dot, scaled-dot, ragged-dot, einsum."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """Batch and contracting dimensions of both sides, pairwise in order."""

    lhs_batch: Dims
    rhs_batch: Dims
    lhs_contracting: Dims
    rhs_contracting: Dims


@op("dot_general")
@dataclass(frozen=True, slots=True)
class DotGeneral(Op):
    """`result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`; HLO `dot` is the same op.

    Result dimensions: batch, free dimensions of `lhs`, free dimensions of `rhs`.
    Source: StableHLO spec `dot_general`.
    """

    dimensions: DotDimensions
    settings: tuple[tuple[str, str], ...] = ()  # operand_precision, algorithm, sparsity …


@op("dot")
@dataclass(frozen=True, slots=True)
class Dot(Op):
    """StableHLO's old `dot`: contracts the last dimension of `lhs` with the first of `rhs`."""

    settings: tuple[tuple[str, str], ...] = ()


@op("scaled_dot")
@dataclass(frozen=True, slots=True)
class ScaledDot(Op):
    """`dot` of block-scaled operands.  Operands: lhs, rhs, lhs scale, rhs scale."""

    dimensions: DotDimensions
    settings: tuple[tuple[str, str], ...] = ()


@op("ragged_dot")
@dataclass(frozen=True, slots=True)
class RaggedDot(Op):
    """`dot` with one ragged dimension split into groups.  Operands: lhs, rhs, group sizes."""

    dimensions: DotDimensions
    lhs_ragged: Dims
    rhs_group: Dims
    settings: tuple[tuple[str, str], ...] = ()


@op("einsum")
@dataclass(frozen=True, slots=True)
class Einsum(Op):
    """Sum of products by an Einstein summation text."""

    einsum_config: str


@op("unary_einsum")
@dataclass(frozen=True, slots=True)
class UnaryEinsum(Op):
    """`einsum` of one operand."""

    einsum_config: str
