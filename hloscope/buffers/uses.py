"""Reads and writes of buffers: their moments and instructions."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Final, NamedTuple

from hloscope.buffers.model import Buffer, Buffers
from hloscope.ir import Instruction
from hloscope.ops import ELEMENTWISE, Call, Domain, GetTupleElement, Parameter, Tuple

_HANDS_ON: Final = (GetTupleElement, Tuple, Domain)
"""Ops that read no array, only tables of tuples."""


class Use(NamedTuple):
    """An instruction that reads or writes a buffer.

    Attributes:
        moment: The moment of the instruction.
        instruction: The instruction.
        is_write: Does it write a value to the buffer?
    """

    moment: int
    instruction: Instruction
    is_write: bool


class Uses:
    """The uses of all buffers of a program."""

    def __init__(self, buffers: Buffers) -> None:
        """Take the buffers; the uses are computed at the first query."""
        self._buffers: Final = buffers

    @cached_property  # one pass over the schedule; each buffer is looked up in it
    def _all(self) -> dict[Buffer, list[Use]]:
        buffers = self._buffers
        positions, value = buffers.positions, buffers.flow.value
        found: dict[Buffer, list[Use]] = defaultdict(list)
        for moment, ins in enumerate(buffers.schedule.instructions):
            if not isinstance(ins.op, (*_HANDS_ON, Call)):
                for buffer in self._read_by(ins):
                    found[buffer].append(Use(moment, ins, False))
            if not isinstance(ins.op, Parameter):
                written = [buffers.at(p) for p in positions.within(ins) if value[p] == p]
                for buffer in dict.fromkeys(written):
                    found[buffer].append(Use(moment, ins, True))
        return found

    def _read_by(self, ins: Instruction) -> dict[Buffer, None]:
        """The buffers that an instruction reads; of a tuple that it copies, only the table."""
        buffers = self._buffers
        table_only = isinstance(ins.op, ELEMENTWISE["copy"])
        read: dict[Buffer, None] = {}
        for operand in dict.fromkeys(ins.operands):
            places = buffers.positions.within(operand)
            for position in places[:1] if table_only else places:
                read[buffers.at(position)] = None
        return read

    def of(self, buffer: Buffer) -> list[Use]:
        """The uses of a buffer, in the order in which they run."""
        return self._all.get(buffer, [])

    def around(self, buffer: Buffer, moment: int) -> tuple[Use | None, Use | None]:
        """The last use at or before a moment, and the first use after it."""
        before: Use | None = None
        for use in self.of(buffer):
            if use.moment > moment:
                return before, use
            before = use
        return before, None

    def last_read(self, buffer: Buffer) -> int:
        """The last moment at which a buffer is read or written; -1 if it never is."""
        uses = self.of(buffer)
        return uses[-1].moment if uses else -1
