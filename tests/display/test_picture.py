"""Pictures: which cells are marked, and how much of a tensor is drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloscope.display.picture import (
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_SLICES,
    OUTPUT,
    READS,
    Index,
    Mark,
    Panel,
    svg,
)

SPACE = {"s": "http://www.w3.org/2000/svg"}


def cells(text: str) -> dict[str, int]:
    """How many cells there are of each colour."""
    paths = ElementTree.fromstring(text).iterfind(".//s:path", SPACE)
    counts: dict[str, int] = {}
    for path in paths:
        colour = str(path.get("fill"))
        counts[colour] = counts.get(colour, 0) + str(path.get("d")).count("M")
    return counts


def words(text: str) -> list[str]:
    return [str(t.text) for t in ElementTree.fromstring(text).iterfind(".//s:text", SPACE)]


def shapes() -> st.SearchStrategy[tuple[Index, list[Index]]]:
    """A shape and some of its elements."""

    def elements(shape: list[int]) -> st.SearchStrategy[tuple[Index, list[Index]]]:
        index = st.tuples(*(st.integers(0, size - 1) for size in shape))
        return st.lists(index, min_size=1, max_size=6).map(lambda some: (tuple(shape), some))

    return st.lists(st.integers(1, 20), max_size=2).flatmap(elements)


@given(shapes())
def test_every_marked_element_has_a_cell_of_its_own(drawn: tuple[Index, list[Index]]) -> None:
    shape, elements = drawn
    rows, columns = (1, 1, *shape)[-2:]
    counts = cells(svg([Panel("x", shape, [Mark(elements, OUTPUT)])]))
    assert counts[OUTPUT] == len(set(elements))
    assert sum(counts.values()) == rows * columns


def test_a_large_tensor_is_drawn_in_blocks() -> None:
    text = svg([Panel("x", (1000, 4000), [Mark([(999, 3999), (998, 3999)], OUTPUT)])])
    counts = cells(text)
    assert counts[OUTPUT] == 1
    assert sum(counts.values()) <= MAX_ROWS * MAX_COLUMNS
    assert "a cell is 42 × 125 elements" in words(text)


def test_only_some_slices_are_drawn() -> None:
    marked = [(i, 0, 0) for i in range(10)]
    text = svg([Panel("x", (10, 2, 2), [Mark(marked, OUTPUT)])])
    assert cells(text)[OUTPUT] == MAX_SLICES
    assert "[0, …]" in words(text)
    assert f"… and {10 - MAX_SLICES} slices more" in words(text)


def test_later_marks_are_drawn_over_earlier_ones() -> None:
    row = [(0, i) for i in range(5)]
    counts = cells(svg([Panel("x", (1, 5), [Mark(row, READS[1]), Mark([(0, 2)], READS[0])])]))
    assert (counts[READS[1]], counts[READS[0]]) == (4, 1)


@pytest.mark.parametrize("nasty", ['<script>"&', "a > b", "'"])
def test_names_are_escaped(nasty: str) -> None:
    text = svg([Panel(nasty, (1,), [Mark([(0,)], OUTPUT, nasty)], [nasty])], caption=nasty)
    assert words(text).count(nasty) == 4
    assert "<script" not in text


def test_everything_lies_inside_the_picture() -> None:
    long = "a_name_that_is_much_longer_than_its_tensor"
    text = svg([Panel(long, (3, 3)), Panel(long, (), [Mark([()], OUTPUT, long)])], caption=long)
    root = ElementTree.fromstring(text)
    width, height = float(str(root.get("width"))), float(str(root.get("height")))
    for element in root.iterfind(".//s:text", SPACE):
        x, y = float(str(element.get("x"))), float(str(element.get("y")))
        assert x + 6 * len(str(element.text)) <= width
        assert y <= height
    for path in root.iterfind(".//s:path", SPACE):
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)", str(path.get("d"))):
            assert float(x) < width
            assert float(y) < height
