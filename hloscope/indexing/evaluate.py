"""Values of a map at points: one point, numpy arrays of points, sets of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from operator import index
from typing import Final, TypeAlias

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Dim,
    Interval,
    Range,
    Runtime,
    Var,
    evaluate as value_of,
    evaluate_array as values_of,
    to_text,
)
from hloscope.arrays import Bools, Ints, np
from hloscope.indexing.base import MapBase
from hloscope.indexing.flat import unravel

Index: TypeAlias = Sequence[int]
Arrays: TypeAlias = Sequence["Ints | int"]
Point: TypeAlias = tuple[int, ...]

CHUNK: Final = 1 << 16
"""Number of points evaluated at once, which bounds the memory."""


def integers(values: Sequence[int], what: str) -> list[int]:
    """Return numbers as plain integers; integers of numpy are taken, too.

    Args:
        values: The numbers.
        what: Their name in the message, in the plural.

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
        raise TypeError(f"{what} are integers, not {wrong!r}") from None


def _at(m: MapBase, dims: Index, ranges: Index, runtime: Index) -> dict[Var, int]:
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
    """Return the results at one point.

    Raises:
        ValueError: With `check_domain`: the point does not lie in the domain.
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
    """Return the results at many points; each variable has an array, and shapes broadcast."""
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
    """Return whether each of many points lies in the domain; arrays broadcast."""
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
    """Does one point lie in the domain? Without `check_bounds`: are the constraints satisfied?"""
    at = _at(m, dims, ranges, runtime)
    if check_bounds and not all(i.lo <= at[v] <= i.hi for v, i in m.box.items()):
        return False
    return all(i.lo <= value_of(e, at) <= i.hi for e, i in m.constraints)


def points(m: MapBase, dims: Index, runtime: Index = (), *, limit: int = 1 << 24) -> set[Point]:
    """Return every index that one index maps to, over all values of the range variables.

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
    return _touched(m, fixed, {Range(i): v.interval for i, v in enumerate(m.ranges)})


def points_of_box(
    m: MapBase, sides: Sequence[Interval], runtime: Index = (), *, limit: int = 1 << 24
) -> set[Point]:
    """Return every index that the indices of a box map to; `sides` has its intervals.

    Raises:
        ValueError: The box and the range variables have more than `limit` combinations of
            values, or an index does not fit into 64 bits.
    """
    running: dict[Var, Interval] = {Dim(i): side for i, side in enumerate(sides)}
    running |= {Range(i): v.interval for i, v in enumerate(m.ranges)}
    if prod([i.size for i in running.values()]) > limit:
        raise ValueError(f"the points of the box are more than {limit}")
    fixed = _at(m, [i.lo for i in sides], [v.interval.lo for v in m.ranges], runtime)
    ends = [*fixed.values(), *[i.hi for i in running.values()]]
    if any(not NEG_INF <= value <= POS_INF for value in ends):
        raise ValueError("an index does not fit into 64 bits")
    return _touched(m, fixed, running)


def _touched(m: MapBase, fixed: Mapping[Var, int], running: Mapping[Var, Interval]) -> set[Point]:
    """Return the results with `running` variables over their intervals and the others fixed."""
    touched: set[Point] = set()
    for values in chunks([*running.values()]):
        at: dict[Var, Ints] = {v: np.asarray(k, np.int64) for v, k in fixed.items()}
        at |= zip(running, values, strict=True)
        ok = _satisfied(m, at)
        shape = ok.shape
        columns = [np.broadcast_to(values_of(e, at), shape)[ok].tolist() for e in m.results]
        if columns:
            touched.update(zip(*columns, strict=True))
        elif ok.any():
            touched.add(())
    return touched


def chunks(intervals: Sequence[Interval]) -> Iterator[list[Ints]]:
    """Yield all points of the intervals in row-major order, at most `CHUNK` at once."""
    sizes = [i.size for i in intervals]
    total = prod(sizes)
    for start in range(0, total, CHUNK):
        flat = np.arange(start, min(start + CHUNK, total))
        unraveled = unravel(flat, sizes)
        yield [u + i.lo for u, i in zip(unraveled, intervals, strict=True)]
