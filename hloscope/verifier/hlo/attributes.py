"""Attributes that an opcode does not have.

Source: XLA `hlo_parser.cc`, which takes no other attributes than an opcode's own and `COMMON`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser import COMMON, TextInstruction
from hloscope.ir import Instruction, Op
from hloscope.ops import AsyncDone, AsyncStart, AsyncUpdate, UnknownOp
from hloscope.verifier.hlo.types import opcode

_THREAD: Final = "async_execution_thread"
_OF_ASYNCHRONOUS: Final[dict[type[Op], tuple[str, ...]]] = {
    AsyncStart: (_THREAD, "output_to_operand_aliasing"),
    AsyncUpdate: (_THREAD,),
    AsyncDone: (_THREAD,),
}


def check_attributes(ins: Instruction) -> Iterator[Diagnostic]:
    """Has the instruction an attribute that its opcode does not have?

    Reading keeps it: it may be of a newer version of XLA, as an opcode nobody knows is.
    """
    if isinstance(ins.op, UnknownOp):
        return
    extras = ins.known_extras if isinstance(ins, TextInstruction) else ins.extras
    for name, _ in extras:
        if name in COMMON or name in _OF_ASYNCHRONOUS.get(type(ins.op), ()):
            continue
        yield Diagnostic(f"`{opcode(ins)}` has no attribute `{name}`", ins.span)
