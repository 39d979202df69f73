"""Typing of slices, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice
from tests.ops.cases import Accepted, Refused, case_id, check_accepted, check_refused

REFUSED = [
    Refused(
        Slice((1, 0, 0), (2, 4), (1, 2)),
        "s32[3,4]",
        "",
        "slice_c2",
        "the number of elements in start_indices (3) does not match the rank of the operand (2)",
    ),
    Refused(Slice((1,), (2, 4), (1,)), "s32[3]", "", "slice_c2", "limit_indices (2)"),
    Refused(Slice((1,), (2,), ()), "s32[3]", "", "slice_c2", "strides (0)"),
    Refused(Slice((-1,), (2,), (1,)), "s32[3]", "", "slice_c3", "negative start index -1 in"),
    Refused(
        Slice((0, 1), (2, 5), (1, 1)),
        "s32[2,4]",
        "",
        "slice_c3",
        "limit index 5 is larger than dimension size 4 in dimension 1",
    ),
    Refused(
        Slice((1,), (5,), (1,)),
        "s32[<=4]",
        "",
        "slice_c3",
        "limit index 5 is larger than dimension bound 4 in dimension 0",
    ),
    Refused(
        Slice((3,), (2,), (1,)),
        "s32[4]",
        "",
        "slice_c3",
        "start index 3 is larger than limit index 2 in dimension 0",
    ),
    Refused(
        Slice((0,), (2,), (0,)),
        "s32[4]",
        "",
        "slice_c4",
        "stride must be positive but got 0 in dimension 0",
    ),
    Refused(Slice((0,), (4,), (3,)), "s32[4]", "s32[1]", "slice_c5", "tensor<2xi32>"),
    Refused(
        DynamicSlice((4,)),
        "s32[3,4]; s64[]; s64[]",
        "",
        "dynamic_slice_c2",
        "has mismatched number of slice sizes (1) and number of start indices (2)",
    ),
    Refused(
        DynamicSlice((4, 4)),
        "s32[4]; s64[]; s64[]",
        "",
        "dynamic_slice_c2",
        "has mismatched number of start indices (2) and the rank of operand (1)",
    ),
    Refused(
        DynamicSlice((1, 4)),
        "s32[3,4]; s32[]; s64[]",
        "",
        "dynamic_slice_c3",
        "start indices must have same element type",
    ),
    Refused(
        DynamicSlice((-1, 4)),
        "s32[3,4]; s64[]; s64[]",
        "",
        "dynamic_slice_c4",
        "has negative size index to dynamic slice: -1",
    ),
    Refused(
        DynamicSlice((1, 10)),
        "s32[3,4]; s64[]; s64[]",
        "",
        "dynamic_slice_c4",
        "has slice size 10 greater than dimension size 4 in dimension 1 of operand",
    ),
    Refused(
        DynamicSlice((1, 4)),
        "s32[3,4]; s64[]; s64[]",
        "s32[2,4]",
        "dynamic_slice_c5",
        "tensor<1x4xi32>",
    ),
    Refused(
        DynamicSlice((1, 4)),
        "s32[3,4]; s64[]; s64[1]",
        "",
        "dynamic_slice_i2",
        "start of dimension 1 of `dynamic_slice` has rank 1, needs 0",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3]; s64[2]; s64[]",
        "s64[4]",
        "dynamic_update_slice_c1",
        "tensor<3xi64>",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3]; f32[2]; s64[]",
        "",
        "dynamic_update_slice_c2",
        "element type f32, needs s64",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3,4]; s64[2]; s64[]; s64[]",
        "",
        "dynamic_update_slice_c3",
        "update rank does not match operand rank: 1 vs 2.",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3,4]; s64[1,2]; s64[]",
        "",
        "dynamic_update_slice_c4",
        "expects number of start_indices to match operand rank: 1 vs 2.",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3,4]; s64[1,2]; s64[]; s32[]",
        "",
        "dynamic_update_slice_c5",
        "start indices must have same element type",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3,4]; s64[1,5]; s64[]; s64[]",
        "",
        "dynamic_update_slice_c6",
        "expects size at dimension 1 of update to be in range [0, 4]. Got: 5.",
    ),
    Refused(
        DynamicUpdateSlice(),
        "s64[3,4]; s64[1,4]; s64[2]; s64[]",
        "",
        "dynamic_update_slice_i3",
        "start of dimension 0 of `dynamic_update_slice` has rank 1, needs 0",
    ),
    Refused(
        RealDynamicSlice(),
        "f32[2,3]; s64[2]; s64[1]; s64[2]",
        "f32[?,?]",
        "",
        "has mismatched number of operand rank (2) and limit_indices size (1)",
    ),
    Refused(
        RealDynamicSlice(),
        "f32[2,3]; s64[2]; s64[2]; s64[]",
        "f32[?,?]",
        "",
        "operand rank (2) and strides size (of rank 0)",
    ),
    Refused(
        RealDynamicSlice(),
        "f32[2,3]; s64[2]; s64[2]; s64[2]",
        "f32[?]",
        "",
        "has mismatched ranks of operand (2) and result (1)",
    ),
]

ACCEPTED = [
    Accepted(Slice((1, 0), (5, 3), (2, 3)), "f32[8,3]", "f32[2,1]", "tensor<2x1xf32>"),
    Accepted(Slice((0, 1), (9, 2), (1, 1)), "f32[?,<=3]", "f32[9,1]", "tensor<9x1xf32>"),
    Accepted(Slice((2,), (2,), (1,)), "f32[3]", "f32[0]", "tensor<0xf32>"),
    Accepted(DynamicSlice((2, 1)), "f32[4,?]; s32[]; s32[]", "f32[2,1]", "tensor<2x1xf32>"),
    Accepted(DynamicSlice((2, 1)), "f32[4,3]; s32[2]", "f32[2,1]", "tensor<2x1xf32>"),
    Accepted(DynamicUpdateSlice(), "f32[4]; f32[?]; u8[]", "f32[4]", "tensor<4xf32>"),
    Accepted(
        DynamicUpdateSlice(),
        "f32[<=4]; f32[5]; u8[]",
        "f32[?]",
        "tensor<?xf32, #stablehlo.bounds<4>>",
    ),
    Accepted(RealDynamicSlice(), "f32[2,3]; s64[2]; s64[?]; s64[2]", "f32[?,?]"),
]


@pytest.mark.parametrize("row", REFUSED, ids=case_id)
def test_broken_constraint_is_named(row: Refused) -> None:
    check_refused(row)


@pytest.mark.parametrize("row", ACCEPTED, ids=case_id)
def test_types_fit(row: Accepted) -> None:
    check_accepted(row)
