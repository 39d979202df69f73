"""Rules about moved data: copies, transposes, large constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, size, texts
from hloscope.checks.subject import Subject
from hloscope.display import opcode_of
from hloscope.fusion import size_in_bytes
from hloscope.ir import Instruction, size_text
from hloscope.movement import is_view
from hloscope.ops import Constant, CopyStart, Fusion, Tuple

_SEEN_THROUGH: Final = ("bitcast", "reshape", "convert")
"""Ops that may follow the copy or transpose of a fusion that does nothing else."""


def _copies(subject: Subject, max_bytes: int, opcodes: tuple[str, ...]) -> Iterator[Finding]:
    """Yield copies and transposes that write more than `max_bytes` in one run."""
    for computation, ins in subject.places():
        for moved in _written(ins):
            opcode = opcode_of(moved).removesuffix("-start")
            target = moved.operands[0] if isinstance(moved.op, CopyStart) else moved
            count = size_in_bytes(target.type)
            if opcode not in opcodes or count <= max_bytes or (moved is ins and is_view(ins)):
                continue
            inside = " that the fusion returns" if moved is not ins else ""
            limit = f", at most {size_text(max_bytes)}" if max_bytes else ""
            message = f"{opcode} of {size_text(count)}{inside}{limit}"
            # Each element that is written is read once.
            yield subject.finding(
                "copies", computation, ins, message, 2 * count, cause=opcode, of_bytes=True
            )


def _written(ins: Instruction) -> list[Instruction]:
    """The instruction; for a fusion, its results before bitcasts, reshapes and converts."""
    if not isinstance(ins.op, Fusion) or len(ins.calls) != 1:
        return [ins] if ins.operands else []
    root = ins.calls[0].root
    found = []
    for result in root.operands if isinstance(root.op, Tuple) else (root,):
        while result.op.name in _SEEN_THROUGH and result.operands:
            result = result.operands[0]
        found.append(result)
    return found


COPIES: Final = Rule(
    "copies",
    "No copies or transposes that write more than some bytes.",
    {
        "max-bytes": Parameter(0, "Smaller ones are allowed.", size),
        "opcodes": Parameter(("copy", "transpose"), "The opcodes to find.", texts),
    },
    _copies,
    of_bytes=True,
)


def _constants(subject: Subject, max_bytes: int) -> Iterator[Finding]:
    for computation, ins in subject.places(everywhere=True):
        if isinstance(ins.op, Constant) and (count := size_in_bytes(ins.type)) > max_bytes:
            message = f"constant of {size_text(count)}, at most {size_text(max_bytes)}"
            yield subject.finding("constants", computation, ins, message, count)


CONSTANTS: Final = Rule(
    "constants",
    "No constants of more than some bytes.",
    {"max-bytes": Parameter(1 << 20, "Smaller ones are allowed.", size)},
    _constants,
)
