"""Columns of text: what the command prints, to a pipe or fitted into a terminal's width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from hloscope.lazy import pattern

Side: TypeAlias = Literal["left", "right"]
_NUMBER: Final = pattern(r"[-+]?[\d,. ]*\d(?:[eE][-+]?\d+)?\s?[\w%/]*", re.ASCII)
"""A number as tables show it, with a unit."""
NARROWEST: Final = 12
"""Cells are not cut to less."""


class Table(NamedTuple):
    """Cells of text, and how they may be arranged.

    Attributes:
        header: Titles of the columns.
        rows: Cells of each row.
        right: Columns of numbers.
        cut: Where room is short: columns whose cells may be shortened, and on which side.
        optional: Where room is short: columns that may be left out, the first first.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    cut: Mapping[int, Side] = MappingProxyType({})
    optional: Sequence[int] = ()


def alike(table: Table, but: Sequence[int], top: int | None = None) -> Table:
    """The table with one row for all that differ in some columns only; the first says how many.

    Args:
        table: With the rows in their order.
        but: Columns that may differ; the first of them is told how many more there are.
        top: Keep only so many rows.

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
    """The rows as lines whose cells start in the same column; no spaces at line ends.

    Args:
        rows: Cells of each row; short rows are filled up.
        indent: Spaces before each line.
        gap: Spaces between columns.
        right: Columns that end, instead of start, at the same place.
        widest: What a column has room for at most; longer cells move the rest of their line only.

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
    """A ruled table that is no wider than `width` if columns that may be cut can be cut so far.

    >>> row = ["scores", "jit(f)/attention/softmax"]
    >>> print(fitted(Table(["name", "from"], [row], cut={1: "left"}), 22))
    name    from
    ──────────────────────
    scores  …ntion/softmax
    """
    cells = _filled([table.header, *table.rows])
    widths = _widths(cells)
    shown = list(range(len(widths)))
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

    A spreadsheet would calculate a cell that begins with `=`, `+`, `-` or `@`: unless the cell is a
    number, an apostrophe stands before it.

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
    """The cell's text, with an apostrophe if a spreadsheet would take it for a formula."""
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
    """Widths of the columns, the widest of those that may be cut made narrower, down to a limit."""
    room = {i: widths[i] for i in shown}
    while (over := sum(room.values()) + 2 * (len(shown) - 1) - width) > 0:
        cuttable = sorted((i for i in room if i in cuts), key=lambda i: room[i])
        if not cuttable or room[cuttable[-1]] <= NARROWEST:
            break
        first = cuttable[-1]
        second = room[cuttable[-2]] if len(cuttable) > 1 else NARROWEST
        step = max(1, min(over, room[first] - max(second, NARROWEST)))
        room[first] -= step
    return room


def _cut(cell: str, width: int, side: Side | None) -> str:
    if side is None or len(cell) <= width:
        return cell
    return f"…{cell[1 - width :]}" if side == "left" else f"{cell[: width - 1]}…"
