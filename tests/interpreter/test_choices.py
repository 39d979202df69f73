"""Comparisons, choices between values, parts of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import EvaluationError
from hloscope.mlir.types import ELEMENTS
from tests.interpreter.helpers import read, values
from tests.interpreter.ops import FLOATS, INTEGERS, apply, array

F32, F64, I32 = np.float32, np.float64, np.int32
NAN, INF = float("nan"), float("inf")
A, B = [[1, 2], [3, 4]], [[5, 6], [7, 8]]


def compare(direction: str, a: Any, b: Any, kind: str = "") -> list[bool]:
    attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    if kind:
        attributes += f", compare_type = #stablehlo<comparison_type {kind}>"
    return apply("compare", a, b, result="i1", attributes=attributes).tolist()  # type: ignore[no-any-return]


def test_the_example_of_compare() -> None:
    assert compare("LT", F32([1.0, 3.0]), F32([1.1, 2.9]), "TOTALORDER") == [True, False]


def test_nan_is_equal_to_nothing_but_in_total_order() -> None:
    nan, minus, one, zeros = F32([NAN]), F32([-NAN]), F32([1]), F32([0.0])
    minus = np.copysign(nan, F32(-1))
    for direction in ("EQ", "LT", "LE", "GT", "GE"):
        assert compare(direction, nan, nan, "FLOAT") == [False]
    assert compare("NE", nan, nan) == [True]
    assert compare("EQ", -zeros, zeros) == [True]
    assert compare("LT", one, nan, "TOTALORDER") == [True]
    assert compare("LT", minus, one, "TOTALORDER") == [True]
    assert compare("LT", -zeros, zeros, "TOTALORDER") == [True]
    assert compare("EQ", -zeros, zeros, "TOTALORDER") == [False]
    assert compare("EQ", nan, nan, "TOTALORDER") == [True]


@pytest.mark.parametrize("spelling", FLOATS)
def test_total_order_is_that_of_the_numbers(spelling: str) -> None:
    x = array([0.5, 1, 2, 4], spelling)
    assert compare("LT", x[:-1], x[1:], "TOTALORDER") == [True] * 3
    assert compare("GE", x[:-1], x[1:], "TOTALORDER") == [False] * 3
    if spelling != "f8E8M0FNU":
        assert compare("LT", -x, x, "TOTALORDER") == [True] * 4


@pytest.mark.parametrize("spelling", INTEGERS)
def test_integers_compare_by_their_own_sign(spelling: str) -> None:
    element = ELEMENTS[spelling]
    least = -(1 << (element.bits - 1)) if element.kind == "signed" else 0
    x, zero = array([least], spelling), array([0], spelling)
    assert compare("LT", x, zero) == [least < 0]
    assert compare("GE", x, zero) == [least >= 0]


def test_booleans_and_complex_numbers_compare() -> None:
    assert compare("LT", np.bool_([0, 1, 1]), np.bool_([1, 0, 1])) == [True, False, False]
    z, w = np.complex64([1 + 2j, 1 + 3j, NAN]), np.complex64([1 + 3j, 1 + 3j, NAN])
    assert compare("EQ", z, w) == [False, True, False]
    assert compare("NE", z, w) == [True, False, True]
    assert compare("LT", z, w) == [True, False, False]
    assert compare("GE", z, w) == [False, True, False]


def test_select_with_one_predicate_for_all() -> None:
    a, b = I32(A), I32(B)
    for chosen, expected in ((True, A), (False, B)):
        text = """func.func @main(%p: tensor<i1>, %a: tensor<2x2xi32>, %b: tensor<2x2xi32>)
            -> tensor<2x2xi32> {
          %r = stablehlo.select %p, %a, %b : tensor<i1>, tensor<2x2xi32>
          return %r : tensor<2x2xi32>
        }"""
        assert values(text, np.bool_(chosen), a, b) == expected


def test_clamp_with_limits_for_all() -> None:
    text = """func.func @main(%l: tensor<f32>, %x: tensor<3xf32>, %h: tensor<f32>)
        -> tensor<3xf32> {
      %r = stablehlo.clamp %l, %x, %h : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %r : tensor<3xf32>
    }"""
    x = F32([0, 5, NAN])
    assert values(text, F32(0.5), x, F32(4))[:2] == [0.5, 4]
    found = values(text, F32(2), x, F32(1))  # the upper limit wins
    assert found[:2] == [1, 1]
    assert found[2] != found[2]


def test_parts_of_complex_numbers() -> None:
    z = np.complex64([1 + 2j, 3 + 4j])
    assert apply("real", z, result="f32").tolist() == [1, 3]
    assert apply("imag", z, result="f32").tolist() == [2, 4]
    assert apply("complex", F64([1, 3]), F64([2, 4]), result="complex<f64>").tolist() == [
        1 + 2j, 3 + 4j,
    ]  # fmt: skip
    assert apply("complex", F32(1), F32(NAN), result="complex<f32>").real == 1
    assert apply("real", F32([1, 2])).tolist() == [1, 2]
    assert apply("imag", F32([1, -2])).tolist() == [0, 0]


def test_is_finite() -> None:
    x = F32([1, INF, NAN, -0.0])
    assert apply("is_finite", x, result="i1").tolist() == [True, False, False, True]
    narrow = array([1, NAN], "f8E4M3FN")
    assert apply("is_finite", narrow, result="i1").tolist() == [True, False]


# ------------------------------------------------------------------------ what is not fit


def test_operands_of_shapes_known_late_have_to_agree() -> None:
    text = """func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %r = stablehlo.add %a, %b : tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    assert values(text, F32([1, 2]), F32([3, 4])) == [4, 6]
    with pytest.raises(EvaluationError, match=r"`add` needs operands of one shape, found \(1,\)"):
        values(text, F32([1]), F32([3, 4]))


def test_floats_of_several_widths_meet_in_hlo() -> None:
    text = """HloModule m
    ENTRY e {
      a = bf16[2] parameter(0)
      b = f32[2] parameter(1)
      ROOT r = f32[2] add(a, b)
    }"""
    assert values(text, array([1, 2], "bf16"), F32([0.001, 3])) == [float(F32(1.001)), 5]


def test_what_is_declared_of_another_precision_is_converted_to_it() -> None:
    text = """HloModule m
    sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
    ENTRY e {
      a = f32[3] parameter(0)
      z = f32[] constant(0)
      s = bf16[2] slice(a), slice={[1:3]}
      t = bf16[] reduce(a, z), dimensions={0}, to_apply=sum
      ROOT r = (bf16[2], bf16[]) tuple(s, t)
    }"""
    ((parts, total),) = evaluate(read(text), [F32([1, 1.001, 3])])
    assert parts.tolist() == [1, 3]
    assert total.tolist() == 5
    assert parts.dtype == total.dtype == array([0], "bf16").dtype


def test_a_body_computes_in_its_own_precision_for_several_results() -> None:
    """Sums of ones in bf16 would stay at 256; there are so few that they are added in order."""
    text = """HloModule m
    sums { a = f32[] parameter(0) b = f32[] parameter(1)
      c = f32[] parameter(2) d = f32[] parameter(3)
      s = f32[] add(a, c) t = f32[] add(b, d) ROOT r = (f32[], f32[]) tuple(s, t) }
    ENTRY e {
      x = bf16[17] parameter(0)
      z = f32[] constant(0)
      ROOT r = (bf16[], bf16[]) reduce(x, x, z, z), dimensions={0}, to_apply=sums
    }"""
    assert values(text, array([256] + [1] * 16, "bf16")) == (272, 272)


def test_an_op_of_the_wrong_type_is_refused_with_its_place() -> None:
    text = """HloModule m
    ENTRY e {
      a = f32[2] parameter(0)
      ROOT r = f32[2] popcnt(a)
    }"""
    with pytest.raises(HloscopeError, match=r":4:7: error: `popcnt` of f32 cannot be evaluated"):
        values(text, F32([1, 2]))
