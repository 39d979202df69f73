"""Definitions of the ops that move elements or make tensors: broadcasts, slices, constants."""

from typing import Final

ROWS: Final = """
    broadcast | operand:FBICQ | broadcast_sizes:dims | result:FBICQA | same_element infer
    broadcast_in_dim | operand:FBICQA | broadcast_dimensions:dims | result:bounded.FBICQA |
        compatible_element
    concatenate | inputs*:FBICQ | dimension:i64>=0 | result:FBICQ | same_element infer
    constant |  | value:elements | output:static.FBICQA | infer
    dynamic_broadcast_in_dim | operand:FBICQA output_dimensions:shape.XI |
        broadcast_dimensions:dims known_expanding_dimensions?:dims
        known_nonexpanding_dimensions?:dims | result:FBICQA |
    dynamic_iota | output_shape:shape.XI | iota_dimension:i64>=0 | result:FBICQ |
    dynamic_pad | operand:FBICQ padding_value:0d.FBICQ edge_padding_low:shape.XI
        edge_padding_high:shape.XI interior_padding:shape.XI |  | result:FBICQ |
        elements=operand,padding_value,result
        types=edge_padding_low,edge_padding_high,interior_padding ranks=operand,result
    dynamic_reshape | operand:FBICQA output_shape:shape.XI |  | result:FBICQA |
    dynamic_slice | operand:FBICQ start_indices*:0d.I | slice_sizes:dims | result:FBICQ | infer
        elements=operand,result
    dynamic_update_slice | operand:FBICQ update:FBICQ start_indices*:0d.I |  | result:FBICQ | infer
        elements=operand,update,result
    get_dimension_size | operand:FBICQA | dimension:i64>=0 | result:i | infer
    iota |  | iota_dimension:i64>=0 | output:static.IFCQ |
    pad | operand:FBICQ padding_value:0d.FBICQ | edge_padding_low:dims edge_padding_high:dims
        interior_padding:dims | result:FBICQ | same_element infer
        sizes=edge_padding_low,edge_padding_high,interior_padding
    real_dynamic_slice | operand:FBICQ start_indices:1d.XI limit_indices:1d.XI strides:1d.XI |  |
        result:FBICQ | elements=operand,result types=start_indices,limit_indices,strides
    reshape | operand:FBICQA |  | result:bounded.FBICQA | compatible_element
    reverse | operand:FBICQ | dimensions:dims | result:FBICQ | same_element infer
    set_dimension_size | operand:FBICQ size:i | dimension:i64>=0 | result:FBICQ | infer
    slice | operand:FBICQ | start_indices:dims limit_indices:dims strides:dims | result:FBICQ |
        same_element infer sizes=start_indices,limit_indices,strides
    transpose | operand:FBICQA | permutation:dims | result:FBICQA | compatible_element infer
"""
"""Source: `StablehloOps.td`."""
