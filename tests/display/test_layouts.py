"""Pictures of layouts show what the layouts say, element by element."""

from __future__ import annotations

import re
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import hloscope as hs
from hloscope.display.picture import COLOURS
from hloscope.indexing.layouts import Blocked, CuteLayout, LinearLayout, Side

BLOCKED = Blocked((1, 2), (4, 8), (2, 1), (1, 0))
ACCUMULATOR = "((4,8),(2,2)):((32,1),(16,8))"


def lines(picture: Any) -> list[list[tuple[str, ...]]]:
    return [[cell.lines for cell in row] for row in picture.grid.rows]


def test_every_element_of_a_blocked_encoding_names_its_thread_and_register() -> None:
    picture = hs.thread_values(BLOCKED)
    layout = BLOCKED.to_linear((8, 16))
    found = lines(picture)
    for warp in range(2):
        for lane in range(32):
            for register in range(2):
                i, j = layout(register=register, lane=lane, warp=warp)
                assert found[i][j] == (f"T{warp * 32 + lane}", f"V{register}")
    assert picture.grid.legend == ("warp 0", "warp 1")
    assert {cell.colour for row in picture.grid.rows[:4] for cell in row} == {0}
    assert {cell.colour for row in picture.grid.rows[4:] for cell in row} == {1}


def test_a_cute_layout_counts_positions_with_the_first_size_fastest() -> None:
    layout = CuteLayout.parse(ACCUMULATOR)
    found = lines(hs.thread_values(layout, (16, 8)))
    for thread in range(32):
        for value in range(4):
            place = layout(thread + 32 * value)
            assert found[place % 16][place // 16] == (f"T{thread}", f"V{value}")
    # PTX ISA, accumulators of `mma.m16n8k16`: thread 5 holds rows 1 and 9, columns 2 and 3.
    assert found[1][2] == ("T5", "V0")
    assert found[9][3] == ("T5", "V3")


def test_the_colours_of_one_warp_are_those_of_its_threads() -> None:
    grid = hs.thread_values(ACCUMULATOR, (16, 8)).grid
    assert grid.legend[1] == "threads 1, 9, 17, …"
    for row in grid.rows:
        for cell in row:
            assert cell.colour == int(cell.lines[0][1:]) % 8


def test_an_element_of_several_threads_says_how_many_more_and_which() -> None:
    cell = hs.thread_values(Blocked((1,), (32,), (2,), (0,)), (32,)).grid.rows[0][3]
    assert cell.lines == ("T3", "V0+1")
    assert "thread 35 (warp 1, lane 3), value 0" in cell.tip


def test_an_element_without_a_thread_is_grey_and_in_the_legend() -> None:
    picture = hs.thread_values("(2,1):(2,1)", (4,))
    assert lines(picture)[0] == [("T0", "V0"), (), ("T1", "V0"), ()]
    assert "no thread" in picture.to_svg()
    axes = picture.plot(Figure().subplots())
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "no thread"
    assert "no thread" not in hs.thread_values(ACCUMULATOR, (16, 8)).to_svg()


@pytest.mark.parametrize(("layout", "tile", "message"), [
    (ACCUMULATOR, (4, 4), "positions 0 to 127 of a tile of 16"),
    (ACCUMULATOR, (16, 8, 1), "one or two dimensions"),
    (BLOCKED, (128, 64), "at most 4,096 elements"),
    ("(2,2,2):(1,2,4)", (8,), "3 modes"),
    ("(d0) -> (d0), domain: d0 in [0, 3]", (4,), "not a layout"),
    (LinearLayout((Side("offset", ((1,),)),), (("x", 2),)), None, "register, lane and warp"),
    (BLOCKED.to_linear((8, 16)), (16, 8), "a tile of its own"),
    ("(1048576,4):(0,1)", (4,), "4,194,304 values"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(layout: Any, tile: Any, message: str) -> None:
    with pytest.raises(hs.UnsupportedError, match=re.escape(message)):
        hs.thread_values(layout, tile)


def test_banks_are_those_of_the_offsets_of_a_swizzled_layout() -> None:
    layout = CuteLayout.parse("Sw<3,2,3> o _0 o (8,32):(32,1)")
    picture = hs.shared_banks(layout)
    for i, row in enumerate(lines(picture)):
        for j, found in enumerate(row):
            offset = layout(i + 8 * j)
            assert found == (str(offset), f"b{offset % 32}")
    assert picture.grid.rows[1][0].colour == (layout(1) % 32) // 4
    assert picture.grid.legend[1] == "banks 4 to 7"


@pytest.mark.parametrize(("layout", "bits", "row", "column"), [
    ("(32,32):(32,1)", 32, "no conflicts", "32 words of one bank"),
    ("(32,33):(33,1)", 32, "no conflicts", "no conflicts"),
    ("(8,32):(32,1)", 32, "no conflicts", "8 words of one bank"),
    ("(32,32):(32,1)", 16, "no conflicts", "16 words of one bank"),
    ("(8,8):(8,1)", 128, "no conflicts", "8 words of one bank"),
    ("Sw<3,0,3> o _0 o (8,8):(8,1)", 128, "no conflicts", "no conflicts"),
])  # fmt: skip
def test_conflicts_are_those_of_a_warp_along_a_row_and_a_column(
    layout: str, bits: int, row: str, column: str
) -> None:
    notes = hs.shared_banks(layout, bits=bits).grid.notes
    assert notes == (f"a warp along a row: {row}", f"a warp along a column: {column}")


def test_a_tile_too_large_or_of_other_elements_has_no_banks() -> None:
    with pytest.raises(hs.UnsupportedError, match="at most 4,096 elements"):
        hs.shared_banks("(128,128):(128,1)")
    with pytest.raises(hs.UnsupportedError, match="elements of 12 bits"):
        hs.shared_banks("(8,8):(8,1)", bits=12)


@pytest.mark.parametrize("picture", [
    hs.thread_values(ACCUMULATOR, (16, 8)), hs.shared_banks("(8,32):(32,1)"),
], ids=["threads", "banks"])  # fmt: skip
def test_plots_and_svg_show_the_same_cells_and_legend(picture: Any) -> None:
    grid = picture.grid
    axes = Figure().subplots()
    assert picture.plot(axes) is axes
    cells = [cell for row in grid.rows for cell in row]
    assert [text.get_text() for text in axes.texts] == ["\n".join(c.lines) for c in cells]
    shades = axes.images[0].get_array().reshape(-1, 4)
    assert [to_hex(shade) for shade in shades] == [COLOURS[c.colour] for c in cells]
    legend = axes.get_legend()
    assert tuple(text.get_text() for text in legend.get_texts()) == grid.legend
    handles = [to_hex(patch.get_facecolor()) for patch in legend.get_patches()]
    assert handles == [*COLOURS[: len(grid.legend)]]
    svg = picture._repr_html_()
    for cell in cells:
        assert f'fill="{COLOURS[cell.colour]}"><title>{cell.tip}</title>' in svg
    assert all(text in svg for text in grid.legend)
    assert svg.count(f'fill="{COLOURS[0]}"') == sum(c.colour == 0 for c in cells) + 1
