"""Gathers."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values
from tests.interpreter.indexed import EXAMPLE, GATHER, Case, made


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("block", range(10))
def test_gathers_are_those_of_the_specification(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        case, x, given, _ = made(seed)
        indices = given if case.vector < given.ndim else given[..., None]
        wanted = np.empty(case.windows, "i4")
        for at, start, inside in case.places(indices):
            most = [n - size for n, size in zip(x.shape, case.sizes, strict=True)]
            first = [min(max(s, 0), m) for s, m in zip(start, most, strict=True)]
            wanted[at] = x[tuple(a + b for a, b in zip(first, inside, strict=True))]
        assert values(case.text(GATHER), x, given) == wanted.tolist(), seed
        # ... also of an operand that is not row-major in memory
        turned = np.asfortranarray(x)
        assert values(case.text(GATHER), turned, given) == wanted.tolist(), seed


def test_gather_of_the_specification() -> None:
    x = np.arange(1, 25, dtype="i4").reshape(3, 4, 2)
    indices = [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]]
    assert values(EXAMPLE.text(GATHER), x, indices) == [
        [[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]],
        [[[9, 10], [11, 12]], [[11, 12], [13, 14]], [[17, 18], [19, 20]]],
    ]


def test_dynamic_gather_of_the_specification() -> None:
    text = """func.func @main(%x: tensor<2x3x4x2xi32>, %i: tensor<2x2x3x2xi64>, %s: tensor<4xi64>)
        -> tensor<2x2x3x?x?xi32> {
      %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{
        dimension_numbers = #stablehlo.gather<offset_dims = [3, 4], collapsed_slice_dims = [1],
          operand_batching_dims = [0], start_indices_batching_dims = [1],
          start_index_map = [2, 1], index_vector_dim = 3>
      }> : (tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>, tensor<4xi64>) -> tensor<2x2x3x?x?xi32>
      return %0 : tensor<2x2x3x?x?xi32>
    }"""
    x = np.arange(1, 49).reshape(2, 3, 4, 2)
    indices = [
        [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]],
        [[[0, 0], [2, 1], [2, 2]], [[1, 2], [0, 1], [1, 0]]],
    ]
    found = values(text, x.tolist(), indices, [1, 1, 2, 2])
    assert np.shape(found) == (2, 2, 3, 2, 2)
    assert found == [
        [[[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]],
         [[[33, 34], [35, 36]], [[35, 36], [37, 38]], [[41, 42], [43, 44]]]],
        [[[[1, 2], [3, 4]], [[13, 14], [15, 16]], [[21, 22], [23, 24]]],
         [[[43, 44], [45, 46]], [[33, 34], [35, 36]], [[27, 28], [29, 30]]]],
    ]  # fmt: skip


@pytest.mark.parametrize("element", ["ui32", "ui64", "i4"])
def test_unsigned_indices_are_never_negative(element: str) -> None:
    case = Case((5,), (1, 1), (1,), [], [0], [], [], [0], 1)
    text = case.text(GATHER).replace("1x1xi64", f"1x1x{element}")
    largest = {"ui32": (1 << 32) - 1, "ui64": (1 << 64) - 1, "i4": 7}[element]
    assert values(text, [1, 2, 3, 4, 5], [[largest]]) == [5]


def test_gathers_without_elements() -> None:
    case = Case((5,), (0, 1), (1,), [], [0], [], [], [0], 1)
    assert values(case.text(GATHER), [1, 2, 3, 4, 5], np.empty((0, 1), "i8")) == []


def test_gathers_of_nothing_are_zeros() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[0,2] parameter(0)
      i = s32[3] parameter(1)
      ROOT r = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}
    }"""
    assert values(text, np.empty((0, 2), "f4"), [0, 1, 2]) == [[0, 0]] * 3


def test_torch_index_select() -> None:
    text = """func.func @main(%x: tensor<2x3x4xi32>, %i: tensor<2x2xi32>) -> tensor<2x3x2xi32> {
      %0 = "stablehlo.torch_index_select"(%x, %i) <{batch_dims = 1 : i64, dim = 2 : i64}>
          : (tensor<2x3x4xi32>, tensor<2x2xi32>) -> tensor<2x3x2xi32>
      return %0 : tensor<2x3x2xi32>
    }"""
    x, at = np.arange(24).reshape(2, 3, 4), np.array([[0, 3], [1, 9]])
    wanted = np.stack([x[b].take(at[b], 1, mode="clip") for b in range(2)])
    assert values(text, x.tolist(), at.tolist()) == wanted.tolist()
    text = text.replace("batch_dims = 1", "batch_dims = 0").replace("2x3x2x", "2x3x2x2x")
    assert values(text, x.tolist(), at.tolist()) == x.take(at, 2, mode="clip").tolist()


def test_slices_of_nothing_are_refused() -> None:
    text = """func.func @main(%x: tensor<?xi32>, %i: tensor<1x1xi64>) -> tensor<1xi32> {
      %0 = "stablehlo.gather"(%x, %i) <{
        dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0],
          index_vector_dim = 1>, slice_sizes = array<i64: 1>
      }> : (tensor<?xi32>, tensor<1x1xi64>) -> tensor<1xi32>
      return %0 : tensor<1xi32>
    }"""
    with pytest.raises(EvaluationError, match="a slice of 1 elements is taken from 0"):
        values(text, np.empty(0, "i4"), [[0]])
