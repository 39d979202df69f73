"""Rows of the elementwise ops of CHLO."""

from typing import Final

ROWS: Final = """
    _asin_acos_kernel | operand:any.C | | result:any.C | compatible elementwise ~unary_arrow
    acos | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    acosh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    asin | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    asinh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    atan | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    atanh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    bessel_i1e | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    conj | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    cosh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    digamma | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erf | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erf_inv | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erfc | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    is_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    is_neg_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    is_pos_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    lgamma | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    sinh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    square | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    tan | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    mulhi | lhs:I rhs:I | | result:I | compatible ~binary_arrow
    next_after | x:any.F y:any.F | | result:any.F | compatible ~binary_arrow
    polygamma | n:any.F x:any.F | | result:any.F | compatible ~binary_arrow
    zeta | x:any.F q:any.F | | result:any.F | compatible ~binary_arrow
    broadcast_add | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA |
        compatible_element infer ~broadcasting
    broadcast_and | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_atan2 | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA
        | same_element infer ~broadcasting
    broadcast_compare | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims
        comparison_direction:comparison_direction compare_type?:comparison_type | result:any.B |
        infer ~broadcasting
    broadcast_complex | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.C | infer
        ~broadcasting
    broadcast_divide | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_maximum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer ~broadcasting
    broadcast_minimum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer ~broadcasting
    broadcast_multiply | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_next_after | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_or | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_polygamma | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_power | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA
        | same_element infer ~broadcasting
    broadcast_remainder | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_select | pred:B on_true:any.FBICQA on_false:any.FBICQA | | result:any.FBICQA | infer
        ~ %pred, %on_true, %on_false<attrs> : (<in>, <in>, <in>) -> <out>
    broadcast_shift_left | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_shift_right_arithmetic | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_shift_right_logical | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_subtract | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_xor | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_zeta | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.F | same_element
        infer ~broadcasting
    constant_like | operand:any.FBICQA | value:typed | result:any.FBICQA | same_shape infer
"""
"""Source: `ChloOps.td`."""
