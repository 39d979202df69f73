"""Tables of all laws; `python -m hloscope.simplifier.laws > docs/laws.md` writes the page."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

from hloscope.simplifier.exact import FITTED
from hloscope.simplifier.quotients import (
    CEILING,
    FLOORDIV,
    KNOWN,
    MAXIMUM,
    MINIMUM,
    MOD,
    MOD_BY_QUOTIENT,
    QUOTIENT,
    REMAINDER,
    ROUNDED_UP,
)
from hloscope.simplifier.rule import Rule
from hloscope.simplifier.sums import EXTREMA_SUMS, PRINTED, SUMS

TABLES: Final[tuple[tuple[str, tuple[Rule[Any], ...]], ...]] = (
    ("Quotients", FLOORDIV),
    ("Remainders", (MOD_BY_QUOTIENT, *MOD)),
    ("Remainders found again", (PRINTED,)),
    ("Ceilings", (CEILING,)),
    ("Sums", (*SUMS, *EXTREMA_SUMS)),
    ("Leaves", (MINIMUM, MAXIMUM, QUOTIENT, REMAINDER, ROUNDED_UP, KNOWN)),
    ("The exact level", (FITTED,)),
)


def page() -> str:
    """Return the Markdown page of all laws."""
    lines = [
        "# The laws of the simplifier",
        "",
        "Written by `python -m hloscope.simplifier.laws > docs/laws.md`; the rows are the code's",
        "own, and `tests/simplifier/test_laws.py` tests each of them. All letters are integers,",
        "`//` rounds down, `%` is never negative; a, c, g, n are positive. `when` is the",
        "condition; that it holds is known from the ranges of variables and from constraints.",
    ]
    for subject, rules in TABLES:
        lines += [
            "",
            f"## {subject}",
            "",
            "| left side | right side | when | what |",
            "|---|---|---|---|",
        ]
        for rule in rules:
            about = first_lines(rule.code.__module__)[rule.code.__name__]
            when = f"`{rule.when}`" if rule.when else ""
            lines.append(f"| `{rule.left}` | `{rule.right}` | {when} | {about} |")
    return "\n".join(lines) + "\n"


def first_lines(module: str) -> dict[str, str]:
    """Return the first docstring line of each function of a module, by function name.

    It is read from the source, as compiled functions have no docstrings.
    """
    path = Path(__file__).parent.joinpath(*module.split(".")[2:]).with_suffix(".py")
    functions = [x for x in ast.parse(path.read_text()).body if isinstance(x, ast.FunctionDef)]
    return {f.name: (ast.get_docstring(f) or "").partition("\n")[0] for f in functions}


if __name__ == "__main__":
    print(page(), end="")
