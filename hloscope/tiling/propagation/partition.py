"""Tiles through ops that divide values among devices."""

from __future__ import annotations

from hloscope.ir import Instruction
from hloscope.ops import ManualComputation, ShardingConstraint
from hloscope.tiling.propagation.registry import Answer, exact, refuse, to_operands, to_outputs
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import Tile


@to_operands(ShardingConstraint, refused="it marks a boundary, and computes nothing")
@to_outputs(ShardingConstraint, refused="it marks a boundary, and computes nothing")
def _(space: TilingSpace, ins: Instruction, op: ShardingConstraint, tile: Tile, k: int) -> Answer:
    return exact(tile)


refuse(ManualComputation, reason="the computation that it calls is tiled by itself")
