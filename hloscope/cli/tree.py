"""`ls --tree`: the computations of a program, each below the one that calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from hloscope.cli.common import print_json, print_table
from hloscope.display import opcode_of
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Computation, Module

SCHEMA: Final = "hloscope.tree/1"


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
    """The computations that one calls, directly or not, each in full where it comes first."""
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


def print_tree(
    module: Module, file: str, name: str | None, top: int | None, *, as_json: bool
) -> None:
    """Print the tree below the entry, or below the computation of that name."""
    root = module.entry
    if name is not None:
        plain = name.removeprefix("%")
        if plain not in module.computations:
            near = did_you_mean(plain, module.computations)
            raise UnknownNameError(f"no computation `{plain}`{near}")
        root = module.computations[plain]
    listed = list(branches(root))[:top]
    if as_json:
        described = list(map(_described, listed))
        print_json(
            {"schema": SCHEMA, "file": file, "module": module.name, "computations": described}
        )
        return
    rows = [
        [
            f"{'  ' * b.depth}{b.computation.name}",
            str(len(b.computation)),
            _callers(b.opcodes),
            "above" if b.is_again else _line(b.computation),
        ]
        for b in listed
    ]
    print_table(["computation", "instructions", "called by", "line"], rows, [1, 3])
    unreached = len(module.computations) - len({b.computation for b in branches(root)})
    if name is None and unreached:
        click.echo(f"{unreached} computations are not called from {root.name}", err=True)


def _callers(opcodes: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in opcodes.items())


def _line(computation: Computation) -> str:
    return str(computation.span.line) if computation.span else ""


def _described(branch: Branch) -> dict[str, Any]:
    computation = branch.computation
    return {
        "name": computation.name,
        "depth": branch.depth,
        "instructions": len(computation),
        "called_by": dict(branch.opcodes),
        "line": computation.span.line if computation.span else None,
    }
