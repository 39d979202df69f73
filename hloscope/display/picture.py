"""Pictures of tensors as grids of cells, as SVG without scripts, fonts or links.

The last two dimensions are a grid; of the others, the first slices in which something is marked are
drawn beside and below each other.  A tensor that is larger than the grid is drawn in blocks: a cell
then stands for several elements and is marked if one of them is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hloscope.visible import in_page

Index: TypeAlias = tuple[int, ...]

MAX_COLUMNS, MAX_ROWS, MAX_SLICES = 32, 24, 6
OUTPUT: Final = "#e8590c"
READS: Final = ("#1864ab", "#74b3f0", "#b79ced", "#7bc8a4", "#f0b94a")
"""Colours of what is read; the first is the darkest and drawn on top of the others."""
_PAGE, _FRAME, _EMPTY, _INK, _FAINT = "#ffffff", "#d5dbe3", "#eef1f5", "#1c2733", "#66717f"
_CHAR, _LINE, _PAD, _GAP = 7.0, 17, 18, 40
_LABEL, _SPACE, _WIDE = 15, 16, 340


@dataclass(frozen=True, slots=True)
class Mark:
    """Elements of one colour, and what they are."""

    elements: Collection[Index]
    colour: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One tensor: its title, sizes and marks; later marks are drawn over earlier ones."""

    title: str
    shape: Index
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class _Grid:
    """How a tensor's last two dimensions become rows and columns of cells."""

    rows: int
    columns: int
    row_block: int
    column_block: int

    @classmethod
    def of(cls, shape: Index) -> _Grid:
        *_, height, width = (1, 1, *shape)
        row_block, column_block = -(-height // MAX_ROWS), -(-width // MAX_COLUMNS)
        row_block, column_block = max(row_block, 1), max(column_block, 1)
        return cls(-(-height // row_block), -(-width // column_block), row_block, column_block)

    @property
    def size(self) -> int:
        """Side of a cell in pixels."""
        return max(9, min(16, 320 // max(self.columns, 1)))

    def cell(self, index: Index) -> tuple[int, int]:
        """Row and column of an element."""
        *_, row, column = (0, 0, *index)
        return row // self.row_block, column // self.column_block


def svg(panels: Sequence[Panel], *, caption: str = "") -> str:
    """The panels side by side, as an SVG document.

    >>> picture = svg([Panel("x", (2, 3), [Mark([(1, 2)], OUTPUT, "here")])], caption="a < b")
    >>> picture.count(OUTPUT), "a &lt; b" in picture
    (2, True)
    """
    body: list[str] = []
    x, height = float(_PAD), 0.0
    top = _PAD + (_LINE + 12 if caption else 0)
    for panel in panels:
        parts, width, bottom = _panel(panel, x, top)
        body += parts
        x, height = x + width + _GAP, max(height, bottom)
    width = max(x - _GAP, _PAD + len(caption) * (_CHAR + 0.6)) + _PAD
    height += _PAD
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="11.5">'
    )
    frame = (
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" '
        f'fill="{_PAGE}" stroke="{_FRAME}"/>'
    )
    title = [f"<title>{in_page(caption)}</title>"] if caption else []
    if caption:
        title.append(_text(_PAD, _PAD + 10, caption, size=13, weight=600))
    return "\n".join([head, *title[:1], frame, *title[1:], *body, "</svg>"]) + "\n"


def _panel(panel: Panel, x: float, y: float) -> tuple[list[str], float, float]:
    """SVG elements of a panel, its width and the y where it ends."""
    grid = _Grid.of(panel.shape)
    out = [_text(x, y + 10, panel.title, weight=600)]
    widest, broad = len(panel.title), 0.0
    y += _LINE + 3
    slices = _slices(panel)
    left, side = x, grid.columns * grid.size
    for prefix in slices[:MAX_SLICES]:
        label = f"[{', '.join(map(str, prefix))}, …]" if prefix else ""
        pitch = max(side, len(label) * _CHAR)
        if left > x and left + pitch > x + _WIDE:  # no room beside the slice before
            left, y = x, y + _height(grid, prefix)
        if label:
            out.append(_text(left, y + 9, label, colour=_FAINT))
        out += _cells(panel, prefix, grid, left, y + _LABEL * bool(prefix))
        broad = max(broad, left + pitch - x)
        left += pitch + _SPACE
    y += _height(grid, slices[0])
    lines = [f"… and {len(slices) - MAX_SLICES} slices more"] if len(slices) > MAX_SLICES else []
    if grid.row_block * grid.column_block > 1:
        lines.append(f"a cell is {grid.row_block} × {grid.column_block} elements")
    y += 4
    for mark in panel.marks:
        if mark.label:
            out.append(_square(x, y + 1, 9, mark.colour))
            out.append(_text(x + 15, y + 9.5, mark.label))
            widest, y = max(widest, len(mark.label) + 2), y + _LINE
    for line in [*panel.notes, *lines]:
        out.append(_text(x, y + 9.5, line, colour=_FAINT))
        widest, y = max(widest, len(line)), y + _LINE
    return out, max(broad, widest * _CHAR), y


def _height(grid: _Grid, prefix: Index) -> float:
    """Of a slice with its label."""
    return grid.rows * grid.size + 8 + _LABEL * bool(prefix)


def _slices(panel: Panel) -> list[Index]:
    """The leading indices whose slice shows a mark; the first slice where nothing is marked."""
    prefixes = sorted({index[:-2] for mark in panel.marks for index in mark.elements})
    return prefixes or [(0,) * max(len(panel.shape) - 2, 0)]


def _cells(panel: Panel, prefix: Index, grid: _Grid, x: float, y: float) -> list[str]:
    """The grid of one slice: cells of equal colour that touch in a row are one rectangle's path."""
    colours: dict[tuple[int, int], str] = {}
    for mark in panel.marks:
        for index in mark.elements:
            if index[:-2] == prefix:
                colours[grid.cell(index)] = mark.colour
    paths: dict[str, list[str]] = {
        colour: [] for colour in [_EMPTY, *(mark.colour for mark in panel.marks)]
    }
    side, inner = grid.size, grid.size - 1.5
    for row in range(grid.rows):
        for column in range(grid.columns):
            colour = colours.get((row, column), _EMPTY)
            left, top = x + column * side, y + row * side
            paths[colour].append(f"M{left:g} {top:g}h{inner:g}v{inner:g}h-{inner:g}z")
    return [f'<path fill="{c}" d="{"".join(d)}"/>' for c, d in paths.items() if d]


def _square(x: float, y: float, side: float, colour: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{side}" height="{side}" rx="1.5" fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, colour: str = _INK, size: float = 0, weight: int = 0
) -> str:
    style = (f' font-size="{size:g}"' if size else "") + (
        f' font-weight="{weight}"' if weight else ""
    )
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{style}>{in_page(text)}</text>'
