"""Pretty forms of ops, compiled from the text after `~` in the definitions of ops."""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Context, Definition, Directive, Form, compile_form
from hloscope.mlir.dialects.forms import (
    directives,
    directives as special,
    loops,
    numbers,
    regions,
    types,
    upstream,
)
from hloscope.mlir.dialects.rows import elided

# --------------------------------------------------------------------------------------------------
# Pretty forms of ops, made from the text after `~` in the table of ops.
#
# Forms that this text cannot express are in `directives`, `regions` and `loops`.


_DIRECTIVES: Final[dict[str, Directive]] = {
    **directives.DIRECTIVES,
    **types.DIRECTIVES,
    **numbers.DIRECTIVES,
    **upstream.DIRECTIVES,
    **regions.DIRECTIVES,
}

_TYPED_LAST: Final = frozenset({"<function>", "<same>"})
_CODED: Final = special.FORMS | regions.FORMS | loops.FORMS


def form_of(definition: Definition) -> Form | None:
    """Return the pretty form of the op that `definition` defines; `None` if it has none.

    >>> from hloscope.mlir.dialects.rows import compile_row
    >>> row = "tanh | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible ~unary"
    >>> form_of(compile_row(row, "stablehlo")) is not None
    True
    """
    text = definition.form
    if not text or text in _CODED:
        return _CODED.get(text)
    text = SHARED.get(text, text)
    form = compile_form(text, _DIRECTIVES, Context(elided(definition)))
    last = text.rpartition(" : ")[2]
    return form._replace(typed_last=last[1:-1]) if last in _TYPED_LAST else form


# --------------------------------------------------------------------------------------------------
# Pretty forms that several ops share, by the name that the tables use.


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
"""Shared pretty forms, in the language of `hloscope.mlir.text.form_language`, by name."""
