"""Tiles through reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.indexing import output_sizes, sizes
from hloscope.ir import Instruction
from hloscope.ops import Reduce, Return, Scan, Sort, TopK, Tuple
from hloscope.tiling.propagation.edges import joined, maybe_empty
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    Fit,
    Propagated,
    parts,
    refuse,
    refused,
    to_operands,
    to_outputs,
    unless,
)
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile, Tile
from hloscope.walks import reached

_CARRIED: Final = "what other steps contribute comes through the carries"


@to_operands(Reduce)
def _(space: TilingSpace, ins: Instruction, op: Reduce, tile: Tile, output: int) -> Answer:
    """Return the operands' tiles: the output's along kept dimensions, own ones along reduced."""
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
    loose = _loose(ins)
    nothing = 0 in sizes(ins.operands[0].type) and count > 1
    others = "without elements an output is its own initial value" if nothing else ""
    init = unless(joined(loose, others, maybe_empty(space, tile.dims)), tile.with_dims(()))
    return parts(*[unless(loose, tile.with_dims(dims))] * count, *[init] * count)


def _loose(ins: Instruction) -> str:
    """Return why an output may not depend on every operand; empty if it does.

    The test follows the operands of each result of the body; a call depends on all its operands.
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
    reason = joined(_loose(ins), maybe_empty(space, dropped))
    return parts(*[unless(reason, tile.with_dims(kept))] * count)


def _scanned(
    space: TilingSpace, op: Scan, tile: Tile, ranks: Sequence[int], *, to_operands: bool
) -> Propagated:
    """Return the tiles of inputs or stacked outputs, and of carries.

    Carries do not have the scanned dimension.
    """
    walked = op.scan_dimension
    line = [d for k, d in enumerate(tile.dims) if k != walked]
    carry = tile.with_dims(line)
    found = [CarriedTile(tile, Fit.UNDER, _CARRIED)] * (len(ranks) - op.num_carries)
    empty = maybe_empty(space, tile.dims[walked : walked + 1])
    fit = unless(empty, carry) if to_operands else CarriedTile(carry, Fit.UNDER, _CARRIED)
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
