"""Columns of text: what the command prints where no terminal draws a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(
    rows: Iterable[Sequence[str]], *, indent: int = 0, gap: int = 2, right: Iterable[int] = ()
) -> str:
    """The rows as lines whose cells start in the same column; no spaces at line ends.

    Args:
        rows: Cells of each row; short rows are filled up.
        indent: Spaces before each line.
        gap: Spaces between columns.
        right: Columns that end, instead of start, at the same place.

    >>> print(columns([["name", "size"], ["scores", "8"], ["x", "16"]], right=[1]))
    name    size
    scores     8
    x         16
    """
    table = [list(row) for row in rows]
    flush_right = frozenset(right)
    count = max(map(len, table), default=0)
    table = [row + [""] * (count - len(row)) for row in table]
    widths = [max(len(row[i]) for row in table) for i in range(count)]
    lines = (
        (" " * gap).join(
            cell.rjust(width) if i in flush_right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
    return "\n".join((" " * indent + line).rstrip() for line in lines)
