"""Propagation of a tile through one instruction, to its operands or to its outputs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.indexing import output_sizes
from hloscope.ir import Instruction
from hloscope.ops import (
    OPS,
    AddDependency,
    AfterAll,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Composite,
    CopyDone,
    CopyStart,
    CreateToken,
    CustomCall,
    Domain,
    Fusion,
    GetTupleElement,
    ManualComputation,
    OptimizationBarrier,
    Parameter,
    PartitionId,
    ReduceWindow,
    ReplicaId,
    Return,
    SelectAndScatter,
    ShardingConstraint,
    Tuple,
    UnknownOp,
    While,
)
from hloscope.tiling.propagation import arithmetic, movement, reshape  # noqa: F401  (rules)
from hloscope.tiling.propagation.registry import (
    Answer,
    Entry,
    Propagated,
    TileDirection,
    entry_of,
    exact,
    refuse,
    to_operands,
    to_outputs,
)
from hloscope.tiling.space import UNFIT, TilingSpace
from hloscope.tiling.tile import Refusal, RefusalCode, Tile

# --------------------------------------------------------------------------------------------------
# Propagation of a tile through an instruction, to its operands or to its outputs.


def propagate_to_operands(
    space: TilingSpace,
    ins: Instruction,
    tile: Tile,
    output: int = 0,
    *,
    beyond_xla: bool = False,
) -> Answer:
    """Return the tiles of the operands on which a tile of an output depends, or a refusal.

    Args:
        space: The tiling space of the kernel that the instruction is in.
        ins: The instruction.
        tile: The tile of one of its output arrays.
        output: Number of that array in its value.
        beyond_xla: Whether to propagate also through ops that XLA refuses, if tiles exist.

    Source: XLA's experimental `PropagateTileToInput`.
    """
    return _carried(TileDirection.TO_OPERANDS, space, ins, tile, output, beyond_xla)


def propagate_to_outputs(
    space: TilingSpace,
    ins: Instruction,
    tile: Tile,
    operand: int = 0,
    *,
    beyond_xla: bool = False,
) -> Answer:
    """Return the tiles of the outputs that depend on a tile of an operand, or a refusal.

    Args:
        space: The tiling space of the kernel that the instruction is in.
        ins: The instruction.
        tile: The tile of one of its operands.
        operand: Number of that operand.
        beyond_xla: Whether to propagate also through ops that XLA refuses, if tiles exist.

    Source: XLA's experimental `PropagateTileToOutput`.
    """
    return _carried(TileDirection.TO_OUTPUTS, space, ins, tile, operand, beyond_xla)


def _carried(
    direction: TileDirection,
    space: TilingSpace,
    ins: Instruction,
    tile: Tile,
    number: int,
    beyond_xla: bool,
) -> Answer:
    entry = entry_of(direction, type(ins.op)) or Entry(reason="there is no rule")
    no_rule = f"no propagation of tiles {direction} of {ins.op.name}: {entry.reason}"
    answer: Answer = Refusal(RefusalCode.INVALID_ARGUMENT, no_rule)
    try:
        to_outputs = direction is TileDirection.TO_OUTPUTS
        shape = output_sizes(ins.operands[number]) if to_outputs else output_sizes(ins, number)
        if len(tile.dims) != len(shape):
            return Refusal(RefusalCode.INVALID_ARGUMENT, "the tile has another rank", ins)
        if entry.rule is not None:
            answer = entry.rule(space, ins, ins.op, tile, number)
        if isinstance(answer, Refusal) and beyond_xla and entry.beyond is not None:
            more = entry.beyond(space, ins, ins.op, tile, number)
            if isinstance(more, Propagated):
                answer = replace(more, beyond=answer.reason)
    except UnsupportedError as error:
        return Refusal(RefusalCode.UNIMPLEMENTED, error.message, ins)
    except (LookupError, ValueError, ZeroDivisionError, StopIteration):
        return Refusal(RefusalCode.INVALID_ARGUMENT, UNFIT, ins)
    if isinstance(answer, Refusal):
        return replace(answer, instruction=ins)
    parts = [replace(part, tile=space.simplified(part.tile)) for part in answer.parts]
    return replace(answer, parts=tuple(parts))


class TileCoverage(Struct, frozen=True):
    """The directions in which an op has a propagation rule.

    Attributes:
        op: Name of the op.
        to_operands: Is there a rule from outputs to operands?
        to_outputs: Is there a rule from operands to outputs?
        reason: Why a rule is missing.
    """

    op: str
    to_operands: bool
    to_outputs: bool
    reason: str = ""


def tile_coverage() -> tuple[TileCoverage, ...]:
    """Return the directions in which each op has a rule, in alphabetical order of the ops.

    >>> next(row for row in tile_coverage() if row.op == "transpose").to_outputs
    True
    """
    rows = []
    for name, cls in sorted(OPS.items()):
        back, forth = [
            entry_of(direction, cls) or Entry(reason="there is no rule")
            for direction in TileDirection
        ]
        reasons = "; ".join(dict.fromkeys(filter(None, (back.reason, forth.reason))))
        rows.append(TileCoverage(name, back.rule is not None, forth.rule is not None, reasons))
    return tuple(rows)


# --------------------------------------------------------------------------------------------------
# Tiles through tuples, and refusals for control flow and other ops without rules.


@to_operands(GetTupleElement)
@to_outputs(GetTupleElement)
def _(space: TilingSpace, ins: Instruction, op: GetTupleElement, tile: Tile, number: int) -> Answer:
    """Return the tile unchanged: that of the selected tuple element."""
    return exact(tile)


@to_operands(Parameter)
def _(space: TilingSpace, ins: Instruction, op: Parameter, tile: Tile, output: int) -> Answer:
    return exact()


refuse(Parameter, reason="it has no operands", directions=(TileDirection.TO_OUTPUTS,))


@to_operands(Domain, refused="it marks a boundary, and computes nothing")
@to_outputs(Domain, refused="it marks a boundary, and computes nothing")
def _(space: TilingSpace, ins: Instruction, op: Domain, tile: Tile, number: int) -> Answer:
    return exact(tile)


refuse(Tuple, Return, OptimizationBarrier, reason="its value is a tuple, whose arrays have no tile")
refuse(Fusion, Call, Composite, reason="the computation that it calls is tiled by itself")
refuse(While, Case, reason="what its computations do depends on values that are known at run time")
refuse(
    AsyncStart,
    AsyncUpdate,
    AsyncDone,
    CopyStart,
    CopyDone,
    reason="an asynchronous op is not a part of a kernel",
)
refuse(AddDependency, AfterAll, CreateToken, reason="a token has no elements")
refuse(CustomCall, UnknownOp, reason="what it computes is not told")


# --------------------------------------------------------------------------------------------------
# Tiles through ops that divide values among devices.


@to_operands(ShardingConstraint, refused="it marks a boundary, and computes nothing")
@to_outputs(ShardingConstraint, refused="it marks a boundary, and computes nothing")
def _(space: TilingSpace, ins: Instruction, op: ShardingConstraint, tile: Tile, k: int) -> Answer:
    return exact(tile)


refuse(ManualComputation, reason="the computation that it calls is tiled by itself")


# --------------------------------------------------------------------------------------------------
# Op families through which tiles are not propagated, each with its reason.


_OVERLAP: Final = "windows overlap: neighbouring tiles need the same elements"
_AT_RUN_TIME: Final = "where elements come from or go to is read at run time"
_FAMILIES: Final = {
    "batch_norm": "it is several reductions and products in one; decomposed it can be tiled",
    "checking": "it observes a run, and computes nothing",
    "convolution": _OVERLAP,
    "dynamic": "its sizes are known at run time",
    "gather_scatter": _AT_RUN_TIME,
    "linalg": "an element depends on whole matrices or lines",
    "random": "its numbers depend on a state, not on elements",
    "transfers": "it talks to the host or to another device",
}
"""By op family (file of `hloscope.ops`), the reason why its ops have no propagation rules."""

for _cls in OPS.values():
    if _reason := _FAMILIES.get(_cls.__module__.rpartition(".")[2]):
        refuse(_cls, reason=_reason)
refuse(ReduceWindow, reason=_OVERLAP)
refuse(SelectAndScatter, reason=_AT_RUN_TIME)
refuse(PartitionId, ReplicaId, reason="it has no operands; its value is the device's number")
