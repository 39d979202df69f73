"""Laws between the terms of one sum, and the choice of its printed form."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations
from math import gcd, isqrt
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

from hloscope.affine import (
    Const,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Sum,
    Terms,
    as_sum,
    linear,
    mod,
    scaled,
    sorted_sum,
    sum_of,
)
from hloscope.simplifier.quotients import quotients_last
from hloscope.simplifier.ranges import Context
from hloscope.simplifier.rule import Rule

# --------------------------------------------------------------------------------------------------
# Laws between the terms of one sum: `(sum, engine) -> expression | None`.


SumCode: TypeAlias = Callable[[Sum, Context], Expr | None]


def are_unrelated(divisors: list[int]) -> bool:
    """Is no divisor equal to another one, or twice another one?

    >>> are_unrelated([2, 5, 8]), are_unrelated([2, 5, 4]), are_unrelated([3, 3])
    (True, False, False)
    """
    known = set(divisors)
    return len(known) == len(divisors) and not any([2 * d in known for d in divisors])


def multiple_is_known(e: Sum, engine: Context) -> Expr | None:
    """Replace `c * k * x` in a sum by `k * a` if a constraint states `c * x == a`.

    Return `None` without such a term.
    """
    equal = engine.equal
    if not equal:
        return None
    for t, c in e.terms:
        if t in equal and c % equal[t][0] == 0:
            d, multiple = equal[t]
            return linear((e, 1), (t, -c), (multiple, c // d))
    return None


def dropped_digit(e: Sum, engine: Context) -> Expr | None:
    """Replace `x // a - x // (2 * a)` in a sum by `(x // a + 1) // 2`.

    Return `None` without such terms.
    """
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
    """Replace `x // (n*a) + (x + a) // (n*a) + ...` with all `n` shifts by `x // a`.

    This is Hermite's identity. If `x // a` has no division, the term of the largest shift is
    replaced by the others, whatever their coefficients are. Return `None` without such terms.
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
    """Return `e` with all `n` shifts of a quotient replaced by one quotient, or `None`.

    Args:
        e: The sum.
        base: The numerator of the quotients without its constant.
        d: The divisor of the quotients.
        step: The difference between the constants of consecutive shifts, and the new divisor.
        n: Number of shifts.
        family: Quotients of `e` with this numerator and divisor, as triples: the constant of the
            numerator, the quotient, and its coefficient in `e`.
        engine: The engine that simplifies the new quotient.
    """
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
    """Replace `min(x, y) + max(x, y)` in a sum by `x + y`; return `None` without such terms."""
    for (t, a), (u, b) in combinations(e.terms, 2):
        if a == b and {type(t), type(u)} == {Min, Max} and t.args == u.args and len(t.args) == 2:  # type: ignore[union-attr]
            return linear((e, 1), (t, -a), (u, -a), *[(x, a) for x in t.args])  # type: ignore[union-attr]
    return None


def operands_move_together(e: Sum, _: Context) -> Expr | None:
    """Replace `min(x + a, y + a) - min(x, y)` in a sum by `a`, likewise for `max`.

    Return `None` without such terms.
    """
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


# --------------------------------------------------------------------------------------------------
# Choice of the printed form of a flat expression: quotients are combined to remainders again.
#
# Many expressions are equal to one flat form. The one with the fewest divisions is chosen, then the
# one with fewer terms. Between equals, the one with remainders is chosen, as XLA writes them.


_DIVISOR: Final = attrgetter("by")
_WEIGHT: Final = attrgetter("_divisions")
DIVISION_COST = 100
"""Cost of one division; a term costs 1."""
MANY_QUOTIENTS = 256
"""Number of quotients of a sum from which the search for remainders does not start again."""


def best_form(e: Expr, engine: Context) -> Expr:
    """Return the printed form of a flat expression with at least one division."""
    if e.by:  # a quotient alone
        num: Expr = e.num  # type: ignore[union-attr]
        shown = engine.printed_form(num)
        return e if shown is num else FloorDiv(shown, e.by)
    terms, const = as_sum(e)
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
    for f in sorted(floors, key=_WEIGHT, reverse=True):  # quotients with more divisions first
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


def _take_remainders(
    floors: list[Expr], coeffs: dict[Expr, int], done: list[tuple[Expr, int]], engine: Context
) -> int:
    """Move remainders from `coeffs` to `done`, as many as there are; change both in place.

    Return the change of the sum's constant. After each remainder the search starts again at the
    first quotient. From `MANY_QUOTIENTS` quotients on it continues with the next one instead.

    Args:
        floors: The quotients of the sum, in the order of the search.
        coeffs: The coefficient of each term of the sum.
        done: The terms of the printed form that are already found, with their coefficients.
        engine: The engine of the domain.
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
                if len(floors) < MANY_QUOTIENTS:
                    break
    return change


def _divisors(d: int, known: Collection[int]) -> list[int]:
    """Return the numbers in `known` that divide `d` and are smaller, in descending order.

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
    """Return `(m, k, inner)` of the best remainder `k * (inner % m)` that uses `f`, or `None`.

    `inner` has the numerator of `f` over a smaller divisor, so that `k * (inner % m)` equals `k *
    inner - k * m * f`. The result is `None` if every remainder would make the sum longer.

    Args:
        f: A quotient of the sum.
        coeffs: The coefficient of each term of the sum.
        by_divisor: The quotients of the sum, by divisor.
        engine: The engine of the domain.
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
            weight = 1 + DIVISION_COST * t._divisions
            gain += ((new != 0) - (old != 0)) * weight
            size += abs(new) - abs(old)
        gain += DIVISION_COST * (1 + inner._divisions - f._divisions)
        if (gain, size) <= (0, 0) and (best is None or (gain, size) < best[0]):
            best = (gain, size), m, k, inner
    return None if best is None else best[1:]


def _take_wrapped(
    floors: list[Expr], coeffs: dict[Expr, int], done: list[tuple[Expr, int]], engine: Context
) -> None:
    """Rewrite `c * ((s * x + y) // d) - c * k * (x // m)` as `c * ((s * (x % m) + y) // d)`.

    Both are equal if `s * m == k * d`. The result has no negative coefficient, and its digits stay
    together.

    Args:
        floors: The quotients of the sum.
        coeffs: The coefficient of each term of the sum; the rewritten terms are removed.
        done: The terms of the printed form, with their coefficients; the new ones are appended.
        engine: The engine of the domain.
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
            done.append((FloorDiv(num, d), c))
            break


def _lowest_terms(num: int, den: int) -> tuple[int, int]:
    """Return numerator and denominator of `num / den` in lowest terms."""
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
    """Move `k * (inner % m)` from `coeffs` to `done`; return the change of the sum's constant.

    `coeffs` has the coefficient of each term of the sum, `done` the terms of the printed form. `f`
    is the quotient of the remainder, see `_as_remainder`.
    """
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
    """Return `(sum(terms) + const) % m` in printed form.

    Coefficients become positive, and inner remainders are found again.
    """
    if len(terms) == 1 and terms[0][1] > 0 and const % m == 0:
        num = sorted_sum(terms, 0)
        return Mod(engine.printed_form(num), m)
    chosen: dict[Expr, int] = {}
    positive = any([c > 0 for t, c in terms if not t.by])
    for t, c in sorted(terms, key=quotients_last):
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
    shown = engine.printed_form(num)
    return mod(shown, m)


def _take_quotient(
    f: Expr, coeffs: dict[Expr, int], const: int, done: list[tuple[Expr, int]], engine: Context
) -> int:
    """Move the term of the quotient `f` from `coeffs` to `done`; return the sum's new constant.

    `coeffs` has the coefficient of each term of the sum, `const` is its constant, and `done` has
    the terms of the printed form. Terms of the sum move into the numerator where that makes it
    shorter.
    """
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
    done.append((FloorDiv(engine.printed_form(num), d), coeff))
    return const


def _belongs_inside(t: Expr, c: int, k: int, d: int) -> bool:
    """Should the term `k * t` move into a quotient by `d` whose numerator has the term `c * t`?"""
    if t.by:
        return True  # the sum has one division fewer
    return abs(k) == 1 and (c < 0 or c > 1) and (c + k * d > 0) == (k > 0)
