"""Tiles through collectives: reads of the arrays of other devices."""

from __future__ import annotations

from typing import Final

from hloscope.affine import ONE, Const, floordiv, mod
from hloscope.indexing import output_sizes, sizes
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    CrossReplicaSum,
    RaggedAllToAll,
    ReduceScatter,
)
from hloscope.tiling.propagation.edges import ends_inside, starts_inside
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
from hloscope.tiling.tile import DimTile, Tile

_BETWEEN: Final = "tiles are not carried to other devices through it"
_CROSSES: Final = "of a tile that crosses into the part of the next device the rest is missed"


@to_operands(AllReduce, CrossReplicaSum)
def _(space: TilingSpace, ins: Instruction, op: AllReduce, tile: Tile, output: int) -> Answer:
    """Return the output's tile: on one device the same elements are read."""
    others = "" if len(ins.operands) == 1 else "of several arrays only one is reduced to an output"
    return parts(*[unless("" if k == output else others, tile) for k in range(len(ins.operands))])


@to_operands(AllGather)
def _(space: TilingSpace, ins: Instruction, op: AllGather, tile: Tile, output: int) -> Answer:
    """Return the tile in one part.

    The part that contains it is the device's position in the group.
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
    crosses = at.last - (part - 1)
    if space.is_symbolic:
        return CarriedTile(tile, Fit.UNCHECKED, "whether a tile crosses into the next part")
    if not starts_inside(space, here):
        return CarriedTile(
            tile, Fit.UNDER, "a tile that begins below 0 is taken for one before the first"
        )
    if space.bounds(space.simplify(crosses)).hi > 0:
        return CarriedTile(tile, Fit.UNDER, _CROSSES)
    if here.upper_bound is not Const(whole) and not ends_inside(space, here):
        return CarriedTile(tile, Fit.OVER, "an upper bound within a part is not kept")
    return CarriedTile(tile)


refuse(
    AllGather,
    AllReduce,
    CrossReplicaSum,
    reason="a part reaches every device of the group",
    ways=(Way.TO_OUTPUTS,),
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
