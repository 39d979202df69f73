"""Claims about sets whose points depend on what is read from tables, for every table, by isl.

A table is a function from indices to integers that nobody knows: a tensor while a program runs.
A `Body` is a set of points, each with variables that say why it is in the set, some of which are
values read.  Equal elements of a table (the same table at equal indices) are equal values;
otherwise a value is free within its interval.

That is all there is to know about a table, so that what asks for one point (emptiness, two points
with something in common) is answered exactly.  For `included`, the values that the point of a
claim determines are unknowns beside the point, which is exact as well; where the second set reads
at indices that the point leaves open, its reads are matched with those of the first: what is proved
is true for every table, what is not proved is refuted by `families` of tables or undecided.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations, islice, product
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    evaluate,
    maximum,
    minimum,
    substitute,
    variables,
)
from hloscope.simplifier.isl_relations import (
    Builder,
    Parameters,
    System,
    UndecidedError,
    isl_context,
)

MAX_PAIRS: Final = 24
"""So many pairs of reads of one table that may be of the same element are told apart."""
MAX_MATCHES: Final = 120
"""So many ways to match the reads of two bodies are tried."""

Constraint: TypeAlias = tuple[Expr, Interval]
Given: TypeAlias = tuple[Hashable, tuple[Expr, ...]]
"""An element that the point determines: its table, and its index over `Dim(i)`, coordinate `i` of
the point, and `Runtime(i)`, the value of given `i`."""
Entry: TypeAlias = tuple[Hashable, tuple[int, ...], int]
"""A table, an index and what the table holds there."""


def clamped(e: Expr, values: Interval) -> Expr:
    """The expression, or the end of the interval beyond which it is.

    >>> print(clamped(Dim(0), Interval(0, 9)))
    min(max(d0, 0), 9)
    """
    if values.lo > NEG_INF:
        e = maximum(e, values.lo)
    return minimum(e, values.hi) if values.hi < POS_INF else e


class Read(Struct, frozen=True):
    """A variable of a body that stands for an element of a table."""

    table: Hashable
    index: tuple[Expr, ...]
    value: Range


class Body(Struct, frozen=True):
    """`{ point : some values of the variables satisfy the constraints }`, for each table.

    Attributes:
        box: The intervals of `Range(0)`, `Range(1)`, …
        constraints: `(expr, interval)`; all hold.
        point: The coordinates, over the variables.
        reads: Variables whose values are read.
    """

    box: tuple[Interval, ...]
    constraints: tuple[Constraint, ...]
    point: tuple[Expr, ...]
    reads: tuple[Read, ...] = ()

    def shifted(self, by: int) -> Body:
        """The same set with other numbers of its variables, for a box that others come first in."""
        new: dict[Var, Expr] = {Range(i): Range(i + by) for i in range(len(self.box))}
        return Body(
            self.box,
            tuple([(substitute(e, new), i) for e, i in self.constraints]),
            tuple([substitute(e, new) for e in self.point]),
            tuple(
                [
                    Read(r.table, tuple([substitute(e, new) for e in r.index]), _moved(r.value, by))
                    for r in self.reads
                ]
            ),
        )

    def joined(
        self, other: Body, constraints: Sequence[Constraint] = (), point: Sequence[Expr] = ()
    ) -> Body:
        """Both at once; `other` is shifted by the number of variables here already."""
        return Body(
            self.box + other.box,
            (*self.constraints, *other.constraints, *constraints),
            tuple(point),
            self.reads + other.reads,
        )


def _moved(v: Range, by: int) -> Range:
    return Range(v.index + by)


class Witness(Struct, frozen=True):
    """A point that refutes a claim, and what the tables hold that makes it do so."""

    point: tuple[int, ...]
    entries: tuple[Entry, ...] = ()


def _by_point(
    index: Sequence[Expr], point: Sequence[Expr], place: Mapping[Var, Expr]
) -> tuple[Expr, ...] | None:
    """An index over what the point determines; `None` where it is not seen to be that."""
    found = [_coordinate(e, point, place) for e in index]
    return None if None in found else tuple([e for e in found if e is not None])


def _coordinate(e: Expr, point: Sequence[Expr], place: Mapping[Var, Expr]) -> Expr | None:
    if variables(e) <= place.keys():
        return substitute(e, place)
    for j, coordinate in enumerate(point):
        for sign in (1, -1):
            rest = e - coordinate * sign
            if variables(rest) <= place.keys():
                return Dim(j) * sign + substitute(rest, place)
    return None


class Question:
    """Bodies of one claim as sets of isl.

    The coordinates of a set are the point, the value of each given, and index and value of each
    element that the body reads besides.
    """

    def __init__(self, isl: Any, bodies: Sequence[Body]) -> None:
        self._isl = isl
        self.givens: dict[Given, int] = {}
        self._boxes: list[Interval] = []
        self._given: dict[int, dict[int, int]] = {}
        for body in bodies:
            self._given[id(body)] = self._givens_of(body)

    def _givens_of(self, body: Body) -> dict[int, int]:
        """The reads whose element the point determines, by number, and the number of the given."""
        place: dict[Var, Expr] = {}
        for j, e in enumerate(body.point):
            if isinstance(e, Range):
                place.setdefault(e, Dim(j))
        found: dict[int, int] = {}
        while True:
            before = len(found)
            for k, read in enumerate(body.reads):
                if k in found:
                    continue
                index = _by_point(read.index, body.point, place)
                if index is not None:
                    number = self.givens.setdefault((read.table, index), len(self.givens))
                    if number == len(self._boxes):
                        self._boxes.append(body.box[read.value.index])
                    found[k] = number
                    place.setdefault(read.value, Runtime(number))
            if len(found) == before:
                return found

    def own_reads(self, body: Body) -> list[Read]:
        """The reads whose element the point leaves open."""
        given = self._given[id(body)]
        return [read for k, read in enumerate(body.reads) if k not in given]

    def points(self, body: Body) -> Any:
        """The set of a body with all that it reads; a table's equal elements are equal."""
        read = self.own_reads(body)
        columns = [e for r in read for e in (*r.index, r.value)]
        builder, elements = self._builder(body, 0)
        reads = [*elements, *[(r.table, r.index, r.value) for r in read]]
        points = builder.domain()
        for same in self._equal_elements(builder, reads):
            points = points.intersect(same)
        return self._outputs(builder, points, body, columns)

    def matched(self, body: Body, like: Body) -> Iterator[Any]:
        """The points that a body has for sure, given what another reads: one set for each match."""
        goal = [(r.table, len(r.index)) for r in self.own_reads(like)]
        starts = [sum(rank + 1 for _, rank in goal[:i]) for i in range(len(goal))]
        width = sum(rank + 1 for _, rank in goal)
        read = self.own_reads(body)
        options: list[list[tuple[Expr, ...]]] = []
        builder, elements = self._builder(body, width)
        first = len(body.box) + len(self.givens)
        columns = [Range(first + i) for i in range(width)]
        for r in read:
            rows: list[tuple[Expr, ...]] = [
                tuple(columns[at : at + rank + 1])
                for (table, rank), at in zip(goal, starts, strict=True)
                if (table, rank) == (r.table, len(r.index))
            ]
            rows += [
                (*index, value)
                for table, index, value in elements
                if (table, len(index)) == (r.table, len(r.index))
            ]
            options.append(rows)
        here = builder.domain()
        for match in islice(product(*options), MAX_MATCHES):
            points = here
            for r, row in zip(read, match, strict=True):
                for e, other in zip((*r.index, r.value), row, strict=True):
                    points = points.intersect(builder.expr(e).eq_set(builder.expr(other)))
            yield self._outputs(builder, points, body, columns)

    def _builder(
        self, body: Body, width: int
    ) -> tuple[Builder, list[tuple[Hashable, tuple[Expr, ...], Expr]]]:
        """Variables of the body, givens, `width` others; and the givens over these variables."""
        n, g = len(body.box), len(self.givens)
        box: dict[Var, Interval] = {Range(i): b for i, b in enumerate((*body.box, *self._boxes))}
        box |= {Range(n + g + i): Interval.EVERYTHING for i in range(width)}
        new: dict[Var, Expr] = {Dim(j): e for j, e in enumerate(body.point)}
        new |= {Runtime(t): Range(n + t) for t in range(g)}
        elements: list[tuple[Hashable, tuple[Expr, ...], Expr]] = [
            (table, tuple([substitute(e, new) for e in index]), Range(n + t))
            for (table, index), t in self.givens.items()
        ]
        mine = self._given[id(body)]
        same = [(body.reads[k].value - Range(n + t), Interval.point(0)) for k, t in mine.items()]
        system = System(0, n + g + width, box, (*body.constraints, *same), ())
        return Builder(self._isl, isl_context(), system, Parameters({}, {})), elements

    def _equal_elements(
        self, builder: Builder, reads: Sequence[tuple[Hashable, tuple[Expr, ...], Expr]]
    ) -> Iterator[Any]:
        """For each two reads of one table: the indices differ, or the values are equal."""
        count = 0
        for (table, index, value), (other, at, there) in combinations(reads, 2):
            if (table, len(index)) != (other, len(at)):
                continue
            differences = [a - b for a, b in zip(index, at, strict=True)]
            if any(isinstance(d, Const) and d.value for d in differences):
                continue
            count += 1
            if count > MAX_PAIRS:
                raise UndecidedError(f"more than {MAX_PAIRS} pairs of elements may be the same")
            same = builder.expr(value).eq_set(builder.expr(there))
            zero = builder.expr(Const(0))
            apart = [builder.expr(d).ne_set(zero) for d in differences if d != Const(0)]
            yield reduce(lambda a, b: a.union(b), apart, same)

    def _outputs(self, builder: Builder, points: Any, body: Body, columns: Sequence[Expr]) -> Any:
        n = len(body.box)
        relation = self._isl.Map.from_domain(points)
        givens = [Range(n + t) for t in range(len(self.givens))]
        for e in (*body.point, *givens, *columns):
            relation = relation.flat_range_product(builder.expr(e).as_map())
        return relation.range()

    def witness(self, points: Any, body: Body) -> Witness:
        """A point of a set that is not empty."""
        point = points.sample_point()
        kind = self._isl.dim_type.set
        count = point.get_space().dim(kind)
        values = [int(str(point.get_coordinate_val(kind, i))) for i in range(count)]
        rank, g = len(body.point), len(self.givens)
        at: dict[Var, int] = {Dim(j): values[j] for j in range(rank)}
        at |= {Runtime(t): values[rank + t] for t in range(g)}
        entries: list[Entry] = [
            (table, tuple([evaluate(e, at) for e in index]), at[Runtime(t)])
            for (table, index), t in self.givens.items()
        ]
        start = rank + g
        for r in self.own_reads(body):
            stop = start + len(r.index)
            entries.append((r.table, tuple(values[start:stop]), values[stop]))
            start = stop + 1
        return Witness(tuple(values[:rank]), tuple(dict.fromkeys(entries)))


def some_point(isl: Any, bodies: Sequence[Body]) -> Witness | None:
    """A point of one of the bodies, for some tables; `None`: they are empty, whatever is read."""
    for body in bodies:
        question = Question(isl, [body])
        points = question.points(body)
        if not points.is_empty():
            return question.witness(points, body)
    return None


def included(
    isl: Any, first: Sequence[Body], second: Sequence[Body]
) -> tuple[Witness | None, bool]:
    """A point of the first union that is not proved to be in the second, whatever is read.

    Returns:
        `None` if there is none; and whether the point is known not to be in the second.
    """
    question = Question(isl, [*first, *second])
    is_exact = not any(question.own_reads(b) for b in second)
    for a in first:
        left = question.points(a)
        for b in second:
            if left.is_empty():
                break
            for sure in question.matched(b, a):
                left = left.subtract(sure)
        if not left.is_empty():
            return question.witness(left, a), is_exact
    return None, True


def extent(isl: Any, body: Body) -> Interval:
    """The smallest interval around the first coordinate of a body, for all tables."""
    points = Question(isl, [body]).points(body)
    if points.is_empty():
        return Interval.EMPTY
    low, high = points.dim_min_val(0), points.dim_max_val(0)
    return Interval(
        int(str(low)) if low.is_int() else NEG_INF, int(str(high)) if high.is_int() else POS_INF
    )
