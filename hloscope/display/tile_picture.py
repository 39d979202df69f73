"""A picture of an output tile, and of the elements that it reads of each operand.

The tile is one whose box has holes, or that shares elements with another tile, or else one in the
middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Final

from hloscope.affine import Interval
from hloscope.display.answer import opcode_of, shape_text
from hloscope.display.boxes import Box, Index, box_size, boxes_of
from hloscope.display.pages import page, styled
from hloscope.display.picture import OUTPUT, READS, Mark, Panel, svg
from hloscope.display.text import headline
from hloscope.display.tiles import exact_lines, tiles_text
from hloscope.indexing import ExactTiles, IndexingMap
from hloscope.ir import TensorType
from hloscope.tiling import OperandTiles, TileReport
from hloscope.visible import in_page

MAX_POINTS: Final = 1 << 17
"""Most elements that a drawn tile reads."""
MAX_PANELS: Final = 8
_HOLES, _SHARED, _EDGE = "#c92a2a", "#dfa021", "#b79ced"


def tiles_svg(report: TileReport) -> str:
    """The output with a tile, and each operand with the elements that the tile reads.

    Raises:
        ValueError: No tile sizes were given.
    """
    if report.sizes is None:
        raise ValueError("a picture needs tile sizes")
    shape, sizes = report.type.shape, report.output_sizes
    tile = _shown(report)
    side = [
        range(t * n, min(t * n + n, size)) for t, n, size in zip(tile, sizes, shape, strict=True)
    ]
    marks = [*_edges(shape, sizes), Mark([tuple(side)], OUTPUT, f"tile {_list(tile)}")]
    name = report.instruction.name
    panels = [Panel(f"{name} {shape_text(report.type)}", shape, marks)]
    drawn = [o for o in report.operands if isinstance(o.type, TensorType) and o.type.is_static]
    panels += [_panel(o, tile, sizes, shape) for o in drawn[:MAX_PANELS]]
    notes = [f"and {len(drawn) - MAX_PANELS} operands more"] if len(drawn) > MAX_PANELS else []
    if report.refusal is not None:
        notes.append(f"XLA refuses: {report.refusal.reason}")
    by = " x ".join(map(str, sizes)) or "1"
    return svg(panels, caption=f"What tile {_list(tile)} of {by} of {name} reads", notes=notes)


def tiles_html(report: TileReport, *, whole: bool = True) -> str:
    """The picture and the text, as a page, or as a fragment if not `whole`."""
    drawn = tiles_svg(report) if report.sizes is not None else ""
    inside = styled(f"{drawn}<pre><code>{in_page(tiles_text(report))}</code></pre>\n")
    title = headline(report.instruction, opcode_of(report.instruction))
    return page(title, inside) if whole else inside


def _list(index: Sequence[int]) -> str:
    return f"({', '.join(map(str, index))})"


def _shown(report: TileReport) -> Index:
    """The tile to draw."""
    # A counterexample shows why XLA's tile is not exact: it is the most instructive tile.
    for example in ("missing", "overlap"):
        for o in report.operands:
            found = getattr(o.exact, example)
            if found is not None:
                tile: Index = found.tile if example == "missing" else found.tiles[0]
                return tile
    counts = [-(-n // t) for n, t in zip(report.type.shape, report.output_sizes, strict=True)]
    return tuple([max(count - 1, 0) // 2 for count in counts])


def _edges(shape: Index, sizes: Index) -> Iterator[Mark]:
    """Yield the partial tiles at the ends of dimensions that tile sizes do not divide."""
    for d, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if n % size:
            start = n - n % size
            box = tuple([range(start, n) if k == d else range(m) for k, m in enumerate(shape)])
            yield Mark([box], _EDGE, f"cut tiles of dimension {d}: {n % size} of {size}")


def _panel(o: OperandTiles, tile: Index, sizes: Index, shape: Index) -> Panel:
    assert isinstance(o.type, TensorType)
    title = f"{o.operand.name} {shape_text(o.type)}"
    mine = _elements(o.maps, tile, sizes)
    notes = [*exact_lines(o)]
    if any([m.runtime for m in o.maps]):
        notes.append("drawn for the lowest run-time values")
    if mine is None:
        return Panel(title, o.type.shape, [], ["not drawn: too many elements", *notes])
    inside = {e for e in mine if all([0 <= x < n for x, n in zip(e, o.type.shape, strict=True)])}
    marks = [Mark(_boxes(inside), READS[0], f"read: {len(inside):,}")] if inside else []
    holes = _holes(inside, o.exact)
    if holes:
        marks.append(Mark(_boxes(holes), _HOLES, f"holes in the box around it: {len(holes):,}"))
    shared = inside & _of_neighbours(o.maps, tile, sizes, shape) if inside else set()
    if shared:
        marks.append(Mark(_boxes(shared), _SHARED, f"read by tiles beside it too: {len(shared):,}"))
    return Panel(title, o.type.shape, marks, notes)


def _boxes(elements: set[Index]) -> Sequence[Box]:
    return boxes_of(elements)


def _elements(maps: Sequence[IndexingMap], tile: Index, sizes: Index) -> set[Index] | None:
    """Elements that a tile reads, runtime variables at their minimum; `None` if too many."""
    found: set[Index] = set()
    for m in maps:
        sides = [
            v.interval & Interval(t * n, t * n + n - 1)
            for v, t, n in zip(m.dims, tile, sizes, strict=True)
        ]
        runs = [v.interval for v in m.ranges]
        if prod([i.size for i in (*sides, *runs)]) > MAX_POINTS:
            return None
        runtime = [v.interval.lo for v in m.runtime]
        found |= m.points_of_box(sides, runtime)
    return found


def _holes(elements: set[Index], exact: ExactTiles) -> set[Index]:
    """Elements of the strided box around `elements` that are not among them."""
    if not exact.holes or not elements or not next(iter(elements)):
        return set()
    sides = []
    for column in zip(*elements, strict=True):
        low = min(column)
        # The elements of a column are `low` plus multiples of the gcd of the differences: the
        # tightest strided box.
        step = gcd(*[x - low for x in column])
        sides.append(range(low, max(column) + 1, max(step, 1)))
    if box_size(sides) > MAX_POINTS:
        return set()
    return {*product(*sides)} - elements


def _of_neighbours(
    maps: Sequence[IndexingMap], tile: Index, sizes: Index, shape: Index
) -> set[Index]:
    """Elements that the neighbouring tiles read."""
    found: set[Index] = set()
    for d, (t, n, size) in enumerate(zip(tile, sizes, shape, strict=True)):
        for step in (-1, 1):
            if 0 <= t + step < -(-size // n):
                other = (*tile[:d], t + step, *tile[d + 1 :])
                found |= _elements(maps, other, sizes) or set()
    return found
