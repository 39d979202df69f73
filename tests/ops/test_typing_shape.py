"""Typing of ops that move elements or make arrays, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.ir.arrays import Literal
from hloscope.ops.shape import (
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)
from tests.ops.cases import (
    Accepted,
    Refused,
    case_id,
    check_accepted,
    check_refused,
    quantized,
    types,
)


def constant(value: str) -> Constant:
    return Constant(Literal("", *types(value)))


Q = quantized((2, 3), (0.5, 1))
AXIS_0 = quantized((2, 3), (0.5, 1), (0.5, 1), axis=0)
AXIS_1 = quantized((2, 3), (0.5, 1), (0.5, 1), (0.5, 1), axis=1)

REFUSED = [
    Refused(Broadcast((1, -2)), "s32[3]", "", "", "Broadcast with negative dimension size -2"),
    Refused(Broadcast((2,)), "s32[3]", "s32[2,1]", "", "tensor<2x3xi32>"),
    Refused(BroadcastInDim((0,)), "s32[3]", "f32[3]", "broadcast_in_dim_c1", "compatible element"),
    Refused(
        BroadcastInDim((0, 1)),
        (Q,),
        (quantized((2, 3), (0.25, 1)),),
        "broadcast_in_dim_c1",
        "expect same quantization scale and zero_point",
    ),
    Refused(
        BroadcastInDim((1,)),
        "s32[1,2]",
        "s32[1,2,3]",
        "broadcast_in_dim_c2",
        "broadcast_dimensions size (1) does not match operand rank (2)",
    ),
    Refused(
        BroadcastInDim((0, 1, 2)),
        "s32[1,2,3]",
        "s32[3]",
        "broadcast_in_dim_c3",
        "broadcast_dimensions contains invalid value 1 for result with rank 1",
    ),
    Refused(
        BroadcastInDim((-1,)),
        "s32[3]",
        "s32[3]",
        "broadcast_in_dim_c3",
        "contains invalid value -1",
    ),
    Refused(
        BroadcastInDim((1, 1)),
        "s32[1,1]",
        "s32[2,2]",
        "broadcast_in_dim_c4",
        "broadcast_dimensions should not have duplicates",
    ),
    Refused(
        BroadcastInDim((1,)),
        "s32[3]",
        "s32[3,2]",
        "broadcast_in_dim_c5",
        "size of operand dimension 0 (3) is not equal to 1 or size of result dimension 1 (2)",
    ),
    Refused(
        BroadcastInDim((0, 2)),
        (AXIS_1,),
        (quantized((2, 3, 3), *[(0.5, 1)] * 3, axis=1),),
        "broadcast_in_dim_c6",
        "result quantization_dimension 1 not same as broadcast_dimensions[1] = 2",
    ),
    Refused(
        BroadcastInDim((0, 1)),
        (quantized((2, 1), (0.5, 1), axis=1),),
        (quantized((2, 2), (0.5, 1), (0.25, 1), axis=1),),
        "broadcast_in_dim_c6",
        "mismatch result scale 1 (2.500000e-01) and operand scale 0 (5.000000e-01)",
    ),
    Refused(
        BroadcastInDim((0, 1)),
        (quantized((2, 1), (0.5, 1), axis=1),),
        (quantized((2, 2), (0.5, 1), (0.5, 2), axis=1),),
        "broadcast_in_dim_c6",
        "mismatch result zero_point 1 (2) and operand zero_point 0 (1)",
    ),
    Refused(Reshape(), "s32[6]", "f32[6]", "reshape_c1", "compatible element types"),
    Refused(
        Reshape(),
        (Q,),
        (quantized((3, 2), (0.5, 2)),),
        "reshape_c1",
        "expect same quantization scale and zero_point",
    ),
    Refused(
        Reshape(),
        (AXIS_0,),
        (quantized((2, 3), (0.5, 1), (0.5, 2), axis=0),),
        "reshape_c1",
        "expect same quantization scales and zero_points",
    ),
    Refused(
        Reshape(),
        "f32[2,4]",
        "f32[3,3]",
        "reshape_c2",
        "number of output elements (9) doesn't match expected number of elements (8)",
    ),
    Refused(
        Reshape(),
        (AXIS_0,),
        (quantized((6,), *[(0.5, 1)] * 6, axis=0),),
        "reshape_c3",
        "expect same quantization dimension size for operand and result",
    ),
    Refused(
        Reshape(),
        (AXIS_0,),
        (quantized((3, 2), (0.5, 1), (0.5, 1), axis=1),),
        "reshape_c3",
        "product of dimensions before quantization dimension must match",
    ),
    Refused(Transpose((1, 0)), "s32[2,3]", "f32[3,2]", "transpose_c1", "compatible element types"),
    Refused(
        Transpose((1, 0)),
        (Q,),
        (quantized((3, 2), (0.25, 1)),),
        "transpose_c1",
        "expect same quantization scale and zero_point",
    ),
    Refused(
        Transpose((1, 0)),
        (AXIS_0,),
        (quantized((3, 2), (0.5, 1), (0.5, 2), axis=1),),
        "transpose_c1",
        "expect same quantization scales and zero_points",
    ),
    Refused(
        Transpose((1, 0, 3, 9)),
        "s32[1,2,3,4]",
        "",
        "transpose_c2",
        "attribute permutation must be a permutation of [0, 1, 2, 3] but got 1, 0, 3, 9",
    ),
    Refused(
        Transpose((1,)),
        "s32[1,2]",
        "",
        "transpose_c2",
        "TransposeOp operand rank 2 does not match permutation size 1",
    ),
    Refused(Transpose((1, 0)), "s32[2,3]", "s32[2,3]", "transpose_c3", "tensor<3x2xi32>"),
    Refused(
        Transpose((1, 0)),
        (AXIS_0,),
        (quantized((3, 2), *[(0.5, 1)] * 3, axis=0),),
        "transpose_c4",
        "operand quantization_dimension 0 is not same as permutation[0] = 1",
    ),
    Refused(Reverse((0,)), "s32[3]", "s32[4]", "reverse_c1", "tensor<3xi32>"),
    Refused(
        Reverse((0, 0)),
        "s32[3,2]",
        "s32[3,2]",
        "reverse_c2",
        "dimensions should be unique. Got: 0, 0",
    ),
    Refused(
        Reverse((-1,)),
        "s32[3,2]",
        "",
        "reverse_c3",
        "all dimensions should be non-negative. Got dimension: -1.",
    ),
    Refused(
        Reverse((2,)),
        "s32[3,2]",
        "",
        "reverse_c3",
        "all dimensions should be between [0, 2). Got dimension: 2.",
    ),
    Refused(Reverse((1,)), "s32[3,2]", "s32[3]", "reverse_c1", "tensor<3x2xi32>"),
    Refused(
        BitcastConvert(),
        "f64[2]",
        "s64[3]",
        "bitcast_convert_c1",
        "operand and result shapes must match except for the innermost dimension of the shape with"
        " the smaller element type. Got: 'tensor<2xf64>' and 'tensor<3xi64>'.",
    ),
    Refused(
        BitcastConvert(),
        "f64[]",
        "f32[]",
        "bitcast_convert_c1",
        "rank of smaller element type (0) should be 1 more than rank of larger element type (0),"
        " but 0 != 0 + 1.",
    ),
    Refused(BitcastConvert(), "f32[]", "s32[2]", "bitcast_convert_c1", "shapes must match"),
    Refused(
        BitcastConvert(),
        "pred[2]",
        "s8[2]",
        "bitcast_convert_c1",
        "rank of smaller element type (1) should be 1 more than rank of larger element type (1)",
    ),
    Refused(
        BitcastConvert(),
        "f64[2]",
        "f32[2,4]",
        "bitcast_convert_c1",
        "requires compatible bit widths. Got: 'tensor<2xf64>' and 'tensor<2x4xf32>',"
        " but 32 * 4 != 64.",
    ),
    Refused(
        BitcastConvert(),
        "c64[2]",
        "f64[2]",
        "bitcast_convert_c2",
        "cannot convert between real and complex types, but got: 'tensor<2xcomplex<f32>>'",
    ),
    Refused(Iota(0), "", "s32[]", "iota_c1", "does not support scalars."),
    Refused(Iota(1), "", "s32[4]", "iota_c1", "iota dimension cannot go beyond the output rank."),
    Refused(constant("s32[]"), "", "s32[3]", "constant_c1", "tensor<i32>"),
    Refused(constant("u8[2]"), "", (quantized((2,), (2.0, 15)),), "constant_c1", "tensor<2xui8>"),
    Refused(Concatenate(0), "s32[1]; f32[2]", "", "concatenate_c1", "element type f32, needs s32"),
    Refused(
        Concatenate(0),
        "s32[1]; s32[2,2]",
        "",
        "concatenate_c2",
        "operands (0) and (1) do not match rank",
    ),
    Refused(
        Concatenate(0),
        "s32[1,3]; s32[2,2]",
        "",
        "concatenate_c2",
        "shapes of operand (0) and (1) are not compatible at non-concat index 1: (1, 3) != (2, 2)",
    ),
    Refused(
        Concatenate(0),
        "s32[1,3]; s32[2,<=2]",
        "",
        "concatenate_c2",
        "Mismatched dimension size 3 and bound 2 in dimension 1",
    ),
    Refused(Concatenate(0), "", "", "concatenate_c3", "no operands"),
    Refused(
        Concatenate(0), "s32[]; s32[]", "", "concatenate_c4", "rank-0 values cannot be concatenated"
    ),
    Refused(
        Concatenate(10),
        "s32[1]; s32[2]",
        "",
        "concatenate_c4",
        "dimension 10 is out-of-bounds for input rank 1",
    ),
    Refused(Concatenate(0), "s32[1]; s32[2]", "s32[4]", "concatenate_c6", "tensor<3xi32>"),
    Refused(Pad((0,), (0,), (0,)), "f32[2]; s32[]", "", "pad_c1", "element type s32, needs f32"),
    Refused(
        Pad((0, 0), (0,), (0,)),
        "f32[2]; f32[]",
        "",
        "pad_c2",
        "edge_padding_low length (2) must match operand rank (1)",
    ),
    Refused(
        Pad((0,), (0,), (0, 1)),
        "f32[2]; f32[]",
        "",
        "pad_c2",
        "interior_padding length (2) must match operand rank (1)",
    ),
    Refused(
        Pad((0,), (0,), (-1,)),
        "f32[2]; f32[]",
        "",
        "pad_c3",
        "Interior padding cannot be negative: -1",
    ),
    Refused(
        Pad((-1,), (-2,), (0,)),
        "f32[2]; f32[]",
        "",
        "pad_c4",
        "Padding result in negative size for dimension 0",
    ),
    Refused(
        Pad((-1,), (-2,), (0,)),
        "f32[<=2]; f32[]",
        "",
        "pad_c4",
        "Padding result in negative bound for dimension 0",
    ),
    Refused(Pad((1,), (1,), (0,)), "f32[2]; f32[]", "f32[5]", "pad_c4", "tensor<4xf32>"),
    Refused(Pad((0,), (0,), (0,)), "f32[2]; f32[1]", "", "pad_i2", "rank 1, needs 0"),
]

ACCEPTED = [
    Accepted(Broadcast((1, 2)), "s32[3]", "s32[1,2,3]", "tensor<1x2x3xi32>"),
    Accepted(BroadcastInDim((2, 1)), "f32[1,3]", "f32[2,3,2]"),
    Accepted(BroadcastInDim((0,)), "f32[?]", "f32[3,2]"),
    Accepted(BroadcastInDim((0,)), "f32[5]", "f32[<=5,2]"),
    Accepted(
        BroadcastInDim((0, 1)),
        (quantized((2, 1), (0.5, 1), axis=1),),
        (quantized((2, 2), (0.5, 1), (0.5, 1), axis=1),),
    ),
    Accepted(Reshape(), "f32[2,3]", "f32[6]"),
    Accepted(Reshape(), "f32[?,3]", "f32[7]"),
    Accepted(Reshape(), (AXIS_0,), (quantized((1, 2, 3), (0.5, 1), (0.5, 1), axis=1),)),
    Accepted(
        Transpose((2, 0, 1)),
        "f32[2,<=3,4]",
        "f32[4,2,3]",
        "tensor<4x2x?xf32, #stablehlo.bounds<?, ?, 3>>",
    ),
    Accepted(Transpose((1, 0)), (AXIS_0,), (quantized((3, 2), (0.5, 1), (0.5, 1), axis=1),)),
    Accepted(Reverse((1, 0)), "f32[?,3]", "f32[2,3]", "tensor<?x3xf32>"),
    Accepted(BitcastConvert(), "f64[2]", "f32[2,2]"),
    Accepted(BitcastConvert(), "f32[2,2]", "f64[2]"),
    Accepted(BitcastConvert(), "f32[?,?]", "s32[2,3]"),
    Accepted(BitcastConvert(), "pred[2,8]", "s8[2]"),
    Accepted(BitcastConvert(), "c128[2]", "c64[2,2]"),
    Accepted(Iota(1), "", "f32[2,3]"),
    Accepted(constant("s32[2]"), "", "s32[2]", "tensor<2xi32>"),
    Accepted(constant("s8[2]"), "", (quantized((2,), (2.0, 15)),)),
    Accepted(Constant(Literal("{1, 2}")), "", "s32[2]"),
    Accepted(
        Concatenate(1),
        "f32[2,3]; f32[?,<=5]",
        "f32[2,8]",
        "tensor<2x?xf32, #stablehlo.bounds<?, 8>>",
    ),
    Accepted(Concatenate(0), "f32[2]; f32[?]", "f32[9]", "tensor<?xf32>"),
    Accepted(Pad((1, -1), (2, 0), (1, 0)), "f32[3,4]; f32[]", "f32[8,3]", "tensor<8x3xf32>"),
    Accepted(Pad((1,), (1,), (3,)), "f32[0]; f32[]", "f32[2]", "tensor<2xf32>"),
    Accepted(
        Pad((1,), (0,), (0,)), "f32[<=4]; f32[]", "f32[?]", "tensor<?xf32, #stablehlo.bounds<5>>"
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=case_id)
def test_broken_constraint_is_named(row: Refused) -> None:
    check_refused(row)


@pytest.mark.parametrize("row", ACCEPTED, ids=case_id)
def test_types_fit(row: Accepted) -> None:
    check_accepted(row)
