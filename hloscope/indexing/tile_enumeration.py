"""Counts of images of tiles by enumerating elements, or one period of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import lcm, prod
from typing import Any, Final

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    FloorDiv,
    Mod,
    Sum,
    Var,
    children,
    evaluate_array,
    postorder,
)
from hloscope.indexing.evaluate import distinct_rows, row_keys, unravel
from hloscope.indexing.tile_images import Images, Missing, Part, Shape, Shared, most_frequent
from hloscope.support.arrays import Bools, Ints, np

BUDGET: Final = 1 << 21
"""Maximum number of points of one part that are enumerated."""
_LARGEST: Final = 1 << 62


def enumerated(parts: Sequence[Part], budget: int = BUDGET) -> Images | None:
    """Return the counts of the images of tiles under the union of some parts, by enumeration.

    The result is `None` if the parts have more points than the budget.

    Args:
        parts: Parts with the same dimensions and tiles, of one tensor.
        budget: Maximum number of points.
    """
    if sum([part.points for part in parts]) > budget:
        return None
    tables = [_table(part) for part in parts]
    rows = np.concatenate([table for table in tables if len(table)] or [tables[0]])
    return counted(rows, parts[0].whole, "enumeration")


def _table(part: Part) -> Ints:
    """Return a table with a row for each point of the domain.

    A row has the number of the tile along each dimension, then the element.
    """
    names = [*part.intervals]
    sizes = [part.intervals[v].size for v in names]
    count = prod(sizes)
    if count == 0:
        return np.zeros((0, len(part.dims) + len(part.results)), dtype=np.int64)
    index = unravel(np.arange(count, dtype=np.int64), sizes)
    at: dict[Var, Any] = {v: i + part.intervals[v].lo for v, i in zip(names, index, strict=True)}
    return rows_of(part, at, count)


def rows_of(part: Part, at: dict[Var, Any], count: int) -> Ints:
    """Return a table with a row for each of the points `at` that satisfies the constraints.

    A row has the number of the tile along each dimension, then the element.

    Args:
        part: The part.
        at: For each variable, its values at `count` points.
        count: Number of points.
    """
    columns = [at[Dim(d)] // size for d, size in zip(part.dims, part.tiles, strict=True)]
    columns += [evaluate_array(e, at) for e in part.results]
    table = np.zeros((count, len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        table[:, k] = column
    holds = np.ones(count, dtype=bool)
    for e, interval in part.constraints:
        found = evaluate_array(e, at)
        holds &= (found >= interval.lo) & (found <= interval.hi)
    return table[holds]


def counted(rows: Ints, whole: Sequence[int], method: str) -> Images | None:
    """Return the counts that a table of pairs (tile, element) gives; rows may repeat.

    Args:
        rows: The table.
        whole: Number of tiles that lie wholly in the output, along each dimension.
        method: Name of the method that made the table.
    """
    dims = len(whole)
    if not len(rows):
        return Images(0, 0, 0, 0, 0, 0, 0, 0, (), (), None, method=method)
    rows = distinct_rows(rows)
    tile_keys, element_keys = row_keys(rows[:, :dims]), row_keys(rows[:, dims:])
    # Sorted by tile, each tile is one consecutive group of rows.
    order = np.argsort(tile_keys, kind="stable")
    rows, tile_keys, element_keys = rows[order], tile_keys[order], element_keys[order]
    starts = np.flatnonzero(np.r_[True, tile_keys[1:] != tile_keys[:-1]])
    counts = np.diff(np.r_[starts, len(rows)])
    sizes, strides = _hulls(rows[:, dims:], starts, counts)
    hulls = sizes.prod(axis=1) if sizes.shape[1] else np.ones(len(starts), dtype=np.int64)
    different, times = np.unique(element_keys, return_counts=True)
    # An image is a strided box if it has as many elements as its hull.
    is_whole = hulls == counts
    is_inner = (rows[starts, :dims] < np.array(whole, dtype=np.int64)).all(axis=1)
    return Images(
        tiles=len(starts),
        whole=int(is_whole.sum()),
        total=len(rows),
        hull=int(hulls.sum()),
        union=len(different),
        once=int((times == 1).sum()),
        least=int(counts.min()),
        most=int(counts.max()),
        shapes=_shapes(sizes, strides),
        inner=_shapes(sizes[is_inner], strides[is_inner]),
        some=(_tuple(rows[0, :dims]), _tuple(rows[0, dims:])),
        missing=_missing_in(rows, dims, starts, counts, is_whole, strides),
        shared=_shared_in(rows, dims, element_keys, different, times),
        method=method,
    )


def _tuple(row: Ints) -> tuple[int, ...]:
    return tuple(row.tolist())


def _hulls(elements: Ints, starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return sizes and strides of the smallest strided boxes around groups of rows.

    Group `k` has the `counts[k]` rows of `elements` from row `starts[k]` on.
    """
    if not elements.shape[1]:
        return (np.zeros((len(starts), 0), dtype=np.int64),) * 2
    low = np.minimum.reduceat(elements, starts, axis=0)
    high = np.maximum.reduceat(elements, starts, axis=0)
    # The stride is the greatest common divisor of the distances from the lowest element.
    strides = np.gcd.reduceat(elements - np.repeat(low, counts, axis=0), starts, axis=0)
    sizes = (high - low) // np.maximum(strides, 1) + 1
    return sizes, strides


def _shapes(sizes: Ints, strides: Ints) -> tuple[tuple[Shape, int], ...]:
    """Return the different shapes, most frequent first, each with its number of rows.

    `sizes` and `strides` have a row for each tile.
    """
    rank = sizes.shape[1]
    if not len(sizes):
        return ()
    found, counts = np.unique(np.concatenate([sizes, strides], axis=1), axis=0, return_counts=True)
    return most_frequent(
        {
            Shape(_tuple(row[:rank]), _tuple(row[rank:])): int(n)
            for row, n in zip(found, counts, strict=True)
        }
    )


def _missing_in(
    rows: Ints,
    dims: int,
    starts: Ints,
    counts: Ints,
    is_whole: Bools,
    strides: Ints,
) -> Missing | None:
    if is_whole.all():
        return None
    k = int(np.flatnonzero(~is_whole)[0])
    mine = rows[starts[k] : starts[k] + counts[k]]
    present = {_tuple(row) for row in mine[:, dims:]}
    low, high = mine[:, dims:].min(axis=0), mine[:, dims:].max(axis=0)
    sides = [
        range(int(a), int(b) + 1, max(int(s), 1))
        for a, b, s in zip(low, high, strides[k], strict=True)
    ]
    element = next(e for e in product(*sides) if e not in present)
    return Missing(_tuple(mine[0, :dims]), element)


def _shared_in(
    rows: Ints,
    dims: int,
    keys: Ints,
    different: Ints,
    times: Ints,
) -> Shared | None:
    several = np.flatnonzero(times > 1)
    if not len(several):
        return None
    a, b = np.flatnonzero(keys == different[several[0]])[:2]
    return Shared((_tuple(rows[a, :dims]), _tuple(rows[b, :dims])), _tuple(rows[a, dims:]))


# --------------------------------------------------------------------------------- periods


def periodic(part: Part, budget: int) -> Images | None:
    """Return the counts of the images of tiles of one dimension, by enumerating one period.

    Tiles that are a period apart have images that are shifted copies. Every quotient and remainder
    of an index repeats, shifted by a constant, after the product of its divisors. The result is
    `None` if the part has another form or the period is too long.
    """
    if len(part.dims) != 1 or len(part.intervals) != 1 or part.constraints:
        return None
    (v,), (tile,) = part.intervals, part.tiles
    interval = part.intervals[v]
    period = _period(part.results)
    if period is None or interval.lo:
        return None
    step = lcm(period, tile)
    periods = (interval.hi + 1) // step
    if step > budget or periods < 2:
        return None
    at = np.arange(step, dtype=np.int64)
    one = rows_of(part, {v: at}, step)
    # If a copy is shifted by more than its extent along some result, copies are disjoint, so counts
    # add up.
    moved = rows_of(part, {v: at + step}, step)[0, 1:] - one[0, 1:]
    spread = one[:, 1:].max(axis=0) - one[:, 1:].min(axis=0)
    if not (np.abs(moved) > spread).any():
        return None  # copies may overlap
    rest = np.arange(periods * step, interval.hi + 1, dtype=np.int64)
    first = counted(one, part.whole, "periods")
    later = rows_of(part, {v: rest}, len(rest))
    last = counted(later, part.whole, "periods") if len(rest) else None
    if first is None or (len(rest) and last is None):
        return None
    return _repeated(first, periods, last)


def _period(results: Sequence[Expr]) -> int | None:
    """Return the number of steps after which every result repeats, shifted by a constant.

    The result is `None` if there is none or it is too large.
    """
    of: dict[Expr, int] = {}
    for e in postorder(*results):
        found = lcm(*[of[x] for x in children(e)])
        if isinstance(e, FloorDiv | Mod):
            if not isinstance(e.den, Const) or e.den.value == 0:
                return None
            found *= abs(e.den.value)
        elif not isinstance(e, Const | Dim | Sum):
            return None
        if found > _LARGEST:
            return None
        of[e] = found
    return lcm(*[of[e] for e in results])


def _repeated(first: Images, times: int, last: Images | None) -> Images:
    """Return the counts of `times` copies of the images `first`, and of `last` if given."""

    def shapes(name: str) -> tuple[tuple[Shape, int], ...]:
        found = {shape: n * times for shape, n in getattr(first, name)}
        for shape, n in getattr(last, name) if last else ():
            found[shape] = found.get(shape, 0) + n
        return most_frequent(found)

    def both(name: str) -> int:
        return int(getattr(first, name)) * times + (int(getattr(last, name)) if last else 0)

    return Images(
        tiles=both("tiles"),
        whole=both("whole"),
        total=both("total"),
        hull=both("hull"),
        union=both("union"),
        once=both("once"),
        least=min([i.least for i in (first, last) if i is not None]),
        most=max([i.most for i in (first, last) if i is not None]),
        shapes=shapes("shapes"),
        inner=shapes("inner"),
        some=first.some,
        missing=first.missing or (last.missing if last else None),
        shared=first.shared or (last.shared if last else None),
        method="periods",
    )
