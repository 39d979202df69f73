"""Typing of ops about sizes known at run time only, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.ops.dynamic import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
    SetDimensionSize,
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

SHAPE_2, SHAPE_3 = types("s64[2]; s64[3]")
ALONG = DynamicBroadcastInDim((1, 2))
STRETCHED = quantized((1, 2, 1), (0.5, 1), axis=2)


def hinted(expanding: tuple[int, ...], nonexpanding: tuple[int, ...]) -> DynamicBroadcastInDim:
    return DynamicBroadcastInDim((1, 2), expanding, nonexpanding)


REFUSED = [
    Refused(
        DynamicReshape(),
        "f32[?]; s64[2]",
        "f64[?,?]",
        "dynamic_reshape_c1",
        "expects operand and result to have compatible element type. Got: 'tensor<?xf32>' and",
    ),
    Refused(
        DynamicReshape(),
        (quantized((2, 3), (0.5, 1)), SHAPE_2),
        (quantized((3, 2), (0.5, 2)),),
        "dynamic_reshape_c1",
        "expect same quantization scale and zero_point",
    ),
    Refused(
        DynamicReshape(),
        "f32[11]; s64[2]",
        "f32[2,5]",
        "dynamic_reshape_c2",
        "number of output elements (10) doesn't match expected number of elements (11)",
    ),
    Refused(
        DynamicReshape(),
        "f32[2,5]; s64[3]=4,3,2",
        "f32[?,?,?]",
        "dynamic_reshape_c2",
        "output_shape is incompatible with input type of operation: input has 10 elements, but"
        " output_shape has 24",
    ),
    Refused(
        DynamicReshape(),
        (quantized((2, 3), (0.5, 1), (0.5, 1), axis=0), SHAPE_2),
        (quantized((3, 2), (0.5, 1), (0.5, 1), axis=1),),
        "dynamic_reshape_c3",
        "product of dimensions before quantization dimension must match",
    ),
    Refused(
        DynamicReshape(),
        "f32[4]; s64[2]=2,2",
        "f32[1,4]",
        "dynamic_reshape_c4",
        "output shape [2, 2] is incompatible with return type of operation 'tensor<1x4xf32>'",
    ),
    Refused(
        DynamicReshape(),
        "f32[?]; s64[2]",
        "f32[?,?,?]",
        "dynamic_reshape_c4",
        "result should have a rank equal to the number of elements in output_shape",
    ),
    Refused(
        ALONG,
        "s32[?,?]; s64[3]",
        "s64[?,?,?]",
        "dynamic_broadcast_in_dim_c1",
        "expects operand and result to have compatible element type. Got: 'tensor<?x?xi32>' and"
        " 'tensor<?x?x?xi64>'",
    ),
    Refused(
        DynamicBroadcastInDim((1,)),
        "s32[?,?]; s64[3]",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c2",
        "broadcast_dimensions size (1) does not match operand rank (2)",
    ),
    Refused(
        ALONG,
        "s32[?,?]; s64[1]",
        "s32[?]",
        "dynamic_broadcast_in_dim_c3",
        "result rank (1) is less than operand rank (2)",
    ),
    Refused(
        DynamicBroadcastInDim((3,)),
        "s32[1]; s64[3]",
        "s32[7,8,9]",
        "dynamic_broadcast_in_dim_c3",
        "broadcast_dimensions contains invalid value 3 for result with rank 3",
    ),
    Refused(
        DynamicBroadcastInDim((1, 1)),
        "s32[?,?]; s64[3]",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c4",
        "broadcast_dimensions should not have duplicates",
    ),
    Refused(
        DynamicBroadcastInDim((2,)),
        "f32[32]; s64[3]",
        "f32[7,8,9]",
        "dynamic_broadcast_in_dim_c5",
        "size of operand dimension 0 (32) is not compatible with size of result dimension 2 (9)",
    ),
    Refused(
        ALONG,
        "s32[1,3]; s32[3]=2,1,1",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c5",
        "size of operand dimension 1 (3) is not equal to 1 or value of shape at index 2 (1)",
    ),
    Refused(
        DynamicBroadcastInDim((0, 1, 2)),
        (STRETCHED, SHAPE_3),
        (quantized((1, 2, 3), (0.5, 1), (0.5, 1), axis=1),),
        "dynamic_broadcast_in_dim_c6",
        "result quantization_dimension 1 not same as broadcast_dimensions[2] = 2",
    ),
    Refused(
        DynamicBroadcastInDim((0, 1, 2)),
        (STRETCHED, SHAPE_3),
        (quantized((1, 2, 2), (0.5, 1), (0.25, 1), axis=2),),
        "dynamic_broadcast_in_dim_c6",
        "mismatch result scale 1 (2.500000e-01) and operand scale 0 (5.000000e-01)",
    ),
    Refused(
        DynamicBroadcastInDim((1,)),
        "f32[4]; s64[2]=-1,4",
        "f32[3,4]",
        "dynamic_broadcast_in_dim_c7",
        "output shape [-1, 4] is incompatible with return type of operation 'tensor<3x4xf32>'",
    ),
    Refused(
        DynamicBroadcastInDim((1,)),
        "f32[4]; s64[3]=1,3,4",
        "f32[3,4]",
        "dynamic_broadcast_in_dim_c7",
        "output shape [1, 3, 4] is incompatible with return type of operation",
    ),
    Refused(
        hinted((0,), (1, 0)),
        "s32[?,?]; s64[3]",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c8",
        "duplicate expansion hint for at least one operand dimension",
    ),
    Refused(
        hinted((3,), (0,)),
        "s32[?,?]; s64[3]",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c9",
        "hint for expanding dimension 3 does not refer to a valid operand dimension",
    ),
    Refused(
        hinted((0,), (-1,)),
        "s32[?,?]; s64[3]",
        "s32[?,?,?]",
        "dynamic_broadcast_in_dim_c10",
        "hint for expanding dimension -1 does not refer to a valid operand dimension",
    ),
    Refused(
        DynamicIota(2),
        "s64[1]",
        "f32[?]",
        "dynamic_iota_c1",
        "iota dimension cannot go beyond the output rank",
    ),
    Refused(
        DynamicIota(0),
        "s64[1]=-1",
        "f32[4]",
        "dynamic_iota_c2",
        "output shape [-1] is incompatible with return type of operation 'tensor<4xf32>'",
    ),
    Refused(DynamicIota(0), "s64[2]=4,1", "f32[4]", "dynamic_iota_c2", "output shape [4, 1] is"),
    Refused(
        DynamicPad(),
        "f32[4]; s32[]; s64[1]; s64[1]; s64[1]",
        "f32[?]",
        "dynamic_pad_c1",
        "requires compatible element types for all operands and results",
    ),
    Refused(
        DynamicPad(),
        "f32[4]; f32[]; s64[2]; s64[2]; s64[2]",
        "f32[?]",
        "dynamic_pad_c2",
        "padding operands size (2) must match operand rank (1)",
    ),
    Refused(
        DynamicPad(),
        "f32[4]; f32[]; s64[1]; s64[1]; s64[1]=-1",
        "f32[?]",
        "dynamic_pad_c3",
        "interior_padding must be non-negative, but got -1",
    ),
    Refused(
        DynamicPad(),
        "f32[4]; f32[]; s64[1]=1; s64[1]=1; s64[1]=1",
        "f32[8]",
        "dynamic_pad_c4",
        "expected output dimension at index 0 to equal 9, but got 8",
    ),
    Refused(
        DynamicPad(),
        "f32[4]; f32[]; s64[1]; s64[1]; s64[1]=1",
        "f32[8,1]",
        "dynamic_pad_c4",
        "the result has rank 2, needs 1",
    ),
    Refused(
        DynamicPad(),
        "f32[4]; f32[1]; s64[1]; s64[1]; s64[1]",
        "f32[?]",
        "dynamic_pad_i2",
        "rank 1, needs 0",
    ),
    Refused(
        GetDimensionSize(3),
        "f32[1,2,3]",
        "",
        "get_dimension_size_c1",
        "requires dimension attribute in range [0, 3); found (3)",
    ),
    Refused(
        GetDimensionSize(-1),
        "f32[1]",
        "",
        "get_dimension_size_c1",
        "requires non-negative dimension attribute; found (-1)",
    ),
    Refused(SetDimensionSize(2), "f32[1,2,3]; s32[1]", "", "", "size operand should be of rank-0"),
    Refused(
        SetDimensionSize(3),
        "f32[1,2,3]; s32[]",
        "",
        "",
        "requires dimension attribute in range [0, 3); found (3)",
    ),
]

ACCEPTED = [
    Accepted(DynamicReshape(), "f32[?]; s64[2]", "f32[?,3]"),
    Accepted(DynamicReshape(), "f32[6]; s64[2]=2,3", "f32[?,3]"),
    Accepted(DynamicReshape(), "f32[6]; s64[]; s64[]", "f32[<=2,3]"),
    Accepted(ALONG, "s32[1,?]; s64[3]=2,5,6", "s32[2,5,?]"),
    Accepted(hinted((0,), (1,)), "s32[?,?]; s64[3]", "s32[?,?,?]"),
    Accepted(
        DynamicBroadcastInDim((0, 1, 2)),
        (STRETCHED, SHAPE_3),
        (quantized((1, 2, 2), (0.5, 1), (0.5, 1), axis=2),),
    ),
    Accepted(DynamicIota(0), "s64[1]=4", "f32[4]"),
    Accepted(DynamicPad(), "f32[4]; f32[]; s64[1]=1; s64[1]=1; s64[1]=1", "f32[9]"),
    Accepted(DynamicPad(), "f32[4]; f32[]; s64[1]; s64[1]; s64[1]", "f32[?]"),
    Accepted(GetDimensionSize(1), "f32[1,?]", "s32[]", "tensor<i32>"),
    Accepted(
        SetDimensionSize(0),
        "f32[3,5]; s32[]",
        "f32[?,?]",
        "tensor<?x5xf32, #stablehlo.bounds<3, ?>>",
    ),
    Accepted(SetDimensionSize(0), "f32[<=8,5]; s32[]=8", "f32[?,?]", "tensor<8x5xf32>"),
    Accepted(
        SetDimensionSize(0),
        "f32[<=8,5]; s32[]=7",
        "f32[?,?]",
        "tensor<?x5xf32, #stablehlo.bounds<8, ?>>",
    ),
    Accepted(
        SetDimensionSize(1),
        "f32[<=3,?]; s32[]",
        "f32[?,?]",
        "tensor<?x?xf32, #stablehlo.bounds<3, ?>>",
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=case_id)
def test_broken_constraint_is_named(row: Refused) -> None:
    check_refused(row)


@pytest.mark.parametrize("row", ACCEPTED, ids=case_id)
def test_types_fit(row: Accepted) -> None:
    check_accepted(row)
