"""Definitions of the ops that compute each element on its own."""

from typing import Final

ROWS: Final = """
    abs | operand:SFCQ | | result:SFQ | infer elementwise
    add | lhs:FBICQA rhs:FBICQA | | result:FBICQA | same_shape infer elementwise commutative
        same_element_unless_quantized
    and | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative
    atan2 | lhs:FCQ rhs:FCQ | | result:FCQ | compatible same_shape elementwise
    cbrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    ceil | operand:FQ | | result:FQ | compatible elementwise
    clamp | min:FBICQ operand:FBICQ max:FBICQ | | result:FBICQ | compatible_element@c3 infer
    compare | lhs:FBICQ rhs:FBICQ | comparison_direction:comparison_direction
        compare_type?:comparison_type | result:B | elementwise@c2 compatible_operands_element infer
    complex | lhs:D rhs:D | | result:C | same_operands_element same_shape infer elementwise
    convert | operand:FBIC | | result:FBIC | same_shape elementwise
    cosine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    count_leading_zeros | operand:I | | result:I | compatible elementwise
    divide | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise
    exponential | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    exponential_minus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible
        elementwise
    floor | operand:FQ | | result:FQ | compatible elementwise
    imag | operand:FC | | result:F | infer elementwise
    is_finite | x:FQ | | y:B | infer elementwise
    log | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    log_plus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    logistic | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    maximum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
    minimum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
    multiply | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
    negate | operand:IFCQ | | result:IFCQ | compatible elementwise
    not | operand:BI | | result:BI | compatible elementwise
    or | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative
    popcnt | operand:I | | result:I | compatible elementwise
    power | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise
    real | operand:FC | | result:F | infer elementwise
    reduce_precision | operand:FQ | exponent_bits:i32>0 mantissa_bits:i32>=0 | output:FQ |
        elementwise compatible
    remainder | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise
    round_nearest_afz | operand:FQ | | result:FQ | compatible elementwise
    round_nearest_even | operand:FQ | | result:FQ | compatible elementwise
    rsqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    select | pred:B on_true:FBICQ on_false:FBICQ | | result:FBICQ | infer
    shift_left | lhs:I rhs:I | | result:I | compatible same_shape elementwise
    shift_right_arithmetic | lhs:I rhs:I | | result:I | compatible same_shape elementwise
    shift_right_logical | lhs:I rhs:I | | result:I | compatible same_shape elementwise
    sign | operand:SFCQ | | result:SFCQ | compatible elementwise
    sine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    sqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    subtract | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise
    tan | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    tanh | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
    xor | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative
"""
"""Source: `StablehloOps.td`."""
