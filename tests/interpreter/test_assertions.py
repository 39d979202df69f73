"""The ops and custom calls that compare values."""

from __future__ import annotations

import pytest

from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values

F64 = "tensor<2xf64>"


def check(a: str, b: str, op: str, type_: str = F64) -> None:
    values(f"""func.func @main() {{
      %a = stablehlo.constant dense<{a}> : {type_}
      %b = stablehlo.constant dense<{b}> : {type_}
      {op}
      return
    }}""")


CASES = [
    ("check.expect_eq %a, %b : T", "[1.0, 0.0]", "[1.0, -0.0]", "[1.0, 1.0e-300]"),
    ("check.expect_almost_eq %a, %b : T", "[1.0, 2.0]", "[1.0, 2.00009]", "[1.0, 2.0002]"),
    (
        "check.expect_almost_eq %a, %b, tolerance = 0.1 : T",
        "[1.0, 2.0]",
        "[1.0, 2.09]",
        "[1.0, 2.2]",
    ),
    (
        "check.expect_close %a, %b, max_ulp_difference = 2 : T, T",
        "[1.0, 2.0]",
        "[1.0000000000000004, 2.0]",
        "[1.0000000000000008, 2.0]",
    ),
    (
        "check.expect_close %a, %b, max_ulp_difference = 9, min_ulp_difference = 1 : T, T",
        "[1.0, 1.0]",
        "[1.0000000000000004, 1.0000000000000004]",
        "[1.0, 1.0]",
    ),
    (
        "stablehlo.custom_call @check.expect_eq(%a, %b) : (T, T) -> ()",
        "[1.0, 2.0]",
        "[1.0, 2.0]",
        "[1.0, 2.00009]",
    ),
    (
        "stablehlo.custom_call @check.expect_almost_eq(%a, %b) : (T, T) -> ()",
        "[1.0, 2.0]",
        "[1.0, 2.0009]",
        "[1.0, 2.002]",
    ),
    (
        "stablehlo.custom_call @check.expect_close(%a, %b) : (T, T) -> ()",
        "[1.0, 2.0]",
        "[1.0000000000000006, 2.0]",
        "[1.0000000000000009, 2.0]",
    ),
    (
        "%r = stablehlo.custom_call @check.eq(%a, %b) : (T, T) -> tensor<i1>",
        "[1.0, 2.0]",
        "[1.0, 2.00009]",
        "[1.0, 2.0002]",
    ),
]


@pytest.mark.parametrize(("op", "a", "near", "far"), CASES)
def test_pairs(op: str, a: str, near: str, far: str) -> None:
    op = op.replace("T", F64)
    check(a, near, op)
    with pytest.raises(EvaluationError, match="differ; the worst at") as caught:
        check(a, far, op)
    assert caught.value.span is not None
    assert caught.value.span.line_col[0] == 4
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("op", "holds"),
    [
        ("check.expect_eq_const %a, dense<[1.0, 2.0]> : T", True),
        ("check.expect_eq_const %a, dense<[1.0, 2.5]> : T", False),
        ("check.expect_almost_eq_const %a, dense<[1.0, 2.00009]> : T", True),
        ("check.expect_almost_eq_const %a, dense<[1.0, 2.0002]> : T", False),
        ("check.expect_almost_eq_const %a, dense<[1.0, 2.09]> : T {tolerance = 0.1 : f64}", True),
        ('"check.expect_eq_const"(%a) <{value = dense<[1.0, 2.0]> : T}> : (T) -> ()', True),
        ('"check.expect_eq_const"(%a) <{value = dense<3.0> : T}> : (T) -> ()', False),
    ],
)
def test_constants(op: str, holds: bool) -> None:
    op = op.replace("T", F64)
    if holds:
        check("[1.0, 2.0]", "0.0", op)
    else:
        with pytest.raises(EvaluationError, match="check"):
            check("[1.0, 2.0]", "0.0", op)


def test_nan() -> None:
    nan = "0x7FF8000000000000"
    check(nan, nan, f"check.expect_almost_eq %a, %b : {F64}")
    check(nan, nan, f"check.expect_close %a, %b : {F64}, {F64}")
    with pytest.raises(EvaluationError, match="found nan, expected nan"):
        check(nan, nan, f"check.expect_eq %a, %b : {F64}")


def test_integers_have_no_tolerance() -> None:
    op = "%r = stablehlo.custom_call @check.eq(%a, %b) : (tensor<i8>, tensor<i8>) -> tensor<i1>"
    check("1", "1", op, "tensor<i8>")
    with pytest.raises(EvaluationError, match="found 1, expected 2"):
        check("1", "2", op, "tensor<i8>")


def test_shapes_that_differ() -> None:
    text = """func.func @main() {
      %a = stablehlo.constant dense<1> : tensor<2xi8>
      check.expect_eq_const %a, dense<1> : tensor<2xi8>
      %b = stablehlo.constant dense<1> : tensor<3xi8>
      stablehlo.custom_call @check.expect_eq(%a, %b) : (tensor<2xi8>, tensor<3xi8>) -> ()
      return
    }"""
    with pytest.raises(EvaluationError, match=r"found shape \[2\], expected \[3\]"):
        values(text)


def test_a_check_in_a_region() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %t = stablehlo.constant dense<true> : tensor<i1>
      %r = "stablehlo.if"(%t) ({
        check.expect_eq_const %x, dense<4> : tensor<i32>
        stablehlo.return %x : tensor<i32>
      }, {
        stablehlo.return %x : tensor<i32>
      }) : (tensor<i1>) -> tensor<i32>
      return %r : tensor<i32>
    }"""
    assert values(text, 4) == 4
    with pytest.raises(EvaluationError, match="found 5, expected 4"):
        values(text, 5)
