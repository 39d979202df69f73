"""Rows of the ops with sizes known at run time only."""

from typing import Final

ROWS: Final = """
    dynamic_broadcast_in_dim | operand:FBICQA output_dimensions:shape.XI | broadcast_dimensions:dims
        known_expanding_dimensions?:dims known_nonexpanding_dimensions?:dims | result:FBICQA |
        ~ %operand, %output_dimensions, dims = <dims broadcast_dimensions><attrs> : <function>
    dynamic_iota | output_shape:shape.XI | iota_dimension:i64>=0 | result:FBICQ |
        ~ %output_shape, dim = <i64 iota_dimension><attrs> : <function>
    dynamic_pad | operand:FBICQ padding_value:0d.FBICQ edge_padding_low:shape.XI
        edge_padding_high:shape.XI interior_padding:shape.XI | | result:FBICQ |
        elements=operand,padding_value,result
        types@c2=edge_padding_low,edge_padding_high,interior_padding ranks@c2=operand,result
        ~variadic_function
    dynamic_reshape | operand:FBICQA output_shape:shape.XI | | result:FBICQA | ~variadic_function
    get_dimension_size | operand:FBICQA | dimension:i64>=0 | result:i | infer
        ~ %operand, dim = <i64 dimension><attrs> : <function>
    set_dimension_size | operand:FBICQ size:i | dimension:i64>=0 | result:FBICQ | infer
        ~ %operand, %size, dim = <i64 dimension><attrs> : <function>
"""
"""Source: `StablehloOps.td`."""
