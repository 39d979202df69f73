"""Choice of the printed form of a flat expression: quotients are combined to remainders again.

Many expressions are equal to one flat form. The one with the fewest divisions is chosen, then the
one with fewer terms. Between equals, the one with remainders is chosen, as XLA writes them.
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd, isqrt
from operator import attrgetter
from typing import Final

from hloscope.affine import (
    Const,
    Expr,
    Sum,
    Terms,
    as_sum,
    floor_by,
    linear,
    mod,
    mod_by,
    sorted_sum,
    sum_of,
)
from hloscope.simplifier.context import Context
from hloscope.simplifier.rule import Rule

_DIVISOR: Final = attrgetter("by")
_WEIGHT: Final = attrgetter("_divisions")
HEAVY = 100
"""Weight of a division relative to a term."""
MANY = 256
"""Number of quotients from which a search continues after a change instead of starting again."""


def best_form(e: Expr, engine: Context) -> Expr:
    """Return the printed form of a flat expression with at least one division."""
    if e.by:  # a quotient alone
        num: Expr = e.num  # type: ignore[union-attr]
        shown = engine.surface(num)
        return e if shown is num else floor_by(shown, e.by)
    terms, const = (e.terms, e.const) if type(e) is Sum else as_sum(e)
    coeffs = dict(terms)
    floors = [*filter(_DIVISOR, coeffs)]
    if not floors:
        return e
    done: list[tuple[Expr, int]] = []
    # Divisors from the largest down, as the remainder of a larger divisor may consume quotients by
    # its divisors.
    if len(floors) > 1:
        floors.sort(key=_DIVISOR, reverse=True)
        if min(map(coeffs.__getitem__, floors)) < 0:
            _take_wrapped(floors, coeffs, done, engine)
    if len(coeffs) > 1 or const:
        const += _take_remainders(floors, coeffs, done, engine)
    # A quotient of more divisions comes first, since others may be absorbed into its numerator.
    for f in sorted(floors, key=_WEIGHT, reverse=True):  # first those that others go into
        if f in coeffs:
            const = _take_quotient(f, coeffs, const, done, engine)
    for t, c in done:
        if type(t) is Const:
            const += c * t.value
        elif new := coeffs.get(t, 0) + c:
            coeffs[t] = new
        else:
            del coeffs[t]
    return sum_of(coeffs, const)


PRINTED: Final = Rule("x - c * (x // c)", "x % c", "", best_form)


def _quotients_last(term: tuple[Expr, int]) -> int:
    return term[0].by


def _take_remainders(
    floors: list[Expr], coeffs: dict[Expr, int], done: list[tuple[Expr, int]], engine: Context
) -> int:
    """Move remainders from `coeffs` to `done` until none is left.

    Return the change of the constant.

    After each one the search starts again at the first quotient. From `MANY` quotients on it
    continues with the next one instead.
    """
    if len(floors) == 1:
        found = _as_remainder(floors[0], coeffs, {}, engine)
        return 0 if found is None else _take_remainder(floors[0], *found, coeffs, done, engine)
    by_divisor: dict[int, list[Expr]] = {}
    for f in floors:
        by_divisor.setdefault(f.by, []).append(f)
    change = 0
    again = True
    while again:
        again = False
        for f in floors:
            if f not in coeffs:
                continue
            found = _as_remainder(f, coeffs, by_divisor, engine)
            if found is not None:
                change += _take_remainder(f, *found, coeffs, done, engine)
                again = True
                # A remainder changes coefficients, so earlier quotients may now form better ones.
                if len(floors) < MANY:
                    break
    return change


def _divisors(d: int, known: Collection[int]) -> list[int]:
    """Return the known divisors of a number that are smaller than it, in descending order.

    >>> _divisors(12, [3, 5, 12, 4])
    [4, 3]
    """
    root = isqrt(d)
    if root < len(known):
        small = [k for k in range(1, root + 1) if d % k == 0]
        found = {k for i in small for k in (i, d // i) if k in known}
    else:
        found = {k for k in known if not d % k}
    found.discard(d)
    return sorted(found, reverse=True)


def _as_remainder(
    f: Expr, coeffs: dict[Expr, int], by_divisor: dict[int, list[Expr]], engine: Context
) -> tuple[int, int, Expr] | None:
    """Return `(modulus, k, inner)` of the best remainder `k * (inner % modulus)` that uses `f`.

    `None` if none pays. With `inner` the same numerator over a smaller divisor, `k * (inner % m)`
    is `k * inner - k * m * f`. It pays if the sum has the terms `k * inner` to be removed.
    """
    d = f.by
    coeff = coeffs[f]
    moduli = [d]
    for small in _divisors(d, by_divisor) if len(by_divisor) > 1 else ():
        if any([g in coeffs for g in by_divisor[small]]):
            moduli.append(d // small)
    best: tuple[tuple[int, int], int, int, Expr] | None = None
    for m in moduli:
        if coeff % m:
            continue
        k = -coeff // m
        num: Expr = f.num  # type: ignore[union-attr]
        inner = num if m == d else engine.floor(num, d // m)
        # The cost of the change: weights of terms that appear minus those that disappear, plus the
        # divisions of the remainder minus those of the quotient.
        gain = size = 0
        for t, c in as_sum(inner)[0]:
            old = coeffs.get(t, 0)
            new = old - k * c
            weight = 1 + HEAVY * t._divisions
            gain += ((new != 0) - (old != 0)) * weight
            size += abs(new) - abs(old)
        gain += HEAVY * (1 + inner._divisions - f._divisions)
        if (gain, size) <= (0, 0) and (best is None or (gain, size) < best[0]):
            best = (gain, size), m, k, inner
    return None if best is None else best[1:]


def _take_wrapped(
    floors: list[Expr], coeffs: dict[Expr, int], done: list[tuple[Expr, int]], engine: Context
) -> None:
    """Rewrite `c * ((s * x + y) // d) - c * k * (x // m)` as `c * ((s * (x % m) + y) // d)`.

    Both are equal if `s * m == k * d`. The result has no negative coefficient, and its digits stay
    together. The rewritten terms move from `coeffs` to `done`.
    """
    # Quotients `x // m` that stand alone, by numerator and by the ratio that `s * m == k * d`
    # fixes, so that each candidate is found without trying all pairs.
    alone: dict[tuple[Expr, int, int], list[Expr]] = {}
    for g in floors:
        x: Expr = g.num  # type: ignore[union-attr]
        if g._divisions == 1 and type(x) is not Sum:
            alone.setdefault((x, *_lowest_terms(-coeffs[g], g.by)), []).append(g)
    if not alone:
        return
    place = {f: i for i, f in enumerate(floors)}
    for f in floors:
        if f not in coeffs or f._divisions > 1:
            continue
        terms, _ = as_sum(f.num)  # type: ignore[union-attr]
        c, d = coeffs[f], f.by
        if len(terms) < 2:
            continue
        fitting = [g for x, s in terms for g in alone.get((x, *_lowest_terms(c * s, d)), ())]
        for g in sorted(fitting, key=place.__getitem__):
            k, odd = divmod(-coeffs.get(g, 0), c)
            if g is f or g not in coeffs or g._divisions > 1 or odd or k <= 0 or k * d % g.by:
                continue
            x, scale = g.num, k * d // g.by  # type: ignore[union-attr]
            num = linear((f.num, 1), (x, -scale), (mod(x, g.by), scale))  # type: ignore[union-attr]
            del coeffs[f], coeffs[g]
            done.append((floor_by(num, d), c))
            break


def _lowest_terms(num: int, den: int) -> tuple[int, int]:
    """Return the fraction `num / den` in lowest terms."""
    g = gcd(num, den)
    return num // g, den // g


def _take_remainder(
    f: Expr,
    m: int,
    k: int,
    inner: Expr,
    coeffs: dict[Expr, int],
    done: list[tuple[Expr, int]],
    engine: Context,
) -> int:
    """Move `k * (inner % m)` from the sum to `done`; return the change of the constant."""
    del coeffs[f]
    terms, const = (inner.terms, inner.const) if type(inner) is Sum else as_sum(inner)
    for t, c in terms:
        new = coeffs.get(t, 0) - k * c
        if new:
            coeffs[t] = new
        else:
            coeffs.pop(t, None)
    change = -k * const
    if k < 0 and (const + 1) % m == 0:  # m - 1 - x % m is (-x - 1) % m
        terms, const = tuple([(t, -c) for t, c in terms]), 0
        change += k * (m - 1)
        k = -k
    done.append((_remainder(terms, const, m, engine), k))
    return change


def _remainder(terms: Terms, const: int, m: int, engine: Context) -> Expr:
    """Return `(sum(terms) + const) % m` with positive coefficients and inner remainders."""
    if len(terms) == 1 and terms[0][1] > 0 and const % m == 0:
        num = sorted_sum(terms, 0)
        return mod_by(engine.surface(num) if num._divisions else num, m)
    chosen: dict[Expr, int] = {}
    positive = any([c > 0 for t, c in terms if not t.by])
    for t, c in sorted(terms, key=_quotients_last):
        if t.by:
            target = engine.remainder_target(t, chosen)
            if target and (target - c) % m == 0:
                c = target
            elif c < 0:
                c %= m
        elif c < 0 and positive:
            c %= m
        if c:
            chosen[t] = c
    # Coefficients count modulo `m`, so each may be replaced by a congruent one.
    const %= m
    num = sum_of(chosen, const)
    if const:
        lo, hi = engine.bounds(num)
        if hi < 1 << 62 and lo > -1 << 62:
            num = linear((num, 1), (-(lo // m) * m, 1))
    shown = engine.surface(num) if num._divisions else num
    return mod(shown, m) if m == 1 or type(shown) is Const else mod_by(shown, m)


def _take_quotient(
    f: Expr, coeffs: dict[Expr, int], const: int, done: list[tuple[Expr, int]], engine: Context
) -> int:
    """Move the term of `f` from the sum to `done`; return the new constant."""
    coeff = coeffs.pop(f)
    d = f.by
    terms, shift = as_sum(f.num)  # type: ignore[union-attr]
    new: list[tuple[Expr, int]] = []
    for t, c in terms:
        # `coeff * (num // d) + coeff * k * t` is `coeff * ((num + k * d * t) // d)`.
        if t in coeffs:
            k, odd = divmod(coeffs[t], coeff)
            if k and not odd and _belongs_inside(t, c, k, d):
                c += k * d
                del coeffs[t]
        if c:
            new.append((t, c))
    if coeff < 0 and shift == d - 1:  # -((x + d - 1) / d) is -x / d
        coeff, shift, new = -coeff, 0, [(t, -c) for t, c in new]
    if const and not coeffs and not done and const % coeff == 0:
        k = const // coeff
        lo, _ = engine.bounds(sorted_sum(new, shift + k * d))
        if (shift and k > 0) or (k < 0 <= lo):
            shift += k * d
            const = 0
    num = sorted_sum(new, shift)
    done.append((floor_by(engine.surface(num) if num._divisions else num, d), coeff))
    return const


def _belongs_inside(t: Expr, c: int, k: int, d: int) -> bool:
    """Should `k * t` move into a quotient by `d` whose numerator has `c * t`?"""
    if t.by:
        return True  # one division less
    return abs(k) == 1 and (c < 0 or c > 1) and (c + k * d > 0) == (k > 0)
