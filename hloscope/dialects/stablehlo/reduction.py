"""Rows of the ops that combine elements: reductions, normalisation, sorting."""

from typing import Final

ROWS: Final = """
    batch_norm_grad | operand:FQ scale:1d.FQ mean:1d.FQ variance:1d.FQ grad_output:FQ | epsilon:f32
        feature_index:i64>=0 | grad_operand:FQ grad_scale:1d.FQ grad_offset:1d.FQ |
        compatible_element@c2 infer
    batch_norm_inference | operand:FQ scale:1d.FQ offset:1d.FQ mean:1d.FQ variance:1d.FQ |
        epsilon:f32 feature_index:i64>=0 | result:FQ | compatible_element@c2 infer
    batch_norm_training | operand:FQ scale:1d.FQ offset:1d.FQ | epsilon:f32 feature_index:i64>=0 |
        output:FQ batch_mean:1d.FQ batch_var:1d.FQ | compatible_element@c2 infer
    map | inputs*:FBICQ | dimensions:dims | result:FBICQ | ^computation same_shape single_block
        infer
    reduce | inputs*:FBICQ init_values*:FBICQ | dimensions:dims | result*:FBICQ | ^body
        same_operand_sizes single_block infer ~reduce
    sort | inputs*:FBICQ | dimension?:i64 is_stable?:bool | result*:FBICQ | ^comparator
        same_shape@c3 infer
"""
"""Source: `StablehloOps.td`."""
