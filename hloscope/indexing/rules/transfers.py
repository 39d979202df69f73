"""Rules for transfers between devices in two halves: send and receive."""

from __future__ import annotations

from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.control import first_leaves, passed_from, passed_to
from hloscope.indexing.rules.registry import (
    NEVER,
    input_to_output,
    leaves,
    output_to_input,
    without_rule,
)
from hloscope.ir import Instruction, Op
from hloscope.ops import Infeed, Outfeed, Recv, RecvDone, Send, SendDone


@output_to_input(Recv, SendDone, shared=False)
def _(ins: Instruction, op: Op, output: int) -> tuple[Accesses, ...]:
    """Return no accesses: received data comes from no operand, and tokens carry no data."""
    return (NEVER,) * len(ins.operands)


@input_to_output(Recv, SendDone, shared=False)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(leaves(ins.type))


def _passed(ins: Instruction) -> list[int]:
    """Return, for each output, the leaf of operand 0 that it equals; -1 if there is none."""
    if isinstance(ins.op, RecvDone):
        return first_leaves(ins)
    count, outputs = len(leaves(ins.operands[0].type)), len(leaves(ins.type))
    return [k if k < min(count, outputs - 1) else -1 for k in range(outputs)]


@output_to_input(Send, RecvDone)
def _(ins: Instruction, op: Op, output: int) -> tuple[Accesses, ...]:
    """Return the accesses of an output; a send returns (source, context, token)."""
    return passed_from(ins, _passed(ins)[output])


@input_to_output(Send, RecvDone)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    return passed_to(ins, operand, _passed(ins))


without_rule(Infeed, Outfeed, reason="data from or to the host")
