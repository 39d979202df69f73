"""Rows of the dialect `shape`."""

from typing import Final

ROWS: Final = """
    any | ~variadic_arrow
    assuming | ~assuming
    assuming_all |
        ~ %inputs*<attrs><implied inputs !shape.witness><implied output !shape.witness>
    assuming_yield terminator | ~list
    broadcast | error? ~variadic_arrow
    const_shape | shape
        ~ <attrs><shape shape> : <out>
    const_size | value
        ~ <index value><attrs><implied output !shape.size>
    const_witness | passing
        ~ <bool passing><attrs><implied output !shape.witness>
    concat | ~binary_arrow
    cstr_broadcastable | ~witness
    cstr_eq | ~witness
    cstr_require | msg
        ~ %pred, <string msg><attrs><implied inputs i1><implied output !shape.witness>
    div | ~binary_arrow
    from_extents |
        ~ %extents*<attrs> : <in *><implied output !shape.shape>
    from_extent_tensor |
        ~ %input<attrs> : <in><implied output !shape.shape>
    get_extent | ~binary_arrow
    index_to_size |
        ~ %arg<attrs><implied inputs index><implied output !shape.size>
    is_broadcastable | ~predicate
    mul | ~binary_arrow
    num_elements | ~unary_arrow
    rank | ~unary_arrow
    shape_of | ~unary_arrow
    size_to_index |
        ~ %arg<attrs> : <in><implied output index>
    split_at names=head,tail |
    to_extent_tensor | ~unary_arrow
    value_as_shape | ~unary_arrow
    value_of | ~unary_arrow
    yield terminator | ~list
    add | ~binary_arrow
    dim | ~binary_arrow
    max | ~binary_arrow
    min | ~binary_arrow
    shape_eq | ~predicate
"""
"""Source: MLIR's definition of the dialect."""
