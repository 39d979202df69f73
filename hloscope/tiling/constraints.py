"""Constraints on tile sizes: clauses that are checked directly, and XLA's normal form of them.

A symbolic tile has several clauses, which must all hold. The most frequent one, `Run`, constrains
`n` collapsed dimensions and equals a disjunction of `n (n + 1) / 2` conjunctions. The product of
these for ten reshapes of rank 16 does not fit in memory, so clauses are checked as clauses, and
`expand` converts them to XLA's disjunctive normal form only on request.

>>> from hloscope.affine import Dim
>>> run = Run((Dim(0), Dim(1)), (4, 8))
>>> run.holds((2, 8)), run.holds((2, 4)), run.holds((1, 4))
(True, False, True)
>>> print(TileConstraints.of(run).expand())
d0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import ClassVar, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, Interval, Var, evaluate_array, mod, safe_evaluate
from hloscope.errors import UnsupportedError
from hloscope.support.arrays import Bools, Ints, np

ONE: Final = Interval(1, 1)
_ZERO: Final = Interval(0, 0)
MAX_EXPANDED: Final = 20_000
"""Maximum number of conjunctions that `expand` returns; with more it raises an error."""
_MOST_ALTERNATIVES: Final = 20_000
"""Maximum number of alternatives that are tried to decide whether constraints are satisfiable.

Beyond it they count as satisfiable.
"""

Sizes: TypeAlias = "Sequence[int] | Ints"
Conjunction: TypeAlias = "tuple[Within, ...]"


def _value(e: Expr, sizes: Sequence[int]) -> int | None:
    """Return the value of `e` for these tile sizes; `None` after a division by zero."""
    return safe_evaluate(e, {Dim(i): int(size) for i, size in enumerate(sizes)})


def values(e: Expr, sizes: Ints) -> Ints:
    """Return the values of `e` for many tilings: [tilings]. `sizes` has a tiling in each row."""
    at: dict[Var, Ints] = {Dim(i): sizes[:, i] for i in range(sizes.shape[1])}
    if isinstance(e, Const) or not at:
        return np.full(len(sizes), e.value if isinstance(e, Const) else 0, dtype=np.int64)
    return evaluate_array(e, at)


class Within(Struct, frozen=True):
    """The constraint `expr in interval`, where `d_i` is the tile size of parameter `i`."""

    expr: Expr
    interval: Interval

    def __str__(self) -> str:
        return f"{self.expr} in {self.interval}"

    def holds(self, sizes: Sequence[int]) -> bool:
        """Does the constraint hold for these tile sizes?"""
        value = _value(self.expr, sizes)
        return value is not None and value in self.interval

    def holds_array(self, sizes: Ints) -> Bools:
        """Return, for each tiling (row of `sizes`), whether the constraint holds: [tilings]."""
        found = values(self.expr, sizes)
        return (found >= self.interval.lo) & (found <= self.interval.hi)

    def alternatives(self) -> Iterator[Conjunction]:
        """Yield the conjunctions, as XLA builds them; the constraint holds if one of them does."""
        yield (self,)


class Divides(Struct, frozen=True):
    """The constraint that a size divides a number or is a multiple of it.

    Tiles of `size` then fit blocks of `number`.
    """

    size: Expr
    number: int

    def __str__(self) -> str:
        return " || ".join(str(a) for (a,) in self.alternatives())

    def holds(self, sizes: Sequence[int]) -> bool:
        """Does the constraint hold for these tile sizes?"""
        size = _value(self.size, sizes)
        return bool(size) and (self.number % size == 0 or size % self.number == 0)  # type: ignore[operator]  # not None

    def holds_array(self, sizes: Ints) -> Bools:
        """Return, for each tiling (row of `sizes`), whether the constraint holds: [tilings]."""
        size = values(self.size, sizes)
        some = np.maximum(size, 1)
        fits = (self.number % some == 0) | (some % self.number == 0)
        found: Bools = (size > 0) & fits
        return found

    def alternatives(self) -> Iterator[tuple[Within]]:
        """Yield the conjunctions, as XLA builds them; the constraint holds if one of them does."""
        yield (Within(mod(self.number, self.size), _ZERO),)
        yield (Within(mod(self.size, self.number), _ZERO),)


class Run(Struct, frozen=True):
    """The constraint that tile sizes of collapsed dimensions, major to minor, give one stride.

    The sizes are ones, then one size of any value, then full sizes, then ones. Each part may be
    empty.

    Attributes:
        sizes: The tile size of each dimension: a constant, or the tile size of a parameter.
        full: The size of each dimension; a tile size equal to it is full.

    >>> print(Run((Dim(0), Dim(1)), (8, 25)))
    d0 = 1, or d1 = 1, or d1 = 25
    """

    sizes: tuple[Expr, ...]
    full: tuple[int, ...]

    def __str__(self) -> str:
        if len(self.sizes) > 3:  # the text has no alternatives if there are ten or more
            sizes, full = (", ".join(map(str, some)) for some in (self.sizes, self.full))
            return f"({sizes}) are ones, any one size, full sizes of ({full}), then ones"
        options = [
            " and ".join([f"{w.expr} = {w.interval.lo}" for w in some])
            for some in self.alternatives()
        ]
        return ", or ".join(options)

    def holds(self, sizes: Sequence[int]) -> bool:
        """Does the constraint hold for these tile sizes?"""
        found = [_value(e, sizes) for e in self.sizes]
        start = next((i for i, size in enumerate(found) if size != 1), len(found))
        stop = start + 1
        while stop < len(found) and found[stop] == self.full[stop]:
            stop += 1
        return all([size == 1 for size in found[stop:]])

    def holds_array(self, sizes: Ints) -> Bools:
        """Return, for each tiling (row of `sizes`), whether the constraint holds: [tilings]."""
        # An automaton with three states: leading ones, full sizes, trailing ones.  The sizes match
        # if any state is possible at the end.
        before, full, ones = (np.ones(len(sizes), dtype=bool), *np.zeros((2, len(sizes)), bool))
        for e, whole in zip(self.sizes, self.full, strict=True):
            size = values(e, sizes)
            one, is_full = size == 1, size == whole
            before, full, ones = before & one, before | (full & is_full), (full | ones) & one
        found: Bools = before | full | ones
        return found

    def alternatives(self) -> Iterator[Conjunction]:
        """Yield the conjunctions, as XLA builds them; the constraint holds if one of them does."""
        count = len(self.sizes)
        for partial in reversed(range(count)):
            for last in range(partial, count):
                needed = [ONE] * partial + [Interval.EVERYTHING]
                needed += [Interval.point(n) for n in self.full[partial + 1 : last + 1]]
                needed += [ONE] * (count - last - 1)
                yield tuple(
                    [Within(e, i) for k, (e, i) in enumerate(zip(self.sizes, needed, strict=True))
                     if k != partial]
                )  # fmt: skip


class OneSign(Struct, frozen=True):
    """The constraint that strides do not have mixed signs.

    It holds if all sizes of one group are 1: those of dimensions with negative strides (`down`), or
    those of dimensions with positive strides (`up`).
    """

    down: tuple[Expr, ...]
    up: tuple[Expr, ...]

    def __str__(self) -> str:
        return " || ".join(" && ".join(map(str, some)) for some in self.alternatives())

    def holds(self, sizes: Sequence[int]) -> bool:
        """Does the constraint hold for these tile sizes?"""
        return any([all([w.holds(sizes) for w in some]) for some in self.alternatives()])

    def holds_array(self, sizes: Ints) -> Bools:
        """Return, for each tiling (row of `sizes`), whether the constraint holds: [tilings]."""
        down, up = (
            np.logical_and.reduce([w.holds_array(sizes) for w in some])
            for some in self.alternatives()
        )
        found: Bools = down | up
        return found

    def alternatives(self) -> Iterator[Conjunction]:
        """Yield the conjunctions; the constraint holds if one of them does."""
        for group in (self.down, self.up):
            yield tuple([Within(e, ONE) for e in group])


Clause: TypeAlias = Within | Divides | Run | OneSign


class TileConstraints(Struct, frozen=True):
    """A conjunction of distinct clauses: constraints on tile sizes that all have to hold.

    They are in the order in which they were found.
    """

    clauses: tuple[Clause, ...] = ()

    @classmethod
    def of(cls, *clauses: Clause) -> TileConstraints:
        """Return the constraints with the given clauses, without clauses that always hold.

        >>> print(TileConstraints.of(Within(Const(1), ONE)))
        always satisfied
        """
        bounding = [c for c in clauses if {} not in _alternatives(c)]
        return cls(tuple(dict.fromkeys(bounding)))

    def __and__(self, other: TileConstraints) -> TileConstraints:
        if not other.clauses:
            return self
        return TileConstraints(tuple(dict.fromkeys(self.clauses + other.clauses)))

    def __str__(self) -> str:
        return "; ".join(map(str, self.clauses)) or "always satisfied"

    def holds(self, sizes: Sequence[int]) -> bool:
        """Do all clauses hold for these tile sizes?

        >>> TileConstraints.of(Divides(Dim(0), 6)).holds((4,))
        False
        """
        return all([clause.holds(sizes) for clause in self.clauses])

    def violated(self, sizes: Sequence[int]) -> tuple[Clause, ...]:
        """Return the clauses that do not hold for these tile sizes."""
        return tuple([clause for clause in self.clauses if not clause.holds(sizes)])

    def holds_array(self, sizes: Ints) -> Bools:
        """Return, for each tiling (row of `sizes`), whether all clauses hold: [tilings]."""
        found = np.ones(len(sizes), dtype=bool)
        for clause in self.clauses:
            found &= clause.holds_array(sizes)
        return found

    @property
    def is_satisfiable(self) -> bool:
        """May there be sizes that satisfy all clauses? `False` means that there are none.

        Distinct expressions count as independent, as in XLA.
        """
        # Depth-first search: one alternative of each clause, with the intersected intervals.
        chosen: list[dict[Expr, Interval]] = [{}]
        left = [_alternatives(clause) for clause in self.clauses[:1]]
        tried = 0
        while left:
            some = next(left[-1], None)
            if some is None:
                left.pop()
                chosen.pop()
                continue
            tried += 1
            merged = _simple(some.items(), chosen[-1])
            if merged is None and tried <= _MOST_ALTERNATIVES:
                continue
            if merged is None or len(left) == len(self.clauses):
                return True
            chosen.append(merged)
            left.append(_alternatives(self.clauses[len(left)]))
        return not self.clauses

    def expand(self, limit: int = MAX_EXPANDED) -> ConstraintExpression:
        """Return the constraints in XLA's disjunctive normal form, simplified.

        Raises:
            UnsupportedError: It has more than `limit` conjunctions.
        """
        found = ConstraintExpression.ALWAYS
        for clause in self.clauses:
            some = ConstraintExpression(tuple(islice(clause.alternatives(), limit + 1)))
            some = some.simplify()
            if len(found.conjunctions) * len(some.conjunctions) > limit:
                raise UnsupportedError(
                    f"the constraint has more than {limit:,} conjunctions; its clauses are: {self}"
                )
            found = (found & some).simplify()
        return found


def _simple(
    conjunction: Iterable[tuple[Expr, Interval]], known: Mapping[Expr, Interval] | None = None
) -> dict[Expr, Interval] | None:
    """Return the interval of each expression in a conjunction; `None` if it is always false.

    Args:
        conjunction: Expressions with their intervals, in any number.
        known: Further intervals that hold, of distinct expressions.
    """
    found = dict(known or {})
    for e, interval in conjunction:
        if isinstance(e, Const):
            if e.value not in interval:
                return None
            continue
        both = found.get(e, Interval.EVERYTHING) & interval
        if both.is_empty:
            return None
        found[e] = both
    return found


def _alternatives(clause: Clause) -> Iterator[dict[Expr, Interval]]:
    """Yield the intervals of each alternative of a clause that may hold."""
    every = (_simple([(w.expr, w.interval) for w in some]) for some in clause.alternatives())
    return (simple for simple in every if simple is not None)


class ConstraintExpression(Struct, frozen=True):
    """XLA's form of a constraint: conjunctions of `expr in [lo, hi]`, one of which must hold.

    Without conjunctions it is unsatisfiable; with an empty conjunction it always holds. `&`
    distributes and intersects the intervals of equal expressions, `|` concatenates.

    >>> low, high = Within(Dim(0), Interval(0, 5)), Within(Dim(0), Interval(3, 9))
    >>> print(ConstraintExpression(((low,),)) & ConstraintExpression(((high,),)))
    d0 in [3, 5]

    Source: XLA `ConstraintExpression`.
    """

    conjunctions: tuple[Conjunction, ...] = ()
    ALWAYS: ClassVar[ConstraintExpression]

    @property
    def is_always_satisfied(self) -> bool:
        """Is one conjunction empty, so that the constraint always holds?"""
        return () in self.conjunctions

    @property
    def is_satisfiable(self) -> bool:
        """Does the expression have a conjunction? Without one, no tile sizes satisfy it."""
        return bool(self.conjunctions)

    def __and__(self, other: ConstraintExpression) -> ConstraintExpression:
        found = []
        for own_atoms, other_atoms in product(self.conjunctions, other.conjunctions):
            merged: dict[Expr, Interval] = {}
            for atom in own_atoms + other_atoms:
                known = merged.get(atom.expr, Interval.EVERYTHING)
                merged[atom.expr] = known & atom.interval
            if not any([interval.is_empty for interval in merged.values()]):
                found.append(tuple([Within(e, interval) for e, interval in merged.items()]))
        return ConstraintExpression(tuple(found))

    def __or__(self, other: ConstraintExpression) -> ConstraintExpression:
        if self.is_always_satisfied or other.is_always_satisfied:
            return ConstraintExpression.ALWAYS
        return ConstraintExpression(self.conjunctions + other.conjunctions)

    def simplify(self) -> ConstraintExpression:
        """Return the equal expression without constraints on constants and duplicates, sorted."""
        found: dict[str, Conjunction] = {}
        for conjunction in self.conjunctions:
            simple = _simple([(atom.expr, atom.interval) for atom in conjunction])
            if simple is None:
                continue
            if not simple:
                return ConstraintExpression.ALWAYS
            atoms = sorted([Within(e, i) for e, i in simple.items()], key=str)
            found[" && ".join(map(str, atoms))] = tuple(atoms)
        return ConstraintExpression(tuple([found[text] for text in sorted(found)]))

    def holds(self, sizes: Sequence[int]) -> bool:
        """Does one of the conjunctions hold for these tile sizes?"""
        return any([all([atom.holds(sizes) for atom in some]) for some in self.conjunctions])

    def unsatisfied(self, sizes: Sequence[int]) -> str:
        """Return a text with the violated constraints of each conjunction, and their values."""
        lines = []
        for number, conjunction in enumerate(self.conjunctions):
            wrong = [atom for atom in conjunction if not atom.holds(sizes)]
            if wrong:
                lines.append(f"Unsatisfied conjunction: #{number}")
                lines += [f"  {atom}. Value: {_value(atom.expr, sizes)}" for atom in wrong]
        return "\n".join(lines)

    def __str__(self) -> str:
        if self.is_always_satisfied:
            return "always satisfied"
        if not self.conjunctions:
            return "unsatisfiable"
        texts = [" && ".join(sorted(map(str, some))) for some in self.conjunctions]
        return " || ".join(sorted(texts))


ConstraintExpression.ALWAYS = ConstraintExpression(((),))
