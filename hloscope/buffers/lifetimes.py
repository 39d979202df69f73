"""Live ranges of values: from the moment they are written to the last moment they are needed.

A moment is the position of an instruction in the schedule, counted from 0; the end of the program
is the moment after the last.  Ranges include both ends.

Source: XLA `HloLiveRange` (`CalculateBufferStartEndMap`, `ComputeValueLiveRangeEnd`,
`GetLastUsageTime`, `NormalizeAliasedBuffers`), `HloValue::ComputeUses`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, TypeAlias

from hloscope.buffers.dataflow import Dataflow
from hloscope.buffers.positions import Positions
from hloscope.hlo_parser import INPUT_OUTPUT_ALIAS, aliasing_in
from hloscope.ir import Computation, Instruction, Module
from hloscope.ops import (
    ELEMENTWISE,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Domain,
    GetTupleElement,
    Parameter,
    While,
)

Range: TypeAlias = tuple[int, int]
"""First and last moment, both included."""
_READS_TABLE_ONLY: Final = (GetTupleElement, ELEMENTWISE["copy"], Domain)
"""Ops that read the table of a tuple, but not its elements."""


def value_ranges(module: Module, flow: Dataflow) -> dict[int, list[int]]:
    """First and last moment of each value, by number, before alignment of buffers."""
    positions, schedule = flow.positions, flow.positions.schedule
    last_table, last_parts = _last_uses(positions)
    done = _async_ends(positions)
    ranges: dict[int, list[int]] = {}
    for position, value in enumerate(flow.value):
        if position == value:
            ranges[value] = [*_own_range(positions, position, done)]
    for position, value in enumerate(flow.value):
        # A value is live as long as an instruction that shows it runs, or is used: the last of
        # these moments ends its range. A use of a whole tuple reads the table; its inner parts are
        # read by other ops than tuple accesses.
        ins = positions.instruction(position)
        is_table = position == positions.first[ins]
        used = (last_table if is_table else last_parts).get(ins, -1)
        shown = positions.moment[position]
        computation = positions.computation(position)
        if ins is computation.root:
            shown = schedule.spans[computation][1]
        found = ranges[value]
        found[1] = max(found[1], shown, used)
    for position in _kept_parameters(module, positions):
        ranges[position][1] = schedule.end
    return ranges


def _own_range(positions: Positions, position: int, done: dict[Computation, int]) -> Range:
    """The moments at which the writing instruction itself needs the value."""
    moment, ins = positions.moment[position], positions.instruction(position)
    computation = positions.computation(position)
    start, stop = positions.schedule.spans[computation]
    first = start if isinstance(ins.op, Parameter) else moment
    last = stop if ins is computation.root else moment
    return first, max(last, done.get(computation, last))


def _last_uses(positions: Positions) -> tuple[dict[Instruction, int], dict[Instruction, int]]:
    """The last moment at which each instruction's whole value, and its inner parts, are read.

    A `call` reads nothing, because its callee does. A `while` reads its operand when its body
    starts.
    """
    schedule = positions.schedule
    table: dict[Instruction, int] = {}
    parts: dict[Instruction, int] = {}
    for moment, user in enumerate(schedule.instructions):
        if isinstance(user.op, Call):
            continue
        at = moment
        if isinstance(user.op, While):
            body = schedule.runs[user][-1]
            if body.parameters:
                at = positions.moment[positions.first[body.parameters[0]]]
        for operand in user.operands:
            table[operand] = max(table.get(operand, -1), at)
            if not isinstance(user.op, _READS_TABLE_ONLY):
                parts[operand] = max(parts.get(operand, -1), at)
    return table, parts


def _async_ends(positions: Positions) -> dict[Computation, int]:
    """The moment of the `done` of each asynchronous computation and of its callees."""
    schedule = positions.schedule
    ends: dict[Instruction, int] = {}
    for moment, ins in enumerate(schedule.instructions):
        if isinstance(ins.op, AsyncDone):
            start = ins
            while isinstance(start.op, AsyncDone | AsyncUpdate) and start.operands:
                start = start.operands[0]
            ends[start] = moment
    found: dict[Computation, int] = {}
    # `callers` lists callers before callees, so the outer computation is known by now.
    for callee, (caller, _) in schedule.callers.items():
        if isinstance(caller.op, AsyncStart) and caller in ends:
            found[callee] = ends[caller]
        else:
            outer = schedule.computations[positions.moment[positions.first[caller]]]
            if outer in found:
                found[callee] = found[outer]
    return found


def _kept_parameters(module: Module, positions: Positions) -> Iterable[int]:
    """Yield the parts of the entry's parameters that no result replaces: the caller keeps them."""
    entry = module.entry
    replaced = {(a.taken, a.inside) for a in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS)}
    for parameter in entry.parameters:
        assert isinstance(parameter.op, Parameter)
        for position in positions.within(parameter):
            if (parameter.op.number, positions.index(position)) not in replaced:
                yield position


def align(ranges: dict[int, list[int]], values: list[int]) -> None:
    """Shorten the ranges of one buffer's values so that they overlap only at their ends.

    Args:
        ranges: First and last moment of each value; changed in place.
        values: The values of the buffer.
    """
    ordered = sorted(values, key=lambda value: (*ranges[value], value))
    for a, b in pairwise(ordered):
        # A value that outlives the next one hands the rest of its range on; then it ends where the
        # next one starts. The union of the ranges stays the same.
        ranges[b][1] = max(ranges[a][1], ranges[b][1])
        ranges[a][1] = min(ranges[a][1], ranges[b][0])


def intervals(ranges: dict[int, list[int]], values: list[int]) -> tuple[Range, ...]:
    """The moments at which at least one of the values is live, as disjoint ranges."""
    found: list[list[int]] = []
    for start, end in sorted(ranges[value] for value in values):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return tuple([(start, end) for start, end in found])
