"""Temporaries that XLA places into the allocation of an output or of a donated parameter.

Outputs and parameters have allocations of their own for the whole run.  Before XLA lays out the
heap of temporaries, it looks for each of them for such an allocation that is not smaller and not in
use meanwhile: an output before it is written, a donated parameter after it was read.  Buffers are
looked at by size, the largest first; allocations of a temporary's operands come first, then the
others, the latest first.

Source: XLA `BufferAssigner::AssignBuffersForComputations`, `AssignSingleHloBuffer`,
`MaybeAssignBuffer`, `LiveRangeInterferes`; compared with the allocations of programs of jaxlib
0.10.2 for CPU and H100.  Later versions let a result also take an operand's place where the operand
is shown by a later instruction as well (openxla/xla issue 45912).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.buffers.model import Buffer, Buffers
from hloscope.ir import Instruction, TupleType
from hloscope.walks import needed_first

Touches: TypeAlias = Mapping[int, Mapping[Buffer, Sequence[Buffer]]]
"""By moment, the results that begin there, each with the operands whose memory it may take."""


def reused_allocations(buffers: Buffers, touches: Touches, space: int) -> dict[Buffer, Buffer]:
    """The temporaries with a place in another buffer's allocation, with that buffer.

    Args:
        buffers: The buffers of a program.
        touches: Which results may stand in the memory of operands.
        space: Number of the memory space.
    """
    search = _Search(buffers, touches)
    for buffer in _largest_first(buffers, search.returned, space):
        if buffer in search.returned:
            search.allocate(buffer)
        elif buffer.kind == "temporary":
            search.place(buffer)
    return search.found


def holds_table(buffer: Buffer) -> bool:
    """Is one of the values a tuple's table of pointers?  XLA gives each an allocation of its own.

    Source: XLA `BufferAssigner::AssignSpecialHloBuffer`.
    """
    return any(isinstance(value.type, TupleType) for value in buffer.values)


class _Use(NamedTuple):
    """Moments at which a buffer is in use in an allocation: first, last, the buffer."""

    first: int
    last: int
    buffer: Buffer


class _Search:
    """Allocations so far, and what was placed into them.

    Attributes:
        returned: Buffers that the program returns, donated parameters among them.
        found: The temporaries that were placed, with the buffer whose allocation it is.
    """

    def __init__(self, buffers: Buffers, touches: Touches) -> None:
        entry = buffers.schedule.computations[-1]
        self._buffers: Final = buffers
        self._touches: Final = touches
        self._last_shown: Final = _last_shown(buffers)
        self._uses: Final[dict[Buffer, list[_Use]]] = {}
        self.returned: Final = frozenset(buffers.shown_by(entry.root))
        self.found: Final[dict[Buffer, Buffer]] = {}

    def allocate(self, buffer: Buffer) -> None:
        """Let others be placed into the buffer's allocation; not into a table of pointers."""
        if not holds_table(buffer):
            self._uses[buffer] = _uses(buffer)

    def place(self, buffer: Buffer) -> None:
        """Place a temporary into the first allocation that is free while it is in use."""
        if holds_table(buffer):
            return
        for owner in (*self._of_operands(buffer), *reversed(self._uses)):
            if self._is_free(owner, buffer):
                self._uses[owner] += _uses(buffer)
                self.found[buffer] = owner
                return

    def _of_operands(self, buffer: Buffer) -> list[Buffer]:
        """The owners of the allocations in which operands of the buffer's arrays stand."""
        buffers, owners = self._buffers, []
        for value in buffer.values:
            for operand in value.instruction.operands if not value.index else ():
                given = buffers.at(buffers.positions.first[operand])
                owner = self.found.get(given, given)
                if owner in self._uses:
                    owners.append(owner)
        return owners

    def _is_free(self, owner: Buffer, buffer: Buffer) -> bool:
        """Is an allocation large enough, and not in use while the buffer is, or handed over?"""
        if owner.bytes < buffer.bytes:
            return False
        for first, last, other in self._uses[owner]:
            for begin, end in buffer.intervals:
                if end < first or last < begin:
                    continue
                if end == first:
                    if not self._hands_over(end, buffer, other):
                        return False
                elif last != begin or not self._hands_over(last, other, buffer):
                    return False
        return True

    def _hands_over(self, moment: int, operand: Buffer, result: Buffer) -> bool:
        """Does XLA let a result take an operand's place?

        The instruction must read the operand from the last instruction that shows it.
        """
        if operand not in self._touches.get(moment, {}).get(result, ()):
            return False
        buffers = self._buffers
        return any(
            buffers.at(position) is operand
            and self._last_shown[buffers.flow.value[position]] is given
            for given in buffers.schedule.instructions[moment].operands
            for position in buffers.positions.within(given)
        )


def _uses(buffer: Buffer) -> list[_Use]:
    return [_Use(first, last, buffer) for first, last in buffer.intervals]


def _last_shown(buffers: Buffers) -> dict[int, Instruction]:
    """The last instruction that shows each value; a root shows its own until its computation ends.

    Source: XLA `HloLiveRange::CalculateBufferStartEndMap` (`end_position`).
    """
    positions, schedule = buffers.positions, buffers.schedule
    latest: dict[int, tuple[int, Instruction]] = {}
    for position, value in enumerate(buffers.flow.value):
        ins, computation = positions.instruction(position), positions.computation(position)
        moment = positions.moment[position]
        if ins is computation.root:
            moment = schedule.spans[computation][1]
        if value not in latest or moment > latest[value][0]:
            latest[value] = moment, ins
    return {value: ins for value, (_, ins) in latest.items()}


def _largest_first(buffers: Buffers, returned: frozenset[Buffer], space: int) -> list[Buffer]:
    """The buffers of a space in the order in which XLA looks at them.

    Those of one size: what the program returns first, then callers before what they call, and
    within a computation each instruction after its operands.
    """
    spans = buffers.schedule.spans
    order: dict[Instruction, int] = {}
    for computation in sorted(spans, key=lambda one: -spans[one][1]):
        used = {operand for ins in computation for operand in ins.operands}
        ends = [ins for ins in computation if ins not in used]
        for ins in needed_first(ends, lambda one: one.operands):
            order[ins] = len(order)

    def key(buffer: Buffer) -> tuple[int, bool, int]:
        place = min([order[value.instruction] for value in buffer.values])
        return -buffer.bytes, buffer not in returned, place

    here = [buffer for buffer in buffers.buffers if buffer.space == space and buffer.bytes]
    return sorted(here, key=key)
