"""Attributes that belong to other opcodes.

Source: XLA `hlo_parser.cc`, which takes no other attributes than an opcode's own and `COMMON`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser.nodes import TextInstruction
from hloscope.hlo_parser.opcodes import COMMON, SPELLINGS
from hloscope.ir.graph import Instruction
from hloscope.ops.control import AsyncDone, AsyncStart, AsyncUpdate
from hloscope.verifier.hlo.types import opcode

_OF_OTHERS: Final = {name for row in SPELLINGS.values() for name in row.attributes} - {*COMMON}
"""Names that mean something for some opcode; nobody knows what the others are for."""

_OF_ASYNCHRONOUS: Final = {"async_execution_thread", "output_to_operand_aliasing"}


def check_attributes(ins: Instruction) -> Iterator[Diagnostic]:
    """Has the instruction an attribute that other opcodes have, but not its own?

    One that no opcode has may be of a newer version of XLA, and is let pass.
    """
    extras = ins.known_extras if isinstance(ins, TextInstruction) else ins.extras
    for name, _ in extras:
        if name not in _OF_OTHERS:
            continue
        if name in _OF_ASYNCHRONOUS and isinstance(ins.op, AsyncStart | AsyncUpdate | AsyncDone):
            continue
        yield Diagnostic(f"`{opcode(ins)}` has no attribute `{name}`", ins.span)
