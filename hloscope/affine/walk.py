"""Going through expressions: order of evaluation, variables, substitution.

Nothing here recurses: expressions may be shared and thousands of levels deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import assert_never

from hloscope.affine.extrema import maximum, minimum
from hloscope.affine.nodes import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    ExprLike,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    ceildiv,
    children,
    expr,
    floordiv,
    linear,
    mod,
    product,
)


def postorder(*roots: Expr) -> list[Expr]:
    """Every distinct subexpression once, operands before their users.

    >>> d0 = Dim(0)
    >>> postorder(d0 // 4 + d0)
    [<d0>, <4>, <d0 / 4>, <d0 / 4 + d0>]
    """
    order: list[Expr] = []
    done: set[Expr] = set()
    stack: list[Expr] = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        missing = [x for x in children(e) if x not in done]
        if missing:
            stack += reversed(missing)
        else:
            stack.pop()
            done.add(e)
            order.append(e)
    return order


def variables(*roots: Expr) -> frozenset[Var]:
    """The variables that occur.

    >>> sorted(variables(Dim(1) * 2 + Range(0) // 3 - Dim(1)))
    [<d1>, <s0>]
    """
    if len(roots) == 1:
        return _variables(roots[0])
    return frozenset().union(*map(_variables, roots))


@lru_cache(maxsize=1 << 14)
def _variables(root: Expr) -> frozenset[Var]:
    return frozenset([x for x in postorder(root) if isinstance(x, Dim | Range | Runtime)])


def largest_number(e: Expr) -> int:
    """The largest absolute value of a constant or coefficient.

    >>> largest_number((Dim(0) * -7 + 3) // 5)
    7
    """
    largest = 0
    stack = [e]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if type(x) is Sum:
            largest = max(largest, abs(x.const))
            for t, c in x.terms:
                if c > largest or -c > largest:
                    largest = abs(c)
                if type(t) is not Dim and type(t) is not Range:
                    stack.append(t)
        elif type(x) is Const:
            largest = max(largest, abs(x.value))
        else:
            stack += children(x)
    return largest


def rebuild(e: Expr, of: Callable[[Expr], Expr]) -> Expr:
    """The same operation in normal form, with `of(x)` for every operand `x`."""
    match e:
        case Const() | Dim() | Range() | Runtime():
            return e
        case Sum(terms, const):
            return linear(*[(of(t), c) for t, c in terms], (const, 1))
        case Product(factors):
            return product(*[of(f) for f in factors])
        case FloorDiv(num, den):
            return floordiv(of(num), of(den))
        case CeilDiv(num, den):
            return ceildiv(of(num), of(den))
        case Mod(num, den):
            return mod(of(num), of(den))
        case Min(args):
            return minimum(*[of(a) for a in args])
        case Max(args):
            return maximum(*[of(a) for a in args])
        case _:
            assert_never(e)


def substitute(e: Expr, values: Mapping[Var, ExprLike]) -> Expr:
    """`e` with variables replaced, all at once.

    >>> d0, d1 = Dim(0), Dim(1)
    >>> print(substitute(d0 * 2 + d1, {d0: d1, d1: d0 + 3}))
    d1 * 2 + d0 + 3
    """
    return replace(e, values)


def replace(e: Expr, values: Mapping[Expr, ExprLike] | Mapping[Var, ExprLike]) -> Expr:
    """`e` with whole subexpressions replaced, all at once, the outermost where they nest.

    Of a sum, its terms, its constant and the coefficients are subexpressions, other parts are not.

    >>> d0, d1 = Dim(0), Dim(1)
    >>> print(replace((d0 + 2) // 4 + d1 % 2, {d0 + 2: d1}))
    d1 / 4 + d1 mod 2
    """
    new: dict[Expr, Expr] = {x: expr(v) for x, v in values.items()}
    if e in new:
        return new[e]
    constants = {x.value: v for x, v in new.items() if isinstance(x, Const)}
    stack = [e]
    while stack:
        top = stack[-1]
        if top not in new:
            missing = [x for x in children(top) if x not in new]
            if missing:
                stack += missing
                continue
            if constants and isinstance(top, Sum):
                new[top] = _replace_constants(top, new, constants)
            elif all(new[x] is x for x in children(top)):
                new[top] = top
            else:
                new[top] = rebuild(top, new.__getitem__)
        stack.pop()
    return new[e]


def _replace_constants(e: Sum, new: Mapping[Expr, Expr], constants: Mapping[int, Expr]) -> Expr:
    parts = [
        (product(new[t], constants[c]), 1) if c in constants and c != 1 else (new[t], c)
        for t, c in e.terms
    ]
    return linear(*parts, (constants.get(e.const, e.const) if e.const else 0, 1))
