"""What expressions mean: their value at a point, their range over a box."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd, prod
from typing import TypeAlias, assert_never

from hloscope.affine.interval import NEG_INF, POS_INF, Interval
from hloscope.affine.nodes import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
)
from hloscope.affine.walk import postorder

Box: TypeAlias = Mapping[Var, Interval]


def evaluate(e: Expr, at: Mapping[Var, int]) -> int:
    """The value where every variable has the value that `at` gives it.

    Raises:
        ValueError: A division by zero, or a variable without a value.

    >>> evaluate((Dim(0) * 2 + 7) // 4 + Range(0) % 3, {Dim(0): 3, Range(0): -1})
    5
    """
    value: dict[Expr, int] = {}
    for x in postorder(e):
        value[x] = _value_of_node(x, value, at)
    return value[e]


def safe_evaluate(e: Expr, at: Mapping[Var, int]) -> int | None:
    """The value, or None where int64 arithmetic has none: a division by zero or an overflow.

    >>> safe_evaluate(Dim(0) * 2, {Dim(0): 2**63 - 1}) is None
    True
    """
    value: dict[Expr, int] = {}
    for x in postorder(e):
        try:
            value[x] = _value_of_node(x, value, at)
        except ValueError:
            return None
        if not NEG_INF <= value[x] <= POS_INF:
            return None
    return value[e]


def _value_of_node(x: Expr, value: Mapping[Expr, int], at: Mapping[Var, int]) -> int:
    match x:
        case Const(v):
            return v
        case Dim() | Range() | Runtime():
            if x not in at:
                raise ValueError(f"no value is given for {x}")
            return int(at[x])
        case Sum(terms, const):
            return const + sum([c * value[t] for t, c in terms])
        case Product(factors):
            return prod([value[f] for f in factors])
        case FloorDiv(num, den):
            return value[num] // _nonzero(value[den], x)
        case CeilDiv(num, den):
            return -(-value[num] // _nonzero(value[den], x))
        case Mod(num, den):
            return value[num] % abs(_nonzero(value[den], x))
        case Min(args):
            return min([value[a] for a in args])
        case Max(args):
            return max([value[a] for a in args])
        case _:
            assert_never(x)


def _nonzero(den: int, e: Expr) -> int:
    if den == 0:
        raise ValueError(f"division by zero in {e}")
    return den


def bounds(e: Expr, box: Box) -> Interval:
    """An interval that holds every value over the box; not always the smallest one.

    >>> box = {Dim(0): Interval(0, 9), Range(0): Interval(1, 3)}
    >>> print(bounds(Dim(0) // 4 * 2 - Range(0), box))
    [-3, 3]
    """
    known: dict[Expr, Interval] = {}
    for x in postorder(e):
        known[x] = bounds_of_node(x, known, box)
    return known[e]


def bounds_of_node(x: Expr, known: Mapping[Expr, Interval], box: Box) -> Interval:
    """The interval of one node whose children's intervals are known."""
    match x:
        case Const(value):
            return Interval(value, value)
        case Dim() | Range() | Runtime():
            return box.get(x, Interval.EVERYTHING)
        case Sum(terms, const):
            total = Interval(const, const)
            for t, c in terms:
                total = total + (known[t] if c == 1 else known[t] * c)
            return total
        case Product(factors):
            return reduce(lambda a, b: a * b, [known[f] for f in factors])
        case FloorDiv(num, den):
            return known[num].floordiv(known[den])
        case CeilDiv(num, den):
            return known[num].ceildiv(known[den])
        case Mod(num, den):
            return known[num].mod(known[den])
        case Min(args):
            return reduce(Interval.minimum, [known[a] for a in args])
        case Max(args):
            return reduce(Interval.maximum, [known[a] for a in args])
        case _:
            assert_never(x)


def known_divisor(e: Expr) -> int:
    """A number that divides every value of `e`, as large as its shape shows; 0 if `e` is 0.

    >>> known_divisor(Dim(0) * 6 + Dim(1) * 4), known_divisor(Dim(0) * 10 // 5)
    (2, 2)
    """
    known: dict[Expr, int] = {}
    for x in postorder(e):
        match x:
            case Const(value):
                known[x] = abs(value)
            case Dim() | Range() | Runtime():
                known[x] = 1
            case Sum(terms, const):
                known[x] = gcd(const, *[c * known[t] for t, c in terms])
            case Product(factors):
                known[x] = prod([known[f] for f in factors])
            case FloorDiv(num, Const(d)) | CeilDiv(num, Const(d)):
                known[x] = known[num] // abs(d) if d and known[num] % d == 0 else 1
            case FloorDiv() | CeilDiv():
                known[x] = 1
            case Mod(num, den):
                known[x] = gcd(known[num], known[den])
            case Min(args) | Max(args):
                known[x] = gcd(*[known[a] for a in args])
            case _:
                assert_never(x)
    return known[e]


def is_multiple_of(e: Expr, factor: int) -> bool:
    """Is every value of `e` known to be a multiple of `factor`?

    >>> is_multiple_of(Dim(0) * 6 + 3, 3), is_multiple_of(Dim(0) * 6 + 3, 2)
    (True, False)
    """
    return known_divisor(e) % factor == 0
