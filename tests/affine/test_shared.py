"""Names for repeated parts of long expressions."""

from __future__ import annotations

from collections import Counter

import pytest

from hloscope.affine import Dim, Expr, children, postorder, rebuild
from hloscope.affine.text import LARGE, LONG, SHORT, is_long, shared

A, B, C = Dim(0), Dim(1), Dim(2)
P, Q = (A * 3 + B) // 5, (A * 7 + C) // 9
SHARED_PARTS = {
    "long": [P // 2 % 3],
    "a sum of a part": [(P + A + B) // 3, (P + A + B) % 7, P % 4],
    "a longer sum": [(P + A + B + C) // 3, (P + A + B + C) % 7, P % 4],
    "a sum of parts": [(P + Q) // 3, (P + Q) // 5, P % 7, Q % 7],
    "short": [A // 2, A // 2 + B],
    "a part of a part": [(P // 4 + A) % 7, P, P // 4],
}


@pytest.mark.parametrize("name", SHARED_PARTS)
def test_repeated_parts_get_a_name_if_they_are_long(name: str) -> None:
    roots = SHARED_PARTS[name] * 80
    found = shared(roots, ["t1"])
    meaning: dict[Expr, Expr] = {}
    for variable, part in found.parts:
        meaning[variable] = substituted(part, meaning)
    assert [substituted(e, meaning) for e in found.roots] == roots
    assert [*found.names.values()] == ["t0", "t2", "t3", "t4", "t5", "t6"][: len(found.parts)]
    written = [*found.roots, *[part for _, part in found.parts]]
    nodes = postorder(*written)
    uses = Counter([*found.roots, *[y for x in nodes for y in children(x)]])
    for variable, part in found.parts:
        assert uses[variable] > 1
        assert text_nodes(part) > SHORT
    for e in nodes:
        assert uses[e] < 2 or text_nodes(e) <= SHORT, e


def substituted(e: Expr, meaning: dict[Expr, Expr]) -> Expr:
    """The expression with the meaning of each name."""
    return meaning[e] if e in meaning else rebuild(e, lambda x: substituted(x, meaning))


def text_nodes(e: Expr) -> int:
    return 1 + sum(map(text_nodes, children(e)))


def test_short_expressions_share_nothing() -> None:
    roots = [P // 2, P % 2]
    assert shared(roots).roots == roots
    assert shared(roots).parts == []


@pytest.mark.parametrize("more", [0, 1])
def test_expressions_are_long_beyond_a_number_of_divisions_or_nodes(more: int) -> None:
    assert is_long([A // 2] * (LONG + more)) == bool(more)
    assert is_long([A + B] * (LARGE - 1 + more)) == bool(more)
