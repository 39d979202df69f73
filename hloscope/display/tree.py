"""The call tree of a program's computations, as rows and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from hloscope.display.answer import opcode_of
from hloscope.display.table import Table
from hloscope.ir import Computation


class Branch(NamedTuple):
    """A computation in the tree.

    Attributes:
        computation: Which.
        depth: How many computations are above it.
        opcodes: What calls it from the computation above, and how often.
        is_again: It stands further up in full, with what it calls.
    """

    computation: Computation
    depth: int
    opcodes: Counter[str]
    is_again: bool


def branches(root: Computation) -> Iterator[Branch]:
    """The computations that one calls, directly or not, each expanded at its first occurrence."""
    seen: set[Computation] = set()
    stack: list[Branch] = [Branch(root, 0, Counter(), False)]
    while stack:
        branch = stack.pop()
        computation = branch.computation
        again = computation in seen
        yield branch._replace(is_again=again and any(ins.calls for ins in computation))
        if again:
            continue
        seen.add(computation)
        callers: dict[Computation, Counter[str]] = {}
        for ins in computation:
            for called in dict.fromkeys(ins.calls):
                callers.setdefault(called, Counter())[opcode_of(ins)] += 1
        below = [Branch(c, branch.depth + 1, by, False) for c, by in callers.items()]
        stack += reversed(below)


def tree_table(listed: list[Branch]) -> Table:
    """A row for each computation, indented by its depth."""
    rows = [
        [
            f"{'  ' * b.depth}{b.computation.name}",
            str(len(b.computation)),
            _callers(b.opcodes),
            "above" if b.is_again else _line(b.computation),
        ]
        for b in listed
    ]
    return Table(["computation", "instructions", "called by", "line"], rows, right=[1, 3])


def _callers(opcodes: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in opcodes.items())


def _line(computation: Computation) -> str:
    return str(computation.span.line) if computation.span else ""


def branch_json(branch: Branch) -> dict[str, Any]:
    """One computation of the tree as JSON."""
    computation = branch.computation
    return {
        "name": computation.name,
        "depth": branch.depth,
        "instructions": len(computation),
        "called_by": dict(branch.opcodes),
        "line": computation.span.line if computation.span else None,
    }
