"""Arrays of marks: each element holds the set of input elements it depends on.

A set is a Python integer with one bit per input element, so that `|` is union and numpy moves and
reduces arrays of sets (dtype `object`) with its own functions.  What an op reads is then found by
computing it, without a word about indexing maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hloscope.ir.graph import Instruction

Marks = NDArray[np.object_]
Ints = tuple[int, ...]

union = np.bitwise_or


def empty(shape: Sequence[int]) -> Marks:
    """An array whose elements depend on nothing."""
    return np.full(tuple(shape), 0, dtype=object)


def as_marks(items: Any) -> Marks:
    """`items` as an array of marks, also where numpy made a plain integer of a scalar."""
    if isinstance(items, np.ndarray) and items.dtype == object:
        return items
    result = np.empty((), dtype=object)
    result[()] = items
    return result


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand: its instruction, one array of marks per leaf, and its values where they matter.

    `first` is the number of the first bit of each leaf.
    """

    ins: Instruction
    leaves: tuple[Marks, ...]
    first: Ints
    values: NDArray[np.int64] | None = None

    @property
    def marks(self) -> Marks:
        """The marks of an operand that is an array."""
        (only,) = self.leaves
        return only


@dataclass(eq=False)
class Numbering:
    """Hands out bits to the elements of operands."""

    used: int = 0

    def number(self, shape: Sequence[int]) -> tuple[Marks, int]:
        """Fresh marks for an array, and the number of their first bit."""
        first, size = self.used, prod(shape)
        self.used += size
        flat = np.empty(size, dtype=object)
        flat[:] = [1 << (first + i) for i in range(size)]
        return flat.reshape(tuple(shape)), first


@dataclass(frozen=True, eq=False)
class Case:
    """An instruction and what each element of each output really depends on.

    Attributes:
        ins: The instruction.
        operands: Its operands with their marks.
        outputs: Marks of every output.
        group: Size of the replica group; operand elements are then numbered replica by replica.
        member: Position in the group of the device that holds the outputs.
    """

    ins: Instruction
    operands: tuple[Operand, ...]
    outputs: tuple[Marks, ...]
    group: int = 1
    member: int = 0
    note: str = ""

    def relation(self, output: int, operand: int, leaf: int = 0) -> NDArray[np.bool_]:
        """`[output element, operand element]`: which depends on which, both in row-major order."""
        marks, source = self.outputs[output].reshape(-1), self.operands[operand]
        size, first = source.leaves[leaf].size * self.group, source.first[leaf]
        rows = np.zeros((marks.size, size), dtype=bool)
        mask = (1 << size) - 1
        for i, mark in enumerate(marks):
            bits = (mark >> first) & mask
            raw = np.frombuffer(bits.to_bytes(size // 8 + 1, "little"), dtype=np.uint8)
            rows[i] = np.unpackbits(raw, bitorder="little")[:size]
        return rows


def union_all(parts: Iterable[Marks]) -> Marks:
    """The union of arrays, element by element."""
    return reduce(lambda a, b: as_marks(union(a, b)), map(as_marks, parts))


def indices(shape: Iterable[int]) -> Iterable[Ints]:
    """Every index of an array of this shape, in row-major order."""
    return product(*map(range, shape))


def all_of(marks: Marks) -> int:
    """The union of all elements."""
    result = 0
    for mark in marks.reshape(-1):
        result |= mark
    return result
