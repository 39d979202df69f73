"""Ops whose sizes are known at run time only."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.values import EvaluationError, World
from tests.interpreter.helpers import values

RESHAPE = """func.func @main(%x: tensor<?x?xi32>, %s: tensor<2xi64>) -> tensor<?x?xi32> {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?x?xi32>, tensor<2xi64>) -> tensor<?x?xi32>
  return %0 : tensor<?x?xi32>
}"""


def test_dynamic_reshape() -> None:
    assert values(RESHAPE, [[1, 2, 3], [4, 5, 6]], [3, 2]) == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(EvaluationError, match=r"6 elements cannot have sizes \[2, 2\]"):
        values(RESHAPE, [[1, 2, 3], [4, 5, 6]], [2, 2])
    with pytest.raises(EvaluationError, match=r"\[-2, -3\], which are none of its type"):
        values(RESHAPE, [[1, 2, 3], [4, 5, 6]], [-2, -3])


def test_dynamic_reshape_of_hlo_takes_scalars() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      a = s32[] parameter(1)
      b = s32[] parameter(2)
      ROOT r = f32[<=4,<=4] dynamic-reshape(x, a, b)
    }"""
    assert values(text, [1, 2, 3, 4], 1, 4) == [[1, 2, 3, 4]]
    with pytest.raises(EvaluationError, match=r"none of its type, \[4, 4\]"):
        values(text, [1, 2, 3, 4], 5, 1)


BROADCAST = """func.func @main(%x: tensor<1x3xi64>, %s: tensor<3xi64>) -> tensor<2x3x?xi64> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 1]
      : (tensor<1x3xi64>, tensor<3xi64>) -> tensor<2x3x?xi64>
  return %0 : tensor<2x3x?xi64>
}"""


def test_dynamic_broadcast_in_dim_of_the_specification() -> None:
    assert values(BROADCAST, [[1, 2, 3]], [2, 3, 2]) == [[[1, 1], [2, 2], [3, 3]]] * 2
    with pytest.raises(EvaluationError, match="none of its type"):
        values(BROADCAST, [[1, 2, 3]], [2, 4, 2])


def test_what_has_another_size_is_not_broadcast() -> None:
    text = """func.func @main(%x: tensor<?xi64>, %s: tensor<1xi64>) -> tensor<?xi64> {
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0]
          : (tensor<?xi64>, tensor<1xi64>) -> tensor<?xi64>
      return %0 : tensor<?xi64>
    }"""
    assert values(text, [7], [3]) == [7, 7, 7]
    with pytest.raises(EvaluationError, match="size 2 cannot be broadcast to 3"):
        values(text, [7, 8], [3])


IOTA = """func.func @main(%s: tensor<2xi64>) -> tensor<?x?xf16> {
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<?x?xf16>
  return %0 : tensor<?x?xf16>
}"""


def test_dynamic_iota() -> None:
    assert values(IOTA, [3, 2]) == [[0, 0], [1, 1], [2, 2]]
    assert values(IOTA, [0, 2]) == []


def test_run_time_sizes_are_limited() -> None:
    with pytest.raises(EvaluationError, match="needs 2,000,000,000,000 bytes"):
        values(IOTA, [10**6, 10**6])
    with pytest.raises(EvaluationError, match="at most 8 are allowed"):
        values(IOTA, [3, 2], world=World(max_bytes=8))


PAD = """func.func @main(%x: tensor<2x3xi64>, %p: tensor<i64>, %l: tensor<2xi64>, %h: tensor<2xi64>,
                %i: tensor<2xi64>) -> tensor<?x?xi64> {
  %0 = stablehlo.dynamic_pad %x, %p, %l, %h, %i
      : (tensor<2x3xi64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
      -> tensor<?x?xi64>
  return %0 : tensor<?x?xi64>
}"""


def test_dynamic_pad_of_the_specification() -> None:
    assert values(PAD, [[1, 2, 3], [4, 5, 6]], 0, [0, 1], [2, 1], [1, 2]) == [
        [0, 1, 0, 0, 2, 0, 0, 3, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 4, 0, 0, 5, 0, 0, 6, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize("amounts", [([0, 0], [0, 0], [0, -1]), ([-2, 0], [-1, 0], [0, 0])])
def test_dynamic_pads_that_cannot_be(amounts: tuple[list[int], ...]) -> None:
    with pytest.raises(EvaluationError):
        values(PAD, [[1, 2, 3], [4, 5, 6]], 0, *amounts)


def test_a_dynamic_pad_has_the_sizes_that_are_declared() -> None:
    declared = PAD.replace("?x?", "5x3")
    padded = values(declared, [[1, 2, 3], [4, 5, 6]], 0, [1, 0], [2, 0], [0, 0])
    assert padded == [[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(EvaluationError, match=r"the result has sizes \[4, 3\]"):
        values(declared, [[1, 2, 3], [4, 5, 6]], 0, [1, 0], [1, 0], [0, 0])


def test_get_dimension_size_is_the_actual_one() -> None:
    text = """func.func @main(%x: tensor<2x?xf32>) -> (tensor<i32>, tensor<i32>) {
      %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2x?xf32>) -> tensor<i32>
      %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
      return %0, %1 : tensor<i32>, tensor<i32>
    }"""
    assert values(text, np.zeros((2, 5), "f4")) == (2, 5)


SET = """HloModule m
ENTRY e {
  x = s32[2,4] parameter(0)
  n = s32[] parameter(1)
  k = s32[] parameter(2)
  a = s32[2,<=4] set-dimension-size(x, n), dimensions={1}
  b = s32[2,<=4] set-dimension-size(a, k), dimensions={1}
  s = s32[] get-dimension-size(b), dimensions={1}
  ROOT r = (s32[2,<=4], s32[]) tuple(b, s)
}"""


def test_set_dimension_size() -> None:
    x = [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert values(SET, x, 3, 2) == ([[1, 2], [5, 6]], 2)
    assert values(SET, x, 2, 3) == ([[1, 2, 3], [5, 6, 7]], 3)
    with pytest.raises(EvaluationError, match="none of its type"):
        values(SET, x, 5, 3)


def test_a_size_of_the_type_stays() -> None:
    text = """HloModule m
    ENTRY e {
      x = s32[4] parameter(0)
      n = s32[] parameter(1)
      ROOT r = s32[4] set-dimension-size(x, n), dimensions={0}
    }"""
    assert values(text, [1, 2, 3, 4], 2) == [1, 2, 3, 4]


def test_programs_of_open_sizes_run_with_the_actual_ones() -> None:
    text = """func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
      %0 = call @twice(%x) : (tensor<?x2xf32>) -> tensor<?x2xf32>
      return %0 : tensor<?x2xf32>
    }
    func.func private @twice(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
      %0 = stablehlo.add %x, %x : tensor<?x2xf32>
      return %0 : tensor<?x2xf32>
    }"""
    assert values(text, [[1, 2], [3, 4], [5, 6]]) == [[2, 4], [6, 8], [10, 12]]


def test_ops_that_are_not_valid_are_refused() -> None:
    text = """HloModule m
    ENTRY e {
      x = s32[2,4] parameter(0)
      n = s32[] parameter(1)
      ROOT r = s32[2,<=4] set-dimension-size(x, n), dimensions={7}
    }"""
    with pytest.raises(EvaluationError, match="`set_dimension_size` is not valid"):
        values(text, np.zeros((2, 4), "i4"), 2)
