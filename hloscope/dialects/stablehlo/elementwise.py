"""Rows of the elementwise ops."""

from typing import Final

ROWS: Final = """
    abs | operand:SFCQ | | result:SFQ | infer elementwise ~unary
    add | lhs:FBICQA rhs:FBICQA | | result:FBICQA | same_shape infer elementwise commutative
        same_element_unless_quantized ~binary
    and | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
    atan2 | lhs:FCQ rhs:FCQ | | result:FCQ | compatible same_shape elementwise ~binary
    cbrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    ceil | operand:FQ | | result:FQ | compatible elementwise ~unary
    clamp | min:FBICQ operand:FBICQ max:FBICQ | | result:FBICQ | compatible_element@c3 infer
        ~ %min, %operand, %max<attrs> : <same>
    compare | lhs:FBICQ rhs:FBICQ | comparison_direction:comparison_direction
        compare_type?:comparison_type | result:B | elementwise@c2 compatible_operands_element infer
        ~ <enum comparison_direction>, %lhs, %rhs(?, <enum comparison_type compare_type>?)<attrs> :
        <function>
    complex | lhs:D rhs:D | | result:C | same_operands_element same_shape infer elementwise
        ~ %lhs, %rhs<attrs> : <complex>
    convert | operand:FBIC | | result:FBIC | same_shape elementwise ~unary
    cosine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    count_leading_zeros | operand:I | | result:I | compatible elementwise ~unary
    divide | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    exponential | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    exponential_minus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible
        elementwise ~unary
    floor | operand:FQ | | result:FQ | compatible elementwise ~unary
    imag | operand:FC | | result:F | infer elementwise ~unary
    is_finite | x:FQ | | y:B | infer elementwise ~unary_function
    log | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    log_plus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    logistic | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    maximum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    minimum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    multiply | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    negate | operand:IFCQ | | result:IFCQ | compatible elementwise ~unary
    not | operand:BI | | result:BI | compatible elementwise ~unary
    or | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
    popcnt | operand:I | | result:I | compatible elementwise ~unary
    power | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    real | operand:FC | | result:F | infer elementwise ~unary
    reduce_precision | operand:FQ | exponent_bits:i32>0 mantissa_bits:i32>=0 | output:FQ |
        elementwise compatible
        ~ %operand, format = <format><attrs> : <same>
    remainder | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    round_nearest_afz | operand:FQ | | result:FQ | compatible elementwise ~unary
    round_nearest_even | operand:FQ | | result:FQ | compatible elementwise ~unary
    rsqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    select | pred:B on_true:FBICQ on_false:FBICQ | | result:FBICQ | infer
        ~ %pred, %on_true, %on_false<attrs> : <select>
    shift_left | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    shift_right_arithmetic | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    shift_right_logical | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    sign | operand:SFCQ | | result:SFCQ | compatible elementwise ~unary
    sine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    sqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    subtract | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    tan since=1.4.0 | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    tanh | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    xor | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
"""
"""Source: `StablehloOps.td`."""
