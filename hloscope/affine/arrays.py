"""Values of an expression at many points at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, Final, assert_never

from hloscope.affine.meaning import postorder
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
from hloscope.arrays import Ints, np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def evaluate_array(e: Expr, at: Mapping[Var, ArrayLike]) -> Ints:
    """Evaluate an expression at many points at once; arrays broadcast as in numpy.

    Every variable of `e` has an integer array in `at`; the result has the shape that all arrays of
    `at` broadcast to.  Shared subexpressions are computed once, in int64 where that holds all of
    them.  Otherwise they are Python's integers, and so are the results if int64 doesn't hold them:
    these are an array of objects.

    Raises:
        ValueError: A division by zero at some point, or a variable without values.
        OverflowError: A value in `at` does not fit into int64.

    >>> evaluate_array(Dim(0) // 2 + 1, {Dim(0): [0, 1, 2, 3]}).tolist()
    [1, 1, 2, 2]
    >>> evaluate_array(Dim(0) * 2**40, {Dim(0): [3, 2**40]}).tolist() == [3 * 2**40, 2**80]
    True
    >>> int(evaluate_array(Dim(0) * 2**62 // 7, {Dim(0): 9})) == 9 * 2**62 // 7
    True
    """
    given = {v: np.asarray(values, dtype=np.int64) for v, values in at.items()}
    nodes = postorder(e)
    shape = np.broadcast_shapes(*(np.shape(values) for values in given.values()))
    # The bound covers every intermediate value, so int64 cannot overflow.
    if _largest_value(nodes, given) < _END:
        return np.broadcast_to(np.asarray(_values(nodes, given, np.int64)[e], np.int64), shape)
    if (total := _sum_modulo_word(nodes, given)) is not None:
        return np.broadcast_to(total, shape)
    # Python's integers are exact at any size; the result goes back to int64 if its values fit.
    exact: Any = np.asarray(_values(nodes, given, int)[e], object)
    fits = all(-_END <= value < _END for value in exact.flat)
    return np.broadcast_to(exact.astype(np.int64) if fits else exact, shape)


def _largest_value(nodes: Sequence[Expr], given: Mapping[Var, Ints]) -> int:
    """Return an upper bound of the absolute values of all nodes and of their partial sums.

    `nodes` has operands before their users.

    Raises:
        ValueError: A variable has no values in `given`.
    """
    most: dict[Expr, int] = {}
    for x in nodes:
        match x:
            case Const(number):
                most[x] = abs(number)
            case Dim() | Range() | Runtime():
                if x not in given:
                    raise ValueError(f"no values are given for {x}")
                values = given[x]
                most[x] = max(int(values.max()), -int(values.min())) if values.size else 0
            # A sum is bounded by the sum of absolute values, with at least `abs(c)` per term: so
            # the coefficient itself and every partial sum fit too, in any order of addition.
            case Sum(terms, const):
                most[x] = sum(abs(c) * max(1, most[t]) for t, c in terms) + abs(const)
            case Product(args):
                most[x] = prod(most[a] for a in args)
            case Min(args) | Max(args):
                most[x] = max(most[a] for a in args)
            case FloorDiv(num, Const(den)) | CeilDiv(num, Const(den)):
                # Rounding moves a quotient by less than 1, hence `+ 1`.
                most[x] = most[num] // max(1, abs(den)) + 1
            case FloorDiv(num, _) | CeilDiv(num, _):
                most[x] = most[num] + 1
            case Mod(_, den):
                # A remainder lies in `[0, |den|)`.
                most[x] = most[den]
            case _:
                assert_never(x)
    return max(most.values())


def _sum_modulo_word(nodes: Sequence[Expr], given: Mapping[Var, Ints]) -> Ints | None:
    """Evaluate a sum whose terms and result fit into int64, though its partial sums may not.

    `None` if the last node is not such a sum. Sums modulo 2**64 are right if the true ones are
    within int64. Floats decide that: their error is below 2**60 where no partial sum passes 2**100.
    """
    # `nodes` is in postorder, so the last node is the whole expression.
    *inside, last = nodes
    if not isinstance(last, Sum) or not inside or _largest_value(inside, given) >= _END:
        return None
    numbers = [last.const, *[c for _, c in last.terms]]
    if _largest_value(nodes, given) >= 1 << 100 or max(map(abs, numbers)) >= _END:
        return None
    values = _values(inside, given, np.int64)
    # The true value is within 2**60 of the float one, so below 2**62 + 2**60 < 2**63: int64 holds
    # it, and the wrapped sum is equal to it.
    about = sum(values[t] * float(c) for t, c in last.terms) + float(last.const)
    if np.any(np.abs(about) >= 2.0**62):
        return None
    with np.errstate(over="ignore"):
        parts = [np.multiply(values[t], np.int64(c)) for t, c in last.terms]
        return np.asarray(reduce(np.add, parts) + np.int64(last.const), np.int64)


def _values(
    nodes: Sequence[Expr], given: Mapping[Var, Any], number: Callable[[int], Any]
) -> dict[Expr, Any]:
    """Return the value of every node; `number` converts constants (`np.int64` or `int`)."""
    value: dict[Expr, Any] = {}
    for x in nodes:
        match x:
            case Const(it):
                value[x] = number(it)
            case Dim() | Range() | Runtime():
                value[x] = given[x] if number is np.int64 else given[x].astype(object)
            case Sum(terms, const):
                parts = [value[t] if c == 1 else value[t] * number(c) for t, c in terms]
                value[x] = sum(parts, number(const))
            case Product(args) | Min(args) | Max(args):
                value[x] = reduce(getattr(np, _REDUCED[type(x)]), [value[a] for a in args])
            case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
                if not np.all(value[den]):
                    raise ValueError(f"division by zero in {x}")
                value[x] = _DIVISION[type(x)](np, value[num], value[den])
            case _:
                assert_never(x)
        if number is not np.int64:  # of single numbers ufuncs take what fits into their types
            value[x] = np.asarray(value[x], object)
    return value


_END: Final = 1 << 63
"""The first positive integer that int64 does not hold."""
_REDUCED: dict[type, str] = {Product: "multiply", Min: "minimum", Max: "maximum"}
_DIVISION: dict[type, Callable[[Any, Any, Any], Any]] = {
    FloorDiv: lambda np, x, y: np.floor_divide(x, y),
    CeilDiv: lambda np, x, y: -np.floor_divide(-x, y),
    Mod: lambda np, x, y: np.mod(x, np.abs(y)),
}
