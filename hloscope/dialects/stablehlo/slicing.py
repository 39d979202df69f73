"""Rows of the ops that cut out or replace a part of a tensor."""

from typing import Final

ROWS: Final = """
    dynamic_slice | operand:FBICQ start_indices*:0d.I | slice_sizes:dims | result:FBICQ | infer
        elements=operand,result
        ~ %operand, %start_indices*, sizes = <dims slice_sizes><attrs> : <function>
    dynamic_update_slice | operand:FBICQ update:FBICQ start_indices*:0d.I | | result:FBICQ | infer
        elements@c2=operand,update,result ~variadic_function
    real_dynamic_slice | operand:FBICQ start_indices:1d.XI limit_indices:1d.XI strides:1d.XI | |
        result:FBICQ | elements=operand,result types=start_indices,limit_indices,strides
        ~variadic_function
    slice | operand:FBICQ | start_indices:dims limit_indices:dims strides:dims | result:FBICQ |
        same_element infer sizes@c2=start_indices,limit_indices,strides
        ~ %operand <ranges><attrs> : <function>
"""
"""Source: `StablehloOps.td`."""
