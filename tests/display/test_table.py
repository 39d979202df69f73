"""Tables of text."""

from __future__ import annotations

import pytest

from hloscope.display.table import NARROWEST, Table, columns, fitted, tab_separated

ROWS = [
    ["a", "short", "1"],
    ["a_name_of_some_length", "x" * 40, "22"],
    ["b", "jit(f)/layer_3/attention/softmax/div", "333"],
]


@pytest.mark.parametrize("width", range(40, 120, 7))
def test_a_table_fits_where_it_can(width: int) -> None:
    lines = fitted(Table(["name", "from", "line"], ROWS, [2], {1: "left"}), width).splitlines()
    narrowest = len("a_name_of_some_length") + NARROWEST + len("line") + 4
    assert max(map(len, lines)) <= max(width, narrowest)
    assert [line.split()[0] for line in lines[2:]] == [row[0] for row in ROWS]
    assert [line.split()[-1] for line in lines[2:]] == ["1", "22", "333"]
    assert lines[4].split()[1].endswith("softmax/div"[-NARROWEST + 1 :])


def test_cells_are_cut_on_their_side() -> None:
    table = Table(["n", "f"], [["n", "abcdefghijklmnopqrstuvwxyz"]])
    left = fitted(table._replace(cut={1: "left"}), 16)
    right = fitted(table._replace(cut={1: "right"}), 16)
    assert left.splitlines()[2] == "n  …opqrstuvwxyz"
    assert right.splitlines()[2] == "n  abcdefghijkl…"


def test_columns_are_left_out_in_their_order() -> None:
    row = ["name", "x" * 30, "y" * 30]
    table = Table(["n", "first", "second"], [row], optional=[2, 1])
    wide = fitted(table, 80)
    assert "second" in wide
    narrow = fitted(table, 40)
    assert "first" in narrow
    assert "second" not in narrow
    assert fitted(table, 5).splitlines()[2] == "name"


def test_long_cells_move_only_their_own_line() -> None:
    lines = columns([["a" * 30, "x"], ["b", "y"]], widest=10).splitlines()
    assert lines == ["a" * 30 + "  x", "b" + " " * 11 + "y"]


def test_tab_separated_cells_have_no_tabs_or_line_ends() -> None:
    assert tab_separated(Table(["a\nb", "c\td", ""], [])) == "a b\tc d\t"
