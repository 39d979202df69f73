"""Values of an expression at many points at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, assert_never

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

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def evaluate_array(e: Expr, at: Mapping[Var, npt.ArrayLike]) -> npt.NDArray[np.int64]:
    """The values at many points at once, by numpy's broadcasting, in int64.

    Every variable of `e` has an integer array in `at`; the result has the shape that all arrays of
    `at` broadcast to.  Shared subexpressions are computed once.

    Raises:
        ValueError: A division by zero at some point, or a variable without values.

    >>> evaluate_array(Dim(0) // 2 + 1, {Dim(0): [0, 1, 2, 3]}).tolist()
    [1, 1, 2, 2]
    """
    import numpy as np

    value: dict[Expr, Any] = {}
    for x in postorder(e):
        match x:
            case Const(number):
                value[x] = np.int64(number)
            case Dim() | Range() | Runtime():
                if x not in at:
                    raise ValueError(f"no values are given for {x}")
                value[x] = np.asarray(at[x], dtype=np.int64)
            case Sum(terms, const):
                parts = [value[t] if c == 1 else value[t] * np.int64(c) for t, c in terms]
                value[x] = reduce(np.add, parts) + np.int64(const)
            case Product(args) | Min(args) | Max(args):
                value[x] = reduce(getattr(np, _REDUCED[type(x)]), [value[a] for a in args])
            case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
                if not np.all(value[den]):
                    raise ValueError(f"division by zero in {x}")
                value[x] = _DIVISION[type(x)](np, value[num], value[den])
            case _:
                assert_never(x)
    shape = np.broadcast_shapes(*(np.shape(values) for values in at.values()))
    return np.broadcast_to(np.asarray(value[e], dtype=np.int64), shape)


_REDUCED: dict[type, str] = {Product: "multiply", Min: "minimum", Max: "maximum"}
_DIVISION: dict[type, Callable[[Any, Any, Any], Any]] = {
    FloorDiv: lambda np, x, y: np.floor_divide(x, y),
    CeilDiv: lambda np, x, y: -np.floor_divide(-x, y),
    Mod: lambda np, x, y: np.mod(x, np.abs(y)),
}
