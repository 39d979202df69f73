"""Driver of the simplifier: brings an expression into flat form, then chooses its printed form.

An expression is *flat* if it is a linear combination of variables and of quotients `num // positive
constant` whose numerators are flat. `x % c` becomes `x - c * (x // c)`. Equal digits then cancel in
the normal form of sums. Operations that are not linear combinations of quotients (min, max,
products, symbolic divisors) stay in flat forms as leaves. `sums.best_form` finds the remainders
again and chooses the form with the fewest divisions.

Each subexpression is handled once per domain. No function recurses with the depth of an expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hloscope.affine import (
    CeilDiv,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Sum,
    Var,
    as_sum,
    children,
    linear,
    plus,
    rebuild,
    scaled,
    variables,
    with_terms,
)
from hloscope.simplifier.quotients import (
    CEILING,
    FLOORDIV,
    KNOWN,
    LEAVES,
    LIMIT,
    MERGED,
    MOD,
    MOD_BY_QUOTIENT,
    features,
    laws_of,
)
from hloscope.simplifier.ranges import VARIABLES, Context, ends, interval
from hloscope.simplifier.rule import Rule, Step, Trace
from hloscope.simplifier.sums import EXTREMA_SUMS, PRINTED, SUMS, are_unrelated, best_form

FLAT_LIMIT: Final = 64
"""Maximum number of divisions of a numerator `x` for which `x % c` becomes `x - c * (x // c)`.

Larger numerators would be repeated too often; their remainders stay leaves.
"""
MAX_DIVISIONS: Final = 1024
"""Number of divisions above which a flat form may be abandoned.

Shared parts count each time. The excess must also be more than `_EACH` for each entry of the memo
table.
"""
_EACH: Final = 8


class TooDeepError(Exception):
    """Raised if a flat form would be far longer than the expression; caught inside this package.

    Expressions share their parts, but flat forms count as trees: remainders of remainders double
    them at each level.
    """


class Engine(Context):
    """Simplifier of one domain, with its memo tables.

    Args:
        box: The intervals of the variables.
        constraints: Expressions that are known to lie in an interval.
        reduce_all: Reduce all coefficients inside quotients by the divisor, not only the
            coefficients of quotients. More forms become equal, but fewer look like the input.
        keep_remainders: Leave remainders as leaves, which is better where flat forms repeat much.
    """

    def __init__(
        self,
        box: Mapping[Var, Interval],
        constraints: tuple[tuple[Expr, Interval], ...] = (),
        *,
        reduce_all: bool = False,
        keep_remainders: bool = False,
    ) -> None:
        super().__init__(box)
        self.reduce_all, self.keep_remainders = reduce_all, keep_remainders
        self.trace: Trace | None = None
        self.extrema: set[Expr] = set()  # minima and maxima in flat forms; `inside` shares the set
        for e, bounds in constraints:
            with suppress(TooDeepError):  # a constraint that is not learnt is only not used
                self.learn(self.flat(e), *ends(bounds))
        if constraints:  # results found without the facts may be weaker
            self.use_residues()
            self.forget()
        self._bounds.update(self.box)
        self._shown.update(self.box)
        for v, (lo, hi) in self.box.items():
            if lo != hi:
                self._flat[v] = v

    def forget(self) -> None:
        """Empty the memo tables."""
        super().forget()
        self._flat: dict[Expr, Expr] = {}
        self._floors: dict[tuple[Expr, int], Expr] = {}
        self._surfaces: dict[Expr, Expr] = {}

    @property
    def size(self) -> int:
        """Number of entries of the memo tables."""
        forms = len(self._flat) + len(self._floors) + len(self._surfaces)
        ends = len(self._bounds) + len(self._shown)
        return forms + ends + len(self._relaxed) + len(self._values)

    def with_empty_memos(self) -> Engine:
        """Return a new engine with the same box, facts and options, and with empty memo tables."""
        twin = Engine({}, reduce_all=self.reduce_all, keep_remainders=self.keep_remainders)
        twin.box, twin.known, twin.equal = self.box, self.known, self.equal
        twin.extrema, twin.trace = self.extrema, self.trace
        return twin

    def simplify(self, e: Expr) -> Expr:
        """Return the printed form of an expression that equals `e` on the domain."""
        flat = self.flat(e)
        printed = self.printed_form(flat)
        if self.trace is not None:
            self.record_step(PRINTED, flat, printed)
        return printed

    # --------------------------------------------------------------------------- to flat form

    def flat(self, e: Expr) -> Expr:
        """Return the flat form of `e`, which is equal to it on the domain.

        Raises:
            TooDeepError: It would be far longer than `e`.
        """
        memo = self._flat
        found = memo.get(e)
        if found is not None:
            return found
        # Depth-first with an explicit stack: an expression is finished once its operands have flat
        # forms.
        stack = [e]
        while stack:
            x = stack[-1]
            if x in memo:
                stack.pop()
                continue
            kind = type(x)
            if kind is Sum:
                flat = self._flat_sum(x, stack)  # type: ignore[arg-type]
                if flat is None:
                    continue
                new = flat
            elif (kind is FloorDiv or kind is Mod) and type(x.den) is Const and x.den.value:  # type: ignore[union-attr]
                written: Expr = x.num  # type: ignore[union-attr]
                num = memo.get(written)
                if num is None:
                    stack.append(written)
                    continue
                den: int = x.den.value  # type: ignore[union-attr]
                if kind is Mod and self.trace is None:
                    new = self.remainder(num, abs(den), written)
                elif x.by and not written.by:
                    new = self.floor(num, den)
                else:
                    new = self._flat_division(x, num, den)
            else:
                flat = self._flat_node(x, stack)
                if flat is None:
                    continue
                new = flat
            # Compared with the number of known forms, as a long expression may need many divisions.
            if new._divisions > MAX_DIVISIONS and new._divisions - MAX_DIVISIONS > _EACH * len(
                memo
            ):
                raise TooDeepError
            stack.pop()
            memo[x] = new
        return memo[e]

    def _flat_sum(self, x: Sum, stack: list[Expr]) -> Expr | None:
        """Return the flat form of a sum, if the memo table has the flat form of each term.

        Otherwise push the terms without one to `stack` and return `None`.
        """
        memo = self._flat
        is_flat = True
        depth = len(stack)
        for t, _ in x.terms:
            flat = memo.get(t)
            if flat is not t:
                is_flat = False
                if flat is None:
                    stack.append(t)
        if len(stack) > depth:
            return None
        new = x if is_flat else with_terms(x, memo)
        # The laws of sums relate two quotients, a constraint's quotient, or min and max; without
        # them they do nothing.
        if new._divisions > 1 or self.equal or self.extrema:
            return self.apply_sum_laws(new)
        return new

    def _flat_node(self, x: Expr, stack: list[Expr]) -> Expr | None:
        """Return the flat form of a node that is not a sum, if those of its operands are known.

        Otherwise push the operands without one to `stack` and return `None`.
        """
        kind, memo = type(x), self._flat
        missing = [y for y in children(x) if y not in memo]
        if missing:
            stack += missing
            return None
        if kind is FloorDiv or kind is Mod or kind is CeilDiv:
            den: Expr = x.den  # type: ignore[union-attr]
            if type(den) is not Const:
                den = memo[den]
            if type(den) is Const and den.value:
                return self._flat_division(x, memo[x.num], den.value)  # type: ignore[union-attr]
        # A variable of one value is that constant.
        elif kind in VARIABLES:
            lo, hi = self.bounds(x)
            if lo != hi:
                return x
            self.record_step(KNOWN, x, Const(lo))
            return Const(lo)
        elif kind is Const:
            return x
        return self._flat_leaf(x)

    def _flat_division(self, x: Expr, num: Expr, den: int) -> Expr:
        """Return the flat form of the division `x`: floor division, ceiling division or remainder.

        `num` is the flat form of its numerator, and `den` its divisor, which may be negative.
        """
        if type(x) is Mod:
            new = self.remainder(num, abs(den), x.num)
            if self.trace is not None:
                self.record_step(MOD_BY_QUOTIENT, x, new)
            return new
        # `x // -d` is `-x // d`, and `ceil(x / d)` is `(x + d - 1) // d` for positive `d`.
        if den < 0:
            num, den = -num, -den
        if type(x) is CeilDiv:
            num = scaled(num, 1, den - 1)
            new = self.floor(num, den)
            self.record_step(CEILING, x, new)
            return new
        written: Expr = x.num  # type: ignore[union-attr]
        # The written numerator counts only if no law has changed it: else merging would undo the
        # change.
        return self._nested_floor(num, den, written if num is self._flat[written] else None)

    def _nested_floor(self, num: Expr, den: int, written: Expr | None) -> Expr:
        """Return the flat form of `written // den`, whose numerator has the flat form `num`.

        Nested quotients merge: `y // a // c` is `y // (a * c)` for positive `a` and `c`.
        """
        while written is not None and written.by and den * written.by < LIMIT:
            before = FloorDiv(written, Const(den)) if self.trace is not None else written
            den *= written.by
            written = written.num  # type: ignore[union-attr]
            if self.trace is not None:
                self.record_step(MERGED, before, FloorDiv(written, Const(den)))
            num = self._flat[written]
        return self.floor(num, den)

    def _flat_leaf(self, x: Expr) -> Expr:
        """Return the flat form of a leaf: min, max, product, or division by an expression.

        Its operands are simplified to their printed forms; then the laws of leaves are applied.
        """
        if type(x) is Min or type(x) is Max:
            self.extrema.add(x)
        new = rebuild(x, lambda y: self.printed_form(self.flat(y)))
        if type(new) is type(x):
            return self._by_laws(new)
        # The normal form may have taken a constant factor out of a product.
        if type(x) is Product and type(new) is Sum and type(new.terms[0][0]) is Product:
            return linear((self._by_laws(new.terms[0][0]), new.terms[0][1]))
        return self.flat(new)

    def _by_laws(self, leaf: Expr) -> Expr:
        """Return the flat form of `leaf` by the laws of its class.

        `leaf` is a min, max, product, or division by an expression; its operands are in printed
        form.
        """
        for rule in LEAVES[type(leaf)]:
            after = rule.code(leaf, self)
            if after is not None:
                self.record_step(rule, leaf, after)
                return self.flat(after)
        return leaf

    def floor(self, num: Expr, den: int, needed_features: int = -1) -> Expr:
        """Return the flat form of `num // den` for a flat `num` and positive `den`.

        Args:
            num: The numerator.
            den: The divisor.
            needed_features: Bit mask of features (see `quotients.features`). Laws that need only
                other features are not tried; all are tried by default.
        """
        if den == 1:
            return num
        key = num, den
        new = self._floors.get(key)
        if new is not None:
            return new
        rule = FLOORDIV[0]
        # Two points with different quotients prove that the quotient is not constant, so its range
        # need not be found.
        if not (num._divisions and self.takes_several(num, den)):
            lo, hi = self._bounds.get(num) or self.bounds(num)
            if lo // den == hi // den:  # the first law, written out
                new = Const(lo // den)
        if new is None and type(num) not in VARIABLES:
            for rule in laws_of(features(num, den, self.reduce_all) & needed_features):
                new = rule.code(num, den, self)
                if new is not None:
                    break
        if new is None:
            new = FloorDiv(num, den)
        elif self.trace is not None:
            self.record_step(rule, FloorDiv(num, Const(den)), new)
        self._floors[key] = new
        return new

    def remainder(self, num: Expr, den: int, written: Expr | None = None) -> Expr:
        """Return the flat form of `num % den`; `num` is the flat form of `written`."""
        # Remainders stay leaves where writing them out would repeat a long numerator.
        if self.keep_remainders or num._divisions > FLAT_LIMIT:
            for rule in MOD:
                new = rule.code(num, den, self)
                if new is not None:
                    if self.trace is not None:
                        self.record_step(rule, Mod(num, Const(den)), new)
                    return new
            return Mod(self.printed_form(num), den)
        if written is None or not written.by:
            quotient = self.floor(num, den)
        else:
            quotient = self._nested_floor(num, den, written)
        if type(quotient) is Const and not quotient.value:
            return num
        new = plus(num, quotient, -den)
        if new._divisions > 1 or self.equal or self.extrema:
            return self.apply_sum_laws(new)
        return new

    def apply_sum_laws(self, e: Expr) -> Expr:
        """Return `e` after the laws between the terms of a sum, applied until none changes it."""
        if e._divisions < 2 and not (self.equal or self.extrema):
            return e
        equal = self.equal
        # Each law removes a quotient or an extremum or moves to a known value, so the loop ends.
        while type(e) is Sum and (len(e.terms) > 1 or equal):
            others = 0
            divisors = []
            for t, _ in e.terms:
                if t.by:
                    divisors.append(t.by)
                elif type(t) is Min or type(t) is Max:
                    others += 1
            # Quotients interact only if their divisors are equal or one is twice another.
            if others < 2 and not (equal and e._divisions) and are_unrelated(divisors):
                return e
            laws = SUMS if equal else SUMS[1:]  # the first law uses constraints
            for rule in laws if others < 2 else (*laws, *EXTREMA_SUMS):
                new = rule.code(e, self)
                if new is not None:
                    self.record_step(rule, e, new)
                    e = new
                    break
            else:
                return e
        return e

    def record_step(self, law: Rule[Any], before: Expr, after: Expr) -> None:
        """Append the step from `before` to `after` by `law` to the trace, if there is one.

        Nothing is appended if `before` and `after` are equal.
        """
        if self.trace is not None and before is not after:
            box = tuple(
                (v, interval(self.box[v])) for v in sorted(variables(before)) if v in self.box
            )
            self.trace.append(Step(law, before, after, box))

    # ------------------------------------------------------------------------ to printed form

    def printed_form(self, e: Expr) -> Expr:
        """Return the printed form of a flat expression."""
        if e._divisions == 0:
            return e
        found = self._surfaces.get(e)
        if found is None:
            found = self._surfaces[e] = best_form(e, self)
        return found

    def remainder_target(self, f: Expr, coeffs: Mapping[Expr, int]) -> int:
        """Return the coefficient with which `f` forms a remainder with terms of `coeffs`, or 0.

        `f` is a quotient `num // d`, and `coeffs` has the coefficients of the other terms of the
        sum. `x // 12` with `k * (x // 4)` makes `k * (x // 4 % 3)` at `-3 * k`. With `k * x` it
        makes `k * (x % 12)` at `-12 * k`.
        """
        d = f.by
        num = f.num  # type: ignore[union-attr]
        for g, k in coeffs.items():
            if g.by and d % g.by == 0 and g.by < d:
                for t, c in as_sum(self.floor(num, g.by))[0]:
                    if t is g:
                        return -k // c * (d // g.by)
        for t, c in as_sum(num)[0]:
            if t in coeffs:
                return -coeffs[t] // c * d
        return 0


def is_unreduced(flat: Expr) -> bool:
    """Would an engine with `reduce_all` reduce several terms of some quotient in a flat form?"""
    seen: set[Expr] = set()
    stack = [flat]
    while stack:
        x = stack.pop()
        d = x.by
        terms, _ = as_sum(x.num if d else x)  # type: ignore[union-attr]
        half = (d - 1) // 2
        large = 0
        for t, c in terms:
            if t.by:
                if t not in seen:
                    seen.add(t)
                    stack.append(t)
            elif d and not -half <= c <= half:
                large += 1
        if large > 1:
            return True
    return False
