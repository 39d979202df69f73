"""Supersets of what is too large to carry along."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from hloscope.affine import Dim, Expr, Interval, Range
from hloscope.fusion import overapproximate
from hloscope.fusion.overapproximate import (
    covering_all,
    covers_everything,
    hull,
    is_large,
    join_reasons,
    relaxed,
    simpler,
)
from hloscope.fusion.traversal import AccessInterner, with_accesses
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
@given(maps())
@example(
    IndexingMap.parse(
        "(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 2], d1 in [0, 3], "
        "s0 in [0, 4], d0 + s0 in [1, 4], d0 + d1 in [0, 3]"
    )
)
@example(
    IndexingMap.parse(
        "(d0, d1)[s0, s1] -> (d0, s0), domain: d0 in [0, 2], d1 in [0, 3], "
        "s0 in [0, 4], s1 in [0, 1], s0 + s1 in [2, 3]"
    )
)
def test_what_is_simpler_and_called_exact_touches_the_same(map: IndexingMap) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(overapproximate, "MAX_SIZE", -1)
        found = simpler(Access(map), TYPE)
    assert found.map is not None
    same = all(found.map.points(at) == map.points(at) for at in indices((3, 4)))
    assert same or found.precision is Precision.OVER


def test_a_walk_carries_no_maps_of_many_conditions() -> None:
    """Nor does it change any others."""
    conditions = ", ".join(f"(d0 + s0) mod {k} in [0, {k - 2}]" for k in range(9, 40))
    text = "(d0)[s0] -> (d0, s0 / 9), domain: d0 in [0, 4], s0 in [0, 53]"
    interner = AccessInterner()
    small, large = (
        interner.intern(Access(IndexingMap.parse(each))) for each in (text, f"{text}, {conditions}")
    )
    assert [*with_accesses(interner, {}, [small], TYPE)] == [small]
    both = [*with_accesses(interner, {}, [large, small], TYPE)]
    assert small in both
    assert large not in both
    assert not any(map(is_large, both))


def test_many_conditions_on_what_is_kept_lose_nothing() -> None:
    conditions = ", ".join(f"d0 * {k} + s0 in [0, {99 * k}]" for k in range(2, 40))
    text = f"(d0)[s0] -> (d0, s0), domain: d0 in [0, 99], s0 in [0, 4], {conditions}"
    found = simpler(Access(IndexingMap.parse(text)), parse_type("f32[100,5]"))
    assert found.precision is Precision.EXACT
    folded = text.replace("-> (d0, s0)", "-> (d0, s0 / 2)")
    found = simpler(Access(IndexingMap.parse(folded)), parse_type("f32[100,5]"))
    assert found.precision is Precision.OVER


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


@pytest.mark.parametrize("type_", ["token[]", "f32[<=5,6]", "f32[?,6]", "f32[5,6]"])
def test_a_hull_says_nothing_where_nothing_is_known(type_: str) -> None:
    """Neither of what is not an array, or of any size, nor of accesses without maps."""
    known = [Access(IndexingMap.of_sizes((3,), (), (Dim(0), Dim(0))))]
    several = [Access.unknown("?"), *(known if type_ != "f32[5,6]" else [])]
    assert hull(several, parse_type(type_), "too many") == (Access.unknown("?; too many"),)


@settings(deadline=None)
@given(maps())
def test_what_covers_everything_does(map: IndexingMap) -> None:
    if covers_everything(map, SIZES):
        assert map.points((1, 2)) == set(indices(SIZES))


def test_a_map_of_everything_takes_the_others_in() -> None:
    every = Access(IndexingMap.of_sizes((3, 4), SIZES, (Range(0), Range(1))))
    part = Access(IndexingMap.of_sizes((3, 4), (), (Dim(0), Dim(1))))
    unknown = Access.unknown("?")
    assert covering_all([part, every, unknown], TYPE) == (every, unknown)
    assert covering_all([part, unknown], TYPE) is None
    # One that says everything of fewer elements does not say it of the others.
    narrow = Access(IndexingMap.of_sizes((2, 4), SIZES, (Range(0), Range(1))))
    assert covering_all([part, narrow], TYPE) is None


@pytest.mark.parametrize("type_", ["f32[5,<=6]", "(f32[5,6])", "token[]"])
def test_no_map_is_of_everything_where_the_sizes_are_not_known(type_: str) -> None:
    every = Access(IndexingMap.of_sizes((3, 4), SIZES, (Range(0), Range(1))))
    assert covering_all([every], parse_type(type_)) is None


def test_reasons_are_joined_once_each() -> None:
    assert join_reasons("a; b", "", "b; c") == "a; b; c"
