"""Range variables are projected out of maps, and the elements touched stay the same."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, Expr, Interval, Range, evaluate
from hloscope.fusion.traversal import normal
from hloscope.indexing import IndexingMap, Variable
from hloscope.indexing.transform import project_out

PROJECTED = [
    # a window that always has a place
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 7], s0 in [0, 2], s1 in [0, 7], "
     "d0 + s0 + s1 in [2, 9], d0 + s1 in [1, 8]",
     "(d0) -> (d0), domain: d0 in [0, 7]"),
    # what is left says which dimensions have a value
    ("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [6, 20]",
     "(d0) -> (d0), domain: d0 in [3, 9]"),
    ("(d0, d1)[s0] -> (d0), domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 9], "
     "d0 - s0 in [0, 1], s0 + d1 in [4, 4]",
     "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 4], d0 + d1 in [4, 5]"),
    # one factor that is not 1, no gaps
    ("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 2], d0 - s0 * 2 in [0, 1]",
     "(d0) -> (d0), domain: d0 in [0, 5]"),
    # only a sum matters
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 9], s0 in [0, 3], s1 in [0, 1], "
     "(d0 + s0 * 2 + s1) mod 11 in [0, 0]",
     "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 7], (d0 + s0) mod 11 in [0, 0]"),
    # every remainder is there, as many times as the others leave values in a row
    ("(d0)[s0] -> (d0), domain: d0 in [0, 7], s0 in [0, 3], "
     "(d0 + s0) mod 2 in [0, 0], d0 + s0 in [2, 8]",
     "(d0) -> (d0), domain: d0 in [0, 7]"),
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 7], s0 in [0, 3], s1 in [0, 2], "
     "(d0 + s0 + s1 + 1) mod 2 in [0, 0], d0 + s0 + s1 in [3, 9], d0 + s1 in [1, 8]",
     "(d0) -> (d0), domain: d0 in [0, 7]"),
    ("(d0)[s0] -> (d0), domain: d0 in [0, 7], s0 in [0, 4], (d0 - s0 * 3) mod 5 in [1, 1]",
     "(d0) -> (d0), domain: d0 in [0, 7]"),
    ("(d0)[s0] -> (d0), domain: d0 in [0, 7], s0 in [0, 3], (d0 + s0) mod 6 in [1, 3]",
     "(d0) -> (d0), domain: d0 in [0, 7]"),
]  # fmt: skip


@pytest.mark.parametrize(("map", "expected"), PROJECTED)
def test_variables_are_projected_out(map: str, expected: str) -> None:
    before = IndexingMap.parse(map)
    after = project_out(before).simplify()
    assert after == IndexingMap.parse(expected)
    assert before.equals(after)
    assert normal(before) == after


KEPT = [
    # gaps: only even numbers have a value
    "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 4], d0 - s0 * 2 in [0, 0]",
    # two factors that are not 1
    "(d0, d1)[s0] -> (d0), domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 4], "
    "d0 - s0 * 2 in [0, 1], d1 - s0 * 3 in [0, 2]",
    # in a quotient
    "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 4], d0 - (s0 * 3) / 2 in [0, 0]",
    # the sum has gaps
    "(d0)[s0, s1] -> (d0), domain: d0 in [0, 9], s0 in [0, 3], s1 in [0, 1], "
    "(d0 + s0 * 3 + s1) mod 5 in [0, 0]",
    # not every remainder is there, or not always
    "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 2], (d0 + s0) mod 6 in [1, 3]",
    "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 9], (d0 + s0 * 2) mod 4 in [0, 0]",
    "(d0)[s0] -> (d0), domain: d0 in [0, 8], s0 in [0, 3], (d0 + s0) mod 2 in [1, 1], "
    "d0 + s0 in [2, 8]",
    # it is a result
    "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [6, 9]",
]  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_what_could_not_be_said_exactly_stays(text: str) -> None:
    map = IndexingMap.parse(text)
    assert project_out(map) is map


RANGES = [Range(i) for i in range(3)]
SMALL = st.integers(-3, 3)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    e: Expr = Dim(0) * draw(SMALL) + draw(SMALL)
    for s in RANGES:
        e += s * draw(st.sampled_from([-3, -2, -1, -1, 0, 1, 1, 1, 2]))
    kind = draw(st.integers(0, 5))
    divisor = draw(st.integers(2, 4))
    return e // divisor if kind == 0 else e % divisor if kind == 1 else e


@st.composite
def maps(draw: st.DrawFn) -> IndexingMap:
    sizes = [draw(st.integers(1, 4)) for _ in RANGES]
    constraints = []
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(-4, 4))
        constraints.append((draw(expressions()), Interval(low, low + draw(st.integers(0, 6)))))
    results = [Dim(0), RANGES[2]] if draw(st.booleans()) else [Dim(0)]
    return IndexingMap(
        [Variable(Interval(0, 5))],
        [Variable(Interval.of_size(size)) for size in sizes],
        results=results,
        constraints=constraints,
    )


def touched(map: IndexingMap) -> set[tuple[int, ...]]:
    names = list(map.box)
    found = set()
    for values in product(*map.box.values()):
        at = dict(zip(names, values, strict=True))
        if all(evaluate(e, at) in interval for e, interval in map.constraints):
            found.add((at[Dim(0)], *[evaluate(e, at) for e in map.results]))
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(maps())
def test_the_elements_touched_are_the_same(map: IndexingMap) -> None:
    after = project_out(map)
    assert len(after.ranges) <= len(map.ranges)
    assert touched(after) == touched(map)


@settings(max_examples=40, deadline=None)
@given(maps())
def test_the_relations_are_proved_equal(map: IndexingMap) -> None:
    assert map.equals(project_out(map))
