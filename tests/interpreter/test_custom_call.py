"""Custom calls given as Python functions, and composites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloscope as hs
from hloscope.errors import UnsupportedError
from hloscope.interpreter.values import EvaluationError, World
from tests.interpreter.helpers import values

MLIR = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = stablehlo.custom_call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}"""
HLO = """ENTRY e { p = f32[2] parameter(0)
  ROOT r = (f32[2], f32[]) custom-call(p), custom_call_target="split" }"""


def world(**functions: Any) -> World:
    return World(custom_calls=functions)


def test_a_function_of_the_user() -> None:
    assert values(MLIR, [1, 2], world=world(twice=lambda x: x * 2)) == [2, 4]
    split = world(split=lambda x: (x, x.sum()))
    assert values(HLO, np.array([1, 2], "float32"), world=split) == ([1, 2], 3)


def test_one_of_no_results() -> None:
    seen = []
    text = """func.func @main(%x: tensor<i32>) {
      stablehlo.custom_call @see(%x) {has_side_effect = true} : (tensor<i32>) -> ()
      return
    }"""
    values(text, 4, world=world(see=lambda x: seen.append(int(x))))
    assert seen == [4]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:1], r"its shape is \(1,\), not \(2,\)"),
        (lambda x: x.astype("float64"), "its elements are float64, not float32"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: 0, "TypeError"),
    ],
)
def test_a_function_that_is_wrong(function: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as caught:
        values(MLIR, [1, 2], world=world(twice=function))
    assert caught.value.span is not None


def test_an_unknown_target() -> None:
    with pytest.raises(UnsupportedError, match="custom call `twice` has no evaluation"):
        values(MLIR, [1, 2])
    with pytest.raises(UnsupportedError, match=r"did you mean `check\.eq`"):
        values(MLIR.replace("twice", "check.eqq"), [1, 2])


def test_what_the_user_gives_comes_first() -> None:
    text = MLIR.replace("@twice(%x)", "@check.eq(%x)")
    assert values(text, [1, 2], world=World(custom_calls={"check.eq": lambda x: -x})) == [-1, -2]


def test_composite() -> None:
    text = """func.func @impl(%x: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
      %r = stablehlo.add %x, %x : tensor<i64>
      return %r, %x : tensor<i64>, tensor<i64>
    }
    func.func @main(%x: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
      %r:2 = stablehlo.composite "a.b" %x { decomposition = @impl }
        : (tensor<i64>) -> (tensor<i64>, tensor<i64>)
      return %r#0, %r#1 : tensor<i64>, tensor<i64>
    }"""
    assert values(text, 4) == (8, 4)


DEAD = {
    "hlo": "ENTRY e { a = f32[2] parameter(0) b = f32[2] custom-call(a),"
    ' custom_call_target="mystery" c = f32[2] abs(b) ROOT r = f32[2] negate(a) }',
    "mlir": "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %0 = stablehlo.custom_call @mystery(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
    "  %1 = stablehlo.abs %0 : tensor<2xf32>\n"
    "  %2 = stablehlo.negate %a : tensor<2xf32>\n  return %2 : tensor<2xf32>\n}",
}


@pytest.mark.parametrize("language", DEAD)
def test_what_nobody_reads_is_not_evaluated(language: str) -> None:
    text = DEAD[language]
    assert list(hs.evaluate(text, [1, -2])) == [-1, 2]
    called: list[object] = []
    own = {"mystery": lambda x: called.append(x) or x}
    assert list(hs.evaluate(text, [1, -2], custom_calls=own)) == [-1, 2]
    assert called  # a function of the user's may have effects
    effect = text.replace('="mystery"', '="mystery", custom_call_has_side_effect=true')
    effect = effect.replace("@mystery(%a)", "@mystery(%a) {has_side_effect = true}")
    with pytest.raises(UnsupportedError, match="mystery"):
        hs.evaluate(effect, [1, -2])
