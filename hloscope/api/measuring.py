"""Costs joined with a profile: the measured time of kernels, and the time above their bounds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from hloscope.api.files import FilePath
from hloscope.cost import Group, MeasuredCost, grouped
from hloscope.cost.profiles import Joined, join, read_profile
from hloscope.display import (
    MEASURED_SCHEMA,
    ROWS_SHOWN,
    Columns,
    Grouping,
    Table,
    Tabular,
    groups_json,
    measured_group_json,
    measured_json,
    measured_table,
    share_text,
    table_text,
    time_text,
)
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.support.source import visible

if TYPE_CHECKING:
    from hloscope.api.costs import Cost

MEASURED_SORTS: Final = ("lost", "time")
"""Amounts by which the groups of measured kernels can be sorted."""
MOST_NOT_JOINED: Final = 10
"""Maximum number of events without an instruction that the text lists."""


class Measured(Tabular):
    """The cost of a program joined with a profile of it; prints itself, also in notebooks.

    Attributes:
        cost: The cost by the model.
        joined: The profile joined with the program.
        kernels: Every instruction with measured time, the longest first.
    """

    def __init__(self, cost: Cost, joined: Joined) -> None:
        self.cost: Final = cost
        self.joined: Final = joined
        known = {kernel.instruction: kernel for kernel in cost.kernels}
        homes = {
            ins: computation
            for computation in cost.program.module
            for ins in computation
            if ins in joined.by_instruction
        }
        rows = [
            MeasuredCost(
                ins, homes[ins], found.executions, found.total, found.events, known.get(ins)
            )
            for ins, found in joined.by_instruction.items()
        ]
        self.kernels: Final = tuple(sorted(rows, key=lambda row: -row.time))

    @classmethod
    def of(cls, cost: Cost, profile: str) -> Measured:
        """Join the profile at a path with the costs of its program; see `Cost.measured`."""
        return cls(cost, join(read_profile(FilePath(profile)), cost.program.module))

    def groups(self, by: str = "group", *, sort: str = "lost") -> list[Group[MeasuredCost]]:
        """Return the measured kernels in groups, the group with the largest total first.

        Args:
            by: `group`, `kernel`, `source`, `scope`, `scope:N`, `opcode` or `computation`.
            sort: Amount of the totals, in picoseconds: `lost` (measured time minus bound) or
                `time`.

        Raises:
            UnknownNameError: The grouping or the amount is unknown.
        """
        if sort not in MEASURED_SORTS:
            near = did_you_mean(sort, MEASURED_SORTS)
            raise UnknownNameError(f"no amount `{sort}`{near}; known: {', '.join(MEASURED_SORTS)}")
        grouping = Grouping(by, self.cost.program.module)
        return grouped(
            self.kernels,
            lambda row: grouping.key(row, lambda: _equal(row)),
            lambda row: row.lost if sort == "lost" else row.time,
        )

    def table(self, by: str = "group", *, sort: str = "lost", top: int | None = None) -> Table:
        """Return the groups as rows of text, with rows for the rest and the sum.

        `by` and `sort` are as in `groups`; `top` is the maximum number of groups.
        """
        grouping = Grouping(by, self.cost.program.module)
        return measured_table(self.groups(by, sort=sort), grouping, sort, top)

    @property
    def about(self) -> str:
        """Return one line: the profile's source, its runs and time, and the joined share."""
        joined = self.joined
        return (
            f"{joined.profile.source}: {joined.runs:,} runs, {time_text(joined.total)} in all; "
            f"{share_text(1 - joined.share_not_joined)} joined, "
            f"{share_text(joined.share_not_joined)} not joined"
        )

    @property
    def notes(self) -> list[str]:
        """Return notes on a profile: events that match no instruction, and limits of the profile.

        A note states the event's name, time, number of events, and the reason.
        """
        others = self.joined.not_joined
        lines = [
            f"not joined: {row.name}: {time_text(row.time)} in {row.count:,} events ({row.reason})"
            for row in others[:MOST_NOT_JOINED]
        ]
        if len(others) > MOST_NOT_JOINED:
            rest = sum([row.time for row in others[MOST_NOT_JOINED:]])
            count = len(others) - MOST_NOT_JOINED
            lines.append(f"not joined: {count:,} other names: {time_text(rest)}")
        return list(dict.fromkeys([*lines, *self.joined.profile.problems, *self.joined.notes]))

    def to_json(self, by: str = "group", *, sort: str = "lost") -> dict[str, Any]:
        """Return an object of schema `hloscope.measured/1`; see `groups` for the arguments."""
        module = self.cost.program.module
        grouping = Grouping(by, module)
        joined = self.joined
        groups = groups_json(
            self.groups(by, sort=sort), lambda group: measured_group_json(group, grouping)
        )
        return {
            "schema": MEASURED_SCHEMA,
            "file": self.cost.program.file,
            "module": module.name,
            "profile": joined.profile.source,
            "device": self.cost.model.device.name,
            "by": by,
            "sort": sort,
            "runs": joined.runs,
            "total_ps": joined.total,
            "joined_ps": joined.joined_time,
            "share_not_joined": joined.share_not_joined,
            "groups": groups,
            "kernels": [measured_json(row, grouping) for row in self.kernels],
            "not_joined": [
                {"name": row.name, "time_ps": row.time, "count": row.count, "reason": row.reason}
                for row in joined.not_joined
            ],
            "notes": [*joined.profile.problems, *joined.notes],
        }

    columns: Final[Columns] = {
        "name": "string", "computation": "string", "op_name": "string", "source": "string",
        "maker": "string", "runs": "int64", "events": "int64", "time_ps": "int64",
        "bound_ps": "int64", "lost_ps": "int64", "limited_by": "string", "bytes": "int64",
        "flops": "int64",
    }  # fmt: skip
    """Columns of the table of measured instructions: keys of schema `hloscope.measured/1`."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each measured instruction, as in schema `hloscope.measured/1`."""
        grouping = Grouping("group", self.cost.program.module)
        return [measured_json(row, grouping) for row in self.kernels]

    def __str__(self) -> str:
        has_bounds = any([row.bound for row in self.kernels])
        table = self.table(sort="lost" if has_bounds else "time", top=ROWS_SHOWN)
        rows = table_text(table)
        return visible("\n".join([self.about, "", rows, "", *self.notes]))


def _equal(row: MeasuredCost) -> Hashable:
    """Return the key by which equal kernels share a group.

    It has the maker (XLA's emitter, Triton or a library), and the bytes read and written in one
    run. An instruction without a modelled kernel is alone in its group.
    """
    if row.kernel is None:
        return row.instruction
    return row.kernel.maker, row.kernel.footprint.bytes
