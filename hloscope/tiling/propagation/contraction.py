"""Tiles through dots: products that are summed over contracted dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import ONE, Runtime, ceildiv, floordiv
from hloscope.indexing import output_sizes, sizes
from hloscope.ir import Dims, Instruction
from hloscope.ops import Dot, DotGeneral, Einsum, RaggedDot, ScaledDot, UnaryEinsum
from hloscope.tiling.propagation.edges import joined, maybe_empty, starts_inside
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    Fit,
    Way,
    parts,
    refuse,
    refused,
    to_operands,
    unless,
)
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.space_dimensions import dot_dimensions
from hloscope.tiling.tile import DimTile, Tile, whole

_NOT_IN_SPACE: Final = "the contracted dimensions are not in the tiling space"


class _Sides:
    """The dimensions of both sides of a product, with their tiles.

    Output dimensions are the batch dimensions, then the free dimensions of the left side, then
    those of the right side.
    """

    def __init__(self, space: TilingSpace, ins: Instruction, tile: Tile) -> None:
        self.space, self.ins, self.tile = space, ins, tile
        self.dimensions = dot_dimensions(ins)
        ranks = [len(sizes(o.type)) for o in ins.operands[:2]]
        self.sides: tuple[dict[int, DimTile], dict[int, DimTile]] = ({}, {})
        self.ranks = ranks

    def free(self, side: int, without: Dims = ()) -> list[int]:
        """Return the free dimensions of a side."""
        d = self.dimensions
        used = (d.lhs_batch + d.lhs_contracting, d.rhs_batch + d.rhs_contracting)[side]
        return [k for k in range(self.ranks[side]) if k not in used + without]

    def give_output(self, dims: Sequence[DimTile], group: Dims = ()) -> None:
        """Assign the tiles of the output's dimensions to batch and free dimensions."""
        d, rest = self.dimensions, iter(dims)
        for left, right in zip(d.lhs_batch, d.rhs_batch, strict=True):
            self.sides[0][left] = self.sides[1][right] = next(rest)
        for side, taken in ((0, ()), (1, group)):
            for k in self.free(side, taken):
                self.sides[side][k] = next(rest)

    def give_contracted(self, position: int) -> bool:
        """Assign own tiles to contracted dimensions, the first at a position.

        Return `False` if one of them is not in the tiling space.
        """
        d = self.dimensions
        pairs = zip(d.lhs_contracting, d.rhs_contracting, strict=True)
        for k, (left, right) in enumerate(pairs):
            number = self.space.number(self.ins, position + k)
            if number is None:
                return False
            self.sides[0][left] = self.sides[1][right] = self.space.own_tile(number)
        return True

    def part(self, side: int, extra: str = "") -> CarriedTile:
        """Return the tile of a side. The other side's free dimensions are dropped."""
        other = [self.sides[1 - side][k] for k in self.free(1 - side) if k in self.sides[1 - side]]
        dims = [self.sides[side][k] for k in range(self.ranks[side])]
        return unless(joined(extra, maybe_empty(self.space, other)), self.tile.with_dims(dims))


def _dot(space: TilingSpace, ins: Instruction, tile: Tile) -> _Sides | None:
    """Return both sides of a product; `None` if a contracted dimension is not in the space."""
    sides = _Sides(space, ins, tile)
    sides.give_output(tile.dims)
    return sides if sides.give_contracted(len(output_sizes(ins))) else None


@to_operands(Dot, DotGeneral)
def _(space: TilingSpace, ins: Instruction, op: DotGeneral, tile: Tile, output: int) -> Answer:
    if len(ins.operands) != 2:
        return refused("the left side of a sparse product has gaps that are known at run time")
    sides = _dot(space, ins, tile)
    return refused(_NOT_IN_SPACE) if sides is None else parts(sides.part(0), sides.part(1))


@to_operands(ScaledDot)
def _(space: TilingSpace, ins: Instruction, op: ScaledDot, tile: Tile, output: int) -> Answer:
    sides = _dot(space, ins, tile)
    if sides is None:
        return refused(_NOT_IN_SPACE)
    both = [sides.part(0), sides.part(1)]
    scales = [
        _scale(space, part, sizes(ins.operands[k].type), sizes(ins.operands[2 + k].type))
        for k, part in enumerate(both)
    ]
    return parts(*both, *scales)


def _scale(space: TilingSpace, part: CarriedTile, whole_sizes: Dims, blocks: Dims) -> CarriedTile:
    """Return the tile of the scales: one for each block of elements, or a scalar for all."""
    if not blocks:
        reason = maybe_empty(space, part.tile.dims)
        return unless(joined(part.reason, reason), part.tile.with_dims(()))
    dims, reasons = [], [part.reason]
    for d, n, count in zip(part.tile.dims, whole_sizes, blocks, strict=True):
        if n == count or not count:
            dims.append(d)
            continue
        block = n // count
        first = floordiv(d.offset, block)
        size = floordiv(d.last, block) - first + 1
        dims.append(DimTile(first, size, ONE, ceildiv(d.upper_bound, block)))
        if d.stride != ONE:
            reasons.append("strides may leave blocks out")
        if not starts_inside(space, d):
            reasons.append("a block may begin below 0")
    return unless(joined(*reasons), part.tile.with_dims(dims))


# Ragged dot: rows are counted from the start of their group, which the emitter adds.


@to_operands(RaggedDot)
def _(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile, output: int) -> Answer:
    (ragged,) = op.lhs_ragged
    if ragged in op.dimensions.lhs_batch:
        sides = _dot(space, ins, tile)
        if sides is None:
            return refused(_NOT_IN_SPACE)
        counts = tile.with_dims([whole(n) for n in sizes(ins.operands[2].type)])
        return parts(sides.part(0), sides.part(1), unless(_ALL_SIZES, counts))
    if ragged in op.dimensions.lhs_contracting:
        return _ragged_contracting(space, ins, op, tile)
    return _ragged_rows(space, ins, op, tile)


_ALL_SIZES: Final = "all group sizes are read"
_IN_GROUP: Final = "indices are counted from the start of a group, which is known at run time"


def _ragged_rows(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile) -> Answer:
    """Return the tiles if rows are grouped: groups are iterated over, and are not in the output."""
    rank = len(output_sizes(ins))
    group, size = space.number(ins, rank), space.runtime_number(ins, 2)
    sides = _Sides(space, ins, tile)
    sides.give_output(tile.dims, op.rhs_group)
    if group is None or size is None or not sides.give_contracted(rank + 1):
        return refused(_NOT_IN_SPACE)
    (ragged,) = op.lhs_ragged
    rows, own = sides.sides[0][ragged], space.own_tile(group)
    sides.sides[0][ragged] = DimTile(rows.offset, rows.size, rows.stride, Runtime(size))
    sides.sides[1][op.rhs_group[0]] = own
    batch = [sides.sides[0][d] for d in op.dimensions.lhs_batch]
    counts = tile.with_dims([*batch, own])
    return _ragged_parts(ins, sides, counts)


def _ragged_contracting(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile) -> Answer:
    """Return the tiles if contracted elements are grouped: the group is output dimension 0."""
    size = space.runtime_number(ins, 2)
    group, *rest = tile.dims
    sides = _Sides(space, ins, tile)
    sides.give_output(rest)
    number = space.number(ins, len(tile.dims))
    if size is None or number is None or len(op.dimensions.lhs_contracting) != 1:
        return refused(_NOT_IN_SPACE)
    own = space.own_tile(number)
    cut = DimTile(own.offset, own.size, own.stride, Runtime(size))
    (left,), (right,) = op.dimensions.lhs_contracting, op.dimensions.rhs_contracting
    sides.sides[0][left] = sides.sides[1][right] = cut
    batch = [sides.sides[0][d] for d in op.dimensions.lhs_batch]
    return _ragged_parts(ins, sides, tile.with_dims([*batch, group]))


def _ragged_parts(ins: Instruction, sides: _Sides, counts: Tile) -> Answer:
    if len(counts.dims) != len(sizes(ins.operands[2].type)):
        counts = counts.with_dims(counts.dims[-1:])
    found = [CarriedTile(sides.part(k).tile, Fit.UNCHECKED, _IN_GROUP) for k in (0, 1)]
    return parts(*found, CarriedTile(counts, Fit.UNCHECKED, _IN_GROUP))


refuse(
    Dot,
    DotGeneral,
    ScaledDot,
    RaggedDot,
    reason="every element of a side reaches a whole line of the output",
    ways=(Way.TO_OUTPUTS,),
)
refuse(Einsum, UnaryEinsum, reason="its dimensions are told by a text that is not looked into")
