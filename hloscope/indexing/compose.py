"""Composition of maps: apply one map, then another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from hloscope.affine import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Range,
    Runtime,
    Sum,
    Var,
    as_sum,
    bounds,
    bounds_knowing,
    first_dims,
    largest_number,
    linear,
    postorder,
    rebuild,
)
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.simplify import simplify
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    Variable,
    renamed,
    substituted,
    substituted_constraints,
)

# --------------------------------------------------------------------------------------------------
# Composition of maps: apply one map, then another.


def compose(first: M, second: M) -> M:
    """Return the composition of `first` and then `second`.

    The result has the dimensions of `first` and the results of `second`. Range variables of
    `second` come before those of `first`, and so do runtime variables. The bounds of the dimensions
    of `second` become constraints on the results of `first`.

    Source: XLA `ComposeIndexingMaps` (order of variables).

    Raises:
        ValueError: `first` has another number of results than `second` has dimensions.
    """
    bounds = [(e, v.interval) for e, v in zip(first.results, second.dims, strict=False)]
    return compose_inside(first, second, bounds)


def bounds_to_check(first: MapBase, second: MapBase) -> list[Constraint] | None:
    """Return the bounds of `second`'s dimensions that results of `first` may violate.

    The result is `None` if some result of `first` is out of its bounds for every index.
    """
    found: list[Constraint] = []
    for e, v, image in zip(first.results, second.dims, first.result_bounds, strict=False):
        side = v.interval
        if image.lo < side.lo or image.hi > side.hi:
            if image.lo > side.hi or image.hi < side.lo:
                return None
            found.append((e, side))
    return found


def compose_inside(first: M, second: M, bounds: Sequence[Constraint]) -> M:
    """Compose like `compose`, but with only some of the bounds of `second`'s dimensions.

    Args:
        first: The map that is applied first.
        second: The map that is applied to its results.
        bounds: Bounds that results of `first` may violate, such as those of `bounds_to_check`.

    >>> from hloscope.indexing import IndexingMap
    >>> halves = IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    >>> print(compose_inside(halves, halves, ()))
    (d0) -> (d0 / 2 / 2), domain: d0 in [0, 9]
    """
    if first.is_undefined or second.is_undefined:
        return type(first)(is_undefined=True)
    if len(first.results) != len(second.dims):
        raise ValueError(
            f"cannot compose: the first map has {len(first.results)} results, "
            f"the second {len(second.dims)} dimensions"
        )
    if first.is_identity and first.dims == second.dims and not first.ranges + first.runtime:
        return second
    n_ranges, n_runtime = len(second.ranges), len(second.runtime)
    # Variables of `second` come first, so those of `first` are renumbered.
    shift: dict[Var, Expr] = {}
    if n_ranges:
        shift |= {Range(i): Range(i + n_ranges) for i in range(len(first.ranges))}
    if n_runtime:
        shift |= {Runtime(i): Runtime(i + n_runtime) for i in range(len(first.runtime))}
    middle = substituted(first.results, shift)
    inward: dict[Var, Expr] = dict(zip(first_dims(len(middle)), middle, strict=True))

    runtime = [renamed(v, inward) for v in second.runtime]
    runtime += [renamed(v, shift) for v in first.runtime]
    if first.is_known_empty or second.is_known_empty:
        constraints: list[Constraint] = [*NEVER]
    else:
        constraints = substituted_constraints(second.constraints, inward)
        constraints += substituted_constraints(first.constraints, shift)
        constraints += substituted_constraints(bounds, shift)
    composed = first.with_(
        ranges=second.ranges + first.ranges,
        runtime=runtime,
        results=substituted(second.results, inward),
        constraints=constraints,
    )
    return merge_runtime(composed) if runtime else composed


def merge_runtime(m: M) -> M:
    """Return the map with equal runtime variables merged.

    Two are equal if they read the same element of the same instruction and clamp it to the same
    bounds.
    """
    # Merging two variables may make the indices of others equal, so repeat until nothing changes.
    while len(m.runtime) > 1:
        first_of: dict[RuntimeVariable, int] = {}
        same: dict[Var, Expr] = {}
        for i, variable in enumerate(m.runtime):
            if variable.source is not None:
                key = variable
                if variable.name or variable.clamp is not None:
                    key = replace(variable, interval=variable.values, name="", clamp=None)
                if (k := first_of.setdefault(key, i)) != i:
                    same[Runtime(i)] = Runtime(k)
        if not same:
            break
        m = replace_runtime(m, same)
    return m


def replace_runtime(m: M, new: Mapping[Var, Expr]) -> M:
    """Return the map with the runtime variables in `new` replaced by expressions over the others.

    The remaining runtime variables are renumbered.

    >>> from hloscope.affine import Const
    >>> from hloscope.indexing import IndexingMap
    >>> one = IndexingMap.parse("(d0){rt0, rt1} -> (d0 + rt0 + rt1), domain: "
    ...     "d0 in [0, 3], rt0 in [0, 4], rt1 in [0, 9]")
    >>> print(replace_runtime(one, {Runtime(0): Const(2)}))
    (d0){rt0} -> (d0 + rt0 + 2), domain: d0 in [0, 3], rt0 in [0, 9]
    """
    left = [i for i in range(len(m.runtime)) if Runtime(i) not in new]
    renumber: dict[Var, Expr] = {Runtime(i): Runtime(at) for at, i in enumerate(left)}
    every = renumber | dict(zip(new, substituted([*new.values()], renumber), strict=True))
    # The interval of a replaced variable may be a condition, which must still hold.
    gone = [(Runtime(i), v) for i, v in enumerate(m.runtime) if Runtime(i) in new]
    conditions = [(rt, v.interval) for rt, v in gone if v.is_condition]
    return m.with_(
        runtime=[renamed(m.runtime[i], every) for i in left],
        results=substituted(m.results, every),
        constraints=substituted_constraints([*m.constraints, *conditions], every),
    )


# --------------------------------------------------------------------------------------------------
# Composition of maps whose results nest many divisions; only the outermost are simplified.
#
# Repeated reshapes and transposes wrap further divisions around the existing ones. The expressions
# share their parts, so as a graph they grow by a few nodes per round. The simplifier writes
# remainders out and sees them as trees, which grow much faster. So the parts inside the outermost
# divisions become variables with the bounds of the parts. The maps are composed and simplified, and
# the parts are substituted back. Only simplifications between distant levels are lost.


DEEP_DIVISIONS: Final = 12
"""Number of divisions of a result above which `compose_deep` composes the map."""
SMALL_DIVISIONS: Final = 2
"""Number of divisions inside another one up to which they are simplified together with it."""
FLAT_DIVISIONS: Final = 2
"""Number of divisions of a term up to which a sum of such terms is long but not deep."""


def is_deep(map: MapBase) -> bool:
    """Does a result nest so many divisions that only its outermost ones are simplified?"""
    return any([e._divisions > DEEP_DIVISIONS and bool(_inner_parts(e)) for e in map.results])


def compose_deep(first: M, second: M) -> M:
    """Return the simplified composition of a deep map `first` (see `is_deep`) and then `second`.

    >>> from hloscope.indexing import IndexingMap
    >>> text = "(d0) -> (d0 / 5, d0 mod 5), domain: d0 in [0, 99]"
    >>> split, join = map(IndexingMap.parse, (
    ...     text, "(d0, d1) -> (d0 * 5 + d1), domain: d0 in [0, 19], d1 in [0, 4]"))
    >>> print(compose_deep(split, join))
    (d0) -> (d0), domain: d0 in [0, 99]
    """
    rank = len(first.dims)
    # Each distinct inner part becomes a new dimension, whose bounds are those of the part.
    inner = list(dict.fromkeys([x for e in first.results for x in _inner_parts(e)]))
    names: dict[Expr, Expr] = {x: Dim(rank + k) for k, x in enumerate(inner)}
    # Constraints on deep expressions are kept apart, as they would be simplified as trees.
    near = [(e, i) for e, i in first.constraints if e._divisions <= SMALL_DIVISIONS]
    far = [(e, i) for e, i in first.constraints if e._divisions > SMALL_DIVISIONS]
    unknown = [Variable(i) for i in _bounds(first).of(inner)]
    outer = first.with_(
        dims=(*first.dims, *unknown),
        results=[_with_names(e, names) for e in first.results],
        constraints=near,
    )
    written, kept = _composed_with(outer, second, [*inner, *[e for e, _ in far]])
    inner = kept[: len(inner)]
    far = [(e, i) for e, (_, i) in zip(kept[len(inner) :], far, strict=True)]
    found = simplify(written)
    if found.is_known_empty:
        return found.with_(dims=found.dims[:rank])
    # The composed map has no other use of the new dimensions, so they are replaced by their parts.
    back: dict[Var, Expr] = {Dim(rank + k): x for k, x in enumerate(inner)}
    sums: dict[Expr, Expr] = dict(zip(back, inner, strict=True))
    results = [
        _chosen_form(old, new, found, sums)
        for old, new in zip(written.results, found.results, strict=True)
    ]
    # Bounds that simplification derived for a part become constraints, so that they are not lost.
    narrowed: list[Constraint] = [
        (x, new.interval)
        for x, old, new in zip(inner, unknown, found.dims[rank:], strict=True)
        if new.interval != old.interval
    ]
    map = found.with_(
        dims=found.dims[:rank],
        runtime=[renamed(v, back) for v in found.runtime],
        results=substituted(results, back),
        constraints=substituted_constraints(found.constraints, back) + far + narrowed,
    )
    map.mark_simplified()
    return map


def _composed_with(first: M, second: M, further: Sequence[Expr]) -> tuple[M, list[Expr]]:
    """Return the composition, and the expressions `further` of `first` in its variables.

    Composition renumbers range and runtime variables and merges equal runtime variables. So
    `further` is passed through `second` as additional results.
    """
    if not (first.ranges or first.runtime):
        return compose(first, second), [*further]
    rank = len(second.dims)
    more = first.with_(results=[*first.results, *further])
    passed: list[Expr] = [Dim(rank + k) for k in range(len(further))]
    handing = second.with_(
        dims=[*second.dims, *[Variable(Interval.EVERYTHING)] * len(further)],
        results=[*second.results, *passed],
    )
    both = compose(more, handing)
    count = len(second.results)
    return both.with_(results=both.results[:count]), [*both.results[count:]]


def _chosen_form(written: Expr, simple: Expr, where: MapBase, inner: Mapping[Expr, Expr]) -> Expr:
    """Return `simple`, unless it is larger than `written` or has weaker bounds; then `written`.

    A remainder of a remainder is removed by moving inner terms to the outer one, which may hide the
    bounds and add terms in each round. Bounds are over the domain of `where`. `inner` has the part
    that each variable stands for.
    """
    box = where.box
    if simple is written or largest_number(simple) > largest_number(written):
        return written
    if _number_of_terms(simple, inner) > _number_of_terms(written, inner):
        return written
    return simple if bounds(written, box).contains(bounds(simple, box)) else written


def _number_of_terms(e: Expr, inner: Mapping[Expr, Expr]) -> int:
    """Return the number of terms of all sums in `e`.

    A variable in `inner` stands for an expression and counts as that.
    """
    sums = [x for x in postorder(e) if isinstance(x, Sum)]
    return sum([len(as_sum(inner.get(t, t))[0]) for x in sums for t, _ in x.terms])


def _inner_parts(e: Expr) -> list[Expr]:
    """Return the subexpressions that become variables: numerators that nest many divisions."""
    found = []
    for t, _ in as_sum(e)[0]:
        if t._divisions > SMALL_DIVISIONS + 1:
            x = _numerator(t)
            if x is None:
                found.append(t)
            elif any([u._divisions > FLAT_DIVISIONS for u, _ in as_sum(x)[0]]):
                found.append(x)
    return found


def _numerator(t: Expr) -> Expr | None:
    """Return the numerator of a division or remainder by a constant; `None` for others."""
    return t.num if isinstance(t, FloorDiv | Mod | CeilDiv) and type(t.den) is Const else None


def _with_names(e: Expr, names: dict[Expr, Expr]) -> Expr:
    """Return the expression with inner parts replaced by their variables in `names`."""
    terms, const = as_sum(e)
    named: list[tuple[Expr, int]] = []
    for t, c in terms:
        x = _numerator(t)
        if x is None or x not in names:
            named.append((names.get(t, t), c))
        else:
            named.append((rebuild(t, lambda y: names.get(y, y)), c))
    return linear(*named, (const, 1))


class _Bounds:
    """Bounds of expressions on the domain of a map; each is computed once."""

    def __init__(self, box: dict[Var, Interval], constraints: Sequence[Constraint]) -> None:
        self._box, self._known = box, dict[Expr, Interval]()
        self._facts = {as_sum(e)[0]: _bounds_of_terms(i, e) for e, i in constraints}

    def of(self, roots: Sequence[Expr]) -> list[Interval]:
        """Return, for each expression, an interval that contains its values on the domain."""
        return bounds_knowing(self._known, roots, self._box, self._by_facts)

    def _by_facts(self, e: Sum, found: Interval) -> Interval:
        """Return the interval `found` of a sum, tightened by constraints on some of its terms.

        A constraint applies if the sum has all its terms; the sum may have other terms too.
        """
        coefficients = dict(e.terms)
        for fact, interval in self._facts.items():
            if len(fact) > len(coefficients) or any([coefficients.get(t) != c for t, c in fact]):
                continue
            inside = {t for t, _ in fact}
            total = interval + Interval(e.const, e.const)
            for t, c in e.terms:
                if t not in inside:
                    total = total + self._known[t] * c
            found = found & total
        return found


def _bounds_of_terms(interval: Interval, e: Expr) -> Interval:
    """Return the interval of the terms of `e`, given the interval of `e`: without its constant."""
    return interval + Interval(-e.const, -e.const) if isinstance(e, Sum) else interval


def _bounds(map: MapBase) -> _Bounds:
    return _bounds_of_domain(tuple(map.box.items()), map.constraints)


# Cached: the map of 128 chained reshapes takes 2 s instead of 0.2 s without it.
@lru_cache(maxsize=8)
def _bounds_of_domain(
    box: tuple[tuple[Var, Interval], ...], constraints: tuple[Constraint, ...]
) -> _Bounds:
    return _Bounds(dict(box), constraints)
