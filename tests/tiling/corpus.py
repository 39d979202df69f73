"""The cases of XLA's tiling tests, and how they are read."""

from __future__ import annotations

import json
import re
from functools import lru_cache, reduce
from operator import and_, or_
from typing import Any

from hloscope.affine import Dim, parse_expr
from hloscope.affine.interval import Interval
from hloscope.tiling import ConstraintExpression, Within
from tests.conftest import SHARED


@lru_cache
def load(name: str) -> list[dict[str, Any]]:
    """The cases of one file; none where the data is absent."""
    path = SHARED / "conformance/xla" / f"{name}.json"
    return json.loads(path.read_text())["cases"] if path.exists() else []


_ATOM = re.compile(r"\s*(.+?) in \[(-?\d+), (-?\d+)\]\s*$")


def _split(text: str, sign: str) -> list[str]:
    """The parts between signs that are in no bracket."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and text.startswith(sign, i):
            parts.append(text[start:i].strip())
            start = i + len(sign)
    return [*parts, text[start:].strip()]


def constraint(text: str) -> ConstraintExpression:
    """An expression of atoms, `&&`, `||` and brackets, built as it is written, from the left."""
    if len(parts := _split(text, "||")) > 1:
        return reduce(or_, map(constraint, parts))
    if len(parts := _split(text, "&&")) > 1:
        return reduce(and_, map(constraint, parts))
    if text in STATES:
        return STATES[text]
    if text.startswith("(") and not text.endswith("]"):
        return constraint(text[1:-1])
    atom = _ATOM.match(text)
    assert atom is not None, text
    e = parse_expr(atom[1], {f"{kind}{i}": Dim(i) for i in range(20) for kind in "vd"})
    return ConstraintExpression(((Within(e, Interval(int(atom[2]), int(atom[3]))),),))


STATES = {
    "always satisfied": ConstraintExpression.ALWAYS,
    "unsatisfiable": ConstraintExpression(),
}
