"""Laws of quotients, remainders, ceilings, minima and maxima, in the order of their trial."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final, TypeAlias

from hloscope.affine import (
    ZERO,
    CeilDiv,
    Const,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Terms,
    as_sum,
    floordiv,
    from_terms,
    linear,
    maximum,
    minimum,
    mod,
    order_key,
    plus_terms,
    product,
    scaled,
    sorted_sum,
    sum_of,
)
from hloscope.simplifier.ranges import Context
from hloscope.simplifier.rule import Rule

# --------------------------------------------------------------------------------------------------
# Laws of `num // den` for a positive constant `den` and a flat `num`.
#
# To add a law: write a function `(num, den, engine) -> expression | None`, add its row, add a case
# to `tests/simplifier/cases.py`. A row names the features of the numerator that its function needs.
# All features are found in one pass, and a row without any of its features is not tried.


FloorCode: TypeAlias = Callable[[Expr, int, Context], Expr | None]
LIMIT: Final = 1 << 62
"""Numbers that a law produces stay below this limit, safely within int64."""
HEAVY: Final = 16
"""Maximum number of divisions of a quotient whose coefficient is split into two terms.

Splitting repeats the quotient.
"""

FAR, OUTSIDE, COMMON, FACTOR, NEAR_ONE, NEGATIVE, EXTREMUM = (1 << i for i in range(7))
"""Features of a numerator, as bits.

FAR: a coefficient of a quotient, or one that is not in [1, half of the divisor]. OUTSIDE: a term
that may have a multiple of the divisor. COMMON, FACTOR: a factor that all or some coefficients
share with the divisor. NEAR_ONE: a quotient with coefficient 1 or -1. NEGATIVE: a negative
coefficient. EXTREMUM: the only term is a min or max.
"""


def features(num: Expr, den: int, reduce_all: bool) -> int:
    """Return a bit mask of the features (see `FAR`) that the numerator of `num // den` has.

    With `reduce_all`, a coefficient between half of `den` and `den` counts as `OUTSIDE` too.

    >>> from hloscope.affine import Dim
    >>> features(Dim(0) * 4 + Dim(1), 12, False) == FACTOR
    True
    """
    terms, const = as_sum(num)
    found = 0 if 0 <= const < den else OUTSIDE
    half = (den - 1) // 2
    common = den
    for t, c in terms:
        if t.by:
            found |= FAR | NEAR_ONE if -1 <= c <= 1 else FAR
            if c > half:
                found |= OUTSIDE
        if c < 0:
            found |= FAR | OUTSIDE | NEGATIVE
        elif c > half:
            found |= FAR | OUTSIDE if reduce_all or c >= den else FAR
        # A common factor of all coefficients divides every one of these gcds.
        g = gcd(c, den)
        if g == 1:
            common = 1
        else:
            found |= FACTOR
            common = gcd(common, g)
    if common != 1:
        found |= COMMON
    if len(terms) == 1 and type(terms[0][0]) in (Min, Max):
        found |= EXTREMUM
    return found


def value_is_known(num: Expr, den: int, engine: Context) -> Expr | None:
    """The range of `num` lies within one multiple of `den`.

    Return the constant quotient; `None` if the law does not apply.
    """
    lo, hi = engine.bounds(num)
    return Const(lo // den) if lo // den == hi // den else None


def value_is_known_after_residues(num: Expr, den: int, engine: Context) -> Expr | None:
    """The range lies within one multiple of `den`, after coefficients are reduced by `den`.

    The coefficient of a quotient is brought near to where it forms a remainder with the terms that
    it divides: `42*x + 15*(x // 5)` over 224 is `x // 5 + (42*x - 209*(x // 5)) // 224`.
    """
    if num._divisions:
        return _known_after_residues(num, den, engine)
    terms, const = as_sum(num)
    # Two choices of residues are followed at once: nearest to zero, and positive.
    half = (den - 1) // 2
    lo = hi = low = high = const % den
    for t, c in terms:
        least, most = engine.bounds(t)
        near = (c + half) % den - half
        if abs(near) * (most - least) >= den:
            return None  # one term alone takes values too far apart, by either residue
        if near > 0:
            lo += near * least
            hi += near * most
        else:
            lo += near * most
            hi += near * least
        c %= den
        low += c * least
        high += c * most
    if lo // den == hi // den:
        outer = [(t, k) for t, c in terms if (k := (c + half) // den)]
    elif low // den == high // den:
        lo, outer = low, [(t, k) for t, c in terms if (k := c // den)]
    else:
        return None
    return engine.apply_sum_laws(sorted_sum(outer, const // den + lo // den))


def _known_after_residues(num: Expr, den: int, engine: Context) -> Expr | None:
    """Return the result of `value_is_known_after_residues` for a numerator with quotients.

    The result is `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    half = (den - 1) // 2
    base = const % den
    ordered: list[tuple[Expr, int]] = []
    floors: list[tuple[Expr, int]] = []
    for term in terms:
        (floors if term[0].by else ordered).append(term)
    if len(floors) > 1:
        floors.sort(key=quotients_last)
    outer: list[tuple[Expr, int]] = []  # terms that are multiples of `den`, divided by it
    rest: dict[Expr, int] = {}  # terms that remain in the numerator
    # Variables come first, so that each quotient sees the terms it may form a remainder with.
    for t, c in ordered + floors:
        target = engine.remainder_target(t, rest) if t.by and rest else 0
        k = (c - target + half) // den
        if k:
            outer.append((t, k))
            c -= k * den
        if c:
            rest[t] = c
    # Bounds are costly where quotients are correlated: sample points that differ rule the law out.
    several = engine.terms_take_several(rest.items(), base, den)
    lo, hi = (0, den) if several else engine.bounds_of_terms(rest.items(), base)
    if lo // den != hi // den:
        positive = [(t, c % den) for t, c in terms]
        low, high = engine.bounds_of_terms(positive, base)
        if low // den == high // den:
            lo, hi, outer = low, high, [(t, c // den) for t, c in terms]
        elif floors and outer and not several:
            lo, hi = engine.bounds(sum_of(rest, base))
    if lo // den != hi // den:
        return None
    return engine.apply_sum_laws(linear(*outer, (const // den + lo // den, 1)))


def quotients_last(term: tuple[Expr, int]) -> int:
    """Return a sort key that puts terms with a quotient behind others, by ascending divisor."""
    return term[0].by


def multiples_come_out(num: Expr, den: int, engine: Context) -> Expr | None:
    """Terms with a multiple of `den` come out; coefficients of quotients are reduced too.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    outer: dict[Expr, int] = {}
    rest: list[tuple[Expr, int]] = []
    half = (den - 1) // 2
    reduce_all = engine.reduce_all
    wanted = ~FAR  # residues stay, so laws about them would fail again
    for t, c in terms:
        k, left = divmod(c, den)
        # The residue nearest to zero makes the range of the rest narrowest.
        if left and (reduce_all or t.by) and t._divisions <= HEAVY:
            k = (c + half) // den
            left = c - k * den
        elif left:
            k, left = 0, c
        if k:
            outer[t] = k
        if left:
            rest.append((t, left))
        elif t.by:
            wanted = -1  # a quotient is gone that could form a remainder, so all laws are tried
    k = const // den
    if not outer and not k:
        return None
    inner = engine.floor(sorted_sum(rest, const - k * den), den, wanted)
    return engine.apply_sum_laws(plus_terms(outer, k, inner, 1))


def common_factor_cancels(num: Expr, den: int, engine: Context) -> Expr | None:
    """All coefficients and the divisor share a factor, which cancels.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    g = gcd(den, *[c for _, c in terms])
    if g == 1:
        return None
    return engine.floor(sorted_sum([(t, c // g) for t, c in terms], const // g), den // g)


def some_terms_have_a_factor(num: Expr, den: int, engine: Context) -> Expr | None:
    """Some coefficients and the divisor share a factor, and the other terms over it get simpler.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    factors: list[int] = []
    for _, c in terms:
        g = gcd(c, den)
        if g != 1 and g not in factors:
            factors.append(g)
    if len(terms) < 2 and not (const and factors):
        return None
    factors.sort(reverse=True)
    before = num._divisions
    # Only a factor that does not add divisions is taken; the largest ones leave the smallest
    # divisor.
    for g in factors[:3]:
        others = sorted_sum([(t, c) for t, c in terms if c % g], const)
        inner = engine.floor(others, g)
        if inner._divisions > before:
            continue
        new = engine.apply_sum_laws(
            plus_terms({t: c // g for t, c in terms if c % g == 0}, 0, inner, 1)
        )
        after = new._divisions
        if after < before or (after == before and inner._divisions == 0):
            return engine.floor(new, den // g)
    return None


def quotients_merge(num: Expr, den: int, engine: Context) -> Expr | None:
    """A quotient with coefficient 1 or -1 inside merges with the outer one: one division less.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    best: Expr | None = None
    sign = 0
    for t, c in terms:
        # The smallest divisor keeps the numbers of the merged quotient small.
        if (c == 1 or c == -1) and t.by and (not best or t.by < best.by):
            best, sign = t, c
    if best is None:
        return None
    d = best.by
    if d * den >= LIMIT:
        return None
    inner = best.num  # type: ignore[union-attr]
    rest = {t: c * d for t, c in terms if t is not best}
    # `-(x // d)` is `(-x + d - 1) // d`, as the sign turns the floor into a ceiling.
    shift = const * d + (d - 1 if sign < 0 else 0)
    new = engine.apply_sum_laws(plus_terms(rest, shift, inner, sign))
    lo, hi = engine.bounds_of_terms(*as_sum(new))
    if lo < -LIMIT or hi > LIMIT:
        lo, hi = engine.bounds(new)
        if lo < -LIMIT or hi > LIMIT:
            return None
    return engine.floor(new, d * den)


def sign_is_canonical(num: Expr, den: int, engine: Context) -> Expr | None:
    """`-x // c` is `-((x + c - 1) // c)`: the first term gets a positive coefficient.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, _ = as_sum(num)
    lead = leading_coefficient(terms, den)
    if lead >= 0:
        return None
    return scaled(engine.floor(scaled(num, -1, den - 1), den), -1)


def leading_coefficient(terms: Terms, den: int) -> int:
    """Return the coefficient whose sign `sign_is_canonical` makes positive; 0 if there is none.

    It is that of the first term in printing order, variables before quotients. A quotient whose
    coefficient is half of `den` is skipped, as the coefficient is congruent to its negative.
    """
    best = None
    lead = 0
    for t, c in terms:
        floor = t.by > 0
        if 2 * abs(c) == den and floor:
            continue
        key = floor, order_key(t)
        if best is None or key < best:
            best, lead = key, c
    return lead


def enters_minimum(num: Expr, den: int, engine: Context) -> Expr | None:
    """The floor of a min or max is taken of its operands; at most one is not a constant.

    Return the new form of `num // den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    if len(terms) != 1 or abs(terms[0][1]) != 1:
        return None
    e, sign = terms[0]
    if not isinstance(e, Min | Max) or sum(type(x) is not Const for x in e.args) > 1:
        return None
    # A negative sign turns a minimum into a maximum.
    of = minimum if isinstance(e, Min) == (sign == 1) else maximum
    args = [engine.flat(linear((x, sign), (const, 1))) for x in e.args]
    return engine.flat(of(*[engine.printed_form(engine.floor(x, den)) for x in args]))


MERGED: Final[Rule[FloorCode]] = Rule(
    "(x // a + y) // c", "(x + a * y) // (a * c)", "", quotients_merge, NEAR_ONE
)
"""The engine also applies this law, with `y = 0`, to a quotient of a quotient."""
FLOORDIV: Final[tuple[Rule[FloorCode], ...]] = (
    #     left side                  right side                 when                     code
    Rule("x // c",   "k",                       "k == x // c",           value_is_known),
    Rule("(c * y + x) // c", "y + k", "k == x // c", value_is_known_after_residues, FAR),
    Rule("(c * x + y) // c", "x + y // c", "", multiples_come_out, OUTSIDE),
    Rule("(g * x + r) // (g * c)",    "x // c",  "0 <= r < g", common_factor_cancels, COMMON),
    Rule("(g * x + y) // (g * c)", "(x + y // g) // c", "", some_terms_have_a_factor, FACTOR),
    MERGED,
    Rule("-x // c",   "-((x + c - 1) // c)",     "",       sign_is_canonical, NEGATIVE),
    Rule("min(x, a) // c",   "min(x // c, a // c)",     "",   enters_minimum, EXTREMUM),
)  # fmt: skip


def laws_of(found: int) -> tuple[Rule[FloorCode], ...]:
    """Return the laws of quotients that need one of these features, without the first law.

    `found` is the bit mask that `features` returns.
    """
    return tuple([rule for rule in FLOORDIV[1:] if rule.needs & found])


# --------------------------------------------------------------------------------------------------
# Laws of `num % den` and of ceilings, for a positive constant `den` and a flat `num`.
#
# Flat forms have no remainders: `x % c` becomes `x - c * (x // c)`. The rows of `MOD` apply where
# the engine keeps remainders as leaves.


ModCode: TypeAlias = Callable[[Expr, int, Context], Expr | None]


def by_quotient(num: Expr, den: int, engine: Context) -> Expr:
    """A remainder is written as `num - den * (num // den)`.

    Return that form of `num % den`.
    """
    return engine.apply_sum_laws(linear((num, 1), (engine.floor(num, den), -den)))


def ceiling(num: Expr, den: int, engine: Context) -> Expr:
    """A ceiling is written as a floor of `num + den - 1`.

    Return that form of the rounded-up quotient of `num` and `den`.
    """
    return engine.floor(linear((num, 1), (den - 1, 1)), den)


def does_not_wrap(num: Expr, den: int, engine: Context) -> Expr | None:
    """The range of `num` lies within one multiple of `den`.

    Return the new form of `num % den`; `None` if the law does not apply.
    """
    lo, hi = engine.bounds(num)
    return linear((num, 1), (-(lo // den) * den, 1)) if lo // den == hi // den else None


def multiples_vanish(num: Expr, den: int, engine: Context) -> Expr | None:
    """Terms with a multiple of `den` vanish, and the constant is reduced by `den`.

    Return the new form of `num % den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    rest = [(t, c % den if t._divisions else c) for t, c in terms if c % den]
    if tuple(rest) == terms and 0 <= const < den:
        return None
    return engine.remainder(from_terms(rest, const % den), den)


def common_factor_comes_out(num: Expr, den: int, engine: Context) -> Expr | None:
    """All coefficients and the divisor share a factor, which comes out.

    Return the new form of `num % den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    g = gcd(den, *[c for _, c in terms])
    if g == 1:
        return None
    inner = from_terms([(t, c // g) for t, c in terms], const // g)
    return linear((engine.remainder(inner, den // g), g), (const % g, 1))


def small_terms_come_out(num: Expr, den: int, engine: Context) -> Expr | None:
    """Some coefficients and the divisor share a factor, and the other terms stay below it.

    Return the new form of `num % den`; `None` if the law does not apply.
    """
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
    """An inner remainder by a multiple of `den` is replaced by its dividend.

    Return the new form of `num % den`; `None` if the law does not apply.
    """
    terms, const = as_sum(num)
    new: list[tuple[Expr, int]] = []
    for t, c in terms:
        if type(t) is Mod and type(t.den) is Const and c * t.den.value % den == 0:
            new.append((engine.flat(t.num), c))
        else:
            new.append((t, c))
    if tuple(new) == terms:
        return None
    return engine.remainder(engine.apply_sum_laws(linear(*new, (const, 1))), den)


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


# --------------------------------------------------------------------------------------------------
# Laws of leaves, which are not linear combinations of quotients: min, max, symbolic divisors.
#
# Operands are in printed form. A law is a function `(node, engine) -> expression | None`.


def operand_never_wins(e: Min | Max, engine: Context) -> Expr | None:
    """An operand is dropped if another one is never larger (min) or never smaller (max).

    Return the new form of `e`; `None` if the law does not apply.
    """
    args = e.args
    keep: list[Expr] = []
    for i, x in enumerate(args):
        for j, y in enumerate(args):
            if i == j or (j < i and y not in keep):
                continue
            lo, hi = engine.bounds(engine.flat(linear((x, 1), (y, -1))))
            loses = lo >= 0 if type(e) is Min else hi <= 0
            # Of two operands that are always equal, the later one is dropped, so that one remains.
            if loses and not (lo == hi == 0 and i < j):
                break
        else:
            keep.append(x)
    if len(keep) == len(args):
        return None
    return (minimum if type(e) is Min else maximum)(*keep)


def _fits(x: Expr, den: Expr, engine: Context) -> bool:
    """Is `0 <= x < den` on the whole domain?"""
    if engine.bounds(engine.flat(x))[0] < 0:
        return False
    return engine.bounds(engine.flat(linear((den, 1), (x, -1))))[0] > 0


def _divides(x: Expr, den: Expr) -> tuple[list[tuple[Expr, int]], Expr]:
    """Write `x == den * quotient + rest` term by term.

    Return the terms of the quotient, and the rest.
    """
    factors, scale = _factors(den)
    quotient: list[tuple[Expr, int]] = []
    rest: list[tuple[Expr, int]] = []
    terms, const = as_sum(x)
    for t, c in terms:
        # A term is a multiple of the divisor if it has all of its factors, and its coefficient is a
        # multiple.
        own = list(_factors(t)[0])
        for f in factors:
            if f not in own:
                break
            own.remove(f)
        else:
            if c % scale == 0:
                quotient.append((product(*own), c // scale))
                continue
        rest.append((t, c))
    return quotient, from_terms(rest, const)


def _factors(e: Expr) -> tuple[tuple[Expr, ...], int]:
    """Return the factors of an expression and its constant coefficient.

    A sum of several terms is a single factor.
    """
    terms, const = as_sum(e)
    if len(terms) == 1 and not const:
        t, c = terms[0]
        return tuple(getattr(t, "factors", (t,))), c
    return (e,), 1


def quotient_by_symbol(e: FloorDiv, engine: Context) -> Expr | None:
    """Multiples of the divisor come out; a rest between 0 and the divisor is dropped.

    Return the new form of `e`; `None` if the law does not apply.
    """
    if _fits(e.num, e.den, engine):
        return ZERO
    quotient, rest = _divides(e.num, e.den)
    return linear(*quotient, (floordiv(rest, e.den), 1)) if quotient else None


def remainder_by_symbol(e: Mod, engine: Context) -> Expr | None:
    """Multiples of the divisor vanish; a number between 0 and the divisor is its own remainder.

    Return the new form of `e`; `None` if the law does not apply.
    """
    if _fits(e.num, e.den, engine):
        return e.num
    quotient, rest = _divides(e.num, e.den)
    return mod(rest, e.den) if quotient else None


def ceiling_by_symbol(e: CeilDiv, engine: Context) -> Expr | None:
    """The ceiling of a number that is not positive and above minus the divisor is 0.

    Return the new form of `e`; `None` if the law does not apply.
    """
    return ZERO if _fits(-e.num, e.den, engine) else None


def leaf_is_known(e: Expr, engine: Context) -> Expr | None:
    """An expression whose range is one value is that value.

    Return the constant; `None` if the law does not apply.
    """
    lo, hi = engine.bounds_of_printed(e)
    return Const(lo) if lo == hi else None


MINIMUM: Final = Rule("min(x, y)", "x", "x <= y", operand_never_wins)
MAXIMUM: Final = Rule("max(x, y)", "x", "x >= y", operand_never_wins)
QUOTIENT: Final = Rule("(n * x + y) // n", "x + y // n", "", quotient_by_symbol)
REMAINDER: Final = Rule("(n * x + y) % n", "y % n", "", remainder_by_symbol)
ROUNDED_UP: Final = Rule("-(x // n)", "0", "0 <= x < n", ceiling_by_symbol)
KNOWN: Final = Rule("x", "k", "k == x", leaf_is_known)
LEAVES: Final[dict[type[object], tuple[Rule[Any], ...]]] = {
    Min: (MINIMUM, KNOWN),
    Max: (MAXIMUM, KNOWN),
    FloorDiv: (QUOTIENT, KNOWN),
    Mod: (REMAINDER, KNOWN),
    CeilDiv: (ROUNDED_UP, KNOWN),
    Product: (KNOWN,),
}
