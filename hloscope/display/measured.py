"""Measured kernels as tables and JSON: time, bound, achieved bytes and operations per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from hloscope.cost import Group, MeasuredCost
from hloscope.display.cost import count_text, origin_columns, time_text
from hloscope.display.grouped import Column, Grouping, grouped_table
from hloscope.display.table import Table

MEASURED_SCHEMA: Final = "hloscope.measured/1"
_SECOND: Final = 10**12
"""Picoseconds."""


def measured_table(
    groups: Sequence[Group[MeasuredCost]], grouping: Grouping, sort: str, top: int | None
) -> Table:
    """Groups of measured kernels, with their achieved rates and lost time.

    Args:
        groups: All groups, with the totals of `sort`.
        grouping: What they are grouped by.
        sort: `lost` or `time`.
        top: How many groups have a row of their own.
    """
    time = Column[MeasuredCost]("time", lambda g: time_text(_total(g, lambda row: row.time)))
    lost = Column[MeasuredCost]("lost", lambda g: time_text(_total(g, lambda row: row.lost)))
    figures: list[Column[MeasuredCost]] = [
        time if sort == "lost" else lost,
        Column("bound", lambda g: time_text(_total(g, lambda row: row.bound))),
        Column("bytes/s", _bytes_a_second, is_optional=True),
        Column("flops/s", _flops_a_second, is_optional=True),
    ]
    origins: list[Column[MeasuredCost]] = origin_columns(grouping)
    return grouped_table(groups, time_text, grouping.label, figures, origins, top=top, title=sort)


def _total(groups: Sequence[Group[MeasuredCost]], amount: Callable[[MeasuredCost], int]) -> int:
    return sum([amount(row) for group in groups for row in group.members])


def _a_second(groups: Sequence[Group[MeasuredCost]], amount: Callable[[MeasuredCost], int]) -> int:
    """Return the rate of all kernels with a known cost over their measured time."""
    time = _total(groups, lambda row: row.time if row.kernel is not None else 0)
    return _total(groups, amount) * _SECOND // time if time else 0


def _bytes_a_second(groups: Sequence[Group[MeasuredCost]]) -> str:
    return f"{count_text(_a_second(groups, lambda row: row.bytes))}B/s"


def _flops_a_second(groups: Sequence[Group[MeasuredCost]]) -> str:
    return count_text(_a_second(groups, lambda row: row.flops))


def measured_json(row: MeasuredCost, grouping: Grouping) -> dict[str, Any]:
    """One measured instruction as in schema `hloscope.measured/1`."""
    kernel = row.kernel
    return {
        "name": row.instruction.name,
        "computation": row.computation.name,
        **grouping.origin_of(row).to_json(),
        "maker": "" if kernel is None else kernel.maker,
        "runs": row.runs,
        "events": row.events,
        "time_ps": row.time,
        "bound_ps": row.bound,
        "lost_ps": row.lost,
        "limited_by": "" if kernel is None else kernel.limited_by,
        "bytes": row.bytes,
        "flops": row.flops,
    }


def measured_group_json(group: Group[MeasuredCost], grouping: Grouping) -> dict[str, Any]:
    """Return the measured and lost time of a group of kernels and its members, as JSON."""
    return {
        "what": grouping.label(group),
        **grouping.origin(group).to_json(),
        "time_ps": _total([group], lambda row: row.time),
        "bound_ps": _total([group], lambda row: row.bound),
        "lost_ps": _total([group], lambda row: row.lost),
        "bytes": _total([group], lambda row: row.bytes),
        "flops": _total([group], lambda row: row.flops),
        "members": [row.instruction.name for row in group.members],
    }
