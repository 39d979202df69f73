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

from hloscope.affine.interval import NEG_INF as NEG_INF, POS_INF as POS_INF, Interval as Interval
from hloscope.affine.map import (
    AffineMap as AffineMap,
    evaluate_array as evaluate_array,
    parse_map_prefix as parse_map_prefix,
)
from hloscope.affine.meaning import (
    Box as Box,
    bounds as bounds,
    bounds_knowing as bounds_knowing,
    bounds_of_node as bounds_of_node,
    depends_on_runtime as depends_on_runtime,
    evaluate as evaluate,
    is_multiple_of as is_multiple_of,
    known_divisor as known_divisor,
    largest_number as largest_number,
    maximum as maximum,
    minimum as minimum,
    postorder as postorder,
    rebuild as rebuild,
    replace as replace,
    safe_evaluate as safe_evaluate,
    substitute as substitute,
    variables as variables,
)
from hloscope.affine.nodes import (
    ONE as ONE,
    ZERO as ZERO,
    CeilDiv as CeilDiv,
    Const as Const,
    Dim as Dim,
    Expr as Expr,
    ExprLike as ExprLike,
    FloorDiv as FloorDiv,
    Max as Max,
    Min as Min,
    Mod as Mod,
    Product as Product,
    Range as Range,
    Runtime as Runtime,
    Sum as Sum,
    Var as Var,
    ceildiv as ceildiv,
    children as children,
    divisions as divisions,
    expr as expr,
    first_dims as first_dims,
    floordiv as floordiv,
    from_terms as from_terms,
    linear as linear,
    mod as mod,
    operators as operators,
    product as product,
    sum_of as sum_of,
)
from hloscope.affine.order import (
    compare as compare,
    order_key as order_key,
    printed_terms as printed_terms,
)
from hloscope.affine.reading import (
    MAX_DIGITS as MAX_DIGITS,
    find_where as find_where,
    parse_expr as parse_expr,
    parse_prefix as parse_prefix,
    read_where as read_where,
)
from hloscope.affine.sums import (
    Terms as Terms,
    as_sum as as_sum,
    plus as plus,
    plus_terms as plus_terms,
    scaled as scaled,
    sorted_sum as sorted_sum,
    with_terms as with_terms,
)
from hloscope.affine.text import (
    RESERVED as RESERVED,
    Shared as Shared,
    Style as Style,
    default_name as default_name,
    shared as shared,
    texts as texts,
    to_text as to_text,
    where_text as where_text,
)
