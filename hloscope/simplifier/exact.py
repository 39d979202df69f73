"""The exact level of the simplifier: shorter equal forms that the laws do not find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor, gcd, lcm, prod
from typing import Any, Final

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Range,
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
from hloscope.simplifier.domain import Domain, simplify, within_int64
from hloscope.simplifier.isl_relations import UndecidedError, budgeted
from hloscope.simplifier.isl_tables import Body, some_point
from hloscope.simplifier.rule import Rule, Step, Trace
from hloscope.support.arrays import Ints, Ints as Values, np

# --------------------------------------------------------------------------------------------------
# The exact level: shorter equal forms that the laws do not find.
#
# A part of an expression with several divisions is fitted by a form with one (`one_floor`). A form
# that fits at sample points is then proved: at every point of a small box, else by isl. If isl does
# not decide within its budget, the old form stays.


BUDGET: Final = 200_000
"""Default number of steps that isl may take for one proof."""
POINTS: Final = 1 << 20
"""Maximum number of points of a box on which two expressions are compared at every point.

On larger boxes isl proves equality.
"""
SAMPLE: Final = 1500
LINE: Final = 64
PROOFS: Final = 6
"""Maximum number of candidates for one part (see `_parts_of`) that are refuted or undecided.

After these the part stays.
"""
PARTS: Final = 400
"""Maximum number of parts (see `_parts_of`) of one expression that are tried."""
FLOORS: Final = 8
"""Maximum number of quotients of a sum of which pairs and triples are tried as parts."""
MOST_DIVISIONS: Final = 64
"""Maximum number of divisions of an expression that is searched; shared parts count each time."""
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

    >>> from hloscope.affine import Dim, parse_expr
    >>> box = {Dim(0): Interval(0, 511), Dim(1): Interval(0, 7)}
    >>> print(simplify_exact(parse_expr("((d0 * 8 + d1) / 2 * 5) / 8"), box))
    (d0 * 10 + d1) / 4
    """
    domain = where if isinstance(where, Domain) else Domain(where)
    best = simplify(e, domain, trace=trace)
    search = _Search(domain, budget)
    while 1 < best._divisions <= MOST_DIVISIONS:
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
    """Search for shorter forms of one expression; the result of each tried part is stored."""

    def __init__(self, domain: Domain, budget: int) -> None:
        self.domain, self.budget = domain, budget
        self._tried: dict[Expr, Expr | None] = {}

    def shorter(self, e: Expr) -> Expr | None:
        """Return an equal expression with fewer divisions, made by one replacement, or `None`."""
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
        """Return the stored result of `_one_floor` for a part.

        The result is `None` if it is a new part after `PARTS` others.
        """
        if part not in self._tried:
            if len(self._tried) >= PARTS:
                return None
            self._tried[part] = _one_floor(part, self.domain, self.budget)
        return self._tried[part]


def _parts_of(x: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Yield pairs `(part, rest)` with `x == part + rest`, where the part has several divisions.

    The first part is `x` itself. If `x` is a sum, the others are pairs and triples of its terms.
    """
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
    """Return an equal form of `part` with at most one division; `None` if none is proved equal."""
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
    """Return sample points of the box, as one array of coordinates per variable, all of one length.

    The first point is the lower corner of the box. The next ones are one step away along each
    variable. Lines along each variable and random points follow; random coordinates are often ends.
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
    """Return whether two expressions are proved equal on the domain.

    `False` means that they differ or that the proof is undecided.

    >>> from hloscope.affine import Dim
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
    place: dict[Var, Expr] = {v: Range(j) for j, v in enumerate(used)}
    difference = substitute(linear((first, 1), (second, -1)), place)
    sides = Interval(NEG_INF, -1), Interval(1, POS_INF)
    unequal = [Body(tuple(box.values()), ((difference, side),), ()) for side in sides]
    try:
        with budgeted(budget):
            return some_point(unequal) is None
    except UndecidedError:
        return False


def _same_values(first: Expr, second: Expr, box: Mapping[Var, Interval]) -> bool:
    """Are the values of two expressions equal at every point of the box?"""
    axes = [np.arange(i.lo, i.hi + 1) for i in box.values()]
    at = dict(zip(box, np.ix_(*axes), strict=True))
    return bool(np.array_equal(evaluate_array(first, at), evaluate_array(second, at)))


# --------------------------------------------------------------------------------------------------
# Interpolation by one floor: fit `a.x + c + k * ((b.x + s) // m)` to values at sample points.
# The slope along a variable is the change per step if every floor were an exact division. The
# slopes of an expression and one `k` determine nearly everything. `a` is the change per step of a
# variable, modulo `k`. `b / m` is the rest of the slope, divided by `k`. The points leave an
# interval for `s`. Along variables of few values other slopes may fit too. A form that fits at the
# points is only a candidate: `is_equal` proves it.


FEW_VALUES: Final = 64
"""Maximum number of values of a variable along which all slopes that fit are tried."""
SLOPES: Final = 64
"""Maximum number of combinations of slopes that are tried for one divisor."""
LARGEST: Final = 1 << 40
"""Maximum divisor of a candidate; larger ones are not tried."""
_LARGEST_FACTOR: Final = 1 << 62
"""Maximum factor in a candidate, as its values at the points are 64-bit integers."""


def slopes(e: Expr) -> dict[Var, Fraction] | None:
    """Return the slope of `e` along each variable: its change per step, with exact divisions.

    Floor divisions count as exact divisions, remainders by constants as constants. The result is
    `None` if `e` has other operations than these and sums.

    >>> from hloscope.affine import Dim
    >>> slopes((Dim(0) * 3 + Dim(1) // 2) // 4 + Dim(0) % 2)
    {<d1>: Fraction(1, 8), <d0>: Fraction(3, 4)}
    """
    of: dict[Expr, dict[Var, Fraction]] = {}
    for x in postorder(e):
        match x:
            case Const() | Mod(_, Const()):
                of[x] = {}
            case Sum(terms, _):
                of[x] = _combined_slopes((of[t], Fraction(c)) for t, c in terms)
            case FloorDiv(num, Const(d)) if d:  # a division by 0 has no slope
                of[x] = _combined_slopes([(of[num], Fraction(1, d))])
            case _ if isinstance(x, Var):
                of[x] = {x: Fraction(1)}
            case _:
                return None
    return of[e]


def _combined_slopes(parts: Any) -> dict[Var, Fraction]:
    """Return the slopes of a sum; `parts` has pairs: the slopes of a term, and its coefficient."""
    total: dict[Var, Fraction] = {}
    for slope, c in parts:
        for v, a in slope.items():
            total[v] = total.get(v, Fraction(0)) + a * c
    return total


def step_sizes(coefficients: Sequence[int]) -> list[int]:
    """Return candidates for the factor `k` of `a.x + c + k * ((b.x + s) // m)`, largest first.

    That form has one floor division; `a.x` and `b.x` are linear in the variables.

    Args:
        coefficients: The coefficients of the floor divisions in the expression to replace.
    """
    # Two floors that always step together, or in opposite directions, look like one floor of the
    # sum or difference of their heights.
    sizes = {abs(c) for c in coefficients} | {1, gcd(*coefficients)}
    for a, b in combinations(coefficients, 2):
        sizes |= {abs(a + b), abs(a - b), gcd(a, b)}
    return sorted([size for size in sizes if 0 < size <= _LARGEST_FACTOR], reverse=True)


def one_floor(
    values: Values,
    at: Mapping[Var, Values],
    box: Mapping[Var, Interval],
    slope: Mapping[Var, Fraction],
    sizes: Sequence[int],
    divisors: Sequence[int],
) -> Iterator[Expr]:
    """Yield expressions with at most one floor that have the given values at the given points.

    Their form is `a.x + c + k * ((b.x + s) // m)`, where `a.x` and `b.x` are linear in the
    variables.

    Args:
        values: Value of the expression at each point.
        at: The points, one array for each variable.
        box: The intervals of the variables.
        slope: The slopes of the expression, as `slopes` returns them.
        sizes: Candidates for `k`.
        divisors: Candidates for `m`, in addition to those that the slopes determine.
    """
    for k in sizes:
        steps = _step_slopes(values, at, k)
        if steps is None:
            continue
        # What the steps leave is a multiple of `k` plus a constant; the quotient is to be one
        # floor.
        rest = values - sum(a * at[v] for v, a in steps.items())
        c = int(rest[0])
        quotient = (rest - c) // k
        left = {v: (slope.get(v, Fraction(0)) - a) / k for v, a in steps.items()}
        for b, m in _fractions(quotient, at, box, left, divisors):
            if all([abs(n) <= _LARGEST_FACTOR for n in b.values()]):
                yield from _forms_by_shift(quotient, at, steps, c, k, b, m)


def _step_slopes(values: Values, at: Mapping[Var, Values], k: int) -> dict[Var, int] | None:
    """Return slopes `a` such that `values - a.x` is constant modulo `k`, or `None`.

    `values` has the value at each point, and `at` the points, one array for each variable. `a` has
    one integer for each variable, with `|a| <= k / 2`. Point `i + 1` is one step along variable `i`
    from point 0.
    """
    if k == 1:
        return dict.fromkeys(at, 0)
    steps = {}
    rest = values - values[0]
    for i, v in enumerate(at):  # points 1, 2, ... are one step from point 0, variable by variable
        # A one-step move changes the values by `a` modulo `k`; a variable with one value has no
        # step.
        moved = int(at[v][i + 1] - at[v][0])
        a = int(values[i + 1] - values[0]) * moved if moved else 0
        a %= k
        steps[v] = a if 2 * a <= k else a - k
        rest = rest - steps[v] * (at[v] - at[v][0])
    return steps if not (rest % k).any() else None


def _fractions(
    quotient: Values,
    at: Mapping[Var, Values],
    box: Mapping[Var, Interval],
    slope: Mapping[Var, Fraction],
    divisors: Sequence[int],
) -> Iterator[tuple[dict[Var, int], int]]:
    """Yield pairs `(b, m)` for which `quotient == (b.x + s) // m` may hold for some `s`.

    Args:
        quotient: Value of the floor division at each point.
        at: The points, one array for each variable.
        box: The intervals of the variables.
        slope: The slope of the quotient along each variable.
        divisors: Candidates for `m`, in addition to the common denominator of the slopes.
    """
    # The slopes themselves, over their common denominator.
    m = lcm(*[a.denominator for a in slope.values()])
    if m <= LARGEST:
        yield {v: int(a * m) for v, a in slope.items()}, m
    # Along a short variable several slopes give the same floors, and one with a smaller denominator
    # may be the simplest.
    short = [v for v in slope if box[v].size <= FEW_VALUES]
    long = [slope[v].denominator for v in slope if v not in short]
    between = {v: _slopes_along(quotient, at, v) for v in short}
    if any(low >= high for low, high in between.values()):
        return
    base = lcm(*long)
    for m in sorted({lcm(base, d) for d in (1, *divisors)}):
        if m > LARGEST:
            continue
        choices = [
            range(floor(low * m) + 1, ceil(high * m)) if v in between else (int(slope[v] * m),)
            for v in slope
            for low, high in [between.get(v, (Fraction(0), Fraction(0)))]
        ]
        if 0 < prod([len(c) for c in choices]) <= SLOPES:
            for chosen in product(*choices):
                yield dict(zip(slope, chosen, strict=True)), m


def _slopes_along(quotient: Values, at: Mapping[Var, Values], v: Var) -> tuple[Fraction, Fraction]:
    """Return the open interval of slopes along `v` that agree with the values on one line.

    The line has all points that differ from point 0 in `v` only. `quotient` has the value at each
    point, and `at` the points, one array for each variable.
    """
    here = at[v] == at[v]
    for u in at:
        if u != v:
            here = here & (at[u] == at[u][0])
    found = sorted({(int(x), int(q)) for x, q in zip(at[v][here], quotient[here], strict=True)})
    low, high = Fraction(-(1 << 60)), Fraction(1 << 60)
    # `p = floor(u)` and `q = floor(w)` give `q - p - 1 < w - u < q - p + 1`.
    for (x, p), (y, q) in combinations(found, 2):
        low = max(low, Fraction(q - p - 1, y - x))
        high = min(high, Fraction(q - p + 1, y - x))
    return low, high


def _forms_by_shift(
    quotient: Values,
    at: Mapping[Var, Values],
    steps: Mapping[Var, int],
    c: int,
    k: int,
    b: Mapping[Var, int],
    m: int,
) -> Iterator[Expr]:
    """Yield `a.x + c + k * ((b.x + s) // m)` for each shift `s` worth trying.

    Args:
        quotient: Value of `(b.x + s) // m` at each point.
        at: The points, one array for each variable.
        steps: `a`, as one integer for each variable.
        c: The constant.
        k: The factor of the quotient.
        b: The coefficient of each variable in the numerator.
        m: The divisor.
    """
    # `quotient <= (b.x + s) / m < quotient + 1` at every point bounds `s` on both sides.
    gap = quotient * m - sum(b[v] * at[v] for v in b)
    low, high = int(gap.max()), int(gap.min()) + m - 1
    if low > high:
        return
    # Only multiples of `g` matter: `b.x` is a multiple of `g`, as is `m`, so smaller changes of `s`
    # change no floor.
    g = gcd(m, *b.values())
    low, high = -(-low // g) * g, high // g * g
    for s in dict.fromkeys([min(max(0, low), high), high, low]):
        num = linear(*[(v, n // g) for v, n in b.items()], (s // g, 1))
        step = linear((num // (m // g), k), (c, 1))
        yield linear(*[(v, a) for v, a in steps.items()], (step, 1))
