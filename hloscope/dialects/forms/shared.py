"""Pretty forms that several ops share, by the name used in rows."""

from __future__ import annotations

from typing import Final

SHARED: Final = {
    "binary": " %lhs, %rhs<attrs> : <same>",
    "binary_arrow": " %lhs, %rhs<attrs> : <in>, <in> -> <out>",
    "binary_each": " %lhs, %rhs<attrs> : <each>",
    "binary_exact": " %lhs, %rhs(? exact<unit isExact>?)<attrs> : <each>",
    "binary_fastmath": " %lhs, %rhs<flags fastmath fastmath><attrs> : <each>",
    "binary_overflow": " %lhs, %rhs<flags overflow overflowFlags><attrs> : <each>",
    "broadcasting": " %lhs, %rhs<attrs> : (<in>, <in>) -> <out>",
    "cast": " %in<attrs> : <in> to <out>",
    "cast_fastmath": " %in<flags fastmath fastmath><attrs> : <in> to <out>",
    "cast_nneg": " %in(? nneg<unit nonNeg>?)<attrs> : <in> to <out>",
    "list": "<attrs><list>",
    "nullary": "<attrs> : <out>",
    "predicate": " %shapes*<attrs> : <in *><implied output i1>",
    "resharding": " %input <bare sdy.sharding sharding><attrs> : <each>",
    "unary": " %operand<attrs> : <same>",
    "unary_arrow": " %operand<attrs> : <in> -> <out>",
    "unary_function": " %operand<attrs> : <function>",
    "value": "<attrs> <value value result>",
    "variadic_arrow": " %inputs*<attrs> : <in *> -> <out>",
    "variadic_function": " %operands*<attrs> : <function>",
    "witness": " %shapes*<attrs> : <in *><implied output !shape.witness>",
}
"""The forms, in the language of `hloscope.mlir.text.form_language`."""
