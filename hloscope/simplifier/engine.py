"""Bottom-up fixpoint driver."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Final, TypeAlias

from hloscope.affine import (
    CeilDiv,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Sum,
    Var,
    children,
    floordiv,
    from_terms,
    linear,
    maximum,
    minimum,
    mod,
    rebuild,
)
from hloscope.affine.meaning import bounds_of_node

Constraint: TypeAlias = tuple[Expr, Interval]


class Domain:
    """A box of variables and constraints `expr in [lo, hi]`, with memo tables for this domain.

    One domain serves many expressions: bounds and simplified forms are computed once.

    >>> from hloscope.affine import Dim, Interval
    >>> domain = Domain({Dim(0): Interval(0, 9)})
    >>> print(domain.bounds(Dim(0) // 4), domain.simplify(Dim(0) % 16))
    [0, 2] d0
    """

    __slots__ = ("_bounds", "_simple", "box", "constraints")

    def __init__(
        self, box: Mapping[Var, Interval], constraints: tuple[Constraint, ...] = ()
    ) -> None:
        self.box: Final = dict(box)
        self.constraints: Final = tuple(constraints)
        self._bounds: dict[Expr, Interval] = {}
        self._simple: dict[Expr, Expr] = {}

    def bounds(self, e: Expr) -> Interval:
        """An interval that holds all values of `e` in the domain."""
        known = self._bounds
        if e in known:
            return known[e]
        stack = [e]
        while stack:
            x = stack[-1]
            if x not in known:
                missing = [y for y in children(x) if y not in known]
                if missing:
                    stack += missing
                    continue
                known[x] = bounds_of_node(x, known, self.box)
            stack.pop()
        return known[e]

    def simplify(self, e: Expr) -> Expr:
        """An equal expression on the domain, simpler if one is found."""
        return simplify(e, self)


def simplify(e: Expr, where: Domain | Mapping[Var, Interval]) -> Expr:
    """Return an expression equal to `e` on every point of the domain."""
    domain = where if isinstance(where, Domain) else Domain(where)
    memo = domain._simple
    if e in memo:
        return memo[e]
    stack = [e]
    while stack:
        x = stack[-1]
        if x not in memo:
            missing = [y for y in children(x) if y not in memo]
            if missing:
                stack += missing
                continue
            memo[x] = _step(rebuild(x, memo.__getitem__), domain)
        stack.pop()
    return memo[e]


def _step(e: Expr, domain: Domain) -> Expr:
    for _ in range(50):
        b = domain.bounds(e)
        if b.lo == b.hi:
            return Const(b.lo)
        new = _rewrite(e, domain)
        if new is None or new is e:
            return e
        if type(new) is Sum:
            new = linear(*[(_step(t, domain), c) for t, c in new.terms], (new.const, 1))
        e = new
    return e


def _split(e: Expr, k: int) -> tuple[Expr, Expr]:
    terms = e.terms if isinstance(e, Sum) else ((e, 1),)
    const = e.const if isinstance(e, Sum) else 0
    q = from_terms([(t, c // k) for t, c in terms if c % k == 0], const // k)
    return q, e - q * k


def _rewrite(e: Expr, domain: Domain) -> Expr | None:
    match e:
        case FloorDiv(num, Const(d)) if d > 0:
            match num:
                case FloorDiv(x, Const(a)) if a > 0:
                    return floordiv(x, a * d)
                case Mod(x, Const(a)) if a > 0 and a % d == 0:
                    return mod(_step(floordiv(x, d), domain), a // d)
            q, r = _split(num, d)
            if q != Const(0):
                return q + _step(floordiv(r, d), domain)
            for g in _factors(num, d):
                q, r = _split(num, g)
                if domain.bounds(r).within(0, g):
                    return floordiv(_step(q, domain), d // g)
        case Mod(num, Const(d)) if d > 0:
            b = domain.bounds(num)
            if b.is_finite and b.lo // d == b.hi // d:
                return num - b.lo // d * d
            match num:
                case Mod(x, Const(a)) if a > 0 and a % d == 0:
                    return mod(x, d)
            q, r = _split(num, d)
            if q != Const(0):
                return mod(_step(r, domain), d)
            for g in _factors(num, d):
                q, r = _split(num, g)
                if domain.bounds(r).within(0, g):
                    return _step(mod(_step(q, domain), d // g), domain) * g + r
        case CeilDiv(num, Const(d)) if d > 0:
            return _step(floordiv(num + (d - 1), d), domain)
        case Min(args) | Max(args):
            pick = minimum if isinstance(e, Min) else maximum
            for a in args:
                for b in args:
                    if a is not b:
                        diff = domain.bounds(a - b)
                        if (diff.hi <= 0 and isinstance(e, Min)) or (
                            diff.lo >= 0 and isinstance(e, Max)
                        ):
                            return pick(*[x for x in args if x is not b])
        case Sum(terms, const):
            for t, c in terms:
                if isinstance(t, FloorDiv) and isinstance(t.den, Const) and t.den.value > 0:
                    d = t.den.value
                    m = mod(t.num, d)
                    for u, k in terms:
                        if u is m and c == k * d:
                            return e - m * k - t * c + t.num * k
                    # x*k - (x // d) * d * k = (x mod d) * k
                    if c % d == 0:
                        k = -c // d
                        rest = e - t * c - t.num * k
                        size = len(rest.terms) if isinstance(rest, Sum) else 1
                        before = len(terms) - 1
                        inner = len(t.num.terms) if isinstance(t.num, Sum) else 1
                        if size <= max(before - inner, 1) and (
                            before > inner or isinstance(rest, Const)
                        ):
                            return rest + _step(m, domain) * k
    return None


def _factors(num: Expr, d: int) -> list[int]:
    terms = num.terms if isinstance(num, Sum) else ()
    return sorted({gcd(c, d) for _, c in terms} - {1}, reverse=True)
