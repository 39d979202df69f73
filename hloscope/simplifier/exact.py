"""The exact level: shorter equal forms that the laws do not find.

A part of an expression with several divisions is fitted by a form with one (`fit.py`). A form that
fits at sample points is then proved: at every point of a small box, else by isl. If isl does not
decide within its budget, the old form stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod
from typing import Any, Final

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Sum,
    Var,
    as_sum,
    bounds,
    evaluate_array,
    linear,
    postorder,
    replace,
    substitute,
    variables,
)
from hloscope.arrays import Ints, np
from hloscope.simplifier.domain import Domain, simplify, within_int64
from hloscope.simplifier.fit import one_floor, slopes, step_sizes
from hloscope.simplifier.isl import prove_within
from hloscope.simplifier.isl_relations import System
from hloscope.simplifier.rule import Rule, Step, Trace

BUDGET: Final = 200_000
"""Steps of isl for one proof."""
POINTS: Final = 1 << 20
"""Largest number of points of a box that is compared point by point."""
SAMPLE: Final = 1500
LINE: Final = 64
PROOFS: Final = 6
"""Number of candidates of one part whose proof is tried."""
PARTS: Final = 400
"""Largest number of parts of one expression that are tried."""
FLOORS: Final = 8
"""Largest number of quotients of a sum whose subsets are tried."""
MOST: Final = 64
"""Largest number of divisions of an expression that is searched; shared parts count each time."""
SAFE: Final = 1 << 61


def simplify_exact(
    e: Expr,
    where: Domain | Mapping[Var, Interval],
    *,
    budget: int = BUDGET,
    trace: Trace | None = None,
) -> Expr:
    """Return the result of `simplify`, or an equal expression with fewer divisions.

    Args:
        e: The expression.
        where: A domain, or the intervals of the variables.
        budget: Steps that isl may take for one proof.
        trace: If given, every step is appended.

    >>> from hloscope.affine import parse_expr
    >>> box = {Dim(0): Interval(0, 511), Dim(1): Interval(0, 7)}
    >>> print(simplify_exact(parse_expr("((d0 * 8 + d1) / 2 * 5) / 8"), box))
    (d0 * 10 + d1) / 4
    """
    domain = where if isinstance(where, Domain) else Domain(where)
    best = simplify(e, domain, trace=trace)
    search = _Search(domain, budget)
    while 1 < best._divisions <= MOST:
        shorter = search.shorter(best)
        if shorter is None:
            break
        if trace is not None:
            used = sorted(variables(best))
            box = tuple([(v, domain.box[v]) for v in used if v in domain.box])
            trace.append(Step(FITTED, best, shorter, box))
        best = shorter
    return best


class _Search:
    """Search for shorter forms of one expression; remembers the parts that were tried."""

    def __init__(self, domain: Domain, budget: int) -> None:
        self.domain, self.budget = domain, budget
        self._tried: dict[Expr, Expr | None] = {}

    def shorter(self, e: Expr) -> Expr | None:
        """Return an equal expression with fewer divisions by one replacement.

        `None` if not found.
        """
        # The flat form has other parts than the printed one, and either may have a shorter form.
        for root in dict.fromkeys([e, self.domain.flat(e)]):
            for x in postorder(root):
                if x._divisions < 2:
                    continue
                for part, rest in _parts_of(x):
                    new = self._fitted(part)
                    if new is None:
                        continue
                    whole = replace(root, {x: linear((new, 1), (rest, 1))})
                    for result in (self.domain.simplify(whole), whole):
                        if result._divisions < e._divisions and within_int64(result, e):
                            return result
        return None

    def _fitted(self, part: Expr) -> Expr | None:
        # The same part occurs in the printed and the flat form and in the results of later rounds,
        # and a proof by isl is expensive.
        if part not in self._tried:
            if len(self._tried) >= PARTS:
                return None
            self._tried[part] = _one_floor(part, self.domain, self.budget)
        return self._tried[part]


def _parts_of(x: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Yield splits of `x` into `part + rest`, where the part has several divisions."""
    yield x, Const(0)
    if not isinstance(x, Sum):
        return
    divided = [(t, c) for t, c in x.terms if t._divisions]
    if not 2 <= len(divided) <= FLOORS:
        return
    for size in (2, 3):
        for chosen in combinations(divided, size):
            if len(chosen) < len(divided) or len(x.terms) > len(divided):
                part = linear(*chosen)
                yield part, linear((x, 1), (part, -1))


def _one_floor(part: Expr, domain: Domain, budget: int) -> Expr | None:
    """Return an equal form of `part` with at most one division that was proved.

    `None` if none was.
    """
    flat = domain.flat(part)
    slope = slopes(flat)
    box = {v: domain.box.get(v, Interval.EVERYTHING) for v in sorted(variables(part))}
    if slope is None or not box or any(i.is_empty for i in box.values()):
        return None
    if not _is_safe(part, box):
        return None
    at = _sample(box, domain)
    values = evaluate_array(part, at)
    coefficients = [c for t, c in as_sum(flat)[0] if t._divisions]
    divisors = sorted({x.by for x in postorder(flat) if x.by})
    # A merged quotient `x // a // b` has the product of two divisors.
    divisors += [a * b for a, b in combinations(divisors, 2)]
    candidates = one_floor(values, at, box, slope, step_sizes(coefficients or [1]), divisors)
    proofs = 0
    for new in candidates:
        if not _is_safe(new, box):
            continue
        if is_equal(part, new, domain, budget=budget):
            return new
        proofs += 1
        if proofs == PROOFS:
            break
    return None


def _is_safe(e: Expr, box: Mapping[Var, Interval]) -> bool:
    """Do all intermediate values of `e` over the box fit into int64?"""
    for x in postorder(e):
        found = bounds(x, box)
        if found.lo < -SAFE or found.hi > SAFE:
            return False
        if isinstance(x, Sum) and any(
            abs(c) * max(-bounds(t, box).lo, bounds(t, box).hi) > SAFE for t, c in x.terms
        ):
            return False
    return True


def _sample(box: Mapping[Var, Interval], domain: Domain) -> dict[Var, Ints]:
    """Return sample points as one array per variable.

    The first is the lower corner of the box. The next ones are one step away along each variable.
    Lines along each variable and random points follow, with ends drawn more often.
    """
    # A fixed seed makes the result reproducible.
    rng = np.random.default_rng(0)
    start = np.array([i.lo for i in box.values()], dtype=np.int64)
    blocks = [start[None]]
    for j, i in enumerate(box.values()):
        block = start[None].copy()
        block[0, j] += i.hi > i.lo
        blocks.append(block)
    for j, i in enumerate(box.values()):
        line = np.unique(np.linspace(i.lo, i.hi, min(i.size, LINE)).astype(np.int64))
        block = np.repeat(start[None], len(line), axis=0)
        block[:, j] = line
        blocks.append(block)
    columns = []
    for i in box.values():
        values = rng.integers(i.lo, i.hi + 1, size=SAMPLE)
        where = rng.random(SAMPLE)
        columns.append(np.where(where < 0.1, i.lo, np.where(where > 0.9, i.hi, values)))
    blocks.append(np.stack(columns, axis=1))
    points = np.concatenate(blocks)
    return {v: points[:, j] for j, v in enumerate(box)}


FITTED: Final = Rule(
    "x", "a * y + c * ((g * y + r) // n)", "x == a * y + c * ((g * y + r) // n)", _one_floor
)


def is_equal(first: Expr, second: Expr, domain: Domain, *, budget: int = BUDGET) -> bool:
    """Are two expressions proved to be equal on the domain? `False` can also mean undecided.

    >>> d0, domain = Dim(0), Domain({Dim(0): Interval(0, 10**9)})
    >>> is_equal(d0 // 1024 * 512 + d0 % 512, d0 - (d0 + 512) // 1024 * 512, domain)
    True
    """
    used = sorted(variables(first, second))
    box = {v: domain.box.get(v, Interval.EVERYTHING) for v in used}
    # All points of a small box are evaluated, which needs no proof; constraints are not needed, as
    # the box contains the domain.
    few = prod([i.size for i in box.values()]) <= POINTS
    if few and _is_safe(first, box) and _is_safe(second, box):
        return _same_values(first, second, box)
    renamed: dict[Var, Any] = {v: Dim(j) for j, v in enumerate(used)}
    difference = substitute(linear((first, 1), (second, -1)), renamed)
    system = System(len(used), 0, {renamed[v]: i for v, i in box.items()}, (), [])
    return prove_within(system, difference, Interval(0, 0), budget=budget).is_proved


def _same_values(first: Expr, second: Expr, box: Mapping[Var, Interval]) -> bool:
    axes = [np.arange(i.lo, i.hi + 1) for i in box.values()]
    at = dict(zip(box, np.ix_(*axes), strict=True))
    return bool(np.array_equal(evaluate_array(first, at), evaluate_array(second, at)))
