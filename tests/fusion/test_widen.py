"""Supersets of what is too large to carry along."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, Expr, Interval, Range
from hloscope.fusion.widen import (
    contains_all,
    covers_everything,
    hull,
    join_reasons,
    relaxed,
)
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, IndexingMap, Precision
from tests.fusion.programs import indices

SIZES = (5, 6)
TYPE = parse_type("f32[5,6]")
NUMBERS = st.integers(-2, 2)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    e = Dim(0) * draw(NUMBERS) + Dim(1) * draw(NUMBERS) + Range(0) * draw(NUMBERS)
    e = e + Range(1) * draw(st.sampled_from((0, 0, 1))) + draw(NUMBERS)
    return e // draw(st.sampled_from((1, 1, 2)))


@st.composite
def maps(draw: st.DrawFn) -> IndexingMap:
    """Maps into a tensor of sizes `SIZES`, from one of 3 by 4 elements."""
    results = [draw(expressions()) for _ in SIZES]
    inside = [(e, Interval(0, size - 1)) for e, size in zip(results, SIZES, strict=True)]
    more = draw(st.lists(st.tuples(expressions(), st.just(Interval(0, 2))), max_size=2))
    return IndexingMap.of_sizes((3, 4), (3, 2), results, [*inside, *more])


@settings(deadline=None)
@given(maps())
def test_a_relaxed_map_touches_at_least_the_same(map: IndexingMap) -> None:
    looser = relaxed(map, SIZES)
    assert len(looser.ranges) <= len(SIZES)
    for at in indices((3, 4)):
        points = looser.points(at)
        assert map.points(at) <= points
        assert all(0 <= x < size for p in points for x, size in zip(p, SIZES, strict=True))


@settings(deadline=None)
@given(st.lists(maps().filter(lambda m: not m.is_known_empty), min_size=1, max_size=4))
def test_a_hull_touches_at_least_what_all_the_maps_do(several: list[IndexingMap]) -> None:
    (access,) = hull([Access(map) for map in several], TYPE, "too many")
    assert (access.precision, access.reason) == (Precision.OVER, "too many")
    assert access.map is not None
    for at in indices((3, 4)):
        points = access.map.points(at)
        assert set().union(*(map.points(at) for map in several)) <= points
        assert all(0 <= x < size for p in points for x, size in zip(p, SIZES, strict=True))


@settings(deadline=None)
@given(maps())
def test_what_covers_everything_does(map: IndexingMap) -> None:
    if covers_everything(map, SIZES):
        assert map.points((1, 2)) == set(indices(SIZES))


def test_a_map_of_everything_takes_the_others_in() -> None:
    every = Access(IndexingMap.of_sizes((3, 4), SIZES, (Range(0), Range(1))))
    part = Access(IndexingMap.of_sizes((3, 4), (), (Dim(0), Dim(1))))
    unknown = Access.unknown("?")
    assert contains_all([part, every, unknown], TYPE) == (every, unknown)
    assert contains_all([part, unknown], TYPE) is None
    # One that says everything of fewer elements does not say it of the others.
    narrow = Access(IndexingMap.of_sizes((2, 4), SIZES, (Range(0), Range(1))))
    assert contains_all([part, narrow], TYPE) is None


def test_reasons_are_joined_once_each() -> None:
    assert join_reasons("a; b", "", "b; c") == "a; b; c"
