"""Pictures of layouts: the thread and value of each element of a tile, or its memory bank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from hloscope.display.picture import COLOURS, Picture, Shape, box, label, svg_of

GRID_COLOURS: Final = len(COLOURS)
_WIDE, _HIGH, _PAD, _LINE, _CHAR = 36, 28, 16, 18, 7.4
_STYLE: Final = (
    ".hl-grid .page{fill:#ffffff}.hl-grid .cell{fill:#ffffff;font-size:9.5px}"
    ".hl-grid .ink{fill:#1c2733}.hl-grid .faint{fill:#66717f}.hl-grid .empty{fill:#eef1f5}"
    "@media(prefers-color-scheme:dark){.hl-grid .page{fill:#14191f}.hl-grid .ink{fill:#dfe6ee}"
    ".hl-grid .faint{fill:#97a3b0}.hl-grid .empty{fill:#252d36}}"
)


class GridCell(Struct, frozen=True):
    """One element of a tile.

    Attributes:
        lines: At most two short lines inside the cell.
        colour: Number of the cell's entry in the legend; `None` if no thread holds the element.
        tip: All that is known of the element.
    """

    lines: tuple[str, ...]
    colour: int | None
    tip: str


class LayoutGrid(Struct, frozen=True):
    """A tile as rows of cells.

    Attributes:
        title: The layout.
        cell: What the lines of a cell are.
        rows: The cells; a tile of one dimension has one row.
        legend: What each colour is; at most as many entries as there are colours.
        notes: Statements about the whole tile.
    """

    title: str
    cell: str
    rows: tuple[tuple[GridCell, ...], ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def has_free_elements(self) -> bool:
        """Is there an element that no thread holds?"""
        return any(cell.colour is None for row in self.rows for cell in row)


def layout_text_of(grid: LayoutGrid) -> str:
    """The grid as text: a line for each row, then what colours of pictures are, and the notes."""
    texts = [[" ".join(cell.lines) or "-" for cell in row] for row in grid.rows]
    wide = max(len(text) for row in texts for text in row)
    lines = ["  ".join([text.ljust(wide) for text in row]).rstrip() for row in texts]
    return "\n".join([grid.title, f"each element: {grid.cell}", "", *lines, "", *grid.notes])


def layout_svg(grid: LayoutGrid) -> str:
    """The grid as SVG, with a legend of its colours; dark pages have other colours."""
    head = [grid.title, f"each cell: {grid.cell}", *grid.notes]
    legend = [*enumerate(grid.legend)]
    entries: list[tuple[int | None, str]] = [*legend]
    if grid.has_free_elements:
        entries.append((None, "no thread"))
    margin = 12 + _CHAR * len(str(len(grid.rows) - 1))
    top = _PAD + _LINE * len(head) + 22
    room = 2 * _PAD + margin + grid.columns * _WIDE
    beside = room + 12
    width = beside + max(len(text) for _, text in entries) * _CHAR + 24 + _PAD
    width = max(width, 2 * _PAD + max(len(text) for text in head) * _CHAR)
    height = top + max(len(grid.rows) * _HIGH, len(entries) * _LINE) + _PAD
    shapes = [box(0, 0, width, height, kind="page")]
    for k, text in enumerate(head):
        shapes.append(label(_PAD, _PAD + 12 + k * _LINE, text, "faint" if k else "ink"))
    shapes += _cells(grid, _PAD + margin, top)
    for k, (colour, text) in enumerate(entries):
        y = top + k * _LINE
        shapes += [_filled(beside, y, 12, 12, colour), label(beside + 20, y + 11, text, "ink")]
    return svg_of(Picture(grid.title, int(width), int(height), tuple(shapes)), "hl-grid", _STYLE)


def _cells(grid: LayoutGrid, left: float, top: float) -> Iterator[Shape]:
    """Yield the cells with their texts, and the numbers of rows and columns."""
    for j in range(grid.columns):
        yield label(left + (j + 0.5) * _WIDE, top - 6, str(j), "faint", "middle")
    for i, row in enumerate(grid.rows):
        y = top + i * _HIGH
        yield label(left - 6, y + _HIGH / 2 + 4, str(i), "faint", "end")
        for j, cell in enumerate(row):
            x = left + j * _WIDE
            filled = _filled(x, y, _WIDE - 1, _HIGH - 1, cell.colour)
            yield filled._replace(tip=cell.tip)
            for k, text in enumerate(cell.lines):
                at = y + _HIGH / 2 + 3.5 + (k - (len(cell.lines) - 1) / 2) * 11
                yield label(x + (_WIDE - 1) / 2, at, text, "cell", "middle")


def _filled(x: float, y: float, width: float, height: float, colour: int | None) -> Shape:
    """A rectangle in a colour of the legend, or in that of elements without a thread."""
    if colour is None:
        return box(x, y, width, height, kind="empty")
    return box(x, y, width, height, fill=COLOURS[colour])


def grouped_legend(kind: str, count: int) -> tuple[str, ...]:
    """What each colour is if number `n` of a kind has the colour `n mod 8`.

    >>> grouped_legend("warp", 10)[:3]
    ('warps 0, 8', 'warps 1, 9', 'warp 2')
    """
    found = []
    for colour in range(min(GRID_COLOURS, count)):
        mine = range(colour, count, GRID_COLOURS)
        more = ", …" if len(mine) > 3 else ""
        plural = "s" if len(mine) > 1 else ""
        found.append(f"{kind}{plural} {', '.join(map(str, mine[:3]))}{more}")
    return tuple(found)
