"""Live bytes at every moment, with and without results that take the memory of operands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.cost.buffers.model import KINDS, Buffer, BufferKind, Buffers
from hloscope.cost.buffers.reuse import (
    ReuseCandidate,
    fused_users,
    is_same_for_all_outputs,
    may_share,
)
from hloscope.ir import Instruction, TupleType
from hloscope.support.arrays import Ints, np
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# Live bytes at every moment, with and without results that take the memory of operands.
#
# At a moment `t`, `U(t)` is the sum of the live buffers.  A result that starts at `t` may take the
# memory of an operand that ends at `t`; each operand is taken once.  `L(t)` is `U(t)` minus the
# most bytes of results that can be placed so.  A program needs at least the largest `L(t)`, since
# any two other buffers that are live at one moment are disjoint.


Pair: TypeAlias = tuple[Buffer, Buffer]
"""A result, and the operand whose memory it takes."""


class Timeline(Struct, frozen=True):
    """Live bytes of one memory space.

    Attributes:
        space: Number of the memory space.
        live: For each moment, U(t): bytes of all live buffers. Moments go from 0 to the end of the
            program, which is included.
        least: For each moment, L(t): U(t) without results that take the memory of an operand.
        placed: For each moment, the results that take the memory of an operand, with that operand.
        sums: Bytes of all buffers of each kind, at whatever moment they are live.
        reused: The temporaries that XLA places into the allocation of an output or of a donated
            parameter, each with that buffer.
        most_temporary: Bytes of the temporaries that are not in `reused`, as XLA places them. It is
            the sum of all tables of tuples, which XLA allocates separately, and the most bytes of
            arrays that are live at one moment. Bytes that a result takes over from an operand at
            that moment are counted once, if both buffers hold a single value.
        temporary_peak: The first moment at which these arrays take the most bytes.
        temporary_placed: The temporaries that take the memory of an operand at `temporary_peak`.
        lower: L, the largest `L(t)`: no assignment of memory takes fewer bytes.
        peak: The first moment at which `L(t)` is largest.
    """

    space: int
    live: tuple[int, ...]
    least: tuple[int, ...]
    placed: dict[int, tuple[Pair, ...]]
    sums: dict[BufferKind, int]
    reused: dict[Buffer, Buffer]
    most_temporary: int
    temporary_peak: int
    temporary_placed: frozenset[Buffer]
    lower: int
    peak: int

    @property
    def estimate(self) -> int:
        """Return E: the estimate of the bytes that XLA allocates.

        It is the sum of parameters, outputs, constants and peak temporaries. CPU and GPU allocate
        all but temporaries for the whole run.  Alignment and gaps in the heap of temporaries are
        left out.  Source: XLA `BufferAssigner`; compared with the totals of programs of jaxlib
        0.10.2 for CPU and H100.
        """
        held = self.sums["parameter"] + self.sums["output"] + self.sums["constant"]
        return held + self.most_temporary


def timelines(buffers: Buffers, backend: str) -> dict[int, Timeline]:
    """Return the live bytes at every moment, for each memory space by number.

    Args:
        buffers: The buffers of a program.
        backend: The backend of the program; its rules decide what may share memory.
    """
    touches = _touching(buffers, backend)
    spaces = sorted({buffer.space for buffer in buffers.buffers} | {0})
    return {space: _timeline(buffers, touches, space) for space in spaces}


def _timeline(buffers: Buffers, touches: ReuseCandidates, space: int) -> Timeline:
    end = buffers.schedule.end
    here = [buffer for buffer in buffers.buffers if buffer.space == space]
    reused = reused_allocations(buffers, touches, space)
    temporaries = [b for b in here if b.kind == "temporary" and b not in reused]
    tables = sum([buffer.bytes for buffer in temporaries if holds_table(buffer)])
    heap = {buffer for buffer in temporaries if not holds_table(buffer)}
    live = _sum_at_moments(here, end)
    temporary = _sum_at_moments([*heap], end)
    least, placed = list(live), dict[int, tuple[Pair, ...]]()
    replaced: dict[int, frozenset[Buffer]] = {}
    for moment, edges in touches.items():
        pairs = placed_results(edges, lambda b: b.space == space)
        if pairs:
            placed[moment] = tuple(pairs)
            least[moment] -= sum(map(shared_bytes, pairs))
            # XLA looks for the place of an operand, and gives one away, for buffers of one value
            # only.  Source: XLA `HeapSimulator::RunComputation`.
            only = placed_results(edges, lambda b: b in heap and len(b.values) == 1)
            temporary[moment] -= sum(map(shared_bytes, only))
            replaced[moment] = frozenset(result for result, _ in only)
    sums = dict.fromkeys(KINDS, 0)
    for buffer in here:
        sums[buffer.kind] += buffer.bytes
    lower, most = max(least), max(temporary)  # there is a moment: the end of the program
    busiest = temporary.index(most)
    return Timeline(
        space,
        tuple(live),
        tuple(least),
        placed,
        sums,
        reused,
        tables + most,
        busiest,
        replaced.get(busiest, frozenset()),
        lower,
        least.index(lower),
    )


def _sum_at_moments(buffers: Sequence[Buffer], end: int) -> list[int]:
    """Return the total bytes of live buffers at each moment from 0 to `end`, both included."""
    changes = [0] * (end + 2)
    for buffer in buffers:
        for first, last in buffer.intervals:
            changes[first] += buffer.bytes
            changes[last + 1] -= buffer.bytes
    return [*accumulate(changes)][: end + 1]


def shared_bytes(pair: Pair) -> int:
    """Return the bytes of an operand that a result reuses: the smaller of the two sizes."""
    result, operand = pair
    return min(result.bytes, operand.bytes)


def _touching(buffers: Buffers, backend: str) -> dict[int, dict[Buffer, list[Buffer]]]:
    """Return, by moment, the results that become live, each with operands that end there.

    The operands are those whose memory the result may take by the rules of the backend. Moments
    without such a pair are left out.
    """
    starts: dict[int, set[Buffer]] = defaultdict(set)
    ends: dict[int, set[Buffer]] = defaultdict(set)
    for buffer in buffers.buffers:
        if buffer.bytes:
            for first, last in buffer.intervals:
                starts[first].add(buffer)
                ends[last].add(buffer)
    found: dict[int, dict[Buffer, list[Buffer]]] = {}
    for moment, beginning in starts.items():
        ending = ends.get(moment, set())
        if ending and moment < buffers.schedule.end:
            ins = buffers.schedule.instructions[moment]
            edges = _edges(buffers, ins, beginning, ending, backend)
            if edges:
                found[moment] = edges
    return found


def _edges(
    buffers: Buffers,
    ins: Instruction,
    beginning: set[Buffer],
    ending: set[Buffer],
    backend: str,
) -> dict[Buffer, list[Buffer]]:
    positions, flow = buffers.positions, buffers.flow
    made = [
        (p, buffers.at(p))
        for p in positions.within(ins)
        if flow.value[p] == p and buffers.at(p) in beginning
    ]
    if not made:
        return {}
    given = []
    for k, operand in enumerate(ins.operands):
        if operand not in ins.operands[:k]:
            for p in positions.within(operand):
                if buffers.at(p) in ending:
                    given.append((k, p, buffers.at(p)))
    if not given:
        return {}
    users = fused_users(ins)
    depends_on_type = is_same_for_all_outputs(ins)
    takers = {taken for _, _, taken in given}
    # Fusions may have thousands of outputs of few types: the list is computed once for a type, and
    # results share it, which `_next_free` uses.
    allowed: dict[object, list[Buffer]] = {}  # one list for all outputs of a type
    edges: dict[Buffer, list[Buffer]] = {}
    for out, result in made:
        made_type, index = positions.type(out), positions.index(out)
        key = id(made_type) if depends_on_type else index
        if key not in allowed:
            allowed[key] = [
                taken
                for k, p, taken in given
                if may_share(
                    ReuseCandidate(
                        ins, k, positions.index(p), index, positions.type(p), made_type, users
                    ),
                    backend,
                )
            ]
        found = allowed[key]
        if result in takers:
            found = [operand for operand in found if operand is not result]
        if found:
            edges[result] = [*edges[result], *found] if result in edges else found
    return edges


def placed_results(
    edges: Mapping[Buffer, Sequence[Buffer]], takes_part: Callable[[Buffer], bool]
) -> list[Pair]:
    """Choose results that take the memory of operands, so that the results have the most bytes.

    Return pairs `(result, operand)`; no result and no operand occurs twice. Results are assigned by
    size, largest first. An augmenting path may move earlier results to other operands, but each of
    them keeps some operand. So the chosen results are a maximum-weight independent set of the
    transversal matroid, which the greedy algorithm finds. Operands visited by a failed search lead
    to no free operand in later searches either.

    Args:
        edges: The operands whose memory each result may take.
        takes_part: May a result or an operand be in a pair? Buffers for which it is false are
            ignored.
    """
    taken_by: dict[Buffer, Buffer] = {}
    place: dict[Buffer, Buffer] = {}
    hopeless: set[Buffer] = set()
    free_from: dict[int, int] = {}
    for result in sorted(edges, key=lambda buffer: -buffer.bytes):
        if not takes_part(result):
            continue
        came_from: dict[Buffer, Buffer] = {}
        waiting, operand = [result], None
        # Breadth-first search for an augmenting path: `waiting` grows by the results that take the
        # operands reached so far.
        for mover in waiting:
            operand = _next_free(edges[mover], free_from, takes_part, taken_by)
            if operand is not None:
                came_from[operand] = mover
                break
            for seen in edges[mover]:
                if takes_part(seen) and seen not in came_from and seen not in hopeless:
                    came_from[seen] = mover
                    waiting.append(taken_by[seen])
        if operand is None:
            hopeless.update(came_from)
            continue
        # Walk the path backwards: each result takes the operand found from it, and frees its own.
        while True:
            mover = came_from[operand]
            before = place.get(mover)
            place[mover], taken_by[operand] = operand, mover
            if mover is result:
                break
            assert before is not None
            operand = before
    return [*place.items()]


def _next_free(
    operands: Sequence[Buffer],
    free_from: dict[int, int],
    takes_part: Callable[[Buffer], bool],
    taken_by: Mapping[Buffer, Buffer],
) -> Buffer | None:
    """Return the first operand of a list that no result has taken; `None` if all are taken.

    Args:
        operands: The list; several results may share one.
        free_from: For each list, by identity, the number of operands at its start that are taken.
            It is updated.
        takes_part: May an operand be in a pair?
        taken_by: For each taken operand, the result that takes it.
    """
    at = free_from.get(id(operands), 0)
    while at < len(operands) and (operands[at] in taken_by or not takes_part(operands[at])):
        at += 1
    free_from[id(operands)] = at
    return operands[at] if at < len(operands) else None


# --------------------------------------------------------------------------------------------------
# Temporaries that XLA places into the allocation of an output or of a donated parameter.
#
# Outputs and parameters have allocations of their own for the whole run. Before XLA lays out the
# heap of temporaries, it looks for such an allocation for each of them: one that is not smaller and
# is unused while the temporary is live, such as an output before it is written, or a donated
# parameter after its last read. Buffers are placed by size, largest first. Allocations of a
# temporary's operands are tried first, then the others, the latest first.
#
# Source: XLA `BufferAssigner::AssignBuffersForComputations`, `AssignSingleHloBuffer`,
# `MaybeAssignBuffer`, `LiveRangeInterferes`; compared with the allocations of programs of jaxlib
# 0.10.2 for CPU and H100.  Later versions let a result also take an operand's place where the
# operand is shown by a later instruction as well (openxla/xla issue 45912).


ReuseCandidates: TypeAlias = Mapping[int, Mapping[Buffer, Sequence[Buffer]]]
"""For each moment, the results that become live, with operands whose memory each may take."""


def reused_allocations(
    buffers: Buffers, touches: ReuseCandidates, space: int
) -> dict[Buffer, Buffer]:
    """Map each temporary that XLA places in another buffer's allocation to that buffer.

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
    """Does the buffer contain a tuple's pointer table? XLA gives each table its own allocation.

    Source: XLA `BufferAssigner::AssignSpecialHloBuffer`.
    """
    return any(isinstance(value.type, TupleType) for value in buffer.values)


class _Gaps:
    """The free intervals of allocations, in moments: each lies between two uses of the memory.

    A moment is the number of an instruction in the schedule. The last moment of the use before and
    the first moment of the use after belong to a gap, because a result may take the memory of an
    operand at that moment. Allocations are numbered in the order in which XLA creates them.
    """

    def __init__(self, most: int) -> None:
        """Reserve space for `most` gaps."""
        self._starts: Final = np.zeros(most, np.int64)
        self._ends: Final = np.zeros(most, np.int64)
        self._allocations: Final = np.zeros(most, np.int64)
        self._between: Final[list[tuple[Buffer | None, Buffer | None]]] = []

    def add(self, allocation: int, end: int) -> None:
        """Add the gap of a new allocation that nothing uses yet.

        Args:
            allocation: Number of the allocation.
            end: Moment at the end of the program; the gap goes from before the program to `end +
                1`.
        """
        at = len(self._between)
        self._starts[at], self._ends[at], self._allocations[at] = -1, end + 1, allocation
        self._between.append((None, None))

    def holding(self, first: int, last: int) -> Ints:
        """Return the numbers of the gaps that contain all moments from `first` to `last`."""
        count = len(self._between)
        fits = (self._starts[:count] <= first) & (self._ends[:count] >= last)
        return np.flatnonzero(fits)

    def allocation(self, gaps: Ints) -> Ints:
        """Return the number of the allocation to which each gap belongs."""
        return self._allocations[gaps]

    def bounds(self, gap: int) -> tuple[int, int, Buffer | None, Buffer | None]:
        """Return first and last moment of a gap, and the buffers that use the memory around it.

        They are the buffer before and the buffer after the gap; `None` if nothing uses the
        allocation on that side.
        """
        return int(self._starts[gap]), int(self._ends[gap]), *self._between[gap]

    def use(self, gap: int, first: int, last: int, buffer: Buffer) -> None:
        """Split a gap by a use of the allocation from `first` to `last`."""
        at, (before, after) = len(self._between), self._between[gap]
        self._starts[at], self._ends[at] = last, self._ends[gap]
        self._allocations[at], self._ends[gap] = self._allocations[gap], first
        self._between[gap] = before, buffer
        self._between.append((buffer, after))


class _Search:
    """Places temporaries in the allocations of other buffers, as XLA does.

    Attributes:
        returned: Buffers that the program returns, including donated parameters.
        found: The placed temporaries, each with the buffer that owns the allocation.
    """

    def __init__(self, buffers: Buffers, touches: ReuseCandidates) -> None:
        entry = buffers.schedule.computations[-1]
        self._buffers: Final = buffers
        self._touches: Final = touches
        self._last_alias: Final = _last_alias(buffers)
        self._gaps: Final = _Gaps(sum([1 + len(b.intervals) for b in buffers.buffers]))
        self._owners: Final[list[Buffer]] = []
        self._numbers: Final[dict[Buffer, int]] = {}
        self.returned: Final = frozenset(buffers.buffers_of(entry.root))
        self.found: Final[dict[Buffer, Buffer]] = {}

    def allocate(self, buffer: Buffer) -> None:
        """Give a buffer its own allocation.

        Temporaries may use it, unless the buffer is a pointer table.
        """
        if not holds_table(buffer):
            self._gaps.add(len(self._owners), self._buffers.schedule.end)
            self._numbers[buffer] = len(self._owners)
            self._owners.append(buffer)
            self._use(buffer, buffer)

    def place(self, buffer: Buffer) -> None:
        """Place a temporary in the first allocation that is free whenever the temporary is live.

        Every allocation so far is large enough, because buffers come in order of size. Without a
        free one the temporary is not placed.
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
        """Record that a buffer uses the allocation of another one, `owner`, while it is live."""
        for first, last in buffer.intervals:
            gap = self._gap(owner, first, last, buffer)
            assert gap is not None
            self._gaps.use(gap, first, last, buffer)

    def _gap(self, owner: Buffer, first: int, last: int, buffer: Buffer) -> int | None:
        """Return a gap for a buffer from `first` to `last`; `None` without one.

        Args:
            owner: The buffer that the allocation was made for.
            first: First live moment of the buffer.
            last: Last live moment of the buffer.
            buffer: The buffer to place.
        """
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
        """Return the owners of the allocations in which the operands of the buffer's values lie."""
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

        The instruction must read the operand from the last instruction whose result has the value.
        """
        if operand not in self._touches.get(moment, {}).get(result, ()):
            return False
        buffers = self._buffers
        return any(
            buffers.at(position) is operand
            and self._last_alias[buffers.flow.value[position]] is given
            for given in buffers.schedule.instructions[moment].operands
            for position in buffers.positions.within(given)
        )


def _last_alias(buffers: Buffers) -> dict[int, Instruction]:
    """Return, for each value, the last instruction in the schedule whose result has the value.

    The root of a computation counts at the end of the computation.

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
    """Return the buffers of a memory space in the order in which XLA places them: by size.

    Equal sizes are ordered: buffers that the program returns, then callers before callees, and in a
    computation each instruction after its operands.
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
