"""Typing of dots: what is accepted, what is refused with which label."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.types import print_type
from hloscope.ops.contraction import (
    Dot,
    DotDimensions,
    DotGeneral,
    RaggedDot,
    ScaledDot,
    check_dot_algorithm,
)
from tests.ops.typings import Case, check_refused, read_types, refused

Dims = tuple[int, ...]


def dots(*dims: Dims, **given: Any) -> DotGeneral:
    """A dot with batch dimensions of both sides, then contracting ones."""
    return DotGeneral(DotDimensions(*dims), **given)


def ragged(*dims: Dims, lhs: Dims = (0,), rhs: Dims = (0,)) -> RaggedDot:
    return RaggedDot(DotDimensions(*dims), lhs, rhs)


ROWS = ((), (), (1,), (0,))
BATCHED = ((0,), (0,), (2,), (1,))
THREE = ("DEFAULT", "DEFAULT", "DEFAULT")
F3 = "f32[2,3,4]; f32[2,4,5]"

ACCEPTED = [
    Case(dots(*ROWS), "f32[2,3]; f32[3,4]", "f32[2,4]"),
    Case(dots(*ROWS), "f32[2,3]; f32[3,4]", "f64[2,4]"),
    Case(dots(*ROWS), "f32[2,?]; f32[3,4]", "f32[?,4]"),
    Case(dots(*BATCHED, precision_config=("HIGH", "HIGHEST")), F3, "f32[2,3,5]"),
    Case(dots(*BATCHED, precision_config=("DEFAULT", "DEFAULT"), algorithm="x"), F3, "f32[2,3,5]"),
    Case(dots(*BATCHED, algorithm="x"), F3, "f32[2,3,5]"),
    Case(dots(*ROWS), "q8z[2,3]; q8[3,4]", "q32[2,4]"),
    Case(dots(*ROWS), "q8[2,3]; q8a1[3,2]", "q8a1[2,2]"),
    Case(dots(*ROWS), "f32[2,3]; q8[3,4]", "f32[2,4]"),
    Case(Dot(), "f32[3]; f32[3]", "f32[]"),
    Case(Dot(), "f32[2,3]; f32[3]", "f32[2]"),
    Case(Dot(), "f32[2,?]; f32[3,4]", "f32[2,?]"),
    Case(ragged((), (), (1,), (1,)), "f32[11,5]; f32[3,5,7]; s64[3]", "f32[11,7]"),
    Case(
        ragged((0,), (1,), (3,), (2,), lhs=(2,)),
        "f32[19,17,11,5]; f32[3,19,5,7]; s64[19,17,3]",
        "f32[19,17,11,7]",
    ),
    Case(
        ragged((0,), (0,), (2,), (1,), lhs=(2,), rhs=()),
        "f32[9,11,5]; f32[9,5,7]; s64[9,3]",
        "f32[3,9,11,7]",
    ),
    Case(
        ragged((0,), (0,), (2,), (1,), lhs=(0,), rhs=()),
        "f32[9,11,5]; f32[9,5,7]; s64[3]",
        "f32[9,11,7]",
    ),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.id)
def test_valid_op_is_accepted(case: Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("op", "operands", "result"),
    [
        (dots(*ROWS), "f32[<=64,12]; f32[12,<=64]", "f32[<=64,<=64]"),
        (dots(*BATCHED), "f32[10,<=64,12]; f32[10,12,<=64]", "f32[10,<=64,<=64]"),
        (dots(*BATCHED), "f32[<=10,2,12]; f32[<=9,12,?]", "f32[<=9,2,?]"),
        (Dot(), "f32[<=64,12]; f32[12,<=64]", "f32[<=64,<=64]"),
    ],
)
def test_dynamic_sizes_and_bounds_are_carried(
    op: DotGeneral | Dot, operands: str, result: str
) -> None:
    assert print_type(op.infer(read_types(operands)), layout=False) == result


RANGE = "value: {} is out of range: [0, 3)"
SHAPE = "is incompatible with return type of operation"
RANKS = "expected both lhs/rhs ranks to be either 1 or 2"
GROUPED = "f32[11,5]; f32[3,5,7]; s64[3]"

REFUSED = [
    *(
        refused(op, f"dot_general_{rule}", message, operands, result)
        for op, rule, message, operands, result in (
            (dots((0,), (), (2,), (1,)), "c1", "same number of batching dimensions", F3, "f32[]"),
            (dots((0,), (0,), (2,), ()), "c2", "same number of contracting dimensions", F3,
             "f32[]"),
            (
                dots((0,), (0,), (0,), (1,)),
                "c3",
                "has duplicated dimension from lhs_batching_dimensions and"
                " lhs_contracting_dimensions: 0",
                F3,
                "f32[]",
            ),
            (
                dots((0,), (1,), (2,), (1,)),
                "c4",
                "has duplicated dimension from rhs_batching_dimensions and"
                " rhs_contracting_dimensions: 1",
                F3,
                "f32[]",
            ),
            (dots((-1,), (0,), (2,), (1,)), "c5", f"lhs_batching_dimensions {RANGE}".format(-1),
             F3, "f32[]"),
            (dots((0,), (0,), (3,), (1,)), "c6", f"lhs_contracting_dimensions {RANGE}".format(3),
             F3, "f32[]"),
            (dots((0,), (3,), (2,), (1,)), "c7", f"rhs_batching_dimensions {RANGE}".format(3),
             F3, "f32[]"),
            (dots((0,), (0,), (2,), (-1,)), "c8", f"rhs_contracting_dimensions {RANGE}".format(-1),
             F3, "f32[]"),
            (dots(*BATCHED), "c9", "batching dimension sizes must match for lhs/rhs",
             "f32[2,3,4]; f32[3,4,5]", "f32[2,3,5]"),
            (dots(*BATCHED), "c10", "contracting dimension sizes must match for lhs/rhs",
             "f32[2,3,4]; f32[2,3,5]", "f32[2,3,5]"),
            (dots(*BATCHED, precision_config=THREE), "c11",
             "expects precision config to be empty or have <= 2 elements", F3, "f32[2,3,5]"),
            (dots(*BATCHED), "c12", f"inferred shape '[2, 3, 5]' {SHAPE} 'tensor<2x3x6xf32>'", F3,
             "f32[2,3,6]"),
            (dots(*ROWS), "c14", "rhs should be quantized for quantized operations and"
             " is_quantized(lhs)=is_quantized(result) should hold", "q8[2,3]; q8[3,4]", "f32[2,4]"),
            (dots(*ROWS), "c15", "Zero point of rhs should be 0", "q8[2,3]; q8z[3,4]", "q8[2,4]"),
            (dots(*ROWS), "c15", "Zero points of rhs should be 0", "q8[2,3]; q8z1[3,2]", "q8[2,2]"),
            (dots(*ROWS), "c16", "Quantization dimension of rhs should not be in the contracting"
             " dimension of rhs", "q8[2,2]; q8a0[2,2]", "q8[2,2]"),
            (dots(*ROWS), "c17", "mismatched lhs and rhs quantization storage types",
             "q8[2,3]; q16[3,4]", "q8[2,4]"),
            (dots(*ROWS), "c18", "mismatched lhs, rhs and result quantization expressed types",
             "q8[2,3]; q8[3,4]", "q8d[2,4]"),
            (dots(*ROWS), "c19", "mismatched rhs and result quantization granularity",
             "q8[2,3]; q8[3,2]", "q8a1[2,2]"),
            (dots(*ROWS), "c20", "mismatched rhs quantization expressed type and lhs and result"
             " element type", "f32[2,3]; q8d[3,4]", "f32[2,4]"),
            (dots(*BATCHED, precision_config=("DEFAULT", "HIGH"), algorithm="x"), "c21",
             "must specify DEFAULT precision config when algorithm is set.", F3, "f32[2,3,5]"),
        )
    ),
    refused(
        ragged((), (), (1,), (1,)),
        "dot_general_c10",
        "contracting dimension sizes must match",
        "f32[11,5]; f32[3,2,7]; s64[3]",
        "f32[11,7]",
    ),
    *(
        refused(op, "", message, operands, result)
        for op, message, operands, result in (
            (Dot(), RANKS, "f32[2,2,2]; f32[2]", "f32[]"),
            (Dot(), RANKS, "f32[2]; f32[3]", "f32[]"),
            (Dot(THREE), "expects precision config", "f32[2]; f32[2]",
             "f32[]"),
            (Dot(), f"inferred shape '[?]' {SHAPE} 'tensor<3x?xf32>'", "f32[?,3]; f32[3]",
             "f32[3,?]"),
            (ragged((), (), (1,), (1,), lhs=(0, 1)), "exactly one ragged dimension in the lhs",
             GROUPED, "f32[11,7]"),
            (ragged((), (), (1,), (1,), lhs=(2,)), "Expects lhs_ragged_dim to be in range"
             " [0, lhs_rank) i.e. [0, 2). got: 2.", GROUPED, "f32[11,7]"),
            (ragged((), (), (1,), (1,)), "expected group_sizes to have rank 1, got 2",
             "f32[11,5]; f32[3,5,7]; s64[3,2]", "f32[11,7]"),
            (ragged((), (), (2,), (1,), lhs=(1,)), "group_sizes is expected to have shape [17, 3],"
             " got [19, 3]", "f32[17,11,5]; f32[3,5,7]; s64[19,3]", "f32[17,11,7]"),
            (ragged((), (), (1,), (1,)), "rhs group dimension is expected to have size=2, got 3",
             "f32[11,5]; f32[3,5,7]; s64[2]", "f32[11,7]"),
            (ragged((0,), (1,), (3,), (2,), lhs=(2,)), "expected group_sizes to have rank 3, got 0",
             "f32[19,17,11,5]; f32[3,19,5,7]; s64[]", "f32[19,17,11,7]"),
            (ragged((), (), (1,), (1,), rhs=(3,)), "Expects rhs_group_dim to be in range"
             " [0, rhs_rank) i.e. [0, 3). got: 3.", GROUPED, "f32[11,7]"),
            (ragged((0,), (0,), (2,), (1,), lhs=(1,)), "has duplicated dimension from"
             " rhs_group_dimensions and rhs_batching_dimensions: 0",
             "f32[3,11,5]; f32[3,5,7]; s64[3]", "f32[3,11,7]"),
            (ragged((), (), (1,), (1,), rhs=(1,)), "has duplicated dimension from"
             " rhs_group_dimensions and rhs_contracting_dimensions: 1", GROUPED, "f32[11,7]"),
            (ragged((), (), (1,), (1,), lhs=(1,)), "There must be zero group dimensions in the rhs"
             " when the ragged dimension is batch or contracting", GROUPED, "f32[3,11,7]"),
            (ragged((), (), (1,), (0,), rhs=()), "There must be exactly one group dimension in the"
             " rhs when the lhs ragged dimension is non-contracting",
             "f32[11,5]; f32[5,7]; s64[3]", "f32[11,7]"),
            (ragged((), (), (1,), (1,)), f"inferred shape '[11, 7]' {SHAPE} 'tensor<11x8xf32>'",
             GROUPED, "f32[11,8]"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


ALGORITHMS = """
    f8E4M3FN   f8E5M2   f32  1 1 1 | f8E3M4 f8E4M3B11FNUZ f32 1 1 1 imprecise | f16 f16 f32 1 1 1
    bf16 bf16 f32  1 1 6 | tf32 tf32 f32 1 1 3 | f64 f64 f64 1 1 1
"""
UNKNOWN = """
    f32  f32  f32  0 1 1 dot_general_c22 | f32  f32 f32  1 0 1 dot_general_c23
    f32  f32  f32  1 1 0 dot_general_c24 | f32  f32 f32  3 1 1 dot_general_i8
    f32  f32  f32  1 1 3 dot_general_i8  | f16  f16 f64  1 1 1 dot_general_i8
    f8E4M3FN f8E5M2 f32 1 1 2 dot_general_i8
"""


def ask(row: str, *, imprecise: bool) -> None:
    lhs, rhs, accumulation, *numbers = row.split()[:6]
    check_dot_algorithm(lhs, rhs, accumulation, *map(int, numbers), imprecise=imprecise)


@pytest.mark.parametrize("row", ALGORITHMS.replace("\n", "|").split("|")[1:-1])
def test_known_algorithm_is_accepted(row: str) -> None:
    ask(row, imprecise="imprecise" in row)


@pytest.mark.parametrize("row", UNKNOWN.replace("\n", "|").split("|")[1:-1])
def test_unknown_algorithm_is_refused(row: str) -> None:
    with pytest.raises(VerifyError) as caught:
        ask(row, imprecise=False)
    assert caught.value.rule == row.rsplit(maxsplit=1)[-1]


def test_unknown_algorithm_is_described() -> None:
    with pytest.raises(VerifyError, match="lhs:'f32', rhs:'f32', accum:'f32', lhs_components:1,"):
        check_dot_algorithm("f32", "f32", "f32", 1, 1, 1, imprecise=True)


SCALED = [
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,1]; f8e8m0fnu[5,1]", True),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[2,16]; f8e8m0fnu[5,32]", True),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[]; f8e8m0fnu[5,1]", True),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,1]; f8e8m0fnu[]", True),
    ("f8e4m3fn[4,0]; f8e4m3fn[5,0]; f8e8m0fnu[4,0]; f8e8m0fnu[5,1]", True),
    ("f8e4m3fn[4,1]; f8e4m3fn[5,1]; f8e8m0fnu[4,0]; f8e8m0fnu[5,1]", False),
    ("f8e4m3fn[?,32]; f8e4m3fn[5,32]; f8e8m0fnu[3,1]; f8e8m0fnu[5,?]", True),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[3,1]; f8e8m0fnu[5,1]", False),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,1]; f8e8m0fnu[5,3]", False),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,64]; f8e8m0fnu[5,1]", False),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,0]; f8e8m0fnu[5,1]", False),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[1]; f8e8m0fnu[5,1]", False),
    ("f8e4m3fn[4,32]; f8e4m3fn[5,32]; f8e8m0fnu[4,1]; f8e8m0fnu[5,1,1]", False),
]


def test_a_scale_is_a_scalar_or_divides_its_array_into_blocks() -> None:
    op = ScaledDot(DotDimensions((), (), (1,), (1,)))
    for operands, is_valid in SCALED:
        types = read_types(operands)
        if is_valid:
            assert print_type(op.infer(types)).startswith(("f8e4m3fn[4,5]", "f8e4m3fn[?,5]"))
        else:
            with pytest.raises(VerifyError, match=r"does not divide .* into blocks"):
                op.infer(types)


def test_a_scaled_dot_has_two_arrays_and_two_scales() -> None:
    op, types = ScaledDot(DotDimensions((), (), (1,), (1,))), read_types(SCALED[0][0])
    for wrong in (types[:3], (*types, types[0])):
        with pytest.raises(VerifyError, match="4"):
            op.infer(wrong)
    with pytest.raises(VerifyError, match="contracting dimension sizes must match"):
        op.infer((types[0], *read_types("f8e4m3fn[5,16]"), *types[2:]))
