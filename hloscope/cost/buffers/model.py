"""Buffers of a program: values that share memory, their kinds, and their live ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.cost.buffers.dataflow import (
    Dataflow,
    Range,
    align,
    intervals,
    loop_inputs,
    value_ranges,
)
from hloscope.cost.buffers.reuse import in_place
from hloscope.cost.buffers.schedule import Positions, Schedule
from hloscope.hlo_parser import INPUT_OUTPUT_ALIAS, ShapeIndex, aliasing_in, index_text
from hloscope.ir import (
    Bytes,
    Computation,
    Instruction,
    Module,
    TensorType,
    TupleType,
    Type,
    array_bytes,
)
from hloscope.ops import Case, Constant, While

# --------------------------------------------------------------------------------------------------
# Buffers of a program: values that share memory, their kinds, and their live ranges.


BufferKind: TypeAlias = Literal["parameter", "constant", "output", "temporary"]
KINDS: Final[tuple[BufferKind, ...]] = ("parameter", "output", "temporary", "constant")
"""Kinds of buffers. Constants have allocations of their own."""
_POINTER: Final = 8
"""Bytes of one entry in a tuple's table.  Source: XLA `ShapeUtil::ByteSizeOf`, 64-bit hosts."""


class Value(Struct, frozen=True):
    """An array, or the pointer table of a tuple, that an instruction writes.

    Attributes:
        instruction: The instruction.
        computation: Its computation.
        index: Shape index of the value in the instruction's result.
        type: Type of the value.
        start: The moment at which it is written; for a parameter, the start of its computation.
        end: The last moment at which it is needed.
    """

    instruction: Instruction
    computation: Computation
    index: ShapeIndex
    type: Type
    start: int
    end: int

    @property
    def name(self) -> str:
        """Return the instruction's name with the shape index of the value: `while.5{1}`."""
        inside = index_text(self.index) if self.index else ""
        return f"{self.instruction.name}{inside}"


class Buffer(Struct, frozen=True, eq=False):
    """Memory that one or several values share.

    Attributes:
        values: The values in the order of their starts.
        kind: `parameter` if it holds an argument, else `constant` if it holds a constant, else
            `output` if the program returns it, else `temporary`.
        space: Number of the memory space.
        size: Bytes of the largest value.
        intervals: Live ranges in order, each with first and last moment, both included.
        is_known: Does every value have a bounded size?
    """

    values: tuple[Value, ...]
    kind: BufferKind
    space: int
    size: Bytes
    intervals: tuple[Range, ...]
    is_known: bool

    @property
    def bytes(self) -> int:
        """Return the bytes of the buffer, with padding and the stored sizes of dynamic shapes."""
        return self.size.padded + self.size.metadata

    def lives_at(self, moment: int) -> bool:
        """Is the buffer live at a moment, the number of an instruction in the schedule?"""
        return any(start <= moment <= end for start, end in self.intervals)

    def owner(self, moment: int) -> Value:
        """Return the value in the buffer at a moment, the number of an instruction in the schedule.

        If several values are live, it is the one written last.
        """
        live = [value for value in self.values if value.start <= moment <= value.end]
        return max(live, key=lambda value: value.start) if live else self.values[0]

    @property
    def first(self) -> int:
        """Return the first moment at which the buffer is live: a number in the schedule."""
        return self.intervals[0][0]

    @property
    def last(self) -> int:
        """Return the last moment at which the buffer is live: a number in the schedule."""
        return self.intervals[-1][1]


class Buffers:
    """All buffers of a scheduled program.

    Attributes:
        schedule: The order in which instructions run.
        buffers: The buffers, in the order of their first values.
    """

    def __init__(self, module: Module, schedule: Schedule) -> None:
        """Find the buffers of a scheduled module."""
        self.schedule: Final = schedule
        self.positions: Final = Positions(schedule)
        self.flow: Final = Dataflow(self.positions)
        ranges = value_ranges(module, self.flow)
        groups = shared_values(module, self.flow)
        for numbers in groups.values():
            align(ranges, numbers)
        entry = module.entry
        root = {self.flow.value[p] for p in self.positions.within(entry.root)}
        given = {p for one in entry.parameters for p in self.positions.within(one)}
        self.buffers: Final[list[Buffer]] = []
        self._of_value: Final[dict[int, tuple[Value, Buffer]]] = {}
        for numbers in groups.values():
            # The kind needs all values of the buffer: one of them can make it a parameter or an
            # output.
            kind = self._kind(numbers, root, given)
            values = [self._value(number, *ranges[number]) for number in numbers]
            buffer = _buffer(values, intervals(ranges, numbers), kind)
            self.buffers.append(buffer)
            for number, value in zip(numbers, values, strict=True):
                self._of_value[number] = value, buffer

    def _kind(self, values: list[int], root: set[int], given: set[int]) -> BufferKind:
        """Return the kind of a buffer; see `Buffer.kind`.

        Args:
            values: Numbers of its values.
            root: Numbers of the values that the program returns.
            given: Numbers of the values that are entry parameters.
        """
        if any(value in given for value in values):
            return "parameter"
        if any(isinstance(self.positions.instruction(v).op, Constant) for v in values):
            return "constant"
        return "output" if any(value in root for value in values) else "temporary"

    def _value(self, number: int, start: int, end: int) -> Value:
        positions = self.positions
        return Value(
            positions.instruction(number),
            positions.computation(number),
            positions.index(number),
            positions.type(number),
            start,
            end,
        )

    def at(self, position: int) -> Buffer:
        """Return the buffer of the value at a position, a number that `Positions` defines."""
        return self._of_value[self.flow.value[position]][1]

    def value(self, position: int) -> Value:
        """Return the array or tuple table at a position, a number defined by `Positions`."""
        return self._of_value[self.flow.value[position]][0]

    def buffers_of(self, ins: Instruction) -> list[Buffer]:
        """Return the buffers of all parts of an instruction's result, each once."""
        return [*dict.fromkeys(self.at(p) for p in self.positions.within(ins))]


def _buffer(values: list[Value], lives: tuple[Range, ...], kind: BufferKind) -> Buffer:
    """Return the buffer of the given values, as large as the largest of them.

    Args:
        values: The values.
        lives: Live ranges of the buffer.
        kind: Kind of the buffer.
    """
    sizes = [value_bytes(value.type) for value in values]
    known = [size for size in sizes if size is not None]
    size = max(known, key=lambda one: one.padded + one.metadata, default=Bytes(0, 0, 0))
    ordered = sorted(values, key=lambda value: (value.start, value.end))
    space = max([space_of(value.type) for value in values])
    return Buffer(tuple(ordered), kind, space, size, lives, len(known) == len(sizes))


def value_bytes(type: Type) -> Bytes | None:
    """Return the bytes of one value: an array, or a tuple's table; `None` if a size has no bound.

    >>> from hloscope.hlo_parser import parse_type
    >>> value_bytes(parse_type("(f32[8], token[])")).padded
    16
    """
    if isinstance(type, TupleType):
        table = _POINTER * len(type.elements)
        return Bytes(table, table, table)
    return array_bytes(type)


def space_of(type: Type) -> int:
    """Return the number of an array's memory space; 0, the default space, for other types."""
    layout = type.layout if isinstance(type, TensorType) else None
    return 0 if layout is None else layout.memory_space


# --------------------------------------------------------------------------------------------------
# Values that must share one buffer, whatever else XLA does.
#
# Source: XLA `HloAliasAnalysis` (`ComputeInputOutputAliasedValues`, `ComputeWhileAliasedValues`,
# `ComputeConditionalAliasedValues`, `ComputeInPlaceOperationAliasedValues`).


Pairs: TypeAlias = Iterator[tuple[int, int]]
"""Iterator over pairs of positions whose values share a buffer."""


class SharingRow(NamedTuple):
    """A rule that makes values share a buffer.

    Attributes:
        name: Name of the rule.
        pairs: Yields pairs of positions whose values share a buffer, for a module and its dataflow.
        about: The rule as text.
    """

    name: str
    pairs: Callable[[Module, Dataflow], Pairs]
    about: str


def _donated(module: Module, flow: Dataflow) -> Pairs:
    entry, positions = module.entry, flow.positions
    parameters = entry.parameters
    for alias in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS):
        if alias.output is None or alias.taken >= len(parameters):
            continue
        given = positions.at(parameters[alias.taken], alias.inside)
        result = positions.at(entry.root, alias.output)
        if given is not None and result is not None:
            yield given, result


def _loops(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins, runs in positions.schedule.runs.items():
        if not isinstance(ins.op, While):
            continue
        parameters = [parameter for callee in runs for parameter in callee.parameters[:1]]
        for other in (*loop_inputs(ins, runs), *parameters):
            yield from positions.pairs(ins, (), other, ())


def _conditionals(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins, runs in positions.schedule.runs.items():
        if isinstance(ins.op, Case):
            for callee in runs:
                yield from positions.pairs(ins, (), callee.root, ())


def _updated(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins in positions.schedule.instructions:
        for pair in in_place(ins):
            given = positions.at(ins.operands[pair.operand], pair.inside)
            result = positions.at(ins, pair.output)
            if given is not None and result is not None:
                yield given, result


MUST_SHARE: Final = (
    SharingRow("donation", _donated, "a parameter and the result that takes its memory"),
    SharingRow("loop", _loops, "a loop's initial value, carried value and result, per index"),
    SharingRow("branches", _conditionals, "the results of all branches and of the `conditional`"),
    SharingRow("in place", _updated, "an operand and the result that is made of it in place"),
)
"""Rules that make values share a buffer."""


def shared_values(module: Module, flow: Dataflow) -> dict[int, list[int]]:
    """Return the values of each buffer, as sorted lists of their numbers, by the smallest number.

    A value's number is the position that writes it; see `Dataflow`.

    Args:
        module: The module.
        flow: Its dataflow.
    """
    value = flow.value
    leader = {one: one for one in value}

    def led(one: int) -> int:
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    for row in MUST_SHARE:
        for a, b in row.pairs(module, flow):
            first, second = led(value[a]), led(value[b])
            if first != second:
                # Union-find whose leaders are the smallest numbers: buffers come in the order of
                # their first values.
                leader[max(first, second)] = min(first, second)
    buffers: dict[int, list[int]] = {}
    for one in sorted(leader):
        buffers.setdefault(led(one), []).append(one)
    return buffers
