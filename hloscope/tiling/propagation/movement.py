"""Propagation rules of data movement: broadcasts, transposes, concatenations, slices, updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import Const, Dim, Expr, Runtime, is_multiple_of, maximum, minimum, substitute
from hloscope.indexing import output_sizes, sizes, trailing
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    DynamicSlice,
    DynamicUpdateSlice,
    Iota,
    Pad,
    RealDynamicSlice,
    Reverse,
    Slice,
    Transpose,
)
from hloscope.tiling.propagation.arithmetic import spread_to_operand, spread_to_output
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    TileDirection,
    although_refused,
    exact,
    exact_unless,
    joined,
    lost_start,
    maybe_empty,
    parts,
    refuse,
    refused,
    to_operands,
    to_outputs,
)
from hloscope.tiling.space import TilingSpace, has_scalar_starts
from hloscope.tiling.tile import DimTile, RefusalCode, Tile, expression_text, whole_dimension

# --------------------------------------------------------------------------------------------------
# Tiles through data-movement ops; reshapes are in `reshape`.


@to_operands(Constant, Iota)
def _(space: TilingSpace, ins: Instruction, op: Constant, tile: Tile, output: int) -> Answer:
    return exact()


refuse(Constant, Iota, reason="it has no operands", directions=(TileDirection.TO_OUTPUTS,))


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
    """Return the tile with indices counted from the end: its first and last are exchanged."""
    dims, reasons = [], []
    for d, (t, n) in enumerate(zip(tile.dims, output_sizes(ins), strict=True)):
        if d not in op.dimensions:
            dims.append(t)
            continue
        dims.append(DimTile(n - 1 - t.last, t.size, t.stride, Const(n)))
        if t.upper_bound is not Const(n):
            reasons.append("an upper bound is a lower bound of the reversed tile")
        reasons.append(lost_start(space, [t]))
    return parts(exact_unless(joined(*reasons), tile.with_dims(dims)))


@to_operands(Concatenate)
def _(space: TilingSpace, ins: Instruction, op: Concatenate, tile: Tile, output: int) -> Answer:
    """Return the tiles of all operands; a refusal if one tile may read several operands."""
    d = op.dimension
    extents = [sizes(operand.type)[d] for operand in ins.operands]
    wrong = why_not_in_one_operand(space, tile.dims[d], extents)
    if wrong:
        return refused(wrong, RefusalCode.FAILED_PRECONDITION)
    return parts(*_pieces(tile, d, extents))


@although_refused(TileDirection.TO_OPERANDS, Concatenate)
def _(space: TilingSpace, ins: Instruction, op: Concatenate, tile: Tile, output: int) -> Answer:
    """Return the tiles of all operands, each cut off where the operand ends."""
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
    return parts(exact_unless(lost_start(space, [here]) if start else "", tile.with_dims(dims)))


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
        exact_unless(joined(*reasons), tile.with_dims(dims)),
        exact_unless(value if pads else "it is not read", tile.with_dims(())),
    )


refuse(
    Pad,
    reason="from an array to the padded one there is no rule",
    directions=(TileDirection.TO_OUTPUTS,),
)


@to_operands(BitcastConvert)
def _(space: TilingSpace, ins: Instruction, op: BitcastConvert, tile: Tile, output: int) -> Answer:
    return _same_bits(space, tile, sizes(ins.operands[0].type), len(output_sizes(ins)))


@to_outputs(BitcastConvert)
def _(space: TilingSpace, ins: Instruction, op: BitcastConvert, tile: Tile, operand: int) -> Answer:
    return _same_bits(space, tile, output_sizes(ins), len(sizes(ins.operands[0].type)))


def _same_bits(space: TilingSpace, tile: Tile, target: tuple[int, ...], rank: int) -> Answer:
    """Return the tile of the same bits in an array of another element type.

    The narrower type has one more dimension, whose elements together are one of the wider type.
    `target` has the sizes of that array, `rank` is the rank of the array of `tile`.
    """
    if len(target) == rank:
        return exact(tile)
    if len(target) > rank:
        return exact(tile.with_dims([*tile.dims, whole_dimension(target[-1])]))
    return parts(exact_unless(maybe_empty(space, tile.dims[-1:]), tile.with_dims(tile.dims[:-1])))


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


# --------------------------------------------------------------------------------------------------
# XLA's condition that each tile of a concatenation lies within one operand.


_WHERE = "Tiling propagation rejected for Concatenate"


def why_not_in_one_operand(space: TilingSpace, tile: DimTile, extents: Sequence[int]) -> str:
    """Return why a tile may cover parts of several operands; empty if it never does.

    The size of the tile must be a number; otherwise the result is empty. From the first tile on,
    which may begin within an operand, tiles must end where operands do. The last operand may end
    within a tile.

    Args:
        space: The tiling space.
        tile: The tile along the concatenated dimension.
        extents: Sizes of the operands along it.
    """
    if not isinstance(tile.size, Const):
        return ""
    size = tile.size.value
    base = substitute(tile.offset, {Dim(i): 0 for i in range(len(space.dimensions))})
    if not isinstance(base, Const):
        return f"{_WHERE}: The base offset {expression_text(base)} is not a constant"
    if not 0 <= base.value < max(sum(extents), 1):
        return f"{_WHERE}: The base offset {base} is outside of the output"
    if size == 0 or not is_multiple_of(tile.offset - base, size):
        moved = expression_text(tile.offset - base)
        return f"{_WHERE}: The tile offset {moved} must be a clean multiple of its tile size {size}"
    start = 0
    for k, n in enumerate(extents[:-1]):
        end = start + n
        left = min(n, end - base.value)
        if left > 0 and left % size:
            what = "The remaining dimension size" if left < n else "The dimension size"
            return (
                f"{_WHERE}: {what} {left} in the concatenate operand {k} must be a clean multiple"
                f" of its tile size {size}"
            )
        start = end
    return ""


# --------------------------------------------------------------------------------------------------
# Tiles through slices and updates.


_OLD = "its starts are one vector, not a scalar for each dimension"
_CLAMPED = "a start that can only be 0 is not read"
_AFFECTED = "a tile of the operand may lie between the elements that are taken"


def _sliced_part(
    space: TilingSpace, tile: Tile, starts: Sequence[Expr], steps: Sequence[int]
) -> CarriedTile:
    """Return the operand's tile of a slice: along a dimension, `i` reads `start + i * step`."""
    dims = [
        DimTile(d.offset * step + start, d.size, d.stride * step, d.upper_bound * step + start)
        for d, start, step in zip(tile.dims, starts, steps, strict=True)
    ]
    shifted = [d for d, start in zip(tile.dims, starts, strict=True) if start != Const(0)]
    return exact_unless(lost_start(space, shifted), tile.with_dims(dims))


@to_operands(Slice)
def _(space: TilingSpace, ins: Instruction, op: Slice, tile: Tile, output: int) -> Answer:
    return parts(_sliced_part(space, tile, [Const(s) for s in op.start_indices], op.strides))


@to_outputs(Slice, refused=_AFFECTED)
def _(space: TilingSpace, ins: Instruction, op: Slice, tile: Tile, operand: int) -> Answer:
    """Return the output's tile, or a refusal for steps other than 1.

    It is exact: indices before the start are cut off at 0.
    """
    dims = []
    for d, start, step, n in zip(
        tile.dims, op.start_indices, op.strides, output_sizes(ins), strict=True
    ):
        if step != 1:
            return refused(_AFFECTED)
        bound = minimum(d.upper_bound - start, n)
        dims.append(DimTile(d.offset - start, d.size, d.stride, bound))
    return parts(CarriedTile(tile.with_dims(dims)))


def start_of(space: TilingSpace, ins: Instruction, operand: int) -> Expr | None:
    """Return the start of a slice, read from an operand: a clamped constant, or `rt_j`.

    The result is `None` if the tiling space has no run-time value for the operand.
    """
    number = space.runtime_number(ins, operand)
    if number is None:
        return None
    origin, bounds = space.runtime[number].origin, space.runtime[number].bounds
    value = _clamped_constant(origin, bounds.lo, bounds.hi)
    return Runtime(number) if value is None else Const(value)


def _clamped_constant(value: Instruction, low: int, high: int) -> int | None:
    """Return a constant integer, clamped to a range; `None` for other values."""
    if not isinstance(value.op, Constant) or not isinstance(value.type, TensorType):
        return None
    found = value.op.literal.integers(value.type)
    return None if found is None else min(max(found[0], low), high)


@to_operands(DynamicSlice)
def _(space: TilingSpace, ins: Instruction, op: DynamicSlice, tile: Tile, output: int) -> Answer:
    starts = [start_of(space, ins, 1 + d) for d in range(len(op.slice_sizes))]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return refused(_OLD)
    empty, rooms = maybe_empty(space, tile.dims), sizes(ins.operands[0].type)
    scalars = [
        exact_unless(joined(_CLAMPED if room == size else "", empty), tile.with_dims(()))
        for room, size in zip(rooms, op.slice_sizes, strict=True)
    ]
    return parts(_sliced_part(space, tile, known, [1] * len(known)), *scalars)


refuse(
    DynamicSlice,
    reason="which elements of the slice a tile of the operand becomes is known at run time",
    directions=(TileDirection.TO_OUTPUTS,),
)
refuse(
    RealDynamicSlice,
    reason="its starts, limits and strides are known at run time",
)


@to_operands(DynamicUpdateSlice, refused="the rule for updates is not there")
def _(
    space: TilingSpace, ins: Instruction, op: DynamicUpdateSlice, tile: Tile, output: int
) -> Answer:
    """Return the tiles of an update's operands; that of operand 0 includes updated elements.

    They are not read, but a box cannot leave them out.
    """
    update, target = sizes(ins.operands[1].type), output_sizes(ins)
    if not has_scalar_starts(ins, len(update), 2):
        return refused(_OLD)
    dims = []
    for d, n, room, start in zip(tile.dims, update, target, ins.operands[2:], strict=True):
        at = _clamped_constant(start, 0, max(room - n, 0))
        if at is None:
            return refused("where the update lies is known at run time")
        bound = maximum(minimum(d.upper_bound - at, n), 0)
        dims.append(DimTile(d.offset - at, d.size, d.stride, bound))
    over = joined("what is updated is not read", maybe_empty(space, tile.dims))
    scalar = exact_unless(maybe_empty(space, tile.dims), tile.with_dims(()))
    return parts(
        exact_unless(over, tile),
        CarriedTile(tile.with_dims(dims)),
        *[scalar] * (len(ins.operands) - 2),
    )


refuse(
    DynamicUpdateSlice,
    reason="which elements a tile of the update becomes is known at run time",
    directions=(TileDirection.TO_OUTPUTS,),
)
