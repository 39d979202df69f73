"""Exact results about maps with very many divisions, by enumeration of all points.

isl treats each quotient as an unknown, and its steps get slower with the number of unknowns. So isl
gets maps with few divisions or too many points. The other maps become tables of integers with a row
for each pair of an index and a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from hloscope.affine import CeilDiv, Expr, FloorDiv, Interval, Mod, postorder
from hloscope.arrays import Ints as Rows, is_among, np
from hloscope.indexing.base import MapBase
from hloscope.indexing.evaluate import chunks, evaluate_array, satisfies_array
from hloscope.indexing.flat import distinct_rows, row_keys
from hloscope.indexing.transform import symbols_to_dims
from hloscope.simplifier import PROVED, CounterExample, Proof, Verdict, as_tuple

_DIVISIONS: Final = (FloorDiv, CeilDiv, Mod)
FEW: Final = 4
"""Largest number of different divisions of maps that isl gets first."""
MAX_POINTS: Final = 1 << 20
"""Largest number of points of maps that are enumerated."""
MAX_VALUES: Final = 1 << 28
"""Largest number of values of all subexpressions at all points."""


def rows_of(*groups: Sequence[MapBase]) -> list[Rows] | None:
    """Return, for each union of maps, its sorted pairs: an index and a result in each row.

    Returns `None` if isl should be used: no map has many divisions, or a map has too many points or
    runtime variables, or a value does not fit into 64 bits.
    """
    every = [m for maps in groups for m in maps]
    parts = [postorder(*m.results, *[e for e, _ in m.constraints]) for m in every]
    if not any(map(are_many_divisions, parts)):
        return None
    if any([m.runtime for m in every]) or not _are_few(every, parts):
        return None
    found = []
    for maps in groups:
        tables = [table for m in maps if (table := _rows(m)) is not None]
        if len(tables) < len(maps):
            return None
        found.append(_distinct(tables))
    return found


def are_many_divisions(parts: Sequence[Expr]) -> bool:
    """Do expressions with these subexpressions have more divisions than isl should get first?"""
    return sum([isinstance(x, _DIVISIONS) for x in parts]) > FEW


def _are_few(maps: Sequence[MapBase], parts: Sequence[Sequence[Expr]]) -> bool:
    """Are the points and the values of all subexpressions at them few enough to be enumerated?"""
    points = values = 0
    for m, inside in zip(maps, parts, strict=True):
        if any([i.is_empty for i in m.box.values()]):
            continue
        if not all([i.is_finite for i in m.box.values()]):
            return False
        here = prod([i.size for i in m.box.values()])
        points, values = points + here, values + here * len(inside)
    return points <= MAX_POINTS and values <= MAX_VALUES


def _rows(m: MapBase) -> Rows | None:
    """Return the pairs of one map; `None` if a value does not fit into 64 bits."""
    left = len(m.dims)
    tables = [np.zeros((0, left + len(m.results)), np.int64)]
    if any([i.is_empty for i in m.box.values()]):
        return tables[0]
    for values in chunks([*m.box.values()]):
        at = values[:left], values[left:]
        inside = satisfies_array(m, *at, check_bounds=False)
        columns = [*values[:left], *evaluate_array(m, *at)]
        # numpy falls back to Python's integers where int64 is too small.
        if any([c.dtype != np.int64 for c in columns]):
            return None
        if columns:
            columns = [np.broadcast_to(c, inside.shape)[inside] for c in columns]
            tables.append(np.stack(columns, axis=1))
        else:
            tables.append(np.zeros((int(inside.any()), 0), np.int64))
    return np.concatenate(tables)


def _distinct(tables: Sequence[Rows]) -> Rows:
    """Return the different rows of several tables, sorted."""
    if not tables:
        return np.zeros((0, 0), np.int64)
    return distinct_rows(np.concatenate(tables))


def count(maps: Sequence[MapBase]) -> int | None:
    """Return the number of different results of the maps; `None` if isl should be used.

    >>> from hloscope.indexing import IndexingMap
    >>> text = "d0"
    >>> for k in range(8):
    ...     text = f"({text}) / 3 * 4 + ({text}) mod 3"
    >>> count([IndexingMap.parse(f"(d0) -> ({text}), domain: d0 in [0, 99]")])
    100
    """
    found = rows_of(maps)
    if found is None or not maps:
        return None
    return len(_distinct([found[0][:, len(maps[0].dims) :]]))


def subset(
    first: Sequence[MapBase], second: Sequence[MapBase], *, both: bool = False
) -> Proof | None:
    """Prove that `second` has every pair of `first`; with `both`, that they are equal."""
    if (found := rows_of(first, second)) is None or not (first and second):
        return None
    return _compared(found[0], found[1], len(first[0].dims), both=both)


def inverse(first: Sequence[MapBase], second: Sequence[MapBase]) -> Proof | None:
    """Prove that the second union is the inverse of the first."""
    if (found := rows_of(first, second)) is None or not (first and second):
        return None
    a, b = found
    left = len(first[0].dims)
    swapped = np.roll(b, left, axis=1)
    return _compared(a, _distinct([swapped]), left, both=True)


def _compared(a: Rows, b: Rows, num_dims: int, *, both: bool) -> Proof:
    for number, (one, other) in enumerate([(a, b), (b, a)] if both else [(a, b)]):
        if (row := _first_missing(one, other)) is not None:
            example = CounterExample(row[:num_dims], row[num_dims:], only_in=number)
            return Proof(Verdict.REFUTED, example)
    return PROVED


def _first_missing(rows: Rows, others: Rows) -> tuple[int, ...] | None:
    """Return the first row that is not among the others."""
    if not len(rows) or not rows.shape[1]:
        return () if len(rows) and not len(others) else None
    if not len(others):
        return tuple(rows[0].tolist())
    every = np.concatenate([others, rows])
    number = row_keys(every)
    missing = np.flatnonzero(~is_among(number[len(others) :], number[: len(others)]))
    return tuple(rows[missing[0]].tolist()) if len(missing) else None


def empty(maps: Sequence[MapBase]) -> Proof | None:
    """Prove that the union is empty; the counter-example is a pair."""
    if (found := rows_of(maps)) is None or not maps:
        return None
    return _compared(found[0], found[0][:0], len(maps[0].dims), both=False)


def one_to_one(maps: Sequence[MapBase], *, reverse: bool) -> Proof | None:
    """Prove that every result has one index; with `reverse`, that every index has one result."""
    if (found := rows_of(maps)) is None or not maps:
        return None
    rows, left = found[0], len(maps[0].dims)
    what = "two indices have a result in common"
    if reverse:
        rows, left = np.roll(rows, -left, axis=1), len(maps[0].results)
        what = "an index has two results"
    # Rows are distinct pairs: sorted by the right side, two neighbours with equal right sides
    # differ on the left.
    right = rows[:, left:]
    order = np.lexsort(right.T[::-1]) if right.shape[1] else np.arange(len(rows))
    same = np.flatnonzero((right[order][1:] == right[order][:-1]).all(axis=1))
    if not len(same):
        return PROVED
    two = [tuple(rows[order[same[0] + k], :left].tolist()) for k in (0, 1)]
    said = f"{what}: {as_tuple(two[0])}, {as_tuple(two[1])}"
    return Proof(Verdict.REFUTED, CounterExample(two[0], two[1]), said)


def onto(m: MapBase, boxes: Sequence[Sequence[Interval]]) -> Proof | None:
    """Prove that the domain and the range of the map are exactly two boxes."""
    if max([prod([i.size for i in box]) for box in boxes]) > MAX_POINTS:
        return None
    if (found := rows_of([m])) is None:
        return None
    left = len(m.dims)
    for number, box in enumerate(boxes):
        mine = _distinct([found[0][:, left:] if number else found[0][:, :left]])
        whole = _box_rows(box)
        for rows, others, text in (
            (whole, mine, ("index {} has no result", "nothing leads to {}")),
            (mine, whole, ("index {} is outside", "result {} is outside")),
        ):
            if (at := _first_missing(rows, others)) is not None:
                example = CounterExample((), at) if number else CounterExample(at, ())
                return Proof(Verdict.REFUTED, example, text[number].format(as_tuple(at)))
    return PROVED


def _box_rows(box: Sequence[Interval]) -> Rows:
    if not box:
        return np.zeros((1, 0), np.int64)
    none = np.zeros((0, len(box)), np.int64)
    return np.concatenate([none, *[np.stack(values, axis=1) for values in chunks(box)]])


def within(m: MapBase, expr: Expr, interval: Interval) -> Proof | None:
    """Prove that an expression stays in the interval on the whole domain."""
    if (found := rows_of([_with_value(m, expr)])) is None:
        return None
    values = found[0][:, -1]
    outside = (values < interval.lo) | (values > interval.hi)
    if not outside.any():
        return PROVED
    row = tuple(found[0][outside.argmax()].tolist())
    return Proof(Verdict.REFUTED, CounterExample(row[:-1], row[-1:]))


def extent(m: MapBase, expr: Expr) -> Interval | None:
    """Return the smallest interval around the values of `expr`; `None` if isl should be used."""
    if (found := rows_of([_with_value(m, expr)])) is None:
        return None
    values = found[0][:, -1]
    return Interval(int(values.min()), int(values.max())) if len(values) else Interval.EMPTY


def _with_value(m: MapBase, expr: Expr) -> MapBase:
    """Return the map from all variables of `m` to the value of `expr`, on the domain of `m`."""
    return symbols_to_dims(m.with_(results=[expr]))
