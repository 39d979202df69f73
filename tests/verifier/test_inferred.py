"""XLA's shape inference as an independent opinion on changed HLO programs.

The type of the last instruction is left out: what XLA then infers has to be accepted, and what it
refuses has to be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import hloscope
from tests.oracle import answers_of_child, needs_jaxlib
from tests.verifier.hlo_programs import Program, program_of

CHILD: Final = Path(__file__).with_name("inferred_child.py")

_SILENT: Final = r"cannot infer shape for opcode"
_READ_OTHERWISE: Final = {
    "broadcast": "without a type, `dimensions` are sizes of new dimensions in front",
    "scaled-dot": "the scale of the left side is taken for the right side",
}
"""Opcodes that mean something else to XLA's reader where their type is not written."""
_READER_ONLY: Final = (
    # It knows no type of it.
    r"opcode: opt-barrier, error: Unknown operation for unary shape inference",
    r"opcode: opt-barrier, error: Expected array argument for operand of unary operation",
    # Where `dimensions` are left out it reads a number that nothing has set.
    r"requested_map_dimensions_size: \d{15}",
)
"""What its reader refuses and its verifier, which is not asked here, does not."""
_VERIFIER_ONLY: Final = (
    # Inference stretches scalars and dimensions of size 1; no instruction may rely on that.
    r"operand \d of `[\w-]+` has rank (0, needs \d+|\d+, needs 0)",
    r"dimension \d+: operand \d of `[\w-]+` has size (1, needs \d+|\d+, needs 1) ",
    # Inference looks at some operands only.
    r"operand 1 of `add-dependency` is .*, needs a token",
    r"`dot` has [34] operands, needs 2",
    # Inference of `sort` and `scan` looks neither at the body nor at kinds of operands.
    r"`sort` has 0 operands, needs 1 or more",
    r"`sort`: comparator ",
    r"`sort`: dimension attribute value must be in range ",
    r"`scan`: 'chlo.scan' op operand and body argument \d+ are incompatible",
    r"operand \d of `(scan|sort)` is \(.*\), needs an array",
    # XLA leaves open what a slice of a batch that the indices do not have is.
    r"operand_batching_dims\[\d\] and start_indices_batching_dims\[\d\] must have compatible sizes",
    r"input_batching_dims\[\d\] and scatter_indices_batching_dims\[\d\] must have compatible sizes",
)
"""What XLA infers a type for, and other rules of its verifier refuse."""
_OVERFLOWN: Final = "-9223372036854775808"
"""How XLA prints an unknown size among those that a scan makes; nobody reads that."""


def is_read_otherwise(program: Program) -> bool:
    """Does XLA's reader infer the type of something else than the verifier checks?"""
    (line,) = program.lines
    some_inputs = line.opcode == "reduce-window" and len(line.operands) > 2  # it takes the first
    return line.opcode in _READ_OTHERWISE or some_inputs


def refusal(text: str) -> str:
    """What the verifier says of the entry first; declared types of bodies are not asked about."""
    entry = text.index("ENTRY")
    found = [d for d in hloscope.verify(text) if d.span is None or d.span.start >= entry]
    return str(found[0]) if found else ""


def opinions(texts: list[str]) -> Iterator[list[str] | None]:
    """XLA's answer for each text; `None` where it dies of one."""
    return answers_of_child(["-W", "ignore", str(CHILD)], texts)


def typed(program: Program, type_: str) -> Program:
    """The program with another type of its only instruction."""
    return replace(program, lines=(replace(program.lines[0], type=type_),))


@needs_jaxlib
def test_xla_infers_types_for_the_same_programs(full: bool) -> None:
    programs = [p for p in map(program_of, range(20_000 if full else 600)) if len(p.lines) == 1]
    programs = [p for p in programs if not is_read_otherwise(p)]
    differing, both = [], 0
    for program, answer in zip(
        programs, opinions([typed(p, "").text() for p in programs]), strict=True
    ):
        if answer is None or re.search(_SILENT, answer[1]) or _OVERFLOWN in answer[1]:
            continue
        verdict, said = answer
        both += 1
        if verdict == "refuses":
            if not hloscope.verify(program.text()) and not re.search("|".join(_READER_ONLY), said):
                differing.append((program.text(), said))
            continue
        inferred = re.findall(r"ROOT r[.\d]* = (.*?) [a-z][a-z0-9-]*\(", said)[-1]
        wrong = refusal(typed(program, inferred).text())
        if wrong and not re.search("|".join(_VERIFIER_ONLY), wrong):
            differing.append((program.text(), wrong))
    assert both >= len(programs) / 3
    assert not differing, "\n".join(f"{text}{why}" for text, why in differing)
