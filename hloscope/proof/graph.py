"""A second traversal of programs, for proofs: each step uses the rule of one op only."""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from time import process_time
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.affine import POS_INF
from hloscope.fusion import (
    CALLED_ONCE,
    INSIDE,
    OUT_OF_STEP,
    READS,
    RECURSIVE,
    AccessInterner,
    Flow,
    Leaves,
    Results,
    Sizes,
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
from hloscope.ir import Computation, Instruction, called_value, captured
from hloscope.ops import Parameter, While
from hloscope.simplifier import UndecidedError
from hloscope.support.lazy import once_for_each

# --------------------------------------------------------------------------------------------------
# A second, plain traversal of a program: each step is a rule's own result, nothing is composed.
#
# A `Follower` carries the elements reached through each step: one as isl relations, another one as
# single elements.  Called computations are traversed at each call.


T = TypeVar("T")
K = TypeVar("K")
End: TypeAlias = tuple[Instruction, int]
"""A leaf where a traversal ends: the instruction, and the number of the leaf in its value."""


MAX_STEPS: Final = 200_000
"""Limit of the steps of a traversal; nested calls multiply them."""
SECONDS: Final = 5.0
"""Limit of the processor time of a traversal, in seconds."""


class WalkTooLongError(UndecidedError):
    """A traversal exceeded the limit of its steps or its time.

    Starting from fewer elements would not help.
    """


class Follower(Protocol[T]):
    """Represents the elements that a traversal has reached, as states of type `T`.

    A state is a set of elements of one tensor.
    """

    def through(self, reached: T, access: Access, names: Names) -> T | None:
        """Return the elements that an access leads to from the elements `reached`.

        `None` if there are none. `names` distinguishes values that the access reads at run time by
        the call that they belong to.
        """

    def join(self, one: T, other: T) -> T:
        """Return the union of two states: the elements that either has."""

    def key(self, reached: T) -> Hashable:
        """Return a key of a state; equal keys mean equal elements."""

    def weight(self, reached: T) -> int | None:
        """Return the memory that a state takes, in units of 8 bytes.

        `None` if the state must not be stored for other traversals.
        """


class Reached(Struct, Generic[T], frozen=True):
    """The elements of one leaf that a traversal has reached.

    Attributes:
        elements: State of the follower; `None` if no known map leads to an element.
        unknown: Text that says why more elements may be reached; empty if that is impossible.
        over: Text that says why some of `elements` may not be reached; empty if that is impossible.
    """

    elements: T | None
    unknown: str = ""
    over: str = ""


Ends: TypeAlias = dict[End, Reached[T]]
"""The elements reached at the ends of a traversal, by end."""
Walk: TypeAlias = Generator["Walk[T]", Ends[T], Ends[T]]
"""A traversal of one computation, as a generator.

It yields the traversals of called computations, is sent their ends, and returns its own.
"""


class Called(Flow):
    """A dependence on a leaf of a called computation's root, which must be traversed.

    `accesses` are the maps to that leaf.

    Attributes:
        callee: The computation.
        first: Number of the operand that is its first parameter.  `None` if the computation is
            applied to elements, so that only captured values count.
    """

    callee: Computation
    first: int | None


class Steps:
    """The dependences of single instructions, from `structure.READS` and the rules of ops."""

    def __init__(self, counts: DeviceCounts = UNKNOWN_COUNTS) -> None:
        self.counts: Final = counts
        self.results: Final = Results()
        self.interner: Final = AccessInterner()
        self._leaves = Leaves(self.results)
        self.leaves, self.offset = self._leaves.of, self._leaves.offset
        self.starts: Final = self._leaves.starts
        self.of_part, self.part = self._leaves.of_part, self._leaves.part
        self.tensor_types: Final = self._leaves.tensor_types
        self._sizes = Sizes(self.interner, self._leaves, self.results)
        # Asked for every traversal of a computation, and each output has several traversals.
        self._positions: Final[dict[Computation, dict[Instruction, int]]] = {}
        self._has_runtime: Final[dict[Computation, bool]] = {}
        self.kept: Final = ResultStore()

    def positions(self, computation: Computation) -> Mapping[Instruction, int]:
        """Return the index of each instruction in its computation."""
        if computation not in self._positions:
            places = {ins: at for at, ins in enumerate(computation.instructions)}
            self._positions[computation] = places
        return self._positions[computation]

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """Return the dependences of a leaf of an instruction's value on its operands.

        Raises:
            UndecidedError: The instruction is a loop, or its types contradict each other about
                run-time sizes.
        """
        if isinstance(ins.op, While):
            raise UndecidedError(f"`{ins.name}` is a loop, whose iterations are not walked through")
        entry = READS.get(type(ins.op))
        if entry is not None:
            if not self._sizes.are_consistent(ins):
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
        # A body is applied many times. Only the captured values count here: its parameters are
        # elements of the operands, which the rule covers already.
        if ins.calls and captured(ins):
            for instance in instances(ins, part.tensor, self.bodies):
                mark = Called(0, instance.result, instance.accesses)
                mark.callee, mark.first = ins.calls[instance.call], None
                flows.append(mark)
        return flows

    def reads_values(self, computation: Computation) -> bool:
        """May a map in the computation or its callees read values at run time, or be unbounded?

        Such maps have runtime variables, or range variables without an upper bound.
        """
        known = self._has_runtime
        stack = [computation] if computation not in known else []
        while stack:
            top = stack[-1]
            below = top.callees
            # Postorder on an explicit stack; calls may nest deeper than Python's recursion limit.
            missing = [c for c in below if c not in known]
            if top not in known and missing:
                known[top] = True  # holds if it calls itself
                stack += missing
                continue
            stack.pop()
            known[top] = any(known[c] for c in below) or any(
                type(ins.op) not in READS and self._draws(ins) for ins in top
            )
        return known[computation]

    def _draws(self, ins: Instruction) -> bool:
        """Does a map of the instruction have runtime variables or unbounded range variables?"""
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
        """Return, for each computation that an instruction calls, what its results depend on."""
        return by_convention(ins)

    def writes(self, ins: Instruction, operand: int, leaf: int) -> Iterable[Flow]:
        """Raise `NotImplementedError`: the traversal goes to producers only."""
        raise NotImplementedError

    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return a `Called`: the computation `callee` must be traversed.

        The traversal starts at leaf `leaf` of its root. `first` is the number of the operand of
        `ins` that is its first parameter.
        """
        mark = Called(first, leaf, None)
        mark.callee, mark.first = callee, first
        return (mark,)

    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Raise `NotImplementedError`: the traversal goes to producers only."""
        raise NotImplementedError

    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Raise `NotImplementedError`: only loops need summaries."""
        raise NotImplementedError

    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Raise `NotImplementedError`: the traversal goes to producers only."""
        raise NotImplementedError


class Walker(Generic[T]):
    """Traverses a program towards the producers; a `Follower` represents the elements reached.

    Calls of one computation with equal elements share a result.
    """

    def __init__(self, steps: Steps, follower: Follower[T], seconds: float = inf) -> None:
        self._steps = steps
        self._follower = follower
        self._count = 0
        self._seconds = min(seconds, SECONDS)
        self._until = process_time() + self._seconds
        # A computation is called many times with equal elements; without this, nested calls
        # multiply.
        self._known: dict[Hashable, Ends[T]] = {}
        self._open: set[Computation] = set()
        self._names: dict[Hashable, Names] = {}
        self._captured = once_for_each(captured)  # asked for each of up to 2,048 branches

    def operands(self, ins: Instruction, leaf: int, start: T) -> dict[tuple[int, int], Reached[T]]:
        """Return the operand elements on which elements of an instruction's leaf depend.

        Args:
            ins: The instruction.
            leaf: Number of the leaf.
            start: Elements of the leaf, as a state of the follower.

        Returns:
            The elements, by the numbers of operand and leaf; captured values are numbered after the
            operands.

        Raises:
            UndecidedError: The follower cannot represent the elements, or the traversal takes too
                long.
        """
        first = Reached(start)
        found: dict[tuple[int, int], Reached[T]] = {}
        # Captured values have no operand number, so they are numbered after the operands.
        more = {value: len(ins.operands) + k for k, value in enumerate(self._captured(ins))}
        for flow in self._steps.reads(ins, leaf):
            if isinstance(flow, Called):
                names = (
                    OWN_NAMES
                    if isinstance(ins.op, INSIDE)
                    else self._names_in(flow, ins, OWN_NAMES)
                )
                inside = self._ended(self._inside(flow, first, OWN_NAMES, names))
                for (end, i), reached in inside.items():
                    if not isinstance(end.op, Parameter) or end not in flow.callee.parameters:
                        self._add(found, (more[end], i), reached)
                    elif flow.first is not None:
                        self._add(found, (flow.first + end.op.number, i), reached)
            else:
                reached = self._through(first, flow.accesses, OWN_NAMES)
                number = flow.operand if isinstance(flow.operand, int) else more[flow.operand]
                self._add(found, (number, flow.leaf), reached)
        return found

    def parameters(
        self, ins: Instruction, leaf: int, start: T, computation: Computation
    ) -> dict[tuple[int, int], Reached[T]]:
        """Return the parameter elements on which elements of an instruction's leaf depend.

        Args:
            ins: The instruction.
            leaf: Number of the leaf.
            start: Elements of the leaf, as a state of the follower.
            computation: The computation whose parameters are reached.

        Returns:
            The elements, by the numbers of the parameter and of its leaf.
        """
        ends = self._ended(self._walk(computation, (ins, leaf), Reached(start), OWN_NAMES))
        return {
            (end.op.number, i): reached
            for (end, i), reached in ends.items()
            if isinstance(end.op, Parameter) and end in computation.parameters
        }

    def _ended(self, walk: Walk[T]) -> Ends[T]:
        """Run a traversal, and all traversals that it yields, on an explicit stack.

        Return the ends of the traversal: the elements reached in parameters and captured values.
        """
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
        """Traverse a called computation from the elements `reached` of the caller; return the ends.

        Args:
            flow: The dependence on a leaf of the computation's root.
            reached: Elements of the calling instruction's value.
            names: Names of the caller's values.
            inner: Names of the called computation's values.

        Raises:
            UndecidedError: The computation calls itself.
        """
        entered = self._through(reached, flow.accesses, names)
        if entered.elements is None and not entered.unknown:
            return {}
        callee = flow.callee
        # Without runtime variables the result depends on the elements alone, not on the caller's
        # names, so other calls and other traversals can share it.
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
                self._store(key, entered, known)
        return known

    def _store(self, key: Hashable, entered: Reached[T], ends: Ends[T]) -> None:
        """Store the ends of the traversal of a called computation under `key`.

        Nothing is stored if a state belongs to one query only, as isl relations do. `entered` are
        the elements of the computation's root from which it was traversed.
        """
        reached = [r.elements for r in (entered, *ends.values()) if r.elements is not None]
        weights = [self._follower.weight(elements) for elements in reached]
        total = sum(w for w in weights if w is not None)
        # A state without weight, such as isl relations, belongs to one query and is not shared.
        if None not in weights:
            self._steps.kept.add((type(self._follower), key), ends, total + len(ends))

    def _names_in(self, flow: Called, ins: Instruction, names: Names) -> Names:
        """Return the names of values in the computation that `ins` calls; equal calls share them.

        `flow` leads into the computation; `names` are those of the calling computation.
        """
        key = (ins, flow.callee, flow.first, names)
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = _named_in(flow, ins, self._captured(ins), names)
        return known

    def _take_step(self) -> None:
        """Count one step.

        Raises:
            WalkTooLongError: The limit of steps or time is exceeded.
        """
        self._count += 1
        if self._count > MAX_STEPS:
            raise WalkTooLongError(f"the walk takes more than {MAX_STEPS} steps")
        if process_time() > self._until:
            raise WalkTooLongError(f"the walk takes more than {self._seconds:.1g} s")

    def _walk(
        self, computation: Computation, start: End, reached: Reached[T], names: Names
    ) -> Walk[T]:
        """Return the elements of parameters and captured values that elements of a value depend on.

        As a generator, it yields traversals of called computations, and is sent their ends.

        Args:
            computation: The computation.
            start: The instruction and the number of the leaf.
            reached: The elements of that leaf.
            names: Names of the computation's values where the traversal began.
        """
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
            # The latest definition first: all users of an instruction come later in the text, so
            # when it is popped, its elements are complete.
            _, ins = heappop(heap)
            for leaf, mine in found.pop(ins).items():
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
        """Return the elements of an operand that accesses lead to, one step towards producers.

        Args:
            reached: The elements of a value that the traversal has reached.
            accesses: The accesses from the value to the operand; `None` for the identity.
            names: Names of the values that accesses read at run time.
        """
        if accesses is None:
            return reached
        elements: T | None = None
        unknown, over = reached.unknown, reached.over
        for access in accesses:
            # An unknown access does not end the traversal: other accesses still reach elements.
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
        """Join the reached elements `more` with those in `table[key]`; store the union there."""
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
    """Return the names of values in the computation that `ins` calls.

    Args:
        flow: The dependence that leads into the computation.
        ins: The calling instruction.
        read: Values that `ins` captures.
        names: Names of the caller's values.
    """
    if flow.first is None:
        return Names(caller=names)
    given = zip(flow.callee.parameters, ins.operands[flow.first :], strict=False)
    handed = {parameter: names.of(value) for parameter, value in given}
    call = None if isinstance(ins.op, CALLED_ONCE) else (ins, flow.first)
    return Names(handed, read, call, names)


def _outside(end: Instruction, flow: Called, ins: Instruction) -> Instruction | None:
    """Return the value of the caller `ins` that an end inside its called computation stands for.

    A parameter stands for an operand, a captured value for itself. `None` for a parameter of a
    computation that is applied to elements, such as a reduction's.
    """
    if not isinstance(end.op, Parameter) or end not in flow.callee.parameters:
        return end
    return None if flow.first is None else ins.operands[flow.first + end.op.number]


# --------------------------------------------------------------------------------------------------
# Names, where a traversal began, of the values inside called computations.


class Names:
    """Names that distinguish the values of a called computation by the call.

    A parameter becomes the operand, a captured value that of the caller, and any other value
    becomes the `called_value` of this call.
    """

    def __init__(
        self,
        passed: Mapping[Instruction, Instruction] | None = None,
        outside: Collection[Instruction] = (),
        call: tuple[Instruction, int] | None = None,
        caller: Names | None = None,
    ) -> None:
        """Create the names in a called computation; without arguments every value is its own name.

        Args:
            passed: Operands by parameter, in the caller's names.
            outside: Values of outer computations that the computation captures.
            call: The calling instruction, and the number of its operand that is the first
                parameter.  `None` if the computation has no other caller.
            caller: Names in the calling computation.
        """
        self._handed: Final = passed or {}
        self._outside: Final = outside
        self._call: Final = call
        self._caller: Final = caller

    def of(self, value: Instruction) -> Instruction:
        """Return the name of a value: a value where the traversal began, or a `called_value`."""
        at: Names | None = self
        while at is not None:
            if value in at._handed:
                return at._handed[value]
            if at._call is not None and value not in at._outside:
                value = called_value(value, *at._call)
            at = at._caller
        return value


OWN_NAMES: Final = Names()
"""Names where a traversal begins: every value is its own name."""


# --------------------------------------------------------------------------------------------------
# A memo table of bounded size.


MOST: Final = 1 << 22
"""Limit of the stored results' weight, in numbers of 8 bytes."""


class ResultStore:
    """Stored results by key. If their total weight exceeds the limit, all are discarded.

    >>> kept = ResultStore(most=3)
    >>> kept.add("a", 1, weight=2)
    >>> kept.get("a")
    1
    >>> kept.add("b", 2, weight=2)
    >>> kept.get("a"), kept.get("b")
    (None, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most: Final = most
        self._weight = 0
        self._answers: dict[Hashable, Any] = {}

    def get(self, question: Hashable) -> Any:
        """Return the stored result of a query; `None` if there is none."""
        return self._answers.get(question)

    def add(self, question: Hashable, answer: Any, weight: int) -> None:
        """Store the result of a query, unless its weight alone exceeds the limit."""
        if weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._answers, self._weight = {}, weight
        self._answers[question] = answer
