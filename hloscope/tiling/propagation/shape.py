"""Tiles through data-movement ops; reshapes are in `reshape`."""

from __future__ import annotations

from typing import Final

from hloscope.affine import Const, maximum, minimum
from hloscope.indexing import output_sizes, sizes, trailing
from hloscope.ir import Instruction
from hloscope.ops import (
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Pad,
    Reverse,
    Transpose,
)
from hloscope.tiling.propagation.concatenate import misfit
from hloscope.tiling.propagation.edges import joined, lost_start, maybe_empty
from hloscope.tiling.propagation.elementwise import spread_to_operand, spread_to_output
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    Way,
    although_refused,
    exact,
    parts,
    refuse,
    refused,
    to_operands,
    to_outputs,
    unless,
)
from hloscope.tiling.refusal import RefusalCode
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile, Tile, whole


@to_operands(Constant, Iota)
def _(space: TilingSpace, ins: Instruction, op: Constant, tile: Tile, output: int) -> Answer:
    return exact()


refuse(Constant, Iota, reason="it has no operands", ways=(Way.TO_OUTPUTS,))


@to_operands(Transpose)
def _(space: TilingSpace, ins: Instruction, op: Transpose, tile: Tile, output: int) -> Answer:
    return exact(tile.permuted([op.permutation.index(d) for d in range(len(op.permutation))]))


@to_outputs(Transpose)
def _(space: TilingSpace, ins: Instruction, op: Transpose, tile: Tile, operand: int) -> Answer:
    return exact(tile.permuted(op.permutation))


_BACKWARDS: Final = "its elements are in the opposite order"


@to_operands(Reverse, refused=_BACKWARDS)
@to_outputs(Reverse, refused=_BACKWARDS)
def _(space: TilingSpace, ins: Instruction, op: Reverse, tile: Tile, number: int) -> Answer:
    """Return the same elements counted from the end: first and last are exchanged."""
    dims, reasons = [], []
    for d, (t, n) in enumerate(zip(tile.dims, output_sizes(ins), strict=True)):
        if d not in op.dimensions:
            dims.append(t)
            continue
        dims.append(DimTile(n - 1 - t.last, t.size, t.stride, Const(n)))
        if t.upper_bound is not Const(n):
            reasons.append("an upper bound is a lower bound of the reversed tile")
        reasons.append(lost_start(space, [t]))
    return parts(unless(joined(*reasons), tile.with_dims(dims)))


@to_operands(Concatenate)
def _(space: TilingSpace, ins: Instruction, op: Concatenate, tile: Tile, output: int) -> Answer:
    """Return the tiles of all operands. A tile reads one operand only."""
    d = op.dimension
    extents = [sizes(operand.type)[d] for operand in ins.operands]
    wrong = misfit(space, tile.dims[d], extents)
    if wrong:
        return refused(wrong, RefusalCode.FAILED_PRECONDITION)
    return parts(*_pieces(tile, d, extents))


@although_refused(Way.TO_OPERANDS, Concatenate)
def _(space: TilingSpace, ins: Instruction, op: Concatenate, tile: Tile, output: int) -> Answer:
    """Return the tiles of all operands. A tile of several operands is cut off in each."""
    d = op.dimension
    return parts(*_pieces(tile, d, [sizes(operand.type)[d] for operand in ins.operands]))


def _pieces(tile: Tile, d: int, extents: list[int]) -> list[CarriedTile]:
    found, start = [], 0
    here = tile.dims[d]
    for n in extents:
        bound = maximum(minimum(here.upper_bound - start, n), 0)
        piece = DimTile(here.offset - start, here.size, here.stride, bound)
        found.append(CarriedTile(tile.with_dims([*tile.dims[:d], piece, *tile.dims[d + 1 :]])))
        start += n
    return found


@to_outputs(Concatenate)
def _(space: TilingSpace, ins: Instruction, op: Concatenate, tile: Tile, operand: int) -> Answer:
    d = op.dimension
    start = sum(sizes(o.type)[d] for o in ins.operands[:operand])
    here = tile.dims[d]
    moved = DimTile(here.offset + start, here.size, here.stride, here.upper_bound + start)
    dims = [*tile.dims[:d], moved, *tile.dims[d + 1 :]]
    return parts(unless(lost_start(space, [here]) if start else "", tile.with_dims(dims)))


_INTERIOR: Final = "Can't propagate tile to input of pad op with interior padding"


@to_operands(Pad)
def _(space: TilingSpace, ins: Instruction, op: Pad, tile: Tile, output: int) -> Answer:
    if any(op.interior_padding):
        return refused(_INTERIOR, RefusalCode.UNIMPLEMENTED)
    dims, reasons = [], []
    source = sizes(ins.operands[0].type)
    for t, low, n in zip(tile.dims, op.edge_padding_low, source, strict=True):
        dims.append(DimTile(t.offset - low, t.size, t.stride, Const(n)))
        if low < 0:
            reasons.append(lost_start(space, [t]))
        if space.bounds(t.upper_bound - (low + n)).lo < 0:
            reasons.append("an upper bound within the operand is not kept")
    value = joined("the padding value is read by padded elements only")
    pads = any((*op.edge_padding_low, *op.edge_padding_high))
    return parts(
        unless(joined(*reasons), tile.with_dims(dims)),
        unless(value if pads else "it is not read", tile.with_dims(())),
    )


refuse(Pad, reason="from an array to the padded one there is no rule", ways=(Way.TO_OUTPUTS,))


@to_operands(BitcastConvert)
def _(space: TilingSpace, ins: Instruction, op: BitcastConvert, tile: Tile, output: int) -> Answer:
    return _same_bits(space, tile, sizes(ins.operands[0].type), len(output_sizes(ins)))


@to_outputs(BitcastConvert)
def _(space: TilingSpace, ins: Instruction, op: BitcastConvert, tile: Tile, operand: int) -> Answer:
    return _same_bits(space, tile, output_sizes(ins), len(sizes(ins.operands[0].type)))


def _same_bits(space: TilingSpace, tile: Tile, target: tuple[int, ...], rank: int) -> Answer:
    """Return the tile of the same bits in another type.

    The narrower type has one more dimension, whose elements together are one of the wider type.
    """
    if len(target) == rank:
        return exact(tile)
    if len(target) > rank:
        return exact(tile.with_dims([*tile.dims, whole(target[-1])]))
    return parts(unless(maybe_empty(space, tile.dims[-1:]), tile.with_dims(tile.dims[:-1])))


@to_operands(BroadcastInDim)
def _(space: TilingSpace, ins: Instruction, op: BroadcastInDim, tile: Tile, output: int) -> Answer:
    source = sizes(ins.operands[0].type)
    return parts(spread_to_operand(space, tile, source, op.broadcast_dimensions))


@to_outputs(BroadcastInDim)
def _(space: TilingSpace, ins: Instruction, op: BroadcastInDim, tile: Tile, operand: int) -> Answer:
    source = sizes(ins.operands[0].type)
    return parts(spread_to_output(space, tile, source, output_sizes(ins), op.broadcast_dimensions))


@to_operands(Broadcast)
def _(space: TilingSpace, ins: Instruction, op: Broadcast, tile: Tile, output: int) -> Answer:
    source = sizes(ins.operands[0].type)
    return parts(spread_to_operand(space, tile, source, trailing(source, output_sizes(ins))))


@to_outputs(Broadcast)
def _(space: TilingSpace, ins: Instruction, op: Broadcast, tile: Tile, operand: int) -> Answer:
    source, target = sizes(ins.operands[0].type), output_sizes(ins)
    return parts(spread_to_output(space, tile, source, target, trailing(source, target)))
