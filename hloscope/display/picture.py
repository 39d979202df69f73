"""Pictures of tensors as grids of cells: their shapes, colours and sliders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice, product
from textwrap import wrap
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.display.parts import Box, Index, box_size, side_size
from hloscope.ir import Instruction
from hloscope.support.lazy import lazy
from hloscope.support.source import in_page

# --------------------------------------------------------------------------------------------------
# Pictures of tensors as grids of cells, as SVG without scripts, fonts or links.
#
# The last two dimensions are a grid; of the other dimensions, the first slices with marked elements
# are drawn next to and below each other. A tensor that is larger than the grid is drawn in blocks:
# a cell represents several elements and is marked if one of them is. The tooltip of a marked cell
# states its elements, and how many of them are marked. Dark pages have other colours.


MAX_COLUMNS, MAX_ROWS, MAX_SLICES = 32, 24, 6
OUTPUT: Final = "#e8590c"
READS: Final = ("#1864ab", "#74b3f0", "#b79ced", "#56b48a", "#dfa021")
"""Colours of read elements.

The first one is the darkest and is drawn above the others.
"""
_PAGE, _FRAME, _EMPTY, _INK, _FAINT = "#ffffff", "#d5dbe3", "#eef1f5", "#1c2733", "#66717f"
_DARK: Final = {
    _PAGE: "#14191f",
    _FRAME: "#38424e",
    _EMPTY: "#252d36",
    _INK: "#dfe6ee",
    _FAINT: "#97a3b0",
    OUTPUT: "#ff8a4c",
    READS[0]: "#9fd0ff",
    READS[1]: "#3d7fc4",
}
"""For each colour, the one on dark pages; other colours are legible on both."""
_STYLE: Final = "".join(
    f'.hloscope-picture [{part}="{light}"]{{{part}:{dark}}}'
    for part, light, dark in [("stroke" if c == _FRAME else "fill", c, d) for c, d in _DARK.items()]
)
_CHAR, _LINE, _PAD, _GAP = 7.0, 17, 18, 40
_CAPTION_CHAR, _COLUMNS = 8.0, 130
"""Width of a bold character of the caption, and characters of a line before it wraps."""
_LABEL, _SPACE, _WIDE = 15, 16, 340
_ROOM: Final = 1080
"""Maximum width of a row of panels; further panels go below."""
_TICK, _TICK_CHAR, _TICKS = 12, 5.6, 6
_MOST_SLICES: Final = 1 << 14
"""Maximum number of slices that are counted."""


class Mark(Struct, frozen=True):
    """Elements of one colour, as disjoint boxes, with a label."""

    boxes: Sequence[Box]
    colour: str
    label: str = ""


class Panel(Struct, frozen=True):
    """A tensor to draw: its title, sizes and marks. Later marks are drawn over earlier ones."""

    title: str
    shape: Index
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()


class _Grid(Struct, frozen=True):
    """How the last two dimensions of a tensor are drawn as cells.

    A cell has `row_block` × `column_block` elements.
    """

    height: int
    width: int
    row_block: int
    column_block: int

    @classmethod
    def of(cls, shape: Index) -> _Grid:
        *_, height, width = (1, 1, *shape)
        row_block, column_block = -(-height // MAX_ROWS), -(-width // MAX_COLUMNS)
        return cls(height, width, max(row_block, 1), max(column_block, 1))

    @property
    def rows(self) -> int:
        return -(-self.height // self.row_block)

    @property
    def columns(self) -> int:
        return -(-self.width // self.column_block)

    @property
    def size(self) -> int:
        """Return the side of a cell in pixels."""
        return max(9, min(16, 320 // max(self.columns, 1)))

    @property
    def is_blocks(self) -> bool:
        """Does a cell represent several elements?"""
        return self.row_block * self.column_block > 1

    def cells(self, box: Box) -> Iterator[tuple[int, int, int]]:
        """Yield row and column of each cell that a box intersects, and its number of elements."""
        *_, rows, columns = (range(1), range(1), *box)
        across = list(_per_block(_below(columns, self.width), self.column_block))
        for row, high in _per_block(_below(rows, self.height), self.row_block):
            for column, wide in across:
                yield row, column, high * wide

    def place(self, row: int, column: int) -> Box:
        """Return the elements of the cell in row `row` and column `column`.

        They are ranges of the last two dimensions.
        """
        top, left = row * self.row_block, column * self.column_block
        return (
            range(top, min(top + self.row_block, self.height)),
            range(left, min(left + self.column_block, self.width)),
        )


def _below(side: range, size: int) -> range:
    """Return the indices of `side` that are below `size`, the size of the dimension.

    Maps of an invalid program may lead outside of the tensor.
    """
    return side[: max(0, -((side.start - size) // side.step))]


def _per_block(side: range, block: int) -> Iterator[tuple[int, int]]:
    """Yield each block that evenly spaced indices intersect, with the number of indices in it.

    Args:
        side: The indices.
        block: Number of consecutive indices of a block; block 0 begins at index 0.
    """
    if not side:
        return
    for at in range(side.start // block, side[-1] // block + 1):
        first = -(-max(at * block - side.start, 0) // side.step)
        last = (min((at + 1) * block - 1, side[-1]) - side.start) // side.step
        if last >= first:
            yield at, last - first + 1


def svg(panels: Sequence[Panel], *, caption: str = "", notes: Sequence[str] = ()) -> str:
    """Return the panels in rows, as an SVG document, with the notes below.

    `caption` is the text above the panels.

    >>> here = Mark([(range(1, 2), range(2, 3))], OUTPUT, "here")
    >>> picture = svg([Panel("x", (2, 3), [here])], caption="a < b")
    >>> picture.count(f' fill="{OUTPUT}"'), "a &lt; b" in picture
    (2, True)
    """
    body: list[str] = []
    head_lines = _wrapped(caption) if caption else []
    top = float(_PAD + (_LINE * len(head_lines) + 12 if caption else 0))
    x, widest, bottom = float(_PAD), 0.0, top
    for panel in panels:
        parts, wide, end = _panel(panel, x, top)
        if x > _PAD and x + wide > _ROOM:  # no room beside the others
            x, top = float(_PAD), bottom + _LINE
            parts, wide, end = _panel(panel, x, top)
        body += parts
        widest, bottom = max(widest, x + wide), max(bottom, end)
        x += wide + _GAP
    for line in [line for note in notes for line in _wrapped(note)]:
        bottom += _LINE
        body.append(_text(_PAD, bottom, line, colour=_FAINT))
        widest = max(widest, _PAD + len(line) * _CHAR)
    width = max([widest, *(_PAD + len(line) * _CAPTION_CHAR for line in head_lines)]) + _PAD
    height = bottom + _PAD
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="hloscope-picture" role="img" '
        f'width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="11.5">'
    )
    frame = (
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" '
        f'fill="{_PAGE}" stroke="{_FRAME}"/>'
    )
    title = [f"<title>{in_page(caption)}</title>"] if caption else []
    style = f"<style>@media (prefers-color-scheme: dark){{{_STYLE}}}</style>"
    said = [
        _text(_PAD, _PAD + 10 + k * _LINE, line, size=13, weight=600)
        for k, line in enumerate(head_lines)
    ]
    return "\n".join([head, *title, style, frame, *said, *body, "</svg>"]) + "\n"


def _wrapped(text: str) -> list[str]:
    """Return the text in lines no wider than the picture; only longer names are broken."""
    return wrap(text, _COLUMNS, break_on_hyphens=False) or [text]


def _panel(panel: Panel, x: float, y: float) -> tuple[list[str], float, float]:
    """Return the SVG elements of a panel, its width, and the y coordinate of its end.

    `x` and `y` are its upper left corner.
    """
    grid = _Grid.of(panel.shape)
    out: list[str] = []
    widest, broad = 0, 0.0
    for line in _wrapped(panel.title):
        out.append(_text(x, y + 10, line, weight=600))
        widest, y = max(widest, len(line)), y + _LINE
    y += 3
    slices, more = _slices(panel)
    margin = _margin(grid) if len(panel.shape) > 1 else 0.0
    left, side = x, grid.columns * grid.size + margin
    above = _TICK * bool(panel.shape)
    for prefix in slices:
        label = f"[{', '.join(map(str, prefix))}, …]" if prefix else ""
        pitch = max(side, len(label) * _CHAR)
        if left > x and left + pitch > x + _WIDE:  # no room beside the slice before
            left, y = x, y + _height(grid, prefix) + above
        if label:
            out.append(_text(left, y + 9, label, colour=_FAINT))
        grid_top = y + _LABEL * bool(prefix) + above
        if panel.shape:
            out += _ticks(grid, left + margin, grid_top, rows=len(panel.shape) > 1)
        out += _cells(panel, prefix, grid, left + margin, grid_top)
        broad = max(broad, left + pitch - x)
        left += pitch + _SPACE
    y += _height(grid, slices[0]) + above
    lines = [f"… and {more} slices more"] if more else []
    if grid.is_blocks:
        rows = f"{grid.row_block:,} × " if len(panel.shape) > 1 else ""
        lines.append(f"a cell is {rows}{grid.column_block:,} elements")
    y += 4
    for mark in panel.marks:
        if mark.label:
            out.append(_square(x, y + 1, 9, mark.colour))
        for line in _wrapped(mark.label) if mark.label else ():
            out.append(_text(x + 15, y + 9.5, line))
            widest, y = max(widest, len(line) + 2), y + _LINE
    for line in [line for note in (*panel.notes, *lines) for line in _wrapped(note)]:
        out.append(_text(x, y + 9.5, line, colour=_FAINT))
        widest, y = max(widest, len(line)), y + _LINE
    return out, max(broad, widest * _CHAR), y


def _height(grid: _Grid, prefix: Index) -> float:
    """Return the height of a slice with its label.

    Args:
        grid: The cells of the slice.
        prefix: Index of the leading dimensions; a slice of a matrix or vector has none, and no
            label.
    """
    return grid.rows * grid.size + 8 + _LABEL * bool(prefix)


def _slices(panel: Panel) -> tuple[list[Index], str]:
    """Return the leading indices of a tensor's slices to draw, and a note about omitted ones.

    A slice has the last two dimensions. It is drawn if it has marked elements, up to `MAX_SLICES`;
    if nothing is marked, only the first slice is drawn. The note is the number of omitted slices,
    empty for none.
    """
    prefixes: set[Index] = set()
    is_all = True
    for mark in panel.marks:
        for box in mark.boxes:
            before = [_below(s, n) for s, n in zip(box[:-2], panel.shape[:-2], strict=True)]
            found = list(islice(product(*[s[:_MOST_SLICES] for s in before]), _MOST_SLICES))
            is_all = is_all and len(found) == box_size(before)
            prefixes.update(found)
    if not prefixes:
        return [(0,) * max(len(panel.shape) - 2, 0)], ""
    count = len(prefixes) - MAX_SLICES
    more = "" if count <= 0 else f"{count:,}" if is_all else f"at least {count:,}"
    return sorted(prefixes)[:MAX_SLICES], more


def _margin(grid: _Grid) -> float:
    """Return the width of the labels of a grid's rows."""
    return 4 + _TICK_CHAR * len(str(grid.height - 1))


def _ticks(grid: _Grid, x: float, y: float, *, rows: bool) -> Iterator[str]:
    """Yield labels with the indices of some rows and columns.

    Args:
        grid: The grid.
        x: Left x coordinate of the grid.
        y: Upper y coordinate of the grid.
        rows: Label the rows too?
    """
    wide = max(_TICK_CHAR * len(str(grid.width - 1)) + 4, grid.columns * grid.size / _TICKS)
    for column in range(0, grid.columns, -(-int(wide) // grid.size)):
        yield _text(
            x + column * grid.size, y - 3, str(column * grid.column_block), colour=_FAINT, size=9
        )
    for row in range(0, grid.rows if rows else 0, max(1, -(-grid.rows // _TICKS))):
        label = str(row * grid.row_block)
        at = x - 3 - _TICK_CHAR * len(label)
        yield _text(at, y + (row + 0.5) * grid.size + 2.5, label, colour=_FAINT, size=9)


def _cells(panel: Panel, prefix: Index, grid: _Grid, x: float, y: float) -> Iterator[str]:
    """Yield the SVG elements of one slice: all cells, then the marked ones, with tooltips.

    Args:
        panel: The tensor.
        prefix: Index of the leading dimensions.
        grid: The grid.
        x: Left x coordinate.
        y: Upper y coordinate.
    """
    marked: dict[tuple[int, int], tuple[str, int]] = {}
    for mark in panel.marks:
        counts: dict[tuple[int, int], int] = {}
        for box in mark.boxes:
            if all(i in side for i, side in zip(prefix, box[:-2], strict=True)):
                for row, column, count in grid.cells(box):
                    counts[row, column] = counts.get((row, column), 0) + count
        marked |= {cell: (mark.colour, count) for cell, count in counts.items()}
    side, inner = grid.size, grid.size - 1.5
    empty = [
        f"M{x + column * side:g} {y + row * side:g}h{inner:g}v{inner:g}h-{inner:g}z"
        for row in range(grid.rows)
        for column in range(grid.columns)
        if (row, column) not in marked
    ]
    if empty:
        yield f'<path fill="{_EMPTY}" d="{"".join(empty)}"/>'
    for (row, column), (colour, count) in sorted(marked.items()):
        said = in_page(_tooltip(panel, prefix, grid, row, column, count))
        yield (
            f'<rect x="{x + column * side:g}" y="{y + row * side:g}" width="{inner:g}" '
            f'height="{inner:g}" fill="{colour}"><title>{said}</title></rect>'
        )


def _tooltip(panel: Panel, prefix: Index, grid: _Grid, row: int, column: int, count: int) -> str:
    """Return the tooltip of a cell: its elements, and the number of marked ones.

    Args:
        panel: The tensor.
        prefix: Index of the leading dimensions.
        grid: The cells of the slice.
        row: Row of the cell.
        column: Column of the cell.
        count: Number of marked elements in the cell.
    """
    place = grid.place(row, column)[2 - min(len(panel.shape), 2) :]
    sides = [str(s.start) if side_size(s) == 1 else f"{s.start}:{s.stop}" for s in place]
    index = f"[{', '.join([*map(str, prefix), *sides])}]"
    of = box_size(place)
    return index if of == 1 else f"{index}: {count:,} of {of:,} elements"


def _square(x: float, y: float, side: float, colour: str) -> str:
    """Return a square as an SVG element; (x, y) is its upper left corner."""
    return f'<rect x="{x:g}" y="{y:g}" width="{side}" height="{side}" rx="1.5" fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, colour: str = _INK, size: float = 0, weight: int = 0
) -> str:
    """Return a line of text at (x, y) as an SVG element; size and weight 0 are the defaults."""
    style = (f' font-size="{size:g}"' if size else "") + (
        f' font-weight="{weight}"' if weight else ""
    )
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{style}>{in_page(text)}</text>'


# --------------------------------------------------------------------------------------------------
# Shapes of a picture, which are written as SVG or drawn by a page's script.


FONT: Final = "ui-monospace,Menlo,Consolas,monospace"


class Shape(NamedTuple):
    """One element of a picture.

    Attributes:
        tag: Name of the element in SVG.
        attributes: Attributes of the element.
        text: The text inside.
        tip: The tooltip.
        instruction: Instruction that a click leads to, in pages that support it.
    """

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    tip: str = ""
    instruction: Instruction | None = None

    def to_svg(self) -> str:
        """Return the element as SVG, with all texts escaped."""
        attributes = "".join([f' {k}="{in_page(v)}"' for k, v in self.attributes.items()])
        tip = f"<title>{in_page(self.tip)}</title>" if self.tip else ""
        inside = tip + in_page(self.text)
        return f"<{self.tag}{attributes}" + (f">{inside}</{self.tag}>" if inside else "/>")


class Picture(NamedTuple):
    """Shapes in the order in which they are painted.

    Attributes:
        title: Title of the picture.
        width: Width in units of its coordinates.
        height: Height in units of its coordinates.
        shapes: The shapes.
        legend: (colour, amount, name) of each part, if the shapes do not show them. The colour is
            empty for the grey of `others`.
    """

    title: str
    width: int
    height: int
    shapes: tuple[Shape, ...]
    legend: tuple[tuple[str, str, str], ...] = ()


def label(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> Shape:
    """Return a line of text at (x, y) as a shape.

    `kind` is its CSS class, `anchor` the point of the text that is at `x`: SVG's `text-anchor`.
    """
    attributes = {"x": f"{x:g}", "y": f"{y:g}"}
    if kind:
        attributes["class"] = kind
    if anchor:
        attributes["text-anchor"] = anchor
    return Shape("text", attributes, text)


def box(x: float, y: float, width: float, height: float, **more: str) -> Shape:
    """Return a filled rectangle as a shape; `x` and `y` are its upper left corner.

    `more` are further attributes; `kind` stands for the CSS class.
    """
    place = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
    named = {"class" if key == "kind" else key: value for key, value in more.items()}
    return Shape("rect", place | named)


def line(path: str, kind: str) -> Shape:
    """Return a line along an SVG path as a shape; `kind` is its CSS class."""
    return Shape("path", {"class": kind, "d": path})


def svg_of(picture: Picture, name: str, style: str) -> str:
    """Return a picture as an SVG document; see `svg_document` for the other arguments."""
    shapes = "\n".join([shape.to_svg() for shape in picture.shapes])
    size = str(picture.width), str(picture.height)
    return svg_document(name, picture.title, style, size, [shapes])


def svg_document(
    name: str, title: str, style: str, size: tuple[str, str], elements: Iterable[str]
) -> str:
    """Return SVG elements as a document without scripts, fonts or links.

    Args:
        name: CSS class of the document, which the style refers to.
        title: Title of the picture.
        style: CSS of the elements.
        size: Width and height.
        elements: The elements, in the order in which they are painted.
    """
    wide, high = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" width="{wide}" '
        f'height="{high}" viewBox="0 0 {wide} {high}" font-family="{FONT}" font-size="12">'
        f"<title>{in_page(title)}</title><style>{style}</style>{''.join(elements)}</svg>\n"
    )


def page_box(width: str, height: str) -> str:
    """Return the background of a picture as an SVG element."""
    return f'<rect class="page" width="{width}" height="{height}"/>'


# --------------------------------------------------------------------------------------------------
# Categorical colours that are legible on light and on dark pages.


COLOURS: Final = (
    "#3b82c4", "#e08a2e", "#4c9f70", "#b0679f", "#c9564c", "#8a7fd0", "#7d8f2e", "#3fa3a3",
)  # fmt: skip
"""Colours of parts, in order.

Neighbours differ most; white text is readable on each.
"""


# --------------------------------------------------------------------------------------------------
# Pictures with sliders, for notebooks with ipywidgets.


def sliders(picture: Callable[..., Any], /, **choices: Sequence[Any]) -> Any:
    """Show a picture with a slider for each of its arguments.

    Args:
        picture: Function that returns a result which shows itself in a notebook.
        choices: The values of each argument, at least one.

    Returns:
        A widget, or where ipywidgets is not installed what `picture` returns for the first values.

    Raises:
        ValueError: An argument has no values.

    >>> import hloscope
    >>> root = hloscope.read("ENTRY e { p = f32[64] parameter(0) ROOT n = f32[64] negate(p) }").root
    >>> shown = sliders(lambda rows: root.tiles([rows]), rows=(1, 2, 4))
    """
    for name, values in choices.items():
        if not values:
            raise ValueError(f"`{name}` has no values to choose from")
    if find_spec("ipywidgets") is None:
        return picture(**{name: values[0] for name, values in choices.items()})
    widgets = lazy("ipywidgets")
    made = {
        name: widgets.SelectionSlider(options=[*values], description=name)
        for name, values in choices.items()
    }
    return widgets.interactive(picture, **made)
