"""Tiles through slices and updates."""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Const, Expr, Runtime, maximum, minimum
from hloscope.indexing import output_sizes, sizes
from hloscope.ir import Instruction, TensorType
from hloscope.ops import Constant, DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice
from hloscope.tiling.propagation.edges import joined, lost_start, maybe_empty
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    Way,
    parts,
    refuse,
    refused,
    to_operands,
    to_outputs,
    unless,
)
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.space_dimensions import has_scalar_starts
from hloscope.tiling.tile import DimTile, Tile

_OLD = "its starts are one vector, not a scalar for each dimension"
_CLAMPED = "a start that can only be 0 is not read"
_AFFECTED = "a tile of the operand may lie between the elements that are taken"


def _sliced(tile: DimTile, start: Expr, step: int) -> DimTile:
    """Return the operand's tile along one dimension: index `i` reads `start + i * step`."""
    return DimTile(
        tile.offset * step + start,
        tile.size,
        tile.stride * step,
        tile.upper_bound * step + start,
    )


def _sliced_part(
    space: TilingSpace, tile: Tile, starts: Sequence[Expr], steps: Sequence[int]
) -> CarriedTile:
    dims = [
        _sliced(d, start, step) for d, start, step in zip(tile.dims, starts, steps, strict=True)
    ]
    shifted = [d for d, start in zip(tile.dims, starts, strict=True) if start != Const(0)]
    return unless(lost_start(space, shifted), tile.with_dims(dims))


@to_operands(Slice)
def _(space: TilingSpace, ins: Instruction, op: Slice, tile: Tile, output: int) -> Answer:
    return parts(_sliced_part(space, tile, [Const(s) for s in op.start_indices], op.strides))


@to_outputs(Slice, refused=_AFFECTED)
def _(space: TilingSpace, ins: Instruction, op: Slice, tile: Tile, operand: int) -> Answer:
    """Return the output's tile.

    It is exact for steps of 1: indices before the start are cut off at 0.
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
    """Return the start of a slice along a dimension: a clamped constant, or a runtime variable.

    `None` if the slice has no runtime value for the operand.
    """
    number = space.runtime_number(ins, operand)
    if number is None:
        return None
    origin, bounds = space.runtime[number].origin, space.runtime[number].bounds
    if isinstance(origin.op, Constant) and isinstance(origin.type, TensorType):
        value = origin.op.literal.integers(origin.type)
        if value is not None:
            return Const(min(max(value[0], bounds.lo), bounds.hi))
    return Runtime(number)


@to_operands(DynamicSlice)
def _(space: TilingSpace, ins: Instruction, op: DynamicSlice, tile: Tile, output: int) -> Answer:
    starts = [start_of(space, ins, 1 + d) for d in range(len(op.slice_sizes))]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return refused(_OLD)
    empty, rooms = maybe_empty(space, tile.dims), sizes(ins.operands[0].type)
    scalars = [
        unless(joined(_CLAMPED if room == size else "", empty), tile.with_dims(()))
        for room, size in zip(rooms, op.slice_sizes, strict=True)
    ]
    return parts(_sliced_part(space, tile, known, [1] * len(known)), *scalars)


refuse(
    DynamicSlice,
    reason="which elements of the slice a tile of the operand becomes is known at run time",
    ways=(Way.TO_OUTPUTS,),
)
refuse(
    RealDynamicSlice,
    reason="its starts, limits and strides are known at run time",
)


@to_operands(DynamicUpdateSlice, refused="the rule for updates is not there")
def _(
    space: TilingSpace, ins: Instruction, op: DynamicUpdateSlice, tile: Tile, output: int
) -> Answer:
    """Return the operands' tiles. A box cannot leave out the elements that are updated."""
    update, target = sizes(ins.operands[1].type), output_sizes(ins)
    if not has_scalar_starts(ins, len(update), 2):
        return refused(_OLD)
    dims = []
    for d, n, room, start in zip(tile.dims, update, target, ins.operands[2:], strict=True):
        at = _known_start(start, room - n)
        if at is None:
            return refused("where the update lies is known at run time")
        bound = maximum(minimum(d.upper_bound - at, n), 0)
        dims.append(DimTile(d.offset - at, d.size, d.stride, bound))
    over = joined("what is updated is not read", maybe_empty(space, tile.dims))
    scalar = unless(maybe_empty(space, tile.dims), tile.with_dims(()))
    return parts(
        unless(over, tile), CarriedTile(tile.with_dims(dims)), *[scalar] * (len(ins.operands) - 2)
    )


def _known_start(start: Instruction, most: int) -> int | None:
    if isinstance(start.op, Constant) and isinstance(start.type, TensorType):
        value = start.op.literal.integers(start.type)
        if value is not None:
            return min(max(value[0], 0), max(most, 0))
    return None


refuse(
    DynamicUpdateSlice,
    reason="which elements a tile of the update becomes is known at run time",
    ways=(Way.TO_OUTPUTS,),
)
