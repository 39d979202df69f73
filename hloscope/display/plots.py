"""Plots by matplotlib: rooflines, live bytes, costs and constraints of tiles, warps, layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import Any, Final

from msgspec import Struct

from hloscope.cost import Group, KernelCost, ProgramCost
from hloscope.cost.buffers import BufferKind, ProgramMemory
from hloscope.display.buffer_answers import moment_text
from hloscope.display.cost import count_text, time_text
from hloscope.display.grouped import share_text
from hloscope.display.picture import COLOURS, Picture, Shape, box, label, svg_of
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import brief_type
from hloscope.ir import size_text
from hloscope.memory import ArrayUse
from hloscope.support.arrays import Bools, Floats, np
from hloscope.support.devices import SECTOR, Device
from hloscope.support.system import library_of
from hloscope.tiling import Sweep, SymbolicTiles

# --------------------------------------------------------------------------------------------------
# Plots by matplotlib: rooflines, live bytes, costs and constraints of tiles, warps, layouts.
#
# Each function draws into matplotlib axes, or into those of a new pyplot figure, and returns them.
# A plot depends on the result alone.


_NAMED: Final = 5
"""Number of groups that a roofline names: those with the largest bound."""
_LARGEST_SIDE: Final = 256
"""Largest tile size on an axis of allowed sizes."""
_MOST_ABOVE: Final = 1.6
"""A device's size is drawn if it is at most this multiple of the peak."""
_MOST_TEXTS: Final = 200
"""Maximum number of cells of a heat map that show their numbers."""
_KINDS: Final[Mapping[BufferKind, str]] = {
    "constant": "#39485a", "parameter": "#5b6b7c", "output": "#8696a7", "temporary": COLOURS[0],
}  # fmt: skip
"""Kinds of buffers from the bottom to the top, with their colours."""


def axes_of(axes: Any, size: tuple[float, float] = (7.6, 4.4)) -> Any:
    """Return the axes, or those of a new pyplot figure if `axes` is `None`.

    `size` has width and height of the new figure, in inches.

    Raises:
        InputError: matplotlib is not installed.
    """
    pyplot = library_of("notebook", "matplotlib.pyplot", "plots")
    return pyplot.subplots(figsize=size, layout="constrained")[1] if axes is None else axes


def _ticker() -> Any:
    return library_of("notebook", "matplotlib.ticker", "plots")


# -------------------------------------------------------------------------------------- roofline


def plot_roofline(cost: ProgramCost, groups: Sequence[Group[KernelCost]], axes: Any) -> Any:
    """Draw the kernels of a program under the roofs of its device; the whole program is a star.

    The x axis is the arithmetic intensity, in operations per byte of footprint; the y axis
    operations per second at the time bound. The area of a point is the group's share of all bounds,
    its colour the unit that limits it. The five groups with the largest bound have numbers and
    names.

    Args:
        cost: The kernels and the device.
        groups: The kernels in groups; the first of each represents it.
        axes: Matplotlib axes to draw into; `None` for those of a new figure.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
        UnsupportedError: The bandwidth of the device is not known, or no kernel computes.
    """
    device, kernels = cost.device, cost.kernels
    if not device.bandwidth:
        raise UnsupportedError("a roofline needs a device whose bandwidth is known: device='h100'")
    drawn = [
        g for g in groups if g.first.flops and g.first.footprint.bytes and g.first.time.seconds
    ]
    if not drawn:
        raise UnsupportedError("no kernel computes: a roofline has no points")
    axes = axes_of(axes)
    whole = sum([k.bound * k.runs for k in kernels])
    units = list(dict.fromkeys([g.first.limited_by for g in drawn]))
    for unit, colour in zip(units, (COLOURS * len(units)), strict=False):
        mine = [g for g in drawn if g.first.limited_by == unit]
        axes.scatter(
            [_intensity(g.first) for g in mine],
            [_rate(g.first) for g in mine],
            s=[20 + 600 * _time(g) / whole for g in mine],
            color=colour, alpha=0.75, edgecolors="white", linewidths=0.6,
            label=f"limited by {unit}", zorder=3,
        )  # fmt: skip
    _draw_roofs(axes, kernels, device, [_intensity(g.first) for g in drawn])
    _name_points(axes, sorted(drawn, key=_time, reverse=True)[:_NAMED])
    flops, size = sum([k.flops for k in kernels]), sum([k.bytes for k in kernels])
    axes.plot(
        flops / size, flops / (whole * 1e-12), "*", color="#1c2733", markersize=13, zorder=4,
        label=f"all kernels, {time_text(whole)}",
    )  # fmt: skip
    rest = sum([k.bound * k.runs for k in kernels if not k.flops])
    title = f"{cost.module.name} on {device.name}"
    if rest:
        title += f"; {share_text(rest / whole)} of the bound is kernels without flops"
    axes.set(title=title, xscale="log", yscale="log")
    axes.set(xlabel="flops for each byte moved at least", ylabel="flop/s at the bound of time")
    axes.yaxis.set_major_formatter(lambda value, _: count_text(int(value)))
    axes.legend(fontsize=8, loc="lower right")
    return axes


def _intensity(kernel: KernelCost) -> float:
    return kernel.footprint.flops / kernel.footprint.bytes


def _rate(kernel: KernelCost) -> float:
    """Return the operations per second of a kernel at its bound."""
    return kernel.footprint.flops / kernel.time.seconds


def _time(group: Group[KernelCost]) -> int:
    """Return the bound of all runs of a group's kernels, in picoseconds."""
    return sum([kernel.bound * kernel.runs for kernel in group.members])


def _draw_roofs(
    axes: Any, kernels: Sequence[KernelCost], device: Device, intensities: Sequence[float]
) -> None:
    """Draw the roof of the memory, and one for each unit and element type of the kernels.

    Args:
        axes: Matplotlib axes to draw into.
        kernels: The kernels.
        device: The device, for its bandwidth.
        intensities: Arithmetic intensities of the drawn points, which decide the range of the x
            axis.
    """
    used = {
        (part.unit, part.element): part.rate
        for kernel in kernels
        for part in kernel.time.parts
        if part.unit in ("matrix", "vector") and part.rate and part.amount
    }
    bandwidth = device.bandwidth * 1e9
    highest = max(used.values(), default=0.0)
    left = min(intensities) / 4
    right = max([*intensities, highest / bandwidth]) * 4
    # The memory roof ends where the highest compute roof starts: to its right another unit is the
    # limit.
    edge = min(right, highest / bandwidth) if highest else right
    axes.plot([left, edge], [left * bandwidth, edge * bandwidth], color="#66717f", linewidth=1.2)
    middle = (left * edge) ** 0.5
    axes.annotate(
        f"{device.bandwidth:,.0f} GB/s", (middle, middle * bandwidth), fontsize=8,
        color="#66717f", ha="right", xytext=(-8, 4), textcoords="offset points",
    )  # fmt: skip
    for rate in sorted(set(used.values())):
        units = ", ".join(sorted([f"{u} {e}" for (u, e), r in used.items() if r == rate]))
        start = rate / bandwidth
        if start < right:
            axes.plot([start, right], [rate, rate], color="#66717f", linewidth=1.2)
            axes.annotate(
                f"{units}: {count_text(int(rate))}flop/s", (right, rate), fontsize=8,
                color="#66717f", ha="right", xytext=(0, 3), textcoords="offset points",
            )  # fmt: skip


def _name_points(axes: Any, groups: Sequence[Group[KernelCost]]) -> None:
    """Number the points of groups, and list the groups' names at the top left of the axes.

    No point can be there, because it is above the roof.
    """
    lines = []
    for number, group in enumerate(groups, 1):
        more = f" and {len(group.members) - 1} like it" if len(group.members) > 1 else ""
        lines.append(f"{number}  {group.first.instruction.name}{more}, {time_text(_time(group))}")
        axes.annotate(
            str(number), (_intensity(group.first), _rate(group.first)), fontsize=8,
            xytext=(4, -14), textcoords="offset points",
        )  # fmt: skip
    axes.text(
        0.015, 0.975, "\n".join(lines), transform=axes.transAxes, va="top", fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )  # fmt: skip


# ---------------------------------------------------------------------------------------- memory


def plot_memory(name: str, memory: ProgramMemory, axes: Any, device: Device | None = None) -> Any:
    """Draw live bytes over the schedule, by kind of buffer; the peak is marked.

    The line is `L(t)`, in which results that take the memory of operands count once.

    Args:
        name: The program's name.
        memory: The memory of the program.
        axes: Matplotlib axes to draw into; `None` for those of a new figure.
        device: A device whose memory size is drawn as a line.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
        NoMomentsError: The program has no schedule.
    """
    line = memory.device
    axes = axes_of(axes)
    moments = range(len(line.least) + 1)
    below = np.zeros(len(line.least))
    for kind, colour in _KINDS.items():
        above = below + _live_bytes(memory, kind)
        if (above > below).any():
            axes.stairs(above, moments, baseline=below, fill=True, color=colour, label=kind)
        below = above
    axes.stairs(line.least, moments, baseline=None, color="#1c2733", linewidth=1.1,
                label="least")  # fmt: skip
    axes.axvline(line.peak + 0.5, color="#c92a2a", linestyle="--", linewidth=1)
    top = float(below.max())
    if device is not None and 0 < device.memory_bytes <= _MOST_ABOVE * top:
        top = max(top, device.memory_bytes)
        axes.axhline(device.memory_bytes, color="#1c2733", linewidth=1.5)
        axes.annotate(f"{device.name}: {size_text(device.memory_bytes)}", (0, device.memory_bytes),
                      xytext=(4, 4), textcoords="offset points", fontsize=8)  # fmt: skip
    step = 1 << max(0, (int(top) // 8).bit_length())
    axes.yaxis.set_major_locator(_ticker().MultipleLocator(step))
    axes.yaxis.set_major_formatter(lambda value, _: size_text(value))
    axes.set(title=f"{name}\npeak: {moment_text(memory, line.peak)}", ylabel="live bytes")
    axes.set(xlabel="place in the schedule", xlim=(0, len(line.least)), ylim=(0, None))
    axes.title.set_fontsize(10)
    axes.legend(fontsize=8, loc="upper left")
    return axes


def _live_bytes(memory: ProgramMemory, kind: BufferKind) -> Floats:
    """Return the bytes of the buffers of a kind that are live at each moment, in default memory."""
    changes = [0] * (len(memory.device.least) + 1)
    for buffer in memory.buffers.buffers:
        if buffer.kind == kind and not buffer.space:
            for first, last in buffer.intervals:
                changes[first] += buffer.bytes
                changes[last + 1] -= buffer.bytes
    return np.array([*accumulate(changes)][:-1], dtype=np.float64)


# ----------------------------------------------------------------------------------------- tiles


def plot_tile_costs(
    symbolic: SymbolicTiles, costs: Sweep, fits: Bools, chosen: tuple[int, int], axes: Any
) -> Any:
    """Draw the fewest bytes moved over two tile sizes, as a heat map; the best tiling has a frame.

    A cell shows the cheapest tiling with its two sizes that fits; it is empty if none fits.

    Args:
        symbolic: The symbolic tiles of the fusion.
        costs: The costs of its tilings.
        fits: For each tiling, whether the device can run it.
        chosen: Numbers of the tile sizes on the horizontal and the vertical axis.
        axes: Matplotlib axes to draw into; `None` for those of a new figure.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
        UnsupportedError: No tiling fits.
    """
    if not fits.any():
        raise UnsupportedError("no tiling fits: there are no costs to draw")
    x, y = chosen
    across, upwards = (sorted(set(costs.sizes[:, k].tolist())) for k in chosen)
    cells = np.full((len(upwards), len(across)), np.nan)
    for row in np.flatnonzero(fits):
        at = upwards.index(costs.sizes[row, y]), across.index(costs.sizes[row, x])
        cells[at] = np.fmin(cells[at], costs.bytes_moved[row])
    axes = axes_of(axes)
    colors = library_of("notebook", "matplotlib.colors", "plots")
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    norm = colors.LogNorm(low, high if high > low else low * 2)
    mesh = axes.pcolormesh(cells, cmap="viridis_r", norm=norm, edgecolors="white", linewidth=0.5)
    axes.set_facecolor("#eef1f5")
    if cells.size <= _MOST_TEXTS:
        for at in zip(*np.nonzero(~np.isnan(cells)), strict=True):
            shade = "white" if norm(cells[at]) > 0.5 else "black"
            axes.text(at[1] + 0.5, at[0] + 0.5, size_text(cells[at]).replace(" ", "\n"),
                      ha="center", va="center", fontsize=6.5, color=shade)  # fmt: skip
    best = np.unravel_index(np.nanargmin(cells), cells.shape)
    patches = library_of("notebook", "matplotlib.patches", "plots")
    axes.add_patch(patches.Rectangle((best[1], best[0]), 1, 1, fill=False, edgecolor="#c92a2a",
                                     linewidth=2))  # fmt: skip
    bar = axes.figure.colorbar(mesh, ax=axes, label="fewest bytes moved")
    bar.ax.yaxis.set_major_locator(_ticker().LogLocator(base=4, numticks=8))
    bar.ax.yaxis.set_major_formatter(lambda value, _: size_text(value))
    bar.ax.yaxis.set_minor_formatter(_ticker().NullFormatter())
    axes.set_xticks(np.arange(len(across)) + 0.5, [str(n) for n in across])
    axes.set_yticks(np.arange(len(upwards)) + 0.5, [str(n) for n in upwards])
    axes.set(xlabel=_parameter_text(symbolic, x), ylabel=_parameter_text(symbolic, y))
    axes.set_title(f"{symbolic.root.name}: {int(fits.sum()):,} of {len(costs):,} tilings fit",
                   fontsize=10)  # fmt: skip
    return axes


def _parameter_text(symbolic: SymbolicTiles, number: int) -> str:
    """Return the label of an axis: the dimension of tile size `number`."""
    parameter = symbolic.parameters[number]
    kind = "contracted dimension" if parameter.is_contracting else "dimension"
    name = parameter.instruction.name
    return f"d{number}: tile size of {kind} {parameter.dimension} of {name} ({parameter.size})"


def plot_allowed_sizes(
    symbolic: SymbolicTiles, chosen: tuple[int, int], others: Sequence[int], axes: Any
) -> Any:
    """Draw the tile sizes that XLA's constraints allow, over two of the sizes.

    Args:
        symbolic: The symbolic tiles of the fusion.
        chosen: Numbers of the tile sizes on the horizontal and the vertical axis.
        others: A value for every tile size; only those of sizes without an axis are used.
        axes: Matplotlib axes to draw into; `None` for those of a new figure.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
    """
    x, y = chosen
    across, upwards = (min(symbolic.parameters[k].size, _LARGEST_SIDE) for k in chosen)
    rows = np.tile(np.array(others, np.int64), (across * upwards, 1))
    rows[:, x] = np.tile(np.arange(1, across + 1), upwards)
    rows[:, y] = np.repeat(np.arange(1, upwards + 1), across)
    allowed = symbolic.constraints.holds_array(rows).reshape(upwards, across)
    axes = axes_of(axes)
    colors = library_of("notebook", "matplotlib.colors", "plots")
    shades = colors.ListedColormap(["#f4c9ae", COLOURS[0]])
    line = 0.4 if max(across, upwards) <= 64 else 0
    edges = np.arange(across + 1) + 0.5, np.arange(upwards + 1) + 0.5
    axes.pcolormesh(*edges, allowed, cmap=shades, vmin=0, vmax=1, edgecolors="white",
                    linewidth=line, rasterized=True)  # fmt: skip
    axes.set(xlabel=_parameter_text(symbolic, x), ylabel=_parameter_text(symbolic, y))
    held = [f"d{k} = {size}" for k, size in enumerate(others) if k not in chosen]
    title = f"blue: {symbolic.constraints}"
    title += f"\n{int(allowed.sum()):,} of {allowed.size:,} sizes are allowed"
    axes.set_title(", ".join([title, *held]), fontsize=10)
    return axes


# ----------------------------------------------------------------------------------------- warps


def plot_warp(name: str, array: ArrayUse, axes: Any) -> Any:
    """Draw the sectors that the lanes of an array's worst warp access: a row for each lane.

    The x axis has the distinct sectors in the order of their addresses; the darker a cell, the more
    bytes of the sector the lane accesses.

    Args:
        name: Name of the kernel.
        array: The accesses of the array.
        axes: Matplotlib axes to draw into; `None` for those of a new figure.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
        UnsupportedError: The requests of the array are not known.
    """
    request = None if array.traffic is None else array.traffic.worst
    if request is None:
        raise UnsupportedError(f"the requests for `{array.name}` are not known: no warp to draw")
    touched: dict[tuple[int, int], int] = {}
    asked: set[int] = set()
    for lane, address in enumerate(request.addresses):
        for byte in range(address, address + request.unit) if address is not None else ():
            asked.add(byte)
            touched[lane, byte // SECTOR] = touched.get((lane, byte // SECTOR), 0) + 1
    sectors = sorted({sector for _, sector in touched})
    place = {sector: k for k, sector in enumerate(sectors)}
    cells = np.full((len(request.addresses), len(sectors)), np.nan)
    for (lane, sector), count in touched.items():
        cells[lane, place[sector]] = count
    axes = axes_of(axes)
    edges = np.arange(cells.shape[1] + 1) - 0.5, np.arange(cells.shape[0] + 1) - 0.5
    mesh = axes.pcolormesh(*edges, cells, cmap="Blues", vmin=-8, vmax=SECTOR, edgecolors="white",
                           linewidth=0.4, rasterized=True)  # fmt: skip
    axes.set_facecolor("#eef1f5")
    axes.invert_yaxis()
    axes.figure.colorbar(mesh, ax=axes, label=f"bytes of the sector's {SECTOR}",
                         boundaries=np.arange(SECTOR + 1))  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(_ticker().MaxNLocator(8, integer=True))
    kind = "output" if array.is_output else "operand"
    used = f"{len(asked)} of {len(sectors) * SECTOR} bytes used"
    axes.set_title(f"{name}: {kind} {array.number}, {array.name} {brief_type(array.type)}\n"
                   f"worst warp: {len(sectors)} sectors, {used}", fontsize=10)  # fmt: skip
    axes.set(xlabel="sectors touched, by address", ylabel="lane")
    return axes


# --------------------------------------------------------------------------------------- layouts


def plot_layout(grid: LayoutGrid, axes: Any) -> Any:
    """Draw the elements of a tile as cells with their texts, and a legend of the colours.

    Args:
        grid: The tile.
        axes: Matplotlib axes to draw into; `None` for those of a new figure of a size that fits the
            tile.

    Returns:
        The axes.

    Raises:
        InputError: matplotlib is not installed.
    """
    rows, columns = len(grid.rows), grid.columns
    axes = axes_of(axes, (min(40, 0.36 * columns + 2.4), min(40, 0.3 * rows + 1.5)))
    colors = library_of("notebook", "matplotlib.colors", "plots")
    patches = library_of("notebook", "matplotlib.patches", "plots")
    free = "#eef1f5"
    cells = [cell for row in grid.rows for cell in row]
    shades = [free if cell.colour is None else COLOURS[cell.colour] for cell in cells]
    axes.imshow(colors.to_rgba_array(shades).reshape(rows, columns, 4), aspect="auto")
    axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, color="white", linewidth=0.6)
    axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, color="white", linewidth=0.6)
    # A text takes about 2.4 times its font size across and 2.6 times for two lines.
    wide, high = axes.figure.get_size_inches() * 72
    size = min(8.0, 0.75 * wide / columns / 2.6, 0.75 * high / rows / 2.6)
    for i, row in enumerate(grid.rows):
        for j, cell in enumerate(row):
            axes.text(j, i, "\n".join(cell.lines), ha="center", va="center", fontsize=size,
                      color="white", linespacing=1.0)  # fmt: skip
    entries = [*zip(COLOURS, grid.legend, strict=False)]
    if grid.has_free_elements:
        entries.append((free, "no thread"))
    handles = [patches.Patch(facecolor=colour, label=text) for colour, text in entries]
    axes.legend(handles=handles, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0),
                borderaxespad=0, title=f"each cell: {grid.cell}", title_fontsize=8)  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(_ticker().MaxNLocator(16, integer=True))
    title = [*wrap(grid.title, max(24, int(wide / 5.6))), *grid.notes]
    axes.set_title("\n".join(title), fontsize=9, loc="left")
    return axes


# --------------------------------------------------------------------------------------------------
# Pictures of layouts: the thread and value of each element of a tile, or its memory bank.


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
        tip: Text of the tooltip.
    """

    lines: tuple[str, ...]
    colour: int | None
    tip: str


class LayoutGrid(Struct, frozen=True):
    """A tile as rows of cells.

    Attributes:
        title: Text about the layout.
        cell: Text on the meaning of the lines in a cell.
        rows: The cells; a tile of one dimension has one row.
        legend: The meaning of each colour; at most `GRID_COLOURS` entries.
        notes: Lines about the whole tile.
    """

    title: str
    cell: str
    rows: tuple[tuple[GridCell, ...], ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.rows[0])

    @property
    def has_free_elements(self) -> bool:
        """Is there an element that no thread holds?"""
        return any(cell.colour is None for row in self.rows for cell in row)


def layout_text_of(grid: LayoutGrid) -> str:
    """Return the grid as text: a line for each row, the meaning of the colours, and the notes."""
    texts = [[" ".join(cell.lines) or "-" for cell in row] for row in grid.rows]
    wide = max(len(text) for row in texts for text in row)
    lines = ["  ".join([text.ljust(wide) for text in row]).rstrip() for row in texts]
    return "\n".join([grid.title, f"each element: {grid.cell}", "", *lines, "", *grid.notes])


def layout_svg(grid: LayoutGrid) -> str:
    """Return the grid as an SVG document with a legend; dark pages have other colours."""
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
    """Yield the cells of a grid with their texts, and the numbers of rows and columns.

    `left` and `top` are the coordinates of the first cell's upper left corner.
    """
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
    """Return a rectangle at (x, y) in colour number `colour` of the legend.

    `None` stands for the colour of elements that no thread holds.
    """
    if colour is None:
        return box(x, y, width, height, kind="empty")
    return box(x, y, width, height, fill=COLOURS[colour])


def grouped_legend(kind: str, count: int) -> tuple[str, ...]:
    """Return the meaning of each colour if number `n` of a kind has the colour `n mod 8`.

    `kind` is the noun, `count` the number of things of this kind.

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
