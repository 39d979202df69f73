"""Composition of maps whose results are many divisions deep: only the outermost ones are looked at.

Reshape, transpose, reshape, again and again: each round puts divisions around those there are.
The expressions share their parts, so as a graph they grow by a few nodes a round; the simplifier
writes remainders out and sees them as trees, which grow many times faster.  So what stands inside
the outermost divisions of a deep result becomes a variable with the bounds of what it stands for,
the maps are composed and simplified, and it is put back.  Nothing is lost but simplifications
between levels that are far from each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

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
    largest_number,
    linear,
    postorder,
    rebuild,
)
from hloscope.indexing.base import M, MapBase
from hloscope.indexing.compose import compose
from hloscope.indexing.simplify import simplify
from hloscope.indexing.variables import (
    Constraint,
    Variable,
    renamed,
    substituted,
    substituted_constraints,
)

DEEP: Final = 12
"""Results of more divisions, written out, are composed by their outermost ones."""
SMALL: Final = 2
"""So many divisions inside another are looked at as well."""
FLAT: Final = 2
"""Sums of terms with no more divisions each are long but not deep."""


def is_deep(map: MapBase) -> bool:
    """Have results so many divisions inside others that they are not looked at as a whole?"""
    return any([e._divisions > DEEP and bool(_inside(e)) for e in map.results])


def compose_deep(first: M, second: M) -> M:
    """The simplified composition of a deep map with another: `second` after `first`.

    >>> from hloscope.indexing import IndexingMap
    >>> text = "(d0) -> (d0 / 5, d0 mod 5), domain: d0 in [0, 99]"
    >>> split, join = map(IndexingMap.parse, (
    ...     text, "(d0, d1) -> (d0 * 5 + d1), domain: d0 in [0, 19], d1 in [0, 4]"))
    >>> print(compose_deep(split, join))
    (d0) -> (d0), domain: d0 in [0, 99]
    """
    rank = len(first.dims)
    inner = list(dict.fromkeys([x for e in first.results for x in _inside(e)]))
    names: dict[Expr, Expr] = {x: Dim(rank + k) for k, x in enumerate(inner)}
    near = [(e, i) for e, i in first.constraints if e._divisions <= SMALL]
    far = [(e, i) for e, i in first.constraints if e._divisions > SMALL]
    unknown = [Variable(i) for i in _bounds(first).of(inner)]
    outer = first.with_(
        dims=(*first.dims, *unknown),
        results=[_outside(e, names) for e in first.results],
        constraints=near,
    )
    written, kept = _composed_with(outer, second, [*inner, *[e for e, _ in far]])
    inner = kept[: len(inner)]
    far = [(e, i) for e, (_, i) in zip(kept[len(inner) :], far, strict=True)]
    found = simplify(written)
    if found.is_known_empty:
        return found.with_(dims=found.dims[:rank])
    back: dict[Var, Expr] = {Dim(rank + k): x for k, x in enumerate(inner)}
    sums: dict[Expr, Expr] = dict(zip(back, inner, strict=True))
    results = [
        _better(old, new, found, sums)
        for old, new in zip(written.results, found.results, strict=True)
    ]
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


def _composed_with(first: M, second: M, others: Sequence[Expr]) -> tuple[M, list[Expr]]:
    """The composition, and other expressions of `first` as they are written in it.

    Range and runtime variables get other numbers, and runtime variables that are the same become
    one: the others go along as results that `second` hands on.
    """
    if not (first.ranges or first.runtime):
        return compose(first, second), [*others]
    rank = len(second.dims)
    more = first.with_(results=[*first.results, *others])
    passed: list[Expr] = [Dim(rank + k) for k in range(len(others))]
    handing = second.with_(
        dims=[*second.dims, *[Variable(Interval.EVERYTHING)] * len(others)],
        results=[*second.results, *passed],
    )
    both = compose(more, handing)
    count = len(second.results)
    return both.with_(results=both.results[:count]), [*both.results[count:]]


def _better(written: Expr, simple: Expr, where: MapBase, inner: Mapping[Expr, Expr]) -> Expr:
    """The simplified form, unless it is larger or hides in which bounds the values are.

    A remainder of a remainder goes by taking the terms inside up to the outer one, round by round.
    """
    box = where.box
    if simple is written or largest_number(simple) > largest_number(written):
        return written
    if _number_of_terms(simple, inner) > _number_of_terms(written, inner):
        return written
    return simple if bounds(written, box).contains(bounds(simple, box)) else written


def _number_of_terms(e: Expr, inner: Mapping[Expr, Expr]) -> int:
    """The terms of all sums, where names stand for the sums that are inside."""
    sums = [x for x in postorder(e) if isinstance(x, Sum)]
    return sum([len(as_sum(inner.get(t, t))[0]) for x in sums for t, _ in x.terms])


def _inside(e: Expr) -> list[Expr]:
    """What of an expression is not looked at: numerators of many divisions inside each other."""
    found = []
    for t, _ in as_sum(e)[0]:
        if t._divisions > SMALL + 1:
            x = _numerator(t)
            if x is None:
                found.append(t)
            elif any([u._divisions > FLAT for u, _ in as_sum(x)[0]]):
                found.append(x)
    return found


def _numerator(t: Expr) -> Expr | None:
    return t.num if isinstance(t, FloorDiv | Mod | CeilDiv) and type(t.den) is Const else None


def _outside(e: Expr, names: dict[Expr, Expr]) -> Expr:
    """The expression with names for what is inside."""
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
    """The bounds of expressions where a map is defined, each found once, whatever shares it."""

    def __init__(self, box: dict[Var, Interval], constraints: Sequence[Constraint]) -> None:
        self._box, self._known = box, dict[Expr, Interval]()
        self._facts = {as_sum(e)[0]: _moved(i, e) for e, i in constraints}

    def of(self, roots: Sequence[Expr]) -> list[Interval]:
        """The bounds of each expression."""
        return bounds_knowing(self._known, roots, self._box, self._by_facts)

    def _by_facts(self, e: Sum, found: Interval) -> Interval:
        """The bounds of a sum that has the terms of a constraint, and perhaps others."""
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


def _moved(interval: Interval, e: Expr) -> Interval:
    """The bounds of the terms of an expression of these bounds."""
    return interval + Interval(-e.const, -e.const) if isinstance(e, Sum) else interval


def _bounds(map: MapBase) -> _Bounds:
    runtime = tuple([v.interval for v in map.runtime])
    dims = tuple([v.interval for v in map.dims])
    ranges = tuple([v.interval for v in map.ranges])
    return _remembered(dims, ranges, runtime, map.constraints)


@lru_cache(maxsize=8)
def _remembered(
    dims: tuple[Interval, ...],
    ranges: tuple[Interval, ...],
    runtime: tuple[Interval, ...],
    constraints: tuple[Constraint, ...],
) -> _Bounds:
    box: dict[Var, Interval] = {Dim(k): i for k, i in enumerate(dims)}
    box |= {Range(k): i for k, i in enumerate(ranges)}
    box |= {Runtime(k): i for k, i in enumerate(runtime)}
    return _Bounds(box, constraints)
