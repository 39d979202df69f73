"""Interpolation by one floor: fit `a.x + c + k * ((b.x + s) // m)` to values at sample points.

The slopes of an expression (with every floor taken as exact division) and one `k` determine nearly
everything. `a` is the change per step of a variable, modulo `k`. `b / m` is the rest of the slope.
The points leave an interval for `s`. Along variables of few values other slopes may fit too. A form
that fits at the points is only a candidate: `exact.py` proves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor, gcd, lcm, prod
from typing import Any, Final

from hloscope.affine import Const, Expr, FloorDiv, Interval, Mod, Sum, Var, linear, postorder
from hloscope.arrays import Ints as Values

SMALL: Final = 64
"""Number of values up to which all slopes along a variable that fit are tried."""
SLOPES: Final = 64
"""Largest number of combinations of slopes that are tried for one divisor."""
LARGEST: Final = 1 << 40
"""Largest divisor of a candidate."""
_LARGEST_FACTOR: Final = 1 << 62
"""Largest factor of a candidate, as values at the points are 64-bit integers."""


def slopes(e: Expr) -> dict[Var, Fraction] | None:
    """Return the slope along each variable, with floors taken as exact division.

    `None` if `e` has no slope.

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
    total: dict[Var, Fraction] = {}
    for slope, c in parts:
        for v, a in slope.items():
            total[v] = total.get(v, Fraction(0)) + a * c
    return total


def step_sizes(coefficients: Sequence[int]) -> list[int]:
    """Return candidates for `k`, descending, given the coefficients of the floors."""
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

    Args:
        values: Value of the expression at each point.
        at: The points, one array for each variable.
        box: The intervals of the variables.
        slope: The slopes of the expression.
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
    """Return `a` such that `values - a.x` is constant modulo `k`, with `|a| <= k / 2`.

    `None` if there is none.
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
    """Yield coefficients and divisors `(b, m)` worth trying for `quotient == (b.x + s) // m`."""
    # The slopes themselves, over their common denominator.
    m = lcm(*[a.denominator for a in slope.values()])
    if m <= LARGEST:
        yield {v: int(a * m) for v, a in slope.items()}, m
    # Along a short variable several slopes give the same floors, and one with a smaller denominator
    # may be the simplest.
    short = [v for v in slope if box[v].size <= SMALL]
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
    """Return the open interval of slopes along `v` that the points of one line allow."""
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
    """Yield the expressions with these coefficients, one for each shift `s` worth trying."""
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
