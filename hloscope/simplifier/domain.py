"""A domain: where expressions are simplified, with everything learnt there so far."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from hloscope.affine import (
    POS_INF,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Sum,
    Var,
    as_sum,
    bounds,
    largest_number,
    linear,
    operators,
    postorder,
    variables,
)
from hloscope.locks import shared_lock
from hloscope.simplifier.engine import Engine, TooDeepError, is_unreduced
from hloscope.simplifier.ranges import VARIABLES, Ends, ends, interval, scaled_sum
from hloscope.simplifier.rule import Trace

Constraint: TypeAlias = tuple[Expr, Interval]
Path: TypeAlias = list[tuple[int, Expr]]
_LOCK: Final = shared_lock()
"""Engines are told of one expression at a time, whichever threads ask."""
_RECENT: dict[object, Domain] = {}
_FREE: Final[frozenset[Expr]] = frozenset()
_KEEP: Final = 256
MOST_KNOWN: Final = 1 << 14
"""Entries of the memo tables of one domain; with more, all are dropped and found again."""
_ROUNDS: Final = 16
_SEVERAL: Final = 3
_MANY: Final = 8
_FEW_VALUES: Final = 256
"""Quotients of so many values are gone through."""


class Domain:
    """A box of variables and constraints `expr in [lo, hi]`, with memo tables for this domain.

    One domain serves many expressions: bounds and simplified forms are computed once.  Recent
    domains are remembered: the same box and constraints give the same object.

    >>> from hloscope.affine import Dim, Interval
    >>> domain = Domain({Dim(0): Interval(0, 9)})
    >>> print(domain.bounds(Dim(0) // 4), domain.simplify(Dim(0) % 16))
    [0, 2] d0
    >>> Domain({Dim(0): Interval(0, 9)}) is domain
    True
    """

    __slots__ = ("_bounds", "_engines", "_simple", "_tied", "box", "constraints")
    box: Mapping[Var, Interval]
    constraints: tuple[Constraint, ...]
    _engines: list[Engine]
    _simple: dict[Expr, Expr]
    _bounds: dict[Expr, Interval]
    _tied: frozenset[Expr]

    def __new__(
        cls, box: Mapping[Var, Interval], constraints: tuple[Constraint, ...] = ()
    ) -> Domain:
        constraints = tuple(constraints)
        parts: list[object] = [constraints]
        for v, i in box.items():
            parts += v, i.lo, i.hi
        key = tuple(parts)
        found = _RECENT.get(key)
        if found is None:
            found = object.__new__(cls)
            found.box, found.constraints = dict(box), constraints
            found._engines = []
            found._simple, found._bounds = {}, {}
            found._tied = _FREE
            if constraints:
                found._tied = _FREE.union(*[variables(e) for e, _ in constraints])
            with _LOCK:
                if len(_RECENT) >= _KEEP:
                    _RECENT.pop(next(iter(_RECENT)), None)
                found = _RECENT.setdefault(key, found)
        return found

    def bounds(self, e: Expr) -> Interval:
        """An interval that holds all values of `e` in the domain."""
        found = self._bounds.get(e)
        if found is None:
            if self._is_free(e):
                found = interval(scaled_sum(*as_sum(e), self._ends))
            else:
                try:
                    found = self._of_forms(e)
                except TooDeepError:
                    found = self._of_parts(e)
            self._bounds[e] = found
        return found

    def _forget_if_many(self) -> None:
        """Drop the memo tables if they have become large; call it with the lock held."""
        known = len(self._simple) + len(self._bounds)
        if known + sum([engine.size for engine in self._engines]) > MOST_KNOWN:
            self._simple, self._bounds, self._engines = {}, {}, []

    def _of_forms(self, e: Expr) -> Interval:
        """The interval by what the flat and the printed form show."""
        with _LOCK:
            self._forget_if_many()
            engine = self._engine(0)
            flat = engine.flat(e)
            lo, hi = engine.bounds(flat)
            low, high = engine.shown_bounds(engine.surface(flat))
        return interval((max(lo, low), min(hi, high)))

    def _of_parts(self, e: Expr) -> Interval:
        """The interval of an expression: from those of its operands, and a constraint on it."""
        found = bounds(e, self.box)
        for x, side in self.constraints:
            if x is e:
                found = found & side
        return found

    def _ends(self, v: Expr) -> Ends:
        """The ends of a variable."""
        return ends(self.box.get(v, Interval.EVERYTHING))  # type: ignore[arg-type]

    def simplify(self, e: Expr) -> Expr:
        """An equal expression on the domain, simpler if one is found."""
        found = self._simple.get(e)
        if found is None:
            if not e._divisions and self._is_simple(e):
                return e
            with _LOCK:
                self._forget_if_many()
                found = self._simple[e] = self._short(e, self._find(e))
        return found

    def _short(self, e: Expr, found: Expr) -> Expr:
        """`found`, if it has no more operators than `e`; else the best form that has not.

        The flat form writes remainders out: `x mod 10 mod 3` becomes two quotients, which is as
        many divisions, but six operators more.  The engine that keeps remainders leaves it as it
        is.
        """
        if not found._divisions:
            return found
        if found._divisions == 2 and found.by:
            found = self._merged(found)
        if found is e:
            return found
        most = operators(e)
        if operators(found) <= most:
            return found
        best = e
        with suppress(TooDeepError):
            kept = self._engine(2).simplify(e)
            size = operators(kept)
            if size <= most and (kept._divisions, size) <= (e._divisions, most):
                best = kept
        return best

    def _merged(self, e: Expr) -> Expr:
        """`(k * (x // a) + r) // c` as `(k * x + r * a) // (a * c)`, if that is equal.

        With `x = q * a + t` the latter is `(k * q + r + k * t / a) // c`: equal if the largest
        `(k * q + r) mod c` leaves room for `k * (a - 1) / a` below `c`.
        """
        terms, r = as_sum(e.num)  # type: ignore[union-attr]
        ((q, k), *others), c = terms, e.by
        if others or not q.by or k <= 0:
            return e
        values = self.bounds(q)
        if not values.is_finite or values.size > _FEW_VALUES:
            return e
        a = q.by
        largest = max([(k * n + r) % c for n in range(values.lo, values.hi + 1)], default=0)
        if largest * a + k * (a - 1) >= c * a:
            return e
        return FloorDiv(linear((q.num, k), (r * a, 1)), Const(c * a))  # type: ignore[union-attr]

    def _is_free(self, e: Expr) -> bool:
        """Is it a linear combination of variables of which no constraint says anything?"""
        if not is_linear(e):
            return False
        tied = self._tied
        return not tied or not any([v in tied for v, _ in as_sum(e)[0]])

    def _is_simple(self, e: Expr) -> bool:
        """Is it a linear combination of such variables, which have more than one value?"""
        if not self._is_free(e):
            return False
        box = self.box
        return not any([v in box and box[v].is_point for v, _ in as_sum(e)[0]])  # type: ignore[index]

    def flat(self, e: Expr) -> Expr:
        """An equal linear combination of variables and quotients: remainders are written out.

        Where that would be far longer, it is `e` itself.
        """
        try:
            with _LOCK:
                self._forget_if_many()
                return self._engine(0).flat(e)
        except TooDeepError:
            return e

    def _find(self, e: Expr, path: Path | None = None) -> Expr:
        """Simplify until nothing changes; of forms that lead to each other, the first in order.

        Args:
            e: The expression.
            path: If given, gets each engine whose result was taken, with what it was given.
        """
        seen = [e]
        for _ in range(_ROUNDS):
            new = self._round(e, path)
            if new is e:
                return e
            if new in seen:
                return min(seen[seen.index(new) :])
            if self._is_final(new):
                return new
            seen.append(new)
            e = new
        return e

    def _is_final(self, e: Expr) -> bool:
        """Would another round change nothing?

        One division of a sum with positive coefficients is printed from the only flat form that
        it has.  Several, that were found by an engine one by one, may meet in another order; with
        constraints, what is printed may be known better than what it was found from.
        """
        if e._divisions != 1 or self.constraints:
            return not e._divisions and is_linear(e)
        for t, _ in as_sum(e)[0]:
            if t._divisions:
                kind = type(t)
                if not (kind is FloorDiv or kind is Mod) or type(t.den) is not Const:  # type: ignore[union-attr]
                    return False
                inside, _ = as_sum(t.num)  # type: ignore[union-attr]
                return all([c > 0 for _, c in inside]) and not self._engine(0).extrema
        return False

    def _round(self, e: Expr, path: Path | None) -> Expr:
        """The form with the fewest divisions that an engine finds; `e` itself if all have more."""
        first = self._engines[0] if self._engines else self._engine(0)
        try:
            best, used = first.simplify(e), 0
        except TooDeepError:
            return e
        is_odd = False
        if best._divisions > 1:
            flat = first.flat(e)
            is_odd = is_unreduced(flat)
            if is_odd:  # the others may do better
                best, used = self._better(best, used, 1, flat)
        if best._divisions >= _MANY or best._divisions > e._divisions:
            best, used = self._better(best, used, 2, e)
        elif is_odd and best._divisions >= _SEVERAL and is_longer(best, e):
            best = self._unchanged(e) or best
        if best is e or best._divisions > e._divisions:
            return e
        is_small = best._divisions <= _MANY and _has_small_numbers(best)
        if not is_small and not within_int64(best, e):
            return e
        if path is not None:
            path.append((used, e))
        return best

    def _better(self, best: Expr, used: int, i: int, e: Expr) -> tuple[Expr, int]:
        """The form of `e` that engine `i` finds, if it has fewer divisions than the best."""
        try:
            other = self._engine(i).simplify(e)
        except TooDeepError:
            return best, used
        return (other, i) if other._divisions < best._divisions else (best, used)

    def _unchanged(self, e: Expr) -> Expr | None:
        """`e`, if that is what remains of it where remainders are kept."""
        try:
            return e if self._engine(2).simplify(e) is e else None
        except TooDeepError:
            return e

    def explain(self, e: Expr) -> Trace:
        """The steps from `e` to `simplify(e)`, of all rounds and of the engines that were used."""
        path: Path = []
        with _LOCK:
            self._find(e, path)
        steps: Trace = []
        for i, before in path:
            with suppress(TooDeepError):  # what is known already made it shorter
                if i == 1:
                    before = self._traced(0, steps).flat(before)
                self._traced(i, steps).simplify(before)
        return steps

    def _traced(self, i: int, steps: Trace) -> Engine:
        """An engine without memory, as what is known already has no steps."""
        engine = self.new_engine(i)
        engine.trace = steps
        return engine

    def _engine(self, i: int) -> Engine:
        while i >= len(self._engines):
            self._engines.append(self.new_engine(len(self._engines)))
        return self._engines[i]

    def new_engine(self, i: int) -> Engine:
        """A fresh engine: the default one, or those for results that it leaves long."""
        if i:
            reduce_all, keep_remainders = i == 1, i == 2
            return Engine(
                self.box, self.constraints, reduce_all=reduce_all, keep_remainders=keep_remainders
            )
        return Engine(self.box, self.constraints)


def simplify(
    e: Expr, where: Domain | Mapping[Var, Interval], *, trace: Trace | None = None
) -> Expr:
    """An expression equal to `e` on every point of the domain, with fewer divisions if possible.

    Args:
        e: The expression.
        where: A domain, or the intervals of the variables.
        trace: If given, every step is appended; the work is done afresh for it.

    >>> from hloscope.affine import Dim, Interval, parse_expr
    >>> box = {Dim(0): Interval(0, 9), Dim(1): Interval(0, 9), Dim(2): Interval(0, 9)}
    >>> print(simplify(parse_expr("((d0 * 100 + d1 * 10 + d2) mod 100) / 10"), box))
    d1
    """
    domain = where if isinstance(where, Domain) else Domain(where)
    if trace is not None:
        trace += domain.explain(e)
    return domain.simplify(e)


def is_longer(new: Expr, old: Expr) -> bool:
    """Has `new` more divisions, or as many and more subexpressions?

    >>> from hloscope.affine import Dim
    >>> is_longer(Dim(0) // 4 + Dim(0), Dim(0) // 4), is_longer(Dim(0), Dim(1) % 2)
    (True, False)
    """
    if new is old or new._divisions != old._divisions:
        return new._divisions > old._divisions
    return bool(new._divisions) and len(postorder(new)) > len(postorder(old))


def is_linear(e: Expr) -> bool:
    """Is it a linear combination of variables?

    >>> from hloscope.affine import Dim
    >>> is_linear(Dim(0) * 2 + 1), is_linear(Dim(0) // 2)
    (True, False)
    """
    if type(e) is Sum:
        return not e._divisions and all([type(t) in VARIABLES for t, _ in e.terms])
    return type(e) is Const or type(e) in VARIABLES


def within_int64(new: Expr, old: Expr) -> bool:
    """Are all coefficients and constants of `new` int64, or no larger than the largest of `old`?

    >>> from hloscope.affine import Dim
    >>> within_int64(Dim(0) * 2**63, Dim(0)), within_int64(Dim(0) * 2**63, Dim(0) * 2**64)
    (False, True)
    """
    size = largest_number(new)
    return size <= POS_INF or size <= largest_number(old)


def _has_small_numbers(e: Expr) -> bool:
    """Are all numbers int64?  False too if there are other operations than sums and divisions."""
    open = [e]
    for x in open:
        kind = type(x)
        if kind is Sum:
            if not -POS_INF <= x.const <= POS_INF:  # type: ignore[union-attr]
                return False
            for t, c in x.terms:  # type: ignore[union-attr]
                if not -POS_INF <= c <= POS_INF:
                    return False
                if type(t) not in VARIABLES:
                    open.append(t)
        elif kind is FloorDiv or kind is Mod:
            open += x.num, x.den  # type: ignore[union-attr]
        elif kind is Const:
            if not -POS_INF <= x.value <= POS_INF:  # type: ignore[union-attr]
                return False
        elif kind not in VARIABLES:
            return False
    return True


def forget_domains() -> None:
    """Drop all remembered domains (for measurements of first runs)."""
    _RECENT.clear()
