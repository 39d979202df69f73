"""Definitions of the ops that move elements or make tensors."""

from typing import Final

ROWS: Final = """
    bitcast_convert | operand:FBICQA | | result:FBICQA |
    broadcast | operand:FBICQ | broadcast_sizes:dims | result:FBICQA | same_element infer
    broadcast_in_dim | operand:FBICQA | broadcast_dimensions:dims | result:bounded.FBICQA |
        compatible_element
    concatenate | inputs*:FBICQ | dimension:i64>=0 | result:FBICQ | same_element infer
    constant | | value:elements | output:static.FBICQA | infer
    iota | | iota_dimension:i64>=0 | output:static.IFCQ |
    pad | operand:FBICQ padding_value:0d.FBICQ | edge_padding_low:dims edge_padding_high:dims
        interior_padding:dims | result:FBICQ | same_element infer
        sizes@c2=edge_padding_low,edge_padding_high,interior_padding
    reshape | operand:FBICQA | | result:bounded.FBICQA | compatible_element
    reverse | operand:FBICQ | dimensions:dims | result:FBICQ | same_element infer
    transpose | operand:FBICQA | permutation:dims | result:FBICQA | compatible_element infer
"""
"""Source: `StablehloOps.td`."""
