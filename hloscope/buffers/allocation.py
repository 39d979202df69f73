"""Temporaries that XLA places into the allocation of an output or of a donated parameter.

Outputs and parameters have allocations of their own for the whole run. Before XLA lays out the heap
of temporaries, it looks for such an allocation for each of them: one that is not smaller and is
unused while the temporary is live, such as an output before it is written, or a donated parameter
after its last read. Buffers are placed by size, largest first. Allocations of a temporary's
operands are tried first, then the others, the latest first.

Source: XLA `BufferAssigner::AssignBuffersForComputations`, `AssignSingleHloBuffer`,
`MaybeAssignBuffer`, `LiveRangeInterferes`; compared with the allocations of programs of jaxlib
0.10.2 for CPU and H100.  Later versions let a result also take an operand's place where the operand
is shown by a later instruction as well (openxla/xla issue 45912).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from hloscope.arrays import Ints, np
from hloscope.buffers.model import Buffer, Buffers
from hloscope.ir import Instruction, TupleType
from hloscope.walks import needed_first

Touches: TypeAlias = Mapping[int, Mapping[Buffer, Sequence[Buffer]]]
"""By moment: results that start there, each with the operands whose memory it may take."""


def reused_allocations(buffers: Buffers, touches: Touches, space: int) -> dict[Buffer, Buffer]:
    """Map each temporary that is placed in another buffer's allocation to that buffer.

    Args:
        buffers: The buffers of a program.
        touches: Results that may take the memory of operands.
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
    """Is one of the values a tuple's table of pointers? XLA gives each its own allocation.

    Source: XLA `BufferAssigner::AssignSpecialHloBuffer`.
    """
    return any(isinstance(value.type, TupleType) for value in buffer.values)


class _Gaps:
    """The free intervals of allocations, each from one use to the next.

    The last moment of the use before and the first moment of the use after belong to a gap, because
    a result may take the memory of an operand at that moment. Allocations are numbered in the order
    in which XLA creates them.
    """

    def __init__(self, most: int) -> None:
        """Reserve space for `most` gaps."""
        self._starts: Final = np.zeros(most, np.int64)
        self._ends: Final = np.zeros(most, np.int64)
        self._allocations: Final = np.zeros(most, np.int64)
        self._between: Final[list[tuple[Buffer | None, Buffer | None]]] = []

    def add(self, allocation: int, end: int) -> None:
        """Add the gap of a new allocation: from before the program to after its end."""
        at = len(self._between)
        self._starts[at], self._ends[at], self._allocations[at] = -1, end + 1, allocation
        self._between.append((None, None))

    def holding(self, first: int, last: int) -> Ints:
        """The numbers of the gaps that contain the moments from `first` to `last`."""
        count = len(self._between)
        fits = (self._starts[:count] <= first) & (self._ends[:count] >= last)
        return np.flatnonzero(fits)

    def allocation(self, gaps: Ints) -> Ints:
        """The allocations of the given gaps."""
        return self._allocations[gaps]

    def bounds(self, gap: int) -> tuple[int, int, Buffer | None, Buffer | None]:
        """Start and end of a gap, with the buffers before and after it."""
        return int(self._starts[gap]), int(self._ends[gap]), *self._between[gap]

    def use(self, gap: int, first: int, last: int, buffer: Buffer) -> None:
        """Split a gap by a use from `first` to `last`."""
        at, (before, after) = len(self._between), self._between[gap]
        self._starts[at], self._ends[at] = last, self._ends[gap]
        self._allocations[at], self._ends[gap] = self._allocations[gap], first
        self._between[gap] = before, buffer
        self._between.append((buffer, after))


class _Search:
    """The allocations so far, and the buffers placed in them.

    Attributes:
        returned: Buffers that the program returns, including donated parameters.
        found: The placed temporaries, each with the buffer that owns the allocation.
    """

    def __init__(self, buffers: Buffers, touches: Touches) -> None:
        entry = buffers.schedule.computations[-1]
        self._buffers: Final = buffers
        self._touches: Final = touches
        self._last_shown: Final = _last_shown(buffers)
        self._gaps: Final = _Gaps(sum([1 + len(b.intervals) for b in buffers.buffers]))
        self._owners: Final[list[Buffer]] = []
        self._numbers: Final[dict[Buffer, int]] = {}
        self.returned: Final = frozenset(buffers.shown_by(entry.root))
        self.found: Final[dict[Buffer, Buffer]] = {}

    def allocate(self, buffer: Buffer) -> None:
        """Give a buffer an allocation that temporaries may use, unless it is a pointer table."""
        if not holds_table(buffer):
            self._gaps.add(len(self._owners), self._buffers.schedule.end)
            self._numbers[buffer] = len(self._owners)
            self._owners.append(buffer)
            self._use(buffer, buffer)

    def place(self, buffer: Buffer) -> None:
        """Place a temporary into the first allocation that is free while it is live.

        Every allocation so far is large enough, because buffers come in order of size.
        """
        if holds_table(buffer):
            return
        # An allocation must be free in every interval of the temporary, so those that are free in
        # the first are the candidates.
        free = self._gaps.allocation(self._gaps.holding(*buffer.intervals[0]))
        others = [self._owners[number] for number in np.sort(free)[::-1].tolist()]
        for owner in (*self._of_operands(buffer), *others):
            if all(self._gap(owner, *moments, buffer) is not None for moments in buffer.intervals):
                self.found[buffer] = owner
                self._use(owner, buffer)
                return

    def _use(self, owner: Buffer, buffer: Buffer) -> None:
        """Mark an allocation as used by a buffer, in gaps that `_gap` finds."""
        for first, last in buffer.intervals:
            gap = self._gap(owner, first, last, buffer)
            assert gap is not None
            self._gaps.use(gap, first, last, buffer)

    def _gap(self, owner: Buffer, first: int, last: int, buffer: Buffer) -> int | None:
        """A gap of an allocation that is free for a buffer from `first` to `last`, or `None`."""
        gaps = self._gaps.holding(first, last)
        for gap in gaps[self._gaps.allocation(gaps) == self._numbers[owner]].tolist():
            start, end, before, after = self._gaps.bounds(gap)
            # At a shared boundary moment both buffers are live: only a result that takes its
            # operand's memory may follow without a moment between.
            if start == first and not (before and self._shares_memory(first, before, buffer)):
                continue
            if end == last and not (after and self._shares_memory(last, buffer, after)):
                continue
            return int(gap)
        return None

    def _of_operands(self, buffer: Buffer) -> list[Buffer]:
        """The owners of the allocations that hold the operands of the buffer's arrays."""
        buffers, owners = self._buffers, []
        for value in buffer.values:
            for operand in value.instruction.operands if not value.index else ():
                given = buffers.at(buffers.positions.first[operand])
                owner = self.found.get(given, given)
                if owner in self._numbers:
                    owners.append(owner)
        return owners

    def _shares_memory(self, moment: int, operand: Buffer, result: Buffer) -> bool:
        """Does XLA let a result take an operand's memory at a moment?

        The instruction must read the operand from the last instruction that shows its value.
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


def _last_shown(buffers: Buffers) -> dict[int, Instruction]:
    """The last instruction that shows each value; a root counts until its computation ends.

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
    """The buffers of a memory space in the order in which XLA places them.

    Buffers of equal size are ordered: those that the program returns, then callers before callees,
    and in a computation each instruction after its operands.
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
