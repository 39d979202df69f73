"""The bytes of a program over its schedule, as a stack of areas for a picture.

Parameters, outputs and constants are at the bottom; above them temporaries by source line, the
largest temporaries as separate areas; on top the temporaries of all other lines. The areas of a
moment add up to L(t), its least live bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from hloscope.cost.buffers import Buffer, ProgramMemory, Timeline, shared_bytes
from hloscope.display.buffer_answers import part_starts
from hloscope.display.buffers import buffer_origin
from hloscope.display.grouped import place_text
from hloscope.display.picture import COLOURS
from hloscope.display.provenance import provenance_of, training_pass
from hloscope.hlo_parser import brief_type
from hloscope.ir import Computation
from hloscope.ops import Case, While

MOST_COLUMNS: Final = 600
"""Maximum number of columns of the picture.

In a longer program each column shows its moment with the most live bytes.
"""
MOST_BLOCKS: Final = 20
"""Maximum number of temporaries with an area of their own."""
MOST_BANDS: Final = 100
"""Maximum number of loop bodies and branches that are shown."""
LEAST_SHARE: Final = 0.005
"""Minimum share of the peak for a source line to have a colour."""
KIND_PARTS: Final = {"parameter": "parameters", "output": "outputs", "constant": "constants"}
OTHERS: Final = "temporaries of other lines"


class Area(NamedTuple):
    """Buffers that are drawn as one area.

    Attributes:
        part: The meaning of its colour: a kind, a source line, or `OTHERS`.
        heights: Bytes at the moment of each column.
        buffer: The buffer, if the area shows only one; `None` for the other buffers of a part.
    """

    part: str
    heights: tuple[int, ...]
    buffer: Buffer | None = None


class Band(NamedTuple):
    """A range of moments: a pass of training, the body of a loop, or a branch.

    Attributes:
        name: Its name.
        first: The first moment.
        last: The moment after the last one.
        depth: Number of bands that contain it.
    """

    name: str
    first: int
    last: int
    depth: int = 0


class Stack(NamedTuple):
    """The stacked areas of a program, from the bottom to the top.

    Attributes:
        memory: The memory of the program.
        starts: The first moment of each column, and the moment after the last one.
        moments: The moment that each column shows.
        areas: The areas from the bottom to the top; areas of one part are adjacent.
        passes: Forward and backward passes of training, by the names of JAX's ops.
        bodies: Bodies of loops, and branches; outer ones come first.
    """

    memory: ProgramMemory
    starts: tuple[int, ...]
    moments: tuple[int, ...]
    areas: tuple[Area, ...]
    passes: tuple[Band, ...]
    bodies: tuple[Band, ...]

    @property
    def peak_column(self) -> int:
        """Return the column that shows the peak."""
        return self.moments.index(self.memory.peak)

    def bytes_at_peak(self, part: str) -> int:
        """Return the bytes at the peak of all areas of a part.

        The part is a kind of buffer, a source line, or `OTHERS`.
        """
        column = self.peak_column
        return sum([area.heights[column] for area in self.areas if area.part == part])


def stacks(memories: Sequence[ProgramMemory]) -> tuple[list[Stack], list[str]]:
    """Return the stacks of programs, and the source lines that have a colour, in order.

    A line has the same position in all stacks.

    Args:
        memories: The memory of each program.

    Raises:
        NoMomentsError: One of the programs has no schedule.
    """
    origins = [temporary_lines(memory) for memory in memories]
    lines = coloured_lines(memories, origins)
    found = [_stack(memory, of, lines) for memory, of in zip(memories, origins, strict=True)]
    return found, lines


def temporary_lines(memory: ProgramMemory) -> dict[Buffer, str]:
    """Return the source line of each temporary in default memory; the type if it is unknown."""
    found = {}
    for buffer in memory.buffers.buffers:
        if buffer.kind == "temporary" and not buffer.space and buffer.bytes:
            value = buffer.owner(memory.peak)
            place = place_text(buffer_origin(buffer, value, memory.module))
            found[buffer] = place or brief_type(value.type)
    return found


def coloured_lines(
    memories: Sequence[ProgramMemory], origins: Sequence[Mapping[Buffer, str]]
) -> list[str]:
    """Return the source lines that have a colour, most bytes at the peaks first.

    Lines without a temporary at a peak follow, by their bytes at the peak of temporaries, or by
    their largest temporary if that is more. Lines with few bytes have no colour.

    Args:
        memories: The memory of each program.
        origins: Source line of each temporary, for each program.
    """
    at_peak, elsewhere, largest = Counter[str](), Counter[str](), Counter[str]()
    for memory, of in zip(memories, origins, strict=True):
        device = memory.device
        for moment, sums in (device.peak, at_peak), (device.temporary_peak, elsewhere):
            for row in memory.live(moment):
                if row.buffer in of:
                    sums[of[row.buffer]] += row.buffer.bytes
        for buffer, line in of.items():
            largest[line] = max(largest[line], buffer.bytes)
    most = elsewhere | largest
    least = LEAST_SHARE * max([memory.lower for memory in memories])
    known = [line for line in most if max(at_peak[line], most[line]) >= least]
    return sorted(known, key=lambda line: (-at_peak[line], -most[line], line))[: len(COLOURS)]


def _stack(memory: ProgramMemory, origins: Mapping[Buffer, str], lines: Sequence[str]) -> Stack:
    """Return the stacked areas of a program.

    Args:
        memory: The memory of the program.
        origins: Source line of each temporary.
        lines: The source lines that have a colour, in order.
    """
    device = memory.device
    starts = part_starts(len(device.least), MOST_COLUMNS)
    moments = [max(range(a, b), key=device.least.__getitem__) for a, b in pairwise(starts)]
    coloured = {b: line if line in lines else OTHERS for b, line in origins.items()}
    blocks = _blocks(coloured, moments, memory.peak)
    areas: dict[tuple[str, Buffer | None], list[int]] = {}
    for part in (*KIND_PARTS.values(), *lines, OTHERS):
        mine = [buffer for buffer in blocks if coloured[buffer] == part]
        for buffer in sorted(mine, key=lambda b: (b.first, -b.last)):
            # `areas` has the differences from column to column; `accumulate` makes heights of them.
            areas[part, buffer] = [0] * (len(moments) + 1)
        areas[part, None] = [0] * (len(moments) + 1)

    def changes_of(buffer: Buffer) -> list[int]:
        part = KIND_PARTS.get(buffer.kind) or coloured[buffer]
        return areas[part, buffer if buffer in blocks else None]

    here = [b for b in memory.buffers.buffers if not b.space and b.bytes]
    _add_bytes(here, device, moments, changes_of)
    made = [
        Area(part, tuple(accumulate(changes[:-1])), buffer)
        for (part, buffer), changes in areas.items()
        if any(changes)
    ]
    passes, bodies = _passes(memory, starts), _bodies(memory)
    return Stack(memory, tuple(starts), tuple(moments), tuple(made), passes, bodies)


def _add_bytes(
    buffers: Sequence[Buffer],
    device: Timeline,
    moments: Sequence[int],
    changes_of: Callable[[Buffer], list[int]],
) -> None:
    """Add the bytes of buffers to differences between consecutive columns.

    A result that takes an operand's memory adds only the bytes that the operand lacks.

    Args:
        buffers: The buffers.
        device: The timeline of the memory space.
        moments: The moment that each column shows.
        changes_of: Returns the list of differences to which a buffer adds.
    """
    for buffer in buffers:
        changes = changes_of(buffer)
        for columns in _columns(buffer, moments):
            changes[columns.start] += buffer.bytes
            changes[columns.stop] -= buffer.bytes
    for column, moment in enumerate(moments):
        for pair in device.placed.get(moment, ()):
            changes = changes_of(pair[0])
            changes[column] -= shared_bytes(pair)
            changes[column + 1] += shared_bytes(pair)


def _blocks(temporaries: Iterable[Buffer], moments: Sequence[int], peak: int) -> frozenset[Buffer]:
    """Return the largest temporaries that are live in some column, at most `MOST_BLOCKS`.

    Of equal ones those at the peak come first.

    Args:
        temporaries: The temporaries of the program.
        moments: The moment that each column of the picture shows.
        peak: The moment of the peak.
    """
    seen = [buffer for buffer in temporaries if any(_columns(buffer, moments))]
    return frozenset(
        nsmallest(MOST_BLOCKS, seen, key=lambda b: (-b.bytes, not b.lives_at(peak), b.first))
    )


def _columns(buffer: Buffer, moments: Sequence[int]) -> Iterator[range]:
    """Yield the range of columns of each live range of a buffer; it may be empty.

    `moments` has the moment that each column of the picture shows.
    """
    for first, last in buffer.intervals:
        yield range(bisect_left(moments, first), bisect_right(moments, last))


def _passes(memory: ProgramMemory, starts: Sequence[int]) -> tuple[Band, ...]:
    """Return the ranges of moments that belong to one pass of training.

    They consist of whole columns of the picture; `starts` has the first moment of each column, and
    the moment after the last one. In each column most instructions with an op name are of that
    pass. Columns without op names are included if the same pass continues after them.
    """
    instructions = memory.schedule.instructions
    found: list[Band] = []
    for first, last in pairwise(starts):
        named: Counter[str] = Counter()
        for ins in instructions[first:last]:
            op_name = provenance_of(ins, memory.module).op_name
            if op_name:
                named[training_pass(op_name)] += 1
        name = named.most_common(1)[0][0] if named else ""
        if found and name and found[-1].name == name:
            found[-1] = found[-1]._replace(last=last)
        elif name:
            found.append(Band(name, first, last))
    return tuple(found)


def _bodies(memory: ProgramMemory) -> tuple[Band, ...]:
    """Return the moments of loop bodies and of branches of conditionals, outer ones first.

    If there are more than `MOST_BANDS`, the longest ones are returned.
    """
    schedule = memory.schedule
    depths: dict[Computation, int] = {memory.module.entry: 0}
    found: list[Band] = []
    stands_in = dict(zip(schedule.instructions, schedule.computations, strict=True))
    outer_first = sorted(schedule.spans.items(), key=lambda item: (item[1][0], -item[1][1]))
    for computation, (first, last) in outer_first:
        if computation not in schedule.callers:
            continue
        caller, number = schedule.callers[computation]
        outer = depths[computation] = depths[stands_in[caller]]
        name = ""
        if isinstance(caller.op, While) and number:
            name = f"body of {caller.name}"
        elif isinstance(caller.op, Case):
            name = f"branch {number} of {caller.name}"
        if name and first < last:
            depths[computation] += 1
            found.append(Band(name, first, last, outer))
    return tuple(nlargest(MOST_BANDS, found, key=lambda band: band.last - band.first))
