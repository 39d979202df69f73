"""Straight-line programs: a plan with the calls in it written out, what is constant known.

What an evaluation does at every step is decided once: how many operands a kernel takes and from
where, which slots are free afterwards, and whether an operand is read for the last time, so that
the kernel may write to its memory.  Calls are replaced by the steps of what they call, parts of
tuples by what the tuples were made of, and pure steps on constants by their values.  A plan that
calls itself, or calls very much, has none: it is evaluated with a stack of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hloscope.arrays import np
from hloscope.interpreter.liveness import PURE
from hloscope.interpreter.registry import Moving, Refusal, Writing
from hloscope.ir import Instruction, Op, TensorType, Type
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    Broadcast,
    BroadcastInDim,
    Constant,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Reshape,
    Transpose,
    Tuple,
)

if TYPE_CHECKING:
    from hloscope.interpreter.plan import Plan, Step

_MOST_STEPS: Final = 50_000
"""Most steps of a straight-line program; a plan that has more keeps its calls."""
_MOST_NESTED: Final = 64
"""Calls in one another that are written out."""
_SMALL: Final = 1 << 16
"""Bytes of a value of constants that is kept; views of constants are, whatever they show."""
_SAME: Final[tuple[type[Op], ...]] = (
    ELEMENTWISE["copy"], AddDependency, Domain, OptimizationBarrier,
)  # fmt: skip
"""Ops whose value is that of their first operand."""
_VIEWS: Final = (Broadcast, BroadcastInDim, Reshape, Transpose)

NULLARY, UNARY, BINARY, MANY, REGIONS, MOVING, WRITING = range(7)
"""How a row is run: by the number of operands; with regions; with operands that it takes over."""

Regions = tuple[tuple["Plan", tuple[int, ...]], ...]


class Row(NamedTuple):
    """One kernel of a straight-line program and where its values are.

    Attributes:
        way: How it is run.
        kernel: What is run.
        first: Slot of the first operand, or a function that takes all operands from the slots.
        second: Slot of the second operand.
        target: Slot of the value.
        freed: Slots that are not read later.
        entry: What it was made of.
    """

    way: int
    kernel: Any
    first: Any
    second: int
    target: int
    freed: tuple[int, ...]
    entry: Entry


class Entry(Struct, eq=False):
    """A step with its slots in the program.

    Attributes:
        step: The step.
        operands: Slots of the operands.
        target: Slot of the value.
        regions: Plans of its regions, and the slots of the outer values that they read.
        count: Steps of the program that are counted when it begins.
    """

    step: Step
    operands: tuple[int, ...]
    target: int
    regions: Regions = ()
    count: int = 0

    @property
    def ins(self) -> Instruction:
        """The instruction."""
        return self.step.ins

    @property
    def reads(self) -> set[int]:
        """The slots that it reads."""
        return {*self.operands, *[s for _, outer in self.regions for s in outer]}


class Straight(Struct, eq=False):
    """A straight-line program.

    Attributes:
        rows: What is run, in order.
        template: What the slots after those of arguments and outer values hold in the beginning.
        count: Steps that it stands for, those within regions left out.
        tail: Those that are counted when it ends.
        give: Takes the values that are returned from the slots.
    """

    rows: tuple[Row, ...]
    template: list[Any]
    count: int
    tail: int
    give: Callable[[list[Any]], Any]


class _TooMuchError(Exception):
    """The plan is not written out."""


class _Slots(dict[int, int]):
    """Where the values of a plan are in the program."""

    def __missing__(self, slot: int) -> int:
        raise _TooMuchError  # a value that nobody gives: what reads it is refused where it is run


def straight(plan: Plan) -> Straight | None:
    """The straight-line program of a plan; `None` where it calls itself or too much."""
    try:
        flat = _Flat(plan)
    except _TooMuchError:
        return None
    return flat.program()


class _Flat:
    """The steps of a plan and of what it calls, as they are written out."""

    def __init__(self, plan: Plan) -> None:
        self.given: Final = len(plan.computation.parameters) + len(plan.outer)
        self.size = self.given
        self.entries: list[Entry] = []
        self.known: dict[int, Any] = {}
        """Values of constants by slot."""
        self.parts: dict[int, tuple[tuple[int, Type], ...]] = {}
        """Slots and types of the parts of tuples that are made here."""
        self.folds: Final = plan.world.max_flops is None
        self.count = 0
        self._since = 0
        self.results = self._written_out(plan)

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1

    def _written_out(self, plan: Plan) -> tuple[int, ...]:
        """Write everything out: the slots of the results."""
        stack = [_Level(plan, tuple(range(self.given)))]
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
                stack.append(_called(step, level, stack))
            else:
                self._add(step, level.slots)

    def _returned(self, caller: _Level, level: _Level, results: tuple[int, ...]) -> None:
        """What a call gives is what it returns, several values as a tuple."""
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
        operands = tuple([slots[s] for s in step.operands])
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
                self.known[target] = value
                return
        entry = Entry(step, operands, target, regions)
        if regions:
            entry.count, self._since = self._since, 0
        self.entries.append(entry)

    def _alias(self, step: Step, operands: Sequence[int]) -> int | None:
        """The slot that has the value of a step already."""
        ins = step.ins
        if isinstance(ins.op, _SAME):
            first = ins.operands[0] if ins.operands else None
            is_one = len(operands) == 1 or isinstance(ins.op, AddDependency)
            return operands[0] if first and is_one and _alike(first.type, ins.type) else None
        if isinstance(ins.op, GetTupleElement) and operands[0] in self.parts:
            slot, type_ = self.parts[operands[0]][ins.op.index]
            return slot if _alike(type_, ins.type) else None
        return None

    def _is_constant(self, step: Step, operands: Sequence[int]) -> bool:
        if isinstance(step.ins.op, Constant):
            return True
        return self.folds and type(step.ins.op) in PURE and all(s in self.known for s in operands)

    def _value(self, step: Step, operands: Sequence[int]) -> Any:
        """The value of a step on constants, if it is to be kept."""
        assert step.kernel is not None
        try:
            value = step.kernel(*[self.known[s] for s in operands])
        except Exception:  # it is raised again where the step is reached
            return None
        op = step.ins.op
        size = getattr(value, "nbytes", _SMALL + 1)
        is_view = isinstance(op, _VIEWS) and getattr(value, "base", None) is not None
        if not (isinstance(op, Constant) or is_view or size <= _SMALL):
            return None
        if isinstance(value, np.ndarray):
            value.flags.writeable = False  # whoever it is returned to must not change it
        return value

    def program(self) -> Straight:
        """The rows, without what nobody reads."""
        entries = self._wanted(self._projections_first())
        last: dict[int, int] = {}
        for number, entry in enumerate(entries):
            for slot in entry.reads:
                last[slot] = number
            last.setdefault(entry.target, number)
        for slot in self.results:
            last.pop(slot, None)
        freed: list[list[int]] = [[] for _ in entries]
        for slot, number in last.items():
            if slot not in self.known:
                freed[number].append(slot)
        read = {*self.results, *[s for e in entries for s in e.reads]}
        template = [self.known[s] if s in read and s in self.known else None
                    for s in range(self.given, self.size)]  # fmt: skip
        rows = [_row(e, tuple(dead)) for e, dead in zip(entries, freed, strict=True)]
        return Straight(tuple(rows), template, self.count, self._since, _give(self.results))

    def _projections_first(self) -> list[Entry]:
        """Parts are taken from tuples as soon as these are there, so that none holds the others."""
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

        take([*range(self.given), *self.known])
        for entry in rest:
            ordered.append(entry)
            take([entry.target])
        return ordered

    def _wanted(self, entries: list[Entry]) -> list[Entry]:
        """Without tuples, and parts of tuples, that nobody reads."""
        read = set(self.results)
        kept = []
        for entry in reversed(entries):
            is_structure = entry.target in self.parts or _is_projection(entry)
            if not is_structure or entry.target in read:
                kept.append(entry)
                read |= entry.reads
        return kept[::-1]


class _Level:
    """A plan that is being written out: where its slots are."""

    def __init__(self, plan: Plan, given: Sequence[int], of: Step | None = None) -> None:
        self.plan: Final = plan
        self.of: Final = of
        self.slots: Final = _Slots(enumerate(given))
        self.steps: Final = iter(plan.steps)

    def results(self) -> tuple[int, ...]:
        plan, slots = self.plan, self.slots
        wanted = (plan.root,) if plan.root >= 0 else plan.results
        return tuple([slots[s] for s in wanted])


def _called(step: Step, level: _Level, stack: Sequence[_Level]) -> _Level:
    plan, outer = step.regions[0]
    takes = len(plan.computation.parameters)
    is_open = any(other.plan is plan for other in stack)
    if is_open or len(stack) > _MOST_NESTED or takes != len(step.operands):
        raise _TooMuchError
    return _Level(plan, [level.slots[s] for s in (*step.operands, *outer)], step)


def _is_projection(entry: Entry) -> bool:
    is_part = isinstance(entry.step.ins.op, GetTupleElement)
    return is_part and not isinstance(entry.step.kernel, Refusal)


def _packs(step: Step) -> bool:
    """Is its value the tuple of its operands?"""
    op = step.ins.op
    return isinstance(op, Tuple) or (isinstance(op, OptimizationBarrier) and len(step.operands) > 1)


def _alike(a: Type, b: Type) -> bool:
    """Have values of these types the same elements in the same places?"""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (a.element, a.sizes, a.bounds) == (b.element, b.sizes, b.bounds)
    return a == b


def _packing(step: Step) -> Step:
    return step._replace(kernel=lambda *parts: parts, regions=())


def _give(results: tuple[int, ...]) -> Callable[[list[Any]], Any]:
    if not results:
        return lambda _: ()
    if len(results) > 1:
        return itemgetter(*results)
    (slot,) = results
    return lambda env: (env[slot],)


def _row(entry: Entry, freed: tuple[int, ...]) -> Row:
    """The row of an entry: the shortest way to run it."""
    kernel, operands = entry.step.kernel, entry.operands
    second = 0
    first: Any = None
    if entry.regions:
        way = REGIONS
        if isinstance(kernel, Moving):
            way, kernel = MOVING, kernel.run
    elif isinstance(kernel, Writing):
        way, first = WRITING, itemgetter(*operands)
        second = operands[0]
        if second not in freed or operands.count(second) > 1 or len(operands) == 1:
            way, kernel = MANY, kernel.plain
    elif len(operands) > 2:
        way, first = MANY, itemgetter(*operands)
    else:
        way = len(operands)
        first, second = (*operands, 0, 0)[:2]
    if way == MANY and len(operands) == 1:
        way, first = UNARY, operands[0]
    return Row(way, kernel, first, second, entry.target, freed, entry)
