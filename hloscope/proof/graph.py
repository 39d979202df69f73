"""A second, plain walk through a program: each step is a rule's own answer, nothing is composed.

What a step does with the elements reached so far is left to a `Follower`: one carries relations of
isl along, another one points.  Calls are walked into where they stand.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from time import process_time
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.affine import POS_INF
from hloscope.fusion import (
    CALLED_ONCE,
    INSIDE,
    OUT_OF_STEP,
    READS,
    RECURSIVE,
    Flow,
    Leaves,
    Pool,
    Sizes,
    Source,
)
from hloscope.indexing import (
    UNKNOWN_COUNTS,
    Access,
    Accesses,
    Bodies,
    DeviceCounts,
    Precision,
    by_convention,
    instances,
    output_to_input,
)
from hloscope.ir import Computation, Instruction, captured
from hloscope.lazy import once_for_each
from hloscope.ops import Parameter, While
from hloscope.proof.kept import Kept
from hloscope.proof.names import AS_THEY_ARE, Names
from hloscope.simplifier import UndecidedError

T = TypeVar("T")
K = TypeVar("K")
End: TypeAlias = tuple[Instruction, int]
"""A value where the walk ends, and one of its leaves."""


MAX_STEPS: Final = 200_000
"""Steps after which a walk stays undecided: calls of calls of calls add up."""
SECONDS: Final = 5.0
"""Time after which it stays undecided."""


class WalkTooLongError(UndecidedError):
    """A walk is given up; with fewer elements it would be as long."""


class Follower(Protocol[T]):
    """Carries what is reached through one step."""

    def through(self, reached: T, access: Access, names: Names) -> T | None:
        """What an access touches of what is reached; `None` if nothing."""

    def join(self, one: T, other: T) -> T:
        """Both together."""

    def key(self, reached: T) -> Hashable:
        """Equal keys stand for the same elements."""

    def weight(self, reached: T) -> int | None:
        """How many numbers it takes to keep it for other walks; `None`: it means nothing there."""


class Reached(Struct, Generic[T], frozen=True):
    """What is reached of a leaf of a value.

    Attributes:
        elements: As the follower has it; `None` if nothing is reached in a known way.
        unknown: Why more may be reached; empty if that is not so.
        over: Why less may be reached.
    """

    elements: T | None
    unknown: str = ""
    over: str = ""


Ends: TypeAlias = dict[End, Reached[T]]
"""What is reached where a walk ends."""
Walk: TypeAlias = Generator["Walk[T]", Ends[T], Ends[T]]
"""A walk through a computation: asks for inner walks, is sent where they end."""


class Called(Flow):
    """Stands for all flows of a leaf of a called computation's root, which `accesses` lead to.

    Attributes:
        callee: The computation.
        first: The operand that is its first parameter; `None` where it is applied to elements, and
            only values count that it reads from outside.
    """

    callee: Computation
    first: int | None


class Steps:
    """What one instruction reads: the entries of `structure.READS` and the rules, as they are."""

    def __init__(self, counts: DeviceCounts = UNKNOWN_COUNTS) -> None:
        self.counts: Final = counts
        self.pool: Final = Pool()
        self._leaves = Leaves()
        self.leaves, self.offset = self._leaves.of, self._leaves.offset
        self.starts: Final = self._leaves.starts
        self.of_part, self.part = self._leaves.of_part, self._leaves.part
        self.tensor_types: Final = self._leaves.tensor_types
        self._sizes = Sizes(self.pool, self._leaves)
        self.sources: Final[dict[tuple[Computation, int], Source]] = {}
        self._positions: Final[dict[Computation, dict[Instruction, int]]] = {}
        self._has_runtime: Final[dict[Computation, bool]] = {}
        self.kept: Final = Kept()

    def positions(self, computation: Computation) -> Mapping[Instruction, int]:
        """Where each instruction stands in its computation."""
        if computation not in self._positions:
            places = {ins: at for at, ins in enumerate(computation.instructions)}
            self._positions[computation] = places
        return self._positions[computation]

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """What a leaf of an instruction's value reads of its operands."""
        if isinstance(ins.op, While):
            raise UndecidedError(f"`{ins.name}` is a loop, whose iterations are not walked through")
        entry = READS.get(type(ins.op))
        if entry is not None:
            if not self._sizes.in_step(ins):
                raise UndecidedError(f"`{ins.name}`: {OUT_OF_STEP}")
            return entry(self, ins, ins.op, leaf) if ins.operands or ins.calls else ()
        part = self.part(ins.type, leaf)
        if part.dimension is not None:
            return tuple(self._sizes.of_size(ins, part))
        answer = output_to_input(ins, part.tensor, reader=self.bodies, counts=self.counts)
        flows = []
        for k, accesses in enumerate(answer):
            for tensor, i in enumerate(self._leaves.tensors(ins.operands[k].type)):
                mine = tuple([a for a in accesses if a.leaf == tensor or a.map is None])
                if mine:
                    flows.append(Flow(k, i, mine))
        if self._sizes.concern(ins):
            flows += self._sizes.of_elements(ins, part.tensor, answer)
        if ins.calls and captured(ins):
            for instance in instances(ins, part.tensor, self.bodies):
                mark = Called(0, instance.result, instance.accesses)
                mark.callee, mark.first = ins.calls[instance.call], None
                flows.append(mark)
        return flows

    def reads_values(self, computation: Computation) -> bool:
        """May a step in it, or in what it calls, have runtime variables, or ranges without end?"""
        known = self._has_runtime
        stack = [computation] if computation not in known else []
        while stack:
            top = stack[-1]
            below = top.callees
            missing = [c for c in below if c not in known]
            if top not in known and missing:
                known[top] = True  # in case it calls itself
                stack += missing
                continue
            stack.pop()
            known[top] = any(known[c] for c in below) or any(
                type(ins.op) not in READS and self._draws(ins) for ins in top
            )
        return known[computation]

    def _draws(self, ins: Instruction) -> bool:
        """Does any map of the instruction's rule leave values open?"""
        if not ins.operands:
            return False
        count = len(self.tensor_types(ins.type))
        reads = [
            output_to_input(ins, k, reader=self.bodies, counts=self.counts) for k in range(count)
        ]
        answers = [a for read in reads for a in read]
        maps = [a.map for accesses in answers for a in accesses if a.map is not None]
        return any(m.runtime or any(v.interval.hi >= POS_INF for v in m.ranges) for m in maps)

    def bodies(self, ins: Instruction) -> Bodies:
        """What the computations do that an instruction calls."""
        return by_convention(ins)

    def writes(self, ins: Instruction, operand: int, leaf: int) -> Iterable[Flow]:
        """Not asked for: the walk goes to the producers."""
        raise NotImplementedError

    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """A mark that the computation is to be walked into."""
        mark = Called(first, leaf, None)
        mark.callee, mark.first = callee, first
        return (mark,)

    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Not asked for: the walk goes to the producers."""
        raise NotImplementedError

    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Not asked for: only loops need it."""
        raise NotImplementedError

    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Not asked for: the walk goes to the producers."""
        raise NotImplementedError


class Walker(Generic[T]):
    """Walks to the producers with one follower; a call is walked into once for equal elements."""

    def __init__(self, steps: Steps, follower: Follower[T], seconds: float = inf) -> None:
        self._steps = steps
        self._follower = follower
        self._count = 0
        self._seconds = min(seconds, SECONDS)
        self._until = process_time() + self._seconds
        self._known: dict[Hashable, Ends[T]] = {}
        self._open: set[Computation] = set()
        self._names: dict[Hashable, Names] = {}
        self._captured = once_for_each(captured)  # an instruction calls 2,048 branches one by one

    def operands(self, ins: Instruction, leaf: int, start: T) -> dict[tuple[int, int], Reached[T]]:
        """What is reached of the operands' leaves from elements of an instruction's value.

        Values that its regions read from outside count as operands after all others.

        Raises:
            UndecidedError: The follower cannot go on, or the walk takes too long.
        """
        first = Reached(start)
        found: dict[tuple[int, int], Reached[T]] = {}
        more = {value: len(ins.operands) + k for k, value in enumerate(self._captured(ins))}
        for flow in self._steps.reads(ins, leaf):
            if isinstance(flow, Called):
                names = (
                    AS_THEY_ARE
                    if isinstance(ins.op, INSIDE)
                    else self._names_in(flow, ins, AS_THEY_ARE)
                )
                inside = self._ended(self._inside(flow, first, AS_THEY_ARE, names))
                for (end, i), reached in inside.items():
                    if not isinstance(end.op, Parameter) or end not in flow.callee.parameters:
                        self._add(found, (more[end], i), reached)
                    elif flow.first is not None:
                        self._add(found, (flow.first + end.op.number, i), reached)
            else:
                reached = self._through(first, flow.accesses, AS_THEY_ARE)
                number = flow.operand if isinstance(flow.operand, int) else more[flow.operand]
                self._add(found, (number, flow.leaf), reached)
        return found

    def parameters(
        self, ins: Instruction, leaf: int, start: T, computation: Computation
    ) -> dict[tuple[int, int], Reached[T]]:
        """What is reached of the leaves of the parameters of an instruction's computation."""
        ends = self._ended(self._walk(computation, (ins, leaf), Reached(start), AS_THEY_ARE))
        return {
            (end.op.number, i): reached
            for (end, i), reached in ends.items()
            if isinstance(end.op, Parameter) and end in computation.parameters
        }

    def _ended(self, walk: Walk[T]) -> Ends[T]:
        """Where a walk ends; those through called computations, however deep, wait on a stack."""
        stack = [walk]
        ends: Ends[T] = {}
        starts = True
        while stack:
            try:
                stack.append(next(stack[-1]) if starts else stack[-1].send(ends))
                starts = True
            except StopIteration as done:
                ends, starts = done.value, False
                stack.pop()
        return ends

    def _inside(self, flow: Called, reached: Reached[T], names: Names, inner: Names) -> Walk[T]:
        """What is reached through a called computation, in which the names are others."""
        entered = self._through(reached, flow.accesses, names)
        if entered.elements is None and not entered.unknown:
            return {}
        callee = flow.callee
        is_open = self._steps.reads_values(callee)
        elements = None if entered.elements is None else self._follower.key(entered.elements)
        handed = inner if is_open else None
        key = callee, flow.leaf, elements, entered.unknown, entered.over, handed
        known = self._known.get(key)
        if known is None and not is_open:
            known = self._steps.kept.get((type(self._follower), key))
        if known is None:
            if callee in self._open:
                raise UndecidedError(RECURSIVE)
            self._open.add(callee)
            known = yield self._walk(callee, (callee.root, flow.leaf), entered, inner)
            self._open.discard(callee)
            self._known[key] = known
            if not is_open:
                self._keep(key, entered, known)
        return known

    def _keep(self, key: Hashable, entered: Reached[T], ends: Ends[T]) -> None:
        """Remember for other walks where one through a closed computation ends."""
        reached = [r.elements for r in (entered, *ends.values()) if r.elements is not None]
        weights = [self._follower.weight(elements) for elements in reached]
        total = sum(w for w in weights if w is not None)
        if None not in weights:
            self._steps.kept.add((type(self._follower), key), ends, total + len(ends))

    def _names_in(self, flow: Called, ins: Instruction, names: Names) -> Names:
        """The names in a called computation, by those where the call stands; one object each."""
        key = (ins, flow.callee, flow.first, names)
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = _named_in(flow, ins, self._captured(ins), names)
        return known

    def _take_step(self) -> None:
        self._count += 1
        if self._count > MAX_STEPS:
            raise WalkTooLongError(f"the walk takes more than {MAX_STEPS} steps")
        if process_time() > self._until:
            raise WalkTooLongError(f"the walk takes more than {self._seconds:.1g} s")

    def _walk(
        self, computation: Computation, start: End, reached: Reached[T], names: Names
    ) -> Walk[T]:
        """From one value of a computation to its parameters and to values outside of it."""
        position = self._steps.positions(computation)
        found: dict[Instruction, dict[int, Reached[T]]] = {}
        heap: list[tuple[int, Instruction]] = []
        ends: Ends[T] = {}

        def add(target: Instruction, leaf: int, more: Reached[T]) -> None:
            if more.elements is None and not more.unknown:
                return
            if isinstance(target.op, Parameter) or target not in position:
                self._add(ends, (target, leaf), more)
                return
            if target not in found:
                found[target] = {}
                heappush(heap, (-position[target], target))
            self._add(found[target], leaf, more)

        add(*start, reached)
        while heap:
            _, ins = heappop(heap)
            for leaf, mine in found.pop(ins).items():  # all its users have been looked at
                for flow in self._steps.reads(ins, leaf):
                    self._take_step()
                    if isinstance(flow, Called):
                        inner = self._names_in(flow, ins, names)
                        inside = yield self._inside(flow, mine, names, inner)
                        for (end, i), more in inside.items():
                            outside = _outside(end, flow, ins)
                            if outside is not None:
                                add(outside, i, more)
                        continue
                    target = flow.operand
                    target = ins.operands[target] if isinstance(target, int) else target
                    add(target, flow.leaf, self._through(mine, flow.accesses, names))
        return ends

    def _through(self, reached: Reached[T], accesses: Accesses | None, names: Names) -> Reached[T]:
        if accesses is None:
            return reached
        elements: T | None = None
        unknown, over = reached.unknown, reached.over
        for access in accesses:
            if access.map is None:
                unknown = unknown or access.reason
                continue
            if reached.elements is None:
                continue
            more = self._follower.through(reached.elements, access, names)
            if more is None:
                continue
            if access.precision is Precision.OVER:
                over = over or access.reason
            elements = more if elements is None else self._follower.join(elements, more)
        return Reached(elements, unknown, over)

    def _add(self, table: dict[K, Reached[T]], key: K, more: Reached[T]) -> None:
        known = table.get(key)
        if known is None:
            table[key] = more
            return
        if known.elements is None or more.elements is None:
            elements = more.elements if known.elements is None else known.elements
        else:
            elements = self._follower.join(known.elements, more.elements)
        table[key] = Reached(elements, known.unknown or more.unknown, known.over or more.over)


def _named_in(flow: Called, ins: Instruction, read: tuple[Instruction, ...], names: Names) -> Names:
    """The names in a called computation; `read` are the values that `ins` captures."""
    if flow.first is None:
        return Names(caller=names)
    given = zip(flow.callee.parameters, ins.operands[flow.first :], strict=False)
    handed = {parameter: names.of(value) for parameter, value in given}
    call = None if isinstance(ins.op, CALLED_ONCE) else (ins, flow.first)
    return Names(handed, read, call, names)


def _outside(end: Instruction, flow: Called, ins: Instruction) -> Instruction | None:
    """Where a walk through a called computation ended, for the caller; `None`: in an element."""
    if not isinstance(end.op, Parameter) or end not in flow.callee.parameters:
        return end
    return None if flow.first is None else ins.operands[flow.first + end.op.number]
