"""XLA's shape inference as an independent opinion on changed HLO programs.

The type of the last instruction is left out: what XLA then infers has to be accepted, and what it
refuses has to be refused.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import hloscope
from tests.oracle import needs_jaxlib
from tests.verifier.hlo_programs import Program, program_of

CHILD: Final = Path(__file__).with_name("inferred_child.py")

_SILENT: Final = r"cannot infer shape for opcode"
_READER_ONLY: Final = (
    r"Reduction function must take 2 parameters, but takes 4",  # it infers one operand's only
    r"opcode: opt-barrier",  # it knows no type of it
    r"scaled-dot",  # it takes the scale of the left side for the right side
    r"requested_map_dimensions_size",  # dimensions left out are not set
    r"Dynamic output feature dim on convolution kernel",  # an XLA restriction of sizes at run time
    r"shape_inference\.cc:\d+\) !operand\.is_unbounded_dynamic\(\)",  # by inference alone
    r"unexpected attribute",  # those no opcode has are kept; others have tests of their own
)
"""What its reader refuses and its verifier, which is not asked here, does not."""
_ELSEWHERE: Final = (
    r"broadcast",  # the reader takes `dimensions` for sizes in front
    r"operand \d of `[\w-]+` has rank \d+, needs \d+",  # scalars are stretched; not by the verifier
    r"dimension \d+: operand \d of",  # and so are dimensions of size 1
    r"needs a token",  # the verifier looks at it, inference does not
    r"`scan`",  # inference does not compare the operands with the body
    r"`dot` has \d operands",
    r"expected one dimension, found \d",  # it takes the first, and drops the others
    r"TransposeOp operand rank",  # declared types of bodies are not inferred
    r"requires compatible types for non-predicate operands",  # nor are precisions compared
    r"`map`: element type of operands and computation arguments",
    r"`sort`",  # inference looks at the operands alone
    r"`scaled-dot`",  # it takes the scale of the left side for the right side
    r"gather_c17|scatter_c17|must have compatible sizes",  # XLA leaves batching sizes open
)
"""What XLA infers a type for, and other rules of its verifier refuse."""


def opinions(texts: list[str]) -> Iterator[list[str] | None]:
    """Yield XLA's answer for each text; `None` where it dies of one."""
    waiting = list(texts)
    while waiting:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(CHILD)],
            input="".join(json.dumps(text) + "\n" for text in waiting),
            capture_output=True,
            text=True,
            check=False,
        )
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        if not replies and done.returncode == 1:
            raise AssertionError(done.stderr[-2000:])
        yield from replies
        waiting = waiting[len(replies) :]
        if waiting:
            yield None
            waiting = waiting[1:]


def typed(program: Program, type_: str) -> Program:
    """The program with another type of its only instruction."""
    return replace(program, lines=(replace(program.lines[0], type=type_),))


@needs_jaxlib
def test_xla_infers_types_for_the_same_programs(full: bool) -> None:
    programs = [p for p in map(program_of, range(20_000 if full else 600)) if len(p.lines) == 1]
    differing, both = [], 0
    for program, answer in zip(
        programs, opinions([typed(p, "").text() for p in programs]), strict=True
    ):
        if answer is None or re.search(_SILENT, answer[1]):
            continue
        verdict, said = answer
        if verdict == "refuses":
            if not hloscope.verify(program.text()) and not re.search("|".join(_READER_ONLY), said):
                differing.append((program.text(), said))
            both += 1
            continue
        inferred = re.findall(r"ROOT r[.\d]* = (.*?) [a-z][a-z0-9-]*\(", said)[-1]
        wrong = hloscope.verify(typed(program, inferred).text())
        if wrong and not re.search("|".join(_ELSEWHERE), str(wrong[0])):
            differing.append((program.text(), str(wrong[0])))
        both += 1
    assert both >= len(programs) / 3
    assert not differing, "\n".join(f"{text}{why}" for text, why in differing)
