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
    """Yield an error for each attribute that the opcode does not have.

    The parser accepts them: they may belong to a newer version of XLA.  An unknown opcode may have
    any attribute.
    """
    if isinstance(ins.op, UnknownOp):
        return
    extras = ins.known_extras if isinstance(ins, TextInstruction) else ins.extras
    for name, _ in extras:
        if name in COMMON or name in _OF_ASYNCHRONOUS.get(type(ins.op), ()):
            continue
        yield Diagnostic(f"`{opcode(ins)}` has no attribute `{name}`", ins.span)
