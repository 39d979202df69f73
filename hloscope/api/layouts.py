"""Pictures of layouts: which thread holds each element of a tile, and which bank has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from hloscope.affine import Dim, Expr, Range, Var, substitute
from hloscope.display import (
    GRID_COLOURS,
    GridCell,
    LayoutGrid,
    Shown,
    grouped_legend,
    layout_svg,
    layout_text_of,
    page,
    styled,
)
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap, Variable
from hloscope.indexing.layouts import Blocked, CuteLayout, LinearLayout
from hloscope.memory import Launch, SharedAccess, ThreadLayout, bank_use, parse_thread_map
from hloscope.support.arrays import Ints, np
from hloscope.support.devices import DEFAULT, Device, gpu_of
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.display as display
else:
    display = lazy("hloscope.display")

MOST_ELEMENTS: Final = 1 << 12
"""Maximum number of elements of a tile that is drawn."""
MOST_HELD: Final = 1 << 16
"""Maximum number of values that all threads together hold."""
MOST_THREADS: Final = 1 << 10
"""Maximum number of threads of a block."""


class LayoutPicture(Shown):
    """A layout as a grid of the tile's elements; prints itself, and draws itself in notebooks.

    Attributes:
        grid: The cells of the tile, row by row, and the meaning of the colours.
    """

    def __init__(self, grid: LayoutGrid) -> None:
        self.grid: Final = grid

    def plot(self, ax: Any = None) -> Any:
        """Draw the grid with a legend of its colours, by matplotlib.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed.
        """
        return display.plot_layout(self.grid, ax)

    def to_svg(self) -> str:
        """Return the grid with a legend of its colours, as SVG."""
        return layout_svg(self.grid)

    def to_html(self) -> str:
        """Return one HTML file with the picture; it loads no other file."""
        return page(self.grid.title, self._repr_html_())

    def __str__(self) -> str:
        return visible(layout_text_of(self.grid))

    def _repr_html_(self) -> str:
        return styled(self.to_svg())


def thread_values(
    layout: str | Blocked | LinearLayout | CuteLayout,
    tile: Sequence[int] | None = None,
    *,
    device: str = DEFAULT,
) -> LayoutPicture:
    """Return a picture of the threads and values that hold each element of a tile.

    `T5 V2` is value (register) 2 of thread 5; `+1` says that one more thread or value holds the
    element too. A tile of one warp has colours by thread, a larger one by warp.

    Args:
        layout: A blocked encoding or linear layout of Triton, a CuTe layout from (thread, value)
            to positions in a tile whose first size is the fastest, or the text of one.
        tile: Sizes of the tile, one or two; by default the layout's own.
        device: Name of the GPU, for the threads of a warp of CuTe layouts.

    Raises:
        ParseError: The text is not a layout.
        UnsupportedError: The layout has other inputs, leads out of the tile, or is too large to
            draw.

    >>> print(thread_values("((4,2),2):((2,1),8)", (4, 4)))
    threads and values of ((4,2),2):((2,1),8), tile 4 x 4
    each element: thread, value (register)
    <BLANKLINE>
    T0 V0  T2 V0  T0 V1  T2 V1
    T4 V0  T6 V0  T4 V1  T6 V1
    T1 V0  T3 V0  T1 V1  T3 V1
    T5 V0  T7 V0  T5 V1  T7 V1
    <BLANKLINE>
    8 threads, 2 values each
    """
    given = _parsed(layout)
    sizes = tuple(tile) if tile is not None else _own_tile(given)
    if not 1 <= len(sizes) <= 2 or any(n < 1 for n in sizes) or prod(sizes) > MOST_ELEMENTS:
        raise UnsupportedError(
            f"a tile of sizes {list(sizes)}: a picture has one or two dimensions and at most "
            f"{MOST_ELEMENTS:,} elements; give a smaller `tile`"
        )
    if isinstance(given, Blocked):
        given = given.to_linear(sizes)
    if isinstance(given, CuteLayout):
        lanes = gpu_of(device).warp
        threads, values, at = _held_by_cute(given, sizes)
    else:
        lanes = dict(given.size_of).get("lane", 1)
        threads, values, at = _held_by_linear(given, sizes)
    holders: dict[int, list[tuple[int, int]]] = {}
    for element, thread, value in zip(at.tolist(), threads.tolist(), values.tolist(), strict=True):
        holders.setdefault(element, []).append((thread, value))
    count, registers = int(threads.max()) + 1, int(values.max()) + 1
    by_warp = count > lanes
    cells = [
        _held_cell(np.unravel_index(k, sizes), sorted(holders.get(k, ())), lanes, by_warp)
        for k in range(prod(sizes))
    ]
    legend = grouped_legend("warp", -(-count // lanes)) if by_warp else ()
    note = f"{count:,} thread{'s' * (count > 1)}, {registers:,} value{'s' * (registers > 1)} each"
    wide = sizes[-1]
    return LayoutPicture(LayoutGrid(
        f"threads and values of {_title(layout)}, tile {' x '.join(map(str, sizes))}",
        "thread, value (register)",
        tuple([tuple(cells[k : k + wide]) for k in range(0, len(cells), wide)]),
        legend or grouped_legend("thread", count),
        (note,),
    ))  # fmt: skip


def _parsed(
    layout: str | Blocked | LinearLayout | CuteLayout,
) -> Blocked | LinearLayout | CuteLayout:
    """Return the layout, parsed if it is a text.

    Raises:
        UnsupportedError: The text is an indexing map.
    """
    if not isinstance(layout, str):
        return layout
    found = parse_thread_map(layout)
    if not isinstance(found, ThreadLayout):
        raise UnsupportedError("an indexing map is not a layout: give one of Triton or CuTe")
    return found.layout


def _title(layout: str | Blocked | LinearLayout | CuteLayout) -> str:
    """Return the layout as one line.

    Triton's text of a linear layout has many lines, so only its kind is returned.
    """
    if isinstance(layout, LinearLayout):
        return "a linear layout"
    text = str(layout).strip()
    return "a linear layout" if "\n" in text else text


def _own_tile(layout: Blocked | LinearLayout | CuteLayout) -> tuple[int, ...]:
    """Return the sizes of the tile that a layout covers if no tile is given."""
    match layout:
        case Blocked():
            return layout.tile
        case LinearLayout():
            return tuple([size for _, size in layout.outs])
        case _:
            return (layout.cosize,)


def _held_by_linear(layout: LinearLayout, tile: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Return thread, value and row-major element of every value of every thread.

    Each array has shape `[n]`.

    Raises:
        UnsupportedError: The layout has other inputs, several blocks, or another tile.
    """
    sizes = dict(layout.size_of)
    if not sizes.keys() <= {"register", "lane", "warp", "block"} or sizes.get("block", 1) > 1:
        raise UnsupportedError("a layout of register, lane and warp, in one block, is needed")
    if tuple([size for _, size in layout.outs]) != tuple(tile):
        raise UnsupportedError(f"a linear layout has a tile of its own, not {list(tile)}")
    points = _points([*sizes.values()])
    named: Mapping[str, Ints] = dict(zip(sizes, points, strict=True))
    results = layout.to_map().evaluate_array([*points], [])
    none = np.zeros(points.shape[1], np.int64)
    threads = named.get("warp", none) * sizes.get("lane", 1) + named.get("lane", none)
    at = np.ravel_multi_index([np.broadcast_to(r, none.shape) for r in results], tuple(tile))
    return threads, named.get("register", none), at


def _held_by_cute(layout: CuteLayout, tile: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Return thread, value and row-major element of every value of every thread.

    Each array has shape `[n]`. CuTe numbers the positions of a tile with the first size fastest.

    Raises:
        UnsupportedError: The layout has too many modes, or leads out of the tile.
    """
    m = layout.to_map(by_mode=True)
    if len(m.dims) > 2:
        raise UnsupportedError(f"{len(m.dims)} modes: a layout of threads and values has two")
    points = _points([v.interval.size for v in m.dims])
    place = np.broadcast_to(m.evaluate_array([*points], [])[0], points.shape[1:])
    if place.min() < 0 or place.max() >= prod(tile):
        raise UnsupportedError(
            f"the layout leads to positions {place.min()} to {place.max()} of a tile of "
            f"{prod(tile)}: give the sizes of the tile"
        )
    index = np.unravel_index(place, tuple(tile), order="F")
    values = points[1] if len(points) > 1 else np.zeros(points.shape[1], np.int64)
    return points[0], values, np.ravel_multi_index(index, tuple(tile))


def _points(sizes: Sequence[int]) -> Ints:
    """Return all points of a box, `[dimensions, points]`.

    Raises:
        UnsupportedError: There are more than `MOST_HELD` points.
    """
    if prod(sizes) > MOST_HELD:
        raise UnsupportedError(f"{prod(sizes):,} values, more than the {MOST_HELD:,} of a picture")
    found: Ints = np.indices(sizes).reshape(len(sizes), prod(sizes))
    return found


def _held_cell(
    at: Sequence[Any], holders: Sequence[tuple[int, int]], lanes: int, by_warp: bool
) -> GridCell:
    """Return the cell of an element: its first holder, and a tooltip with the first 32 holders.

    Args:
        at: Index of the element.
        holders: (thread, value) of each value that holds the element.
        lanes: Lanes of a warp.
        by_warp: Is the cell coloured by warp, and not by thread?
    """
    element = f"element [{', '.join([str(int(n)) for n in at])}]"
    if not holders:
        return GridCell((), None, f"{element}: no thread")
    thread, value = holders[0]
    more = f"+{len(holders) - 1}" if len(holders) > 1 else ""
    said = "; ".join([
        f"thread {t} (warp {t // lanes}, lane {t % lanes}), value {v}" for t, v in holders[:32]
    ] + ["…"] * (len(holders) > 32))  # fmt: skip
    colour = (thread // lanes if by_warp else thread) % GRID_COLOURS
    return GridCell((f"T{thread}", f"V{value}{more}"), colour, f"{element}: {said}")


def shared_banks(
    layout: str | CuteLayout, *, bits: int = 32, device: str = DEFAULT
) -> LayoutPicture:
    """Return a picture of the offset and bank of each element of a tile, and of bank conflicts.

    The tile is in shared memory. Conflicts are those of warps whose lanes access neighbouring
    elements of a row, or of a column: the number of different words that the busiest bank serves
    for the worst request.

    Args:
        layout: A CuTe layout, with or without swizzle, from (row, column) to the offset in
            elements, or its text; a layout of one mode is a row.
        bits: Bits of an element: 8, 16, 32, 64 or 128.
        device: Name of the GPU, for its banks and the lanes of a warp.

    Raises:
        ParseError: The text is not a CuTe layout.
        UnsupportedError: The layout has more modes, or is too large to draw.

    >>> print(shared_banks("(2,4):(4,1)", bits=64))
    shared memory (2,4):(4,1), 64 bits an element, 32 banks of 4 bytes (h100)
    each element: offset in elements, first bank
    <BLANKLINE>
    0 b0   1 b2   2 b4   3 b6
    4 b8   5 b10  6 b12  7 b14
    <BLANKLINE>
    a warp along a row: no conflicts
    a warp along a column: no conflicts
    """
    given = CuteLayout.parse(layout) if isinstance(layout, str) else layout
    if bits not in (8, 16, 32, 64, 128):
        raise UnsupportedError(f"elements of {bits} bits: known are 8, 16, 32, 64 and 128")
    where = gpu_of(device)
    m = given.to_map(by_mode=True)
    sizes = [v.interval.size for v in m.dims]
    if len(sizes) > 2 or prod(sizes) > MOST_ELEMENTS or max(sizes) > MOST_THREADS:
        raise UnsupportedError(
            f"a tile of sizes {sizes}: a picture has one or two dimensions, at most "
            f"{MOST_ELEMENTS:,} elements, and {MOST_THREADS:,} along each"
        )
    points = _points(sizes)
    offsets = np.broadcast_to(m.evaluate_array([*points], [])[0], points.shape[1:])
    if offsets.min() < 0:
        raise UnsupportedError(f"an offset is negative: {offsets.min()}")
    banks = offsets * bits // 8 // where.bank_bytes % where.banks
    wide = sizes[-1]
    group = max(1, where.banks // GRID_COLOURS)
    cells = [
        GridCell(
            (str(offset), f"b{bank}"),
            bank // group % GRID_COLOURS,
            f"element [{', '.join(map(str, point))}]: offset {offset}, bank {bank}",
        )
        for point, offset, bank in zip(
            points.T.tolist(), offsets.tolist(), banks.tolist(), strict=True
        )
    ]
    lines = [("row", len(sizes) - 1), ("column", 0)][: len(sizes)]
    notes = [
        f"a warp along a {name}: {_conflicts(m, k, int(offsets.max()) + 1, bits, where)}"
        for name, k in lines
    ]
    return LayoutPicture(LayoutGrid(
        f"shared memory {given}, {bits} bits an element, {where.banks} banks of "
        f"{where.bank_bytes} bytes ({where.name})",
        f"offset in elements, {'first ' * (bits > 8 * where.bank_bytes)}bank",
        tuple([tuple(cells[k : k + wide]) for k in range(0, len(cells), wide)]),
        tuple([f"banks {n * group} to {n * group + group - 1}" for n in range(GRID_COLOURS)]),
        tuple(notes),
    ))  # fmt: skip


def _conflicts(m: IndexingMap, dimension: int, size: int, bits: int, device: Device) -> str:
    """Return a statement on bank conflicts of warps whose lanes are neighbours along a dimension.

    Args:
        m: Map from an index of the tile to the offset in elements.
        dimension: The dimension of the tile.
        size: Number of elements from offset 0 to the last one.
        bits: Bits of an element.
        device: The device, for its banks and the lanes of a warp.
    """
    others = [k for k in range(len(m.dims)) if k != dimension]
    new: dict[Var, Expr] = {Dim(dimension): Dim(0)}
    new |= {Dim(k): Range(n) for n, k in enumerate(others)}
    launch = Launch.of(m.dims[dimension].interval.size, 1)
    by_thread = IndexingMap(
        launch.map((), ()).dims,
        [Variable(m.dims[k].interval) for k in others],
        (),
        [substitute(m.results[0], new)],
    )
    found = bank_use(SharedAccess("read", by_thread, (size,), bits), launch, device)
    if found.most <= 1:
        return "no conflicts"
    usual = "" if found.mean == found.most else f" at worst, {found.mean:.3g} on average"
    return f"{found.most} words of one bank{usual}"
