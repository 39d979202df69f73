"""Statements about sets of points, proved by isl; sets may depend on values read from tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations, islice, product
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    ZERO,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    bounds,
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
    islpy,
)

# --------------------------------------------------------------------------------------------------
# Statements about sets that depend on values read from tables, for every table, by isl.
#
# A table is an unknown function from indices to integers: a tensor while a program runs. A `Body`
# is a set of points. Its variables say why a point is in the set, and some of them are values read.
# Equal indices of one table give equal values; otherwise a value is free within its interval.
#
# Nothing else is known about a table. So a question about one point (emptiness, two points with
# something in common) is answered exactly. For `StatementSets.included`, the values that the point
# determines become further unknowns, which is exact as well. If the second set reads at indices
# that the point leaves open, its reads are matched with those of the first. A proof then holds for
# every table; without a proof, one of `FAMILIES` may refute the statement, or it is undecided.
#
# A set without reads is a plain isl set, so these are the proofs about maps without runtime
# variables as well.


MAX_PAIRS: Final = 24
"""Maximum number of pairs of reads of one table that may be of the same element.

With more, the statement is undecided.
"""
MAX_MATCHES: Final = 120
"""Maximum number of matchings of the reads of two bodies that are tried; others are left out."""

Constraint: TypeAlias = tuple[Expr, Interval]
FixedElement: TypeAlias = tuple[Hashable, tuple[Expr, ...]]
"""A table element whose index is determined by the point: `(table, index)`.

The index is over `Dim(i)`, coordinate `i` of the point, and `Runtime(i)`, the value of the fixed
element with number `i`.
"""
Entry: TypeAlias = tuple[Hashable, tuple[int, ...], int]
"""`(table, index, value)`: the table has `value` at `index`."""


def clamped(e: Expr, values: Interval) -> Expr:
    """Return `e` clamped to the interval `values`.

    >>> print(clamped(Dim(0), Interval(0, 9)))
    min(max(d0, 0), 9)
    """
    if values.lo > NEG_INF:
        e = maximum(e, values.lo)
    return minimum(e, values.hi) if values.hi < POS_INF else e


class Read(Struct, frozen=True):
    """A read of a table element, whose value is a variable of the body."""

    table: Hashable
    index: tuple[Expr, ...]
    value: Range


class Body(Struct, frozen=True):
    """A set of points that depends on tables.

    It is `{ point : some values of the variables satisfy the constraints }`, where some variables
    are values read from tables.

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

    def shifted(self, first: int) -> Body:
        """Return the same set with its variables renumbered: `Range(i)` becomes `Range(first + i)`.

        This makes room for the variables of another set.
        """
        new: dict[Var, Expr] = {Range(i): Range(i + first) for i in range(len(self.box))}
        return Body(
            self.box,
            tuple([(substitute(e, new), i) for e, i in self.constraints]),
            tuple([substitute(e, new) for e in self.point]),
            tuple(
                [
                    Read(
                        r.table,
                        tuple([substitute(e, new) for e in r.index]),
                        Range(r.value.index + first),
                    )
                    for r in self.reads
                ]
            ),
        )

    def joined(
        self, other: Body, constraints: Sequence[Constraint] = (), point: Sequence[Expr] = ()
    ) -> Body:
        """Return a body with the variables, constraints and reads of both, and with a new point.

        `other` must already have variables that follow those of `self`, see `shifted`.

        Args:
            other: The second body.
            constraints: Further constraints.
            point: The coordinates, over the variables of both.
        """
        return Body(
            self.box + other.box,
            (*self.constraints, *other.constraints, *constraints),
            tuple(point),
            self.reads + other.reads,
        )


class Witness(Struct, frozen=True):
    """A point that refutes a statement, and the table entries with which it does."""

    point: tuple[int, ...]
    entries: tuple[Entry, ...] = ()


def _coordinate(e: Expr, point: Sequence[Expr], place: Mapping[Var, Expr]) -> Expr | None:
    """Return `e` over the coordinates `Dim(j)` of the point; `None` if it has no such form.

    `point` has the coordinates as expressions. `place` has, for variables that the point is known
    to determine, their expressions over `Dim(j)`.
    """
    if variables(e) <= place.keys():
        return substitute(e, place)
    for j, coordinate in enumerate(point):
        for sign in (1, -1):
            rest = e - coordinate * sign
            if variables(rest) <= place.keys():
                return Dim(j) * sign + substitute(rest, place)
    return None


class StatementSets:
    """The bodies of one statement, converted to isl sets.

    A *fixed element* is a table element whose index the point determines. The coordinates of a set
    are: the point, the value of each fixed element, and the index and value of each other element
    that the body reads.
    """

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._points: dict[int, Any] = {}
        self.fixed_elements: dict[FixedElement, int] = {}
        self._boxes: list[Interval] = []
        self._given: dict[int, dict[int, int]] = {}
        for body in bodies:
            self._given[id(body)] = self._fixed_elements_of(body)

    def _fixed_elements_of(self, body: Body) -> dict[int, int]:
        """Return, for each read whose index the point determines, the number of its fixed element.

        Keys are positions in `body.reads`. New fixed elements are added.
        """
        place: dict[Var, Expr] = {}
        for j, e in enumerate(body.point):
            if isinstance(e, Range):
                place.setdefault(e, Dim(j))
        found: dict[int, int] = {}
        # A value that the point determines may be the index of another read, so repeat until no
        # more are found.
        while True:
            before = len(found)
            for k, read in enumerate(body.reads):
                if k in found:
                    continue
                index = [_coordinate(e, body.point, place) for e in read.index]
                if None not in index:
                    element = read.table, tuple([e for e in index if e is not None])
                    number = self.fixed_elements.setdefault(element, len(self.fixed_elements))
                    if number == len(self._boxes):
                        self._boxes.append(body.box[read.value.index])
                    found[k] = number
                    place.setdefault(read.value, Runtime(number))
            if len(found) == before:
                return found

    def open_reads(self, body: Body) -> list[Read]:
        """Return the reads whose index the point does not determine."""
        given = self._given[id(body)]
        return [read for k, read in enumerate(body.reads) if k not in given]

    def points(self, body: Body) -> Any:
        """Return the `islpy.Set` of a body, with the values it reads as further coordinates.

        Reads of one element of a table have equal values.
        """
        # Both directions of an equality need the set: without this its proof takes 1.5 times as
        # long.
        if id(body) not in self._points:
            self._points[id(body)] = self._converted(body)
        return self._points[id(body)]

    def _converted(self, body: Body) -> Any:
        """Return the result of `points` for a body, without the memo."""
        read = self.open_reads(body)
        columns = [e for r in read for e in (*r.index, r.value)]
        builder, elements = self._builder(body, 0)
        reads = [*elements, *[(r.table, r.index, r.value) for r in read]]
        points = builder.domain()
        for same in self._equal_elements(builder, reads):
            points = points.intersect(same)
        return self._outputs(builder, points, body, columns)

    def matched(self, body: Body, reference: Body) -> Iterator[Any]:
        """Yield sets of points that the body has for every table, one set per matching of reads.

        A matching identifies each open read of `body` with an element that `reference` reads, or
        with a fixed element. The coordinates are those of `points(reference)`.
        """
        if not self.open_reads(body) and not self.open_reads(reference):
            yield self.points(body)
            return
        goal = [(r.table, len(r.index)) for r in self.open_reads(reference)]
        starts = [sum(rank + 1 for _, rank in goal[:i]) for i in range(len(goal))]
        width = sum(rank + 1 for _, rank in goal)
        read = self.open_reads(body)
        options: list[list[tuple[Expr, ...]]] = []
        builder, elements = self._builder(body, width)
        first = len(body.box) + len(self.fixed_elements)
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
        # Each open read of the body is identified with an element that is read anyway. A point
        # found that way is in the body for every table, so the union of all matchings is a subset
        # of the body.
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
        """Return a builder over the variables of the body, the fixed elements and `width` others.

        Also return the fixed elements as triples `(table, index, value)` over these variables.
        """
        n, g = len(body.box), len(self.fixed_elements)
        box: dict[Var, Interval] = {Range(i): b for i, b in enumerate((*body.box, *self._boxes))}
        box |= {Range(n + g + i): Interval.EVERYTHING for i in range(width)}
        new: dict[Var, Expr] = {Dim(j): e for j, e in enumerate(body.point)}
        new |= {Runtime(t): Range(n + t) for t in range(g)}
        elements: list[tuple[Hashable, tuple[Expr, ...], Expr]] = [
            (table, tuple([substitute(e, new) for e in index]), Range(n + t))
            for (table, index), t in self.fixed_elements.items()
        ]
        mine = self._given[id(body)]
        same = [(body.reads[k].value - Range(n + t), Interval.point(0)) for k, t in mine.items()]
        system = System(0, n + g + width, box, (*body.constraints, *same), ())
        return Builder(islpy, isl_context(), system, Parameters({}, {})), elements

    def _equal_elements(
        self, builder: Builder, reads: Sequence[tuple[Hashable, tuple[Expr, ...], Expr]]
    ) -> Iterator[Any]:
        """Yield, for each two reads of a table, the set where indices differ or values agree.

        Raises:
            UndecidedError: There are more than `MAX_PAIRS` such pairs of reads.
        """
        count = 0
        for (table, index, value), (other, at, there) in combinations(reads, 2):
            if (table, len(index)) != (other, len(at)):
                continue
            differences = [a - b for a, b in zip(index, at, strict=True)]
            # A constant nonzero difference proves that the elements differ.
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
        """Return the `islpy.Set` of coordinates of all solutions of a body.

        The coordinates are the point, the values of the fixed elements, and `columns`.

        Args:
            builder: Converts expressions over the variables and the fixed elements.
            points: The solutions, as an `islpy.Set` of values of variables and fixed elements.
            body: The body.
            columns: Further coordinates, as expressions over the variables.
        """
        n = len(body.box)
        fixed_elements = [Range(n + t) for t in range(len(self.fixed_elements))]
        relation = islpy.Map.from_domain(points)
        for e in (*body.point, *fixed_elements, *columns):
            relation = relation.flat_range_product(builder.expr(e).as_map())
        return relation.range()

    def witness(self, points: Any, body: Body) -> Witness:
        """Return a point of a nonempty set of the body, with the table entries that it needs."""
        point = points.sample_point()
        kind = islpy.dim_type.set
        count = point.get_space().dim(kind)
        values = [int(str(point.get_coordinate_val(kind, i))) for i in range(count)]
        # The coordinates are in the order that `_outputs` writes: point, fixed elements, then
        # each open read.
        rank, g = len(body.point), len(self.fixed_elements)
        at: dict[Var, int] = {Dim(j): values[j] for j in range(rank)}
        at |= {Runtime(t): values[rank + t] for t in range(g)}
        entries: list[Entry] = [
            (table, tuple([evaluate(e, at) for e in index]), at[Runtime(t)])
            for (table, index), t in self.fixed_elements.items()
        ]
        start = rank + g
        for r in self.open_reads(body):
            stop = start + len(r.index)
            entries.append((r.table, tuple(values[start:stop]), values[stop]))
            start = stop + 1
        return Witness(tuple(values[:rank]), tuple(dict.fromkeys(entries)))

    def included(
        self, first: Sequence[Body], second: Sequence[Body]
    ) -> tuple[Witness | None, bool]:
        """Find a point of the first union of bodies that is not proved to be in the second.

        Returns:
            The point, or `None` if inclusion is proved; and whether the point is certainly not in
            the second union.
        """
        is_exact = not any(self.open_reads(b) for b in second)
        for a in first:
            left = self.points(a)
            for b in second:
                if left.is_empty():
                    break
                for sure in self.matched(b, a):
                    left = left.subtract(sure)
            if not left.is_empty():
                return self.witness(left, a), is_exact
        return None, True


def some_point(bodies: Sequence[Body]) -> Witness | None:
    """Return a point that one of the bodies has for some tables, or `None`.

    The result is `None` if the bodies are empty for all tables.
    """
    for body in bodies:
        sets = StatementSets([body])
        points = sets.points(body)
        if not points.is_empty():
            return sets.witness(points, body)
    return None


def extent(body: Body) -> Interval:
    """Return the smallest interval that contains the body's first coordinate, over all tables."""
    points = StatementSets([body]).points(body)
    if points.is_empty():
        return Interval.EMPTY
    low, high = points.dim_min_val(0), points.dim_max_val(0)
    return Interval(
        int(str(low)) if low.is_int() else NEG_INF, int(str(high)) if high.is_int() else POS_INF
    )


# --------------------------------------------------------------------------------------------------
# Families of tables that may refute a statement about values read at run time.
#
# Each family gives every element of a table by a formula. A statement that is not proved for every
# table may still be true. It is false if it is false for one table, and for a table given by a
# formula isl decides that.


Formula: TypeAlias = tuple[Expr, tuple[Interval, ...]]
"""The elements of a family of tables, and the intervals of its parameters.

The element is an expression in `Dim(i)`, its index, and in `Runtime(i)`, the parameters.
"""
ANY: Final = Interval.EVERYTHING
MAX_LISTED: Final = 8
"""Maximum number of table entries of a witness that is tried as a table."""

_Key: TypeAlias = tuple[Hashable, int]
_Tables: TypeAlias = Mapping[_Key, tuple[Sequence[Interval], Interval]]
"""For each table, the intervals of the index in each dimension, and of the values, that are read.

The key has the table and its rank.
"""


def one_apart(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables with one element that differs from the others.

    Its index and both values are parameters. `index` has the interval of the index in each
    dimension, and `values` that of the elements.
    """
    rank = len(index)
    here = _is_at([Dim(j) - Runtime(j) for j in range(rank)])
    element = Runtime(rank) + here * Runtime(rank + 1)
    return element, (*index, values, ANY)


def rising(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables that count upwards by 1 in row-major order, from any start.

    `index` has the interval of the index in each dimension.
    """
    return _number(index) + Runtime(0), (ANY,)


def falling(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables that count downwards by 1 in row-major order, from any start.

    `index` has the interval of the index in each dimension.
    """
    return Runtime(0) - _number(index), (ANY,)


def diagonal(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables whose element is a parameter plus the sum of its coordinates.

    `index` has the interval of the index in each dimension.
    """
    return sum((Dim(j) for j in range(len(index))), Runtime(0)), (ANY,)


def alternating(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of two tables that alternate between the least and the greatest value.

    `index` has the interval of the index in each dimension, and `values` that of the elements. The
    value is the least one where the sum of coordinates plus a parameter is even.
    """
    low, high = (values.lo, values.hi) if values.is_finite else (0, 1)
    total = sum((Dim(j) for j in range(len(index))), Runtime(0))
    return low + total % 2 * (high - low), (Interval(0, 1),)


def _number(index: Sequence[Interval]) -> Expr:
    """Return the row-major number of an element, over its index `Dim(0)`, `Dim(1)`, ….

    `index` has the interval of the index in each dimension.
    """
    number: Expr = ZERO
    for j, side in enumerate(index):
        number = number * (side.size if side.is_finite else 1) + Dim(j)
    return number


def as_listed(rank: int, entries: Sequence[tuple[tuple[int, ...], int]]) -> Formula:
    """Return the family of tables that have the listed entries.

    All other elements equal a parameter. `rank` is the number of dimensions of the table.
    """
    element: Expr = Runtime(0)
    for index, value in entries:
        here = _is_at([Dim(j) - k for j, k in zip(range(rank), index, strict=True)])
        element = element + here * value - here * Runtime(0)
    return element, (ANY,)


def _is_at(differences: Sequence[Expr]) -> Expr:
    """Return an expression whose value is 1 at points where all differences are 0, else 0."""
    distance: Expr = ZERO
    for off in differences:
        distance = distance + maximum(off, -off)
    return minimum(maximum(1 - distance, ZERO), 1)


FAMILIES: Final[tuple[Callable[[Sequence[Interval], Interval], Formula], ...]] = (
    one_apart,
    rising,
    falling,
    diagonal,
    alternating,
)


class RefutingTable(Struct, frozen=True):
    """A table of integers for which a statement is refuted.

    Attributes:
        table: Key of the table.
        entries: Pairs (index, element) of the listed elements.
        formula: The other elements, as an expression; `Dim(i)` is the index in dimension `i`.
    """

    table: Hashable
    entries: tuple[tuple[tuple[int, ...], int], ...]
    formula: Expr


class Refutation(Struct, frozen=True):
    """A point of the first union that is not in the second, with tables for which this is so."""

    point: tuple[int, ...]
    tables: tuple[RefutingTable, ...]


def refutations(
    first: Sequence[Body], second: Sequence[Body], hint: Witness | None
) -> Iterator[Refutation | None]:
    """Yield, for each family of tables, a point that is only in the first union, or `None`.

    Args:
        first: The union that may have more points.
        second: The other union.
        hint: A point that was not proved to be in the second union; its table entries are tried
            first.
    """
    tables = _tables([*first, *second])
    if hint is not None and len(hint.entries) <= MAX_LISTED:
        listed: dict[Hashable, list[tuple[tuple[int, ...], int]]] = {}
        for table, at, value in hint.entries:
            listed.setdefault(table, []).append((at, value))
        chosen = {key: as_listed(key[1], listed.get(key[0], ())) for key in tables}
        yield _refutation(first, second, tables, chosen, listed)
    for family in FAMILIES:
        chosen = {key: family(*known) for key, known in tables.items()}
        yield _refutation(first, second, tables, chosen, {})


def _refutation(
    first: Sequence[Body],
    second: Sequence[Body],
    tables: _Tables,
    chosen: Mapping[_Key, Formula],
    listed: Mapping[Hashable, Sequence[tuple[tuple[int, ...], int]]],
) -> Refutation | None:
    """Return a point that is only in the first union, for tables of the chosen families, or `None`.

    Args:
        first: The union that may have more points.
        second: The other union.
        tables: For each table, the intervals of the index and of the values that are read.
        chosen: The family of each table.
        listed: The listed entries of each table, for the result.
    """
    formulas: dict[_Key, Expr] = {}
    boxes: list[Interval] = []
    for key, (element, parameters) in chosen.items():
        # Parameters of all tables share one list of coordinates, so each table's are renumbered.
        own: dict[Var, Expr] = {Runtime(i): Runtime(len(boxes) + i) for i in range(len(parameters))}
        formulas[key] = clamped(substitute(element, own), tables[key][1])
        boxes += parameters
    known = [[_with_formulas(b, formulas, boxes) for b in side] for side in (first, second)]
    # With formulas in place of reads, nothing is read any more, and inclusion is decided exactly.
    found, is_exact = StatementSets([*known[0], *known[1]]).included(*known)
    if found is None or not is_exact:
        return None
    rank = len(found.point) - len(boxes)
    values: dict[Var, Expr] = {Runtime(i): Const(v) for i, v in enumerate(found.point[rank:])}
    said = tuple(
        [
            RefutingTable(key[0], tuple(listed.get(key[0], ())), substitute(e, values))
            for key, e in formulas.items()
        ]
    )
    return Refutation(found.point[:rank], said)


def _tables(bodies: Sequence[Body]) -> _Tables:
    """Return, for each table that the bodies read, the intervals of the index and of the values."""
    found: dict[_Key, tuple[list[Interval], Interval]] = {}
    for body in bodies:
        box: dict[Var, Interval] = {Range(i): side for i, side in enumerate(body.box)}
        for read in body.reads:
            index = [bounds(e, box) for e in read.index]
            key = read.table, len(index)
            if key in found:
                index = [a | b for a, b in zip(found[key][0], index, strict=True)]
            found[key] = index, body.box[read.value.index]
    return found


def _with_formulas(body: Body, formulas: Mapping[_Key, Expr], boxes: Sequence[Interval]) -> Body:
    """Return the body with each read replaced by a formula.

    Args:
        body: The body.
        formulas: The element of each table, over its index `Dim(j)` and parameters `Runtime(i)`.
        boxes: The interval of each parameter. The parameters become further coordinates of the
            point.
    """
    n = len(body.box)
    parameters = [Range(n + i) for i in range(len(boxes))]
    new: dict[Var, Expr] = {Runtime(i): p for i, p in enumerate(parameters)}
    constraints = [*body.constraints]
    for read in body.reads:
        at: dict[Var, Expr] = new | {Dim(j): e for j, e in enumerate(read.index)}
        value = substitute(formulas[read.table, len(read.index)], at)
        constraints.append((read.value - value, Interval.point(0)))
    box = (*body.box, *boxes)
    return Body(box, tuple(constraints), (*body.point, *parameters))
