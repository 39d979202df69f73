"""Inverse of a map as a map: from results to the indices that map to them.

The dimensions and range variables of the map are unknowns, and its results are known. Each step
below replaces equations by equivalent ones. So the inverse is exact, and unsolved equations stay as
constraints on range variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Range,
    Sum,
    Var,
    as_sum,
    bounds,
    depends_on_runtime,
    from_terms,
    postorder,
    substitute,
    variables,
)
from hloscope.indexing.base import M
from hloscope.indexing.variables import Constraint, Variable, in_a_circle, renamed, substituted
from hloscope.simplifier import Domain

Terms: TypeAlias = list[tuple[Expr, int]]
MAX_STEPS: Final = 1000
"""Maximum number of steps of the solver; then unsolved equations stay constraints.

No known program needs more.
"""
NEW_UNKNOWNS: Final = 2
"""Number of new unknowns that each division may introduce.

Without this limit, solving need not end.
"""


def inverse(m: M) -> M:
    """Return the map from results to dimensions: the inverse relation.

    A result does not always determine its index. The range variables of the inverse take every
    index that has the result.
    """
    if m.is_undefined:
        return m
    n, r = len(m.dims), len(m.results)
    if m.is_known_empty:
        return m.with_(dims=[Variable(Interval.EMPTY)] * r, ranges=(), results=[0] * n)
    solver = _Solver(m.dims + m.ranges)
    # Dimensions and ranges of the map are the unknowns, and its results become the dimensions.
    unknown: dict[Var, Expr] = {Dim(i): Range(i) for i in range(n)}
    unknown |= {Range(i): Range(n + i) for i in range(len(m.ranges))}
    # The bounds of results are known before any equation is solved, and help to split digits.
    for i, e in enumerate(m.results):
        solver.box[Dim(i)] = m.domain.bounds(e)
    for v, interval in m.box.items():
        if v not in unknown:
            solver.box[v] = interval
    solver.constraints = [(substitute(e, unknown), i) for e, i in m.constraints]
    solver.equations = [substitute(e, unknown) - Dim(i) for i, e in enumerate(m.results)]
    solver.indices = [substituted(v.index, unknown) for v in m.runtime]
    solver.allow(NEW_UNKNOWNS)
    solver.run()
    return solver.map(m, unknown)


class _Solver:
    """Solver of the equations `result = value` for the dimensions and range variables of a map.

    Unknowns are `Range`s; all other variables of an expression are known.
    """

    def __init__(self, unknowns: Sequence[Variable]) -> None:
        self.unknowns: list[Variable] = [*unknowns]
        self.given = len(self.unknowns)  # unknowns with larger numbers are new ones
        self.most = self.given
        self.box: dict[Var, Interval] = {Range(i): v.interval for i, v in enumerate(unknowns)}
        self.equations: list[Expr] = []  # equations, each as an expression that is 0
        self.constraints: list[Constraint] = []
        self.solved: dict[Var, Expr] = {}  # unknown -> expression without solved unknowns
        self.indices: list[tuple[Expr, ...]] = []  # where runtime variables are read
        self.rules = (
            self.closed,
            self.split,
            self.single,
            self.pair,
            self.quotient,
            self.unit,
            self.inner_quotient,
        )

    def allow(self, per_division: int) -> None:
        """Allow `per_division` new unknowns for each division in equations and constraints."""
        exprs = [*self.equations, *[e for e, _ in self.constraints]]
        divided = {x for e in exprs for x in postorder(e) if isinstance(x, FloorDiv | Mod)}
        self.most = self.given + per_division * len(divided)

    def run(self) -> None:
        """Solve equations until no rule applies; the remaining equations become constraints."""
        for _ in range(MAX_STEPS):
            numbers = range(len(self.constraints))
            # A constraint may be an equation or determine a digit; then further rules may apply.
            if not (self.step() or any(map(self.join, numbers)) or any(map(self.strip, numbers))):
                break
        self.constraints += [(e, Interval.point(0)) for e in self.equations]
        self.equations = []

    def join(self, i: int) -> bool:
        """Turn constraint number `i` into an equation, if a rule can then solve an unknown.

        Return whether it did.
        """
        expr, interval = self.constraints[i]
        if not interval.is_point or not _has_unknown(expr):
            return False
        before = [*self.constraints], [*self.equations]
        del self.constraints[i]
        self.equations.insert(0, expr - interval.lo)
        done = self.step(only_first=True)
        if not done:
            self.constraints, self.equations = before
        return done

    def strip(self, i: int) -> bool:
        """Solve constraint number `i` for `x`, if it has the form `c * x + r in [lo, lo + c)`.

        There is exactly one `x` for each `r`. Return whether the constraint was solved.
        """
        expr, interval = self.constraints[i]
        if interval.is_point or not isinstance(expr, Sum):
            return False
        for x, c in expr.terms:
            if abs(c) > 1 and interval.size == abs(c) and isinstance(x, Range):
                rest = expr - x * c
                if x not in variables(rest):
                    value = (interval.hi - rest) // c if c > 0 else (rest - interval.lo) // -c
                    return self.can_solve(x, value) and self.solve(x, value)
        return False

    def step(self, *, only_first: bool = False) -> bool:
        """Apply the first rule that changes an equation; return whether there was one.

        With `only_first`, only the first equation is tried.
        """
        for rule in self.rules:
            for k, equation in enumerate(self.equations[:1] if only_first else self.equations):
                if rule(k, *_sides(equation)):
                    return True
        return False

    def replace(self, k: int, *new: Expr) -> bool:
        """Replace equation number `k` by the equations `new`; return `True`."""
        self.equations[k : k + 1] = new
        return True

    def closed(self, k: int, left: Terms, right: Expr) -> bool:
        """Turn equation number `k` into a constraint if it has no unknown; return whether it did.

        The equation is `sum(left) = right`, in this and the other rules; only `left` has unknowns.
        """
        if left:
            return False
        self.constraints.append((right, Interval.point(0)))
        return self.replace(k)

    def split(self, k: int, left: Terms, right: Expr) -> bool:
        """Split equation number `k`, `c * a + b = r` with `b` in `[lo, lo + c)`, into two.

        The equation is `sum(left) = right`. Both `a` and `b` follow from `r`. Return whether the
        equation had that form.
        """
        # The largest coefficient comes first, as it separates the most significant digit.
        for c in sorted({abs(c) for _, c in left} - {1}, reverse=True):
            high = [(t, f // c) for t, f in left if f % c == 0]
            low = from_terms([(t, f) for t, f in left if f % c], 0)
            values = self.bounds(low)
            if values.is_finite and values.size <= c:
                rest = right - values.lo
                new = [from_terms(high, 0) - rest // c, low - values.lo - rest % c]
                return self.replace(k, *new)
        return False

    def single(self, k: int, left: Terms, right: Expr) -> bool:
        """Solve equation number `k`, `sum(left) = right`, if `left` is one unknown or its negative.

        Return whether it was solved.
        """
        match left:
            case [(Range() as x, 1 | -1 as sign)] if self.can_solve(x, right * sign):
                self.replace(k)
                return self.solve(x, right * sign)
        return False

    def pair(self, k: int, left: Terms, right: Expr) -> bool:
        """Merge equation number `k`, `u / c = q`, with `u mod c = r` to `u = c * q + r`.

        Equation `k` is `sum(left) = right`. Return whether there were such equations.
        """
        match left:
            case [(FloorDiv(u, Const(c)), 1 | -1 as sign)] if c > 0:
                for other in self.equations:
                    match _sides(other):
                        case [(Mod() as t, 1 | -1 as other_sign)], remainder if t is u % c:
                            remainder = remainder * other_sign
                            self.constraints.append((remainder, Interval(0, c - 1)))
                            self.equations.remove(other)
                            k = self.equations.index(from_terms(left, 0) - right)
                            return self.replace(k, u - right * sign * c - remainder)
        return False

    def quotient(self, k: int, left: Terms, right: Expr) -> bool:
        """Replace `u / c = q` by `u = c * q + w` with a new unknown `w` in `[0, c)`.

        Likewise replace `u mod c = r`. Return whether equation number `k`, `sum(left) = right`, had
        one of these forms.
        """
        return len(left) == 1 and self.inner_quotient(k, left, right)

    def inner_quotient(self, k: int, left: Terms, right: Expr) -> bool:
        """Replace one quotient or remainder term of equation number `k` by a new unknown.

        The equation is `sum(left) = right`, and the term is in `left`. Return whether there was
        one.
        """
        if len(self.unknowns) >= self.most:
            return False
        for t, sign in left:
            if abs(sign) != 1:
                continue
            value = (right - from_terms([(u, f) for u, f in left if u is not t], 0)) * sign
            match t:
                case FloorDiv(u, Const(c)) if c > 0:
                    w = self.fresh(Interval(0, c - 1))
                    return self.replace(k, u - value * c - w)
                case Mod(u, Const(c)) if c > 0:
                    w = self.fresh(self.bounds(u).floordiv(c))
                    self.constraints.append((value, Interval(0, c - 1)))
                    return self.replace(k, u - w * c - value)
        return False

    def unit(self, k: int, left: Terms, right: Expr) -> bool:
        """Solve equation number `k`, `sum(left) = right`, for an unknown with coefficient 1 or -1.

        Return whether it was solved. Unknowns of the map are preferred to new ones, and those with
        many values to those with few.
        """
        inner = variables(*(t for t, _ in left if not isinstance(t, Range)))
        units = [(t, c) for t, c in left if isinstance(t, Range) and abs(c) == 1 and t not in inner]
        units.sort(
            key=lambda unit: (unit[0].index < self.given, self.box[unit[0]].size), reverse=True
        )
        for x, c in units:
            value = (right - from_terms([(u, f) for u, f in left if u is not x], 0)) * c
            if self.can_solve(x, value):
                self.replace(k)
                return self.solve(x, value)
        return False

    def fresh(self, interval: Interval) -> Expr:
        new = Range(len(self.unknowns))
        self.unknowns.append(Variable(interval))
        self.box[new] = interval
        return new

    def bounds(self, e: Expr) -> Interval:
        return bounds(e, self.box)

    def can_solve(self, x: Range, value: Expr) -> bool:
        """Do the indices of runtime variables stay free of cycles if `x = value`?"""
        if not depends_on_runtime(value):
            return True
        new: dict[Var, Expr] = {x: value}
        return not in_a_circle([substituted(index, new) for index in self.indices])

    def solve(self, x: Range, value: Expr) -> bool:
        """Substitute `x = value` everywhere, and keep the bounds of `x` as a constraint.

        Return `True`.
        """
        self.constraints.append((value, self.box.pop(x)))
        new: dict[Var, Expr] = {x: value}
        self.solved = {v: substitute(e, new) for v, e in self.solved.items()} | new
        self.indices = [substituted(index, new) for index in self.indices]
        domain = Domain(self.box)
        self.equations = [domain.simplify(substitute(e, new)) for e in self.equations]
        self.constraints = [(domain.simplify(substitute(e, new)), i) for e, i in self.constraints]
        return True

    def map(self, m: M, unknown: dict[Var, Expr]) -> M:
        """Return the inverse of `m`, with the remaining unknowns as range variables.

        `unknown` has the unknown for each dimension and range variable of `m`.
        """
        left = [i for i in range(len(self.unknowns)) if Range(i) in self.box]
        number: dict[Var, Expr] = {Range(i): Range(k) for k, i in enumerate(left)}
        final = number | {x: substitute(e, number) for x, e in self.solved.items()}
        values = {v: substitute(e, final) for v, e in unknown.items()}
        return m.with_(
            dims=[Variable(self.box[Dim(i)]) for i in range(len(m.results))],
            ranges=[Variable(self.box[Range(i)], self.unknowns[i].name) for i in left],
            runtime=[renamed(v, values) for v in m.runtime],
            results=[values[Dim(i)] for i in range(len(m.dims))],
            constraints=[(substitute(e, number), i) for e, i in self.constraints],
        )


def _has_unknown(e: Expr) -> bool:
    """Does the expression contain an unknown?"""
    return any(isinstance(v, Range) for v in variables(e))


def _sides(equation: Expr) -> tuple[Terms, Expr]:
    """Return the terms of `equation = 0` with unknowns, and the negated sum of the others."""
    terms, const = as_sum(equation)
    left = [(t, c) for t, c in terms if _has_unknown(t)]
    right = from_terms([(t, -c) for t, c in terms if not _has_unknown(t)], -const)
    return left, right
