"""Definitions of the ops that combine elements: contractions, windows, reductions, gathers."""

from typing import Final

ROWS: Final = """
    batch_norm_grad | operand:FQ scale:1d.FQ mean:1d.FQ variance:1d.FQ grad_output:FQ | epsilon:f32
        feature_index:i64>=0 | grad_operand:FQ grad_scale:1d.FQ grad_offset:1d.FQ |
        compatible_element infer
    batch_norm_inference | operand:FQ scale:1d.FQ offset:1d.FQ mean:1d.FQ variance:1d.FQ |
        epsilon:f32 feature_index:i64>=0 | result:FQ | compatible_element infer
    batch_norm_training | operand:FQ scale:1d.FQ offset:1d.FQ | epsilon:f32 feature_index:i64>=0 |
        output:FQ batch_mean:1d.FQ batch_var:1d.FQ | compatible_element infer
    convolution | lhs:FBICQ rhs:FBICQA | window_strides?:dims padding?:ints lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQA |
    dot | lhs:FBICQ rhs:FBICQA | precision_config?:precision | result:FBICQA |
    dot_general | lhs:FBICQ rhs:FBICQA | dot_dimension_numbers:dot precision_config?:precision
        algorithm?:algorithm | result:FBICQA |
    dynamic_conv | lhs:FBICQ rhs:FBICQ padding:pairs.I | window_strides?:dims lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQ |
    dynamic_gather | operand:FBICQ start_indices:I slice_sizes:list.I | dimension_numbers:gather
        indices_are_sorted?:bool | result:FBICQ | infer
    einsum | lhs:FBICQ rhs:FBICQ | einsum_config:string | result:FBICQ |
    gather | operand:FBICQ start_indices:I | dimension_numbers:gather slice_sizes:dims
        indices_are_sorted?:bool | result:FBICQ | infer elements=operand,result
    map | inputs*:FBICQ | dimensions:dims | result:FBICQ | ^computation same_shape single_block
        infer
    reduce | inputs*:FBICQ init_values*:FBICQ | dimensions:dims | result*:FBICQ | ^body
        same_operand_sizes single_block infer
    reduce_window | inputs*:FBICQ init_values*:FBICQ | window_dimensions:dims window_strides?:dims
        base_dilations?:dims window_dilations?:dims padding?:ints | result*:FBICQ | ^body
        same_operand_sizes single_block infer
    scatter | inputs*:FBICQ scatter_indices:NX updates*:FBICQ | scatter_dimension_numbers:scatter
        indices_are_sorted?:bool unique_indices?:bool | result*:FBICQ | ^update_computation
        same_operand_sizes infer
    select_and_scatter | operand:FBICQ source:FBICQ init_value:FBICQ | window_dimensions?:dims
        window_strides?:dims padding?:ints | result:FBICQ | ^select ^scatter infer
    sort | inputs*:FBICQ | dimension?:i64 is_stable?:bool | result*:FBICQ | ^comparator same_shape
        infer
    torch_index_select | operand:FBICQ index:FBICQ | dim:i64 batch_dims:i64 | result:FBICQ |
    unary_einsum | operand:FBICQ | einsum_config:string | result:FBICQ |
    cholesky | a:FCQ | lower?:bool | result:FCQ | compatible_element infer
    fft | operand:FC | fft_type:fft_type fft_length:dims | result:FC | infer
    rng | a:0d.BIF b:0d.BIF shape:shape.XI | rng_distribution:rng_distribution | result:BIF | infer
        elements=a,b,result
    rng_bit_generator | initial_state:IF | rng_algorithm:rng_algorithm | output_state:IF
        output:static.IF |
    triangular_solve | a:FC b:FC | left_side:bool lower:bool unit_diagonal:bool
        transpose_a:transpose | result:FC | compatible_element infer
"""
"""Source: `StablehloOps.td`."""
