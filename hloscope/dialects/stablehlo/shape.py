"""Rows of the ops that rearrange elements or create tensors."""

from typing import Final

ROWS: Final = """
    bitcast_convert | operand:FBICQA | | result:FBICQA | ~unary_function
    broadcast | operand:FBICQ | broadcast_sizes:dims | result:FBICQA | same_element infer
        ~ %operand, sizes = <dims broadcast_sizes><attrs> : <function>
    broadcast_in_dim | operand:FBICQA | broadcast_dimensions:dims | result:bounded.FBICQA |
        compatible_element
        ~ %operand, dims = <dims broadcast_dimensions><attrs> : <function>
    concatenate | inputs*:FBICQ | dimension:i64>=0 | result:FBICQ | same_element infer
        ~ %inputs*, dim = <i64 dimension><attrs> : <function>
    constant | | value>literal:elements | output:static.FBICQA | infer ~constant
    iota | | iota_dimension:i64>=0 | output:static.IFCQ |
        ~ dim = <i64 iota_dimension><attrs> : <out>
    pad | operand:FBICQ padding_value:0d.FBICQ | edge_padding_low:dims edge_padding_high:dims
        interior_padding:dims | result:FBICQ | same_element infer
        sizes@c2=edge_padding_low,edge_padding_high,interior_padding
        ~ %operand, %padding_value, low = <dims edge_padding_low>, high = <dims edge_padding_high>,
        interior = <dims interior_padding><attrs> : <function>
    reshape | operand:FBICQA | | result:bounded.FBICQA | compatible_element ~unary_function
    reverse | operand:FBICQ | dimensions:dims | result:FBICQ | same_element infer
        ~ %operand, dims = <dims dimensions><attrs> : <same>
    transpose | operand:FBICQA | permutation:dims | result:FBICQA | compatible_element infer
        ~ %operand, dims = <dims permutation><attrs> : <function>
"""
"""Source: `StablehloOps.td`."""
