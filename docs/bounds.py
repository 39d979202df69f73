"""The bounds of what is read, run, proved and searched, taken from where the code states them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from docs.house import PACKAGE

STATED: Final = {
    "support/limits": (
        "MOST_INPUT MOST_NESTING MOST_DIGITS MOST_LEAVES MOST_ALIASED MOST_DIMENSIONS MOST_ARRAY "
        "MOST_JSON MAX_BYTES MOST_FLOPS MOST_STEPS MOST_THREADS MOST_MEMORY"
    ),
    "fusion/values": "MAX_DEPTH",
    "proof/prover": "BUDGET",
    "proof/allowance": (
        "SECONDS SECONDS_MORE SECONDS_EVERYWHERE SECONDS_EQUAL SECONDS_ALL MAX_MEMORY"
    ),
    "proof/reference": "ENUMERATED MORE_ENUMERATED",
    "proof/execution": "SECONDS_AFTER MOST_PAIRS",
    "proof/devices": "MOST_DEVICES",
    "movement/walking": "MOST_VALUES MOST_COMPUTED",
    "movement/drafts": "MOST_ELEMENTS",
    "cost/slices": "MOST_NODES MOST_NODES_IN_ALL MOST_CALLS MOST_LOOPS",
    "cost/trip_counts": "MOST_STEPS MOST_STEPS_IN_ALL MOST_STEPS_IN_DOUBT MOST_TURNS_LISTED",
    "tiling/sweeping": "MOST MAX_ELEMENTS MAX_DOT_SIDE",
    "display/explorer/program": "MOST_TEXT MOST_LEAVES",
    "api/exploring": "MOST_OUTPUTS MOST_ASKED_FROM",
}
"""Files of the package, and the constants of each that the page shows."""


def rows() -> Iterator[tuple[str, str, str]]:
    """Where a bound stands, its value, and what its docstring says."""
    for file, names in STATED.items():
        tree = ast.parse((PACKAGE / f"{file}.py").read_text())
        said = dict(_documented(tree))
        module = import_module(f"hloscope.{file.replace('/', '.')}")
        for name in names.split():
            yield f"{file}.py", _shown(getattr(module, name)), said[name]


def _documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Constants with the text below them."""
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            yield node.target.id, " ".join(str(after.value.value).split())


def _shown(value: float) -> str:
    """A round number, as a power where it is a large one."""
    if isinstance(value, int) and value >= 1 << 20:
        bits = value.bit_length() - 1
        if value == 1 << bits:
            return f"2^{bits}"
        if value == (2 << bits) - 1:
            return f"2^{bits + 1} - 1"
        digits = len(str(value)) - 1
        if value == 10**digits:
            return f"10^{digits}"
    return f"{value:,}"


def table() -> str:
    """The bounds as Markdown."""
    lines = ["| stated in | bound | of |", "|---|---:|---|"]
    lines += [f"| `{file}` | {value} | {said} |" for file, value, said in rows()]
    return "\n".join(lines) + "\n"
