"""Typing of quantized operands, constraint by constraint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.types import parse_type
from hloscope.mlir.types import spell, type_text
from hloscope.ops.quantization import (
    any_quantized,
    check_binary,
    check_broadcast,
    check_contraction,
    check_convolution,
    check_dot,
    check_reshape,
    check_same_scale,
    check_same_scales,
    check_transpose,
)
from hloscope.ops.quantize import UniformDequantize, UniformQuantize
from tests.ops.cases import Accepted, Refused, case_id, check_accepted, check_refused, quantized

F32 = parse_type("f32[2,3]")
S32 = parse_type("s32[2,3]")
Q = quantized((2, 3), (0.5, 17))
OTHER_SCALE = quantized((2, 3), (0.25, 17))
Q16 = quantized((2, 3), (0.5, 17), storage="i16")
OF_F64 = quantized((2, 3), (0.5, 17), expressed="f64")
ZERO = quantized((2, 3), (0.5, 0))
AXIS_0 = quantized((2, 3), (0.5, 1), (0.25, 2), axis=0)
AXIS_1 = quantized((2, 3), (0.5, 0), (0.25, 0), (1.0, 0), axis=1)
ONE = quantized((1, 3), (0.5, 1), axis=0)
Check = Callable[[], None]

CONTRACTIONS = {
    "dot_general": ("dot_general_c14", "dot_general_c17", "dot_general_c18", "dot_general_c19",
                    "dot_general_c20"),
    "convolution": ("convolution_c28", "convolution_c31", "convolution_c32", "convolution_c33",
                    "convolution_c34"),
    "dynamic_conv": ("dynamic_conv_c28", "dynamic_conv_c31", "dynamic_conv_c32",
                     "dynamic_conv_c33", "dynamic_conv_c34"),
}  # fmt: skip

RESHAPE = ("reshape_c1", "reshape_c3")

CHECKS: list[tuple[Check, str, str]] = [
    (lambda: check_binary(Q, Q, F32), "add_c2", "either quantized or non-quantized"),
    (lambda: check_binary(Q, Q16, Q), "add_c3", "mismatched operands and result quantization"
     " storage types"),
    (lambda: check_binary(Q, Q, OF_F64), "add_c4", "mismatched operands and result quantization"
     " expressed types"),
    (lambda: check_binary(AXIS_0, Q, Q), "add_c5", "result is not per_axis quantized but lhs or"
     " rhs are"),
    (lambda: check_binary(Q, Q, AXIS_0), "add_c5", "none from rhs and lhs are per_axis"),
    (lambda: check_binary(AXIS_0, Q, AXIS_1), "add_c6", "quantization_dimension of lhs and result"
     " are not same"),
    (lambda: check_binary(Q, AXIS_0, AXIS_1), "add_c7", "quantization_dimension of rhs and result"
     " are not same"),
    (lambda: check_same_scale(Q, OTHER_SCALE, "x"), "x", "expect same quantization scale and"
     " zero_point but got 'tensor<2x3x!quant"),
    (lambda: check_same_scales(AXIS_0, ONE, "x"), "", ""),
    (lambda: check_same_scales(AXIS_0, AXIS_1, "x"), "x", "same quantization scales and"),
    (lambda: check_reshape(Q, OTHER_SCALE, RESHAPE), "reshape_c1", "scale and zero_point"),
    (lambda: check_reshape(AXIS_0, AXIS_1, RESHAPE), "reshape_c1", "scales and zero_points"),
    (lambda: check_reshape(AXIS_0, quantized((1, 6), (0.5, 1), axis=0), RESHAPE), "reshape_c3",
     "expect same quantization dimension size for operand and result"),
    (lambda: check_reshape(AXIS_0, quantized((3, 2), (0.5, 1), (0.25, 2), axis=1), RESHAPE),
     "reshape_c3", "product of dimensions before quantization dimension must match between operand"
     " and result for 1 and 3"),
    (lambda: check_broadcast(ONE, AXIS_0, (1, 0), "x"), "x", "result quantization_dimension 0 not"
     " same as broadcast_dimensions[0] = 1"),
    (lambda: check_broadcast(ONE, AXIS_0, (0, 1), "x"), "x", "mismatch result scale 1"
     " (2.500000e-01) and operand scale 0 (5.000000e-01)"),
    (lambda: check_broadcast(ONE, quantized((2, 3), (0.5, 1), (0.5, -20), axis=0), (0, 1), "x"),
     "x", "mismatch result zero_point 1 (-20) and operand zero_point 0 (1)"),
    (lambda: check_transpose(Q, OTHER_SCALE, (1, 0)), "transpose_c1", "scale and zero_point"),
    (lambda: check_transpose(AXIS_0, AXIS_0, (1, 0)), "transpose_c4", "operand"
     " quantization_dimension 0 is not same as permutation[0] = 1"),
    (lambda: check_dot(Q, Q, Q, ()), "dot_general_c15", "Zero point of rhs should be 0"),
    (lambda: check_dot(Q, AXIS_0, Q, ()), "dot_general_c15", "Zero points of rhs should be 0"),
    (lambda: check_dot(Q, AXIS_1, Q, (1,)), "dot_general_c16", "should not be in the contracting"
     " dimension of rhs"),
    (lambda: check_convolution("convolution", Q, AXIS_1, Q, 0, 1), "convolution_c29",
     "quantization dimension of rhs should be same with kernel_output_feature_dimension"),
    (lambda: check_convolution("convolution", Q, AXIS_1, AXIS_0, 1, 1), "convolution_c30",
     "quantization dimension of result should be same with output_feature_dimension"),
    (lambda: check_convolution("dynamic_conv", Q, AXIS_1, Q, 0, 1), "dynamic_conv_c29", ""),
    (lambda: check_convolution("dynamic_conv", Q, AXIS_1, AXIS_0, 1, 1), "dynamic_conv_c30", ""),
    (lambda: check_binary(Q, OTHER_SCALE, ZERO), "", ""),
    (lambda: check_binary(AXIS_0, Q, AXIS_0), "", ""),
    (lambda: check_dot(F32, ZERO, F32, (0,)), "", ""),
    (lambda: check_dot(Q, AXIS_1, AXIS_1, (0,)), "", ""),
    (lambda: check_broadcast(Q, AXIS_0, (0, 1), "x"), "", ""),
    (lambda: check_transpose(AXIS_0, AXIS_0, (0, 1)), "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("check", "rule", "message"), CHECKS)
def test_quantized_operands_keep_their_constraints(check: Check, rule: str, message: str) -> None:
    if not rule:
        check()
        return
    with pytest.raises(VerifyError) as caught:
        check()
    assert (caught.value.rule, message in caught.value.message_in(spell)) == (rule, True), (
        caught.value
    )


@pytest.mark.parametrize("op", CONTRACTIONS)
def test_products_of_quantized_operands(op: str) -> None:
    types = [
        (F32, ZERO, Q, "rhs should be quantized for quantized operations and is_quantized(lhs)="),
        (Q, Q16, Q, "mismatched lhs and rhs quantization storage types"),
        (Q, ZERO, OF_F64, "mismatched lhs, rhs and result quantization expressed types"),
        (Q, ZERO, AXIS_0, "mismatched rhs and result quantization granularity"),
        (F32, OF_F64, F32, "mismatched rhs quantization expressed type and lhs and result"),
    ]
    for (lhs, rhs, result, message), rule in zip(types, CONTRACTIONS[op], strict=True):
        with pytest.raises(VerifyError) as caught:
            check_contraction(op, lhs, rhs, result)
        assert (caught.value.rule, message in caught.value.message_in(spell)) == (rule, True), (
            caught.value
        )


REFUSED = [
    Refused(UniformQuantize(), (F32,), (quantized((2, 4), (0.5, 1)),), "uniform_quantize_c1",
            "same shape"),
    Refused(UniformQuantize(), (F32,), (OF_F64,), "uniform_quantize_c2",
            "Expressed type of result expected to be 'f32', but got 'f64'"),
    Refused(UniformQuantize(), (Q,), (OF_F64,), "uniform_quantize_c2", "to be 'f32'"),
    Refused(UniformDequantize(), (Q,), "f32[2,4]", "uniform_dequantize_c1", "same shape"),
    Refused(UniformDequantize(), (Q,), "f64[2,3]", "uniform_dequantize_c2", "tensor<2x3xf32>"),
    Refused(UniformDequantize(), (F32,), "", "uniform_dequantize_i1", "needs a quantized one"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=case_id)
def test_broken_constraint_is_named(row: Refused) -> None:
    check_refused(row)


ACCEPTED = [
    Accepted(UniformQuantize(), (F32,), (AXIS_1,)),
    Accepted(UniformQuantize(), (Q16,), (Q,)),
    Accepted(UniformDequantize(), (AXIS_0,), "f32[2,?]", "tensor<2x3xf32>"),
]


@pytest.mark.parametrize("row", ACCEPTED, ids=case_id)
def test_types_fit(row: Accepted) -> None:
    check_accepted(row)


def test_any_of_several_types_may_be_quantized() -> None:
    assert any_quantized(F32, Q)
    assert not any_quantized(F32, S32, parse_type("token[]"))
    assert type_text(Q) == "tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:17>>"


def test_a_transpose_of_another_rank_breaks_no_rule_of_axes() -> None:
    each = ((0.5, 17), (0.25, 3))
    operand = quantized((2, 3), *each, axis=0)
    check_transpose(operand, quantized((3, 2, 2), *each, axis=2), (1, 0))
