"""Positions: the places of a scheduled program that show an array or a tuple's table of pointers.

A position is an instruction and a shape index of its type.  Positions are numbered: those of one
instruction follow each other, each tuple before its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hloscope.buffers.schedule import Schedule
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import ShapeIndex
from hloscope.ir import Computation, Instruction, TupleType, Type
from hloscope.lazy import once_for_each
from hloscope.limits import MOST_POSITIONS


class ShapeTree(NamedTuple):
    """The parts of a type in preorder: each tuple before its elements.

    Attributes:
        indices: Shape index of each part; the first is `()`.
        types: Type of each part.
        sizes: Number of parts in each part, itself included.
        numbers: Number of the part at each index.
    """

    indices: tuple[ShapeIndex, ...]
    types: tuple[Type, ...]
    sizes: tuple[int, ...]
    numbers: dict[ShapeIndex, int]


def _tree_of(type: Type) -> ShapeTree:
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
    """The numbers of all positions of a schedule.

    Attributes:
        count: Number of positions.
        moment: The moment of the instruction of each position.
    """

    def __init__(self, schedule: Schedule) -> None:
        """Number the positions of all instructions.

        Raises:
            UnsupportedError: There are more than `MOST_POSITIONS`.
        """
        self.schedule: Final = schedule
        # Each position looks up its type's tree; programs repeat few types.
        self.tree: Final = once_for_each(_tree_of)
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
        """The position of an instruction at an index; `None` if its type has no such part."""
        number = self.tree(ins.type).numbers.get(index)
        return None if number is None else self.first[ins] + number

    def within(self, ins: Instruction, index: ShapeIndex = ()) -> range:
        """The positions of a part of an instruction and of all parts inside.

        The range is empty if there is no such part.
        """
        tree = self.tree(ins.type)
        number = tree.numbers.get(index)
        if number is None:
            return range(0)
        start = self.first[ins] + number
        return range(start, start + tree.sizes[number])

    def instruction(self, position: int) -> Instruction:
        """The instruction of a position."""
        return self.schedule.instructions[self.moment[position]]

    def computation(self, position: int) -> Computation:
        """The computation of the instruction of a position."""
        return self.schedule.computations[self.moment[position]]

    def index(self, position: int) -> ShapeIndex:
        """The shape index of a position."""
        ins = self.instruction(position)
        return self.tree(ins.type).indices[position - self.first[ins]]

    def type(self, position: int) -> Type:
        """The type of the value that a position shows."""
        ins = self.instruction(position)
        return self.tree(ins.type).types[position - self.first[ins]]

    def pairs(
        self, a: Instruction, a_index: ShapeIndex, b: Instruction, b_index: ShapeIndex
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of corresponding positions of two parts.

        Nothing is yielded if their numbers of parts differ.
        """
        ours, theirs = self.within(a, a_index), self.within(b, b_index)
        if len(ours) == len(theirs):
            yield from zip(ours, theirs, strict=True)
