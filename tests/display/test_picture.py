"""Pictures: which cells are marked, and how much of a tensor is drawn."""

from __future__ import annotations

import re
from math import prod
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.display.parts import Index, boxes_of
from hloscope.display.picture import (
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_SLICES,
    OUTPUT,
    READS,
    Mark,
    Panel,
    svg,
)

SPACE = {"s": "http://www.w3.org/2000/svg"}


def cells(text: str) -> dict[str, int]:
    """How many cells there are of each colour."""
    root = ElementTree.fromstring(text)
    counts: dict[str, int] = {}
    for cell in root.iterfind(".//s:rect/s:title/..", SPACE):
        counts[str(cell.get("fill"))] = counts.get(str(cell.get("fill")), 0) + 1
    for path in root.iterfind(".//s:path", SPACE):
        colour = str(path.get("fill"))
        counts[colour] = counts.get(colour, 0) + str(path.get("d")).count("M")
    return counts


def under_the_cursor(text: str) -> list[str]:
    titles = ElementTree.fromstring(text).iterfind(".//s:rect/s:title", SPACE)
    return [str(title.text) for title in titles]


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
    counts = cells(svg([Panel("x", shape, [Mark(boxes_of(elements), OUTPUT)])]))
    assert counts[OUTPUT] == len(set(elements))
    assert sum(counts.values()) == rows * columns


def test_a_large_tensor_is_drawn_in_blocks() -> None:
    text = svg([Panel("x", (1000, 4000), [Mark(boxes_of([(999, 3999), (998, 3999)]), OUTPUT)])])
    counts = cells(text)
    assert counts[OUTPUT] == 1
    assert sum(counts.values()) <= MAX_ROWS * MAX_COLUMNS
    assert "a cell is 42 × 125 elements" in words(text)
    assert under_the_cursor(text) == ["[966:1000, 3875:4000]: 2 of 4,250 elements"]


@given(st.integers(1, 99), st.integers(1, 300), st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_counts_of_blocks_are_true(height: int, width: int, step: int, start: int) -> None:
    box = (range(0, height, 7), range(min(start, width - 1), width, step))
    text = svg([Panel("x", (height, width), [Mark([box], OUTPUT)])])
    total = 0
    for said in under_the_cursor(text):
        at, _, count = said.partition(": ")
        total += int(count.split(" of ")[0].replace(",", "")) if count else 1
        sides = [s.split(":") for s in at.strip("[]").split(", ")]
        rows, columns = (
            range(int(s[0]), int(s[1]) if len(s) > 1 else int(s[0]) + 1) for s in sides
        )
        inside = sum(r in rows for r in box[0]) * sum(c in columns for c in box[1])
        assert inside == (int(count.split(" of ")[0].replace(",", "")) if count else 1)
    assert total == len(box[0]) * len(box[1])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3)])
def test_elements_that_there_are_not_are_not_drawn(shape: Index) -> None:
    """Maps of a wrong program may lead anywhere: the time is that of the tensor."""
    box = tuple(range(0, 1 << 62, 2) for _ in shape)
    counts = cells(svg([Panel("x", shape, [Mark([box], OUTPUT)])]))
    assert counts[OUTPUT] == 2
    assert sum(counts.values()) == prod(shape)


def test_the_first_cells_of_rows_and_columns_have_their_index() -> None:
    text = svg([Panel("x", (1000, 4000))])
    assert {"0", "168", "336"} <= set(words(text))
    assert {"0", "750", "1500"} <= set(words(text))


def test_panels_that_do_not_fit_beside_each_other_stand_below() -> None:
    panels = [Panel(f"tensor_{k}", (32, 32)) for k in range(9)]
    root = ElementTree.fromstring(svg(panels))
    assert float(str(root.get("width"))) < 1200
    places = {str(t.text): float(str(t.get("y"))) for t in root.iterfind(".//s:text", SPACE)}
    assert places["tensor_0"] == places["tensor_1"] < places["tensor_4"] < places["tensor_8"]


def test_only_some_slices_are_drawn() -> None:
    marked = [(i, 0, 0) for i in range(10)]
    text = svg([Panel("x", (10, 2, 2), [Mark(boxes_of(marked), OUTPUT)])])
    assert cells(text)[OUTPUT] == MAX_SLICES
    assert "[0, …]" in words(text)
    assert f"… and {10 - MAX_SLICES} slices more" in words(text)


def test_later_marks_are_drawn_over_earlier_ones() -> None:
    row = [(0, i) for i in range(5)]
    counts = cells(
        svg(
            [
                Panel(
                    "x", (1, 5), [Mark(boxes_of(row), READS[1]), Mark(boxes_of([(0, 2)]), READS[0])]
                )
            ]
        )
    )
    assert (counts[READS[1]], counts[READS[0]]) == (4, 1)


@pytest.mark.parametrize("nasty", ['<script>"&', "a > b", "'"])
def test_names_are_escaped(nasty: str) -> None:
    text = svg([Panel(nasty, (1,), [Mark([(range(1),)], OUTPUT, nasty)], [nasty])], caption=nasty)
    assert words(text).count(nasty) == 4
    assert "<script" not in text


@pytest.mark.parametrize("times", [1, 3, 40])
def test_everything_lies_inside_the_picture(times: int) -> None:
    long = "a_name_that_is_much_longer_than_its_tensor" * times
    text = svg([Panel(long, (3, 3)), Panel(long, (), [Mark([()], OUTPUT, long)])], caption=long)
    root = ElementTree.fromstring(text)
    width, height = float(str(root.get("width"))), float(str(root.get("height")))
    for element in root.iterfind(".//s:text", SPACE):
        x, y = float(str(element.get("x"))), float(str(element.get("y")))
        size = float(element.get("font-size", "11.5"))
        assert x + 0.602 * size * len(str(element.text)) <= width
        assert y <= height
    assert width < 1200
    for path in root.iterfind(".//s:path", SPACE):
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)", str(path.get("d"))):
            assert float(x) < width
            assert float(y) < height


def test_a_long_note_is_wrapped_and_says_the_same() -> None:
    note = "not read: " + ", ".join(f"operand {k} name_{k}" for k in range(40))
    text = svg([Panel("x", (3,))], notes=[note])
    assert " ".join(words(text)).endswith(note)
    assert float(str(ElementTree.fromstring(text).get("width"))) < 1200


def test_blocks_of_a_vector_have_one_size() -> None:
    assert "a cell is 3,125 elements" in words(svg([Panel("x", (100_000,))]))


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_are_seen_on_light_and_on_dark_pages() -> None:
    text = svg([Panel("x", (2, 2), [Mark([(range(1), range(1))], READS[0], "here")], ["a note"])])
    dark = dict(re.findall(r'\[fill="(#\w+)"\]\{fill:(#\w+)\}', text))
    page = str(ElementTree.fromstring(text).find("s:rect", SPACE).get("fill"))  # type: ignore[union-attr]
    inks = {str(t.get("fill")) for t in ElementTree.fromstring(text).iterfind(".//s:text", SPACE)}
    empty = str(ElementTree.fromstring(text).find(".//s:path", SPACE).get("fill"))  # type: ignore[union-attr]
    for shown in ({}, dark):
        background, unmarked = shown.get(page, page), shown.get(empty, empty)
        assert all(contrast(shown.get(ink, ink), background) >= 4.5 for ink in inks)
        assert all(contrast(shown.get(c, c), unmarked) >= 1.7 for c in (OUTPUT, *READS))
    assert contrast(page, "#000000") > 20 > 2 > contrast(dark[page], "#000000")
