"""Ops that move elements without computing: broadcast, reshape, transpose, bitcast and the like."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("broadcast_in_dim")
@dataclass(frozen=True, slots=True)
class BroadcastInDim(Op):
    """`result[i] = operand[i[broadcast_dimensions[d]] or 0 where the operand's size is 1]`.

    HLO's `broadcast` is the same op.  Source: StableHLO spec `broadcast_in_dim`.
    """

    broadcast_dimensions: Dims


@op("broadcast")
@dataclass(frozen=True, slots=True)
class Broadcast(Op):
    """StableHLO's old `broadcast`: adds `broadcast_sizes` as new leading dimensions."""

    broadcast_sizes: Dims


@op("reshape")
@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """Same elements in row-major order under another shape."""

    inferred_dimension: int | None = None


@op("transpose")
@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """`result[i] = operand[j]` with `j[permutation[d]] = i[d]`."""

    permutation: Dims


@op("reverse")
@dataclass(frozen=True, slots=True)
class Reverse(Op):
    """`result[i] = operand[i]` with `i[d]` counted from the end for `d` in `dimensions`."""

    dimensions: Dims


@op("bitcast")
@dataclass(frozen=True, slots=True)
class Bitcast(Op):
    """Same bytes in memory under another type and layout (HLO)."""

    result_layout: str = ""


@op("bitcast_convert")
@dataclass(frozen=True, slots=True)
class BitcastConvert(Op):
    """Same bits as another element type; a narrower one adds a last dimension."""


@op("iota")
@dataclass(frozen=True, slots=True)
class Iota(Op):
    """`result[i] = i[iota_dimension]`."""

    iota_dimension: int


@op("constant")
@dataclass(frozen=True, slots=True)
class Constant(Op):
    """A literal, kept as written until somebody asks for its value."""

    literal: str


@op("concatenate")
@dataclass(frozen=True, slots=True)
class Concatenate(Op):
    """Operands one after the other along `dimension`."""

    dimension: int


@op("pad")
@dataclass(frozen=True, slots=True)
class Pad(Op):
    """`result[low + i * (interior + 1)] = operand[i]`, the padding value elsewhere.  Elements.

    Operands: the array, the padding value.  Negative `low` and `high` cut.
    """

    edge_padding_low: Dims
    edge_padding_high: Dims
    interior_padding: Dims
