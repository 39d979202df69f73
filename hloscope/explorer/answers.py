"""Indexing results as data: equal parts are stored once and referred to by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hloscope.display import access_parts
from hloscope.explorer.expressions import map_json
from hloscope.explorer.tables import Shared, Written, numbers, written_object
from hloscope.indexing import Access, Accesses, Precision
from hloscope.visible import visible

NOTHING: Final = -1
"""The number of an instruction without a result."""


class Read(NamedTuple):
    """The accesses to one tensor, in each order of indices.

    Attributes:
        number: Number of the operand; of the output, for maps from an operand.
        leaf: Number of the tensor in it.
        logical: Accesses between logical indices.
        physical: Accesses between physical indices.
        linear: Accesses between positions in memory, in elements.
    """

    number: int
    leaf: int
    logical: Accesses
    physical: Accesses
    linear: Accesses


class Answers:
    """The indexing results of a program.

    An answer is `{"reads": [[output, rows]], "reaches": [[operand, leaf, rows]]}`, where a row is
    `[number, leaf, accesses, accesses in memory order, accesses of positions]`.
    """

    def __init__(self, count: int) -> None:
        """Take the number of instructions."""
        self._accesses: Final = Shared(_access_json)
        self._rows: Final = Shared(list)
        self._answers: Final = Shared(_answer_json)
        self._column: Final = [NOTHING] * count
        self.errors: Final[dict[int, str]] = {}

    def add(
        self,
        instruction: int,
        reads: Sequence[tuple[int, Sequence[int]]],
        reaches: Sequence[tuple[int, int, Sequence[int]]],
        left_out: str = "",
    ) -> None:
        """Add the result for an instruction.

        Args:
            instruction: Its number.
            reads: Each output with the rows of what its elements read, as numbers of `row`.
            reaches: Each tensor of each operand with the rows of the outputs that depend on it.
            left_out: What is missing in the result, and why.
        """
        there = tuple([(output, tuple(some)) for output, some in reads])
        back = tuple([(operand, leaf, tuple(some)) for operand, leaf, some in reaches])
        self._column[instruction] = self._answers.number((there, back, left_out))

    def repeat(self, instruction: int, other: int, count: int = 1) -> None:
        """Give `count` instructions from `instruction` on the results of those from `other` on."""
        self._column[instruction : instruction + count] = self._column[other : other + count]

    def refuse(self, instruction: int, reason: str) -> None:
        """Record why an instruction has no result."""
        self.errors[instruction] = visible(reason)

    def to_json(self) -> Written:
        """All results, and the number of each instruction's result."""
        return written_object(
            {
                "accesses": self._accesses.values,
                "rows": self._rows.values,
                "answers": self._answers.values,
                "of": numbers(self._column),
                "errors": self.errors,
            }
        )

    def row(self, read: Read) -> int:
        """The number of the accesses to one tensor, as a row."""
        orders = read.logical, read.physical, read.linear
        numbers = [tuple(map(self._accesses.number, some)) for some in orders]
        if numbers[1] == numbers[0]:
            numbers[1] = ()  # `[]` means: equal to the logical ones
        return self._rows.number((read.number, read.leaf, *numbers))


def _answer_json(answer: tuple[Any, Any, str]) -> dict[str, Any]:
    reads, reaches, left_out = answer
    told: dict[str, Any] = {"reads": reads, "reaches": reaches}
    return {**told, "left_out": visible(left_out)} if left_out else told


def _access_json(access: Access) -> dict[str, Any]:
    """An access as JSON, without the fields that have their default value."""
    told: dict[str, Any] = {} if access.map is None else map_json(access.map)
    if access.precision is not Precision.EXACT:
        told |= {"precision": str(access.precision), "reason": visible(access.reason)}
    if access.replica is not None:
        told["device"] = visible(access_parts(access, ()).element.partition(" on ")[2])
    return told
