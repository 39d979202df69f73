"""Laws of leaves, which are not linear combinations of quotients: min, max, symbolic divisors.

Operands are in printed form. A law is a function `(node, engine) -> expression | None`.
"""

from __future__ import annotations

from typing import Any, Final

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
    as_sum,
    floordiv,
    from_terms,
    linear,
    maximum,
    minimum,
    mod,
    product,
)
from hloscope.simplifier.context import Context
from hloscope.simplifier.rule import Rule


def operand_never_wins(e: Min | Max, engine: Context) -> Expr | None:
    """An operand is dropped if another one is never larger (min) or never smaller (max)."""
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
    terms, const = as_sum(e)
    if len(terms) == 1 and not const:
        t, c = terms[0]
        return tuple(getattr(t, "factors", (t,))), c
    return (e,), 1


def quotient_by_symbol(e: FloorDiv, engine: Context) -> Expr | None:
    """Multiples of the divisor come out; a rest between 0 and the divisor is dropped."""
    if _fits(e.num, e.den, engine):
        return ZERO
    quotient, rest = _divides(e.num, e.den)
    return linear(*quotient, (floordiv(rest, e.den), 1)) if quotient else None


def remainder_by_symbol(e: Mod, engine: Context) -> Expr | None:
    """Multiples of the divisor vanish; a number between 0 and the divisor is its own remainder."""
    if _fits(e.num, e.den, engine):
        return e.num
    quotient, rest = _divides(e.num, e.den)
    return mod(rest, e.den) if quotient else None


def ceiling_by_symbol(e: CeilDiv, engine: Context) -> Expr | None:
    """The ceiling of a number that is not positive and above minus the divisor is 0."""
    return ZERO if _fits(-e.num, e.den, engine) else None


def value_is_known(e: Expr, engine: Context) -> Expr | None:
    """An expression whose range is one value is that value."""
    lo, hi = engine.shown_bounds(e)
    return Const(lo) if lo == hi else None


MINIMUM: Final = Rule("min(x, y)", "x", "x <= y", operand_never_wins)
MAXIMUM: Final = Rule("max(x, y)", "x", "x >= y", operand_never_wins)
QUOTIENT: Final = Rule("(n * x + y) // n", "x + y // n", "", quotient_by_symbol)
REMAINDER: Final = Rule("(n * x + y) % n", "y % n", "", remainder_by_symbol)
ROUNDED_UP: Final = Rule("-(x // n)", "0", "0 <= x < n", ceiling_by_symbol)
KNOWN: Final = Rule("x", "k", "k == x", value_is_known)
LEAVES: Final[dict[type[object], tuple[Rule[Any], ...]]] = {
    Min: (MINIMUM, KNOWN),
    Max: (MAXIMUM, KNOWN),
    FloorDiv: (QUOTIENT, KNOWN),
    Mod: (REMAINDER, KNOWN),
    CeilDiv: (ROUNDED_UP, KNOWN),
    Product: (KNOWN,),
}
