"""Simplification of maps: constraints first, then results within the remaining ranges.

Constraints `expr in [lo, hi]` are solved for simpler expressions, merged and decided. Every step
keeps the set of points of the box that satisfy all constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from hloscope import simplifier
from hloscope.affine import (
    NEG_INF,
    POS_INF,
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
    Terms,
    Var,
    as_sum,
    bounds,
    from_terms,
    to_text,
    variables,
)
from hloscope.indexing.base import NEVER, M
from hloscope.indexing.variables import Constraint, RuntimeVariable, replace_interval

if TYPE_CHECKING:
    from hloscope.simplifier import Domain, Step

Table: TypeAlias = dict[Expr, Interval]
"""Constraints `expr in interval` that all hold, by expression."""


class ConstraintStep(Struct, frozen=True):
    """A step of simplifying constraints.

    It replaced a constraint by another one or by bounds of a variable, or found that it always
    holds.

    Attributes:
        law: Name of the step.
        before: The constraint.
        after: Its replacement; `None` if it always holds.
    """

    law: str
    before: Constraint
    after: Constraint | None

    def text(self, names: dict[Var, str] | None = None) -> str:
        """Return the step as a line `before becomes after   by law`."""
        before, after = (
            f"{to_text(c[0], names)} in {c[1]}" if c else "nothing"
            for c in (self.before, self.after)
        )
        return f"{before} becomes {after}   by {self.law}"

    def __str__(self) -> str:
        return self.text()


MapTrace: TypeAlias = "list[Step | ConstraintStep]"
"""The steps of a simplification, in order."""


class EmptyDomainError(Exception):
    """Raised if no point satisfies the constraints; caught inside this package."""


def settle(
    box: dict[Var, Interval], constraints: Iterable[Constraint], trace: MapTrace | None = None
) -> Table:
    """Return the constraints, simplified until nothing changes.

    Constraints on single variables tighten `box` in place. Steps are appended to `trace`.

    Raises:
        EmptyDomainError: No point satisfies the constraints.
    """
    table: Table = {}
    for e, interval in constraints:
        found = bounds(e, box)
        is_past = found.lo == POS_INF or found.hi == NEG_INF  # where sums are no longer exact
        if is_past or not interval.contains(found) or trace is not None:
            _add_constraint(table, e, interval)
    # Tighter bounds may decide or simplify other constraints, so all are simplified again.
    while table:
        size = dict(box)
        domain = simplifier.Domain(size)
        left = [_settled(constraint, domain, box, trace) for constraint in table.items()]
        kept = [constraint for constraint in left if constraint is not None]
        table = {}
        for e, interval in kept:
            _add_constraint(table, e, interval)
        merge_mods(box, table, trace)
        # No two constraints were merged and no bound has changed, so another round would change
        # nothing.
        if box == size and len(table) == len(kept):
            break
    return table


def _add_constraint(table: Table, expr: Expr, interval: Interval) -> None:
    """Add a constraint to the table, intersected with the one on the same expression.

    Raises:
        EmptyDomainError: The intersection is empty.
    """
    interval = table[expr] & interval if expr in table else interval
    if interval.is_empty:
        raise EmptyDomainError
    table[expr] = interval


def _settled(
    constraint: Constraint, domain: Domain, box: dict[Var, Interval], trace: MapTrace | None
) -> Constraint | None:
    """Return the simplified constraint; `None` if it always holds or is now part of `box`.

    A constraint on a single variable tightens `box` in place.

    Raises:
        EmptyDomainError: No point satisfies the constraint.
    """
    expr, interval = constraint
    expr = simplified(expr, domain, trace)
    values = domain.bounds(expr)
    # Solving moves constants and factors to the interval, which may make the expression a variable.
    while not interval.contains(values) and (solved := solve(expr, interval, domain)) is not None:
        if trace is not None:
            trace.append(ConstraintStep("solving", (expr, interval), solved))
        expr, interval = solved
        if interval.is_empty:
            raise EmptyDomainError
        expr = simplified(expr, domain, trace)
        values = domain.bounds(expr)
    if interval.contains(values):
        if trace is not None:
            trace.append(ConstraintStep(f"values in {values}", (expr, interval), None))
        return None
    if (interval & values).is_empty:
        raise EmptyDomainError
    if isinstance(expr, Var) and expr in box:
        box[expr] = box[expr] & interval
        if trace is not None:
            trace.append(ConstraintStep("bounds", (expr, interval), (expr, box[expr])))
        if box[expr].is_empty:
            raise EmptyDomainError
        return None
    return expr, interval


def simplified(expr: Expr, domain: Domain, trace: MapTrace | None) -> Expr:
    """Return the simplified expression; its steps are appended to the trace."""
    if trace is None:
        return domain.simplify(expr)
    steps: list[Step] = []
    new = simplifier.simplify(expr, domain, trace=steps)
    trace += steps
    return new


def solve(expr: Expr, interval: Interval, domain: Domain) -> tuple[Expr, Interval] | None:
    """Return an equivalent constraint on a simpler expression; `None` if there is none.

    >>> from hloscope.affine import Dim
    >>> from hloscope.simplifier import Domain
    >>> solve(Dim(0) // -3, Interval(-11, -5), Domain({}))
    (<d0>, Interval(lo=13, hi=33))
    """
    match expr:
        case Sum(terms, const) if const:
            moved = shifted(interval, -const)
            return None if moved is None else (from_terms(list(terms), 0), moved)
        case Sum(((term, factor),), 0):
            return term, divided(interval, factor)
        case Sum(terms, 0):
            return _without_low_part(expr, interval, domain)
        case FloorDiv(num, Const(den)) if den:
            found = of_quotient(interval, den)
            return None if found is None else (num, found)
        case CeilDiv(num, Const(den)) if den:  # ceil(x / d) = -floor(x / -d)
            found = of_quotient(-interval, -den)
            return None if found is None else (num, found)
    return None


def shifted(interval: Interval, offset: int) -> Interval | None:
    """Return the interval with `offset` added to both ends; `None` if a finite end leaves int64.

    >>> shifted(Interval(0, 5), 2), shifted(Interval(0, 2**62), 2**62)
    (Interval(lo=2, hi=7), None)
    """
    return _ends(
        interval.lo if interval.lo == NEG_INF else interval.lo + offset,
        interval.hi if interval.hi == POS_INF else interval.hi + offset,
        interval,
    )


def _ends(lo: int, hi: int, old: Interval) -> Interval | None:
    """Return `[lo, hi]`; `None` if it leaves int64 or has more infinite ends than `old`."""
    finite = (lo == NEG_INF) + (hi == POS_INF) <= (old.lo == NEG_INF) + (old.hi == POS_INF)
    inside = NEG_INF <= lo < POS_INF and NEG_INF < hi <= POS_INF
    return Interval(lo, hi) if finite and inside else None


def divided(interval: Interval, factor: int) -> Interval:
    """Return the interval of all integers `x` for which `x * factor` is in the interval.

    >>> divided(Interval(14, 33), 8), divided(Interval(-11, -5), -3)
    (Interval(lo=2, hi=4), Interval(lo=2, hi=3))
    """
    ends = interval if factor > 0 else -interval
    size = abs(factor)
    low = ends.lo if ends.lo == NEG_INF else -(-ends.lo // size)
    high = ends.hi if ends.hi == POS_INF else ends.hi // size
    return Interval(low, high)


def of_quotient(interval: Interval, den: int) -> Interval | None:
    """Return the integers `x` with `floor(x / den)` in the interval; `None` beyond int64.

    >>> of_quotient(Interval(-11, -5), 3), of_quotient(Interval(-11, -5), -3)
    (Interval(lo=-33, hi=-13), Interval(lo=13, hi=33))
    """
    lo, hi = interval.lo, interval.hi
    if den > 0:
        low = lo if lo == NEG_INF else lo * den
        high = hi if hi == POS_INF else hi * den + den - 1
    else:
        low = NEG_INF if hi == POS_INF else (hi + 1) * den + 1
        high = POS_INF if lo == NEG_INF else lo * den
    return _ends(low, high, interval)


def _without_low_part(
    expr: Sum, interval: Interval, domain: Domain
) -> tuple[Expr, Interval] | None:
    """Return an equivalent constraint without the part of a sum that cannot decide it.

    In `g * a + b in [lo, hi]` each of the two comparisons has the same result for every `b` in
    `[b.lo, b.hi]` if the quotients `(lo - b) / g`, rounded up, and `(hi - b) / g`, rounded down,
    are the same at both ends. The result is `None` if no part can be dropped.
    """
    for g in sorted({abs(c) for _, c in expr.terms} - {1}, reverse=True):
        high = [(t, c // g) for t, c in expr.terms if c % g == 0]
        low = domain.bounds(from_terms([(t, c) for t, c in expr.terms if c % g], 0))
        if not low.is_finite:
            continue
        ends = [shifted(interval, -b) for b in (low.lo, low.hi)]
        new = [divided(end, g) for end in ends if end is not None]
        if len(new) == 2 and new[0] == new[1]:
            return from_terms(high, 0), new[0]
    return None


def merge_mods(box: dict[Var, Interval], table: Table, trace: MapTrace | None = None) -> None:
    """Merge constraints `x mod m = r` and `x mod n = q` in the table into one.

    Bounds of `x` move inwards to values with that remainder. Both arguments change in place.

    Raises:
        EmptyDomainError: No point satisfies the constraints.

    >>> from hloscope.affine import Dim
    >>> box, table = {Dim(0): Interval(-5, 10)}, {Dim(0) % 6: Interval(1, 1)}
    >>> merge_mods(box, table)
    >>> print(box[Dim(0)])
    [-5, 7]
    """
    found: dict[Expr, tuple[int, int]] = {}
    merged: dict[Expr, list[Expr]] = {}
    for expr, interval in table.items():
        match expr:
            case Mod(num, Const(m)) if m and interval.is_point:
                if not 0 <= interval.lo < abs(m):
                    raise EmptyDomainError
                old = found.get(num)
                pair = interval.lo, abs(m)
                new = pair if old is None else _common_residue(*old, *pair)
                found[num] = new
                merged.setdefault(num, []).append(expr)
    for num, (r, m) in found.items():
        # A single constraint is in the table already; several are replaced by their common one.
        if len(merged[num]) > 1:
            intervals = [table.pop(expr) for expr in merged[num]]
            _add_constraint(table, num % m, Interval(r, r))
            if trace is not None:
                after = num % m, Interval(r, r)
                trace += [
                    ConstraintStep("a common modulus", (e, i), after)
                    for e, i in zip(merged[num], intervals, strict=True)
                ]
        # A bare variable takes only values of the residue class, so its ends move to the next ones.
        if isinstance(num, Var) and num in box:
            lo, hi = box[num].lo, box[num].hi
            lo = lo if lo == NEG_INF else lo + (r - lo) % m
            hi = hi if hi == POS_INF else hi - (hi - r) % m
            if lo > hi:
                raise EmptyDomainError
            box[num] = Interval(lo, hi)


def _common_residue(r: int, m: int, q: int, n: int) -> tuple[int, int]:
    """Return remainder and modulus of the numbers that are `r` modulo `m` and `q` modulo `n`.

    Raises:
        EmptyDomainError: There are none.
    """
    # Chinese remainder theorem for moduli with a common factor: solvable if the remainders agree
    # modulo the factor.
    g = gcd(m, n)
    if (q - r) % g:
        raise EmptyDomainError
    lcm = m // g * n
    k = (q - r) // g * pow(m // g, -1, n // g) % (n // g)
    return (r + k * m) % lcm, lcm


def simplify(
    m: M, *, replace_points: bool = True, exact: bool = False, trace: MapTrace | None = None
) -> M:
    """Return an equal map with simpler constraints, tighter bounds and simpler results.

    Args:
        m: The map.
        replace_points: A dimension with one value becomes that value in the results.
        exact: Search for still shorter forms of results, which are then proved.
        trace: If given, every step is appended.
    """
    if exact:
        return _simplify_exactly(simplify(m, replace_points=replace_points, trace=trace), trace)
    if m.is_known_empty or m.is_undefined or (replace_points and m.is_simplified):
        return m
    if not replace_points or trace is not None:
        return _simplify(m, replace_points, trace)
    found = m.simple
    if found is None:
        found = _simplify(m, replace_points, trace)
        if found is not m:
            m.store_simplified(found)
    return found  # type: ignore[return-value]  # a map as `m` is


def _is_plain(m: M) -> bool:
    """Are all results sums of multiples of variables with several values, without conditions?"""
    if m.constraints or m.runtime:
        return False
    terms = [t for e in m.results for t, _ in as_sum(e)[0]]
    return all([t in m.box and not m.box[t].is_point for t in terms])


def _simplify(m: M, replace_points: bool, trace: MapTrace | None) -> M:
    # No law applies to a plain map. Without this line, the first answer loads the simplifier.
    if _is_plain(m):
        if replace_points:
            m.mark_simplified()
        return m
    box, constraints = m.box, m.constraints
    # Constraints come first, as they tighten the bounds that results are simplified with.
    if constraints:
        box = dict(box)
        try:
            constraints = tuple(settle(box, constraints, trace).items())
        except EmptyDomainError:
            return m.with_(constraints=NEVER)
    domain = simplifier.Domain(box, constraints)
    change = simplified if replace_points else _result_with_points
    results = [change(e, domain, trace) for e in m.results]
    if pinned := [(*as_sum(e), i.lo) for e, i in constraints if i.lo == i.hi]:
        results = [_value_if_pinned(e, pinned) for e in results]
    runtime = _with_simple_indices(m.runtime, domain, trace)
    if box == m.box and constraints == m.constraints and runtime == [*m.runtime]:
        if not all([a is b for a, b in zip(results, m.results, strict=True)]):
            m = m.with_(results=results)
        if replace_points:
            m.mark_simplified()
        return m
    found = m.with_(
        dims=[replace_interval(v, box[Dim(i)]) for i, v in enumerate(m.dims)],
        ranges=[replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)],
        runtime=[replace_interval(v, box[Runtime(i)]) for i, v in enumerate(runtime)],
        results=results,
        constraints=constraints,
    )
    if replace_points:
        found.mark_simplified()
    return found


def _value_if_pinned(result: Expr, pinned: Sequence[tuple[Terms, int, int]]) -> Expr:
    """Return the value of a result if a constraint such as `d0 - rt0 in [0, 0]` fixes it.

    Otherwise return the result. `pinned` has terms, constant and value of each such constraint.
    """
    terms, const = as_sum(result)
    for others, other, value in pinned:
        if terms == others:
            return Const(const - other + value)
        if len(terms) == len(others) and terms == tuple([(t, -c) for t, c in others]):
            return Const(const + other - value)
    return result


def _simplify_exactly(m: M, trace: MapTrace | None) -> M:
    if m.is_known_empty or m.is_undefined:
        return m
    domain = simplifier.Domain(m.box, m.constraints)
    steps: list[Step] = []
    results = [
        simplifier.simplify_exact(e, domain, trace=None if trace is None else steps)
        for e in m.results
    ]
    if trace is not None:
        trace += steps
    return m.with_(results=results)


def _result_with_points(e: Expr, domain: Domain, trace: MapTrace | None) -> Expr:
    """Return the simplified expression; its terms that are dimensions with one value stay."""
    terms, _ = as_sum(e)
    points: list[tuple[Expr, int]] = [
        (t, c) for t, c in terms if c == 1 and isinstance(t, Dim) and domain.box[t].is_point
    ]
    if not points or (len(points) < len(terms) and domain.bounds(e).is_point):
        return simplified(e, domain, trace)
    kept = from_terms(points, 0)
    return simplified(e - kept, domain, trace) + kept


_BARE: Final = frozenset((Dim, Range, Runtime, Const))


def _with_simple_indices(
    runtime: Sequence[RuntimeVariable], domain: Domain, trace: MapTrace | None
) -> list[RuntimeVariable]:
    """Return the runtime variables with simplified indices and positions.

    Constants, and variables of several values without constraints, are simple already. Nearly all
    arguments of consecutive gathers are like that, so this check makes tiling 256 of them twice as
    fast.
    """
    if not runtime:
        return []
    decided = {v for v, interval in domain.box.items() if interval.is_point}
    decided.update(*[variables(e) for e, _ in domain.constraints])
    found: list[RuntimeVariable] = []
    for variable in runtime:
        arguments = variable.arguments
        if not all([type(e) in _BARE and e not in decided for e in arguments]):
            simple = [simplified(e, domain, trace) for e in arguments]
            if simple != [*arguments]:
                variable = variable.at(simple)
        found.append(variable)
    return found
