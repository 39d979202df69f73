"""Unions of images of tiles: what is recognised is what enumeration finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from hloscope.indexing import ExactTiles, IndexingMap, exact_tiles
from hloscope.indexing.tile_images import parts_of
from hloscope.indexing.tiles import TileVerdict, lies_in

SIZE = 12


@st.composite
def maps(draw: st.DrawFn) -> IndexingMap:
    """A linear map of two dimensions and a range, both results in some window."""
    number = st.integers(0, 3)
    first = f"d0 * {draw(st.integers(1, 2))} + {draw(number)}"
    n = draw(st.sampled_from([1, 2, 3, SIZE]))
    second = draw(st.sampled_from(["d1", f"d1 + {draw(number)}", "s0", "s0 * 2", "d1 * 2 + s0"]))
    domain = f"d0 in [0, 5], d1 in [0, {SIZE - 1}], s0 in [0, {n - 1}]"
    return IndexingMap.parse(f"(d0, d1)[s0] -> ({first}, {second}), domain: {domain}")


def images(m: IndexingMap, sizes: tuple[int, int]) -> dict[tuple[int, int], set[tuple[int, ...]]]:
    found: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for d0 in range(6):
        for d1 in range(SIZE):
            for s0 in range(m.ranges[0].interval.hi + 1 if m.ranges else 1):
                element = m.evaluate([d0, d1], [s0] if m.ranges else [])
                tile = d0 // sizes[0], d1 // sizes[1]
                found.setdefault(tile, set()).add(tuple(element))
    return found


TILES = st.tuples(st.sampled_from([1, 2, 4, 6]), st.sampled_from([1, 3, 5, SIZE]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(maps(), maps(), TILES)
def test_an_image_said_to_lie_in_another_one_does(
    one: IndexingMap, other: IndexingMap, sizes: tuple[int, int]
) -> None:
    a, b = (parts_of(m, sizes, (6, SIZE)) for m in (one, other))
    assert not isinstance(a, str)
    assert not isinstance(b, str)
    if lies_in(a, b):
        inner, outer = images(one, sizes), images(other, sizes)
        assert all(inner[tile] <= outer[tile] for tile in inner)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(maps(), maps(), TILES)
def test_counts_of_a_union_are_those_of_its_elements(
    one: IndexingMap, other: IndexingMap, sizes: tuple[int, int]
) -> None:
    found = exact_tiles([one, other], sizes, shape=(6, SIZE))
    a, b = images(one, sizes), images(other, sizes)
    both = [a[tile] | b[tile] for tile in a]
    assert found.total == sum(map(len, both))
    assert found.union == len(set().union(*both))
    assert (found.least, found.most) == (min(map(len, both)), max(map(len, both)))


def test_equal_boxes_are_one_without_counting() -> None:
    large = "domain: d0 in [0, 7], d1 in [0, 1023], d2 in [0, 1599]"
    through = IndexingMap.parse(f"(d0, d1, d2) -> (d0, d1, d2), {large}")
    reduced = IndexingMap.parse(f"(d0, d1, d2)[s0] -> (d0, d1, s0), {large}, s0 in [0, 1599]")
    for sizes in ((1, 4, 1600), (1, 4, 400)):
        found = exact_tiles([through, reduced], sizes, budget=10)
        assert found.verdict is TileVerdict.BOX
        alone = exact_tiles([reduced], sizes, budget=10)
        assert isinstance(found, ExactTiles)
        assert replace(found, ragged=alone.ragged) == alone
