"""The buffers of a program at one moment, as groups and tables."""

from __future__ import annotations

from typing import Any, Final

from hloscope.cost import Group
from hloscope.cost.buffers import LiveBuffer, ProgramMemory
from hloscope.display import (
    BufferGrouping,
    Shown,
    Table,
    buffers_table,
    live_groups_json,
    moment_text,
    table_text,
)
from hloscope.ir import Instruction
from hloscope.support.source import visible

TOP: Final = 20
"""Maximum number of groups of buffers in the text of a result."""


class Moment(Shown):
    """The buffers of a program at one moment; prints the groups with the most bytes.

    Attributes:
        memory: The memory of the program.
        number: The moment: an instruction's position in the schedule, from 0. The number of
            instructions stands for the end of the program.
    """

    def __init__(self, memory: ProgramMemory, number: int) -> None:
        """Store the memory of a program, and the number of a moment."""
        self.memory: Final = memory
        self.number: Final = number

    @property
    def instruction(self) -> Instruction | None:
        """Return the instruction that runs at the moment; `None` at the end of the program."""
        schedule = self.memory.schedule
        return schedule.instructions[self.number] if self.number < schedule.end else None

    @property
    def bytes(self) -> int:
        """Return the live bytes. A result that reuses its operand's memory is counted once."""
        return self.memory.device.least[self.number]

    @property
    def live(self) -> list[LiveBuffer]:
        """Return the live buffers with the values in them, largest first."""
        return self.memory.live(self.number)

    def by(self, grouping: str = "group") -> list[Group[LiveBuffer]]:
        """Return the live buffers in groups, most bytes first.

        Args:
            grouping: `group` (kind, type and source line), `buffer`, `source`, `scope`, `scope:N`,
                `opcode`, `computation` or `kind`.

        Raises:
            UnknownNameError: No grouping has that name.
        """
        return BufferGrouping(grouping, self.memory.module).of(self.live)

    def table(self, by: str = "group", top: int | None = None) -> Table:
        """Return the groups as rows of text, with rows for the rest and the sum.

        `by` is the grouping, as in `Moment.by`; `top` is the maximum number of groups.
        """
        return buffers_table(self.live, BufferGrouping(by, self.memory.module), top)

    def groups_json(self, by: str = "group") -> list[dict[str, Any]]:
        """Return the groups as in schema `hloscope.memory/1`.

        `by` is the grouping, as in `Moment.by`.
        """
        return live_groups_json(self.live, BufferGrouping(by, self.memory.module))

    def __str__(self) -> str:
        table = self.table(top=TOP)
        rows = table_text(table)
        return visible(f"{moment_text(self.memory, self.number)}\n{rows}")
