"""Typing of gather, dynamic_gather and scatter: what is accepted, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.hlo_parser.types import print_type
from hloscope.ir.op import Op
from hloscope.ops.gather_scatter import DynamicGather, Gather, Scatter
from tests.ops.typings import Case, check_refused, read_regions, read_types, refused

# Slices of 1x1x8 elements out of 2x4x9, at 1x5 places.
_GATHER: dict[str, Any] = {
    "offset_dims": (2,),
    "collapsed_slice_dims": (0, 1),
    "operand_batching_dims": (),
    "start_indices_batching_dims": (),
    "start_index_map": (0, 1),
    "index_vector_dim": 2,
}
# Slices of 1x1x2 elements out of 3x4x2, at 5 places of each of the 3 batches.
_BATCHED: dict[str, Any] = {
    "offset_dims": (2,),
    "collapsed_slice_dims": (1,),
    "operand_batching_dims": (0,),
    "start_indices_batching_dims": (0,),
    "start_index_map": (1,),
    "index_vector_dim": 2,
}
# Updates of 300 elements at 10 places of 200x100x300.
_SCATTER: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0, 1),
    "input_batching_dims": (),
    "scatter_indices_batching_dims": (),
    "scatter_dims_to_operand_dims": (0, 1),
    "index_vector_dim": 1,
}
# Updates of 300 elements at 10 places of each of the 5 batches of 100x300.
_BATCHED_SCATTER: dict[str, Any] = {
    "update_window_dims": (2,),
    "inserted_window_dims": (1,),
    "input_batching_dims": (0,),
    "scatter_indices_batching_dims": (0,),
    "scatter_dims_to_operand_dims": (1,),
    "index_vector_dim": 2,
}


def gathers(sizes: tuple[int, ...] = (1, 1, 8), **given: Any) -> Gather:
    return Gather(**{**_GATHER, **given}, slice_sizes=sizes)


def gathers_in_batches(sizes: tuple[int, ...] = (1, 1, 2), **given: Any) -> Gather:
    return Gather(**{**_BATCHED, **given}, slice_sizes=sizes)


def scatters(**given: Any) -> Scatter:
    return Scatter(**{**_SCATTER, **given})


def scatters_in_batches(**given: Any) -> Scatter:
    return Scatter(**{**_BATCHED_SCATTER, **given})


OPERANDS = "s32[2,4,9]; s64[1,5,2]"
BATCHES = "s32[3,4,2]; s64[3,5,1]"
ADD = "f32[]; f32[] -> f32[]"
BOTH = "f32[]; s32[]; f32[]; s32[] -> f32[]; s32[]"
INPUT = "f32[200,100,300]"
SCATTERED = f"{INPUT}; s32[10,2]; f32[10,300]"
IN_BATCHES = "f32[5,100,300]; s32[5,10,1]; f32[5,10,300]"

ACCEPTED = [
    Case(gathers(), OPERANDS, "s32[1,5,8]"),
    Case(gathers(), "s32[?,?,?]; s64[1,?,2]", "s32[1,5,8]"),
    Case(gathers((0, 1, 8)), OPERANDS, "s32[1,5,8]"),
    Case(gathers(start_index_map=(0,)), "s32[2,4,9]; s64[1,5]", "s32[1,5,8]"),
    Case(gathers_in_batches(), BATCHES, "s32[3,5,2]"),
    Case(scatters(), SCATTERED, INPUT, ADD),
    Case(scatters(), SCATTERED.replace("10,300", "10,200"), INPUT, ADD),
    Case(scatters(), f"{INPUT}; s32[?,?]; f32[10,?]", "f32[200,?,300]", ADD),
    Case(
        scatters(),
        f"{INPUT}; s32[200,100,300]; s32[10,2]; f32[10,300]; s32[10,300]",
        f"{INPUT}; s32[200,100,300]",
        BOTH,
    ),
    Case(scatters(), "s8[200,100,300]; s32[10,2]; s8[10,300]", "s32[200,100,300]",
         "s32[]; s32[] -> s32[]"),
    Case(scatters(), "q8[200,100,300]; s32[10,2]; q8[10,300]", "q32[200,100,300]",
         "q32[]; q32[] -> q32[]"),
    Case(scatters_in_batches(), IN_BATCHES, "f32[5,100,300]", ADD),
    Case(scatters(scatter_dims_to_operand_dims=(0,)), f"{INPUT}; s32[10]; f32[10,300]", INPUT, ADD),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.id)
def test_valid_op_is_accepted(case: Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("op", "operands", "regions", "result"),
    [
        (gathers(), "f32[?,?,?]; s64[<=7,?,2]", "", "f32[<=7,?,8]"),
        (gathers(offset_dims=(0,)), "f32[2,4,9]; s64[<=7,?,2]", "", "f32[8,<=7,?]"),
        (
            Gather((0, 2, 3, 4, 5), (0, 1, 3), (), (), (0, 1), 2, (1, 1, 8, 1, 7, 1, 6, 1)),
            "s32[?,?,?,?,?,?,?,?]; s32[?,?,?]",
            "",
            "s32[8,?,7,1,6,1,?]",
        ),
        (DynamicGather(**_GATHER), f"{OPERANDS}; s32[3]", "", "s32[1,5,?]"),
        (DynamicGather(**_GATHER), f"{OPERANDS}; s32[3]=1,1,8", "", "s32[1,5,8]"),
        (DynamicGather(**_GATHER), f"{OPERANDS}; s32[?]", "", "s32[1,5,?]"),
        (
            scatters(),
            "f32[200,?,<=300]; s32[10,2]; f32[10,300]",
            "f32[]; f32[] -> f64[]",
            "f64[200,?,<=300]",
        ),
    ],
)
def test_dynamic_sizes_and_bounds_are_carried(
    op: Op, operands: str, regions: str, result: str
) -> None:
    found = op.infer(read_types(operands), read_regions(regions))
    assert print_type(found, layout=False) == result


OF_OPERAND = "rank-of('operand')) i.e. [0, 3). got:"
OF_INDICES = "rank-of('start_indices')"
TWICE = "has duplicated dimension from"
ONE = "slice_sizes[dim] should be <= 1, but got"
BATCHING = "start_indices_batching_dims"

OF_GATHER: list[tuple[Gather, str, str, str]] = [
    (gathers(offset_dims=(1, 2)), "c1", "offset_dims size (2) plus collapse_slice_dims size (2)"
     " plus operand_batching_dims size (0) is not equal to operand rank (3)", OPERANDS),
    (gathers(index_vector_dim=-1), "c2", "Expects index_vector_dim to be in range"
     f" [0, {OF_INDICES}] i.e. [0, 3]. got: -1.", OPERANDS),
    (gathers(index_vector_dim=4), "c2", "[0, 3]. got: 4.", OPERANDS),
    (gathers(start_index_map=(0,)), "c3", "start_index_map size (1) is not equal to size of index"
     " dimension (2) of start_indices (2)", OPERANDS),
    (gathers(index_vector_dim=3), "c3", "start_index_map size (2) is not equal to size of index"
     " dimension (3) of start_indices (1)", OPERANDS),
    (gathers(offset_dims=(2, 1), collapsed_slice_dims=(0,)), "c4",
     "expects offset_dims to be sorted, got: [2, 1]", OPERANDS),
    (gathers(offset_dims=(2, 2), collapsed_slice_dims=(0,)), "c4",
     "expects offset_dims to not repeat, got: [2, 2]", OPERANDS),
    (gathers(offset_dims=(-1,)), "c5", "Expects each element of offset_dims to be in range"
     " [0, implied-result-rank) i.e. [0, 3). got: -1.", OPERANDS),
    (gathers(offset_dims=(3,)), "c5", "[0, implied-result-rank) i.e. [0, 3). got: 3.", OPERANDS),
    (gathers_in_batches(collapsed_slice_dims=(0,)), "c6",
     f"{TWICE} collapsed_slice_dims and operand_batching_dims: 0", BATCHES),
    (gathers(collapsed_slice_dims=(1, 1)), "c6", f"{TWICE} collapsed_slice_dims", OPERANDS),
    (gathers(collapsed_slice_dims=(1, 0)), "c7",
     "expects collapsed_slice_dims to be sorted, got: [1, 0]", OPERANDS),
    (gathers(collapsed_slice_dims=(-1, 0)), "c8",
     f"Expects each element of collapsed_slice_dims to be in range [0, {OF_OPERAND} -1.", OPERANDS),
    (gathers((8, 1, 1)), "c9",
     f"Expects that for each dim in collapsed_slice_dims, {ONE} 8", OPERANDS),
    (gathers_in_batches(operand_batching_dims=(1, 0), collapsed_slice_dims=()), "c10",
     "expects operand_batching_dims to be sorted, got: [1, 0]", BATCHES),
    (gathers_in_batches(operand_batching_dims=(3,)), "c11",
     f"Expects each element of operand_batching_dims to be in range [0, {OF_OPERAND} 3.", BATCHES),
    (gathers_in_batches((8, 1, 1)), "c12",
     f"Expects that for each dim in operand_batching_dims, {ONE} 8", BATCHES),
    (gathers_in_batches(start_indices_batching_dims=(1, 0, 1)), "c13",
     f"expects {BATCHING} to not repeat, got: [1, 0, 1]", BATCHES),
    (gathers_in_batches(start_indices_batching_dims=(3,)), "c14",
     f"Expects each element of {BATCHING} to be in range [0, {OF_INDICES}) i.e. [0, 3). got: 3.",
     BATCHES),
    (gathers_in_batches(start_indices_batching_dims=(2,)), "c15",
     f"expects {BATCHING} not to include index_vector_dim 2", BATCHES),
    (gathers_in_batches(start_indices_batching_dims=()), "c16",
     f"operand_batching_dims and {BATCHING} should have the same size", BATCHES),
    (gathers_in_batches(), "c17", f"operand_batching_dims[0] and {BATCHING}[0] must have compatible"
     " sizes, but got 3 and 4", "s32[3,4,2]; s64[4,5,1]"),
    (gathers_in_batches(start_index_map=(0,)), "c18",
     f"{TWICE} start_index_map and operand_batching_dims: 0", BATCHES),
    (gathers(start_index_map=(-2, 0)), "c19",
     f"Expects each element of start_index_map to be in range [0, {OF_OPERAND} -2.", OPERANDS),
    (gathers((1, 1)), "c20", "slice_sizes size (2) not equal to operand rank (3)", OPERANDS),
    (gathers((1, 1, -1)), "c21",
     "slice size (-1) is out of bounds for operand dimension (9) at index 2", OPERANDS),
    (gathers((1, 1, 10)), "c21",
     "slice size (10) is out of bounds for operand dimension (9) at index 2", OPERANDS),
]  # fmt: skip


def dynamic(op: Gather) -> tuple[DynamicGather, str]:
    """The same op with its slice sizes as an operand."""
    numbers = ",".join(map(str, op.slice_sizes))
    fields = {name: getattr(op, name) for name in DynamicGather.__struct_fields__}
    return DynamicGather(**fields), f"; s32[{len(op.slice_sizes)}]={numbers}"


SCATTER_DIMS = "scatter_dims_to_operand_dims"
SCATTER_BATCHING = "scatter_indices_batching_dims"
EXPANDED = (
    "( == rank-of('scatter_indices') - 1 + size-of('update_window_dims'), where 'scatter_indices'"
    " is expanded by a trailing 1 dimension if 'index_vector_dim' == rank-of('scatter_indices')),"
    " but got"
)
EACH = "Expects each element of"

OF_SCATTER: list[tuple[Scatter, str, str, str, str, str]] = [
    (scatters(), "c1", "Not all inputs have compatible shapes.",
     f"{INPUT}; s32[200,100,301]; s32[10,2]; f32[10,300]; s32[10,300]", INPUT, BOTH),
    (scatters(inserted_window_dims=(0,)), "c2", "Expects rank-of operand to match"
     " size-of('update_window_dims') + size-of('inserted_window_dims') +"
     " size-of('input_batching_dims') i.e. 2 but got 3.", SCATTERED, INPUT, ADD),
    (scatters(), "c3", "Not all updates have compatible shapes.",
     f"{INPUT}; s32[200,100,300]; s32[10,2]; f32[10,300]; s32[9,300]", INPUT, BOTH),
    (scatters(), "c4", f"expects updates tensor must be of rank 2 {EXPANDED} 1.",
     f"{INPUT}; s32[10,2]; f32[300]", INPUT, ADD),
    (scatters(), "c4", "expects bounds of the window dimensions of updates to not exceed the bounds"
     " of the corresponding dimensions of operand. For dimension 1, updates bound is 301, operand"
     " bound is 300.", f"{INPUT}; s32[10,2]; f32[10,301]", INPUT, ADD),
    (scatters(), "c4", "expects bounds of the scatter dimensions of updates to be same as the"
     " bounds of the corresponding dimensions of scatter indices. For scatter dimension 0, updates"
     " bound is 10 , scatter_indices bound is 11.", f"{INPUT}; s32[11,2]; f32[10,300]", INPUT, ADD),
    (scatters(), "c5", "requires at least 1 input value", "", INPUT, ADD),
    (scatters(), "c5", "not compatible", SCATTERED, f"{INPUT}; {INPUT}", ADD),
    (scatters(), "c6", "promotable from the op's corresponding init-value element-type:"
     " 'tensor<f32>' vs 'tensor<i32>'", f"{INPUT}; s32[10,2]; s32[10,300]", INPUT, ADD),
    (scatters(), "c6", "argument at index 1 is expected to be promotable from 'i32', but got"
     " 'f32'", "s32[200,100,300]; s32[10,2]; f32[10,300]", INPUT, ADD),
    (scatters(update_window_dims=(1, 0), inserted_window_dims=(0,)), "c7",
     "Expects update_window_dims to be sorted; got: [1, 0].",
     f"{INPUT}; s32[10,2]; f32[10,300,1]", INPUT, ADD),
    (scatters(update_window_dims=(1, 1), inserted_window_dims=(0,)), "c7",
     "Expects update_window_dims to not repeat; got: [1, 1].",
     f"{INPUT}; s32[10,2]; f32[10,300,1]", INPUT, ADD),
    (scatters(update_window_dims=(-1,)), "c8", f"{EACH} update_window_dims to be in range"
     " [0, rank-of('updates')) i.e. [0, 2). got: -1.", SCATTERED, INPUT, ADD),
    (scatters_in_batches(inserted_window_dims=(0,)), "c9",
     f"{TWICE} inserted_window_dims and input_batching_dims: 0", IN_BATCHES, INPUT, ADD),
    (scatters(inserted_window_dims=(1, 0)), "c10",
     "Expects inserted_window_dims to be sorted; got: [1, 0].", SCATTERED, INPUT, ADD),
    (scatters(inserted_window_dims=(0, 3)), "c11",
     f"{EACH} inserted_window_dims to be in range [0, {OF_OPERAND} 3.", SCATTERED, INPUT, ADD),
    (scatters_in_batches(inserted_window_dims=(), input_batching_dims=(1, 0)), "c12",
     "Expects input_batching_dims to be sorted; got: [1, 0].", IN_BATCHES, INPUT, ADD),
    (scatters_in_batches(input_batching_dims=(-1,)), "c13",
     f"{EACH} input_batching_dims to be in range [0, {OF_OPERAND} -1.", IN_BATCHES, INPUT, ADD),
    (scatters_in_batches(scatter_indices_batching_dims=(0, 0)), "c14",
     f"Expects {SCATTER_BATCHING} to not repeat; got: [0, 0].", IN_BATCHES, INPUT, ADD),
    (scatters_in_batches(scatter_indices_batching_dims=(3,)), "c15",
     f"{EACH} {SCATTER_BATCHING} to be in range [0, rank-of('scatter_indices')) i.e. [0, 3)."
     " got: 3.", IN_BATCHES, INPUT, ADD),
    (scatters_in_batches(scatter_indices_batching_dims=(2,)), "c16",
     f"expects {SCATTER_BATCHING} not to include index_vector_dim 2.", IN_BATCHES, INPUT, ADD),
    (scatters_in_batches(scatter_indices_batching_dims=()), "c17",
     f"input_batching_dims and {SCATTER_BATCHING} should have the same size.", IN_BATCHES, INPUT,
     ADD),
    (scatters_in_batches(), "c18", f"input_batching_dims[0] and {SCATTER_BATCHING}[0] must have"
     " compatible sizes, but got 5 and 6.", IN_BATCHES.replace("s32[5", "s32[6"), INPUT, ADD),
    (scatters(scatter_dims_to_operand_dims=(0,)), "c19", f"Scatter op has 1 elements in"
     f" {SCATTER_DIMS} and the bound of dimension index_vector_dim=1 of scatter_indices is 2. These"
     " two numbers must be equal.", SCATTERED, INPUT, ADD),
    (scatters(index_vector_dim=2), "c19", "the bound of dimension index_vector_dim=2 of"
     " scatter_indices is 1.", f"{INPUT}; s32[10,2]; f32[10,300,2]", INPUT, ADD),
    (scatters_in_batches(scatter_dims_to_operand_dims=(0,)), "c20",
     f"{TWICE} {SCATTER_DIMS} and input_batching_dims: 0", IN_BATCHES, INPUT, ADD),
    (scatters(scatter_dims_to_operand_dims=(0, 0)), "c20", f"{TWICE} {SCATTER_DIMS}", SCATTERED,
     INPUT, ADD),
    (scatters(scatter_dims_to_operand_dims=(0, 3)), "c21",
     f"{EACH} {SCATTER_DIMS} to be in range [0, {OF_OPERAND} 3.", SCATTERED, INPUT, ADD),
    (scatters(index_vector_dim=3), "c22", "Expects index_vector_dim to be in range"
     " [0, rank-of('scatter_indices')] i.e. [0, 2]. got: 3.", SCATTERED, INPUT, ADD),
    (scatters(), "c23", "Reduction-region must take 2 parameters, but takes 1 parameter(s)",
     SCATTERED, INPUT, "f32[] -> f32[]"),
    (scatters(), "c23", "Reduction-region here must produce 1 tensors, but produces 2 instead",
     SCATTERED, INPUT, "f32[]; f32[] -> f32[]; f32[]"),
    (scatters(), "c23", "parameter at index 0 is different than the corresponding result type:"
     " 'tensor<f32>' vs 'tensor<i32>'", SCATTERED, INPUT, "f32[]; f32[] -> s32[]"),
    (scatters(), "c23", "differs from the op's corresponding init-value type: 'tensor<1xf32>' vs"
     " 'tensor<f32>'", SCATTERED, INPUT, "f32[1]; f32[1] -> f32[1]"),
    (scatters(), "c24", "not compatible", SCATTERED, "f32[200,100,301]", ADD),
    (scatters(), "c25", "not compatible", SCATTERED, "s32[200,100,300]", ADD),
]  # fmt: skip

REFUSED = [
    *(
        refused(op, f"gather_{rule}", message, operands, "s32[3]")
        for op, rule, message, operands in OF_GATHER
    ),
    *(
        refused(same, f"dynamic_gather_{rule}", message, operands + sizes, "s32[3]")
        for op, rule, message, operands in OF_GATHER
        for same, sizes in [dynamic(op)]
    ),
    refused(gathers(), "gather_c22", "not compatible", OPERANDS, "s32[3]"),
    refused(gathers(), "gather_c23", "same element type", OPERANDS, "f32[1,5,8]"),
    refused(
        DynamicGather(**_GATHER),
        "dynamic_gather_c22",
        "not compatible",
        f"{OPERANDS}; s32[3]",
        "s32[1,4,8]",
    ),
    refused(
        DynamicGather(**_GATHER),
        "dynamic_gather_c23",
        "not compatible",
        f"{OPERANDS}; s32[3]",
        "f32[1,5,8]",
    ),
    refused(
        DynamicGather(**_GATHER),
        "dynamic_gather_i3",
        "slice_sizes.rank != 1 (got 2)",
        f"{OPERANDS}; s32[3,1]",
        "s32[1,5,8]",
    ),
    *(
        refused(op, f"scatter_{rule}", message, operands, results, region)
        for op, rule, message, operands, results, region in OF_SCATTER
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)
