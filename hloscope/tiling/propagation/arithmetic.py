"""Propagation rules of ops that compute: elementwise ops, dots, reductions, collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import ONE, Const, Runtime, ceildiv, floordiv, mod
from hloscope.indexing import output_sizes, sizes, trailing
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    ConstantLike,
    CrossReplicaSum,
    Dot,
    DotGeneral,
    Einsum,
    Elementwise,
    ImplicitBroadcast,
    Map,
    RaggedAllToAll,
    RaggedDot,
    Reduce,
    ReduceScatter,
    Return,
    ScaledDot,
    Scan,
    Sort,
    TopK,
    Tuple,
    UnaryEinsum,
)
from hloscope.support.walks import reached
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    Propagated,
    TileDirection,
    TilePrecision,
    ends_inside,
    exact,
    exact_unless,
    joined,
    maybe_empty,
    parts,
    refuse,
    refused,
    starts_inside,
    to_operands,
    to_outputs,
)
from hloscope.tiling.space import TilingSpace, dot_dimensions
from hloscope.tiling.tile import UNIT, DimTile, Tile, whole_dimension

# --------------------------------------------------------------------------------------------------
# Tiles through element-wise ops, which may broadcast an operand.


def spread_to_operand(space: TilingSpace, tile: Tile, source: Dims, dims: Dims) -> CarriedTile:
    """Return the tile of a broadcast's operand; a dimension of size 1 is read at 0.

    Args:
        space: The tiling space.
        tile: The output's tile.
        source: Sizes of the operand.
        dims: The output dimension of each operand dimension.
    """
    out = [UNIT if n == 1 else tile.dims[d] for n, d in zip(source, dims, strict=True)]
    read = {d for n, d in zip(source, dims, strict=True) if n != 1}
    dropped = [t for k, t in enumerate(tile.dims) if k not in read]
    return exact_unless(maybe_empty(space, dropped), tile.with_dims(out))


def spread_to_output(
    space: TilingSpace, tile: Tile, source: Dims, target: Dims, dims: Dims
) -> CarriedTile:
    """Return the output's tile of a broadcast.

    In dimensions that the operand lacks, the tile covers the whole dimension.

    Args:
        space: The tiling space.
        tile: The operand's tile.
        source: Sizes of the operand.
        target: Sizes of the output.
        dims: The output dimension of each operand dimension.
    """
    out = [whole_dimension(n) for n in target]
    expanded = []
    for k, d in enumerate(dims):
        if source[k] == target[d]:
            out[d] = tile.dims[k]
        else:
            expanded.append(tile.dims[k])
    return exact_unless(maybe_empty(space, expanded), tile.with_dims(out))


@to_operands(Elementwise, Map, ImplicitBroadcast)
def _(space: TilingSpace, ins: Instruction, op: Elementwise, tile: Tile, output: int) -> Answer:
    """Return the tile of each operand: the output's, or the only element of a scalar."""
    target = output_sizes(ins)
    return parts(
        *[
            spread_to_operand(space, tile, source, trailing(source, target))
            if source != target
            else CarriedTile(tile)
            for source in (sizes(o.type) for o in ins.operands)
        ]
    )


@to_outputs(Elementwise, Map, ImplicitBroadcast)
def _(space: TilingSpace, ins: Instruction, op: Elementwise, tile: Tile, operand: int) -> Answer:
    source, target = sizes(ins.operands[operand].type), output_sizes(ins)
    if source == target:
        return exact(tile)
    return parts(spread_to_output(space, tile, source, target, trailing(source, target)))


refuse(ConstantLike, reason="it reads the sizes of its operand, not its elements")


# --------------------------------------------------------------------------------------------------
# Tiles through dots: products that are summed over contracted dimensions.


_NOT_IN_SPACE: Final = "the contracted dimensions are not in the tiling space"


class _Sides:
    """The tiles of the dimensions of both operands of a product.

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
        """Return the free dimensions of a product's operand (0 left, 1 right), except `without`.

        Free dimensions are neither batch nor contracted dimensions.
        """
        d = self.dimensions
        used = (d.lhs_batch + d.lhs_contracting, d.rhs_batch + d.rhs_contracting)[side]
        return [k for k in range(self.ranks[side]) if k not in used + without]

    def set_from_output(self, dims: Sequence[DimTile], group: Dims = ()) -> None:
        """Set the operands' tiles in batch and free dimensions from the product's output tile.

        Args:
            dims: Tiles of the output's dimensions.
            group: Dimensions of the right operand that are not in the output.
        """
        d, rest = self.dimensions, iter(dims)
        for left, right in zip(d.lhs_batch, d.rhs_batch, strict=True):
            self.sides[0][left] = self.sides[1][right] = next(rest)
        for side, taken in ((0, ()), (1, group)):
            for k in self.free(side, taken):
                self.sides[side][k] = next(rest)

    def set_contracted(self, position: int) -> bool:
        """Set the operands' tiles in contracted dimensions to those of the tiling space.

        Return `False` if a contracted dimension is not in the tiling space.

        Args:
            position: Position of the first contracted dimension among the instruction's dimensions;
                see `Dimension.position`.
        """
        d = self.dimensions
        pairs = zip(d.lhs_contracting, d.rhs_contracting, strict=True)
        for k, (left, right) in enumerate(pairs):
            number = self.space.number(self.ins, position + k)
            if number is None:
                return False
            self.sides[0][left] = self.sides[1][right] = self.space.own_tile(number)
        return True

    def operand_tile(self, side: int, extra: str = "") -> CarriedTile:
        """Return the tile of the product's left (0) or right (1) operand.

        Args:
            side: Number of the operand.
            extra: Further reason why the tile may not be exact; empty without one.
        """
        other = [self.sides[1 - side][k] for k in self.free(1 - side) if k in self.sides[1 - side]]
        dims = [self.sides[side][k] for k in range(self.ranks[side])]
        return exact_unless(
            joined(extra, maybe_empty(self.space, other)), self.tile.with_dims(dims)
        )


def _dot(space: TilingSpace, ins: Instruction, tile: Tile) -> _Sides | None:
    """Return the tiles of both operands of a product, given the output's tile.

    The result is `None` if a contracted dimension is not in the tiling space.
    """
    sides = _Sides(space, ins, tile)
    sides.set_from_output(tile.dims)
    return sides if sides.set_contracted(len(output_sizes(ins))) else None


@to_operands(Dot, DotGeneral)
def _(space: TilingSpace, ins: Instruction, op: DotGeneral, tile: Tile, output: int) -> Answer:
    if len(ins.operands) != 2:
        return refused("the left side of a sparse product has gaps that are known at run time")
    sides = _dot(space, ins, tile)
    return (
        refused(_NOT_IN_SPACE)
        if sides is None
        else parts(sides.operand_tile(0), sides.operand_tile(1))
    )


@to_operands(ScaledDot)
def _(space: TilingSpace, ins: Instruction, op: ScaledDot, tile: Tile, output: int) -> Answer:
    sides = _dot(space, ins, tile)
    if sides is None:
        return refused(_NOT_IN_SPACE)
    both = [sides.operand_tile(0), sides.operand_tile(1)]
    scales = [
        _scale(space, part, sizes(ins.operands[k].type), sizes(ins.operands[2 + k].type))
        for k, part in enumerate(both)
    ]
    return parts(*both, *scales)


def _scale(space: TilingSpace, part: CarriedTile, whole_sizes: Dims, blocks: Dims) -> CarriedTile:
    """Return the tile of the scales of one operand: one scale per block, or a scalar for all.

    Args:
        space: The tiling space.
        part: The tile of the operand.
        whole_sizes: Sizes of the operand.
        blocks: Sizes of the scales; empty for a scalar.
    """
    if not blocks:
        reason = maybe_empty(space, part.tile.dims)
        return exact_unless(joined(part.reason, reason), part.tile.with_dims(()))
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
    return exact_unless(joined(*reasons), part.tile.with_dims(dims))


# Ragged dot: rows are counted from the start of their group, which the emitter adds.


@to_operands(RaggedDot)
def _(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile, output: int) -> Answer:
    (ragged,) = op.lhs_ragged
    if ragged in op.dimensions.lhs_batch:
        sides = _dot(space, ins, tile)
        if sides is None:
            return refused(_NOT_IN_SPACE)
        counts = tile.with_dims([whole_dimension(n) for n in sizes(ins.operands[2].type)])
        return parts(sides.operand_tile(0), sides.operand_tile(1), exact_unless(_ALL_SIZES, counts))
    if ragged in op.dimensions.lhs_contracting:
        return _ragged_contracting(space, ins, op, tile)
    return _ragged_rows(space, ins, op, tile)


_ALL_SIZES: Final = "all group sizes are read"
_IN_GROUP: Final = "indices are counted from the start of a group, which is known at run time"


def _ragged_rows(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile) -> Answer:
    """Return the operands' tiles of a ragged dot whose rows, free on the left, are grouped.

    The group is then a sequential dimension, and not in the output.
    """
    rank = len(output_sizes(ins))
    group, size = space.number(ins, rank), space.runtime_number(ins, 2)
    sides = _Sides(space, ins, tile)
    sides.set_from_output(tile.dims, op.rhs_group)
    if group is None or size is None or not sides.set_contracted(rank + 1):
        return refused(_NOT_IN_SPACE)
    (ragged,) = op.lhs_ragged
    rows, own = sides.sides[0][ragged], space.own_tile(group)
    sides.sides[0][ragged] = DimTile(rows.offset, rows.size, rows.stride, Runtime(size))
    sides.sides[1][op.rhs_group[0]] = own
    batch = [sides.sides[0][d] for d in op.dimensions.lhs_batch]
    counts = tile.with_dims([*batch, own])
    return _ragged_parts(ins, sides, counts)


def _ragged_contracting(space: TilingSpace, ins: Instruction, op: RaggedDot, tile: Tile) -> Answer:
    """Return the operands' tiles of a ragged dot whose contracted elements are grouped.

    The group is then output dimension 0.
    """
    size = space.runtime_number(ins, 2)
    group, *rest = tile.dims
    sides = _Sides(space, ins, tile)
    sides.set_from_output(rest)
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
    found = [
        CarriedTile(sides.operand_tile(k).tile, TilePrecision.UNCHECKED, _IN_GROUP) for k in (0, 1)
    ]
    return parts(*found, CarriedTile(counts, TilePrecision.UNCHECKED, _IN_GROUP))


refuse(
    Dot,
    DotGeneral,
    ScaledDot,
    RaggedDot,
    reason="every element of a side reaches a whole line of the output",
    directions=(TileDirection.TO_OUTPUTS,),
)
refuse(Einsum, UnaryEinsum, reason="its dimensions are told by a text that is not looked into")


# --------------------------------------------------------------------------------------------------
# Tiles through reductions and scans.


_CARRIED: Final = "what other steps contribute comes through the carries"


@to_operands(Reduce)
def _(space: TilingSpace, ins: Instruction, op: Reduce, tile: Tile, output: int) -> Answer:
    """Return the tiles of the operands of a reduction.

    Along reduced dimensions they are those of the tiling space, along others the output's.
    """
    rank, kept = len(output_sizes(ins)), iter(tile.dims)
    dims: list[DimTile] = []
    for d in range(len(sizes(ins.operands[0].type))):
        if d in op.dimensions:
            number = space.number(ins, rank + op.dimensions.index(d))
            if number is None:
                return refused("the reduced dimensions are not in the tiling space")
            dims.append(space.own_tile(number))
        else:
            dims.append(next(kept))
    count = len(ins.operands) // 2
    loose = _why_not_all_operands(ins)
    nothing = 0 in sizes(ins.operands[0].type) and count > 1
    others = "without elements an output is its own initial value" if nothing else ""
    init = exact_unless(joined(loose, others, maybe_empty(space, tile.dims)), tile.with_dims(()))
    return parts(*[exact_unless(loose, tile.with_dims(dims))] * count, *[init] * count)


def _why_not_all_operands(ins: Instruction) -> str:
    """Return why an output of a reduction may not depend on every operand; else "".

    The operands of each result of the body are followed; a call depends on all its operands.
    """
    if not ins.calls:
        return ""
    body = ins.calls[0]
    root = body.root
    results = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    for result in results:
        read = reached([result], lambda value: value.operands)
        if any(parameter not in read for parameter in body.parameters):
            return "an output may not depend on every operand: its body does not"
    return ""


@to_outputs(Reduce)
def _(space: TilingSpace, ins: Instruction, op: Reduce, tile: Tile, operand: int) -> Answer:
    count = len(ins.operands) // 2
    if operand >= count:
        return refused("an initial value reaches every output")
    kept = [d for k, d in enumerate(tile.dims) if k not in op.dimensions]
    dropped = [d for k, d in enumerate(tile.dims) if k in op.dimensions]
    reason = joined(_why_not_all_operands(ins), maybe_empty(space, dropped))
    return parts(*[exact_unless(reason, tile.with_dims(kept))] * count)


def _scanned(
    space: TilingSpace, op: Scan, tile: Tile, ranks: Sequence[int], *, to_operands: bool
) -> Propagated:
    """Return the tiles of a scan's operands or outputs; carries lack the scanned dimension.

    `ranks` has one entry per operand or output; the last ones are carries.
    """
    walked = op.scan_dimension
    line = [d for k, d in enumerate(tile.dims) if k != walked]
    carry = tile.with_dims(line)
    found = [CarriedTile(tile, TilePrecision.UNDER, _CARRIED)] * (len(ranks) - op.num_carries)
    empty = maybe_empty(space, tile.dims[walked : walked + 1])
    fit = (
        exact_unless(empty, carry)
        if to_operands
        else CarriedTile(carry, TilePrecision.UNDER, _CARRIED)
    )
    return Propagated((*found, *[fit] * op.num_carries))


@to_operands(Scan)
def _(space: TilingSpace, ins: Instruction, op: Scan, tile: Tile, output: int) -> Answer:
    outputs = len(ins.type.elements) if hasattr(ins.type, "elements") else 1
    if output >= outputs - op.num_carries:
        return refused("the final carry of a scan comes from all of its steps")
    ranks = [len(sizes(o.type)) for o in ins.operands]
    return _scanned(space, op, tile, ranks, to_operands=True)


@to_outputs(Scan)
def _(space: TilingSpace, ins: Instruction, op: Scan, tile: Tile, operand: int) -> Answer:
    if operand >= len(ins.operands) - op.num_carries:
        return refused("the initial carry of a scan reaches all of its steps")
    outputs = len(ins.type.elements) if hasattr(ins.type, "elements") else 1
    ranks = [len(output_sizes(ins, k)) for k in range(outputs)]
    return _scanned(space, op, tile, ranks, to_operands=False)


refuse(Sort, TopK, reason="where an element comes from depends on the values of its line")


# --------------------------------------------------------------------------------------------------
# Tiles through collectives: reads of the arrays of other devices.


_BETWEEN: Final = "tiles are not carried to other devices through it"
_CROSSES: Final = "of a tile that crosses into the part of the next device the rest is missed"


@to_operands(AllReduce, CrossReplicaSum)
def _(space: TilingSpace, ins: Instruction, op: AllReduce, tile: Tile, output: int) -> Answer:
    """Return the output's tile for each operand: on one device the same elements are read."""
    others = "" if len(ins.operands) == 1 else "of several arrays only one is reduced to an output"
    return parts(
        *[exact_unless("" if k == output else others, tile) for k in range(len(ins.operands))]
    )


@to_operands(AllGather)
def _(space: TilingSpace, ins: Instruction, op: AllGather, tile: Tile, output: int) -> Answer:
    """Return the tile of the operand: that of the output, within one device's part.

    The number of the part is the position of the device in the group.
    """
    if len(ins.operands) != 1 or not isinstance(ins.type, TensorType):
        return refused("several arrays are gathered at once")
    if tile.replicas:
        return refused("an array gathered from arrays that are gathered")
    d = op.all_gather_dim
    part, whole = sizes(ins.operands[0].type)[d], output_sizes(ins)[d]
    if part == 0:
        return refused("the parts have no elements")
    here = tile.dims[d]
    at = DimTile(mod(here.offset, part), here.size, here.stride, Const(part))
    replica = DimTile(floordiv(here.offset, part), ONE, ONE, Const(whole // part))
    dims = [at if k == d else t for k, t in enumerate(tile.dims)]
    return parts(_gathered(space, here, at, part, whole, Tile(tuple(dims), (replica,))))


def _gathered(
    space: TilingSpace, here: DimTile, at: DimTile, part: int, whole: int, tile: Tile
) -> CarriedTile:
    fit, reason = TilePrecision.EXACT, ""
    if space.is_symbolic:
        fit, reason = TilePrecision.UNCHECKED, "whether a tile crosses into the next part"
    elif not starts_inside(space, here):
        fit = TilePrecision.UNDER
        reason = "a tile that begins below 0 is taken for one before the first"
    elif space.bounds(space.simplify(at.last - (part - 1))).hi > 0:
        fit, reason = TilePrecision.UNDER, _CROSSES
    elif here.upper_bound is not Const(whole) and not ends_inside(space, here):
        fit, reason = TilePrecision.OVER, "an upper bound within a part is not kept"
    return CarriedTile(tile, fit, reason)


refuse(
    AllGather,
    AllReduce,
    CrossReplicaSum,
    reason="a part reaches every device of the group",
    directions=(TileDirection.TO_OUTPUTS,),
)
refuse(
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    RaggedAllToAll,
    ReduceScatter,
    reason=_BETWEEN,
)
