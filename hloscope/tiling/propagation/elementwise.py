"""Tiles through element-wise ops, which may broadcast an operand."""

from __future__ import annotations

from hloscope.indexing import output_sizes, sizes, trailing
from hloscope.ir import Dims, Instruction
from hloscope.ops import ConstantLike, Elementwise, ImplicitBroadcast, Map
from hloscope.tiling.propagation.edges import maybe_empty
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    exact,
    parts,
    refuse,
    to_operands,
    to_outputs,
    unless,
)
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import UNIT, Tile, whole


def spread_to_operand(space: TilingSpace, tile: Tile, source: Dims, dims: Dims) -> CarriedTile:
    """Return the operand's tile, given the output dimension of each operand dimension.

    Dimensions of size 1 are read at 0.
    """
    out = [UNIT if n == 1 else tile.dims[d] for n, d in zip(source, dims, strict=True)]
    read = {d for n, d in zip(source, dims, strict=True) if n != 1}
    dropped = [t for k, t in enumerate(tile.dims) if k not in read]
    return unless(maybe_empty(space, dropped), tile.with_dims(out))


def spread_to_output(
    space: TilingSpace, tile: Tile, source: Dims, target: Dims, dims: Dims
) -> CarriedTile:
    """Return the output's tile of a broadcast: the operand's dimensions, and the others whole."""
    out = [whole(n) for n in target]
    expanded = []
    for k, d in enumerate(dims):
        if source[k] == target[d]:
            out[d] = tile.dims[k]
        else:
            expanded.append(tile.dims[k])
    return unless(maybe_empty(space, expanded), tile.with_dims(out))


@to_operands(Elementwise, Map, ImplicitBroadcast)
def _(space: TilingSpace, ins: Instruction, op: Elementwise, tile: Tile, output: int) -> Answer:
    """Return the output's tile for each operand, and the element of a scalar among arrays."""
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
