"""Small sizes for the dimensions of a program, so that the program stays valid.

Sizes are replaced by number: equal sizes become equal sizes, so operands of an elementwise op, a
contraction or a call still match.  Relations between different sizes are equations: products of a
reshape, the sum of a concatenation, a slice that is at most as large as its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.proof.allowance import Deadline

Sizes: TypeAlias = Mapping[int, int]
"""New sizes by old sizes."""

MAX_NODES: Final = 4_000
"""Maximum number of choices of one search."""
MAX_SIZE: Final = 4096
MAX_SIZES: Final = 200
"""Maximum number of different sizes of a program; the search recurses once for each."""


class ShrinkError(Exception):
    """The program has no small instance; the message is the reason."""


class Equation(Struct, frozen=True):
    """A condition on several new sizes.

    Attributes:
        sizes: The old sizes that take part.
        holds: Do these new sizes, in the same order, satisfy it?
        solve: Returns the new size at a position that satisfies it, given the others; `None` if
            there is none.  Without this function, candidates are tried.
    """

    sizes: tuple[int, ...]
    holds: Callable[[Sequence[int]], bool]
    solve: Callable[[int, Sequence[int]], int | None] | None = None


def products(
    one: Sequence[int], other: Sequence[int], factor: tuple[int, int] = (1, 1)
) -> Equation:
    """`factor[0]` times the product of some sizes equals `factor[1]` times that of others.

    >>> products((2, 3), (6,)).holds((4, 5, 20))
    True
    """
    count = len(one)
    left, right = factor

    def holds(new: Sequence[int]) -> bool:
        return left * prod(new[:count]) == right * prod(new[count:])

    # Solve by dividing the known side; a remainder means that no integer size fits.
    def solve(at: int, new: Sequence[int]) -> int | None:
        mine = left * prod([n for i, n in enumerate(new[:count]) if i != at])
        theirs = right * prod([n for i, n in enumerate(new[count:], count) if i != at])
        whole, part = (theirs, mine) if at < count else (mine, theirs)
        return whole // part if part and whole % part == 0 else None

    return Equation((*one, *other), holds, solve)


def total(parts: Sequence[int], whole: int) -> Equation:
    """The sizes `parts` add up to `whole`."""

    def solve(at: int, new: Sequence[int]) -> int | None:
        *some, end = new
        if at == len(some):
            return sum(some)
        return end - sum([n for i, n in enumerate(some) if i != at])

    return Equation((*parts, whole), lambda new: sum(new[:-1]) == new[-1], solve)


def at_most(one: int, other: int) -> Equation:
    """One size is at most another."""
    return Equation((one, other), lambda new: new[0] <= new[1])


def fixed(size: int) -> Equation:
    """The size is unchanged."""
    return Equation((size,), lambda new: new[0] == size, lambda at, new: size)


def choose(
    shapes: Sequence[tuple[int, ...]],
    equations: Sequence[Equation],
    most: int,
    deadline: Deadline | None = None,
) -> dict[int, int]:
    """Return small sizes that satisfy all equations; no shape has more than `most` elements.

    Different sizes become different sizes in the same order if possible.

    Raises:
        ShrinkError: None are found.
        TimeOverError: The search takes too long.

    >>> choose([(128, 64), (8192,)], [products((128, 64), (8192,))], 100)
    {64: 2, 128: 3, 8192: 6}
    """
    sizes = sorted({n for shape in shapes for n in shape} | {n for e in equations for n in e.sizes})
    sizes = [n for n in sizes if n > 1]
    if len(sizes) > MAX_SIZES:
        raise ShrinkError(f"more than {MAX_SIZES} different sizes")
    deadline = deadline or Deadline()
    distinct = sorted({tuple(n for n in shape if n > 1) for shape in shapes})
    # From strict to loose: distinct sizes in order, equal sizes allowed, any order, then larger
    # shapes.
    for keeps_order, limit in ((2, most), (1, most), (0, most), (0, 8 * most)):
        for cap in (4, 7, 12, 24):
            search = _Search(sizes, equations, distinct, limit, keeps_order, cap, deadline)
            for found in search.from_size(0):
                return dict(found)
    raise ShrinkError("no small sizes fit together")


class _Search:
    """Backtracking over the sizes, smallest first.

    A size that an equation determines is not tried.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        equations: Sequence[Equation],
        shapes: Sequence[tuple[int, ...]],
        most: int,
        keeps_order: int,
        cap: int,
        deadline: Deadline,
    ) -> None:
        self._deadline = deadline
        self._sizes, self._most = sizes, most
        self._keeps_order, self._cap = keeps_order, cap
        at = {n: i for i, n in enumerate(sizes)}
        self._ready: list[list[Equation]] = [[] for _ in sizes]
        # An equation is checked when its largest size is chosen: then all others are known.
        for e in equations:
            places = [at[n] for n in e.sizes if n > 1]
            if places:
                self._ready[max(places)].append(e)
        self._shapes: list[list[tuple[int, ...]]] = [[] for _ in sizes]
        for shape in shapes:
            if shape:
                self._shapes[at[max(shape)]].append(shape)
        self._new: dict[int, int] = {0: 0, 1: 1}
        self._nodes = 0

    def from_size(self, at: int) -> Iterator[dict[int, int]]:
        """Yield every solution that extends the sizes chosen before number `at`."""
        if at == len(self._sizes):
            yield {n: self._new[n] for n in self._sizes}
            return
        size = self._sizes[at]
        for new in self._candidates(at, size):
            self._nodes += 1
            self._deadline.check()
            if self._nodes > MAX_NODES:
                return
            self._new[size] = new
            if self._fits(at):
                yield from self.from_size(at + 1)
        self._new.pop(size, None)

    def _candidates(self, at: int, size: int) -> Sequence[int]:
        """Return the new sizes to try for size number `at`."""
        before = self._new[self._sizes[at - 1]] if at else 1
        low = 2 if not self._keeps_order else before + (self._keeps_order == 2)
        for e in self._ready[at]:
            if e.solve is not None and e.sizes.count(size) == 1:
                place = e.sizes.index(size)
                found = e.solve(place, [self._new.get(n, 1) for n in e.sizes])
                return () if found is None or not 1 < found <= MAX_SIZE else (found,)
        low = max(low, 2)
        # Sizes up to 3 are small already.
        if size <= 3:
            return (size,) if low <= size else ()
        return range(low, min(size, max(self._cap, low)) + 1)

    def _fits(self, at: int) -> bool:
        """Do the equations and shapes hold whose largest size is number `at`?"""
        new = self._new
        return all(e.holds([new[n] for n in e.sizes]) for e in self._ready[at]) and all(
            prod([new[n] for n in shape]) <= self._most for shape in self._shapes[at]
        )
