"""Propagation of a tile through an instruction, to its operands or to its outputs."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.indexing import output_sizes, sizes
from hloscope.ir import Dims, Instruction, TupleType
from hloscope.ops import OPS
from hloscope.tiling.propagation import (  # noqa: F401  (registers every rule)
    collectives,
    contraction,
    control,
    elementwise,
    others,
    partition,
    reduction,
    reshape,
    shape,
    slicing,
)
from hloscope.tiling.propagation.registry import Answer, Entry, Propagated, Way, entry_of
from hloscope.tiling.refusal import Refusal, RefusalCode
from hloscope.tiling.space import UNFIT, TilingSpace
from hloscope.tiling.tile import Tile


def propagate_to_operands(
    space: TilingSpace,
    ins: Instruction,
    tile: Tile,
    output: int = 0,
    *,
    beyond_xla: bool = False,
) -> Answer:
    """Return the tiles of the operands that a tile of an output depends on.

    Args:
        space: The tiling space of the kernel that the instruction is in.
        ins: The instruction.
        tile: The tile of one of its arrays.
        output: Number of that array in its value.
        beyond_xla: Also propagate through ops that XLA refuses, if tiles exist.

    Source: XLA's experimental `PropagateTileToInput`.
    """
    return _carried(Way.TO_OPERANDS, space, ins, tile, output, beyond_xla)


def propagate_to_outputs(
    space: TilingSpace,
    ins: Instruction,
    tile: Tile,
    operand: int = 0,
    *,
    beyond_xla: bool = False,
) -> Answer:
    """Return the tiles of the outputs that depend on a tile of an operand.

    Args:
        space: The tiling space of the kernel that the instruction is in.
        ins: The instruction.
        tile: The tile of one of its operands.
        operand: Number of that operand.
        beyond_xla: Also propagate through ops that XLA refuses, if tiles exist.

    Source: XLA's experimental `PropagateTileToOutput`.
    """
    return _carried(Way.TO_OUTPUTS, space, ins, tile, operand, beyond_xla)


def _carried(
    way: Way, space: TilingSpace, ins: Instruction, tile: Tile, number: int, beyond_xla: bool
) -> Answer:
    entry = entry_of(way, type(ins.op)) or Entry(reason="there is no rule")
    answer: Answer = Refusal(RefusalCode.INVALID_ARGUMENT, _no_rule(way, ins, entry.reason))
    try:
        if len(tile.dims) != len(_shape(way, ins, number)):
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
    return _simplified(space, answer)


def _shape(way: Way, ins: Instruction, number: int) -> Dims:
    """Return the sizes of the array whose tile is propagated."""
    if way is Way.TO_OUTPUTS:
        type_ = ins.operands[number].type
        return output_sizes(ins.operands[number]) if isinstance(type_, TupleType) else sizes(type_)
    return output_sizes(ins, number)


def _no_rule(way: Way, ins: Instruction, reason: str) -> str:
    return f"no propagation of tiles {way} of {ins.op.name}: {reason}"


def _simplified(space: TilingSpace, answer: Propagated) -> Propagated:
    if space.is_symbolic:
        return answer
    return replace(
        answer,
        parts=tuple([replace(part, tile=space.simplified(part.tile)) for part in answer.parts]),
    )


class TileCoverage(Struct, frozen=True):
    """Existence of propagation rules for an op.

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
    """Return for each op whether it has rules in both directions, and why not.

    >>> next(row for row in tile_coverage() if row.op == "transpose").to_outputs
    True
    """
    rows = []
    for name, cls in sorted(OPS.items()):
        back, forth = [entry_of(way, cls) or Entry(reason="there is no rule") for way in Way]
        reasons = "; ".join(dict.fromkeys(filter(None, (back.reason, forth.reason))))
        rows.append(TileCoverage(name, back.rule is not None, forth.rule is not None, reasons))
    return tuple(rows)
