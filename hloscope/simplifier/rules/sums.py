"""Laws between the terms of one sum: `(sum, engine) -> expression | None`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from operator import itemgetter
from typing import Final, TypeAlias

from hloscope.affine import Expr, Max, Min, Sum, Terms, as_sum, linear, scaled, sorted_sum
from hloscope.simplifier.context import Context
from hloscope.simplifier.rule import Rule

SumCode: TypeAlias = Callable[[Sum, Context], Expr | None]


def are_unrelated(divisors: list[int]) -> bool:
    """Does no divisor equal another one, or twice another one?

    >>> are_unrelated([2, 5, 8]), are_unrelated([2, 5, 4]), are_unrelated([3, 3])
    (True, False, False)
    """
    if len(divisors) == 2:
        a, b = divisors
        return a != b and a != 2 * b and b != 2 * a
    known = set(divisors)
    return len(known) == len(divisors) and not any([2 * d in known for d in divisors])


def multiple_is_known(e: Sum, engine: Context) -> Expr | None:
    """A multiple of the quotient is known from a constraint."""
    equal = engine.equal
    if not equal:
        return None
    for t, c in e.terms:
        if t in equal and c % equal[t][0] == 0:
            d, multiple = equal[t]
            return linear((e, 1), (t, -c), (multiple, c // d))
    return None


def dropped_digit(e: Sum, engine: Context) -> Expr | None:
    """`x // a - x // (2 * a)` becomes one shifted floor."""
    floors = [(t, c, t.by) for t, c in e.terms if t.by]
    divisors = {d for _, _, d in floors}
    if not any([2 * d in divisors for d in divisors]):
        return None
    # The partner of `a * (x // d)` must have the coefficient `-a` and the divisor `2 * d`.
    halves: dict[tuple[int, int], list[Expr]] = {}
    for g, b, twice in floors:
        halves.setdefault((-b, twice), []).append(g)
    for f, a, d in floors:
        for g in halves.get((a, 2 * d), ()):
            rest = linear((engine.floor(f, 2), 1), (g, -1))
            if rest._divisions == 0:
                # `y - y // 2` is `(y + 1) // 2`.
                new = engine.floor(scaled(f, 1, 1), 2)
                if new._divisions <= max(f._divisions, g._divisions):
                    return linear((e, 1), (f, -a), (g, a), (new, a), (rest, a))
    return None


def shifted_floors_add_up(e: Sum, engine: Context) -> Expr | None:
    """`x // (n*a) + (x + a) // (n*a) + ...` with all `n` shifts is `x // a` (Hermite's identity).

    If that has no division at all, the largest shift is written by the others, whatever their
    coefficients.
    """
    # Quotients of one family differ only in the constant of the numerator.
    families: dict[tuple[Terms, int], list[tuple[int, Expr, int]]] = {}
    for t, c in e.terms:
        if t.by:
            terms, const = as_sum(t.num)  # type: ignore[union-attr]
            families.setdefault((terms, t.by), []).append((const, t, c))
    if len(families) == len(e.terms):
        return None
    for (terms, d), family in families.items():
        if len(family) < 2:
            continue
        family.sort(key=itemgetter(0))
        base = sorted_sum(terms, 0)
        for n in range(2, len(family) + 1):
            if d % n == 0:
                new = _replace_shifts(e, base, d, d // n, n, family, engine)
                if new is not None:
                    return new
    return None


def _replace_shifts(
    e: Sum, base: Expr, d: int, step: int, n: int, family: list[tuple[int, Expr, int]],
    engine: Context,
) -> Expr | None:  # fmt: skip
    by_shift = {const: (t, c) for const, t, c in family}
    for first, _, _ in family:
        shifts = [by_shift.get(first + i * step) for i in range(n)]
        if None in shifts:
            continue
        members = [m for m in shifts if m is not None]
        whole = engine.floor(scaled(base, 1, first), step)
        k = members[-1][1]
        if whole._divisions == 0 or all(c == k for _, c in members):
            return linear((e, 1), *[(t, -k) for t, _ in members], (whole, k))
    return None


def smallest_and_largest(e: Sum, _: Context) -> Expr | None:
    """`min(x, y) + max(x, y)` is `x + y`."""
    for (t, a), (u, b) in combinations(e.terms, 2):
        if a == b and {type(t), type(u)} == {Min, Max} and t.args == u.args and len(t.args) == 2:  # type: ignore[union-attr]
            return linear((e, 1), (t, -a), (u, -a), *[(x, a) for x in t.args])  # type: ignore[union-attr]
    return None


def operands_move_together(e: Sum, _: Context) -> Expr | None:
    """`min(x + a, y + a) - min(x, y)` is `a`."""
    for (t, a), (u, b) in combinations(e.terms, 2):
        if a == -b and type(t) is type(u) and isinstance(t, Min | Max) and isinstance(u, Min | Max):
            shift = linear((t.args[0], 1), (u.args[0], -1))
            pairs = zip(t.args, u.args, strict=False)
            if len(t.args) == len(u.args) and all(
                linear((x, 1), (y, -1)) is shift for x, y in pairs
            ):
                others = [(v, c) for v, c in e.terms if v is not t and v is not u]
                return linear(*others, (e.const, 1), (shift, a))
    return None


SUMS: Final[tuple[Rule[SumCode], ...]] = (
    #     left side                  right side          when               code
    Rule("y + c * k * x",            "y + k * a",        "c * x == a",      multiple_is_known),
    Rule("x // c - x // c // 2",     "(x // c + 1) // 2", "",               dropped_digit),
    Rule("x // (2 * a) + (x + a) // (2 * a)", "x // a",  "",                shifted_floors_add_up),
)  # fmt: skip
EXTREMA_SUMS: Final[tuple[Rule[SumCode], ...]] = (
    Rule("min(x, y) + max(x, y)",    "x + y",            "",                smallest_and_largest),
    Rule("min(x + c, y + c) - min(x, y)", "c",           "",                operands_move_together),
)  # fmt: skip
