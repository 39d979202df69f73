"""Buffers of a program, or of two programs that are compared, as tables and JSON."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.cost import CostRow, Group, grouped
from hloscope.cost.buffers import Buffer, LiveBuffer, ProgramMemory, Timeline, Value
from hloscope.display.cost import origin_columns
from hloscope.display.grouped import GroupColumn, Grouping, grouped_table, place_text, scope_parts
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Column, Table
from hloscope.hlo_parser import print_type
from hloscope.ir import Module, size_text
from hloscope.ops import ELEMENTWISE, Parameter
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Buffers of a program as tables and JSON.


MEMORY_SCHEMA: Final = "hloscope.memory/1"
MEMORY_DIFF_SCHEMA: Final = "hloscope.memory_diff/1"
MEMORY_GROUPINGS: Final = (
    "group", "buffer", "source", "scope", "opcode", "computation", "kind",
)  # fmt: skip
"""Names of the groupings of buffers.

A `group` has one kind, type and source line.
"""
LEAST_CHANGE: Final = 0.001
"""Minimum change between two points of a timeline, as a share of the peak."""
MOST_POINTS: Final = 2000
"""Maximum number of points of a timeline."""


class BufferGrouping(Grouping):
    """A grouping of buffers, with the label of each group."""

    names: ClassVar[Sequence[str]] = MEMORY_GROUPINGS

    def of(self, rows: Sequence[LiveBuffer]) -> list[Group[LiveBuffer]]:
        """Return the live buffers in groups with equal `key_of`, the group of most bytes first."""
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
        """Return the origin of a live buffer's value, or if it has none, of another value in it."""
        assert isinstance(row, LiveBuffer)
        return buffer_origin(row.buffer, row.value, self.module)

    def name_of(self, group: Group[LiveBuffer]) -> str:
        """Return the text that names a group."""
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
    """Return the origin of a value; if it has none, that of another value of its buffer.

    Loops, copies that XLA inserts and parameters of computations have no origin: then the value
    written last before counts, else the first one after. A parameter of the entry keeps its own
    origin, even if that is unknown.

    Args:
        buffer: The buffer.
        value: The value in the buffer.
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
    """Return a table of the buffers at a moment: bytes, kind, type, live range and origin.

    Args:
        rows: The buffers.
        grouping: The grouping.
        top: Maximum number of groups with a row of their own; all other groups share one.
    """
    each = grouping.name in ("group", "buffer")
    figures: list[GroupColumn[LiveBuffer]] = [
        Column("kind", _same(lambda row: row.buffer.kind), False),
        Column("type", _same(lambda row: print_type(row.value.type)), False, "left"),
        Column("lives", _lives, False, drop=2),
    ]
    origins: list[GroupColumn[LiveBuffer]] = []
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
    """Return a function from a row's groups to a cell: the text that all their buffers have.

    `text` returns the text of a buffer. The cell is empty if the texts differ.
    """

    def cell(groups: Sequence[Group[LiveBuffer]]) -> str:
        found = {text(row) for group in groups for row in group.members}
        return found.pop() if len(found) == 1 else ""

    return cell


def _lives(groups: Sequence[Group[LiveBuffer]]) -> str:
    """Return the first and last live moment of one group's buffers, as text."""
    if len(groups) != 1:
        return ""
    buffers = [row.buffer for row in groups[0].members]
    return f"{min(b.first for b in buffers)}..{max(b.last for b in buffers)}"


# ----------------------------------------------------------------------------------------- JSON


def memory_json(memory: ProgramMemory) -> dict[str, Any]:
    """Return bounds, kinds, spaces, moments and buffers of a scheduled program, as JSON."""
    return {
        "moments": memory.schedule.end,
        "lower_bytes": memory.lower,
        "estimate_bytes": memory.estimate,
        "peak": moment_json(memory, memory.peak),
        "spaces": [memory_space_json(memory, line) for line in memory.spaces.values()],
        "buffers": [buffer_json(buffer, memory) for buffer in memory.buffers.buffers],
    }


def moment_json(memory: ProgramMemory, moment: int) -> dict[str, Any]:
    """Return a moment of a program, its instruction and the live bytes, as JSON.

    At the end of the program there is no instruction.
    """
    schedule = memory.schedule
    found: dict[str, Any] = {"moment": moment, "name": None}
    if moment < schedule.end:
        ins = schedule.instructions[moment]
        found |= {"name": ins.name, "computation": schedule.computations[moment].name}
        found |= provenance_of(ins, memory.module).to_json()
    found |= {"live_bytes": memory.device.live[moment], "least_bytes": memory.device.least[moment]}
    return found


def memory_space_json(memory: ProgramMemory, line: Timeline) -> dict[str, Any]:
    """Return bounds, bytes by kind and the timeline of one memory space, as JSON."""
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
    """Return the moments that a timeline shows: first, last, peak, and changes of 0.1 % or more.

    At most `MOST_POINTS` are returned, those with the largest changes. `least` has L(t) at each
    moment.

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


def buffer_json(buffer: Buffer, memory: ProgramMemory) -> dict[str, Any]:
    """Return a buffer as JSON, named after its first value."""
    value = buffer.values[0]
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
    """Return the groups of the buffers at a moment, as JSON."""
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


# --------------------------------------------------------------------------------------------------
# The memory of two programs compared: the buffers that XLA holds in only one of them.
#
# XLA always holds parameters and outputs, and the temporaries of the moment at which these take
# most; their bytes add up to each program's estimate. A buffer of the two programs may be held in
# only one of them: then its row states when it is live.


_COPY: Final = ELEMENTWISE["copy"]
_REMATERIALISED: Final = pattern(r"checkpoint|rematted_computation|remat2?")


class SameOrigin(NamedTuple):
    """Buffers of one program that have the same origin, or another common key of `_STAGES`.

    Attributes:
        number: Number of buffers.
        bytes: Bytes of all of them.
        first: The earliest live moment.
        last: The latest live moment.
        held: Number of buffers that are among `ProgramMemory.held`.
        held_bytes: Bytes of these buffers.
        kinds: Kinds of the buffers.
    """

    number: int
    bytes: int
    first: int
    last: int
    held: int
    held_bytes: int
    kinds: tuple[str, ...]


_NONE: Final = SameOrigin(0, 0, 0, 0, 0, 0, ())


class MemoryChange(Struct, frozen=True):
    """The buffers of one origin (or other common key) in each of two programs.

    Attributes:
        label: The source line and the op's name; the type if neither is known.
        before: The buffers of the first program.
        after: The buffers of the second program.
    """

    label: str
    before: SameOrigin
    after: SameOrigin

    @property
    def bytes(self) -> int:
        """Return the bytes allocated for the second program minus those for the first."""
        return self.after.held_bytes - self.before.held_bytes

    @property
    def text(self) -> str:
        """Return the change as text: `+352 MiB progs.py:167 jvp()/mul, 6 buffers → 29`."""
        sign = "+" if self.bytes > 0 else ""
        return f"{sign}{size_text(self.bytes)} {self.label}, {self._how}"

    @property
    def _how(self) -> str:
        before, after = self.before, self.after
        if not before.number:
            return f"{_buffers(after.held)} that the first program does not have"
        if not after.number:
            return f"{_buffers(before.held)} that the second program does not have"
        if before.kinds != after.kinds and before.number == after.number:
            return f"{', '.join(before.kinds)} → {', '.join(after.kinds)}"
        if (before.number, before.bytes) == (after.number, after.bytes):
            lives = f"{after.first}..{after.last} instead of {before.first}..{before.last}"
            same = "the same buffer" if after.number == 1 else f"the same {after.number:,} buffers"
            return f"{same}, now live {lives}"
        if before.held == after.held and before.held:
            each = size_text(before.held_bytes), size_text(after.held_bytes)
            return f"{_buffers(after.held)}, {each[0]} → {each[1]}"
        return f"{_buffers(before.held)} → {after.held:,}"


def _buffers(count: int) -> str:
    return f"{count:,} buffer{'' if count == 1 else 's'}"


class MemoryDifference(Struct, frozen=True):
    """Two programs with schedules, and the buffers that XLA allocates in only one of them.

    Attributes:
        before: The first program.
        after: The second program.
        changes: The changes; first those in the direction of the total difference. Their bytes add
            up to it.
    """

    before: ProgramMemory
    after: ProgramMemory
    changes: tuple[MemoryChange, ...]

    @property
    def bytes(self) -> int:
        """Return the estimated bytes of the second program minus those of the first."""
        return self.after.estimate - self.before.estimate


_Row: TypeAlias = LiveBuffer


class _Side:
    """The buffers of one program that are not matched with the other program yet."""

    def __init__(self, memory: ProgramMemory) -> None:
        self.memory: Final = memory
        held = {row.buffer: row for row in memory.held()}
        self.held: Final = frozenset(held)
        every = [buffer for buffer in memory.buffers.buffers if not buffer.space and buffer.bytes]
        self.rows: list[_Row] = [
            held.get(buffer) or LiveBuffer(buffer, buffer.values[0]) for buffer in every
        ]

    def groups(self, key: Callable[[_Side, _Row], Hashable]) -> dict[Hashable, list[_Row]]:
        """Return the buffers that are not matched yet, by the key that `key` returns for each.

        Those with the key `None` are left out.
        """
        found: dict[Hashable, list[_Row]] = {}
        for row in self.rows:
            if (name := key(self, row)) is not None:
                found.setdefault(name, []).append(row)
        return found

    def summed(self, rows: Sequence[_Row]) -> SameOrigin:
        """Return number, bytes and live range of the buffers in `rows` together."""
        if not rows:
            return _NONE
        buffers = [row.buffer for row in rows]
        held = [buffer for buffer in buffers if buffer in self.held]
        return SameOrigin(
            len(buffers),
            sum([buffer.bytes for buffer in buffers]),
            min(buffer.first for buffer in buffers),
            max(buffer.last for buffer in buffers),
            len(held),
            sum([buffer.bytes for buffer in held]),
            tuple(sorted({buffer.kind for buffer in buffers})),
        )


def _by_origin(side: _Side, row: _Row) -> Hashable:
    """Return the source line and op name of a buffer as a key; `None` if neither is known.

    `row` is the buffer with a value in it, `side` the program.
    """
    origin = buffer_origin(row.buffer, row.value, side.memory.module)
    key = place_text(origin), origin.op_name
    return key if any(key) else None


def _by_op_name(side: _Side, row: _Row) -> Hashable:
    """Return the op name of a buffer as a key, without function name and rematerialisation scopes.

    `None` if it is unknown. `row` is the buffer with a value in it, `side` the program.
    """
    origin = buffer_origin(row.buffer, row.value, side.memory.module)
    return plain_op_name(origin.op_name) or None


def _by_type(_: _Side, row: _Row) -> Hashable:
    """Return the kind and the type of the buffer as a key."""
    return row.buffer.kind, print_type(row.value.type)


_STAGES: Final = (_by_origin, _by_op_name, _by_type)
"""Functions that compute the keys by which buffers are matched, from precise to coarse."""


def plain_op_name(op_name: str) -> str:
    """Return an op name without the head `jit(name)` and without rematerialisation scopes.

    >>> plain_op_name("jit(step)/transpose(jvp(checkpoint))/rematted_computation/mul")
    'transpose(jvp())/mul'
    """
    parts = scope_parts(op_name)
    if len(parts) > 1 and parts[0].startswith(("jit(", "pjit(")):
        parts = parts[1:]
    kept = [_REMATERIALISED.sub("", part) if "(" in part else part for part in parts]
    return "/".join([part for part in kept if not _REMATERIALISED.fullmatch(part)])


def compared_memory(before: ProgramMemory, after: ProgramMemory) -> MemoryDifference:
    """Return the buffers for which XLA allocates more or less in the second program.

    Buffers are matched by source line and op name, those left by the op name without the function's
    name and scopes of rematerialisation, and the rest by kind and type.

    Args:
        before: The first program, with a schedule.
        after: The second program, with a schedule.
    """
    a, b = _Side(before), _Side(after)
    changes: list[MemoryChange] = []
    # The keys go from precise to coarse. Buffers matched by one key are removed, so that a coarser
    # key compares only what changed its line or name.
    for stage in _STAGES:
        ours, theirs = a.groups(stage), b.groups(stage)
        for key in [key for key in ours if key in theirs]:
            pair = a.summed(ours[key]), b.summed(theirs[key])
            more = (a, ours[key]) if pair[0].held_bytes > pair[1].held_bytes else (b, theirs[key])
            changes.append(MemoryChange(_label(key, *more), *pair))
        for side, groups, others in ((a, ours, theirs), (b, theirs, ours)):
            done = {row.buffer for key, rows in groups.items() if key in others for row in rows}
            side.rows = [row for row in side.rows if row.buffer not in done]
    for side, is_after in ((a, False), (b, True)):
        for key, rows in side.groups(_last_key).items():
            held = side.summed(rows)
            pair = (_NONE, held) if is_after else (held, _NONE)
            changes.append(MemoryChange(_label(key, side, rows), *pair))
    sign = -1 if after.estimate < before.estimate else 1
    changed = [change for change in changes if change.bytes]
    changed.sort(key=lambda change: (-sign * change.bytes, change.label))
    return MemoryDifference(before, after, tuple(changed))


def _last_key(side: _Side, row: _Row) -> Hashable:
    return _by_origin(side, row) or _by_type(side, row)


def _label(key: Hashable, side: _Side, rows: Sequence[_Row]) -> str:
    """Return the source line and short op name of the largest row, or its type.

    Rows that XLA allocates come first. A copy without an origin is named.

    Args:
        key: The key that the rows share.
        side: The program of the rows.
        rows: The rows.
    """
    row = max(rows, key=lambda row: (row.buffer in side.held, row.buffer.bytes))
    if key == _by_type(side, rows[0]):
        made = row.value.instruction
        name = f"`{made.name}` " if isinstance(made.op, _COPY) and len(rows) == 1 else ""
        return name + print_type(row.value.type)
    origin = buffer_origin(row.buffer, row.value, side.memory.module)
    return " ".join(filter(None, [place_text(origin), plain_op_name(origin.op_name)]))


def memory_difference_lines(difference: MemoryDifference, top: int) -> list[str]:
    """Return lines with the bounds L and E of two programs, then the `top` largest changes."""
    before, after = difference.before, difference.after
    sign = "+" if difference.bytes > 0 else ""
    lines = [
        f"XLA holds about {size_text(before.estimate)} → {size_text(after.estimate)} "
        f"({sign}{size_text(difference.bytes)}); at least {size_text(before.lower)} → "
        f"{size_text(after.lower)} live at once"
    ]
    if difference.bytes * (after.lower - before.lower) < 0 or (after.lower == before.lower) != (
        not difference.bytes
    ):
        lines.append(
            "the two figures do not move together: what XLA reserves, outputs above all, is not in "
            "use all the time"
        )
    if not difference.changes:
        lines.append("XLA holds the same buffers for both")
    lines += [change.text for change in difference.changes[:top]]
    rest = difference.changes[top:]
    if rest:
        count = sum([change.bytes for change in rest])
        sign = "+" if count > 0 else ""
        lines.append(f"{sign}{size_text(count)} {len(rest):,} more rows")
    return lines


def memory_difference_json(difference: MemoryDifference) -> dict[str, Any]:
    """Return the bounds L and E of two programs and all changes of their buffers, as JSON."""
    before, after = difference.before, difference.after
    return {
        "lower_bytes": [before.lower, after.lower],
        "estimate_bytes": [before.estimate, after.estimate],
        "peak_moments": [before.peak, after.peak],
        "changes": [
            {
                "what": change.label,
                "bytes": change.bytes,
                "text": change.text,
                "before": _same_origin_json(change.before),
                "after": _same_origin_json(change.after),
            }
            for change in difference.changes
        ],
    }


def _same_origin_json(found: SameOrigin) -> dict[str, Any]:
    return {**found._asdict(), "kinds": list(found.kinds)}
