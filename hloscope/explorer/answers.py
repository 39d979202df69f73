"""Indexing answers as data: what is equal is stored once, and referred to by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hloscope.display import access_parts
from hloscope.explorer.expressions import map_json
from hloscope.explorer.tables import Shared, Written, numbers, written_object
from hloscope.indexing import Access, Accesses, Precision
from hloscope.visible import visible

NOTHING: Final = -1
"""The number of an instruction that nothing is asked of."""


class Read(NamedTuple):
    """What is touched of one tensor, in each order of its elements.

    Attributes:
        number: Of the operand; of the output, if an operand is asked about.
        leaf: Which tensor of it.
        logical: Between indices.
        physical: Between indices in memory order.
        linear: Between positions in memory.
    """

    number: int
    leaf: int
    logical: Accesses
    physical: Accesses
    linear: Accesses


class Answers:
    """The answers of a program.

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
        """The answer about an instruction.

        Args:
            instruction: Its number.
            reads: For each output what its elements read, as numbers of `row`.
            reaches: For each tensor of each operand, which elements of outputs it reaches.
            left_out: What the answer does not say, and why.
        """
        there = tuple([(output, tuple(some)) for output, some in reads])
        back = tuple([(operand, leaf, tuple(some)) for operand, leaf, some in reaches])
        self._column[instruction] = self._answers.number((there, back, left_out))

    def repeat(self, instruction: int, other: int, count: int = 1) -> None:
        """Give so many instructions, from one on, the answers of those from another one on."""
        self._column[instruction : instruction + count] = self._column[other : other + count]

    def refuse(self, instruction: int, reason: str) -> None:
        """Say why an instruction has no answer."""
        self.errors[instruction] = visible(reason)

    def to_json(self) -> Written:
        """All answers, and which one each instruction has."""
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
        """The number of what is touched of one tensor."""
        orders = read.logical, read.physical, read.linear
        numbers = [tuple(map(self._accesses.number, some)) for some in orders]
        if numbers[1] == numbers[0]:
            numbers[1] = ()  # `[]`: the same as the logical ones
        return self._rows.number((read.number, read.leaf, *numbers))


def _answer_json(answer: tuple[Any, Any, str]) -> dict[str, Any]:
    reads, reaches, left_out = answer
    told: dict[str, Any] = {"reads": reads, "reaches": reaches}
    return {**told, "left_out": visible(left_out)} if left_out else told


def _access_json(access: Access) -> dict[str, Any]:
    """One access; what would say nothing is left out."""
    told: dict[str, Any] = {} if access.map is None else map_json(access.map)
    if access.precision is not Precision.EXACT:
        told |= {"precision": str(access.precision), "reason": visible(access.reason)}
    if access.replica is not None:
        told["device"] = visible(access_parts(access, ()).element.partition(" on ")[2])
    return told
