"""`minimum` and `maximum` of expressions, in normal form."""

from __future__ import annotations

from collections.abc import Callable

from hloscope.affine.nodes import (
    ZERO,
    Const,
    Expr,
    ExprLike,
    Max,
    Min,
    Sum,
    expr,
    from_terms,
    linear,
)
from hloscope.affine.order import by_key, order_key


def _extremum(kind: type[Min] | type[Max], parts: tuple[ExprLike, ...]) -> Expr:
    """Build a `Min` or `Max`.

    Flatten nested ones, and keep one part of each set that differs by constants.
    """
    if not parts:
        raise ValueError(f"{kind.__name__.lower()} needs an operand")
    pick: Callable[[int, int], int] = min if kind is Min else max
    best: dict[Expr, int] = {}  # part without its constant -> constant
    for part in parts:
        # `min(x + 2, x + 5)` is `x + 2`: of parts that differ by a constant, one is always the
        # extremum.
        e = expr(part)
        for x in e.args if isinstance(e, kind) else (e,):
            if type(x) is Const:
                base, offset = ZERO, x.value
            elif type(x) is Sum and x.const:
                base, offset = from_terms(list(x.terms), 0), x.const
            else:
                base, offset = x, 0
            best[base] = pick(best[base], offset) if base in best else offset
    # Sorted operands make equal extrema the same node.
    args = [linear((base, 1), (offset, 1)) for base, offset in best.items()]
    return args[0] if len(args) == 1 else kind(tuple(by_key(args, order_key)))


def minimum(*parts: ExprLike) -> Expr:
    """The smallest of the parts.

    >>> from hloscope.affine.nodes import Dim
    >>> print(minimum(Dim(0), 3, Dim(0) + 1))
    min(d0, 3)
    """
    return _extremum(Min, parts)


def maximum(*parts: ExprLike) -> Expr:
    """The largest of the parts.

    >>> from hloscope.affine.nodes import Dim
    >>> print(maximum(Dim(0), 3, Dim(0) + 1))
    max(d0 + 1, 3)
    """
    return _extremum(Max, parts)
