"""Values of a map at one point, at numpy arrays of points, or at all points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from operator import index
from typing import Any, Final, TypeAlias

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    CeilDiv,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Range,
    Runtime,
    Var,
    evaluate as value_of,
    evaluate_array as values_of,
    postorder,
    to_text,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.transform import symbols_to_dims
from hloscope.simplifier import PROVED, CounterExample, Proof, Verdict, as_tuple
from hloscope.support.arrays import Bools, Ints, Ints as Rows, is_among, np
from hloscope.support.limits import MOST_ARRAY, MOST_DIMENSIONS

# --------------------------------------------------------------------------------------------------
# Values of a map at points: one point, numpy arrays of points, sets of results.


Index: TypeAlias = Sequence[int]
Arrays: TypeAlias = Sequence["Ints | int"]
Point: TypeAlias = tuple[int, ...]

CHUNK: Final = 1 << 16
"""Maximum number of points that are evaluated at once, which bounds the memory."""


def integers(values: Sequence[int], noun: str) -> list[int]:
    """Return numbers as Python's integers; numpy's integers are accepted.

    Args:
        values: The numbers.
        noun: Noun for the numbers in the error message, in the plural.

    Raises:
        TypeError: A number is not an integer.

    >>> integers((4, 1.5), "tile sizes")
    Traceback (most recent call last):
      ...
    TypeError: tile sizes are integers, not 1.5
    """
    try:
        return [*map(index, values)]
    except TypeError:
        wrong = next(value for value in values if not hasattr(value, "__index__"))
        raise TypeError(f"{noun} are integers, not {wrong!r}") from None


def _at(m: MapBase, dims: Index, ranges: Index, runtime: Index) -> dict[Var, int]:
    """Return the value of each variable of a map.

    `dims`, `ranges` and `runtime` have the values of the variables of each kind, in order.

    Raises:
        TypeError: A value is not an integer.
    """
    _check_counts(m, dims, ranges, runtime)
    at: dict[Var, int] = {Dim(i): v for i, v in enumerate(integers(dims, "indices"))}
    at |= {Range(i): v for i, v in enumerate(integers(ranges, "range variables"))}
    return at | {Runtime(i): v for i, v in enumerate(integers(runtime, "runtime variables"))}


def _check_counts(
    m: MapBase, dims: Sequence[object], ranges: Sequence[object], runtime: Sequence[object]
) -> None:
    if m.is_undefined:
        raise ValueError("an undefined map has no values")
    given = len(dims), len(ranges), len(runtime)
    needed = len(m.dims), len(m.ranges), len(m.runtime)
    for count, need, kind in zip(given, needed, ("dimension", "range", "runtime"), strict=True):
        if count != need:
            raise ValueError(f"{count} values for {need} {kind} variables")


def evaluate(
    m: MapBase,
    dims: Index,
    ranges: Index = (),
    runtime: Index = (),
    *,
    check_domain: bool = False,
) -> Point:
    """Return the results of a map at one point.

    `dims`, `ranges` and `runtime` are the values of the variables of each kind.

    Raises:
        TypeError: A value is not an integer.
        ValueError: The number of values is wrong or the map is undefined. With `check_domain`: the
            point does not lie in the domain.
    """
    at = _at(m, dims, ranges, runtime)
    if check_domain:
        for variable, interval in m.box.items():
            if at[variable] not in interval:
                name = m.names[variable]
                raise ValueError(f"{name} = {at[variable]} is outside the domain {interval}")
        for expr, interval in m.constraints:
            if (value := value_of(expr, at)) not in interval:
                text = to_text(expr, m.names)
                raise ValueError(f"{text} = {value} is outside the domain {interval}")
    return tuple([value_of(e, at) for e in m.results])


def evaluate_array(
    m: MapBase, dims: Arrays, ranges: Arrays = (), runtime: Arrays = ()
) -> tuple[Ints, ...]:
    """Return the results of a map at many points, one array per result.

    `dims`, `ranges` and `runtime` have an array of values for each variable; the arrays broadcast.
    """
    at = _arrays(m, dims, ranges, runtime)
    shape = np.broadcast_shapes(*(a.shape for a in at.values())) if at else ()
    return tuple([np.broadcast_to(values_of(e, at), shape) for e in m.results])


def satisfies_array(
    m: MapBase,
    dims: Arrays,
    ranges: Arrays = (),
    runtime: Arrays = (),
    *,
    check_bounds: bool = True,
) -> Bools:
    """Return, for each of many points, whether it lies in the domain of a map.

    `dims`, `ranges` and `runtime` have an array of values for each variable; the arrays broadcast.
    Without `check_bounds` only the constraints are checked.
    """
    return _satisfied(m, _arrays(m, dims, ranges, runtime), check_bounds=check_bounds)


def _arrays(m: MapBase, dims: Arrays, ranges: Arrays, runtime: Arrays) -> dict[Var, Ints]:
    _check_counts(m, dims, ranges, runtime)
    at: dict[Var, Ints] = {}
    for kind, values in ((Dim, dims), (Range, ranges), (Runtime, runtime)):
        at |= {kind(i): np.asarray(v, dtype=np.int64) for i, v in enumerate(values)}
    return at


def _satisfied(m: MapBase, at: dict[Var, Ints], *, check_bounds: bool = True) -> Bools:
    shape = np.broadcast_shapes(*(a.shape for a in at.values())) if at else ()
    ok = np.ones(shape, dtype=np.bool_)
    if check_bounds:
        for variable, interval in m.box.items():
            ok &= (at[variable] >= interval.lo) & (at[variable] <= interval.hi)
    for expr, interval in m.constraints:
        value = values_of(expr, at)
        ok &= (value >= interval.lo) & (value <= interval.hi)
    return ok


def satisfies(
    m: MapBase,
    dims: Index,
    ranges: Index = (),
    runtime: Index = (),
    *,
    check_bounds: bool = True,
) -> bool:
    """Does a point lie in the domain of a map?

    Without `check_bounds`: does it satisfy the constraints?

    `dims`, `ranges` and `runtime` are the values of the variables of each kind.
    """
    at = _at(m, dims, ranges, runtime)
    if check_bounds and not all(i.lo <= at[v] <= i.hi for v, i in m.box.items()):
        return False
    return all(i.lo <= value_of(e, at) <= i.hi for e, i in m.constraints)


def points(m: MapBase, dims: Index, runtime: Index = (), *, limit: int = 1 << 24) -> set[Point]:
    """Return all results of the index `dims`, over all values of the range variables.

    `runtime` has the values of the runtime variables.

    Raises:
        ValueError: The range variables have more than `limit` combinations of values.
    """
    sizes = [max(0, v.interval.hi - v.interval.lo + 1) for v in m.ranges]
    if prod(sizes) > limit:
        raise ValueError(f"{prod(sizes)} values of the range variables are more than {limit}")
    fixed = _at(m, dims, (0,) * len(sizes), runtime)
    if any(not NEG_INF <= value <= POS_INF for value in fixed.values()):
        if sizes:
            raise ValueError("an index does not fit into 64 bits")
        return {evaluate(m, dims, (), runtime)} if satisfies(m, dims, (), runtime) else set()
    return _results_over(m, fixed, {Range(i): v.interval for i, v in enumerate(m.ranges)})


def points_of_box(
    m: MapBase, sides: Sequence[Interval], runtime: Index = (), *, limit: int = 1 << 24
) -> set[Point]:
    """Return all results of the indices in a box; `sides` has an interval for each dimension.

    `runtime` has the values of the runtime variables.

    Raises:
        ValueError: The box and the range variables have more than `limit` combinations of values,
            or an index does not fit into 64 bits.
    """
    running: dict[Var, Interval] = {Dim(i): side for i, side in enumerate(sides)}
    running |= {Range(i): v.interval for i, v in enumerate(m.ranges)}
    if prod([i.size for i in running.values()]) > limit:
        raise ValueError(f"the points of the box are more than {limit}")
    fixed = _at(m, [i.lo for i in sides], [v.interval.lo for v in m.ranges], runtime)
    ends = [*fixed.values(), *[i.hi for i in running.values()]]
    if any(not NEG_INF <= value <= POS_INF for value in ends):
        raise ValueError("an index does not fit into 64 bits")
    return _results_over(m, fixed, running)


def _results_over(
    m: MapBase, fixed: Mapping[Var, int], varying: Mapping[Var, Interval]
) -> set[Point]:
    """Return all results while the `varying` variables take all values of their intervals.

    `fixed` has the values of the other variables.
    """
    touched: set[Point] = set()
    for values in chunks([*varying.values()]):
        at: dict[Var, Ints] = {v: np.asarray(k, np.int64) for v, k in fixed.items()}
        at |= zip(varying, values, strict=True)
        ok = _satisfied(m, at)
        shape = ok.shape
        columns = [np.broadcast_to(values_of(e, at), shape)[ok].tolist() for e in m.results]
        if columns:
            touched.update(zip(*columns, strict=True))
        elif ok.any():
            touched.add(())
    return touched


def chunks(intervals: Sequence[Interval]) -> Iterator[list[Ints]]:
    """Yield all points of a box in row-major order, at most `CHUNK` at once.

    Each item has one array of coordinates per interval.
    """
    sizes = [i.size for i in intervals]
    total = prod(sizes)
    for start in range(0, total, CHUNK):
        flat = np.arange(start, min(start + CHUNK, total))
        unraveled = unravel(flat, sizes)
        yield [u + i.lo for u, i in zip(unraveled, intervals, strict=True)]


# --------------------------------------------------------------------------------------------------
# Exact results about maps with very many divisions, by enumeration of all points.
#
# isl treats each quotient as an unknown, and its steps get slower with the number of unknowns. So
# isl gets maps with few divisions or too many points. The other maps become tables of integers with
# a row for each pair of an index and a result.


_DIVISIONS: Final = (FloorDiv, CeilDiv, Mod)
FEW_DIVISIONS: Final = 4
"""Number of different divisions of maps up to which isl is used first."""
MAX_POINTS: Final = 1 << 20
"""Maximum number of points of maps that are enumerated; with more, isl is used."""
MAX_VALUES: Final = 1 << 28
"""Maximum number of values that an enumeration computes: one per subexpression and point."""


def tables_of_pairs(*groups: Sequence[MapBase]) -> list[Rows] | None:
    """Return one table for each union of maps: a sorted row for each pair (index, result).

    A row has the coordinates of the index, then those of the result. The value is `None` if isl
    should be used: no map has many divisions, or a map has too many points or runtime variables, or
    a value does not fit into 64 bits.
    """
    every = [m for maps in groups for m in maps]
    parts = [postorder(*m.results, *[e for e, _ in m.constraints]) for m in every]
    if not any(map(are_many_divisions, parts)):
        return None
    if any([m.runtime for m in every]) or not _are_few(every, parts):
        return None
    found = []
    for maps in groups:
        tables = [table for m in maps if (table := _table_of_pairs(m)) is not None]
        if len(tables) < len(maps):
            return None
        found.append(_distinct(tables))
    return found


def are_many_divisions(parts: Sequence[Expr]) -> bool:
    """Are there more than `FEW_DIVISIONS` divisions among these subexpressions?"""
    return sum([isinstance(x, _DIVISIONS) for x in parts]) > FEW_DIVISIONS


def _are_few(maps: Sequence[MapBase], parts: Sequence[Sequence[Expr]]) -> bool:
    """Do the maps have few enough points, and values of subexpressions, to be enumerated?

    `parts` has the subexpressions of each map.
    """
    points = values = 0
    for m, inside in zip(maps, parts, strict=True):
        if any([i.is_empty for i in m.box.values()]):
            continue
        if not all([i.is_finite for i in m.box.values()]):
            return False
        here = prod([i.size for i in m.box.values()])
        points, values = points + here, values + here * len(inside)
    return points <= MAX_POINTS and values <= MAX_VALUES


def _table_of_pairs(m: MapBase) -> Rows | None:
    """Return the table of one map, a row per pair; `None` if a value does not fit into 64 bits."""
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
    """Return the different rows of several tables as one table, sorted."""
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
    found = tables_of_pairs(maps)
    if found is None or not maps:
        return None
    return len(_distinct([found[0][:, len(maps[0].dims) :]]))


def subset(
    first: Sequence[MapBase], second: Sequence[MapBase], *, both: bool = False
) -> Proof | None:
    """Prove that every pair of `first` is in `second`; with `both`, that they are equal.

    The result is `None` if isl should be used.
    """
    if (found := tables_of_pairs(first, second)) is None or not (first and second):
        return None
    return _compared(found[0], found[1], len(first[0].dims), both=both)


def inverse(first: Sequence[MapBase], second: Sequence[MapBase]) -> Proof | None:
    """Prove that the second union is the inverse of the first; `None` if isl should be used."""
    if (found := tables_of_pairs(first, second)) is None or not (first and second):
        return None
    a, b = found
    left = len(first[0].dims)
    swapped = np.roll(b, left, axis=1)
    return _compared(a, _distinct([swapped]), left, both=True)


def _compared(a: Rows, b: Rows, num_dims: int, *, both: bool) -> Proof:
    """Prove that all rows of `a` are in `b`; with `both`, that both tables have the same rows.

    A row is a pair (index, result); `num_dims` is the number of coordinates of the index.
    """
    for number, (one, other) in enumerate([(a, b), (b, a)] if both else [(a, b)]):
        if (row := _first_missing(one, other)) is not None:
            example = CounterExample(row[:num_dims], row[num_dims:], only_in=number)
            return Proof(Verdict.REFUTED, example)
    return PROVED


def _first_missing(rows: Rows, others: Rows) -> tuple[int, ...] | None:
    """Return the first row of `rows` that is not in `others`, or `None`."""
    if not len(rows) or not rows.shape[1]:
        return () if len(rows) and not len(others) else None
    if not len(others):
        return tuple(rows[0].tolist())
    every = np.concatenate([others, rows])
    number = row_keys(every)
    missing = np.flatnonzero(~is_among(number[len(others) :], number[: len(others)]))
    return tuple(rows[missing[0]].tolist()) if len(missing) else None


def empty(maps: Sequence[MapBase]) -> Proof | None:
    """Prove that the union of maps is empty; `None` if isl should be used.

    The counter-example is one of its pairs (index, result).
    """
    if (found := tables_of_pairs(maps)) is None or not maps:
        return None
    return _compared(found[0], found[0][:0], len(maps[0].dims), both=False)


def one_to_one(maps: Sequence[MapBase], *, reverse: bool) -> Proof | None:
    """Prove that every result has one index; with `reverse`, that every index has one result.

    The result is `None` if isl should be used.
    """
    if (found := tables_of_pairs(maps)) is None or not maps:
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
    """Prove that the domain of the map is exactly `boxes[0]` and its range exactly `boxes[1]`.

    The result is `None` if isl should be used.
    """
    if max([prod([i.size for i in box]) for box in boxes]) > MAX_POINTS:
        return None
    if (found := tables_of_pairs([m])) is None:
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
    """Return a table with a row for each point of a box, in row-major order."""
    if not box:
        return np.zeros((1, 0), np.int64)
    none = np.zeros((0, len(box)), np.int64)
    return np.concatenate([none, *[np.stack(values, axis=1) for values in chunks(box)]])


def within(m: MapBase, expr: Expr, interval: Interval) -> Proof | None:
    """Prove that the values of `expr` lie in the interval on the whole domain.

    The result is `None` if isl should be used.
    """
    if (found := tables_of_pairs([_with_value(m, expr)])) is None:
        return None
    values = found[0][:, -1]
    outside = (values < interval.lo) | (values > interval.hi)
    if not outside.any():
        return PROVED
    row = tuple(found[0][outside.argmax()].tolist())
    return Proof(Verdict.REFUTED, CounterExample(row[:-1], row[-1:]))


def extent(m: MapBase, expr: Expr) -> Interval | None:
    """Return the smallest interval that contains all values of `expr` on the domain.

    The result is `None` if isl should be used.
    """
    if (found := tables_of_pairs([_with_value(m, expr)])) is None:
        return None
    values = found[0][:, -1]
    return Interval(int(values.min()), int(values.max())) if len(values) else Interval.EMPTY


def _with_value(m: MapBase, expr: Expr) -> MapBase:
    """Return the map from all variables of `m` to the value of `expr`, on the domain of `m`."""
    return symbols_to_dims(m.with_(results=[expr]))


# --------------------------------------------------------------------------------------------------
# Linear positions and sorted rows of indices, with any number of dimensions.


def unravel(flat: Any, sizes: Sequence[int]) -> list[Ints]:
    """Return the index of each linear position in `flat`, one array per dimension, row-major.

    `sizes` has the sizes of the dimensions.

    >>> import numpy
    >>> [i.tolist() for i in unravel(numpy.arange(6), (2, 3))]
    [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    >>> [int(i) for i in unravel(numpy.int64(5), (1,) * 69 + (2, 3))[-3:]]
    [0, 1, 2]
    """
    # numpy's function is faster but has limits; the loop below has none.
    if len(sizes) <= MOST_DIMENSIONS and prod(filter(None, sizes)) <= MOST_ARRAY:
        return [*np.unravel_index(flat, sizes)] if sizes else []
    index = []
    for size in reversed(sizes):
        index.append(flat % size)
        flat = flat // size
    return index[::-1]


def ravel(index: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """Return the row-major linear position of each index in an array of the sizes `sizes`.

    `index` has one array of coordinates per dimension, at least one.

    >>> import numpy
    >>> ravel(unravel(numpy.arange(6), (2, 3)), (2, 3)).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    flat = index[0]
    for i, size in zip(index[1:], sizes[1:], strict=True):
        flat = flat * size + i
    return flat


_LARGEST_KEY: Final = 1 << 62


def row_keys(rows: Ints) -> Ints:
    """Return one integer per row; the integers sort as the rows do and are equal for equal rows.

    Integers are compared, sorted and looked up some twenty times as fast as whole rows.

    >>> import numpy
    >>> row_keys(numpy.array([[1, 5], [0, 7], [1, 4]])).tolist()
    [5, 3, 4]
    >>> row_keys(numpy.array([[1, 2**62], [-(2**62), 5], [1, 2**62], [1, 7]])).tolist()
    [2, 0, 2, 1]
    """
    keys: Ints = np.zeros(len(rows), dtype=np.int64)
    largest = 1
    for k in range(rows.shape[1] if len(rows) else 0):
        column = rows[:, k]
        # Each column is shifted to start at 0, and its span is the radix: the key is the row-major
        # position in the bounding box.
        low = column.min()
        span = int(column.max()) - int(low) + 1
        largest *= span
        if largest > _LARGEST_KEY:
            return _ranks(rows)
        keys = keys * span + (column - low)
    return keys


def _ranks(rows: Ints) -> Ints:
    """Return, for each row, the number of different rows that sort before it."""
    order = np.lexsort(rows.T[::-1])
    is_new = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    ranks: Ints = np.zeros(len(rows), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(is_new)
    return ranks


def distinct_rows(rows: Ints) -> Ints:
    """Return the different rows, sorted.

    >>> import numpy
    >>> distinct_rows(numpy.array([[1, 2], [0, 5], [1, 2]])).tolist()
    [[0, 5], [1, 2]]
    """
    if not len(rows) or not rows.shape[1]:
        return rows[:1]
    keys = row_keys(rows)
    order = np.argsort(keys, kind="stable")
    is_new = np.ones(len(keys), dtype=np.bool_)
    is_new[1:] = keys[order[1:]] != keys[order[:-1]]
    found: Ints = rows[order[is_new]]
    return found
