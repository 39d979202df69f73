"""Buffers of a program as tables and JSON."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Final

from hloscope.buffers import Buffer, LiveBuffer, ProgramMemory, Timeline, Value
from hloscope.cost import CostRow, Group, grouped
from hloscope.display.cost import origin_columns
from hloscope.display.grouped import Column, Grouping, grouped_table
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Table
from hloscope.hlo_parser import print_type
from hloscope.ir import Module, size_text
from hloscope.ops import Parameter

MEMORY_SCHEMA: Final = "hloscope.memory/1"
MEMORY_DIFF_SCHEMA: Final = "hloscope.memory_diff/1"
MEMORY_GROUPINGS: Final = (
    "group", "buffer", "source", "scope", "opcode", "computation", "kind",
)  # fmt: skip
"""Groupings of buffers; a `group` has one kind, type and source line."""
LEAST_CHANGE: Final = 0.001
"""Least difference of two points of a timeline, as a share of the peak."""
MOST_POINTS: Final = 2000
"""Most points of a timeline."""


class BufferGrouping(Grouping):
    """A grouping of buffers, with the label of each group."""

    names: ClassVar[Sequence[str]] = MEMORY_GROUPINGS

    def of(self, rows: Sequence[LiveBuffer]) -> list[Group[LiveBuffer]]:
        """The buffers in groups, most bytes first."""
        return grouped(rows, self.key_of, lambda row: row.buffer.bytes)

    def key_of(self, row: LiveBuffer) -> Hashable:
        """Return the key that the buffers of a group share."""
        match self.name:
            case "kind":
                return row.buffer.kind
            case "buffer":
                return row.buffer
            case _:
                return self.key(row, lambda: (row.buffer.kind, print_type(row.value.type)))

    def origin_of(self, row: CostRow) -> Provenance:
        """The origin of the buffer's value, or of another value of the buffer."""
        assert isinstance(row, LiveBuffer)
        return buffer_origin(row.buffer, row.value, self.module)

    def name_of(self, group: Group[LiveBuffer]) -> str:
        """The text that names a group."""
        match self.name:
            case "kind":
                return group.first.buffer.kind
            case "buffer" | "group":
                others = len(group.members) - 1
                name = group.first.value.name
                return f"{name} and {others:,} like it" if others else name
            case _:
                return self.label(group)


def buffer_origin(buffer: Buffer, value: Value, module: Module) -> Provenance:
    """Origin of a value; if it has none, that of another value of its buffer.

    Loops, copies that XLA inserts and parameters of computations have no origin: then the value
    written last before counts, else the first one after. A parameter of the entry keeps its own
    origin, even if that is unknown.

    Args:
        buffer: The buffer.
        value: The value that it holds.
        module: The program.
    """
    origin = provenance_of(value.instruction, module)
    is_given = value.computation is module.entry and isinstance(value.instruction.op, Parameter)
    if origin != Provenance() or is_given:
        return origin
    before = [other for other in buffer.values if other.start <= value.start]
    after = [other for other in buffer.values if other.start > value.start]
    known = [provenance_of(v.instruction, module) for v in (*reversed(before), *after)]
    return next((one for one in known if one.place), origin)


def buffers_table(
    rows: Sequence[LiveBuffer], grouping: BufferGrouping, top: int | None = None
) -> Table:
    """Table of the buffers at a moment: bytes, kind, type, live range and origin.

    Args:
        rows: The buffers.
        grouping: The grouping.
        top: Number of groups that have their own row.
    """
    each = grouping.name in ("group", "buffer")
    figures: list[Column[LiveBuffer]] = [
        Column("kind", _same(lambda row: row.buffer.kind), False),
        Column("type", _same(lambda row: print_type(row.value.type)), False, "left"),
        Column("lives", _lives, False, is_optional=True),
    ]
    origins: list[Column[LiveBuffer]] = []
    if each:
        origins = origin_columns(grouping)
    return grouped_table(
        grouping.of(rows),
        size_text,
        grouping.name_of,
        figures if each else figures[:1],
        origins,
        top=top,
        title="bytes",
        counts=[Column("buffers", _count)],
    )


def _count(groups: Sequence[Group[LiveBuffer]]) -> str:
    return f"{sum([len(group.members) for group in groups]):,}"


def _same(
    text: Callable[[LiveBuffer], str],
) -> Callable[[Sequence[Group[LiveBuffer]]], str]:
    """Return a cell function: the common text of all members; empty if they differ."""

    def cell(groups: Sequence[Group[LiveBuffer]]) -> str:
        found = {text(row) for group in groups for row in group.members}
        return found.pop() if len(found) == 1 else ""

    return cell


def _lives(groups: Sequence[Group[LiveBuffer]]) -> str:
    """The first and last live moment of a group's buffers."""
    if len(groups) != 1:
        return ""
    buffers = [row.buffer for row in groups[0].members]
    return f"{min(b.first for b in buffers)}..{max(b.last for b in buffers)}"


# ----------------------------------------------------------------------------------------- JSON


def memory_json(memory: ProgramMemory) -> dict[str, Any]:
    """Bounds, kinds, spaces, moments and buffers of a program with a schedule."""
    return {
        "moments": memory.schedule.end,
        "lower_bytes": memory.lower,
        "estimate_bytes": memory.estimate,
        "peak": moment_json(memory, memory.peak),
        "spaces": [memory_space_json(memory, line) for line in memory.spaces.values()],
        "buffers": [buffer_json(buffer, memory) for buffer in memory.buffers.buffers],
    }


def moment_json(memory: ProgramMemory, moment: int) -> dict[str, Any]:
    """A moment, its instruction, and the live bytes."""
    schedule = memory.schedule
    found: dict[str, Any] = {"moment": moment, "name": None}
    if moment < schedule.end:
        ins = schedule.instructions[moment]
        found |= {"name": ins.name, "computation": schedule.computations[moment].name}
        found |= provenance_of(ins, memory.module).to_json()
    found |= {"live_bytes": memory.device.live[moment], "least_bytes": memory.device.least[moment]}
    return found


def memory_space_json(memory: ProgramMemory, line: Timeline) -> dict[str, Any]:
    """Bounds, bytes by kind and the timeline of one memory space."""
    return {
        "space": line.space,
        "lower_bytes": line.lower,
        "estimate_bytes": line.estimate,
        "peak_moment": line.peak,
        "parameter_bytes": line.sums["parameter"],
        "output_bytes": line.sums["output"],
        "constant_bytes": line.sums["constant"],
        "most_temporary_bytes": line.most_temporary,
        "timeline": [[t, line.live[t], line.least[t]] for t in timeline_points(line.least)],
    }


def timeline_points(least: Sequence[int]) -> list[int]:
    """Moments of a timeline: first, last, peak, and changes of at least 0.1 % of the peak.

    At most `MOST_POINTS` are returned, with the largest changes.

    >>> timeline_points([0, 10_000, 10_001, 10_000, 0])
    [0, 1, 2, 4]
    """
    if not least:
        return []
    highest = max(least)
    changes: list[tuple[int, int]] = []
    last = least[0]
    for moment, count in enumerate(least[1:], 1):
        if abs(count - last) > LEAST_CHANGE * highest:
            changes.append((abs(count - last), moment))
            last = count
    kept = {0, len(least) - 1, least.index(highest)}
    changes.sort(key=lambda change: (-change[0], change[1]))
    kept |= {moment for _, moment in changes[: MOST_POINTS - len(kept)]}
    return sorted(kept)


def buffer_json(
    buffer: Buffer, memory: ProgramMemory, value: Value | None = None
) -> dict[str, Any]:
    """A buffer, named after `value`, or after its first value."""
    value = value or buffer.values[0]
    return {
        "name": value.name,
        "kind": buffer.kind,
        "space": buffer.space,
        "bytes": buffer.bytes,
        "unpadded_bytes": buffer.size.unpadded,
        "type": print_type(value.type),
        "lives": [list(interval) for interval in buffer.intervals],
        "values": len(buffer.values),
        **buffer_origin(buffer, value, memory.module).to_json(),
    }


def live_groups_json(rows: Sequence[LiveBuffer], grouping: BufferGrouping) -> list[dict[str, Any]]:
    """Groups of the buffers at a moment."""
    return [
        {
            "what": grouping.name_of(group),
            "bytes": group.total,
            "buffers": len(group.members),
            "kinds": sorted({row.buffer.kind for row in group.members}),
            **grouping.origin(group).to_json(),
            "members": [row.value.name for row in group.members],
        }
        for group in grouping.of(rows)
    ]
