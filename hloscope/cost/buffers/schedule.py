"""The schedule of a program, and positions: numbers for each array or tuple table in a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.cost import is_scheduled
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import ShapeIndex
from hloscope.ir import Body, Computation, Instruction, Module, TupleType, Type
from hloscope.ops import (
    AllGather,
    AllReduce,
    AsyncStart,
    Call,
    Case,
    CollectivePermute,
    Parameter,
    While,
)
from hloscope.support.lazy import once_for_each
from hloscope.support.limits import MOST_POSITIONS

# --------------------------------------------------------------------------------------------------
# The schedule of a program: one sequence of the instructions of all computations that run.
#
# The text of a scheduled module lists instructions in the order of the schedule.  The computations
# that an instruction runs come before it, each once: the callee of a `call`, the branches of a
# `conditional` in order, the condition and then the body of a `while`, and the computation that an
# `async-start` wraps.  Computations of fusions, reductions, sorts and similar ops are part of their
# instruction and have no moments.
#
# Source: XLA `HloLiveRange::FlattenSchedule`.


_RUNS: Final = (Call, Case, While, AsyncStart)
"""Ops that run the instructions of the called computations one by one."""
OWN_STARTS: Final = (AllReduce, AllGather, CollectivePermute)
"""Ops whose `-start` is an opcode of XLA.

For other ops it abbreviates an `async-start` that calls a computation with only that op.
"""


class NoMomentsError(UnsupportedError):
    """The program does not determine live ranges; the message states the reason."""


class Schedule(Struct, frozen=True):
    """Instructions in the order in which they run. A moment is the number of one, from 0.

    Attributes:
        instructions: The instruction of each moment.
        computations: The computation of each moment.
        spans: First moment of each computation, and the moment after its last one.
        callers: For each computation the instruction that runs it, and its number among those that
            the instruction runs. The entry has none.
        runs: The computations that each instruction runs, in order; a `while` has its condition
            first.
    """

    instructions: tuple[Instruction, ...]
    computations: tuple[Computation, ...]
    spans: dict[Computation, tuple[int, int]]
    callers: dict[Computation, tuple[Instruction, int]]
    runs: dict[Instruction, tuple[Computation, ...]]

    @property
    def end(self) -> int:
        """Return the moment after the last instruction: the number of instructions."""
        return len(self.instructions)


def schedule_of(module: Module) -> Schedule:
    """Return the order in which the instructions of a module run.

    Raises:
        NoMomentsError: The module has no schedule, or a computation has two callers.
    """
    if not is_scheduled(module):
        raise NoMomentsError("the program has no schedule (no `is_scheduled=true` in its header)")
    runs: dict[Instruction, tuple[Computation, ...]] = {}
    callers: dict[Computation, tuple[Instruction, int]] = {}
    starts: dict[Computation, int] = {}
    spans: dict[Computation, tuple[int, int]] = {}
    instructions: list[Instruction] = []
    computations: list[Computation] = []

    def begin(computation: Computation) -> tuple[Computation, Iterator[Instruction]]:
        starts[computation] = len(instructions)
        return computation, iter(computation.instructions)

    stack = [begin(module.entry)]  # computations that have begun, and what is left of each
    waiting: list[Instruction | None] = [None]  # the instruction whose computations run first
    while stack:
        computation, rest = stack[-1]
        ins = waiting[-1] or next(rest, None)
        waiting[-1] = None
        # The computation is complete: its span ends, and the caller, which waited for it, is next.
        if ins is None:
            spans[computation] = starts[computation], len(instructions)
            stack.pop()
            waiting.pop()
            continue
        if ins not in runs and isinstance(ins.op, _RUNS):
            runs[ins] = _computations_run(ins)
            for number, callee in enumerate(runs[ins]):
                _refuse_second_caller(callee, ins, callers, module)
                callers[callee] = ins, number
        # An instruction gets its moment when all computations that it runs have theirs.
        following = next((c for c in runs.get(ins, ()) if c not in starts), None)
        if following is not None:
            waiting[-1] = ins
            stack.append(begin(following))
            waiting.append(None)
            continue
        instructions.append(ins)
        computations.append(computation)
    return Schedule(tuple(instructions), tuple(computations), spans, callers, runs)


def _refuse_second_caller(
    callee: Computation,
    ins: Instruction,
    callers: dict[Computation, tuple[Instruction, int]],
    module: Module,
) -> None:
    """Raise an error for a computation that another instruction runs as well.

    XLA gives each caller its own copy before it assigns memory (`FlattenCallGraph`), so dumps of
    compiled programs have one caller for each computation.
    """
    other = callers.get(callee)
    if other is not None or callee is module.entry:
        first = f"`{other[0].name}`" if other is not None else "the program"
        raise NoMomentsError(
            f"`{callee.name}` is run by {first} and `{ins.name}`; XLA copies a computation for "
            "each caller before it assigns memory, this text was printed before",
            span=ins.span,
        )


def _computations_run(ins: Instruction) -> tuple[Computation, ...]:
    """Return the computations that an instruction runs.

    For an asynchronous op without one, a computation with that op is created.
    """
    op = ins.op
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return ins.calls
    if isinstance(op.wrapped, OWN_STARTS):
        return ()  # an op of its own; `calls` are its reducer
    parameters = tuple(
        [
            Instruction(f"{ins.name} parameter {k}", operand.type, Parameter(k), span=ins.span)
            for k, operand in enumerate(ins.operands)
        ]
    )
    elements = ins.type.elements if isinstance(ins.type, TupleType) else ()
    made = elements[1] if len(elements) > 1 else ins.type
    root = Instruction(
        f"{ins.name} wrapped", made, op.wrapped, parameters, ins.calls, ins.extras, span=ins.span
    )
    body = Body((*parameters, root), parameters, root)
    return (Computation(f"{ins.name} wrapped computation", body, span=ins.span),)


# --------------------------------------------------------------------------------------------------
# Positions: the places of a scheduled program that show an array or a tuple's table of pointers.
#
# A position is an instruction and a shape index of its type.  Positions are numbered: those of one
# instruction follow each other, each tuple before its elements.


class ShapeTree(NamedTuple):
    """The parts of a type in preorder: each tuple before its elements.

    Attributes:
        indices: Shape index of each part; the first is `()`.
        types: Type of each part.
        sizes: Number of parts in each part, including itself.
        numbers: Number of the part at each shape index.
    """

    indices: tuple[ShapeIndex, ...]
    types: tuple[Type, ...]
    sizes: tuple[int, ...]
    numbers: dict[ShapeIndex, int]


def tree_of(type: Type) -> ShapeTree:
    indices: list[ShapeIndex] = []
    types: list[Type] = []
    stack: list[tuple[ShapeIndex, Type]] = [((), type)]
    while stack:
        index, part = stack.pop()
        indices.append(index)
        types.append(part)
        if isinstance(part, TupleType):
            elements = [((*index, k), element) for k, element in enumerate(part.elements)]
            stack += reversed(elements)
    # A tuple of arrays has one part for each element and itself. Deeper tuples are summed from the
    # back, where the sizes of their elements are known.
    sizes = [1 + (t.leaves if isinstance(t, TupleType) and t.depth == 1 else 0) for t in types]
    for at in range(len(types) - 1, -1, -1):
        part = types[at]
        if isinstance(part, TupleType) and part.depth > 1:
            size, inner = 1, at + 1
            for _ in part.elements:
                size += sizes[inner]
                inner += sizes[inner]
            sizes[at] = size
    numbers = {index: number for number, index in enumerate(indices)}
    return ShapeTree(tuple(indices), tuple(types), tuple(sizes), numbers)


class Positions:
    """Numbers of all parts of the results of a schedule's instructions.

    A position is one array or tuple table in one result.

    Attributes:
        count: Number of positions.
        moment: The moment of each position's instruction.
    """

    def __init__(self, schedule: Schedule) -> None:
        """Number the arrays and tuple tables in the results of all instructions, in schedule order.

        Raises:
            UnsupportedError: There are more than `MOST_POSITIONS`.
        """
        self.schedule: Final = schedule
        # Each position looks up its type's tree; programs repeat few types.
        self.tree: Final = once_for_each(tree_of)
        self.first: Final[dict[Instruction, int]] = {}
        self.moment: Final[list[int]] = []
        for moment, ins in enumerate(schedule.instructions):
            self.first[ins] = len(self.moment)
            parts = ins.type.leaves if isinstance(ins.type, TupleType) else 1
            if len(self.moment) + parts > MOST_POSITIONS:
                raise UnsupportedError(
                    f"the values of the program have more than {MOST_POSITIONS:,} parts",
                    span=ins.span,
                )
            self.moment.extend([moment] * len(self.tree(ins.type).types))
        self.count: Final = len(self.moment)

    def at(self, ins: Instruction, index: ShapeIndex) -> int | None:
        """Return the position of one part of a result: the number of an array or tuple table.

        `None` if the result has no part at the shape index.

        Args:
            ins: The instruction.
            index: Shape index of the part in its result.
        """
        number = self.tree(ins.type).numbers.get(index)
        return None if number is None else self.first[ins] + number

    def within(self, ins: Instruction, index: ShapeIndex = ()) -> range:
        """Return the positions of a part of a result and of all parts inside it.

        A position is the number of an array or tuple table. The range is empty if there is no such
        part.

        Args:
            ins: The instruction.
            index: Shape index of the part in its result; `()` is the whole result.
        """
        tree = self.tree(ins.type)
        number = tree.numbers.get(index)
        if number is None:
            return range(0)
        start = self.first[ins] + number
        return range(start, start + tree.sizes[number])

    def instruction(self, position: int) -> Instruction:
        """Return the instruction whose result contains a position."""
        return self.schedule.instructions[self.moment[position]]

    def computation(self, position: int) -> Computation:
        """Return the computation of the instruction whose result contains a position."""
        return self.schedule.computations[self.moment[position]]

    def index(self, position: int) -> ShapeIndex:
        """Return the shape index of a position in its instruction's result."""
        ins = self.instruction(position)
        return self.tree(ins.type).indices[position - self.first[ins]]

    def type(self, position: int) -> Type:
        """Return the type of the value at a position."""
        ins = self.instruction(position)
        return self.tree(ins.type).types[position - self.first[ins]]

    def pairs(
        self, a: Instruction, a_index: ShapeIndex, b: Instruction, b_index: ShapeIndex
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of corresponding positions in two parts of results.

        Nothing is yielded if they have different numbers of parts.
        """
        ours, theirs = self.within(a, a_index), self.within(b, b_index)
        if len(ours) == len(theirs):
            yield from zip(ours, theirs, strict=True)
