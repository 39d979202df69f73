"""Tables of text, printed as columns for a pipe, or fitted to a terminal's width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from hloscope.lazy import pattern

Side: TypeAlias = Literal["left", "right"]
_NUMBER: Final = pattern(r"[-+]?[\d,. ]*\d(?:[eE][-+]?\d+)?\s?[\w%/]*", re.ASCII)
"""A number with a unit, as tables show it."""
NARROWEST: Final = 12
"""Least width of a cut cell."""


class Table(NamedTuple):
    """Cells of text, with the options of their layout.

    Attributes:
        header: Titles of the columns.
        rows: Cells of each row.
        right: Columns of numbers.
        cut: Columns whose cells may be shortened on a narrow terminal, and the side.
        optional: Columns that may be left out on a narrow terminal, in this order.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    cut: Mapping[int, Side] = MappingProxyType({})
    optional: Sequence[int] = ()


def alike(table: Table, but: Sequence[int], top: int | None = None) -> Table:
    """The table with one row for all rows that differ only in some columns.

    Args:
        table: The table; the order of rows is kept.
        but: Columns that may differ; the number of merged rows is added to the first of them.
        top: Most rows in the result.

    >>> table = Table(["bytes", "kernel"], [["8", "a"], ["8", "b"], ["4", "c"]])
    >>> [row for row in alike(table, [1]).rows]
    [('8', 'a and 1 like it'), ('4', 'c')]
    """
    groups: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in table.rows:
        key = tuple([cell for column, cell in enumerate(row) if column not in but])
        groups.setdefault(key, []).append(row)
    rows = []
    for first, *others in [*groups.values()][:top]:
        cells = list(first)
        if others:
            cells[but[0]] += f" and {len(others)} like it"
        rows.append(tuple(cells))
    return table._replace(rows=rows)


def columns(
    rows: Iterable[Sequence[str]],
    *,
    indent: int = 0,
    gap: int = 2,
    right: Iterable[int] = (),
    widest: int | None = None,
) -> str:
    """The rows as lines with aligned columns, without spaces at line ends.

    Args:
        rows: Cells of each row; short rows are padded.
        indent: Spaces before each line.
        gap: Spaces between columns.
        right: Columns that are flush right.
        widest: Largest width of a column; a longer cell shifts only the rest of its line.

    >>> print(columns([["name", "size"], ["scores", "8"], ["x", "16"]], right=[1]))
    name    size
    scores     8
    x         16
    """
    table = _filled(rows)
    flush_right = frozenset(right)
    widths = _widths(table)
    if widest is not None:
        widths = [min(width, widest) for width in widths]
    lines = (
        (" " * gap).join(
            cell.rjust(width) if i in flush_right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
    return "\n".join((" " * indent + line).rstrip() for line in lines)


def fitted(table: Table, width: int) -> str:
    """A table with a rule, no wider than `width` if its columns can be cut that far.

    >>> row = ["scores", "jit(f)/attention/softmax"]
    >>> print(fitted(Table(["name", "from"], [row], cut={1: "left"}), 22))
    name    from
    ──────────────────────
    scores  …ntion/softmax
    """
    cells = _filled([table.header, *table.rows])
    widths = _widths(cells)
    shown = list(range(len(widths)))
    # Cutting cells loses less than dropping a column, so columns are dropped one by one only while
    # cutting does not suffice.
    for dropped in [None, *table.optional]:
        if dropped is not None:
            shown.remove(dropped)
        room = _room(widths, shown, table.cut, width)
        if sum(room.values()) + 2 * (len(shown) - 1) <= width:
            break
    numbers = frozenset(table.right)
    body = [[_cut(row[i], room[i], table.cut.get(i)) for i in shown] for row in cells]
    lines = columns(body, right=[k for k, i in enumerate(shown) if i in numbers]).splitlines()
    rule = "─" * min(width, max(map(len, lines), default=0))
    return "\n".join([lines[0], rule, *lines[1:]])


def tab_separated(table: Table) -> str:
    r"""The rows with tabs between cells; tabs and line ends in cells become spaces.

    A spreadsheet would evaluate a cell that starts with `=`, `+`, `-` or `@`: unless the cell is a
    number, an apostrophe is put before it.

    >>> tab_separated(Table(["a", "b"], [["-1", '=HYPERLINK("x")']]))
    'a\tb\n-1\t\'=HYPERLINK("x")'
    >>> tab_separated(Table(["a", "b c"], [["1", "x\ty"]]))
    'a\tb c\n1\tx y'
    """
    rows = [[*map(_no_formula, row)] for row in [table.header, *table.rows]]
    text = "\n".join(map("\t".join, rows))
    tabs = sum(map(len, rows)) - len(rows)
    if text.count("\n") >= len(rows) or text.count("\t") > tabs or "\r" in text:
        plain = str.maketrans("\t\n\r", "   ")
        text = "\n".join("\t".join(cell.translate(plain) for cell in row) for row in rows)
    return text


def _no_formula(cell: str) -> str:
    """The cell, after an apostrophe if a spreadsheet would read it as a formula."""
    if not cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"


def _filled(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    table = [list(row) for row in rows]
    count = max(map(len, table), default=0)
    return [row + [""] * (count - len(row)) for row in table]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _room(
    widths: Sequence[int], shown: Sequence[int], cuts: Mapping[int, Side], width: int
) -> dict[int, int]:
    """Widths of the columns: the widest that may be cut is narrowed first, down to a limit."""
    room = {i: widths[i] for i in shown}
    while (over := sum(room.values()) + 2 * (len(shown) - 1) - width) > 0:
        cuttable = sorted((i for i in room if i in cuts), key=lambda i: room[i])
        if not cuttable or room[cuttable[-1]] <= NARROWEST:
            break
        first = cuttable[-1]
        # One step narrows the widest column to the next widest: the steps are few however wide the
        # cells are.
        second = room[cuttable[-2]] if len(cuttable) > 1 else NARROWEST
        step = max(1, min(over, room[first] - max(second, NARROWEST)))
        room[first] -= step
    return room


def _cut(cell: str, width: int, side: Side | None) -> str:
    if side is None or len(cell) <= width:
        return cell
    return f"…{cell[1 - width :]}" if side == "left" else f"{cell[: width - 1]}…"
