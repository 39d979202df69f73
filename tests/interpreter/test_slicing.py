"""Slices."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import read, values


def test_slice_of_the_specification() -> None:
    text = """func.func @main(%x: tensor<3x8xi64>) -> tensor<2x2xi64> {
      %0 = stablehlo.slice %x [1:3, 4:8:2] : (tensor<3x8xi64>) -> tensor<2x2xi64>
      return %0 : tensor<2x2xi64>
    }"""
    x = [[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 0, 1, 0]]
    assert values(text, x) == [[1, 1], [1, 1]]


def test_a_slice_is_a_view() -> None:
    text = """func.func @main(%x: tensor<9xf32>) -> tensor<3xf32> {
      %0 = stablehlo.slice %x [1:8:3] : (tensor<9xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    x = np.arange(9, dtype="f4")
    (found,) = evaluate(read(text), [x])
    assert found.tolist() == [1, 4, 7]  # type: ignore[union-attr]
    assert np.shares_memory(found, x)  # type: ignore[arg-type]


def test_slice_of_hlo() -> None:
    text = """HloModule m
    ENTRY e {
      x = s32[4,3] parameter(0)
      ROOT r = s32[2,0] slice(x), slice={[0:4:2], [3:3]}
    }"""
    assert values(text, np.arange(12, dtype="i4").reshape(4, 3)) == [[], []]


def test_slices_of_open_sizes_are_checked() -> None:
    text = """func.func @main(%x: tensor<?xi32>) -> tensor<3xi32> {
      %0 = stablehlo.slice %x [1:4] : (tensor<?xi32>) -> tensor<3xi32>
      return %0 : tensor<3xi32>
    }"""
    assert values(text, [1, 2, 3, 4]) == [2, 3, 4]
    with pytest.raises(EvaluationError, match="a slice up to 4 of 3 elements"):
        values(text, [1, 2, 3])
    text = """HloModule m
    ENTRY e {
      x = s32[<=4] parameter(0)
      ROOT r = s32[<=4] slice(x), slice={[0:4]}
    }"""
    assert values(text, [1, 2, 3]) == [1, 2, 3]


DYNAMIC_SLICE = """func.func @main(%x: tensor<4x4xi32>, %i: tensor<{0}>, %j: tensor<{0}>)
    -> tensor<2x2xi32> {{
  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 2]
      : (tensor<4x4xi32>, tensor<{0}>, tensor<{0}>) -> tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
}}"""
SQUARE = np.arange(16, dtype="i4").reshape(4, 4)


@pytest.mark.parametrize(
    ("element", "at", "first"),
    [
        ("i64", (-1, 3), (0, 2)),
        ("i8", (1, 1), (1, 1)),
        ("ui32", (0xFFFFFFFF, 0), (2, 0)),
        ("ui64", (1 << 63, 9), (2, 2)),
        ("i4", (-8, 7), (0, 2)),
    ],
)
def test_dynamic_slice_moves_inside(
    element: str, at: tuple[int, int], first: tuple[int, int]
) -> None:
    found = values(DYNAMIC_SLICE.format(element), SQUARE, *at)
    i, j = first
    assert found == SQUARE[i : i + 2, j : j + 2].tolist()


def test_dynamic_slice_of_the_specification() -> None:
    x = [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert values(DYNAMIC_SLICE.format("i64"), x, -1, 3) == [[1, 1], [1, 1]]


def test_starts_of_old_hlo_are_one_vector() -> None:
    text = """HloModule m
    ENTRY e {
      x = s32[4,4] parameter(0)
      at = s32[2] parameter(1)
      part = s32[1,4] dynamic-slice(x, at), dynamic_slice_sizes={1,4}
      ROOT r = s32[4,4] dynamic-update-slice(x, part, at)
    }"""
    assert values(text, SQUARE, [2, 1]) == SQUARE.tolist()


UPDATE = """func.func @main(%x: tensor<4x4xi32>, %u: tensor<2x2xi32>, %i: tensor<i64>,
                %j: tensor<i64>) -> tensor<4x4xi32> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j
      : (tensor<4x4xi32>, tensor<2x2xi32>, tensor<i64>, tensor<i64>) -> tensor<4x4xi32>
  return %0 : tensor<4x4xi32>
}"""


def test_dynamic_update_slice_of_the_specification() -> None:
    x = np.ones((4, 4), "i4")
    x[2:, 2:] = 0
    before = x.copy()
    update = np.ones((2, 2), "i4")
    assert values(UPDATE, x, update, -1, 3) == before.tolist()
    assert values(UPDATE, x, update, 7, 7) == np.ones((4, 4)).tolist()
    assert (x == before).all()


def test_an_update_of_everything_is_the_result() -> None:
    text = """func.func @main(%x: tensor<f32>, %u: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.dynamic_update_slice %x, %u : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    assert values(text, 1.0, 2.0) == 2.0


def test_a_dynamic_update_of_open_sizes_is_clamped() -> None:
    text = """func.func @main(%x: tensor<?xi32>, %u: tensor<2xi32>, %i: tensor<i32>)
        -> tensor<?xi32> {
      %0 = stablehlo.dynamic_update_slice %x, %u, %i
          : (tensor<?xi32>, tensor<2xi32>, tensor<i32>) -> tensor<?xi32>
      return %0 : tensor<?xi32>
    }"""
    assert values(text, [1, 2, 3, 4], [8, 9], 1) == [1, 8, 9, 4]
    assert values(text, [1, 2, 3, 4], [8, 9], 7) == [1, 2, 8, 9]


REAL = """func.func @main(%x: tensor<?xi32>, %a: tensor<1xi64>, %b: tensor<1xi64>,
                %c: tensor<1xi64>) -> tensor<?xi32> {
  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c
      : (tensor<?xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}"""


def test_real_dynamic_slice() -> None:
    x = np.arange(10, dtype="i4")
    assert values(REAL, x, [1], [8], [3]) == [1, 4, 7]
    assert values(REAL, x, [8], [12], [1]) == [6, 7, 8, 9]
    assert values(REAL, x, [5], [5], [1]) == []


@pytest.mark.parametrize("given", [([5], [4], [1]), ([0], [4], [0]), ([0], [11], [1])])
def test_real_dynamic_slices_that_cannot_be(given: tuple[list[int], ...]) -> None:
    with pytest.raises(EvaluationError, match="slice"):
        values(REAL, np.arange(10, dtype="i4"), *given)


@pytest.mark.parametrize("strides", [[1, 0], [0, 1], [2, -1]])
def test_every_stride_of_a_real_dynamic_slice_is_positive(strides: list[int]) -> None:
    text = REAL.replace("tensor<?x", "tensor<?x?x").replace("tensor<1x", "tensor<2x")
    with pytest.raises(EvaluationError, match="no slice"):
        values(text, np.zeros((4, 4), "i4"), [0, 0], [4, 4], strides)
