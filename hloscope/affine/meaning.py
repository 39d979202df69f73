"""Operations on expressions: subexpressions, substitution, values, bounds, extrema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from math import gcd, prod
from typing import Final, TypeAlias, assert_never

from hloscope.affine.interval import NEG_INF, POS_INF, Interval
from hloscope.affine.nodes import (
    ZERO,
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
    from_terms,
    linear,
    mod,
    product,
)
from hloscope.affine.order import by_key, order_key

# --------------------------------------------------------------------------------------------------
# Operations on expressions: subexpressions, substitution, values at a point, bounds over a box.
#
# Nothing here recurses: expressions may be shared and thousands of levels deep.


def postorder(*roots: Expr) -> list[Expr]:
    """Return every distinct subexpression once, operands before their users.

    >>> d0 = Dim(0)
    >>> postorder(d0 // 4 + d0)
    [<d0>, <4>, <d0 / 4>, <d0 / 4 + d0>]
    """
    order: list[Expr] = []
    done: set[Expr] = set()
    stack: list[Expr] = list(reversed(roots))
    while stack:
        # An expression stays on the stack until its operands are done; it is emitted at its second
        # visit.
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
    """Return the variables that occur in the expressions.

    >>> sorted(variables(Dim(1) * 2 + Range(0) // 3 - Dim(1)))
    [<d1>, <s0>]
    """
    if len(roots) == 1:
        return _variables(roots[0])
    return frozenset().union(*map(_variables, roots))


def depends_on_runtime(*exprs: Expr) -> bool:
    """Does one of the expressions contain a runtime variable?

    >>> depends_on_runtime(Dim(0), Dim(1) + Runtime(0) // 2), depends_on_runtime(Range(0))
    (True, False)
    """
    return any([isinstance(v, Runtime) for v in variables(*exprs)])


# Cached: `index --all` of AlphaFold's export takes 1.2 × as long without it.
@lru_cache(maxsize=1 << 11)
def _variables(root: Expr) -> frozenset[Var]:
    return frozenset([x for x in postorder(root) if isinstance(x, Dim | Range | Runtime)])


def largest_number(e: Expr) -> int:
    """Return the largest absolute value of a constant or coefficient in `e`.

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
                # Two comparisons are cheaper than `abs` for the many coefficients that are not
                # larger.
                if c > largest or -c > largest:
                    largest = abs(c)
                if type(t) is not Dim and type(t) is not Range:
                    stack.append(t)
        elif type(x) is Const:
            largest = max(largest, abs(x.value))
        else:
            stack += children(x)
    return largest


def rebuild(e: Expr, new: Callable[[Expr], Expr]) -> Expr:
    """Return `e` with each of its direct operands `x` replaced by `new(x)`, in normal form."""
    match e:
        case Const() | Dim() | Range() | Runtime():
            return e
        case Sum(terms, const):
            return linear(*[(new(t), c) for t, c in terms], (const, 1))
        case Product(factors):
            return product(*[new(f) for f in factors])
        case FloorDiv(num, den):
            return floordiv(new(num), new(den))
        case CeilDiv(num, den):
            return ceildiv(new(num), new(den))
        case Mod(num, den):
            return mod(new(num), new(den))
        case Min(args):
            return minimum(*[new(a) for a in args])
        case Max(args):
            return maximum(*[new(a) for a in args])
        case _:
            assert_never(e)


def substitute(e: Expr, values: Mapping[Var, ExprLike]) -> Expr:
    """Return `e` with variables replaced simultaneously; `values` has the new expression of each.

    >>> d0, d1 = Dim(0), Dim(1)
    >>> print(substitute(d0 * 2 + d1, {d0: d1, d1: d0 + 3}))
    d1 * 2 + d0 + 3
    """
    return replace(e, values)


def replace(e: Expr, values: Mapping[Expr, ExprLike] | Mapping[Var, ExprLike]) -> Expr:
    """Return `e` with subexpressions replaced simultaneously.

    `values` has the new expression for each subexpression to replace. Where two nest, the outer one
    is replaced. The subexpressions of a sum are its terms, its constant and its coefficients;
    partial sums are not.

    >>> d0, d1 = Dim(0), Dim(1)
    >>> print(replace((d0 + 2) // 4 + d1 % 2, {d0 + 2: d1}))
    d1 / 4 + d1 mod 2
    """
    new: dict[Expr, Expr] = {x: expr(v) for x, v in values.items()}
    if e in new:
        return new[e]
    # Constants and coefficients are fields of a sum and not operands, so they are replaced apart.
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
            # An unchanged operation is reused: rebuilding it would give the same node at more cost.
            elif all(new[x] is x for x in children(top)):
                new[top] = top
            else:
                new[top] = rebuild(top, new.__getitem__)
        stack.pop()
    return new[e]


def _replace_constants(e: Sum, new: Mapping[Expr, Expr], constants: Mapping[int, Expr]) -> Expr:
    """Return a sum with new terms, and with some of its constants replaced.

    Args:
        e: The sum.
        new: For each term of `e`, the new expression.
        constants: For each integer to replace, as a coefficient or the constant, the expression.
    """
    parts = [
        (product(new[t], constants[c]), 1) if c in constants and c != 1 else (new[t], c)
        for t, c in e.terms
    ]
    return linear(*parts, (constants.get(e.const, e.const) if e.const else 0, 1))


Box: TypeAlias = Mapping[Var, Interval]


def evaluate(e: Expr, at: Mapping[Var, int]) -> int:
    """Return the value of `e` at a point; `at` gives the value of each variable.

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
    """Return the value of `e` at a point, as int64 arithmetic computes it.

    The result is `None` if a variable has no value, a subexpression divides by zero, or one exceeds
    int64.

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
    """Return the value of the node `x`; `value` has those of its operands, `at` those of variables.

    Raises:
        ValueError: A division by zero, or a variable without a value.
    """
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
    """Return the divisor `den` of the division `e`.

    Raises:
        ValueError: The divisor is zero.
    """
    if den == 0:
        raise ValueError(f"division by zero in {e}")
    return den


def bounds(e: Expr, box: Box) -> Interval:
    """Return an interval that holds every value of `e` over the box.

    It may be larger than necessary.

    >>> box = {Dim(0): Interval(0, 9), Range(0): Interval(1, 3)}
    >>> print(bounds(Dim(0) // 4 * 2 - Range(0), box))
    [-3, 3]
    """
    if e._divisions <= MOST_ALONE:
        return bounds_knowing({}, [e], box)[0]
    # Deep expressions of one chain share their subexpressions, so their bounds are kept per box.
    known = _deep_bounds(tuple(box.items()))
    if len(known) > MOST_KEPT:
        _deep_bounds.cache_clear()
    return bounds_knowing(known, [e], box)[0]


MOST_ALONE: Final = 12
"""Maximum number of divisions of an expression whose bounds are computed without a cache.

The bounds of other expressions are cached for each box.
"""


def bounds_knowing(
    known: dict[Expr, Interval],
    roots: Sequence[Expr],
    box: Box,
    tighten: Callable[[Sum, Interval], Interval] | None = None,
) -> list[Interval]:
    """Return the interval of each expression in `roots`, in their order.

    Bounds that are in `known` are not computed again; new ones are added to it.

    Args:
        known: Bounds over the box, by expression.
        roots: The expressions to bound.
        box: The interval of each variable.
        tighten: Optional function of a sum and the interval that follows from its operands; it
            returns a smaller interval.
    """
    stack = list(roots)
    while stack:
        x = stack[-1]
        if x not in known:
            missing = [y for y in children(x) if y not in known]
            if missing:
                stack += missing
                continue
            found = bounds_of_node(x, known, box)
            known[x] = tighten(x, found) if tighten and isinstance(x, Sum) else found
        stack.pop()
    return [known[e] for e in roots]


MOST_KEPT: Final = 1 << 14
"""Number of bounds over one box above which all cached bounds are dropped."""


# Cached: the map of 128 chained reshapes takes 4 s instead of 0.2 s without it.
@lru_cache(maxsize=8)
def _deep_bounds(box: tuple[tuple[Var, Interval], ...]) -> dict[Expr, Interval]:
    """Return the table of bounds over one box, by expression; the caller adds to it."""
    return {}


def bounds_of_node(x: Expr, known: Mapping[Expr, Interval], box: Box) -> Interval:
    """Return an interval that contains all values of the node `x`.

    `known` has the intervals of the operands of `x`, `box` those of variables.
    """
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
    """Return an integer that divides every value of `e`; 0 if every value of `e` is 0.

    It is the largest one that follows from the divisors of the operands, node by node.

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
                # `floor(k * m / d)` is `k * (m / d)` only if `d` divides `m`; else nothing is
                # known.
                known[x] = known[num] // abs(d) if d and known[num] % d == 0 else 1
            case FloorDiv() | CeilDiv():
                known[x] = 1
            case Mod(num, den):
                # `x mod d` is `x - d * q`: each common divisor of `x` and `d` divides it.
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


# --------------------------------------------------------------------------------------------------
# `minimum` and `maximum` of expressions, in normal form.


def _extremum(kind: type[Min] | type[Max], parts: tuple[ExprLike, ...]) -> Expr:
    """Return the minimum or maximum (`kind`) of the parts in normal form.

    Nested ones are flattened. Of operands that differ by a constant only the extreme one stays.
    """
    if not parts:
        raise ValueError(f"{kind.__name__.lower()} needs an operand")
    pick: Callable[[int, int], int] = min if kind is Min else max
    best: dict[Expr, int] = {}  # the constant of each part, by the part without it
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
    """Return the minimum of the parts, in normal form.

    >>> from hloscope.affine.nodes import Dim
    >>> print(minimum(Dim(0), 3, Dim(0) + 1))
    min(d0, 3)
    """
    return _extremum(Min, parts)


def maximum(*parts: ExprLike) -> Expr:
    """Return the maximum of the parts, in normal form.

    >>> from hloscope.affine.nodes import Dim
    >>> print(maximum(Dim(0), 3, Dim(0) + 1))
    max(d0 + 1, 3)
    """
    return _extremum(Max, parts)
