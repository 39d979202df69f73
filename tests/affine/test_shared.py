"""Names for repeated parts of long expressions."""

from __future__ import annotations

from collections import Counter

import pytest

from hloscope.affine import Dim, Expr, children, postorder, rebuild
from hloscope.affine.text import LARGE, LONG, SHORT, is_long, shared

A, B, C = Dim(0), Dim(1), Dim(2)
SHARED_PARTS = {
    "long": [(A * 3 + B) // 5 // 2 % 3],
    "a sum of a part": [((A * 3 + B) // 5 + A + B) // 3, ((A * 3 + B) // 5 + A + B) % 7],
    "a longer sum": [((A * 3 + B) // 5 + A + B + C) // 3, ((A * 3 + B) // 5 + A + B + C) % 7],
    "short": [A // 2, A // 2 + B],
    "a part of a part": [((A * 3 + B) // 5 // 4 + A) % 7, (A * 3 + B) // 5, (A * 3 + B) // 5 // 4],
}


@pytest.mark.parametrize("name", SHARED_PARTS)
def test_repeated_parts_get_a_name_if_they_are_long(name: str) -> None:
    roots = SHARED_PARTS[name] * 80
    found = shared(roots, ["t0"])
    meaning: dict[Expr, Expr] = {}
    for variable, part in found.parts:
        meaning[variable] = substituted(part, meaning)
    assert [substituted(e, meaning) for e in found.roots] == roots
    assert [*found.names.values()] == [f"t{k + 1}" for k in range(len(found.parts))]
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
    roots = [(A * 3 + B) // 5 // 2, (A * 3 + B) // 5 % 2]
    assert shared(roots).roots == roots
    assert shared(roots).parts == []


@pytest.mark.parametrize("more", [0, 1])
def test_expressions_are_long_beyond_a_number_of_divisions_or_nodes(more: int) -> None:
    assert is_long([A // 2] * (LONG + more)) == bool(more)
    assert is_long([A + B] * (LARGE - 1 + more)) == bool(more)
