"""Typing of reductions, scans, sorts, maps, batch normalisation: accepted and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.types import print_type
from hloscope.ir.op import InferenceError, Op
from hloscope.ir.types import ELEMENT_TYPES, TupleType, UnrankedTensorType
from hloscope.ops.batch_norm import BatchNormGrad, BatchNormInference, BatchNormTraining
from hloscope.ops.reduction import Map, Reduce, Scan, Sort, TopK
from tests.ops.typings import Case, check_refused, read_regions, read_types, refused

ADD = "f32[]; f32[] -> f32[]"
BOTH = "f32[]; s32[]; f32[]; s32[] -> f32[]; s32[]"
PAIR = "f32[4,2]; s32[4,2]; f32[]; s32[]"
STEP = "f32[3]; f32[3] -> f32[3]; f32[3]"
SCANNED = "f32[2,3]; f32[3]"
SAME = "requires the same shape for all operands and results"


def trains(index: int) -> BatchNormTraining:
    return BatchNormTraining(0.001, index)


def normalises(index: int) -> BatchNormInference:
    return BatchNormInference(0.001, index)


def differentiates(index: int) -> BatchNormGrad:
    return BatchNormGrad(0.001, index)


ACCEPTED = [
    Case(Reduce((1,)), "f32[4,2]; f32[]", "f32[4]", ADD),
    Case(Reduce(()), "f32[4,2]; f32[]", "f32[4,2]", ADD),
    Case(Reduce((0, 1)), "f32[4,2]; f32[]", "f32[]", ADD),
    Case(Reduce((0,)), PAIR, "f32[2]; s32[2]", BOTH),
    Case(Reduce((0,)), PAIR, "f32[2]; s32[2]", "f32[]; s32[]; f32[]; s32[] -> (f32[], s32[])"),
    Case(Reduce((0,)), "f32[4,?]; f32[]", "f32[7]", ADD),
    Case(Reduce((0,)), "f32[4,?]; f32[4]", "f32[?]", "f32[4]; f32[4] -> f32[4]"),
    Case(Reduce((1,)), "f32[4,2]; f32[4]", "f32[4]", "f32[4]; f32[4] -> f32[4]"),
    Case(Reduce((0,)), "s8[4]; s8[]", "s32[]", "s32[]; s32[] -> s32[]"),
    Case(Reduce((0,)), "f32[4]; f32[]", "bf16[]", "bf16[]; bf16[] -> bf16[]"),
    Case(Reduce((0,)), "q8[4]; q8[]", "q32[]", "q32[]; q32[] -> q32[]"),
    Case(Scan(0, 1), SCANNED, "f32[2,3]; f32[3]", STEP),
    Case(Scan(0, 1, scan_dim_size=2), "f32[?,3]; f32[3]", "f32[2,3]; f32[3]", STEP),
    Case(Scan(0, 1), SCANNED, "f32[2,3]; f64[3]", STEP),
    Case(Scan(1, 0), "f32[2,3]", "s32[2,3]", "f32[2] -> s32[2]"),
    Case(Sort(-1), "f32[2,3]; s32[2,3]", "f32[2,3]; s32[2,3]",
         "f32[]; f32[]; s32[]; s32[] -> pred[]"),
    Case(Sort(0), "f32[?]", "f32[3]", "f32[]; f32[] -> pred[]"),
    Case(TopK(2), "f32[5,3]", "f32[5,2]; s32[5,2]"),
    Case(TopK(2), "f32[5,?]", "f32[5,2]; s32[5,2]"),
    Case(Map((0, 1)), "f32[4,5]; s32[4,5]", "pred[4,5]", "f32[]; s32[] -> pred[]"),
    Case(Map(()), "f32[]", "f32[]", "f32[] -> f32[]"),
    Case(trains(1), "f32[2,3]; f32[3]; f32[3]", "f32[2,3]; f32[3]; f32[3]"),
    Case(normalises(0), "f32[2,3]; f32[2]; f32[2]; f32[2]; f32[?]", "f32[2,3]"),
    Case(differentiates(0), "f32[2,3]; f32[2]; f32[2]; f32[2]; f32[2,3]",
         "f32[2,3]; f32[2]; f32[2]"),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.id)
def test_valid_op_is_accepted(case: Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("op", "operands", "regions", "result"),
    [
        (Reduce((0,)), "f32[4,<=3,?]; f32[]", ADD, "f32[<=3,?]"),
        (Reduce((1,)), "f32[?,4]; f32[2,4]; f32[]; f32[]", "f32[]; f32[]; f32[]; f32[] -> f32[];"
         " f32[]", "(f32[?], f32[?])"),
        (Scan(0, 1), "f32[<=4,3]; f32[3]", STEP, "(f32[<=4,3], f32[3])"),
        (Sort(0), "f32[<=4]", "f32[]; f32[] -> pred[]", "f32[<=4]"),
        (TopK(2), "f32[<=5,<=3]", "", "(f32[<=5,2], s32[<=5,2])"),
        (Map((0,)), "f32[<=5]", "f32[] -> s32[]", "s32[<=5]"),
        (trains(1), "f32[2,<=64]; f32[?]; f32[?]", "", "(f32[2,<=64], f32[<=64], f32[<=64])"),
        (normalises(1), "f32[2,<=64]; f32[?]; f32[?]; f32[?]; f32[?]", "", "f32[2,<=64]"),
    ],
)  # fmt: skip
def test_dynamic_sizes_and_bounds_are_carried(
    op: Op, operands: str, regions: str, result: str
) -> None:
    found = op.infer(read_types(operands), read_regions(regions))
    assert print_type(found, layout=False) == result


def test_top_k_of_unranked_is_unranked() -> None:
    f32, s32 = (UnrankedTensorType(ELEMENT_TYPES[e]) for e in ("f32", "s32"))
    assert TopK(2).infer((f32,)) == TupleType((f32, s32))


OF_REDUCE: list[tuple[str, str, str, str, str]] = [
    ("reduce_c2", "The type of reduction-region's parameter at index 3 is different than the"
     " corresponding result type: 'tensor<i32>' vs 'tensor<f32>'", PAIR, "f32[2]; f32[2]",
     "f32[]; f32[]; f32[]; s32[] -> f32[]; f32[]"),
    ("reduce_c6", "Reduction-region must take 2 parameters, but takes 4 parameter(s)",
     "f32[4,2]; f32[]", "f32[2]", BOTH),
    ("reduce_c6", "Reduction-region must take 2 parameters, but takes 4 parameter(s)",
     "f32[4,2]; s32[4,2]; f32[]", "f32[2]", BOTH),
    ("", "`reduce` has 3 operands", "f32[4,2]; f32[]; f32[]", "f32[2]", ADD),
    ("reduce_c6", "The reduction-region expected to return some value(s)", "f32[4,2]; f32[]",
     "f32[2]", "f32[]; f32[] ->"),
    ("reduce_c6", "Reduction-region here must produce 2 tensors, but produces 1 instead", PAIR,
     "f32[2]; s32[2]", "f32[]; s32[]; f32[]; s32[] -> f32[]"),
    ("reduce_c6", "Reduction-region here must produce tensor-typed result(s), but produces"
     " 'tuple<tensor<f32>, tensor<i32>>' instead", PAIR, "f32[2]; s32[2]",
     "f32[]; s32[]; f32[]; s32[] -> (f32[], s32[]); s32[]"),
    ("reduce_c6", "The element-type of reduction-region's result type at index 0 is expected to be"
     " promotable from the op's corresponding init-value element-type: 'tensor<i32>' vs"
     " 'tensor<f32>'", PAIR, "s32[2]; s32[2]", "s32[]; s32[]; s32[]; s32[] -> s32[]; s32[]"),
    ("reduce_c6", "The element-type of reduction-region's argument at index 1 is expected to be"
     " promotable from 'i32', but got 'i8'", "s32[4,2]; s8[]", "s8[2]", "s8[]; s8[] -> s8[]"),
    ("reduce_c6", "The rank of reduction-region's argument at index 1 is expected to be <= 1, got"
     " 2", "f32[4,2]; f32[4,2]", "f32[2]", "f32[4,2]; f32[4,2] -> f32[4,2]"),
    ("reduce_c6", "The shape of reduction-region's argument at index 1 is not compatible with that"
     " of reduce-op's input-parameter at index 0", "f32[4,2]; f32[3]", "f32[2]",
     "f32[3]; f32[3] -> f32[3]"),
    ("reduce_c6", "The shape of reduction-region's result type at index 0 differs from the op's"
     " corresponding init-value type: 'tensor<f32>' vs 'tensor<2xf32>'", "f32[4,2]; f32[2]",
     "f32[2]", ADD),
    ("reduce_c6", "expected to be promotable from the op's corresponding init-value element-type",
     "q32[4,2]; q32[]", "q8[2]", "q8[]; q8[] -> q8[]"),
    ("reduce_c3", "not compatible", "f32[4,2]; f32[]", "f32[2]; f32[2]", ADD),
    ("reduce_c7", "not compatible", "f32[4,2]; f32[]", "f32[4]", ADD),
    ("reduce_c8", "not compatible", "f32[4,2]; f32[]", "f64[2]", ADD),
]  # fmt: skip

OF_SORT = [
    (Sort(0), "sort_c1", "requires at least 1 input value", "", "", "f32[] -> pred[]"),
    (Sort(0), "sort_c2", "not compatible", "f32[2]", "s32[2]", "f32[]; f32[] -> pred[]"),
    (Sort(0), "sort_c3", SAME, "f32[2]; f32[3]", "f32[2]; f32[3]", ""),
    (Sort(-3), "sort_c4", "dimension attribute value must be in range [-2, 2), but found -3",
     "f32[2,2]", "f32[2,2]", "f32[]; f32[] -> pred[]"),
    (Sort(2), "sort_c4", "dimension attribute value must be in range [-2, 2), but found 2",
     "f32[2,2]", "f32[2,2]", "f32[]; f32[] -> pred[]"),
    (Sort(0), "sort_c5", "comparator block should have 4 arguments", "f32[2]; s32[2]",
     "f32[2]; s32[2]", "f32[]; f32[] -> pred[]"),
    (Sort(0), "sort_c5", "comparator block argument #0 should be of type 'tensor<f32>' but got"
     " 'tensor<i32>'", "f32[2]", "f32[2]", "s32[]; s32[] -> pred[]"),
    (Sort(0), "sort_c5", "comparator must return single output but got 2", "f32[2]", "f32[2]",
     "f32[]; f32[] -> pred[]; pred[]"),
    (Sort(0), "sort_c5", "comparator must return tensor<i1> but got 'tensor<i32>'", "f32[2]",
     "f32[2]", "f32[]; f32[] -> s32[]"),
    (Sort(0), "sort_c5", "comparator must return tensor<i1> but got 'tensor<1xi1>'", "f32[2]",
     "f32[2]", "f32[]; f32[] -> pred[1]"),
]  # fmt: skip

OF_MAP = [
    (Map((0,)), "map_c1", SAME, "f32[2]; f32[3]", "f32[2]", ADD),
    (Map((0,)), "map_c1", "not compatible", "f32[2]", "f32[3]", "f32[] -> f32[]"),
    (Map(()), "map_c2", "requires at least 1 input value", "", "f32[]", "-> f32[]"),
    (Map((1, 0)), "map_c3", "requires monotonically increasing dimension numbers, but got: 1, 0",
     "f32[2,3]", "f32[2,3]", "f32[] -> f32[]"),
    (Map((0, 1, 2)), "map_c3", "applied to a subset of dimensions currently not supported: operand"
     " dimensions = 2, requested map dimensions size = 3", "f32[2,3]", "f32[2,3]",
     "f32[] -> f32[]"),
    (Map((0,)), "map_c4", "expects number of operands to match the arity of map computation, but"
     " got: 2 and 1", "f32[2]; f32[2]", "f32[2]", "f32[] -> f32[]"),
    (Map((0,)), "map_c4", "computation arguments must be 0-rank tensor, but got: arg #1 of type"
     " 'tensor<5xf32>'", "f32[2]; f32[2]", "f32[2]", "f32[]; f32[5] -> f32[]"),
    (Map((0,)), "map_c4", "element type of operands and computation arguments must match, but got:"
     " 'f32' and 'i32'", "f32[2]", "f32[2]", "s32[] -> s32[]"),
    (Map((0,)), "map_c4", "computation must return single output, but got: 0", "f32[2]", "f32[2]",
     "f32[] ->"),
    (Map((0,)), "map_c4", "computation must return 0-rank tensor, but got: 'tensor<5xf32>'",
     "f32[2]", "f32[2]", "f32[] -> f32[5]"),
    (Map((0,)), "map_c4", "not compatible", "f32[2]", "s32[2]", "f32[] -> f32[]"),
]  # fmt: skip

FEATURES = (
    "expects the size of single-dimensional operands to be compatible with feature count, but the"
    " size of single-dimensional operands is {} and the feature count is {}."
)
SINGLE = "expects single-dimensional operands to have compatible shapes."
SMALLER = (
    "expects featureIndex to be smaller than the rank of multi-dimensional operands; got"
    " featureIndex 2, and rank 2."
)
TRAINED = "f32[2,3]; f32[3]; f32[3]"
NORMALISED = "f32[2,3]; f32[3]; f32[3]; f32[3]; f32[3]"
GRADED = "f32[2,3]; f32[3]; f32[3]; f32[3]; f32[2,3]"

OF_BATCH_NORM: list[tuple[Any, str, str, str, str]] = [
    (trains(2), "c1", SMALLER, TRAINED, TRAINED),
    (trains(-1), "c1", "featureIndex to be a non-negative number, got -1.", TRAINED, TRAINED),
    (trains(1), "c2", "same element type", "f32[2,3]; s32[3]; f32[3]", TRAINED),
    (trains(0), "c3", FEATURES.format(3, 2), TRAINED, TRAINED),
    (trains(1), "c4", SINGLE, "f32[2,3]; f32[3]; f32[4]", TRAINED),
    (trains(1), "c5", "not compatible", TRAINED, "f32[2,3]; f32[2]; f32[3]"),
    (trains(1), "c6", "not compatible", TRAINED, "f32[2,3]; f32[3]; f32[2]"),
    (trains(1), "c7", "not compatible", TRAINED, "f32[2,2]; f32[3]; f32[3]"),
    (normalises(2), "c1", SMALLER, NORMALISED, "f32[2,3]"),
    (normalises(1), "c2", "same element type", "f32[2,3]; f32[3]; f32[3]; f32[3]; s32[3]",
     "f32[2,3]"),
    (normalises(0), "c3", FEATURES.format(3, 2), NORMALISED, "f32[2,3]"),
    (normalises(1), "c4", SINGLE, "f32[2,3]; f32[3]; f32[4]; f32[3]; f32[3]", "f32[2,3]"),
    (normalises(1), "c5", SINGLE, "f32[2,3]; f32[3]; f32[3]; f32[4]; f32[3]", "f32[2,3]"),
    (normalises(1), "c6", SINGLE, "f32[2,3]; f32[3]; f32[3]; f32[3]; f32[3,1]", "f32[2,3]"),
    (normalises(1), "c7", "not compatible", NORMALISED, "f32[3]"),
    (differentiates(2), "c1", SMALLER, GRADED, TRAINED),
    (differentiates(1), "c2", "same element type", "f32[2,3]; f32[3]; f32[3]; f32[3]; s32[2,3]",
     TRAINED),
    (differentiates(1), "c3", "expects multi-dimensional operands to have compatible shapes.",
     "f32[2,3]; f32[3]; f32[3]; f32[3]; f32[2,2]", TRAINED),
    (differentiates(1), "c3", "not compatible", GRADED, "f32[2,2]; f32[3]; f32[3]"),
    (differentiates(1), "c4", SINGLE, "f32[2,3]; f32[3]; f32[4]; f32[3]; f32[2,3]", TRAINED),
    (differentiates(1), "c4", "not compatible", GRADED, "f32[2,3]; f32[2]; f32[3]"),
    (differentiates(0), "c5", FEATURES.format(3, 2), GRADED, TRAINED),
    (trains(1), "c4", SINGLE, "f32[2,3]; f32[3]; f32[]", TRAINED),
    (differentiates(-1), "c1", "a non-negative number, got -1.", GRADED, TRAINED),
    (differentiates(1), "c4", SINGLE, "f32[2,3]; f32[3,1]; f32[3]; f32[3]; f32[2,3]", TRAINED),
]  # fmt: skip

OF_CHLO = [
    (Scan(0, 1, scan_dim_size=3), "'chlo.scan' op invalid scan dimension size of operand 0",
     SCANNED, STEP),
    (Scan(2, 1), "'chlo.scan' op scan dimension of operand 0 is out of bounds", SCANNED, STEP),
    (Scan(0, 1), "'chlo.scan' op expects 2 arguments in the body, but got 1", SCANNED,
     "f32[3] -> f32[3]; f32[3]"),
    (Scan(0, 1), "'chlo.scan' op operand and body argument 1 are incompatible",
     "f32[2,3]; s32[3]", STEP),
    (Scan(0, 1), "'chlo.scan' op operand and body argument 0 are incompatible",
     "f32[2,4]; f32[3]", STEP),
    (Scan(0, 1), "ScanOp body must return at least 1 values (carries)", SCANNED,
     "f32[3]; f32[3] ->"),
    (Scan(0, 1), "not compatible", SCANNED, STEP.replace("-> f32[3]", "-> f32[4]")),
    (TopK(8), "operand's last dimension must be at least 8", "f32[2,3]", ""),
    (TopK(1), "operand's rank must be at least 1", "f32[]", ""),
]  # fmt: skip

REFUSED = [
    refused(Reduce((0,)), "reduce_c3", "requires at least 1 input value", "", "", ADD),
    refused(
        Reduce((1,)),
        "reduce_c1",
        "expects all inputs to have compatible shapes. Shape at input-index 1 is not compatible"
        " with shape at input-index 0",
        "f32[4,2]; s32[4,3]; f32[]; s32[]",
        "f32[4]; s32[4]",
        BOTH,
    ),
    *(
        refused(Reduce(dimensions), rule, message, "f32[4,2]; f32[]", "f32[4]", ADD)
        for dimensions, rule, message in (
            ((-1,), "reduce_c4", "Out-of-bounds dimension -1, expected to be in range [0, 2)"),
            ((2,), "reduce_c4", "Out-of-bounds dimension 2, expected to be in range [0, 2)"),
            ((1, 1), "reduce_c5", "Duplicate reduction dimension: 1"),
        )
    ),
    *(
        refused(Reduce((0,)), rule, message, operands, results, region)
        for rule, message, operands, results, region in OF_REDUCE
    ),
    *(refused(*case) for case in OF_SORT + OF_MAP),
    *(
        refused(op, "", message, operands, "f32[2,3]; f32[3]", regions)
        for op, message, operands, regions in OF_CHLO
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


REFUSED_BATCH_NORM = [
    refused(op, f"{op.name}_{rule}", message, operands, results)
    for op, rule, message, operands, results in OF_BATCH_NORM
]


@pytest.mark.parametrize("op", [trains, normalises, differentiates])
def test_constraints_of_batch_norm_are_named(op: Callable[[int], Op]) -> None:
    for case in REFUSED_BATCH_NORM:
        if case.op.name == op(0).name:
            check_refused(case)


@pytest.mark.parametrize(
    ("op", "operands", "results"),
    [
        (trains(0), "f32[2,3]; f32[2]; f32[2]", "f32[2,3]; f32[2]; f32[2]"),
        (trains(1), TRAINED, TRAINED),
        (trains(0), "f32[2]; f32[2]; f32[?]", "f32[2]; f32[2]; f32[2]"),
        (normalises(0), "f32[2,3]; f32[2]; f32[2]; f32[2]; f32[2]", "f32[2,3]"),
        (normalises(1), NORMALISED, "f32[2,3]"),
        (differentiates(0), "f32[2,3]; f32[2]; f32[2]; f32[2]; f32[2,?]",
         "f32[2,3]; f32[2]; f32[2]"),
        (differentiates(1), GRADED, TRAINED),
    ],
)  # fmt: skip
def test_batch_norm_normalises_over_every_other_dimension(
    op: Op, operands: str, results: str
) -> None:
    Case(op, operands, results).verify()


def test_checks_of_the_op_are_told_from_inference() -> None:
    own = Case(Reduce((0,)), "f32[2]; f32[]", "f32[]", "f32[] -> f32[]")
    with pytest.raises(VerifyError) as caught:
        own.verify()
    assert type(caught.value) is VerifyError
    with pytest.raises(InferenceError):
        Case(Map((1,)), "f32[2]", "f32[2]", "f32[] -> f32[]").verify()
