"""Rows of the ops that read or write at indices given as a tensor."""

from typing import Final

ROWS: Final = """
    dynamic_gather | operand:FBICQ start_indices:I slice_sizes:list.I | dimension_numbers:gather
        indices_are_sorted?:bool | result:FBICQ | infer
    gather | operand:FBICQ start_indices:I | dimension_numbers:gather slice_sizes:dims
        indices_are_sorted?:bool | result:FBICQ | infer elements@c23=operand,result
    scatter | inputs*:FBICQ scatter_indices:NX updates*:FBICQ | scatter_dimension_numbers:scatter
        indices_are_sorted?:bool unique_indices?:bool | result*:FBICQ | ^update_computation
        same_operand_sizes infer
    torch_index_select | operand:FBICQ index:FBICQ | dim:i64 batch_dims:i64 | result:FBICQ |
"""
"""Source: `StablehloOps.td`."""
