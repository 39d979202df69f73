"""Typing of reduce_window, select_and_scatter and convolutions: what is accepted, what refused."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.hlo_parser.types import print_type
from hloscope.ops.convolution import ConvDimensions, Convolution, DynamicConv
from hloscope.ops.windows import ReduceWindow, SelectAndScatter, Window
from tests.ops.typings import Case, check_refused, read_regions, read_types, refused


def window(sizes: tuple[int, ...], **given: Any) -> Window:
    """A window; what is not given has its default."""
    ones = (1,) * len(sizes)
    return Window(
        sizes,
        given.get("strides", ones),
        given.get("padding", ((0, 0),) * len(sizes)),
        given.get("base", ones),
        given.get("dilations", ones),
        given.get("reversal", (False,) * len(sizes)),
    )


def reduces(sizes: tuple[int, ...], **given: Any) -> ReduceWindow:
    return ReduceWindow(window(sizes, **given))


def selects(sizes: tuple[int, ...], **given: Any) -> SelectAndScatter:
    return SelectAndScatter(window(sizes, **given))


NHWC = (0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def convolves(
    sizes: tuple[int, ...] = (3, 3),
    dims: tuple[Any, ...] = NHWC,
    groups: tuple[int, int] = (1, 1),
    precision: tuple[str, ...] | None = None,
    **given: Any,
) -> Convolution:
    return Convolution(window(sizes, **given), ConvDimensions(*dims), *groups, precision)


def dynamic(op: Convolution) -> DynamicConv:
    fields = op.window, op.dimensions, op.feature_group_count, op.batch_group_count
    return DynamicConv(*fields, op.precision_config)


ADD = "f32[]; f32[] -> f32[]"
GE = "f32[]; f32[] -> pred[]"
POOL = "f32[4,2]; f32[]"
POOLS = "f32[4,2]; s32[4,2]; f32[]; s32[]"
BOTH = "f32[]; s32[]; f32[]; s32[] -> f32[]; s32[]"
SOURCE = "f32[4,6]; f32[2,3]; f32[]"
CONV = "f32[1,8,8,7]; f32[3,3,7,16]"
SIX = "f32[1,6,6,16]"

ACCEPTED = [
    Case(reduces((2, 1), strides=(2, 1)), POOL, "f32[2,2]", ADD),
    Case(reduces((2, 1)), POOLS, "f32[3,2]; s32[3,2]", BOTH),
    Case(reduces((2, 1)), "f32[?,2]; f32[]", "f32[3,2]", ADD),
    Case(reduces((2, 1)), POOLS, "(f32[3,2], s32[3,2])",
         "f32[]; s32[]; f32[]; s32[] -> (f32[], s32[])"),
    Case(reduces((4, 2), padding=((2, 2), (0, 0)), strides=(3, 1)), "f32[4,2]; f32[4]", "f32[2,1]",
         "f32[4]; f32[4] -> f32[4]"),
    Case(reduces((5,)), "s8[9]; s8[]", "s32[5]", "s32[]; s32[] -> s32[]"),
    Case(reduces((1,)), "q8[4]; q8[]", "q32[4]", "q32[]; q32[] -> q32[]"),
    Case(selects((2, 2), strides=(2, 2)), SOURCE, "f32[4,6]", f"{GE} | {ADD}"),
    Case(selects((2, 2), strides=(2, 2)), "f32[?,6]; f32[2,3]; f32[]", "f32[4,6]", f"{GE} | {ADD}"),
    Case(convolves(), CONV, SIX),
    Case(convolves(), CONV, "f64[1,6,6,16]"),
    Case(convolves(), "f32[?,8,8,7]; f32[3,3,7,16]", SIX),
    Case(convolves((0, 3)), "f32[1,8,8,7]; f32[?,3,7,16]", "f32[1,9,6,16]"),
    Case(convolves((), (0, 1, (), 0, 1, (), 0, 1, ())), "f32[5,7]; f32[7,2]", "f32[5,2]"),
    Case(convolves((1, 1), groups=(3, 1)), "f32[5,8,8,6]; f32[1,1,2,9]", "f32[5,8,8,9]"),
    Case(convolves(precision=("DEFAULT", "HIGH")), CONV, SIX),
    Case(convolves((1, 1)), "q8[1,2,2,3]; q8[1,1,3,2]", "q32[1,2,2,2]"),
    Case(convolves((1, 1)), "f32[1,2,2,3]; q8[1,1,3,2]", "f32[1,2,2,2]"),
    Case(dynamic(convolves()), f"{CONV}; s64[2,2]", "f32[1,9,9,16]"),
    Case(dynamic(convolves()), f"{CONV}; s64[2,2]=0,0,0,0", SIX),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.id)
def test_valid_op_is_accepted(case: Case) -> None:
    case.verify()


INFERRED = [
    (reduces((1, 5), padding=((0, 0), (2, 2)), strides=(1, 3)), "f32[<=4,<=4]; f32[]", ADD,
     "f32[<=4,<=2]"),
    (reduces((3,)), "f32[?]; f32[]", ADD, "f32[?]"),
    (selects((2,)), "f32[<=4]; f32[3]; f32[]", f"{GE} | {ADD}", "f32[<=4]"),
    (convolves((3, 3)), "bf16[1,8,?,7]; f32[3,3,7,16]", "", "f32[1,6,?,16]"),
    (convolves((0, 0)), "f32[1,8,8,7]; f32[?,?,7,16]", "", "f32[1,?,?,16]"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "regions", "result"), INFERRED)
def test_dynamic_sizes_and_bounds_are_carried(
    op: Any, operands: str, regions: str, result: str
) -> None:
    found = op.infer(read_types(operands), read_regions(regions))
    assert print_type(found, layout=False) == result


ENTRIES = "to have same dimension-size as size of window dimensions (2), but got: 1."
PAIRS = "expects the shape of padding-attribute to be {N, 2}, but got"

OF_REDUCE_WINDOW = [
    refused(reduces((2,)), "reduce_window_c1", "requires at least 1 input value", "", ""),
    refused(
        reduces((2, 1)),
        "reduce_window_c2",
        "expects all inputs to have compatible shapes. Shape at input-index 1 is not compatible"
        " with shape at input-index 0",
        "f32[4,2]; s32[4,3]; f32[]; s32[]",
        "f32[3,2]; s32[3,2]",
        BOTH,
    ),
    refused(
        reduces((2, 1)),
        "reduce_window_c3",
        "The element-type of reduction-region's argument at index 1 is expected to be promotable"
        " from 'i32', but got 'i8'",
        "s32[4,2]; s8[]",
        "s8[3,2]",
        "s8[]; s8[] -> s8[]",
    ),
    refused(
        reduces((2,)),
        "reduce_window_c4",
        "expects window-dimensions size == input rank, but got window-dimensions size: 1 and"
        " input: 'tensor<4x2xf32>' with rank = 2.",
        POOL,
        "f32[3,2]",
        ADD,
    ),
    *(
        refused(reduces((2, 1), **given), rule, message, POOL, "f32[3,2]", ADD)
        for given, rule, message in (
            ({"strides": (1,)}, "reduce_window_c6", f"window-strides {ENTRIES}"),
            ({"strides": (0, 1)}, "reduce_window_c7", "positive stride for 0-th window"),
            ({"base": (1,)}, "reduce_window_c8", f"base-dilation factors {ENTRIES}"),
            ({"base": (1, 0)}, "reduce_window_c9", "positive base dilation factor for 1-th"),
            ({"dilations": (1,)}, "reduce_window_c10", f"window-dilation factors {ENTRIES}"),
            ({"dilations": (0, 1)}, "reduce_window_c11", "positive window dilation factor for 0"),
            ({"padding": ((0, 0),)}, "reduce_window_c12", f"padding-entries {ENTRIES}"),
            ({"padding": ((0,), (0,), (0,), (0,))}, "reduce_window_c12", f"{PAIRS} {{4, 1}}."),
            ({"padding": (((0, 0), (0, 0)),)}, "reduce_window_c12", f"{PAIRS} {{1, 2, 2}}."),
            ({"padding": (0, 0)}, "reduce_window_c12", f"{PAIRS} {{2}}."),
        )
    ),
    refused(
        reduces((2, 0)),
        "reduce_window_c5",
        "expects window to have positive value for 1-th window dimension, but got 0.",
        POOL,
        "f32[3,2]",
        ADD,
    ),
    *(
        refused(reduces((5, 1)), rule, message, operands, "f32[1,2]", region)
        for rule, message, operands, region in (
            (
                "reduce_window_c13",
                "Reduction-region must take 4 parameters, but takes 2 parameter(s)",
                POOLS,
                "f32[]; f32[] -> f32[]; s32[]",
            ),
            (
                "reduce_window_c13",
                "The reduction-region expected to return some value(s)",
                POOL,
                "f32[]; f32[] ->",
            ),
            (
                "reduce_window_c13",
                "Reduction-region here must produce 2 tensors, but produces 3 instead",
                POOLS,
                "f32[]; s32[]; f32[]; s32[] -> f32[]; s32[]; s32[]",
            ),
            (
                "reduce_window_c13",
                "Reduction-region here must produce tensor-typed result(s), but produces"
                " 'tuple<tensor<f32>>' instead",
                POOL,
                "f32[]; f32[] -> (f32[])",
            ),
            (
                "reduce_window_c13",
                "The type of reduction-region's parameter at index 0 is different than the"
                " corresponding result type: 'tensor<f32>' vs 'tensor<i32>'",
                POOL,
                "f32[]; s32[] -> s32[]",
            ),
            (
                "reduce_window_c13",
                "The type of reduction-region's parameter at index 1 is different than the"
                " corresponding result type: 'tensor<i32>' vs 'tensor<f32>'",
                POOL,
                "f32[]; s32[] -> f32[]",
            ),
            (
                "reduce_window_i2",
                "The shape of reduction-region's result type at index 0 differs from the op's"
                " corresponding init-value type: 'tensor<f32>' vs 'tensor<1xf32>'",
                "f32[4,2]; f32[1]",
                ADD,
            ),
            (
                "reduce_window_c13",
                "The element-type of reduction-region's result type at index 0 is expected to be"
                " promotable from the op's corresponding init-value element-type:"
                " 'tensor<i32>' vs 'tensor<f32>'",
                POOL,
                "s32[]; s32[] -> s32[]",
            ),
            (
                "reduce_window_c13",
                "The shape of reduction-region's argument at index 1 is not compatible with that"
                " of reduce-op's input-parameter at index 0",
                "f32[4,2]; f32[3]",
                "f32[3]; f32[3] -> f32[3]",
            ),
            (
                "reduce_window_c13",
                "The rank of reduction-region's argument at index 1 is expected to be <= 2, got 3",
                "f32[4,2]; f32[5,1,1]",
                "f32[5,1,1]; f32[5,1,1] -> f32[5,1,1]",
            ),
        )
    ),
    refused(reduces((2, 1)), "reduce_window_c1", "not compatible", POOLS, "f32[3,2]", BOTH),
    refused(reduces((2, 1)), "reduce_window_c15", "not compatible", POOL, "f32[2,2]", ADD),
    refused(reduces((2, 1)), "reduce_window_c16", "not compatible", POOL, "s32[3,2]", ADD),
]

OF_SELECT_AND_SCATTER = [
    *(
        refused(selects((2, 2), strides=(2, 2)), rule, message, operands, "f32[4,6]", regions)
        for rule, message, operands, regions in (
            (
                "select_and_scatter_c1",
                "expects source-type to be 'tensor<2x3xf32>', but got'tensor<2x3xi32>'",
                "f32[4,6]; s32[2,3]; s32[]",
                f"{GE} | s32[]; s32[] -> s32[]",
            ),
            (
                "select_and_scatter_c2",
                "expects source-type to be 'tensor<2x3xf32>', but got'tensor<2x2xf32>'",
                "f32[4,6]; f32[2,2]; f32[]",
                f"{GE} | {ADD}",
            ),
            (
                "select_and_scatter_c3",
                "expected to be promotable from the op's corresponding init-value element-type:"
                " 'tensor<f32>' vs 'tensor<i32>'",
                "f32[4,6]; f32[2,3]; s32[]",
                f"{GE} | {ADD}",
            ),
            (
                "select_and_scatter_c9",
                "expects the select-region to take 2 parameters, but takes 1",
                SOURCE,
                f"f32[] -> pred[] | {ADD}",
            ),
            (
                "select_and_scatter_c9",
                "expects the type of select-region's parameter at index 0 to be 'tensor<f32>',"
                " but got 'tensor<i32>'",
                SOURCE,
                f"s32[]; s32[] -> pred[] | {ADD}",
            ),
            (
                "select_and_scatter_c9",
                "expects select-region to return single value, but got: 2",
                SOURCE,
                f"f32[]; f32[] -> pred[]; pred[] | {ADD}",
            ),
            (
                "select_and_scatter_c9",
                "expects the return-type of select-region to be tensor<i1>, but got:"
                " 'tensor<1xi1>'",
                SOURCE,
                f"f32[]; f32[] -> pred[1] | {ADD}",
            ),
            (
                "select_and_scatter_c9",
                "expects the return-type of select-region to be tensor<i1>, but got:"
                " 'tuple<tensor<i1>>'",
                SOURCE,
                f"f32[]; f32[] -> (pred[]) | {ADD}",
            ),
            (
                "select_and_scatter_c10",
                "Reduction-region must take 2 parameters, but takes 1 parameter(s)",
                SOURCE,
                f"{GE} | f32[] -> f32[]",
            ),
            (
                "select_and_scatter_c10",
                "The rank of reduction-region's argument at index 1 is expected to be <= 0, got 1",
                "f32[4,6]; f32[2,3]; f32[1]",
                f"{GE} | f32[1]; f32[1] -> f32[1]",
            ),
        )
    ),
    *(
        refused(op, rule, message, SOURCE, "f32[4,6]", f"{GE} | {ADD}")
        for op, rule, message in (
            (
                selects(()),
                "select_and_scatter_c4",
                "expects window-dimensions size == operand rank, but got window-dimensions size:"
                " 0 and operand-type: 'tensor<4x6xf32>' with rank = 2.",
            ),
            (selects((2, 0)), "select_and_scatter_c5", "positive value for 1-th window dimension"),
            (selects((2, 2), strides=(2,)), "select_and_scatter_c6", f"window-strides {ENTRIES}"),
            (selects((2, 2), strides=(2, 0)), "select_and_scatter_c7", "positive stride for 1-th"),
            (
                selects((2, 2), padding=((0, 0),)),
                "select_and_scatter_c8",
                f"padding-entries {ENTRIES}",
            ),
            (
                selects((2, 2), padding=((0, 0, 0), (0, 0, 0))),
                "select_and_scatter_c8",
                f"{PAIRS} {{2, 3}}.",
            ),
        )
    ),
    refused(
        selects((2, 2), strides=(2, 2)),
        "select_and_scatter_c11",
        "not compatible",
        SOURCE,
        "f32[4,5]",
        f"{GE} | {ADD}",
    ),
    refused(
        selects((2, 2), strides=(2, 2)),
        "select_and_scatter_c12",
        "not compatible",
        SOURCE,
        "s32[4,6]",
        f"{GE} | {ADD}",
    ),
]

ONE_DIMENSION = (0, 3, (1,), 2, 3, (0,), 0, 3, (1,))
SIDES = "expects the same size for input, kernel and output spatial-dimensions, but got"
IN_RANGE = "expects input, kernel, and output dimension-numbers to be in-range [0, 4)."

CONVOLUTIONS: list[tuple[Convolution, str, str, str, str]] = [
    (convolves(), "c1", "same number of dimensions. Got: 'tensor<1x8x8x7xf32>' and"
     " 'tensor<3x3x7xf32>'.", "f32[1,8,8,7]; f32[3,3,7]", SIX),
    (convolves(strides=(1,)), "c2", f"window-strides {ENTRIES}", CONV, SIX),
    (convolves(strides=(1, 0)), "c3", "positive stride for 1-th window dimension", CONV, SIX),
    (convolves(base=(1,)), "c5", f"base-dilation factors {ENTRIES}", CONV, SIX),
    (convolves(base=(0, 1)), "c6", "positive base dilation factor for 0-th window", CONV, SIX),
    (convolves(dilations=(1,)), "c7", f"window-dilation factors {ENTRIES}", CONV, SIX),
    (convolves(dilations=(0, 1)), "c8", "positive window dilation factor for 0-th", CONV, SIX),
    (convolves(reversal=(False,)), "c9", f"window-reversal {ENTRIES}", CONV, SIX),
    (convolves(groups=(1, 2)), "c10", "expects input batch dimension (5) to be divisible by"
     " batch_group_count. Got batch_group_count = 2.", "f32[5,8,8,7]; f32[3,3,7,16]", SIX),
    (convolves(groups=(2, 1)), "c11", "expects input feature dimension (7) to be a multiple of"
     " feature_group_count. Got feature_group_count = 2.", CONV, SIX),
    (convolves((3, 3), NHWC), "c12", "expects convolution arguments to have 4 dimensions. Got: 5",
     "f32[1,8,8,7,1]; f32[3,3,7,7,1]", SIX),
    (convolves(), "c13", "expects convolution arguments to have >= 2 dimensions. Got:"
     " 'tensor<1xf32>' and 'tensor<3xf32>'.", "f32[1]; f32[3]", SIX),
    (convolves((3, 3), (0, 0, (1, 2), *NHWC[3:])), "c13",
     "expects input dimension-numbers to be unique, got {0, 0, 1, 2}.", CONV, SIX),
    (convolves((3, 3), (-1, *NHWC[1:])), "c13", IN_RANGE, CONV, SIX),
    (convolves(), "c14", "expects input feature dimension (7) / feature_group_count = kernel input"
     " feature dimension (5). Got feature_group_count = 1.", "f32[1,8,8,7]; f32[3,3,5,16]", SIX),
    (convolves(groups=(1, 3)), "c15", "expects output feature dimension size (16) to be a multiple"
     " of batch_group_count. Got batch_group_count = 3.", "f32[3,8,8,7]; f32[3,3,7,16]", SIX),
    (convolves(groups=(3, 1)), "c16", "expects kernel output feature dimension (16) to be"
     " divisible by feature_group_count. For feature_group_count = 3.",
     "f32[1,8,8,21]; f32[3,3,7,16]", SIX),
    (convolves((3, 3), (*NHWC[:5], (0, 1, 0), *NHWC[6:])), "c17", f"{SIDES} 2, 3, and 2 resp.",
     CONV, SIX),
    (convolves((3, 3), (*NHWC[:5], (0, 0), *NHWC[6:])), "c18",
     "expects kernel dimension-numbers to be unique, got {2, 3, 0, 0}.", CONV, SIX),
    (convolves((3, 3), (*NHWC[:5], (0, 4), *NHWC[6:])), "c18", IN_RANGE, CONV, SIX),
    (convolves((3, 3), (*NHWC[:8], (1, 2, 0))), "c19", f"{SIDES} 2, 2, and 3 resp.", CONV, SIX),
    (convolves((3, 3), (*NHWC[:8], (0, 3))), "c20",
     "expects output dimension-numbers to be unique, got {0, 3, 0, 3}.", CONV, SIX),
    (convolves((3, 3), (*NHWC[:8], (1, -2))), "c20", IN_RANGE, CONV, SIX),
    (convolves(groups=(0, 1)), "c21", "feature_group_count to be a positive number, got 0.", CONV,
     SIX),
    (convolves(groups=(1, -1)), "c22", "batch_group_count to be a positive number, got -1.", CONV,
     SIX),
    (convolves(groups=(2, 2)), "c23", "expects batch_group_count and feature_group_count not to be"
     " both greater than 1. Got 2 and 2 resp.", CONV, SIX),
    (convolves(precision=("DEFAULT",) * 3), "c24",
     "expects precision config to be empty or have <= 2 elements", CONV, SIX),
    (convolves(), "c27", "expects lhs and rhs to have compatible element type. Got: 'f32' and"
     " 'bf16'", "f32[1,8,8,7]; bf16[3,3,7,16]", SIX),
    (convolves((1, 1)), "c28", "rhs should be quantized for quantized operations",
     "q8[1,2,2,3]; f32[1,1,3,2]", "q8[1,2,2,2]"),
    (convolves((1, 2)), "c29", "quantization dimension of rhs should be same with"
     " kernel_output_feature_dimension", "q8[1,2,2,3]; q8a1[1,2,3,2]", "q8[1,2,1,2]"),
    (convolves((1,), (0, 2, (1,), 1, 0, (2,), 0, 2, (1,))), "c30",
     "quantization dimension of result should be same with output_feature_dimension",
     "q8[1,2,3]; q8a0[2,3,1]", "q8a1[1,2,2]"),
    (convolves((1, 1)), "c31", "mismatched lhs and rhs quantization storage types",
     "q8[1,2,2,3]; q16[1,1,3,2]", "q8[1,2,2,2]"),
    (convolves((1, 1)), "c32", "mismatched lhs, rhs and result quantization expressed types",
     "q8[1,2,2,3]; q8[1,1,3,2]", "q8d[1,2,2,2]"),
    (convolves((1,), (0, 2, (1,), 1, 0, (2,), 0, 2, (1,))), "c33",
     "mismatched rhs and result quantization granularity", "q8[2,2,3]; q8[2,3,1]", "q8a2[2,2,2]"),
    (convolves((1, 1)), "c34", "mismatched rhs quantization expressed type and lhs and result"
     " element type", "f32[1,2,2,3]; q8d[1,1,3,2]", "f32[1,2,2,2]"),
]  # fmt: skip

OF_CONVOLUTION = [
    *(
        refused(op, f"convolution_{rule}", message, operands, result)
        for op, rule, message, operands, result in CONVOLUTIONS
    ),
    refused(
        convolves(padding=((1, 1),)), "convolution_c4", f"padding-entries {ENTRIES}", CONV, SIX
    ),
    refused(
        convolves(padding=((0, 0, 0), (0, 0, 0))), "convolution_c4", f"{PAIRS} {{2, 3}}.", CONV, SIX
    ),
    refused(
        convolves(),
        "convolution_c25",
        "inferred shape '[1, 6, 6, 16]' is incompatible with return type of operation"
        " 'tensor<1x8x8x16xf32>'",
        CONV,
        "f32[1,8,8,16]",
    ),
    refused(
        convolves(),
        "",
        "expects window to have positive value for 0-th window dimension, but got 0.",
        "f32[1,8,8,7]; f32[0,3,7,16]",
        SIX,
    ),
    refused(convolves((2, 1)), "", "window dimension 0: size 2, the kernel has 3", CONV, SIX),
    *(
        refused(dynamic(op), f"dynamic_conv_{rule}", message, f"{operands}; s64[{n},2]={zeros}", to)
        for op, rule, message, operands, to in CONVOLUTIONS
        for n in [max(len(read_types(operands)[0].sizes) - 2, 0)]  # type: ignore[union-attr]  # an array
        for zeros in [",".join("0" * 2 * n) or "0"]
    ),
    refused(
        dynamic(convolves()),
        "dynamic_conv_i3",
        "expects padding to be of rank 2 but got 1",
        f"{CONV}; s64[4]",
        SIX,
    ),
    refused(
        dynamic(convolves()),
        "dynamic_conv_c4",
        "expects padding to be of shape [2, 2], but got [3, 2]",
        f"{CONV}; s64[3,2]",
        SIX,
    ),
]


@pytest.mark.parametrize(
    "case", OF_REDUCE_WINDOW + OF_SELECT_AND_SCATTER + OF_CONVOLUTION, ids=lambda c: c.id
)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


def test_padding_that_is_not_known_is_not_checked() -> None:
    Case(dynamic(convolves(strides=(1,))), f"{CONV}; s64[2,2]", SIX).verify()
