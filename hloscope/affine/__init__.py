"""Integer expressions over dimension, range and runtime variables.

Nodes are immutable and interned (`==` is identity), operators build a normal form, and a range
belongs to a box (`Mapping[Var, Interval]`), never to an expression.

>>> from hloscope.affine import Dim, Interval, bounds, evaluate, parse_expr
>>> e = parse_expr("(d0 * 8 + d1) / 4")
>>> evaluate(e, {Dim(0): 1, Dim(1): 5})
3
>>> print(e, "in", bounds(e, {Dim(0): Interval(0, 9), Dim(1): Interval(0, 7)}))
(d0 * 8 + d1) / 4 in [0, 19]
"""

from hloscope.affine.arrays import evaluate_array
from hloscope.affine.interval import NEG_INF, POS_INF, Interval
from hloscope.affine.map import AffineMap, parse_map_prefix
from hloscope.affine.meaning import (
    Box,
    bounds,
    evaluate,
    is_multiple_of,
    known_divisor,
    safe_evaluate,
)
from hloscope.affine.nodes import (
    ONE,
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
    compare,
    const,
    divisions,
    expr,
    floordiv,
    from_terms,
    linear,
    maximum,
    minimum,
    mod,
    order_key,
    product,
    scaled,
    sorted_sum,
)
from hloscope.affine.text import MAX_DIGITS, Style, default_name, parse_expr, parse_prefix, to_text
from hloscope.affine.walk import (
    largest_number,
    postorder,
    rebuild,
    replace,
    substitute,
    variables,
)

__all__ = [
    # nodes
    "Const", "Dim", "Range", "Runtime", "Sum", "Product", "FloorDiv", "CeilDiv", "Mod", "Min",
    "Max", "Expr", "ExprLike", "Var", "ZERO", "ONE",
    # building
    "expr", "const", "linear", "from_terms", "sorted_sum", "scaled",
    "product", "floordiv", "ceildiv", "mod", "minimum",
    "maximum", "compare", "order_key",
    # walking
    "children", "divisions", "largest_number", "postorder", "rebuild", "replace",
    "substitute", "variables",
    # meaning
    "Interval", "NEG_INF", "POS_INF", "Box", "bounds", "evaluate", "evaluate_array",
    "safe_evaluate", "known_divisor", "is_multiple_of",
    # text
    "Style", "default_name", "MAX_DIGITS", "parse_expr", "parse_prefix", "to_text",
    # maps without ranges
    "AffineMap", "parse_map_prefix",
]  # fmt: skip
