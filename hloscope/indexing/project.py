"""Exact elimination of range variables that occur only in constraints.

A map describes a set of elements. A range variable that no result depends on matters only by
whether it has a value. If constraints on the other variables can express that, it is eliminated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import gcd
from typing import Final, NamedTuple

from hloscope.affine import (
    Const,
    Expr,
    Interval,
    Mod,
    Range,
    Sum,
    Var,
    as_sum,
    bounds,
    children,
    from_terms,
    postorder,
    substitute,
    variables,
)
from hloscope.indexing.base import M
from hloscope.indexing.simplify import Table
from hloscope.indexing.transform import without
from hloscope.indexing.variables import Constraint, replace_interval

LIMIT: Final = 1 << 40
"""Largest number that takes part, so that products of a few numbers stay within int64."""


def project_out(m: M) -> M:
    """Return the same set of elements for every index, with fewer range variables.

    A range variable is removed if no result and no index of a runtime variable depends on it, and

    * it can be eliminated (`eliminated`) without more constraints than before, or * it occurs only
    in a sum `p * s + t` (up to a factor) with another such variable `t` of at
      least `|p|` values: the sum takes all values of an interval and becomes one variable.

    >>> from hloscope.indexing import IndexingMap
    >>> window = "d0 + s0 + s1 in [2, 9], d0 + s1 in [1, 8]"
    >>> bounds = "d0 in [0, 7], s0 in [0, 2], s1 in [0, 7]"
    >>> print(project_out(IndexingMap.parse(f"(d0)[s0, s1] -> (d0), domain: {bounds}, {window}")))
    (d0) -> (d0), domain: d0 in [0, 7]
    """
    if not m.constraints or not m.ranges or m.is_known_empty or m.is_undefined:
        return m
    used = variables(*m.results, *[e for v in m.runtime for e in v.arguments])
    free: list[Var] = [
        v for v in map(Range, range(len(m.ranges))) if v not in used and _is_small(m.box[v])
    ]
    if not free:
        return m
    box, constraints, gone = dict(m.box), m.constraints, list[Var]()
    # Each step removes one variable and may make others removable.
    while True:
        for s in free:
            fewer = eliminated(s, constraints, box)
            if fewer is not None:
                break
        else:
            pair = _sum_of_two(free, constraints, box)
            if pair is None:
                break
            s, t, values = pair
            box[t] = values
            fewer = tuple([(substitute(e, {s: 0}), i) for e, i in constraints])
        constraints = fewer
        free.remove(s)
        gone.append(s)
    if not gone:
        return m
    ranges = [replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)]
    return without(m.with_(ranges=ranges, constraints=constraints), gone)


def _is_small(interval: Interval) -> bool:
    return not interval.is_empty and max(abs(interval.lo), abs(interval.hi)) <= LIMIT


class _Part(NamedTuple):
    """The constraint `factor * s + rest in interval` with a positive factor."""

    factor: int
    rest: Expr
    interval: Interval


def eliminated(
    s: Var, constraints: Sequence[Constraint], box: dict[Var, Interval]
) -> tuple[Constraint, ...] | None:
    """Return constraints that hold exactly if some value of `s` satisfies the given ones.

    Each constraint on `s` is an interval of values, and intervals of integers have a common value
    if every two of them do (Fourier and Motzkin; Helly). Two of them give an exact constraint over
    the integers if one factor of `s` is 1 or -1. So at most one constraint may have another factor
    `c`, and its interval must have `|c|` values or more, so that it always has a value of `s`.

    Returns:
        The constraints; `None` if `s` is inside a quotient or similar, if factors or numbers
        are not as above, or if there would be more constraints than before.

    Source: Pugh, "The Omega test" (1991), section 2.3: where the elimination is exact.
    """
    table: Table = {}
    parts = [_Part(1, Const(0), box[s])]
    in_a_row: int | None = None
    for e, interval in constraints:
        if s not in variables(e):
            table[e] = interval
        elif (part := _part(s, e, interval)) is not None:
            parts.append(part)
        elif in_a_row is None and (in_a_row := _sufficient_run(s, e, interval)) is not None:
            continue
        else:
            return None
    scaled = [p for p in parts if p.factor != 1]
    if in_a_row is not None:
        return tuple(table.items()) if _always_allow(in_a_row, parts, table, box) else None
    if len(scaled) > 1 or any(p.interval.size < p.factor for p in scaled):
        return None
    for (c, e, i), (k, f, j) in combinations(parts, 2):
        # From `c * s + e in i` and `k * s + f in j`: multiply each by the other's factor and
        # subtract.
        both = e * k - f * c
        interval = Interval(k * i.lo - c * j.hi, k * i.hi - c * j.lo)
        if isinstance(both, Sum) and both.terms[0][1] < 0:  # to read well
            both, interval = -both, -interval
        if interval.contains(bounds(both, box)) or _implies(table, both, interval):
            continue
        table[both] = interval & table.get(both, interval)
    return tuple(table.items()) if len(table) <= len(constraints) else None


def _part(s: Var, e: Expr, interval: Interval) -> _Part | None:
    terms, const = as_sum(e)
    factor = sum(c for t, c in terms if t is s)
    rest = [(t, c) for t, c in terms if t is not s]
    if s in variables(*[t for t, _ in rest]) or not factor:
        return None
    if not _is_small(interval) or any(abs(n) > LIMIT for n in (const, *[c for _, c in terms])):
        return None
    if factor < 0:
        return _Part(-factor, from_terms([(t, -c) for t, c in rest], -const), -interval)
    return _Part(factor, from_terms(rest, const), interval)


def _sufficient_run(s: Var, e: Expr, interval: Interval) -> int | None:
    """Return the number of consecutive values of `s` among which `e in interval` always has one."""
    if not isinstance(e, Mod) or not isinstance(e.den, Const):
        return None
    modulus, part = abs(e.den.value), _part(s, e.num, Interval(0, 0))
    wanted = (interval & Interval(0, modulus - 1)).size
    if part is None or not wanted or gcd(part.factor, modulus) != 1:
        return None
    return modulus - wanted + 1 if part.factor == 1 else modulus


def _always_allow(
    count: int, parts: Sequence[_Part], table: Table, box: Mapping[Var, Interval]
) -> bool:
    """Do all parts together, given the table, always allow `count` consecutive values of `s`?"""
    if any(p.factor != 1 or p.interval.size < count for p in parts):
        return False
    for (_, e, i), (_, f, j) in combinations(parts, 2):
        lo, hi = i.lo - j.hi + count - 1, i.hi - j.lo - count + 1
        if lo > hi:
            return False
        interval = Interval(lo, hi)
        if not interval.contains(bounds(e - f, box)) and not _implies(table, e - f, interval):
            return False
    return True


def _implies(table: Table, e: Expr, interval: Interval) -> bool:
    """Does one constraint of the table imply that `e` is in the interval?"""
    const = e.const if isinstance(e, Sum) else 0
    bare = e - const
    for known, values in ((bare, table.get(bare)), (-bare, table.get(-bare))):
        if values is not None and values.is_finite:
            there = values if known is bare else -values
            if interval.contains(there + const):
                return True
    return False


def _sum_of_two(
    free: Sequence[Var], constraints: Sequence[Constraint], box: dict[Var, Interval]
) -> tuple[Var, Var, Interval] | None:
    """Find two variables that matter only through a sum `p * s + t`; return them and its values."""
    nodes = postorder(*[e for e, _ in constraints])
    sums = [dict(e.terms) for e in nodes if isinstance(e, Sum)]
    alone = _outside_sums(nodes, [e for e, _ in constraints])
    candidates = [v for v in free if v not in alone]
    for s, t in [(s, t) for s in candidates for t in candidates if s is not t]:
        factors = {_ratio(terms.get(s, 0), terms.get(t, 0)) for terms in sums} - {0}
        if len(factors) == 1 and (p := factors.pop()) is not None and box[t].size >= abs(p):
            values = box[s] * p + box[t]
            if _is_small(values):
                return s, t, values
    return None


def _outside_sums(nodes: Iterable[Expr], roots: Iterable[Expr]) -> set[Expr]:
    """Return the variables that also occur outside of sums."""
    alone: set[Expr] = {e for e in roots if isinstance(e, Var)}
    for node in nodes:
        if not isinstance(node, Sum):
            alone.update([e for e in children(node) if isinstance(e, Var)])
    return alone


def _ratio(a: int, b: int) -> int | None:
    """Return `a / b` if it is a nonzero integer; 0 if both are 0, else `None`."""
    if not a and not b:
        return 0
    return a // b if a and b and a % b == 0 else None
