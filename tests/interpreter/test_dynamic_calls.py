"""Custom calls that stand for ops whose parameters are operands."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values

REDUCE_WINDOW = """func.func @main(%x: tensor<?xi32>, %i: tensor<i32>, %s: tensor<1xi32>,
                %p: tensor<1x2xi32>) -> tensor<?xi32> {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %i, %s, %one, %one, %one, %p) {
    called_computations = [@sum]
  } : (tensor<?xi32>, tensor<i32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
       tensor<1x2xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
func.func private @sum(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.add %a, %b : tensor<i32>
  return %0 : tensor<i32>
}"""


def test_dynamic_reduce_window() -> None:
    assert values(REDUCE_WINDOW, [1, 2, 3, 4], 0, [4], [[3, 0]]) == [1, 3, 6, 10]
    assert values(REDUCE_WINDOW, [1, 2, 3, 4], 10, [2], [[0, 0]]) == [13, 15, 17]
    with pytest.raises(EvaluationError, match="no window"):
        values(REDUCE_WINDOW, [1, 2, 3, 4], 0, [0], [[0, 0]])


def test_dynamic_top_k() -> None:
    text = """func.func @main(%x: tensor<2x?xf32>, %k: tensor<i32>)
        -> (tensor<2x?xf32>, tensor<2x?xi32>) {
      %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k)
          : (tensor<2x?xf32>, tensor<i32>) -> (tensor<2x?xf32>, tensor<2x?xi32>)
      return %0#0, %0#1 : tensor<2x?xf32>, tensor<2x?xi32>
    }"""
    found = values(text, [[3, 1, 2], [1, 1, 0]], 2)
    assert found == ([[3, 2], [1, 1]], [[0, 2], [0, 1]])
    with pytest.raises(EvaluationError, match="the top 4 are asked for, there are 3"):
        values(text, [[3, 1, 2], [1, 1, 0]], 4)


def test_dynamic_rng_bit_generator() -> None:
    text = """func.func @main(%x: tensor<2xui64>, %s: tensor<2xi64>)
        -> (tensor<2xui64>, tensor<?x?xui32>, tensor<2x3xui32>) {
      %0:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%x, %s) {
        rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>
      } : (tensor<2xui64>, tensor<2xi64>) -> (tensor<2xui64>, tensor<?x?xui32>)
      %1:2 = stablehlo.rng_bit_generator %x, algorithm = THREE_FRY
          : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui32>)
      return %0#0, %0#1, %1#1 : tensor<2xui64>, tensor<?x?xui32>, tensor<2x3xui32>
    }"""
    _, found, wanted = values(text, np.array([1, 2], "u8"), [2, 3])
    assert found == wanted
