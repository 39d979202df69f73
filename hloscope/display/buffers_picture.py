"""Picture of a program's memory: bytes over the schedule, by kind and source line.

The x axis is the position in the schedule, the y axis bytes. Each area is painted from its upper
edge down to the bottom, the highest area first, so that only its part above the next area is
visible.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from hloscope.cost.buffers import ProgramMemory
from hloscope.display.buffer_answers import fit_text, moment_text, peak_lines
from hloscope.display.buffers import buffer_origin
from hloscope.display.buffers_stack import (
    KIND_PARTS,
    MOST_BLOCKS,
    OTHERS,
    Area,
    Band,
    Stack,
    stacks,
)
from hloscope.display.grouped import place_text, share_text
from hloscope.display.picture import COLOURS, Picture, Shape, box, label, line, svg_of
from hloscope.hlo_parser import brief_type
from hloscope.ir import size_text
from hloscope.support.devices import Device

_KIND_COLOURS: Final = dict(
    zip(KIND_PARTS.values(), ("#5b6b7c", "#8696a7", "#39485a"), strict=True)
)
_WIDTH, _LEFT, _RIGHT, _PAD = 900, 86, 18, 16
_PLOT: Final = _WIDTH - _LEFT - _RIGHT
_HIGH, _STEP, _BAND, _CHARACTER = 280, 17, 15, 7.3
_PLOT_WIDTH, _PLOT_HEIGHT = 440, 150
"""Width and height of a plot that is shown next to a table on a page."""
_COLUMNS: Final = int((_WIDTH - 2 * _PAD) / _CHARACTER)
"""Maximum number of characters of a line of text."""
_MOST_DEPTH: Final = 3
"""Maximum number of rows of nested loops and branches; deeper ones are left out."""
_MOST_ABOVE: Final = 1.6
"""A line at a device's size is drawn if the size is at most this multiple of the peak."""
STYLE: Final = (
    ".hm .page{fill:#ffffff}.hm text{fill:#1c2733}.hm .faint{fill:#5c6773}"
    ".hm .scale{stroke:#e3e8ee}.hm .others{fill:#cfd6de}.hm .block{stroke:#ffffff;stroke-width:.6}"
    ".hm .band{fill:#e3e8ee}.hm .peak{stroke:#c92a2a;stroke-dasharray:4 3}.hm .inside{fill:#ffffff}"
    ".hm .device{stroke:#1c2733;stroke-width:1.5}.hm .title{font-weight:bold}"
    "@media(prefers-color-scheme:dark){.hm .page{fill:#14191f}.hm text{fill:#dfe6ee}"
    ".hm .faint{fill:#97a3b0}.hm .scale{stroke:#2b343e}.hm .others{fill:#4a5563}"
    ".hm .block{stroke:#14191f}.hm .band{fill:#2b343e}.hm .peak{stroke:#ff8787}"
    ".hm .inside{fill:#ffffff}.hm .device{stroke:#dfe6ee}}"
)


def memory_svg(programs: Sequence[tuple[str, ProgramMemory]], device: Device | None = None) -> str:
    """Return the memory of programs as SVG, one below the other, on one scale.

    Args:
        programs: Each program's name and its memory.
        device: A device; a line is drawn at its memory size.

    Raises:
        NoMomentsError: One of the programs has no schedule.
    """
    return svg_of(memory_picture(programs, device), "hm", STYLE)


def memory_picture(
    programs: Sequence[tuple[str, ProgramMemory]], device: Device | None = None
) -> Picture:
    """Return the shapes of `memory_svg`, as data.

    Args:
        programs: Each program's name and its memory.
        device: A device; a line is drawn at its memory size.

    Raises:
        NoMomentsError: One of the programs has no schedule.
    """
    drawn, lines = stacks([memory for _, memory in programs])
    colours = _colours(lines)
    limit = device.memory_bytes if device is not None else 0
    highest = _top_of_scale(drawn, limit)
    shapes: list[Shape] = []
    y = float(_PAD)
    for (name, memory), stack in zip(programs, drawn, strict=True):
        y = _add_caption(shapes, y, name, memory, device)
        y = _add_bands(shapes, y, stack, _PLOT)
        plot = _Plot(stack, y + 20, highest, _PLOT, _HIGH)
        shapes += plot.shapes(colours)
        if limit and device is not None:
            shapes += plot.limit(device.name, limit)
        y = plot.bottom + 44
    y = _add_legend(shapes, y, drawn, colours)
    page = box(0, 0, _WIDTH, y, kind="page")
    title = f"memory of {' and '.join([name for name, _ in programs])}"
    return Picture(title, _WIDTH, int(y), (page, *shapes))


def memory_plot(name: str, memory: ProgramMemory, device: Device | None = None) -> Picture:
    """Return the areas of one program, without caption, and with the legend as data.

    Args:
        name: The program's name.
        memory: Its memory.
        device: A device; a line is drawn at its memory size, if that is on the scale.

    Raises:
        NoMomentsError: The program has no schedule.
    """
    (stack,), lines = stacks([memory])
    colours = _colours(lines)
    limit = device.memory_bytes if device is not None else 0
    highest = _top_of_scale([stack], limit)
    wide = _PLOT_WIDTH - _LEFT - _RIGHT
    shapes: list[Shape] = []
    y = _add_bands(shapes, 2, stack, wide)
    plot = _Plot(stack, y + 20, highest, wide, _PLOT_HEIGHT)
    shapes += plot.shapes(colours)
    if limit and device is not None:
        shapes += plot.limit(device.name, limit)
    parts = _parts([stack], colours)
    legend = [(colours.get(part, ""), _amount(stack, part), part) for part in parts]
    title = f"memory of {name}"
    return Picture(title, _PLOT_WIDTH, int(plot.bottom + 38), tuple(shapes), tuple(legend))


def _colours(lines: Sequence[str]) -> dict[str, str]:
    """Return the colour of each kind of buffer, and of each source line that has one."""
    return {**_KIND_COLOURS, **dict(zip(lines, COLOURS, strict=False))}


def _top_of_scale(drawn: Sequence[Stack], limit: int) -> int:
    """Return the bytes at the top of the scale: the highest peak, or `limit` if it is close.

    Args:
        drawn: The stacks of all programs.
        limit: Memory size of the device in bytes; 0 without one.
    """
    highest = max([stack.memory.lower for stack in drawn]) or 1
    return max(highest, limit) if limit <= _MOST_ABOVE * highest else highest


def _parts(drawn: Sequence[Stack], colours: Mapping[str, str]) -> list[str]:
    """Return the parts of the stacks in the order of their colours; uncoloured parts are last."""
    held = {area.part for stack in drawn for area in stack.areas}
    return [part for part in (*colours, OTHERS) if part in held]


def _add_caption(
    shapes: list[Shape], y: float, name: str, memory: ProgramMemory, device: Device | None
) -> float:
    """Add the name, the bounds, the peak and whether the program fits into a device.

    Return the y coordinate below.

    Args:
        shapes: The shapes so far.
        y: The y coordinate at which the text begins.
        name: Name of the program.
        memory: Its memory.
        device: The device; `None` for no line about it.
    """
    bounds, *_ = peak_lines(memory)
    texts = [name, bounds, f"peak: {moment_text(memory, memory.peak)}"]
    if device is not None:
        texts.append(fit_text(memory, device))
    for k, text in enumerate(texts):
        for row in wrap(text, _COLUMNS):
            y += _STEP
            shapes.append(label(_PAD, y - 4, row, "title" if k == 0 else "faint"))
    return y + 6


def _add_bands(shapes: list[Shape], y: float, stack: Stack, wide: float) -> float:
    """Add rows of labelled bars above the plot; return the y coordinate below the last row.

    The first row has the forward and backward passes of training. Each further row has the bodies
    of loops and the branches of one nesting depth. Empty rows are left out.

    Args:
        shapes: The shapes of the picture so far; the bars are added.
        y: The y coordinate at which the rows begin.
        stack: The program's stacked areas, with its passes, loop bodies and branches.
        wide: Width of the plot, which shows all moments of the program.
    """
    rows = [[*stack.passes]]
    for depth in range(_MOST_DEPTH):
        rows.append([band for band in stack.bodies if band.depth == depth])
    for row in filter(None, rows):
        for band in row:
            shapes += _band(band, y, stack, wide)
        y += _BAND + 2
    return y


def _band(band: Band, y: float, stack: Stack, whole: float) -> Iterator[Shape]:
    """Yield the bar of a band, and its name if that fits; a narrow bar has a minimum width.

    Args:
        band: The range of moments that the bar shows.
        y: Upper y coordinate of the bar.
        stack: The program's stacked areas, which have its number of moments.
        whole: Width of the plot, which shows all moments of the program.
    """
    count = stack.starts[-1]
    x = _LEFT + whole * band.first / count
    wide = max(whole * (band.last - band.first) / count, 0.6)
    tip = f"{band.name}: moments {band.first:,} to {band.last - 1:,}"
    yield box(round(x, 1), y, round(wide, 1), _BAND, kind="band block")._replace(tip=tip)
    if len(band.name) * _CHARACTER + 6 <= wide:
        yield label(round(x + 4, 1), y + 11.5, band.name, "faint")


class _Plot:
    """The areas of one program.

    Attributes:
        top: The y coordinate of the top of the scale.
        bottom: The y coordinate of 0 bytes.
    """

    def __init__(self, stack: Stack, top: float, highest: int, wide: float, high: float) -> None:
        self.top, self.bottom, self.highest = top, top + high, highest
        self._wide, self._high = wide, high
        self._stack, self._count = stack, stack.starts[-1]

    def x(self, moment: float) -> float:
        """Return the x coordinate of the start of a moment."""
        return round(_LEFT + self._wide * moment / self._count, 1)

    def y(self, count: int) -> float:
        """Return the y coordinate of a number of bytes, rounded to half a unit."""
        return round(2 * (self.bottom - self._high * count / self.highest)) / 2

    def shapes(self, colours: Mapping[str, str]) -> Iterator[Shape]:
        """Yield the grid, the areas from the highest down, the names that fit, and the peak.

        `colours` has the colour of each kind of buffer and source line; others are grey.
        """
        yield from self._grid()
        stack = self._stack
        below = [0] * len(stack.moments)
        painted: list[Shape] = []
        names: list[Shape] = []
        for area in stack.areas:
            edges = [low + height for low, height in zip(below, area.heights, strict=True)]
            painted.append(self._area(area, edges, colours))
            names += self._name(area, below, edges)
            below = edges
        yield from reversed(painted)
        yield from names
        yield from self._peak()

    def _area(self, area: Area, edges: Sequence[int], colours: Mapping[str, str]) -> Shape:
        """Return an area as a shape with its tooltip.

        Args:
            area: The area.
            edges: Its upper edge in each column, in bytes.
            colours: Colour of each part; other parts are grey.
        """
        attributes = {"d": self._outline(area, edges)}
        classes = [] if area.part in colours else ["others"]
        if area.part in colours:
            attributes["fill"] = colours[area.part]
        if area.buffer is not None:
            classes.append("block")
        if classes:
            attributes["class"] = " ".join(classes)
        return self._with_tip(Shape("path", attributes), area)

    def _with_tip(self, shape: Shape, area: Area) -> Shape:
        """Return the shape of an area with its tooltip, and the instruction that it links to."""
        memory = self._stack.memory
        if area.buffer is None:
            at_peak = size_text(area.heights[self._stack.peak_column])
            other = "" if area.part in (*KIND_PARTS.values(), OTHERS) else "others of "
            return shape._replace(tip=f"{other}{area.part}: {at_peak} at the peak")
        buffer = area.buffer
        value = buffer.owner(memory.peak)
        origin = buffer_origin(buffer, value, memory.module)
        lives = ", ".join([f"{first:,} to {last:,}" for first, last in buffer.intervals[:4]])
        lives += ", …" if len(buffer.intervals) > 4 else ""
        parts = [
            f"{value.name} {brief_type(value.type)}: {size_text(buffer.bytes)}",
            f"lives {lives}",
            place_text(origin),
            origin.op_name,
        ]
        tip = "\n".join(filter(None, parts))
        return shape._replace(tip=tip, instruction=value.instruction)

    def _outline(self, area: Area, edges: Sequence[int]) -> str:
        """Return the path around the columns in which an area has bytes, down to the bottom.

        `edges` has the upper edge of the area, in bytes, in each column.
        """
        starts, path = self._stack.starts, list[str]()
        for has_bytes, run in itertools.groupby(enumerate(area.heights), lambda item: item[1] > 0):
            if not has_bytes:
                continue
            columns = [column for column, _ in run]
            path.append(f"M{self.x(starts[columns[0]]):g},{self.bottom:g}")
            # Columns with the same height share a segment, which keeps paths of long programs
            # short.
            for y, same in itertools.groupby(columns, lambda column: self.y(edges[column])):
                *_, last = same
                path.append(f"V{y:g}H{self.x(starts[last + 1]):g}")
            path.append(f"V{self.bottom:g}Z")
        return "".join(path)

    def _name(self, area: Area, below: Sequence[int], edges: Sequence[int]) -> Iterator[Shape]:
        """Yield the name of an area of one buffer, if it fits.

        It is at the peak, or else in the middle of the area.

        Args:
            area: The area.
            below: Its lower edge in each column, in bytes.
            edges: Its upper edge in each column, in bytes.
        """
        if area.buffer is None:
            return
        stack, heights = self._stack, area.heights
        held = [column for column, height in enumerate(heights) if height]
        at = stack.peak_column if heights[stack.peak_column] else held[len(held) // 2]
        first, last = at, at + 1  # the columns around in which the block is
        while first and heights[first - 1]:
            first -= 1
        while last < len(heights) and heights[last]:
            last += 1
        value = area.buffer.owner(stack.memory.peak)
        wide = len(value.name) * 6.1 + 8
        left, right = self.x(stack.starts[first]), self.x(stack.starts[last])
        if right - left < wide:
            return
        x = min(max(self.x(stack.starts[at]) - wide / 2, left), right - wide)
        # The columns that the text covers: it must fit between the highest lower edge and the
        # lowest upper edge.
        under = [
            column
            for column in range(first, last)
            if self.x(stack.starts[column + 1]) > x and self.x(stack.starts[column]) < x + wide
        ]
        high, low = max(self.y(edges[c]) for c in under), min(self.y(below[c]) for c in under)
        if low - high >= 11:
            kind = "" if area.part == OTHERS else "inside"
            text = label(round(x + 4, 1), (high + low) / 2 + 3.5, value.name, kind)
            yield text._replace(attributes={**text.attributes, "font-size": "10"})

    def _grid(self) -> Iterator[Shape]:
        """Yield grid lines of bytes at powers of two, and labels of moments at round numbers."""
        step = 1 << max((self.highest - 1).bit_length() - 3, 0)
        for count in range(0, self.highest + 1, step):
            y = self.y(count)
            yield line(f"M{_LEFT},{y:g}H{_LEFT + self._wide}", "scale")
            yield label(_LEFT - 6, y + 4, size_text(count) if count else "0", "faint", "end")
        last = self._count - 1
        every = _round_step(last / 6)
        ticks = [*range(0, last + 1, every)]
        for moment in ticks:
            yield label(self.x(moment + 0.5), self.bottom + 15, f"{moment:,}", "faint", "middle")
        what = f"place in the schedule of {last:,} instructions"
        shown = len(self._stack.moments)
        if shown <= last and self._wide == _PLOT:  # there is room to say it
            what += f"; each column shows the highest of up to {-(-self._count // shown):,}"
        yield label(_LEFT + self._wide, self.bottom + 31, what, "faint", "end")

    def _peak(self) -> Iterator[Shape]:
        memory = self._stack.memory
        x = self.x(memory.peak + 0.5)
        anchor = "start" if x < _LEFT + self._wide / 2 else "end"
        yield line(f"M{x:g},{self.bottom:g}V{self.top - 14:g}", "peak")
        text = f"peak {size_text(memory.lower)} at {memory.peak:,}"
        yield label(x + (5 if anchor == "start" else -5), self.top - 5, text, "", anchor)

    def limit(self, name: str, count: int) -> Iterator[Shape]:
        """Yield the line at a device's memory size and its label; nothing if it is above the scale.

        Args:
            name: Name of the device.
            count: Memory size in bytes.
        """
        if count > self.highest:
            return
        y = self.y(count)
        yield line(f"M{_LEFT},{y:g}H{_LEFT + self._wide}", "device")
        yield label(_LEFT + 4, y - 4, f"{name} {size_text(count)}")


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 … that is at least `least`."""
    steps: Iterator[int] = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return next(step for step in steps if step >= least)


def _add_legend(
    shapes: list[Shape], y: float, drawn: Sequence[Stack], colours: Mapping[str, str]
) -> float:
    """Add each colour's meaning and bytes at each peak, which add up to L; return the y below.

    Args:
        shapes: The shapes so far.
        y: The y coordinate at which the legend begins.
        drawn: The areas of the programs.
        colours: Colour of each part.
    """
    y += 10
    columns = [_LEFT + 20 + 160 * k for k in range(len(drawn) + 1)]
    heads = ["at the peak"] if len(drawn) == 1 else ["at the first peak", "at the second peak"]
    for x, head in zip(columns, heads, strict=False):
        shapes.append(label(x, y, head, "faint"))
    for part in _parts(drawn, colours):
        y += _STEP
        more = {"fill": colours[part]} if part in colours else {"kind": "others"}
        shapes.append(box(_LEFT, y - 10, 12, 12, **more))
        for x, stack in zip(columns, drawn, strict=False):
            shapes.append(label(x, y, _amount(stack, part)))
        shapes.append(label(columns[-1], y, _cut(part, columns[-1])))
    y += _STEP
    for x, stack in zip(columns, drawn, strict=False):
        shapes.append(label(x, y, size_text(stack.memory.lower), "title"))
    shapes.append(label(columns[-1], y, "all", "title"))
    about = (
        f"The {MOST_BLOCKS} largest temporaries have an edge around each; the others of a line lie "
        "together above them."
    )
    if any(area.buffer is not None for stack in drawn for area in stack.areas):
        for row in wrap(about, _COLUMNS):
            y += _STEP
            shapes.append(label(_PAD, y + 4, row, "faint"))
    return y + _PAD


def _amount(stack: Stack, part: str) -> str:
    count = stack.bytes_at_peak(part)
    return f"{size_text(count)}, {share_text(count / (stack.memory.lower or 1))}" if count else "-"


def _cut(text: str, x: float) -> str:
    """Return the text, cut to the width between `x` and the right margin."""
    most = int((_WIDTH - _PAD - x) / _CHARACTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"
