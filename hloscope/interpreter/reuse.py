"""Reuse of memory: the steps of a plan that may overwrite the array of an operand.

The decision is made before the plan runs, from the last use of each value and from the values that
may share memory.  If it is not certain that nothing reads an array again, the array is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.interpreter.registry import FRESH, Refusal, Writing
from hloscope.interpreter.straight import PURE, Entry, Inlined
from hloscope.ir import (
    ElementType,
    Instruction,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)
from hloscope.ops import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Case,
    Composite,
    Convert,
    CopyDone,
    CopyStart,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Result,
    Select,
    Tuple,
    While,
    leaves,
)
from hloscope.support.walks import nested, reached

if TYPE_CHECKING:
    from hloscope.interpreter.plan import Plan

_KEEP_NOTHING: Final = PURE | {
    AddDependency, AsyncDone, AsyncStart, AsyncUpdate, Composite, CopyDone, CopyStart, Domain,
    GetTupleElement, OptimizationBarrier, Result, Tuple,
}  # fmt: skip
"""Ops whose kernels keep no reference to an operand, except in their value.

Others, such as custom calls and collectives, hand arrays to Python functions or to other processes.
"""


# --------------------------------------------------------------------------------------------------
# Buffers: the memory in which the arrays of a plan lie, by number.
#
# The arrays of a plan's arguments have the first numbers, one for each leaf of the parameters'
# types; then come the outer values, then the arrays that the steps of the plan make.
#
# A scalar lies in no buffer: no kernel returns a scalar that is a view of an array, and none
# overwrites a scalar (`registry.kernel`).


Buffers: TypeAlias = frozenset[int]
"""The buffers in which an array may lie."""
Memory: TypeAlias = tuple[Buffers, ...]
"""The memory of a value: the buffers of each leaf of its type."""

UNKNOWN: Final = -1
"""Buffer that stands for all memory the plan does not know: constants, arrays kept elsewhere."""
NOWHERE: Final[Buffers] = frozenset()
ANYWHERE: Final[Buffers] = frozenset((UNKNOWN,))
MOST_BUFFERS: Final = 32
"""Maximum number of buffers that an array may lie in; its memory is unknown if there are more."""


class UnknownError(Exception):
    """Raised if it is not known which memory a called computation reads, writes or returns."""


def union(memories: Iterable[Buffers]) -> Buffers:
    """Return the buffers of all the memories, as one set."""
    return NOWHERE.union(*memories)


def has_memory(type_: Type) -> bool:
    """Do values of this type lie in memory: are they tuples, or arrays of rank 1 or more?"""
    if isinstance(type_, TensorType):
        return type_.rank > 0
    return not isinstance(type_, TokenType)


def leaf_types(type_: Type) -> list[Type]:
    """Return the types of the leaves of a value, in order: its arrays and tokens."""
    roots: list[Type] = [type_]
    types = nested(roots, lambda t: t.elements if isinstance(t, TupleType) else ())
    return [t for t in types if not isinstance(t, TupleType)]


def leaves_of(memories: Sequence[Memory], types: Sequence[Type]) -> Memory:
    """Return the memory of the leaves of several values, in order.

    Raises:
        UnknownError: The values have other numbers of leaves than the types.
    """
    if [*map(len, memories)] != [len(leaf_types(t)) for t in types]:
        raise UnknownError
    return tuple(chain.from_iterable(memories))


# --------------------------------------------------------------------------------------------------
# The memory of a plan's results, and the steps that may overwrite an operand.


class Grant(NamedTuple):
    """Arrays that a called computation may overwrite.

    They are given by leaf number, counted through all its arguments with tuples flattened.

    Attributes:
        owned: Leaves that it may overwrite.
        copied: Those of them that have to be copied before its first run.
    """

    owned: frozenset[int] = frozenset()
    copied: frozenset[int] = frozenset()


NO_GRANT: Final = Grant()


class Reuse(Struct, frozen=True, eq=False):
    """What a plan does with the memory of its values.

    A row is a kernel of the straight-line program of the plan. A buffer is given by number.

    Attributes:
        parameters: Number of leaves of the arguments, which are the first buffers.
        given: Number of buffers of arguments and outer values.
        results: Memory of each leaf of the results.
        escaped: Buffers that something outside the plan may refer to when it has run.
        writes: By the number of a row, the memory of the operand that it may overwrite, if the plan
            owns all of these buffers.
        gives: By the number of a row with regions, for each region the memory of the leaves that
            the region may overwrite, if the plan owns it.
        loops: By the number of the row of a loop, the leaves that the loop has to own.
    """

    parameters: int
    given: int
    results: tuple[Buffers, ...]
    escaped: frozenset[int]
    writes: Mapping[int, Buffers]
    gives: Mapping[int, tuple[Mapping[int, Buffers], ...]]
    loops: Mapping[int, frozenset[int]]

    @property
    def wanted(self) -> frozenset[int]:
        """Leaves of the arguments that the plan overwrites if it owns them."""
        given = [memory for rows in self.gives.values() for row in rows for memory in row.values()]
        return frozenset(
            b for memory in (*self.writes.values(), *given) for b in memory if b < self.parameters
        )

    def may_write(self, row: int, owned: frozenset[int]) -> bool:
        """May row number `row` overwrite its first operand?

        `owned` are the leaves of the plan's arguments that the plan owns: nothing else reads them
        again.
        """
        return row in self.writes and self._owns(self.writes[row], owned)

    def grants(self, row: int, owned: frozenset[int]) -> tuple[Grant, ...]:
        """Return what each region of row number `row` may overwrite.

        `owned` are the leaves of the plan's arguments that the plan owns: nothing else reads them
        again.
        """
        given = [
            frozenset(leaf for leaf, memory in leaves.items() if self._owns(memory, owned))
            for leaves in self.gives.get(row, ())
        ]
        if row in self.loops:
            taken = self.loops[row]
            return NO_GRANT, Grant(taken, taken - given[1])
        return tuple(map(Grant, given))

    def _owns(self, memory: Buffers, owned: frozenset[int]) -> bool:
        return all(b >= self.given or b in owned for b in memory)


def owned_by_loop(condition: Reuse, body: Reuse) -> frozenset[int]:
    """Return the leaves of a loop's state that its body overwrites and the loop can own.

    The leaves are counted through the state, with tuples flattened. If the loop owns them before an
    iteration, it owns them after it: the body returns an array that it made, or one of these
    leaves, and no other leaf of the state shares its memory.
    """
    number = body.parameters
    if not number == condition.parameters == len(body.results):
        return frozenset()
    holders = Counter(b for memory in body.results for b in memory)
    forward: list[list[int]] = [[] for _ in range(number)]
    backward: list[list[int]] = [[] for _ in range(number)]
    lost = [leaf for leaf in range(number) if leaf in condition.escaped]
    for leaf, memory in enumerate(body.results):
        for b in memory:
            if 0 <= b < number:
                forward[b].append(leaf)
                backward[leaf].append(b)
        if not memory or any(
            holders[b] > 1 or b in body.escaped or number <= b < body.given for b in memory
        ):
            lost.append(leaf)
    # A leaf that later iterations overwrite is wanted from the first iteration on; a leaf that
    # becomes a lost one is not wanted back.
    wanted = reached(body.wanted, lambda leaf: backward[leaf])
    unwanted = reached(lost, lambda leaf: forward[leaf])
    return frozenset(wanted) - frozenset(unwanted)


def reuse(plan: Plan, inlined: Inlined, known: Mapping[Plan, Reuse | None]) -> Reuse:
    """Return what a plan does with memory.

    Args:
        plan: The plan.
        inlined: The plan with its calls inlined.
        known: What the plans of its loops and branches do with memory. That of a plan that is
            missing, or `None`, is unknown.
    """
    return _Analysis(plan, inlined, known).run()


def inner_plans(plan: Plan) -> list[Plan]:
    """Return the called plans whose use of memory must be known before that of a plan.

    There are none if the plan has no straight-line program.
    """
    return [
        inner
        for entry in (plan.inlined.entries if plan.inlined else ())
        for inner, _ in entry.regions
        if isinstance(entry.ins.op, While | Case) or not inner.is_elementwise
    ]


def can_overwrite(plan: Plan) -> bool:
    """Has a plan, or a plan that it calls, a kernel that can write to an operand?"""
    return any(
        isinstance(entry.step.kernel, Writing)
        for inner in reached([plan], inner_plans)
        for entry in (inner.inlined.entries if inner.inlined else ())
    )


class _Analysis:
    """Follows the memory of a plan's values through the rows of its straight-line program.

    The rows are visited in the order of evaluation.
    """

    def __init__(self, plan: Plan, inlined: Inlined, known: Mapping[Plan, Reuse | None]) -> None:
        self._plan: Final = plan
        self._inlined: Final = inlined
        self._known: Final = known
        self._count = 0
        self._row = 0
        self._of: Final[dict[int, Memory]] = {}
        """Memory of values by slot; constants are missing."""
        self._until: Final[dict[int, int]] = {}
        """By buffer, the last row that reads one of the values in it that were made so far.

        A value that is made later lies in the buffer only if its row reads one of these.
        """
        self._escaped: Final = {UNKNOWN}
        self._writes: Final[dict[int, Buffers]] = {}
        self._gives: Final[dict[int, tuple[Mapping[int, Buffers], ...]]] = {}
        self._loops: Final[dict[int, frozenset[int]]] = {}

    def run(self) -> Reuse:
        """Return the result of the analysis."""
        plan, inlined = self._plan, self._inlined
        for slot, type_ in enumerate(plan.computation.arguments):
            # Scalars take a number, too, but have no memory.
            numbered = [(t, frozenset((self.next(),))) for t in leaf_types(type_)]
            self._hold(slot, tuple([b if has_memory(t) else NOWHERE for t, b in numbered]))
        parameters = self._count
        for slot, value in enumerate(plan.outer, len(plan.computation.parameters)):
            self._hold(slot, (frozenset((self.next(),)),) * len(leaf_types(value.type)))
        given = self._count
        for self._row, entry in enumerate(inlined.entries):
            self._hold(entry.target, self._fitting(self._value(entry), entry.ins.type))
        results = [self.memory(slot) for slot in inlined.results]
        try:
            found = leaves_of(results, plan.computation.results)
        except UnknownError:
            found = ()
        return Reuse(
            parameters, given, found, frozenset(self._escaped),
            self._writes, self._gives, self._loops,
        )  # fmt: skip

    def next(self) -> int:
        """Return the number of a new buffer."""
        self._count += 1
        return self._count - 1

    def memory(self, slot: int) -> Memory:
        """Return the memory of the value in slot number `slot`."""
        found = self._of.get(slot)
        return self._fitting((ANYWHERE,), self._inlined.known[slot]) if found is None else found

    def known(self, plan: Plan) -> Reuse:
        """Return what the called plan `plan` does with memory.

        Raises:
            UnknownError: It is not known.
        """
        found = self._known.get(plan)
        if found is None:
            raise UnknownError
        return found

    def escape(self, memory: Buffers) -> None:
        """Record that code outside the plan may refer to the buffers `memory` from now on.

        So they are never overwritten.
        """
        self._escaped.update(memory)

    def is_dead(self, memory: Buffers) -> bool:
        """Is none of the buffers `memory` read by a later row, or by anything outside the plan?

        False if there are no buffers.
        """
        return (
            bool(memory)
            and memory.isdisjoint(self._escaped)
            and all(self._until[b] <= self._row for b in memory)
        )

    def _new(self, type_: Type) -> Buffers:
        return frozenset((self.next(),)) if has_memory(type_) else NOWHERE

    def _hold(self, slot: int, memory: Memory) -> None:
        """Record that the value in a slot has this memory, and how long its buffers are read."""
        self._of[slot] = memory
        last = self._inlined.last.get(slot, -1)
        for buffer in union(memory):
            self._until[buffer] = max(self._until.get(buffer, -1), last)

    def _fitting(self, memory: Memory, type_: Type) -> Memory:
        """Return a memory with an entry for each leaf of a type.

        If it has another number of entries, each leaf may lie in all of its buffers.
        """
        if not has_memory(type_):
            return (NOWHERE,)
        count = len(leaf_types(type_))
        return memory if len(memory) == count else (union(memory),) * count

    def _value(self, entry: Entry) -> Memory:
        """Return the memory of the value of a row, and record what the row may overwrite.

        `entry` is the step from which the row is made.  The memory is that of each leaf, or one
        set of buffers in which all leaves may lie.
        """
        ins, kernel = entry.ins, entry.step.kernel
        if isinstance(kernel, Refusal):
            return (ANYWHERE,)
        operands = [self.memory(slot) for slot in entry.operands]
        if entry.target in self._inlined.packed:
            try:
                return leaves_of(operands, leaves(ins.type))
            except UnknownError:
                return (union(map(union, operands)),)
        if isinstance(ins.op, GetTupleElement | Result):
            counts = [len(leaf_types(t)) for t in leaves(ins.operands[0].type)]
            whole, index = operands[0], ins.op.index
            if sum(counts) != len(whole) or index >= len(counts):
                return (union(whole),)
            start = sum(counts[:index])
            return whole[start : start + counts[index]]
        if isinstance(ins.op, While | Case):
            try:
                if isinstance(ins.op, While):
                    return self._loop(entry, operands)
                return self._branches(entry, operands)
            except UnknownError:
                self.escape(self._inputs(entry))
                return (ANYWHERE,)
        if isinstance(kernel, Writing) and self.is_dead(first := union(operands[0])):
            # Another operand may lie in the same memory: numpy reads all of it before it writes.
            self._writes[self._row] = first
        if type(ins.op) not in _KEEP_NOTHING or any(self._keeps(p) for p, _ in entry.regions):
            self.escape(self._inputs(entry))
        if is_fresh(ins):
            return tuple(map(self._new, leaf_types(ins.type)))
        return (self._few(self._inputs(entry) | ANYWHERE),)

    def _few(self, memory: Buffers) -> Buffers:
        """Return the memory, or that of unknown place if it has too many buffers to follow."""
        if len(memory) <= MOST_BUFFERS:
            return memory
        self.escape(memory)
        return ANYWHERE

    def _inputs(self, entry: Entry) -> Buffers:
        """Return the memory of everything that a row reads; `entry` is the step of the row."""
        return union(chain.from_iterable(map(self.memory, entry.reads)))

    def _keeps(self, plan: Plan) -> bool:
        """May something still refer to an argument or outer value of a region after it has run?

        `plan` is the plan of the region.
        """
        if plan.is_elementwise:
            return False
        found = self._known.get(plan)
        return found is None or any(0 <= b < found.given for b in found.escaped)

    def _branches(self, entry: Entry, operands: Sequence[Memory]) -> Memory:
        """Return the memory of the value of a `case`: that of the results of all branches.

        `entry` is the step of the `case`, `operands` has the memory of its operands.
        """
        calls = []
        for number, region in enumerate(entry.regions):
            # A branch has one operand of its own, or none.
            own = operands[number + 1 : number + 2] if len(operands) > 1 else ()
            calls.append(_Call(self, region, own))
        gives = tuple([call.gives(call.reuse.wanted) for call in calls])
        made = [
            [call.inside(memory, call.inits.__getitem__) for memory in call.reuse.results]
            for call in calls
        ]
        if len({len(results) for results in made}) != 1:
            raise UnknownError
        for call in calls:
            call.escape(call.inits.__getitem__)
        joined = tuple([self._few(union(parts)) for parts in zip(*made, strict=True)])
        found = leaves_of([joined], [entry.ins.type])
        self._gives[self._row] = gives
        return found

    def _loop(self, entry: Entry, operands: Sequence[Memory]) -> Memory:
        """Return the memory of the final state of a `while`.

        `entry` is the step of the loop, `operands` has the memory of the initial state.
        """
        if len(entry.regions) != 2:
            raise UnknownError
        test, body = [_Call(self, region, operands) for region in entry.regions]
        results = body.reuse.results
        number = len(results)
        if number != len(body.inits):
            raise UnknownError
        owned = owned_by_loop(test.reuse, body.reuse)
        gives = body.gives(owned, test.outer)
        # Leaves of the state that become each other share the buffers of all of them.
        becomes: list[list[int]] = [[] for _ in results]
        for leaf, memory in enumerate(results):
            for b in memory:
                if 0 <= b < number:
                    becomes[leaf].append(b)
                    becomes[b].append(leaf)
        state: dict[int, Buffers] = {}
        for leaf in range(number):
            if leaf not in state:
                group = reached([leaf], becomes.__getitem__)
                made = [body.inside(results[k], lambda _: NOWHERE) for k in group]
                memory = self._few(union([*made, *[body.inits[k] for k in group]]))
                state |= dict.fromkeys(group, memory)
        for call in (test, body):
            call.escape(state.__getitem__)
        # Nothing shares the memory of a leaf that the loop owns, except the initial state if there
        # is no iteration.
        final = [body.inits[k] | {self.next()} if k in owned else state[k] for k in range(number)]
        found = leaves_of([tuple(final)], [entry.ins.type])
        self._gives[self._row] = ({}, gives)
        self._loops[self._row] = owned
        return found


class _Call:
    """A called computation that a row runs, with its arguments.

    Attributes:
        reuse: What the plan of the computation does with memory.
        inits: Memory of each leaf of its arguments, at its first run.
        outer: Memory of each outer value that it reads.
    """

    def __init__(
        self, of: _Analysis, region: tuple[Plan, Sequence[int]], operands: Sequence[Memory]
    ) -> None:
        plan, outer = region
        self._of: Final = of
        self.reuse: Final = of.known(plan)
        self.inits: Final = leaves_of(operands, plan.computation.arguments)
        self.outer: Final = [union(of.memory(slot)) for slot in outer]
        self._made: Final[dict[int, int]] = {}

    def gives(self, leaves: Iterable[int], others: Iterable[Buffers] = ()) -> Mapping[int, Buffers]:
        """Return the argument leaves that the called computation may overwrite, with their memory.

        They are those of `leaves` that nothing else reads again and that share no memory with
        another leaf.

        Args:
            leaves: Numbers of leaves of the arguments.
            others: Memory of further values that are read while the computation runs.
        """
        uses = Counter(b for memory in (*self.inits, *self.outer, *others) for b in memory)
        return {
            leaf: self.inits[leaf]
            for leaf in leaves
            if self._of.is_dead(self.inits[leaf]) and all(uses[b] == 1 for b in self.inits[leaf])
        }

    def inside(self, memory: Buffers, argument: Callable[[int], Buffers]) -> Buffers:
        """Return a memory inside the called computation as memory of the caller.

        Args:
            memory: Buffers of the called computation.
            argument: Returns the caller's memory of an argument leaf, by the leaf's number.
        """
        reuse = self.reuse
        found: list[Buffers] = []
        for b in memory:
            if b == UNKNOWN or (b >= reuse.given and b in reuse.escaped):
                found.append(ANYWHERE)
            elif b >= reuse.given:
                # One array of the region may be in several of its results.
                if b not in self._made:
                    self._made[b] = self._of.next()
                found.append(frozenset((self._made[b],)))
            elif b >= reuse.parameters:
                found.append(self.outer[b - reuse.parameters])
            else:
                found.append(argument(b))
        return union(found)

    def escape(self, argument: Callable[[int], Buffers]) -> None:
        """Record the caller's memory that code outside both plans may refer to after the call.

        It is that of arguments and outer values. `argument` returns the caller's memory of an
        argument leaf, by the leaf's number.
        """
        kept = frozenset(b for b in self.reuse.escaped if 0 <= b < self.reuse.given)
        self._of.escape(self.inside(kept, argument))


def is_fresh(ins: Instruction) -> bool:
    """Does the value of an instruction lie in new memory, not in that of another value?"""
    if isinstance(ins.op, Convert):
        # Real numbers of another type are always written anew.
        source, target = [_element(o.type) for o in (ins.operands[0], ins)]
        return None is not source != target is not None and source.kind != "complex"
    if isinstance(ins.op, Select):
        # A scalar predicate selects one of the operands as a whole.
        predicate = ins.operands[0].type
        return isinstance(predicate, TensorType) and predicate.rank > 0
    return type(ins.op) in FRESH


def _element(type_: Type) -> ElementType | None:
    """Return the element type of an array type; `None` for quantized elements and other types."""
    element = type_.element if isinstance(type_, TensorType) else None
    return None if isinstance(element, QuantizedType) else element
