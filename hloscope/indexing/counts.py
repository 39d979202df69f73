"""Numbers of different results of maps: exact, or bounds if values read at run time decide them.

A value that is read can shift elements, make some of them equal, or decide which elements there
are. A shift changes no number, as the other coordinates distinguish the results. For the other
cases the smallest and the largest number are bounds, which perhaps no run attains.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

import hloscope.indexing.evaluate as enumerated
from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Sum,
    Var,
    as_sum,
    bounds,
    children,
    depends_on_runtime,
    linear,
    variables,
)
from hloscope.errors import UnsupportedError
from hloscope.indexing.base import M, MapBase
from hloscope.indexing.claims import index_variables
from hloscope.indexing.evaluate import Point, points
from hloscope.indexing.proofs import runtime_keys, system_of
from hloscope.indexing.simplify import simplify
from hloscope.indexing.transform import dims_to_ranges, with_values
from hloscope.indexing.variables import (
    Variable,
    renamed,
    substituted,
    substituted_constraints,
)
from hloscope.simplifier import BUDGET, UndecidedError, count_results

MAX_ENUMERATED: Final = 1 << 22
"""Maximum number of points that are enumerated if isl does not count them."""
COUNTING: Final = 500_000
"""Maximum number of isl's steps for one count.

isl enumerates points when it counts, where a step takes longer than in proofs.
"""
MAX_VALUES: Final = 64
"""Maximum number of combinations of runtime values that are tried one by one."""


def card(maps: Sequence[M], *, budget: int = BUDGET) -> int:
    """Return the number of different results of all maps together, over their whole domains.

    `budget` limits the number of isl's steps.

    Raises:
        UnsupportedError: The number is undecided, or depends on values read at run time. The
            message states why, or the bounds.

    >>> from hloscope.indexing import IndexingMap
    >>> card([IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 4]")])
    4
    """
    kept = _nonempty(maps)
    if not any(m.runtime for m in kept):
        return _count_static(kept, budget)
    low, high = card_bounds(kept, budget=budget)
    if low == high:
        return low
    raise UnsupportedError(
        f"the number of elements is undecided: runtime variables decide it, {low} to {high}"
    )


def card_bounds(maps: Sequence[M], *, budget: int = BUDGET) -> tuple[int, int]:
    """Return a lower and an upper bound of the number of different results of all maps together.

    They hold for all runtime values. `budget` limits the number of isl's steps.

    Raises:
        UnsupportedError: The number is infinite.

    >>> from hloscope.indexing import IndexingMap
    >>> scaled = "(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 3], rt0 in [0, 4]"
    >>> card_bounds([IndexingMap.parse(scaled)])
    (1, 4)
    """
    kept = _nonempty(maps)
    if not any(m.runtime for m in kept):
        try:
            count = _count_static(kept, budget)
        except UnsupportedError:
            return 0, min(_hull_size(kept), sum(map(_box_size, kept)))
        return count, count
    found = _count_each_value(kept, budget)
    if found is None:
        most = min(sum(_upper_bound(m, budget) for m in kept), _hull_size(kept))
        found = min(max(_lower_bound(m, budget) for m in kept), most), most
    return found


def _nonempty(maps: Sequence[M]) -> list[M]:
    kept = [m for m in maps if not m.is_known_empty]
    return [_without_shift(kept[0])] if len(kept) == 1 else kept


def _count_static(maps: Sequence[M], budget: int) -> int:
    """Return the number of results of maps without runtime variables.

    Four methods, the fastest first: a product over results that share no variable, each dense or a
    mixed radix; enumeration of maps with many divisions and few points; isl; enumeration of at most
    `MAX_ENUMERATED` points.
    """
    if len(maps) == 1 and (quick := _product_of_counts(maps[0])) is not None:
        return quick
    if (known := enumerated.count(maps)) is not None:
        return known
    try:
        return count_results([*map(system_of, maps)], budget=min(budget, COUNTING))
    except UndecidedError as error:
        size = sum(map(_box_size, maps))
        if size <= MAX_ENUMERATED:
            return len(set[Point]().union(*(points(dims_to_ranges(m), ()) for m in maps)))
        reason = (
            f"{error}, and {size} points are more than the {MAX_ENUMERATED} that are enumerated"
        )
        raise UnsupportedError(f"the number of elements is undecided: {reason}") from None


def _box_size(m: MapBase) -> int:
    """Return the number of points of the box of dimensions and ranges."""
    return prod(v.interval.size for v in (*m.dims, *m.ranges))


def _hull_size(maps: Sequence[MapBase]) -> int:
    """Return the number of points of the smallest box that contains all results.

    Raises:
        UnsupportedError: The box is infinite.
    """
    sides = [Interval.EMPTY] * (len(maps[0].results) if maps else 0)
    for m in maps:
        sides = [a | m.domain.bounds(e) for a, e in zip(sides, m.results, strict=True)]
    if not all(side.is_finite for side in sides):
        raise UnsupportedError("the number of elements is undecided: there is no end of them")
    return prod(side.size for side in sides)


# ------------------------------------------------------------------------------ what is only moved


def _without_shift(m: M) -> M:
    """Return a map with equally many results, without runtime variables that only shift results.

    Such a variable is a term of a result, and other results determine its value: the shift of
    `x[i[d0]]` in row `d0` follows from `d0`.
    """
    if (
        not m.runtime
        or any(v.is_condition for v in m.runtime)
        or depends_on_runtime(*[e for e, _ in m.constraints])
    ):
        return m
    results = [*m.results]
    known: set[Var] = {v for v, side in m.box.items() if side.is_point}
    # The set of variables known from the results grows until nothing changes. A scaled variable is
    # known from its result, and a runtime variable if its index is known.
    before = None
    while before != (results, len(known)):
        before = [*results], len(known)
        for e in results:
            used = variables(e)
            if (
                not depends_on_runtime(e)
                and len(used) == 1
                and len(as_sum(e)[0]) == 1
                and as_sum(e)[0][0][0] in used
            ):
                known |= used  # the term is a scaled variable plus a constant
        known |= {Runtime(i) for i, v in enumerate(m.runtime) if variables(*v.arguments) <= known}
        # Subtracting a known term from a result is a bijection on results, so their number stays.
        for k, e in enumerate(results):
            moved = [(t, c) for t, c in as_sum(e)[0] if isinstance(t, Runtime) and t in known]
            rest = e - sum((t * c for t, c in moved), Const(0))
            if moved and not depends_on_runtime(rest):
                results[k] = rest
    if depends_on_runtime(*results):
        return m.with_(results=results)
    return m.with_(results=results, runtime=())


# ----------------------------------------------------------------------- where what is read decides


def _count_each_value(maps: Sequence[M], budget: int) -> tuple[int, int] | None:
    """Return the smallest and the largest number of results over all runtime values.

    The result is `None` if there are more than `MAX_VALUES` combinations of runtime values, if a
    runtime value varies with the index, or if a number is undecided.
    """
    values: dict[Hashable, Interval] = {}
    for m in maps:
        for i, (v, key) in enumerate(zip(m.runtime, runtime_keys(m), strict=True)):
            # A value whose index varies is not one integer but a table.
            if index_variables(m, i) or depends_on_runtime(*v.arguments):
                return None
            values[key] = values.get(key, Interval.EMPTY) | v.values
    if prod(side.size for side in values.values()) > MAX_VALUES:
        return None
    counts = set()
    for chosen in product(*values.values()):
        at = dict(zip(values, chosen, strict=True))
        fixed = [with_values(m, [at[key] for key in runtime_keys(m)]) for m in maps]
        try:
            counts.add(
                _count_static([m for m in fixed if not m.is_known_empty], budget // MAX_VALUES)
            )
        except UnsupportedError:
            return None
    return min(counts), max(counts)


def _upper_bound(m: M, budget: int) -> int:
    """Return an upper bound of the number of results, for all runtime values.

    Expressions without runtime variables, and the indices at which runtime values are read,
    together determine a result. Their number of different values is the bound.
    """
    parts = tuple(dict.fromkeys(part for e in m.results for part in _determining_parts(m, e)))
    constraints = [c for c in m.constraints if not depends_on_runtime(c[0])]
    told = m.with_(results=parts, runtime=(), constraints=constraints)
    try:
        return 0 if told.is_known_empty else _count_static([told], budget)
    except UnsupportedError:
        return prod(m.box[v].size for v in variables(*parts))


def _determining_parts(m: MapBase, e: Expr) -> Iterator[Expr]:
    """Yield expressions without runtime variables that determine `e` if the tensors read are fixed.

    They are the terms of `e` without runtime variables, and the indices at which runtime variables
    are read.
    """
    if not depends_on_runtime(e):
        yield e
    elif isinstance(e, Runtime):
        for index in m.runtime[e.index].arguments:
            yield from _determining_parts(m, index)
    elif isinstance(e, Sum):
        yield linear(*[(t, c) for t, c in e.terms if not depends_on_runtime(t)])
        for t, _ in e.terms:
            if depends_on_runtime(t):
                yield from _determining_parts(m, t)
    else:
        for child in children(e):
            yield from _determining_parts(m, child)


def _lower_bound(m: M, budget: int) -> int:
    """Return a lower bound of the number of results, for all runtime values.

    It is the larger of two numbers: the results that differ in coordinates without runtime
    variables, and the results while all indices of runtime variables are fixed.
    """
    sure = _certain_part(m)
    if sure is None:
        return 0
    counts = [_count_unread(sure, budget)]
    used = set[Var]().union(*(index_variables(m, i) for i in range(len(m.runtime))))
    # At a fixed index every runtime value is one number, so it only shifts results. Any index gives
    # a valid bound; the ends and the middle are tried.
    for end in (0, 1, 2):
        sides = {v: m.box[v] for v in used}
        at: dict[Var, Expr] = {
            v: Const((side.lo, (side.lo + side.hi) // 2, side.hi)[end]) for v, side in sides.items()
        }
        fixed = sure.with_(
            dims=[Variable(Interval.point(0)) if Dim(i) in at else v for i, v in enumerate(m.dims)],
            ranges=[
                Variable(Interval.point(0)) if Range(i) in at else v for i, v in enumerate(m.ranges)
            ],
            runtime=[renamed(v, at) for v in sure.runtime],
            results=substituted(sure.results, at),
            constraints=substituted_constraints(sure.constraints, at),
        )
        counts.append(_count_unread(_without_shift(fixed), budget))
    return max(counts)


def _count_unread(m: M, budget: int) -> int:
    """Return the number of results that differ in coordinates without runtime variables."""
    unread = simplify(
        m.with_(results=[e for e in m.results if not depends_on_runtime(e)], runtime=())
    )
    try:
        return 0 if unread.is_known_empty else _count_static([unread], budget)
    except UnsupportedError:
        return 0


def _certain_part(m: M) -> M | None:
    """Return the map restricted to points that are in its domain for all runtime values.

    The result is `None` if no such restriction is found.
    """
    if any(v.is_condition for v in m.runtime):
        return None
    constraints = []
    for e, interval in m.constraints:
        if not depends_on_runtime(e):
            constraints.append((e, interval))
            continue
        # The constraint holds for every value read if it holds for both ends of the part that is
        # read.
        read = linear(*[(t, c) for t, c in as_sum(e)[0] if depends_on_runtime(t)])
        rest = e - read
        values = bounds(read, m.box)
        if depends_on_runtime(rest) or not values.is_finite:
            return None
        low = interval.lo if interval.lo == NEG_INF else interval.lo - values.lo
        high = interval.hi if interval.hi == POS_INF else interval.hi - values.hi
        if low > high:
            return None
        constraints.append((rest, Interval(low, high)))
    return m.with_(constraints=constraints)


# ------------------------------------------------------------------------------------ fast products


def _product_of_counts(m: M) -> int | None:
    """Return the number of results as a product of the numbers of values of each result.

    The result is `None` if results share variables, or there are constraints or runtime variables.
    """
    if m.constraints or m.runtime:
        return None
    seen: set[Var] = set()
    total = 1
    for e in m.results:
        used = variables(e)
        count = _number_of_values(e, m.box)
        # Results without common variables vary independently, so their numbers multiply.
        if count is None or used & seen:
            return None
        seen |= used
        total *= count
    return total


def _number_of_values(e: Expr, box: Mapping[Var, Interval]) -> int | None:
    """Return the number of values of a sum of scaled variables; `None` for sums of no known form.

    The values are dense, or each coefficient exceeds all sums of the smaller terms (a mixed radix).
    """
    if isinstance(e, Const):
        return 1
    terms, _ = as_sum(e)
    sizes: list[tuple[int, int]] = []
    for t, c in terms:
        if not isinstance(t, Dim | Range) or not box[t].is_finite:
            return None
        sizes.append((abs(c), box[t].size))
    step, count, reach, is_dense = 0, 1, 0, True  # the values of the terms so far are in [0, reach]
    for c, size in sorted(sizes):
        if size == 1:
            continue
        if count == 1:
            step, count = c, size
        # Dense: the values are all multiples of `step` in a range, and the new variable extends it
        # without a gap.
        elif is_dense and c % step == 0 and c // step <= count:
            count += (size - 1) * (c // step)
        # Mixed radix: the coefficient exceeds all smaller values, so no two sums are equal.
        elif c > reach:
            count, is_dense = count * size, False
        else:
            return None
        reach += c * (size - 1)
    return count
