"""Rows of the ops that slide a window over a tensor."""

from typing import Final

ROWS: Final = """
    convolution | lhs:FBICQ rhs:FBICQA | window_strides?:dims padding?:pairs lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQA |
        ~(%lhs, %rhs) dim_numbers = <conv>, window = {<window>}<attrs> : <function>
    dynamic_conv | lhs:FBICQ rhs:FBICQ padding:pairs.I | window_strides?:dims lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQ |
    reduce_window | inputs*:FBICQ init_values*:FBICQ | window_dimensions:dims window_strides?:dims
        base_dilations?:dims window_dilations?:dims padding?:pairs | result*:FBICQ | ^body
        same_operand_sizes single_block infer
    select_and_scatter | operand:FBICQ source:FBICQ init_value:FBICQ | window_dimensions?:dims
        window_strides?:dims padding?:pairs | result:FBICQ | ^select ^scatter infer
"""
"""Source: `StablehloOps.td`."""
