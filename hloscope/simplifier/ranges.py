"""Ranges of flat expressions: interval arithmetic, tightened where quotients are correlated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from math import gcd, lcm
from typing import Final, Self, TypeAlias

from hloscope.affine import (
    NEG_INF,
    POS_INF,
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
    bounds_of_node,
    children,
    from_terms,
    linear,
)

# --------------------------------------------------------------------------------------------------
# Ranges of flat expressions: interval arithmetic, sharpened where quotients are correlated.
#
# All arithmetic is exact, on integer pairs `(low, high)`. An unbounded variable has ends so large
# that no sum of other terms reaches them.


Ends: TypeAlias = tuple[int, int]
Values: TypeAlias = tuple[int, ...]
FAR: Final = 1 << 20
"""Absolute value of the sample points of a variable without bounds."""
HUGE: Final = 1 << 1000
"""Number that represents infinity; it far exceeds all products of two int64 numbers."""
MAX_DEPTH: Final = 4
"""Maximum depth of facts used inside facts; quotients in facts may form a cycle."""
VARIABLES: Final = (Dim, Range, Runtime)


def ends(interval: Interval) -> Ends:
    """Return the interval as a pair `(low, high)`, with `-HUGE` and `HUGE` for infinities."""
    return (
        -HUGE if interval.lo <= NEG_INF else interval.lo,
        HUGE if interval.hi >= POS_INF else interval.hi,
    )


def interval(pair: Ends) -> Interval:
    """Return a pair `(low, high)` as an interval; ends beyond int64 become infinities."""
    lo, hi = pair
    return Interval(max(NEG_INF, min(lo, POS_INF)), min(POS_INF, max(hi, NEG_INF)))


def scaled_sum(terms: Iterable[tuple[Expr, int]], const: int, of: Callable[[Expr], Ends]) -> Ends:
    """Return the ends of `sum(c * t) + const`, where `of` returns the ends of a term."""
    lo = hi = const
    for t, c in terms:
        low, high = of(t)
        if c > 0:
            lo += c * low
            hi += c * high
        else:
            lo += c * high
            hi += c * low
    return lo, hi


class Ranges:
    """Facts about values on one domain: ranges of variables, constraints, and derived facts."""

    def __init__(self, box: Mapping[Var, Interval]) -> None:
        self.box: dict[Expr, Ends] = {}
        for v, i in box.items():
            lo, hi = i.lo, i.hi
            self.box[v] = (lo, hi) if lo > NEG_INF and hi < POS_INF else ends(i)
        self.known: dict[Expr, Ends] = {}  # bounds of sums without constant, and of floors
        self.equal: dict[Expr, tuple[int, Expr]] = {}  # floor -> (k, e) where k * floor == e
        self._depth = 0
        self.forget()

    def forget(self) -> None:
        """Empty the memo tables; facts stay."""
        self._bounds: dict[Expr, Ends] = {}
        self._shown: dict[Expr, Ends] = {}
        self._relaxed: dict[Expr, Relaxed] = {}
        self._values: dict[Expr, Values | None] = {}
        self._inside: Self | None = None

    def inside(self) -> Self:
        """Return ranges with the same facts and own memo tables, to use while a fact is applied.

        In it one fact fewer may be applied, so its results can be weaker and must not be mixed with
        those of `self`.
        """
        if self._inside is None:
            self._inside = self.with_empty_memos()
            self._inside._depth = self._depth + 1
        return self._inside

    @abstractmethod
    def with_empty_memos(self) -> Self:
        """Return an object with the same box and facts and with empty memo tables."""

    @abstractmethod
    def printed_form(self, e: Expr) -> Expr:
        """Return the printed form of a flat expression; see `sums.best_form`."""

    # ------------------------------------------------------------------ flat expressions

    def bounds(self, e: Expr) -> Ends:
        """Return a lower and an upper bound of the values of a flat expression."""
        found = self._bounds.get(e)
        if found is None:
            found = self._bounds[e] = self._find_bounds(e)
        return found

    def bounds_of_terms(self, terms: Iterable[tuple[Expr, int]], const: int) -> Ends:
        """Return bounds of `sum(c * t) + const`, from the bounds of each term alone."""
        return scaled_sum(terms, const, self.bounds)

    def _find_bounds(self, e: Expr) -> Ends:
        """Return the result of `bounds` without the memo."""
        kind = type(e)
        if kind is Const:
            return e.value, e.value  # type: ignore[union-attr]
        if kind is Sum:
            return self._bounds_of_sum(e)  # type: ignore[arg-type]
        if kind in VARIABLES:
            return self.box.get(e, (-HUGE, HUGE))
        if kind is FloorDiv and e.by:
            num: Expr = e.num  # type: ignore[union-attr]
            lo, hi = self._bounds.get(num) or self.bounds(num)
            d = e.by
            return self._with_fact(e, lo // d, hi // d) if self.known else (lo // d, hi // d)
        return self.bounds_of_printed(e)

    def _with_fact(self, e: Expr, lo: int, hi: int) -> Ends:
        """Return the bounds `(lo, hi)` of `e`, tightened by the stored fact about `e`, if any."""
        fact = self.known.get(e)
        return (lo, hi) if fact is None else (max(lo, fact[0]), min(hi, fact[1]))

    def _bounds_of_sum(self, e: Sum) -> Ends:
        """Return bounds of a flat sum: the intersection of those that several methods give."""
        terms, const = e.terms, e.const
        lo, hi = self.bounds_of_terms(terms, const)
        # Each of the three bounds is valid, so their intersection is: term by term, from the
        # printed form, and with correlated quotients.
        if len(terms) > 1 and e._divisions > 0:
            shown = self.printed_form(e)
            if shown is not e:
                low, high = self.bounds_of_printed(shown)
                lo, hi = max(lo, low), min(hi, high)
            if lo < hi:
                low, high = self._relaxed_bounds(e)
                lo, hi = max(lo, low), min(hi, high)
        if self.known and self._depth < MAX_DEPTH:
            lo, hi = self._bounds_by_facts(terms, const, lo, hi)
        return lo, hi

    def _bounds_by_facts(self, terms: Terms, const: int, lo: int, hi: int) -> Ends:
        """Return `(lo, hi)`, bounds of a sum, tightened by facts.

        The sum is written as `k * fact + rest` for each fact that shares its first term.
        """
        coeffs = dict(terms)
        for fact, (low, high) in self.known.items():
            if type(fact) is not Sum:
                continue
            first, c = fact.terms[0]
            # The multiple is chosen so that the first term of the fact cancels; any nonzero integer
            # `k` is valid.
            k, odd = divmod(coeffs.get(first, 0), c)
            if odd or k == 0:
                continue
            rest = dict(coeffs)
            for t, a in fact.terms:
                rest[t] = rest.get(t, 0) - k * a
            left = tuple([(t, a) for t, a in rest.items() if a])
            rest_lo, rest_hi = self.inside().bounds_of_terms(left, const)
            if k > 0:
                lo, hi = max(lo, k * low + rest_lo), min(hi, k * high + rest_hi)
            else:
                lo, hi = max(lo, k * high + rest_lo), min(hi, k * low + rest_hi)
        return lo, hi

    # --------------------------------------------------------------------- values at points

    def takes_several(self, e: Expr, den: int) -> bool:
        """Does `e // den` have different values at the sample points?

        If so, the quotient is not constant, and no bounds need to be computed.
        """
        values = self._values.get(e) or self.values(e)
        return values is not None and _are_several(values, den)

    def terms_take_several(self, terms: Iterable[tuple[Expr, int]], const: int, den: int) -> bool:
        """Does `(sum of terms + const) // den` have different values at the sample points?

        Terms are distinct, in any order.
        """
        values = self._values_of_terms(terms, const)
        return values is not None and _are_several(values, den)

    def values(self, e: Expr) -> Values | None:
        """Return the values of a flat expression at four sample points of the box.

        `None` if there are no sample points, or if `e` has an operation other than sums and
        quotients.
        """
        known = self._values
        if e in known:
            return known[e]
        found: Values | None = None
        if e.by:
            num = known.get(e.num) or self.values(e.num)  # type: ignore[union-attr]
            if num is not None:
                found = tuple([value // e.by for value in num])
        elif type(e) is Sum:
            found = self._values_of_terms(e.terms, e.const)
        elif type(e) in VARIABLES:
            found = self._values_of_variable(e)
        elif type(e) is Const:
            found = (e.value,) * 4
        known[e] = found
        return found

    def _values_of_terms(self, terms: Iterable[tuple[Expr, int]], const: int) -> Values | None:
        total = [const] * 4
        for t, k in terms:
            values = self.values(t)
            if values is None:
                return None
            total = [a + k * value for a, value in zip(total, values, strict=True)]
        return tuple(total)

    def _values_of_variable(self, v: Expr) -> Values | None:
        """Return both ends of a variable's interval, and two inner points.

        The inner points differ between variables. The result is `None` if constraints exclude some
        points of the box, or if it is empty.
        """
        lo, hi = self.box.get(v, (-HUGE, HUGE))
        if lo > hi or self.known or self.equal:  # constraints may exclude points of the box
            return None
        lo, hi = max(lo, min(hi, 0) - FAR), min(hi, max(lo, 0) + FAR)
        step = v.index % 3 + 1  # type: ignore[union-attr]
        return lo, hi, lo + (hi - lo) * step // 4, hi - (hi - lo) * step // 5

    # -------------------------------------------------------------------- relaxed quotients

    def _relax(self, f: Expr) -> Relaxed:
        """Return the relaxation of a quotient `f`: a linear form in variables plus a slack."""
        found = self._relaxed.get(f)
        if found is None:
            # `d * (num // d)` is `num - t` with `t` in `[0, d - 1]`. Inner quotients are replaced
            # by their own relaxations at a common scale.
            terms, const = as_sum(f.num)  # type: ignore[union-attr]
            inner = [(c, self._relax(t)) for t, c in terms if t.by]
            scale = lcm(*[r.scale for _, r in inner])
            coeffs = {t: c * scale for t, c in terms if not t.by}
            found = Relaxed(scale, coeffs, const * scale, const * scale)
            for c, r in inner:
                found.add(r, scale // r.scale * c)
            d = f.by
            found.scale *= d
            found.lo -= scale * (d - 1)
            if found.scale > HUGE:  # stop unfolding
                lo, hi = self.bounds(f)
                found = Relaxed(1, {}, lo, hi)
            self._relaxed[f] = found
        return found

    def _relaxed_bounds(self, e: Sum) -> Ends:
        """Return bounds of a sum, with quotients replaced by relaxations where that is narrower.

        `num // d` lies between `(num - d + 1) / d` and `num / d`. Terms that the quotient has in
        common with the rest of the sum cancel, as in `42 * x - 209 * (x // 5)`.
        """
        floors = [(t, c, self._relax(t)) for t, c in e.terms if t.by]
        scale = lcm(*[r.scale for _, _, r in floors])
        if scale > HUGE:
            return -HUGE, HUGE
        coeffs = {t: c * scale for t, c in e.terms if not t.by}
        total = Relaxed(scale, coeffs, e.const * scale, e.const * scale)
        for t, c, r in floors:
            lo, hi = self.bounds(t)
            k = scale // r.scale * c
            # Width with the linear form: its slack, plus the change in width of each variable's
            # term. The quotient's own interval is used if it is not wider.
            width = abs(k) * (r.hi - r.lo)
            for v, a in r.coeffs.items():
                low, high = self.bounds(v)
                old = coeffs.get(v, 0)
                width += (abs(old + a * k) - abs(old)) * (high - low)
            if width < abs(c) * scale * (hi - lo):
                total.add(r, k)
            else:
                total.add(Relaxed(1, {}, lo, hi), c * scale)
        lo, hi = self.bounds_of_terms(coeffs.items(), 0)
        # Rounded inwards, as the sum is an integer.
        return -(-(lo + total.lo) // scale), (hi + total.hi) // scale

    # --------------------------------------------------------------------- printed expressions

    def bounds_of_printed(self, e: Expr) -> Ends:
        """Return a lower and an upper bound of a printed expression, which may have remainders."""
        found = self._shown.get(e)
        if found is None:
            found = self._shown[e] = self._find_shown(e)
        return found

    def _find_shown(self, e: Expr) -> Ends:
        """Return the result of `bounds_of_printed` without the memo."""
        kind = type(e)
        if kind is Const:
            return e.value, e.value  # type: ignore[union-attr]
        if kind is Sum:
            return scaled_sum(e.terms, e.const, self.bounds_of_printed)  # type: ignore[union-attr]
        if kind in VARIABLES:
            return self.box.get(e, (-HUGE, HUGE))
        if (kind is FloorDiv or kind is Mod) and type(e.den) is Const and e.den.value > 0:  # type: ignore[union-attr]
            lo, hi = self.bounds_of_printed(e.num)  # type: ignore[union-attr]
            d = e.den.value  # type: ignore[union-attr]
            if kind is FloorDiv:
                return self._with_fact(e, lo // d, hi // d)
            # Without a multiple of `d` between the ends the remainder is monotonic.
            return (lo % d, hi % d) if lo // d == hi // d else (0, d - 1)
        of = {x: interval(self.bounds_of_printed(x)) for x in children(e)}
        return ends(bounds_of_node(e, of, {}))

    # -------------------------------------------------------------------------------- facts

    def learn(self, e: Expr, lo: int, hi: int) -> None:
        """Add the fact that the flat expression `e` lies in `[lo, hi]`."""
        terms, const = as_sum(e)
        if not terms:
            return
        # Facts are stored in a normal form, without constant and common factor and with a positive
        # first coefficient, so that sums find them.
        g = gcd(*[c for _, c in terms])
        lo, hi = -((const - lo) // g), (hi - const) // g
        terms = tuple([(t, c // g) for t, c in terms])
        if terms[0][1] < 0:
            lo, hi = -hi, -lo
            terms = tuple([(t, -c) for t, c in terms])
        if len(terms) == 1:
            self._learn_term(terms[0][0], lo, hi)
        else:
            key = from_terms(list(terms), 0)
            low, high = self.known.get(key, (-HUGE, HUGE))
            self.known[key] = max(lo, low), min(hi, high)
            self._learn_variables(terms, lo, hi)
            if lo == hi:
                self._learn_equality(terms, lo)

    def _learn_variables(self, terms: Terms, lo: int, hi: int) -> None:
        """Tighten the interval of each variable of a sum that lies in `[lo, hi]`.

        The intervals of the other terms are used.
        """
        for t, c in terms:
            if type(t) in VARIABLES:
                # `c * t = sum - others`, so `c * t` lies in `[lo - high, hi - low]`; division
                # rounds inwards.
                others = tuple([(u, a) for u, a in terms if u is not t])
                low, high = self.bounds_of_terms(others, 0)
                if c > 0:
                    self._learn_term(t, -((high - lo) // c), (hi - low) // c)
                else:
                    self._learn_term(t, -((low - hi) // c), (lo - high) // c)

    def _learn_term(self, t: Expr, lo: int, hi: int) -> None:
        """Store that the variable or quotient `t` lies in `[lo, hi]`; ignore other expressions."""
        if type(t) in VARIABLES:
            low, high = self.box.get(t, (-HUGE, HUGE))
            self.box[t] = max(lo, low), min(hi, high)
        elif t.by:
            low, high = self.known.get(t, (-HUGE, HUGE))
            self.known[t] = max(lo, low), min(hi, high)
            d = t.by
            self.learn(t.num, lo * d, hi * d + d - 1)  # type: ignore[union-attr]

    def _learn_equality(self, terms: Terms, value: int) -> None:
        """Store the value of `d * (num // d)` if the equation `sum(terms) == value` determines it.

        That is so if a quotient by `d` has the coefficient `d` or `-d`.
        """
        for t, c in sorted(terms, key=lambda term: -term[0]._divisions):
            if t.by and abs(c) == t.by:
                rest = linear(*[(u, -a) for u, a in terms if u is not t], (value, 1))
                # An equation that would substitute a quotient by an expression containing it never
                # ends.
                if rest._divisions == 0 or (len(terms) == 2 and not self._leads_to(rest, t)):
                    self.equal[t] = abs(c), rest if c > 0 else -rest

    def _leads_to(self, e: Expr, t: Expr) -> bool:
        """Do the stored equations lead from `e` back to `t`?

        Substitution would then never end.
        """
        todo = [u for u, _ in as_sum(e)[0]]
        for u in todo:
            if u is t:
                return True
            if u in self.equal:
                todo += [w for w, _ in as_sum(self.equal[u][1])[0]]
        return False

    def use_residues(self) -> None:
        """Move the ends of a variable's interval inwards to values that the stored equations allow.

        An equation may say that `v` plus a constant is a multiple of `d`.
        """
        for d, multiple in self.equal.values():
            terms, const = as_sum(multiple)
            if len(terms) == 1 and terms[0][1] == 1 and terms[0][0] in self.box:
                v = terms[0][0]
                lo, hi = self.box[v]
                if lo > -HUGE and hi < HUGE:
                    self.box[v] = lo + (-lo - const) % d, hi - (hi + const) % d


def _are_several(values: Values, den: int) -> bool:
    """Do the quotients of the four values by `den` differ?"""
    return len({value // den for value in values}) > 1


class Relaxed:
    """A relaxed value: `scale * value == sum(c * t) + slack`, with the slack in `[lo, hi]`.

    `coeffs` has the coefficient `c` of each variable `t`.
    """

    __slots__ = ("coeffs", "hi", "lo", "scale")

    def __init__(self, scale: int, coeffs: dict[Expr, int], lo: int, hi: int) -> None:
        self.scale, self.coeffs, self.lo, self.hi = scale, coeffs, lo, hi

    def add(self, other: Relaxed, k: int) -> None:
        """Add `k * (sum + slack)` of `other` to the right side.

        The caller makes the scales agree.
        """
        coeffs = self.coeffs
        for t, c in other.coeffs.items():
            coeffs[t] = coeffs.get(t, 0) + c * k
        if k > 0:
            self.lo += k * other.lo
            self.hi += k * other.hi
        else:
            self.lo += k * other.hi
            self.hi += k * other.lo


# --------------------------------------------------------------------------------------------------
# Interface of the engine that laws see: ranges, and flat forms of smaller expressions.


class Context(Ranges, ABC):
    """The part of the engine that laws may use."""

    reduce_all: bool
    """If true, all coefficients inside quotients are reduced by the divisor.

    Otherwise only the coefficients of quotients are.
    """

    @abstractmethod
    def flat(self, e: Expr) -> Expr:
        """Return the flat form, which is equal to `e` on the domain."""

    @abstractmethod
    def floor(self, num: Expr, den: int, needed_features: int = -1) -> Expr:
        """Return the flat form of `num // den` for a flat `num` and a positive `den`.

        Laws that need only features outside of the mask `needed_features` are not tried, as the
        caller knows that they do nothing.
        """

    @abstractmethod
    def remainder(self, num: Expr, den: int) -> Expr:
        """Return the flat form of `num % den` for a flat `num` and a positive `den`."""

    @abstractmethod
    def apply_sum_laws(self, e: Expr) -> Expr:
        """Return `e` after the laws between the terms of a sum, applied until none changes it."""

    @abstractmethod
    def remainder_target(self, f: Expr, coeffs: Mapping[Expr, int]) -> int:
        """Return the coefficient with which `f` forms a remainder with terms of a sum, or 0.

        `f` is a quotient, and `coeffs` has the coefficients of the sum's other terms. For example,
        `x // 12` forms `k * (x % 12)` with `k * x` if its coefficient is `-12 * k`.
        """
