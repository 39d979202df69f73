"""Compositions are normal forms, and equal accesses are one object."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.fusion.traversal import AccessInterner, compose, normal
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, IndexingMap, Precision

FIRST = [
    "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 5]",
    "(d0)[s0] -> (s0, d0), domain: d0 in [0, 7], s0 in [0, 5]",
    "()[s0, s1] -> (s1, s0), domain: s0 in [0, 7], s1 in [0, 5]",
    "(d0, d1)[s0] -> (d1, d0 + s0 - 1), domain: d0 in [0, 7], d1 in [0, 5], s0 in [0, 2], "
    "d0 + s0 in [1, 8]",
    "(d0, d1) -> (d0, d1 / 2), domain: d0 in [0, 5], d1 in [0, 31]",
    "(d0, d1) -> (d0, d1 - 3), domain: d0 in [0, 5], d1 in [0, 31], (d1 - 3) mod 2 in [0, 0]",
    "(d0)[s0] -> (0, d0 * 2 + s0), domain: d0 in [0, 9], s0 in [0, 1]",
    "(d0){rt0} -> (rt0, d0), domain: d0 in [0, 7], rt0 in [0, 5]",
    "(d0){rt0} -> (d0, 0), domain: d0 in [0, 7], rt0 in [0, 5], -rt0 + d0 in [0, 0]",
    "(d0) -> (d0, d0), domain: d0 in [0, 5]",
    "(d0) -> (d0, 0), domain: d0 in [9, 12]",
]
SECOND = [
    f"(d0, d1){rest}"
    for rest in (
        "[s0] -> (s0), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 3]",
        "[s0, s1] -> (s1, (s0 / 4) * 4 + s1), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 15], "
        "s1 in [0, 3]",
        "[s0, s1] -> (s1), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 15], s1 in [0, 3]",
        " -> (d1, 0), domain: d0 in [0, 5], d1 in [0, 7]",
        " -> (2, 3), domain: d0 in [0, 5], d1 in [0, 7]",
        "[s0] -> (d0 + s0, d1 mod 4), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 3]",
        "[s0]{rt0} -> (rt0 + s0, d1), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 3], "
        "rt0 in [0, 6]",
        "[s0]{rt0} -> (s0, d1), domain: d0 in [0, 5], d1 in [0, 7], s0 in [0, 3], rt0 in [0, 6]",
        " -> (d0), domain: d0 in [0, 5], d1 in [0, 7], d0 + d1 in [1, 9]",
        "[s0] -> (s0), domain: d0 in [2, 5], d1 in [0, 4], s0 in [0, 3]",
        " -> ((d0 / 8) * 2), domain: d0 in [0, 5], d1 in [0, 7]",
    )
]


@pytest.mark.parametrize(("first", "second"), [*product(FIRST, SECOND)])
def test_a_composition_is_the_normal_form_of_one_map_after_the_other(
    first: str, second: str
) -> None:
    one, other = normal(IndexingMap.parse(first)), IndexingMap.parse(second)
    long_way = normal(one.compose(other))
    interner = AccessInterner()
    kept = interner.compose(interner.intern(Access(one)), interner.intern(Access(other)))
    for found in (compose(Access(one), Access(other)), kept):
        if found is None:
            assert long_way.is_known_empty
        else:
            assert found.map == long_way
            assert found.map is not None
            assert found.map.simplify() == found.map


@pytest.mark.parametrize("extent", ["f32[6,8]", "f32[9,20]"])
@pytest.mark.parametrize("second", SECOND)
def test_what_is_asked_about_itself_is_what_the_next_map_says(second: str, extent: str) -> None:
    """A part of a concatenation is read where it lies: its map is not composed."""
    interner, map = AccessInterner(), IndexingMap.parse(second)
    same = interner.identity(parse_type(extent))
    found, composed = (
        interner.compose(same, interner.intern(Access(map))),
        compose(same, Access(map)),
    )
    assert found is not None
    assert found.map in (map, normal(map))
    assert composed is not None
    assert composed.map == normal(map)
    assert extent == "f32[6,8]" or found == composed


@pytest.mark.parametrize("sizes", [(5, 8), (6, 4)])
def test_what_is_asked_about_itself_within_fewer_indices_is_within_these(
    sizes: tuple[int, int],
) -> None:
    interner, map = AccessInterner(), IndexingMap.parse(SECOND[3])
    same = interner.identity(parse_type(f"f32[{sizes[0]},{sizes[1]}]"))
    found = interner.compose(same, interner.intern(Access(map)))
    assert found is not None
    assert found.map is not None
    assert tuple([v.interval.hi + 1 for v in found.map.dims]) == sizes


def test_equal_accesses_are_one_object() -> None:
    interner, same = AccessInterner(), IndexingMap.identity((6, 8))
    kept = interner.identity(parse_type("f32[6,8]"))
    assert interner.intern(Access(same)) is kept
    assert interner.intern(Access(same, leaf=3)) is kept
    assert interner.identity(parse_type("s32[6,8]{0,1}")) is kept
    assert interner.intern(Access(same, Precision.OVER, "why")) is not kept


def test_an_undefined_map_is_unknown() -> None:
    for reason in ("", "why"):
        kept = AccessInterner().intern(Access(IndexingMap.undefined(), reason=reason))
        assert (kept.map, kept.precision) == (None, Precision.UNKNOWN)
        assert kept.reason == reason or "undefined" in kept.reason


@pytest.mark.parametrize(
    ("map", "after"),
    [
        (
            "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]",
            "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]",
        ),
        (
            "(d0)[s0, s1] -> (d0 * 5 + s1), domain: d0 in [0, 3], s0 in [0, 2], s1 in [0, 4]",
            "(d0)[s0] -> (d0 * 5 + s0), domain: d0 in [0, 3], s0 in [0, 4]",
        ),
        (
            "(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 9], s0 mod 4 in [1, 1]",
            "(d0)[s0] -> (s0 * 4 + 1), domain: d0 in [0, 3], s0 in [0, 2]",
        ),
        (
            "(d0)[s0]{rt0, rt1} -> (s0 + rt1), domain: d0 in [0, 3], s0 in [0, 4], rt0 in [0, 7], "
            "rt1 in [0, 8]",
            "(d0)[s0]{rt0} -> (s0 + rt0), domain: d0 in [0, 3], s0 in [0, 4], rt0 in [0, 8]",
        ),
        (
            "(d0)[s0] -> (d0), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [4, 9]",
            "(d0) -> (d0), domain: d0 in [2, 7]",
        ),
    ],
)
def test_normal_maps_have_the_variables_that_they_need(map: str, after: str) -> None:
    assert str(normal(IndexingMap.parse(map))) == after
