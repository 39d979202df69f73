"""Laws of `num % den` and of ceilings, for a positive constant `den` and a flat `num`.

Flat forms have no remainders: `x % c` becomes `x - c * (x // c)`. The rows of `MOD` apply where the
engine keeps remainders as leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Final, TypeAlias

from hloscope.affine import Const, Expr, Mod, as_sum, from_terms, linear
from hloscope.simplifier.context import Context
from hloscope.simplifier.rule import Rule

ModCode: TypeAlias = Callable[[Expr, int, Context], Expr | None]


def by_quotient(num: Expr, den: int, engine: Context) -> Expr:
    """A remainder is written as `num - den * (num // den)`."""
    return engine.settle(linear((num, 1), (engine.floor(num, den), -den)))


def ceiling(num: Expr, den: int, engine: Context) -> Expr:
    """A ceiling is written as a floor of `num + den - 1`."""
    return engine.floor(linear((num, 1), (den - 1, 1)), den)


def does_not_wrap(num: Expr, den: int, engine: Context) -> Expr | None:
    """The range of `num` lies within one multiple of `den`."""
    lo, hi = engine.bounds(num)
    return linear((num, 1), (-(lo // den) * den, 1)) if lo // den == hi // den else None


def multiples_vanish(num: Expr, den: int, engine: Context) -> Expr | None:
    """Terms with a multiple of `den` vanish, and the constant is reduced by `den`."""
    terms, const = as_sum(num)
    rest = [(t, c % den if t._divisions else c) for t, c in terms if c % den]
    if tuple(rest) == terms and 0 <= const < den:
        return None
    return engine.remainder(from_terms(rest, const % den), den)


def common_factor_comes_out(num: Expr, den: int, engine: Context) -> Expr | None:
    """All coefficients and the divisor share a factor, which comes out."""
    terms, const = as_sum(num)
    g = den
    for _, c in terms:
        g = gcd(g, c)
    if g == 1:
        return None
    inner = from_terms([(t, c // g) for t, c in terms], const // g)
    return linear((engine.remainder(inner, den // g), g), (const % g, 1))


def small_terms_come_out(num: Expr, den: int, engine: Context) -> Expr | None:
    """Some coefficients and the divisor share a factor, and the other terms stay below it."""
    terms, const = as_sum(num)
    # The largest factor first: it leaves the smallest divisor inside.
    for g in sorted({gcd(c, den) for _, c in terms} - {1, den}, reverse=True):
        small = from_terms([(t, c) for t, c in terms if c % g], const % g)
        lo, hi = engine.bounds(small)
        if lo >= 0 and hi < g:
            inner = from_terms([(t, c // g) for t, c in terms if c % g == 0], const // g)
            return linear((engine.remainder(inner, den // g), g), (small, 1))
    return None


def inner_remainder_vanishes(num: Expr, den: int, engine: Context) -> Expr | None:
    """An inner remainder by a multiple of `den` is replaced by its dividend."""
    terms, const = as_sum(num)
    new: list[tuple[Expr, int]] = []
    for t, c in terms:
        if type(t) is Mod and type(t.den) is Const and c * t.den.value % den == 0:
            new.append((engine.flat(t.num), c))
        else:
            new.append((t, c))
    if tuple(new) == terms:
        return None
    return engine.remainder(engine.settle(linear(*new, (const, 1))), den)


MOD: Final[tuple[Rule[ModCode], ...]] = (
    #     left side                right side             when                  code
    Rule("x % c",   "x - k * c",           "k == x // c",        does_not_wrap),
    Rule("(c * x + y) % c",   "y % c",               "",                   multiples_vanish),
    Rule("(g * x + r) % (g * c)", "x % c * g + r", "0 <= r < g", common_factor_comes_out),
    Rule("(g * x + y) % (g * c)", "x % c * g + y", "0 <= y < g", small_terms_come_out),
    Rule("(x % (a * c) + y) % c", "(x + y) % c", "", inner_remainder_vanishes),
)  # fmt: skip
MOD_BY_QUOTIENT: Final = Rule("x % c", "x - c * (x // c)", "", by_quotient)
CEILING: Final = Rule("-(-x // c)", "(x + c - 1) // c", "", ceiling)
