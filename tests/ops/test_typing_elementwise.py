"""Typing of element-wise ops and of CHLO's with implicit broadcast, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.errors import VerifyError
from hloscope.ir import Op
from hloscope.ir.types import ELEMENT_TYPES, UnrankedTensorType
from hloscope.mlir.types import type_text
from hloscope.ops import OPS
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST, Elementwise, ReducePrecision
from hloscope.ops.result_types import numpy_broadcast
from tests.ops.cases import (
    Accepted,
    Refused,
    case_id,
    check_accepted,
    check_refused,
    e,
    quantized,
    types,
)


def constant_like(number: str, element: str) -> Op:
    return OPS["chlo.constant_like"](
        settings=(("value", number),), value_type=ELEMENT_TYPES[element]
    )


Q = quantized((1, 2), (1.0, 17))
AXIS_0 = quantized((1, 2), (1.0, 17), axis=0)
AXIS_1 = quantized((1, 2), (1.0, 17), (1.0, 17), axis=1)
broadcast = IMPLICIT_BROADCAST

REFUSED = [
    Refused(e("add"), "f32[3]; f32[4]", "", "add_c1", "operand 1 of `add` has size 4, needs 3"),
    Refused(e("add"), "f32[3]; s32[3]", "", "add_c1", "element type s32, needs f32"),
    Refused(e("add"), "f32[3]; f32[]", "", "add_c1", "rank 0, needs 1"),
    Refused(e("add"), "f32[3]", "", "", "`add` has 1 operands, needs 2"),
    Refused(e("add"), "f32[3]; token[]", "", "", "operand 1 of `add` is a token, needs an array"),
    Refused(
        e("add"),
        "f32[5]; f32[<=4]",
        "",
        "add_c1",
        "Mismatched dimension size 5 and bound 4 in dimension 0",
    ),
    Refused(e("add"), "f32[3]; f32[3]", "f32[4]", "add_c1", "tensor<3xf32>"),
    Refused(e("add"), (Q, *types("f32[1,2]")), (Q,), "add_c2", "either quantized or non-quantized"),
    Refused(
        e("add"),
        (Q, Q),
        (quantized((1, 2), (1.0, 1), storage="i4"),),
        "add_c3",
        "mismatched operands and result quantization storage types",
    ),
    Refused(
        e("add"),
        (Q, Q),
        (quantized((1, 2), (1.0, 1), expressed="bf16"),),
        "add_c4",
        "mismatched operands and result quantization expressed types",
    ),
    Refused(
        e("add"),
        (AXIS_0, AXIS_0),
        (Q,),
        "add_c5",
        "result is not per_axis quantized but lhs or rhs are",
    ),
    Refused(e("add"), (Q, Q), (AXIS_0,), "add_c5", "result per_axis quantized but none from rhs"),
    Refused(
        e("add"),
        (AXIS_0, AXIS_0),
        (AXIS_1,),
        "add_c6",
        "quantization_dimension of lhs and result are not same",
    ),
    Refused(
        e("add"),
        (AXIS_0, AXIS_1),
        (AXIS_0,),
        "add_c7",
        "quantization_dimension of rhs and result are not same",
    ),
    Refused(e("abs"), "c64[2]", "c64[2]", "abs_c2", "tensor<2xf32>"),
    Refused(e("real"), "c64[2]", "f16[2]", "real_c2", "tensor<2xf32>"),
    Refused(e("imag"), "f32[2]", "f16[2]", "imag_c2", "tensor<2xf32>"),
    Refused(e("is_finite"), "f32[2]", "pred[3]", "is_finite_c1", "tensor<2xi1>"),
    Refused(e("compare"), "f32[2]; s32[2]", "", "compare_c1", "element type s32, needs f32"),
    Refused(e("compare"), "f32[2]; f32[3]", "", "compare_c2", "size 3, needs 2"),
    Refused(e("compare"), "f32[2]; f32[2]", "pred[3]", "compare_c2", "tensor<2xi1>"),
    Refused(e("complex"), "f32[2]; f32[3]", "", "complex_c1", "size 3, needs 2"),
    Refused(e("complex"), "f32[2]; f32[2]", "c64[3]", "complex_c3", "tensor<2xcomplex<f32>>"),
    Refused(e("complex"), "s32[4]; s32[4]", "", "complex_i1", "has no complex type"),
    Refused(e("convert"), "f32[2]", "s32[3]", "convert_c1", "requires the same shape for all"),
    Refused(
        ReducePrecision(exponent_bits=0, mantissa_bits=3),
        "f32[2]",
        "",
        "reduce_precision_c2",
        "exponent_bits is 0, needs at least 1",
    ),
    Refused(
        ReducePrecision(exponent_bits=5, mantissa_bits=-1),
        "f32[2]",
        "",
        "reduce_precision_c3",
        "mantissa_bits is -1, needs at least 0",
    ),
    Refused(
        e("select"),
        "pred[3]; s32[2,3]; s32[2,3]",
        "",
        "select_c1",
        "requires the same shape for all operands",
    ),
    Refused(
        e("select"),
        "pred[]; s32[2,4]; s32[2,3]",
        "",
        "select_c2",
        "requires compatible types for non-predicate operands",
    ),
    Refused(e("select"), "pred[]; f32[2]; f32[2]", "s32[2]", "select_c2", "tensor<2xf32>"),
    Refused(e("select"), "s32[]; s32[4]; s32[4]", "", "select_i1", "needs pred"),
    Refused(
        e("clamp"),
        "s32[2]; s32[1]; s32[1]",
        "",
        "clamp_c1",
        "min shape [2] is not scalar and is not compatible to operand shape [1]",
    ),
    Refused(
        e("clamp"),
        "s32[]; s32[1]; s32[2]",
        "",
        "clamp_c2",
        "max shape [2] is not scalar and is not compatible to operand shape [1]",
    ),
    Refused(e("clamp"), "s32[]; s32[1]; u32[]", "", "clamp_c3", "element type u32, needs s32"),
    Refused(e("clamp"), "s32[1]; s32[1]; s32[1]", "s32[1,2]", "clamp_c4", "tensor<1xi32>"),
    Refused(
        constant_like("3.2", "f32"),
        "s64[2]",
        "f64[2]",
        "",
        "value's type doesn't match element return type",
    ),
    Refused(broadcast["add"](), "f32[2]; s32[2]", "", "", "mismatched operand types"),
    Refused(broadcast["complex"](), "f64[2]; f32[2]", "", "", "mismatched operand types"),
    Refused(broadcast["select"](), "pred[2]; s32[2]; f32[2]", "", "", "mismatched operand types"),
    Refused(broadcast["select"](), "pred[2]; s32[2]; s32[2]", "s32[3]", "", "tensor<2xi32>"),
    Refused(
        broadcast["add"](),
        "f32[10]; f32[5]",
        "f32[10]",
        "",
        "incompatible shapes for broadcasting 10 and 5",
    ),
    Refused(
        broadcast["add"](),
        "f32[10]; f32[<=10]",
        "f32[10]",
        "",
        "cannot mix bounded and static dimensions in broadcast",
    ),
]

ACCEPTED = [
    Accepted(e("add"), "f32[?,3]; f32[2,?]", "f32[2,3]", "tensor<2x3xf32>"),
    Accepted(
        e("add"),
        "f32[<=3,4]; f32[<=4,<=4]",
        "f32[2,4]",
        "tensor<?x4xf32, #stablehlo.bounds<3, ?>>",
    ),
    Accepted(e("add"), (Q, quantized((1, 2), (2.0, 0))), (Q,)),
    Accepted(e("add"), (AXIS_0, AXIS_0), (AXIS_0,)),
    Accepted(e("multiply"), (Q, Q), (quantized((1, 2), (2.0, 0)),)),
    Accepted(e("abs"), "c64[<=2]", "f32[2]", "tensor<?xf32, #stablehlo.bounds<2>>"),
    Accepted(e("complex"), "f64[2]; f64[2]", "c128[2]", "tensor<2xcomplex<f64>>"),
    Accepted(e("compare"), "f32[2]; f32[?]", "pred[2]", "tensor<2xi1>"),
    Accepted(e("convert"), "f32[2,?]", "s32[2,3]"),
    Accepted(e("select"), "pred[?]; f32[?]; f32[3]", "f32[3]", "tensor<3xf32>"),
    Accepted(
        e("select"),
        "pred[]; f32[<=5,2,3,<=7]; f32[1,<=6,3,<=8]",
        "f32[?,?,?,?]",
        "tensor<1x2x3x?xf32, #stablehlo.bounds<?, ?, ?, 7>>",
    ),
    Accepted(e("clamp"), "f32[]; f32[2]; f32[?]", "f32[2]", "tensor<2xf32>"),
    Accepted(ReducePrecision(exponent_bits=5, mantissa_bits=0), "f32[2]", "f32[2]"),
    Accepted(e("chlo.is_inf"), "bf16[2]", "pred[2]", "tensor<2xi1>"),
    Accepted(e("chlo.next_after"), "f32[2]; f32[2]", "f32[2]", "tensor<2xf32>"),
    Accepted(
        constant_like("#complex.number<:f32 1.0, 2.0>", "c64"),
        "s64[?]",
        "c64[3]",
        "tensor<?xcomplex<f32>>",
    ),
    Accepted(e("chlo.constant_like", value="3"), "s64[2]", "f32[2]"),
    Accepted(broadcast["add"](), "f32[3,1]; f32[4]", "f32[3,4]", "tensor<3x4xf32>"),
    Accepted(broadcast["compare"]((0,)), "f32[3]; f32[3,4]", "pred[3,4]", "tensor<3x4xi1>"),
    Accepted(
        broadcast["add"](), "f64[<=10]; f64[]", "f64[?]", "tensor<?xf64, #stablehlo.bounds<10>>"
    ),
    Accepted(broadcast["add"](), "f64[<=10]; f64[?]", "f64[?]", "tensor<?xf64>"),
    Accepted(broadcast["add"](), "f32[?]; f32[?,3]", "f32[2,3]", "tensor<?x3xf32>"),
    Accepted(broadcast["add"](), "f32[?,3]; f32[?,4]", "f32[2,3]", "tensor<*xf32>"),
    Accepted(broadcast["add"]((0, 1)), "f32[3]; f32[3,4]", "f32[3,4]", "tensor<*xf32>"),
    Accepted(
        broadcast["add"]((1,)),
        "f32[<=4]; f32[3,?]",
        "f32[3,?]",
        "tensor<3x?xf32>",
    ),
    Accepted(broadcast["select"](), "pred[]; f64[2]; f64[2]", "s32[2]", "tensor<2xf64>"),
    Accepted(
        broadcast["select"](),
        "pred[]; f64[<=10]; f64[<=10]",
        "f64[?]",
        "tensor<?xf64, #stablehlo.bounds<10>>",
    ),
    Accepted(broadcast["add"](), (Q, quantized((1, 2), (2.0, 0))), (Q,), type_text(Q)),
]


@pytest.mark.parametrize("row", REFUSED, ids=case_id)
def test_broken_constraint_is_named(row: Refused) -> None:
    check_refused(row)


@pytest.mark.parametrize("row", ACCEPTED, ids=case_id)
def test_types_fit(row: Accepted) -> None:
    check_accepted(row)


ONE_TYPE = sorted(
    name
    for name, cls in ELEMENTWISE.items()
    if cls.result == "same" and cls.infer is Elementwise.infer and "." not in name
)


@pytest.mark.parametrize("name", sorted({*ONE_TYPE} - {"erf"}))
def test_first_constraint_is_that_all_are_of_one_type(name: str) -> None:
    """Source: StableHLO spec, (C1) of every op that takes and makes one type."""
    op = e(name)
    operands = types("; ".join(["f32[2]"] * type(op).arity))
    check_refused(Refused(op, operands, types("f32[3]"), f"{name}_c1", "tensor<2xf32>"))
    if len(operands) == 2:
        check_refused(Refused(op, "f32[2]; f32[3]", "", f"{name}_c1", "size 3, needs 2"))
        check_refused(Refused(op, "f32[2]; s32[2]", "", f"{name}_c1", "element type s32"))


F32 = ELEMENT_TYPES["f32"]
ANY = UnrankedTensorType(F32)


@pytest.mark.parametrize("name", ["chlo.sinh", "chlo.zeta", "chlo.is_inf"])
def test_unranked_operands_of_chlo_make_an_unranked_result(name: str) -> None:
    inferred = e(name).infer((ANY,) * ELEMENTWISE[name].arity)
    assert type_text(inferred) == ("tensor<*xi1>" if name == "chlo.is_inf" else "tensor<*xf32>")


def test_ranked_operand_says_more_than_an_unranked_one() -> None:
    (ranked,) = types("f32[2]")
    assert e("chlo.zeta").infer((ANY, ranked)) == ranked
    assert IMPLICIT_BROADCAST["add"]().infer((ANY, ranked)) == ANY
    like = constant_like("3.2", "f64")
    assert type_text(like.infer((ANY,))) == "tensor<*xf64>"


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ("", "requires at least one operand to broadcast"),
        ("f64[10]; token[]", "expected ranked tensor type for broadcast inputs"),
    ],
)
def test_what_cannot_be_broadcast_is_refused(operands: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        numpy_broadcast(types(operands))


def test_arrays_of_fewer_dimensions_belong_to_the_last_ones() -> None:
    op = IMPLICIT_BROADCAST["add"]()
    assert [op.result_dims(rank, 3) for rank in range(4)] == [(), (2,), (1, 2), (0, 1, 2)]


def test_any_number_of_arrays_is_broadcast() -> None:
    found = numpy_broadcast(types("f64[<=10,1]; f64[1,<=10]; f64[1]"))
    assert found == [(None, 10), (None, 10)]
