"""Domains: a box and constraints under which expressions are simplified, with cached results."""

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
from hloscope.simplifier.engine import Engine, TooDeepError, is_unreduced
from hloscope.simplifier.ranges import VARIABLES, Ends, ends, interval, scaled_sum
from hloscope.simplifier.rule import Trace
from hloscope.support.system import shared_lock

Constraint: TypeAlias = tuple[Expr, Interval]
Path: TypeAlias = list[tuple[int, Expr]]
_LOCK: Final = shared_lock()
"""Serialises the use of engines, whose memo tables are not thread-safe."""
_RECENT: dict[object, Domain] = {}
_FREE: Final[frozenset[Expr]] = frozenset()
_KEEP: Final = 256
MOST_KNOWN: Final = 1 << 14
"""Maximum number of memo entries of one domain; if it is exceeded, all of them are dropped."""
_ROUNDS: Final = 16
_SEVERAL: Final = 3
_MANY: Final = 8
_FEW_VALUES: Final = 256
"""Maximum number of values of a quotient that `_merged` enumerates."""


class Domain:
    """A box of variables and constraints `expr in [lo, hi]`, with memo tables of its results.

    One domain serves many expressions: bounds and simplified forms are computed once. Recent
    domains are interned: the same box and constraints give the same object.

    >>> from hloscope.affine import Dim, Interval
    >>> domain = Domain({Dim(0): Interval(0, 9)})
    >>> print(domain.bounds(Dim(0) // 4), domain.simplify(Dim(0) % 16))
    [0, 2] d0
    >>> Domain({Dim(0): Interval(0, 9)}) is domain
    True
    """

    __slots__ = ("_bounds", "_constrained", "_engines", "_simple", "box", "constraints")
    box: Mapping[Var, Interval]
    constraints: tuple[Constraint, ...]
    _engines: list[Engine]
    _simple: dict[Expr, Expr]
    _bounds: dict[Expr, Interval]
    _constrained: frozenset[Expr]

    def __new__(
        cls, box: Mapping[Var, Interval], constraints: tuple[Constraint, ...] = ()
    ) -> Domain:
        constraints = tuple(constraints)
        parts: list[object] = [constraints]
        for v, i in box.items():
            parts += v, i.lo, i.hi
        # Callers build a `Domain` for each map; this table lets equal ones share their memo tables.
        key = tuple(parts)
        found = _RECENT.get(key)
        if found is None:
            found = object.__new__(cls)
            found.box, found.constraints = dict(box), constraints
            found._engines = []
            found._simple, found._bounds = {}, {}
            found._constrained = _FREE
            if constraints:
                found._constrained = _FREE.union(*[variables(e) for e, _ in constraints])
            with _LOCK:
                if len(_RECENT) >= _KEEP:
                    _RECENT.pop(next(iter(_RECENT)), None)
                found = _RECENT.setdefault(key, found)
        return found

    def bounds(self, e: Expr) -> Interval:
        """Return an interval that contains every value of `e` on the domain.

        It is not always the smallest one.
        """
        found = self._bounds.get(e)
        if found is None:
            # Without constraints on its variables, the bounds of a linear expression are exact
            # already.
            if self._is_unconstrained(e):
                found = interval(scaled_sum(*as_sum(e), self._ends))
            else:
                try:
                    found = self._of_forms(e)
                except TooDeepError:
                    found = self._bounds_of_operands(e)
            self._bounds[e] = found
        return found

    def _forget_if_many(self) -> None:
        """Drop the memo tables if they have more than `MOST_KNOWN` entries.

        The caller holds `_LOCK`.
        """
        known = len(self._simple) + len(self._bounds)
        if known + sum([engine.size for engine in self._engines]) > MOST_KNOWN:
            self._simple, self._bounds, self._engines = {}, {}, []

    def _of_forms(self, e: Expr) -> Interval:
        """Return the intersection of the bounds from the flat and from the printed form of `e`.

        Raises:
            TooDeepError: The flat form would be far longer than `e`.
        """
        with _LOCK:
            self._forget_if_many()
            engine = self._engine(0)
            flat = engine.flat(e)
            lo, hi = engine.bounds(flat)
            low, high = engine.bounds_of_printed(engine.printed_form(flat))
        return interval((max(lo, low), min(hi, high)))

    def _bounds_of_operands(self, e: Expr) -> Interval:
        """Return the interval that follows from `e`'s operands, and from constraints on `e`."""
        found = bounds(e, self.box)
        for x, side in self.constraints:
            if x is e:
                found = found & side
        return found

    def _ends(self, v: Expr) -> Ends:
        """Return the lower and upper end of a variable's interval."""
        return ends(self.box.get(v, Interval.EVERYTHING))  # type: ignore[arg-type]

    def simplify(self, e: Expr) -> Expr:
        """Return an expression equal to `e` on the domain, with fewer divisions or operators.

        The result is `e` itself if nothing shorter was found.
        """
        found = self._simple.get(e)
        if found is None:
            if not e._divisions and self._is_simple(e):
                return e
            with _LOCK:
                self._forget_if_many()
                found = self._simple[e] = self._form_within_size(e, self._find(e))
        return found

    def _form_within_size(self, e: Expr, found: Expr) -> Expr:
        """Return `found` if it has no more operators than `e`; else the best form that has no more.

        `found` is a simplified form of `e`. The flat form writes remainders out: `x mod 10 mod 3`
        becomes two quotients, which is as many divisions, but six operators more. The engine that
        keeps remainders leaves it unchanged.
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
        """Return `(k * (x // a) + r) // c` as `(k * x + r * a) // (a * c)`, if both are equal.

        Otherwise return `e`. With `x = q * a + t` the new form is `(k * q + r + k * t / a) // c`.
        It is equal if the largest `(k * q + r) mod c` leaves room for `k * (a - 1) / a` below `c`.
        """
        terms, r = as_sum(e.num)  # type: ignore[union-attr]
        ((q, k), *others), c = terms, e.by
        if others or not q.by or k <= 0:
            return e
        values = self.bounds(q)
        if not values.is_finite or values.size > _FEW_VALUES:
            return e
        a = q.by
        # The values of `q` are few, so the largest remainder is found by enumeration.
        largest = max([(k * n + r) % c for n in range(values.lo, values.hi + 1)], default=0)
        if largest * a + k * (a - 1) >= c * a:
            return e
        return FloorDiv(linear((q.num, k), (r * a, 1)), Const(c * a))  # type: ignore[union-attr]

    def _is_unconstrained(self, e: Expr) -> bool:
        """Is `e` a linear combination of variables that occur in no constraint?"""
        if not is_linear(e):
            return False
        tied = self._constrained
        return not tied or not any([v in tied for v, _ in as_sum(e)[0]])

    def _is_simple(self, e: Expr) -> bool:
        """Is `e` a linear combination of unconstrained variables, each with more than one value?"""
        if not self._is_unconstrained(e):
            return False
        box = self.box
        return not any([v in box and box[v].is_point for v, _ in as_sum(e)[0]])  # type: ignore[index]

    def flat(self, e: Expr) -> Expr:
        """Return the flat form of `e`: an equal linear combination of variables and quotients.

        Returns `e` itself if that form would be far longer.
        """
        try:
            with _LOCK:
                self._forget_if_many()
                return self._engine(0).flat(e)
        except TooDeepError:
            return e

    def _find(self, e: Expr, path: Path | None = None) -> Expr:
        """Return the form of `e` that simplification no longer changes.

        Of forms that lead to each other in a cycle, return the first in printing order.

        Args:
            e: The expression.
            path: If given, receives a pair for each accepted result: the number of the engine (see
                `new_engine`) and the expression that it simplified.
        """
        seen = [e]
        for _ in range(_ROUNDS):
            new = self._round(e, path)
            if new is e:
                return e
            # A cycle: its smallest member is the same from whichever member the search started.
            if new in seen:
                return min(seen[seen.index(new) :])
            if self._is_final(new):
                return new
            seen.append(new)
            e = new
        return e

    def _is_final(self, e: Expr) -> bool:
        """Is `e` known to stay unchanged in another round?

        One division of a sum with positive coefficients is printed from the only flat form it has.
        Several divisions may combine in another order in the next round. With constraints, the
        bounds of the printed form may be tighter than those of the form it came from.
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
        """Return the form of `e` with the fewest divisions that any engine finds.

        The result is `e` if all forms have more divisions than `e`. Accepted steps are added to
        `path`.
        """
        first = self._engines[0] if self._engines else self._engine(0)
        try:
            best, used = first.simplify(e), 0
        except TooDeepError:
            return e
        is_odd = False
        if best._divisions > 1:
            flat = first.flat(e)
            is_odd = is_unreduced(flat)
            # The engine with `reduce_all` would reduce several terms, so it may find another form.
            if is_odd:  # the engine with other options may find a shorter form
                best, used = self._better(best, used, 1, flat)
        # Writing remainders out made it long: the engine that keeps them may find a shorter form.
        if best._divisions >= _MANY or best._divisions > e._divisions:
            best, used = self._better(best, used, 2, e)
        elif is_odd and best._divisions >= _SEVERAL and is_longer(best, e):
            best = self._if_unchanged(e) or best
        if best is e or best._divisions > e._divisions:
            return e
        # A form whose numbers leave int64 is of no use to callers that compute with int64, unless
        # the input has such numbers.
        if not within_int64(best, e):
            return e
        if path is not None:
            path.append((used, e))
        return best

    def _better(self, best: Expr, used: int, i: int, e: Expr) -> tuple[Expr, int]:
        """Return engine `i`'s form of `e`, and `i`, if the form has fewer divisions than `best`.

        Otherwise return `best`, and `used`, the number of the engine that found `best`.
        """
        try:
            other = self._engine(i).simplify(e)
        except TooDeepError:
            return best, used
        return (other, i) if other._divisions < best._divisions else (best, used)

    def _if_unchanged(self, e: Expr) -> Expr | None:
        """Return `e` if the engine with `keep_remainders` leaves it unchanged, else `None`.

        Also returns `e` if the engine gives up.
        """
        try:
            return e if self._engine(2).simplify(e) is e else None
        except TooDeepError:
            return e

    def explain(self, e: Expr) -> Trace:
        """Return the steps from `e` to `simplify(e)`, of all rounds and engines used."""
        path: Path = []
        with _LOCK:
            self._find(e, path)
        steps: Trace = []
        for i, before in path:
            # With more memo entries the limit of the flat form was larger.
            with suppress(TooDeepError):
                if i == 1:
                    before = self._traced(0, steps).flat(before)
                self._traced(i, steps).simplify(before)
        return steps

    def _traced(self, i: int, steps: Trace) -> Engine:
        """Return a new engine with number `i` that appends its steps to `steps`.

        See `new_engine` for the numbers. Engines that were used before do not serve, as results
        from memo tables have no steps.
        """
        engine = self.new_engine(i)
        engine.trace = steps
        return engine

    def _engine(self, i: int) -> Engine:
        """Return this domain's engine with number `i`; it is created at its first use.

        See `new_engine` for the numbers.
        """
        while i >= len(self._engines):
            self._engines.append(self.new_engine(len(self._engines)))
        return self._engines[i]

    def new_engine(self, i: int) -> Engine:
        """Return a new engine with number `i`.

        Engine 0 is the default, 1 has `reduce_all`, 2 has `keep_remainders`.
        """
        return Engine(self.box, self.constraints, reduce_all=i == 1, keep_remainders=i == 2)


def simplify(
    e: Expr, where: Domain | Mapping[Var, Interval], *, trace: Trace | None = None
) -> Expr:
    """Return an expression equal to `e` on the whole domain, with fewer divisions if possible.

    Args:
        e: The expression.
        where: A domain, or the intervals of the variables.
        trace: If given, every step is appended; the work is then repeated without memo tables.

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
    """Does `new` have more divisions than `old`, or as many but more distinct subexpressions?

    >>> from hloscope.affine import Dim
    >>> is_longer(Dim(0) // 4 + Dim(0), Dim(0) // 4), is_longer(Dim(0), Dim(1) % 2)
    (True, False)
    """
    if new is old or new._divisions != old._divisions:
        return new._divisions > old._divisions
    return bool(new._divisions) and len(postorder(new)) > len(postorder(old))


def is_linear(e: Expr) -> bool:
    """Is `e` a linear combination of variables?

    >>> from hloscope.affine import Dim
    >>> is_linear(Dim(0) * 2 + 1), is_linear(Dim(0) // 2)
    (True, False)
    """
    if type(e) is Sum:
        return not e._divisions and all([type(t) in VARIABLES for t, _ in e.terms])
    return type(e) is Const or type(e) in VARIABLES


def within_int64(new: Expr, old: Expr) -> bool:
    """Are all numbers in `new` within int64, or no larger than the largest number in `old`?

    >>> from hloscope.affine import Dim
    >>> within_int64(Dim(0) * 2**63, Dim(0)), within_int64(Dim(0) * 2**63, Dim(0) * 2**64)
    (False, True)
    """
    size = largest_number(new)
    return size <= POS_INF or size <= largest_number(old)


def forget_domains() -> None:
    """Drop all remembered domains, so that a measurement starts without cached results."""
    _RECENT.clear()
