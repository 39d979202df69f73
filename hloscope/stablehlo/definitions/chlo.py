"""Definitions of the CHLO ops."""

from typing import Final

ROWS: Final = """
    _asin_acos_kernel | operand:any.C |  | result:any.C | compatible elementwise
    acos | operand:any.FC |  | result:any.FC | compatible elementwise
    acosh | operand:any.FC |  | result:any.FC | compatible elementwise
    asin | operand:any.FC |  | result:any.FC | compatible elementwise
    asinh | operand:any.FC |  | result:any.FC | compatible elementwise
    atan | operand:any.FC |  | result:any.FC | compatible elementwise
    atanh | operand:any.FC |  | result:any.FC | compatible elementwise
    bessel_i1e | operand:any.FC |  | result:any.FC | compatible elementwise
    conj | operand:any.FC |  | result:any.FC | compatible elementwise
    cosh | operand:any.FC |  | result:any.FC | compatible elementwise
    digamma | operand:any.F |  | result:any.F | compatible elementwise
    erf | operand:any.F |  | result:any.F | compatible elementwise
    erf_inv | operand:any.F |  | result:any.F | compatible elementwise
    erfc | operand:any.F |  | result:any.F | compatible elementwise
    is_inf | operand:any.F |  | result:any.B | infer elementwise
    is_neg_inf | operand:any.F |  | result:any.B | infer elementwise
    is_pos_inf | operand:any.F |  | result:any.B | infer elementwise
    lgamma | operand:any.F |  | result:any.F | compatible elementwise
    sinh | operand:any.FC |  | result:any.FC | compatible elementwise
    square | operand:any.FC |  | result:any.FC | compatible elementwise
    tan | operand:any.FC |  | result:any.FC | compatible elementwise
    mulhi | lhs:I rhs:I |  | result:I | compatible
    next_after | x:any.F y:any.F |  | result:any.F | compatible
    polygamma | n:any.F x:any.F |  | result:any.F | compatible
    zeta | x:any.F q:any.F |  | result:any.F | compatible

    broadcast_add | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA
        | compatible_element infer
    broadcast_and | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
    broadcast_atan2 | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_compare | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims
        comparison_direction:comparison_direction compare_type?:comparison_type | result:any.B |
        infer
    broadcast_complex | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.C | infer
    broadcast_divide | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_maximum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer
    broadcast_minimum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer
    broadcast_multiply | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_next_after | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_or | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
    broadcast_polygamma | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_power | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_remainder | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_select | pred:B on_true:any.FBICQA on_false:any.FBICQA |  | result:any.FBICQA | infer
    broadcast_shift_left | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_shift_right_arithmetic | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_shift_right_logical | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_subtract | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer
    broadcast_xor | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
    broadcast_zeta | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.F | same_element
        infer

    constant |  | value:elements | output:static.FBICQ | infer
    constant_like | operand:any.FBICQA | value:typed | result:any.FBICQA | same_shape infer
    ragged_dot | lhs:any.FBICQA rhs:any.FBICQA group_sizes:I |
        ragged_dot_dimension_numbers:ragged_dot precision_config?:precision | result:any.FBICQA |
    scan | inputs*:any.FBICQA inits*:any.FBICQA | dimension:i64>=0 scan_dim_size?:i64>=0
        is_reverse?:bool is_associative?:bool | outputs*:any.FBICQA carries*:any.FBICQA | ^body
        isolated segments infer infer
    top_k | operand:any.FBICQA | k:i64 | values:any.FBICQA indices:any.FBICQA | infer
"""
"""Source: `ChloOps.td`."""
