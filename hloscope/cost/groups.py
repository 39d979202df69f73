"""Groups of rows: rows with equal keys, the group with the largest total first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from hloscope.ir import Computation, Instruction

GROUPINGS: Final = ("group", "kernel", "source", "scope", "opcode", "computation")
"""Names of the groupings; `group` joins equal kernels of one source line."""


class CostRow(Protocol):
    """A row about an instruction: a figure, and the number of its runs."""

    @property
    def instruction(self) -> Instruction: ...
    @property
    def computation(self) -> Computation: ...
    @property
    def runs(self) -> int: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=CostRow)


class Group(Struct, Generic[R], frozen=True):
    """Rows with one key.

    Attributes:
        key: The key.
        members: The rows, the one with the largest total first.
        total: The sum over all members and all their runs.
    """

    key: Hashable
    members: tuple[R, ...]
    total: int

    @property
    def first(self) -> R:
        """Return the member with the largest total, which represents the group."""
        return self.members[0]


def grouped(
    rows: Iterable[R], key: Callable[[R], Hashable], total: Callable[[R], int]
) -> list[Group[R]]:
    """Return the rows in groups, the largest total first. Equal totals keep the order of the rows.

    The totals of the groups add up to the sum over all rows, as each row is in one group.

    Args:
        rows: The rows.
        key: Returns the key that the rows of a group share.
        total: Returns the amount of a row, over all its runs.
    """
    members: dict[Hashable, list[tuple[int, R]]] = {}
    for row in rows:
        members.setdefault(key(row), []).append((total(row), row))
    groups = [
        Group(
            name,
            tuple([row for _, row in sorted(some, key=lambda one: -one[0])]),
            sum([amount for amount, _ in some]),
        )
        for name, some in members.items()
    ]
    return sorted(groups, key=lambda group: -group.total)


def kernels_and_runs(groups: Iterable[Group[R]]) -> tuple[int, int]:
    """Return the number of distinct instructions in groups, and the sum of their runs."""
    runs = {row.instruction: row.runs for group in groups for row in group.members}
    return len(runs), sum(runs.values())


def shares(totals: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yield, for each total, its share of the sum and the cumulative share so far.

    >>> list(shares([3, 1]))
    [(0.75, 0.75), (0.25, 1.0)]
    """
    whole, before = sum(totals), 0
    for total in totals:
        before += total
        yield (total / whole, before / whole) if whole else (0.0, 0.0)
