"""Straight-line programs: plans with inlined calls and folded constants, of needed steps only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hloscope.interpreter.registry import Moving, Refusal, Writing
from hloscope.ir import Computation, Instruction, Op, TensorType, Type, captured
from hloscope.ops import (
    ELEMENTWISE,
    OPS,
    AddDependency,
    Broadcast,
    BroadcastInDim,
    Call,
    Case,
    Constant,
    CustomCall,
    Domain,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Reshape,
    Result,
    Return,
    Transpose,
    Tuple,
    While,
    batch_norm,
    contraction,
    convolution,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    quantize,
    reduction,
    shape,
    slicing,
    windows,
)
from hloscope.support.arrays import np

if TYPE_CHECKING:
    from hloscope.interpreter.plan import Plan, Step
    from hloscope.interpreter.reuse import Grant, Reuse


# --------------------------------------------------------------------------------------------------
# Straight-line programs: a plan with its calls inlined and its constants folded.
#
# What every evaluation would decide is decided once: how many operands a kernel takes and from
# which slots, which slots are free afterwards, and whether the kernel may overwrite an operand
# (`reuse`).  Calls are replaced by the steps of their callees, elements of
# known tuples by the values they were built from, and pure steps on constants by their values.  A
# plan that is recursive or too long has no such program and is evaluated with a stack of calls.


_MOST_STEPS: Final = 50_000
"""Maximum number of steps of a straight-line program; a longer plan keeps its calls."""
_MOST_NESTED: Final = 64
"""Maximum depth of calls that are inlined; a plan with deeper calls is not inlined."""
_SMALL: Final = 1 << 16
"""Maximum bytes of a folded value; constants and views of constants are stored at any size."""
_IDENTITY: Final[tuple[type[Op], ...]] = (
    ELEMENTWISE["copy"], AddDependency, Domain, OptimizationBarrier,
)  # fmt: skip
"""Ops whose value is their first operand."""
_VIEWS: Final = (Broadcast, BroadcastInDim, Reshape, Transpose)

NULLARY, UNARY, BINARY, MANY, REGIONS, MOVING, WRITING = range(7)
"""Values of `Row.mode`: how a row passes operands to its kernel.

In order: 0, 1, 2 or more operands; regions; regions that consume the operands; a kernel that may
overwrite its first operand.
"""

Regions = tuple[tuple["Plan", tuple[int, ...]], ...]


class Row(NamedTuple):
    """One kernel of a straight-line program, with the slots of its values.

    Attributes:
        mode: How to call the kernel, `NULLARY` to `WRITING`.
        kernel: The function to run.
        first: Slot of the first operand, or a function that gets all operands from the slots; if
            there are regions, what each of them may overwrite (`reuse.Grant`).
        second: Slot of the second operand; for `WRITING`, of the operand that may be overwritten.
        target: Slot of the value.
        freed: Slots to clear after it, because no later row reads them.
        entry: The entry from which the row was made.
    """

    mode: int
    kernel: Any
    first: Any
    second: int
    target: int
    freed: tuple[int, ...]
    entry: Entry


class Entry(Struct, eq=False):
    """A step of a plan with the slots that it uses in the straight-line program.

    Attributes:
        step: The step.
        operands: Slots of the operands.
        target: Slot of the value.
        regions: Plans of its regions, each with the slots of the outer values it reads.
        count: For a step with regions, number of steps since the previous such step, itself
            included.
    """

    step: Step
    operands: tuple[int, ...]
    target: int
    regions: Regions = ()
    count: int = 0

    @property
    def ins(self) -> Instruction:
        """The instruction of the step."""
        return self.step.ins

    @property
    def reads(self) -> set[int]:
        """Slots of all values that the step reads, those of its regions included."""
        return {*self.operands, *[s for _, outer in self.regions for s in outer]}


class Inlined(Struct, eq=False):
    """The steps of a plan with its calls inlined, from which its straight-line programs are made.

    Attributes:
        entries: The steps, in order.
        given: Number of slots of arguments and outer values, which come first.
        results: Slots of the results.
        last: By slot, the number of the last entry that reads it, or makes it if none does; the
            number of entries for results.
        known: Types of constants and of folded steps, by slot.
        packed: Slots of tuples that the entries build of their operands.
        template: Initial values of the slots after arguments and outer values.
        count: Number of steps of the plan and its inlined callees; steps in regions are not
            included.
        tail: Number of steps after the last step with regions.
    """

    entries: list[Entry]
    given: int
    results: tuple[int, ...]
    last: dict[int, int]
    known: Mapping[int, Type]
    packed: Collection[int]
    template: list[Any]
    count: int
    tail: int


class Straight(Struct, eq=False):
    """The straight-line program of a plan, for callers that own the same arguments.

    Attributes:
        rows: The kernels to run, in order.
        flat: The plan with its calls inlined, of which it is made.
        give: Function that returns the results from the list of slots.
    """

    rows: tuple[Row, ...]
    flat: Inlined
    give: Callable[[list[Any]], Any]


class _TooMuchError(Exception):
    """Raised if a plan cannot be inlined."""


class _Slots(dict[int, int]):
    """Slots in the straight-line program, by slots in a plan; a missing one ends the inlining."""

    def __missing__(self, slot: int) -> int:
        raise _TooMuchError  # the value is never computed: evaluation reports its reader


def inlined(plan: Plan) -> Inlined | None:
    """Return a plan with its calls inlined; `None` if the plan is recursive or too long."""
    try:
        flat = _Inliner(plan)
    except _TooMuchError:
        return None
    return flat.inlined()


def straight(flat: Inlined, reuse: Reuse | None, owned: frozenset[int]) -> Straight:
    """Return the straight-line program that may overwrite the arrays of some arguments.

    Args:
        flat: The plan with its calls inlined.
        reuse: What the plan does with memory; `None` if it overwrites no operand.
        owned: Numbers of the argument leaves (tuples flattened) that it may overwrite.
    """
    freed: list[list[int]] = [[] for _ in flat.entries]
    for slot, number in flat.last.items():
        if number < len(freed) and slot not in flat.known:
            freed[number].append(slot)
    rows = []
    for number, (entry, dead) in enumerate(zip(flat.entries, freed, strict=True)):
        may_write = reuse is not None and reuse.may_write(number, owned)
        grants = reuse.grants(number, owned) if reuse else ()
        rows.append(_row(entry, tuple(dead), may_write, grants))
    return Straight(tuple(rows), flat, _result_getter(flat.results))


class _Inliner:
    """Inlines the calls of a plan; collects the steps with their slots in the program."""

    def __init__(self, plan: Plan) -> None:
        self.given: Final = len(plan.computation.parameters) + len(plan.outer)
        self.size = self.given
        self.entries: list[Entry] = []
        self.known: dict[int, Any] = {}
        """Values of constants and of folded steps, by slot."""
        self.types: dict[int, Type] = {}
        """Their types."""
        self.parts: dict[int, tuple[tuple[int, Type], ...]] = {}
        """For each slot of a tuple that the program builds, the slots and types of its elements."""
        self.folds: Final = plan.world.max_flops is None
        self.count = 0
        self._since = 0
        self.results = self._inline(plan)

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1

    def _inline(self, plan: Plan) -> tuple[int, ...]:
        """Inline a plan and its calls, and return the slots of its results."""
        stack = [_OpenPlan(plan, tuple(range(self.given)))]
        while True:
            level = stack[-1]
            step = next(level.steps, None)
            if step is None:
                stack.pop()
                results = level.results()
                if not stack:
                    return results
                self._returned(stack[-1], level, results)
                continue
            self.count += 1
            self._since += 1
            if self.count > _MOST_STEPS:
                raise _TooMuchError
            if step.kernel is None:
                stack.append(_open_callee(step, level, stack))
            else:
                self._add(step, level.slots)

    def _returned(self, caller: _OpenPlan, level: _OpenPlan, results: tuple[int, ...]) -> None:
        """Assign the value of a finished call to a slot of its caller: one result, or a tuple.

        Args:
            caller: The calling plan.
            level: The called plan.
            results: Slots of its results in the straight-line program.
        """
        step = level.of
        assert step is not None
        if level.plan.root >= 0 or len(results) == 1:
            caller.slots[step.target] = results[0]
        else:
            slot = self._slot()
            types = level.plan.computation.results
            self.parts[slot] = tuple(zip(results, types, strict=True))
            self.entries.append(Entry(_packing(step), results, slot))
            caller.slots[step.target] = slot

    def _add(self, step: Step, slots: dict[int, int]) -> None:
        """Add a step to the straight-line program; `slots` maps slots of the plan to its slots.

        The step is omitted if its value is in another slot already or can be computed now.
        """
        operands = tuple([slots[s] for s in step.operands])
        # A step that cannot be evaluated has to fail when it is reached, so it is neither skipped
        # nor folded.
        is_refused = isinstance(step.kernel, Refusal)
        known_as = None if is_refused else self._alias(step, operands)
        if known_as is not None:
            slots[step.target] = known_as
            return
        target = slots[step.target] = self._slot()
        regions = tuple([(p, tuple([slots[s] for s in outer])) for p, outer in step.regions])
        if not is_refused and _packs(step):
            types = [o.type for o in step.ins.operands]
            self.parts[target] = tuple(zip(operands, types, strict=True))
        elif not regions and not is_refused and self._is_constant(step, operands):
            value = self._value(step, operands)
            if value is not None:
                self.known[target], self.types[target] = value, step.ins.type
                return
        entry = Entry(step, operands, target, regions)
        if regions:
            entry.count, self._since = self._since, 0
        self.entries.append(entry)

    def _alias(self, step: Step, operands: Sequence[int]) -> int | None:
        """Return the slot that already has the value of a step; `None` if there is none.

        `operands` are the slots of the step's operands in the straight-line program.
        """
        ins = step.ins
        if isinstance(ins.op, _IDENTITY):
            first = ins.operands[0] if ins.operands else None
            is_one = len(operands) == 1 or isinstance(ins.op, AddDependency)
            return (
                operands[0]
                if first and is_one and _has_same_elements(first.type, ins.type)
                else None
            )
        if isinstance(ins.op, GetTupleElement) and operands[0] in self.parts:
            slot, type_ = self.parts[operands[0]][ins.op.index]
            return slot if _has_same_elements(type_, ins.type) else None
        return None

    def _is_constant(self, step: Step, operands: Sequence[int]) -> bool:
        """Does a step have the same value in every run, because its operands are constants?

        With a limit on flops no step is folded, because folded work would not be counted.
        """
        if isinstance(step.ins.op, Constant):
            return True
        return self.folds and type(step.ins.op) in PURE and all(s in self.known for s in operands)

    def _value(self, step: Step, operands: Sequence[int]) -> Any:
        """Return the value of a step on constants; `None` if it fails or the value is too large."""
        assert step.kernel is not None
        try:
            value = step.kernel(*[self.known[s] for s in operands])
        except Exception:  # the step may never run; if it does, it raises the error again
            return None
        op = step.ins.op
        size = getattr(value, "nbytes", _SMALL + 1)
        is_view = isinstance(op, _VIEWS) and getattr(value, "base", None) is not None
        if not (isinstance(op, Constant) or is_view or size <= _SMALL):
            return None
        if isinstance(value, np.ndarray):
            value.flags.writeable = False  # later runs use the array again
        return value

    def inlined(self) -> Inlined:
        """Return the inlined plan, without tuples that are never read."""
        entries = self._without_unread_tuples(self._projections_first())
        last: dict[int, int] = {}
        for number, entry in enumerate(entries):
            for slot in entry.reads:
                last[slot] = number
            last.setdefault(entry.target, number)
        # Results count as read after the last row.
        last |= dict.fromkeys(self.results, len(entries))
        read = {*self.results, *[s for e in entries for s in e.reads]}
        # Constants that are never read are dropped, so that they do not hold memory.
        template = [self.known[s] if s in read and s in self.known else None
                    for s in range(self.given, self.size)]  # fmt: skip
        return Inlined(
            entries, self.given, self.results, last, self.types, self.parts.keys(), template,
            self.count, self._since,
        )  # fmt: skip

    def _projections_first(self) -> list[Entry]:
        """Return the entries in another order: elements are taken from a tuple once it exists.

        Then the tuple can be freed, and an unused element does not stay in memory because of it.
        """
        parts: dict[int, list[Entry]] = {}
        rest = []
        for entry in self.entries:
            if _is_projection(entry):
                parts.setdefault(entry.operands[0], []).append(entry)
            else:
                rest.append(entry)
        ordered: list[Entry] = []

        def take(slots: Iterable[int]) -> None:
            waiting = list(slots)
            while waiting:
                own = parts.pop(waiting.pop(), ())
                ordered.extend(own)
                waiting += [e.target for e in own]

        # Elements of arguments and constants can be taken at once; an element may be a tuple
        # itself.
        take([*range(self.given), *self.known])
        for entry in rest:
            ordered.append(entry)
            take([entry.target])
        return ordered

    def _without_unread_tuples(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries without tuples and elements of tuples that are never read."""
        read = set(self.results)
        kept = []
        # Readers come later, so in reverse order each reader has been decided before what it reads.
        for entry in reversed(entries):
            is_structure = entry.target in self.parts or _is_projection(entry)
            if not is_structure or entry.target in read:
                kept.append(entry)
                read |= entry.reads
        return kept[::-1]


class _OpenPlan:
    """A plan that is being inlined: its remaining steps, and its slots in the program."""

    def __init__(self, plan: Plan, given: Sequence[int], of: Step | None = None) -> None:
        self.plan: Final = plan
        self.of: Final = of
        self.slots: Final = _Slots(enumerate(given))
        self.steps: Final = iter(plan.steps)

    def results(self) -> tuple[int, ...]:
        """Slots of the plan's results in the straight-line program."""
        plan, slots = self.plan, self.slots
        wanted = (plan.root,) if plan.root >= 0 else plan.results
        return tuple([slots[s] for s in wanted])


def _open_callee(step: Step, level: _OpenPlan, stack: Sequence[_OpenPlan]) -> _OpenPlan:
    """Return the callee of a step as a plan to be inlined; `level` is its caller.

    Raises:
        _TooMuchError: The callee is being inlined already, nesting is too deep, or the number of
            operands does not match.
    """
    plan, outer = step.regions[0]
    takes = len(plan.computation.parameters)
    is_open = any(other.plan is plan for other in stack)
    if is_open or len(stack) > _MOST_NESTED or takes != len(step.operands):
        raise _TooMuchError
    return _OpenPlan(plan, [level.slots[s] for s in (*step.operands, *outer)], step)


def _is_projection(entry: Entry) -> bool:
    """Is the entry's op one that takes an element from a tuple?"""
    is_part = isinstance(entry.step.ins.op, GetTupleElement)
    return is_part and not isinstance(entry.step.kernel, Refusal)


def _packs(step: Step) -> bool:
    """Is the value of the step a tuple of its operands?"""
    op = step.ins.op
    return isinstance(op, Tuple) or (isinstance(op, OptimizationBarrier) and len(step.operands) > 1)


def _has_same_elements(a: Type, b: Type) -> bool:
    """Is a value of type `a` also one of type `b`, apart from layouts?"""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (a.element, a.sizes, a.bounds) == (b.element, b.sizes, b.bounds)
    return a == b


def _packing(step: Step) -> Step:
    """Return a step that makes a tuple of its operands, with the instruction of the call `step`."""
    return step._replace(kernel=lambda *parts: parts, regions=())


def _result_getter(results: tuple[int, ...]) -> Callable[[list[Any]], Any]:
    """Return a function from the slots to the tuple of the values in the slots `results`."""
    if not results:
        return lambda _: ()
    if len(results) > 1:
        return itemgetter(*results)
    (slot,) = results
    return lambda env: (env[slot],)


def _row(entry: Entry, freed: tuple[int, ...], may_write: bool, grants: tuple[Grant, ...]) -> Row:
    """Return the kernel call of an entry as a row, in the cheapest mode that fits.

    Args:
        entry: The entry, a step with its slots.
        freed: Slots that no later row reads.
        may_write: Whether the kernel may overwrite its first operand.
        grants: What each of the regions may overwrite.
    """
    kernel, operands = entry.step.kernel, entry.operands
    second = 0
    first: Any = None
    if entry.regions:
        mode, first = REGIONS, grants
        if isinstance(kernel, Moving):
            mode, kernel = MOVING, kernel.run
    elif isinstance(kernel, Writing):
        mode, first = WRITING, itemgetter(*operands)
        second = operands[0]
        if not may_write:
            mode, kernel = MANY, kernel.plain
    elif len(operands) > 2:
        mode, first = MANY, itemgetter(*operands)
    else:
        mode = len(operands)
        first, second = (*operands, 0, 0)[:2]
    # An `itemgetter` of one slot returns a bare value, which cannot be unpacked.
    if mode == MANY and len(operands) == 1:
        mode, first = UNARY, operands[0]
    return Row(mode, kernel, first, second, entry.target, freed, entry)


# --------------------------------------------------------------------------------------------------
# The instructions of a computation that affect its results or have side effects.


_FAMILIES: Final = (
    batch_norm, contraction, convolution, dynamic, elementwise, gather_scatter, linalg, quantize,
    reduction, shape, slicing, windows,
)  # fmt: skip
PURE: Final[frozenset[type[Op]]] = frozenset(
    cls for cls in OPS.values() if cls.__module__ in {family.__name__ for family in _FAMILIES}
) | {Call, Case, Fusion, While}
"""Ops without side effects: their results depend only on operands and called computations."""
STRUCTURE: Final = (GetTupleElement, Result, Tuple)
_ASSERTIONS: Final = "check."
"""Prefix of custom-call targets that compare values and stop the program if they differ."""
_CALLING: Final = (Call, Case, Fusion, While)


def needed(computation: Computation, functions: Collection[str] = ()) -> frozenset[Instruction]:
    """Return the instructions that results or side effects depend on.

    Calls, branches and loops count as side effects.  An instruction that a needed one reads is
    needed, also if a region reads it.

    Args:
        computation: The computation that holds the instructions.
        functions: Targets of custom calls that count as side effects even if the program declares
            none.
    """
    found: set[Instruction] = {computation.root}
    # Users come after the values they read.  In reverse order, all users of an instruction have
    # been decided before it, so one pass is enough.
    for ins in reversed(computation.instructions):
        if ins in found or not _may_be_left_out(ins, functions):
            found.add(ins)
            found.update(ins.operands)
            found.update(captured(ins))
    return frozenset(found)


def _may_be_left_out(ins: Instruction, functions: Collection[str]) -> bool:
    """May the instruction be left out if nothing reads its value?

    `functions` are targets of custom calls that count as side effects.
    """
    if isinstance(ins.op, CustomCall):
        target = ins.op.call_target_name
        fails = target.startswith(_ASSERTIONS) or target in functions
        return not ins.op.has_side_effect and not fails
    if isinstance(ins.op, (*_CALLING, Parameter, Return)):
        return False
    return type(ins.op) in PURE or isinstance(ins.op, STRUCTURE)
