"""Families of tables that may refute a statement about values read at run time.

Each family gives every element of a table by a formula. A statement that is not proved for every
table may still be true. It is false if it is false for one table, and for a table given by a
formula isl decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    ZERO,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    bounds,
    maximum,
    minimum,
    substitute,
)
from hloscope.simplifier.isl_tables import Body, Witness, clamped, included

Formula: TypeAlias = tuple[Expr, tuple[Interval, ...]]
"""An element over `Dim(i)`, its index, and `Runtime(i)`, parameters.

With the intervals of the parameters.
"""
ANY: Final = Interval.EVERYTHING
MAX_LISTED: Final = 8
"""Largest number of listed elements of a table that is tried."""

_Key: TypeAlias = tuple[Hashable, int]
_Tables: TypeAlias = Mapping[_Key, tuple[Sequence[Interval], Interval]]
"""The intervals of the indices at which each table is read, and of its values."""


def one_apart(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables with one element that differs from the others.

    Its index and both values are parameters.
    """
    rank = len(index)
    here = _is_at([Dim(j) - Runtime(j) for j in range(rank)])
    element = Runtime(rank) + here * Runtime(rank + 1)
    return element, (*index, values, ANY)


def rising(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables that count upwards in row-major order from a parameter."""
    return _number(index) + Runtime(0), (ANY,)


def falling(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables that count downwards in row-major order from a parameter."""
    return Runtime(0) - _number(index), (ANY,)


def diagonal(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables whose element is a parameter plus the sum of its index."""
    return sum((Dim(j) for j in range(len(index))), Runtime(0)), (ANY,)


def alternating(index: Sequence[Interval], values: Interval) -> Formula:
    """Return the family of tables that alternate between the least and the greatest value."""
    low, high = (values.lo, values.hi) if values.is_finite else (0, 1)
    total = sum((Dim(j) for j in range(len(index))), Runtime(0))
    return low + total % 2 * (high - low), (Interval(0, 1),)


def _number(index: Sequence[Interval]) -> Expr:
    number: Expr = ZERO
    for j, side in enumerate(index):
        number = number * (side.size if side.is_finite else 1) + Dim(j)
    return number


def as_listed(rank: int, entries: Sequence[tuple[tuple[int, ...], int]]) -> Formula:
    """Return the family of tables with the listed elements; all others equal a parameter."""
    element: Expr = Runtime(0)
    for index, value in entries:
        here = _is_at([Dim(j) - k for j, k in zip(range(rank), index, strict=True)])
        element = element + here * value - here * Runtime(0)
    return element, (ANY,)


def _is_at(differences: Sequence[Expr]) -> Expr:
    """Return an expression that is 1 where all differences are 0, else 0."""
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


class Known(Struct, frozen=True):
    """A table of a refutation: its listed elements, and a formula over `Dim(i)` for the others."""

    table: Hashable
    entries: tuple[tuple[tuple[int, ...], int], ...]
    formula: Expr


class Refutation(Struct, frozen=True):
    """A point of the first union that is not in the second, for the given tables."""

    point: tuple[int, ...]
    tables: tuple[Known, ...]


def refutations(
    isl: Any, first: Sequence[Body], second: Sequence[Body], hint: Witness | None
) -> Iterator[Refutation | None]:
    """Yield, for each family, a point that is only in the first union, or `None`.

    Args:
        isl: The library, within its budget.
        first: The union that may have more points.
        second: The other union.
        hint: A point that was not proved to be in the second union; its tables are tried first.
    """
    tables = _tables([*first, *second])
    if hint is not None and len(hint.entries) <= MAX_LISTED:
        listed: dict[Hashable, list[tuple[tuple[int, ...], int]]] = {}
        for table, at, value in hint.entries:
            listed.setdefault(table, []).append((at, value))
        chosen = {key: as_listed(key[1], listed.get(key[0], ())) for key in tables}
        yield _refutation(isl, first, second, tables, chosen, listed)
    for family in FAMILIES:
        chosen = {key: family(*known) for key, known in tables.items()}
        yield _refutation(isl, first, second, tables, chosen, {})


def _refutation(
    isl: Any,
    first: Sequence[Body],
    second: Sequence[Body],
    tables: _Tables,
    chosen: Mapping[_Key, Formula],
    listed: Mapping[Hashable, Sequence[tuple[tuple[int, ...], int]]],
) -> Refutation | None:
    formulas: dict[_Key, Expr] = {}
    boxes: list[Interval] = []
    for key, (element, parameters) in chosen.items():
        # Parameters of all tables share one list of coordinates, so each table's are renumbered.
        own: dict[Var, Expr] = {Runtime(i): Runtime(len(boxes) + i) for i in range(len(parameters))}
        formulas[key] = clamped(substitute(element, own), tables[key][1])
        boxes += parameters
    known = [[_with_formulas(b, formulas, boxes) for b in side] for side in (first, second)]
    # With formulas in place of reads, nothing is read any more, and inclusion is decided exactly.
    found, is_exact = included(isl, *known)
    if found is None or not is_exact:
        return None
    rank = len(found.point) - len(boxes)
    values: dict[Var, Expr] = {Runtime(i): Const(v) for i, v in enumerate(found.point[rank:])}
    said = tuple(
        [
            Known(key[0], tuple(listed.get(key[0], ())), substitute(e, values))
            for key, e in formulas.items()
        ]
    )
    return Refutation(found.point[:rank], said)


def _tables(bodies: Sequence[Body]) -> _Tables:
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
    """Return the body with each read replaced by its formula.

    The parameters become further coordinates.
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
