"""Reductions, scans, sorts, computations applied to every element."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloscope as hs
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import World
from tests.interpreter.helpers import read, values
from tests.large import reduce_of_chain


def reduction(op: str, element: str, shape: str = "2x3", dims: str = "1", result: str = "2") -> str:
    return f"""func.func @main(%x: tensor<{shape}x{element}>, %i: tensor<{element}>)
        -> tensor<{result}x{element}> {{
      %0 = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across dimensions = [{dims}]
        : (tensor<{shape}x{element}>, tensor<{element}>) -> tensor<{result}x{element}>
      return %0 : tensor<{result}x{element}>
    }}"""


def array(text: str, *arguments: Any) -> Any:
    (found,) = evaluate(read(text), arguments)
    return found


@pytest.mark.parametrize(
    ("element", "dtype", "numbers", "largest"),
    [("i4", ml_dtypes.int4, [-3, 2, -8], 2), ("ui4", ml_dtypes.uint4, [3, 15, 8], 15)],
)
def test_integers_of_four_bits_keep_their_sign(
    element: str, dtype: Any, numbers: list[int], largest: int
) -> None:
    text = reduction("maximum", element, shape="3", dims="0", result="").replace(
        "tensor<x", "tensor<"
    )
    found = array(text, np.array(numbers, dtype), np.array(numbers[0], dtype))
    assert int(found) == largest


@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "i8"])
def test_nothing_is_kept_of_nothing(op: str, element: str) -> None:
    numbers: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": "f2", "f32": "f4", "i8": "i1"}
    dtype = np.dtype(numbers[element])
    text = reduction(op, element, shape="0x0", result="0")
    assert array(text, np.zeros((0, 0), dtype), np.ones((), dtype)).shape == (0,)


def test_reduce_of_the_specification() -> None:
    text = """func.func @main() -> tensor<1xi64> {
      %input = stablehlo.constant dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>
      %init = stablehlo.constant dense<0> : tensor<i64>
      %result = "stablehlo.reduce"(%input, %init) ({
        ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
          %0 = stablehlo.add %arg0, %arg1 : tensor<i64>
          stablehlo.return %0 : tensor<i64>
      }) {dimensions = array<i64: 1>} : (tensor<1x6xi64>, tensor<i64>) -> tensor<1xi64>
      return %result : tensor<1xi64>
    }"""
    assert values(text) == [15]


@pytest.mark.parametrize("element", ["i32", "ui16", "f32", "bf16", "f64", "complex<f64>"])
def test_reduce_by_one_op(element: str) -> None:
    rows = [[1, 2, 3], [4, 5, 6]]
    assert values(reduction("add", element), rows, 10) == [16, 25]
    assert values(reduction("multiply", element), rows, 10) == [60, 1200]
    if not element.startswith("complex"):
        assert values(reduction("maximum", element), rows, 5) == [5, 6]
        assert values(reduction("minimum", element), rows, 2) == [1, 2]


def test_sums_wrap_around() -> None:
    assert values(reduction("add", "i8"), [[100, 27, 1], [-100, -29, 0]], 0) == [-128, 127]
    assert values(reduction("multiply", "i4"), [[7, 3, 1], [-8, 2, 1]], 1) == [5, 0]


def test_booleans() -> None:
    rows = [[True, True, True], [False, True, False]]
    assert values(reduction("and", "i1"), rows, True) == [True, False]
    assert values(reduction("or", "i1"), rows, False) == [True, True]
    assert values(reduction("add", "i1"), rows, False) == [True, True]
    assert values(reduction("xor", "i32"), [[1, 2, 4], [7, 7, 7]], 0) == [7, 7]


def test_extremes_know_nan_and_the_sign_of_zero() -> None:
    rows = np.array([[1, np.nan, 3], [-0.0, 0.0, -1.0]], np.float32)
    text = reduction("maximum", "f32")
    found = array(text, rows, np.float32(-np.inf))
    assert np.isnan(found[0])
    assert found[1] == 0
    assert not np.signbit(found[1])
    found = array(reduction("minimum", "f32"), -rows, np.float32(0))
    assert np.signbit(found[1])
    found = array(text, 0 * rows - 1, np.float32(-0.0))
    assert np.signbit(found[1])


def test_narrow_sums_round_after_every_step() -> None:
    ones = np.ones(300, ml_dtypes.bfloat16)
    text = reduction("add", "bf16", "300", "0", "1").replace("tensor<1xbf16>", "tensor<bf16>")
    assert float(values(text, ones, ml_dtypes.bfloat16(0))) == 256
    halves = np.full(3000, 1, np.float16)
    text = reduction("add", "f16", "3000", "0", "1").replace("tensor<1xf16>", "tensor<f16>")
    assert values(text, halves, np.float16(0)) == 2048


ORDER = """func.func @main(%x: tensor<2x3xi32>, %i: tensor<i32>) -> tensor<i32> {
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %0 = "stablehlo.reduce"(%x, %i) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %1 = stablehlo.multiply %a, %ten : tensor<i32>
      %2 = stablehlo.add %1, %b : tensor<i32>
      stablehlo.return %2 : tensor<i32>
  }) {dimensions = array<i64: 1, 0>} : (tensor<2x3xi32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}"""


def test_elements_are_taken_row_by_row_after_the_initial_value() -> None:
    assert values(ORDER, [[1, 2, 3], [4, 5, 6]], 9) == 9123456


def test_reduce_of_nothing_is_the_initial_value() -> None:
    text = reduction("add", "f32", "2x0")
    assert values(text, np.zeros((2, 0), np.float32), 3) == [3, 3]
    assert values(reduction("maximum", "i8", "2x0"), np.zeros((2, 0), np.int8), -3) == [-3, -3]
    assert values(ORDER.replace("2x3", "2x0"), np.zeros((2, 0), np.int32), 9) == 9


def test_reduce_over_no_dimension_applies_the_body_once() -> None:
    text = reduction("add", "i32", dims="", result="2x3")
    assert values(text, [[1, 2, 3], [4, 5, 6]], 10) == [[11, 12, 13], [14, 15, 16]]


ARGMAX = """
func.func @main(%x: tensor<SxTf32>, %k: tensor<SxTi32>) -> (tensor<Tf32>, tensor<Ti32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%x init: %low), (%k init: %zero) across dimensions = [0]
    : (tensor<SxTf32>, tensor<SxTi32>, tensor<f32>, tensor<i32>) -> (tensor<Tf32>, tensor<Ti32>)
   reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
    %1 = stablehlo.compare GT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.compare EQ, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare LT, %b, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %4 = stablehlo.and %2, %3 : tensor<i1>
    %5 = stablehlo.or %1, %4 : tensor<i1>
    %6 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
    %7 = stablehlo.select %5, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %6, %7 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<Tf32>, tensor<Ti32>
}"""


@pytest.mark.parametrize("size", [1, 5, 32, 33, 1000])
def test_reduce_of_several_arrays(size: int) -> None:
    """Few slices one after the other, many of them pairwise."""
    text = ARGMAX.replace("Sx", f"{size}x").replace("Tf", "3xf").replace("Ti", "3xi")
    numbers = np.random.default_rng(size).integers(0, 50, (size, 3)).astype(np.float32)
    index = np.broadcast_to(np.arange(size, dtype=np.int32)[:, None], (size, 3))
    largest, where = values(text, numbers, index)
    assert largest == numbers.max(0).tolist()
    assert where == numbers.argmax(0).tolist()


def test_reduce_with_wider_results() -> None:
    text = """func.func @main(%x: tensor<3xi8>, %i: tensor<i8>) -> tensor<i32> {
      %0 = "stablehlo.reduce"(%x, %i) ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %1 = stablehlo.add %a, %b : tensor<i32>
          stablehlo.return %1 : tensor<i32>
      }) {dimensions = array<i64: 0>} : (tensor<3xi8>, tensor<i8>) -> tensor<i32>
      return %0 : tensor<i32>
    }"""
    assert values(text, [100, 100, 100], 1) == 301
    other = text.replace("stablehlo.add", "stablehlo.subtract")
    assert values(other, [100, 100, 100], 1) == -299


BRANCHES = """
sum {
  p = (s32[], s32[]) parameter(0)
  x = s32[] get-tuple-element(p), index=0
  y = s32[] get-tuple-element(p), index=1
  ROOT s = s32[] add(x, y)
}
first {
  p = (s32[], s32[]) parameter(0)
  ROOT x = s32[] get-tuple-element(p), index=0
}
add_if_positive {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  is_positive = pred[] compare(b, zero), direction=GT
  both = (s32[], s32[]) tuple(a, b)
  ROOT c = s32[] conditional(is_positive, both, both), true_computation=sum, false_computation=first
}
ENTRY e {
  p = s32[2,3] parameter(0)
  i = s32[] constant(100)
  ROOT r = s32[2] reduce(p, i), dimensions={1}, to_apply=add_if_positive
}
"""


def test_bodies_with_control_flow_are_applied_to_one_element_at_a_time() -> None:
    assert values("HloModule m\n" + BRANCHES, [[1, -2, 3], [-4, -5, -6]]) == [104, 100]


def test_bodies_that_call_are_applied_to_whole_slices() -> None:
    text = """
    func.func @main(%x: tensor<9x2xf32>, %i: tensor<f32>) -> tensor<2xf32> {
      %0 = "stablehlo.reduce"(%x, %i) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = func.call @larger(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          stablehlo.return %1 : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<9x2xf32>, tensor<f32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
    func.func private @larger(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1 = stablehlo.select %0, %a, %b : tensor<i1>, tensor<f32>
      return %1 : tensor<f32>
    }"""
    world = World()
    numbers = np.arange(18, dtype=np.float32).reshape(9, 2)
    assert values(text, numbers, np.float32(3), world=world) == [16, 17]
    assert world.steps == 1 + 9 * 3  # not 18 * 3


def test_sums_of_quantized_numbers_are_clamped_at_every_step() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>) -> tensor<f32> {
      %q = stablehlo.uniform_quantize %x
        : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.5:10>>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %i = stablehlo.uniform_quantize %zero
        : (tensor<f32>) -> tensor<!quant.uniform<i8:f32, 0.5:10>>
      %0 = stablehlo.reduce(%q init: %i) applies stablehlo.add across dimensions = [0]
        : (tensor<3x!quant.uniform<i8:f32, 0.5:10>>, tensor<!quant.uniform<i8:f32, 0.5:10>>)
        -> tensor<!quant.uniform<i8:f32, 0.5:10>>
      %1 = stablehlo.uniform_dequantize %0
        : (tensor<!quant.uniform<i8:f32, 0.5:10>>) -> tensor<f32>
      return %1 : tensor<f32>
    }"""
    assert values(text, [1.5, 2, 3]) == 6.5
    assert values(text, [50, 50, -20]) == 38.5  # 58.5 is the largest


def test_hlo_reduce_of_several_arrays_is_a_tuple() -> None:
    text = """
    HloModule m
    f {
      a = f32[] parameter(0)
      b = s32[] parameter(1)
      c = f32[] parameter(2)
      d = s32[] parameter(3)
      x = f32[] add(a, c)
      y = s32[] maximum(b, d)
      ROOT t = (f32[], s32[]) tuple(x, y)
    }
    ENTRY e {
      p = f32[3] parameter(0)
      q = s32[3] parameter(1)
      z = f32[] constant(0)
      l = s32[] constant(-9)
      ROOT r = (f32[], s32[]) reduce(p, q, z, l), dimensions={0}, to_apply=f
    }"""
    assert values(text, [1, 2, 3], [4, 9, 2]) == (6.0, 9)


def test_map_of_the_specification() -> None:
    text = """func.func @main() -> tensor<2x2xi64> {
      %input0 = stablehlo.constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
      %input1 = stablehlo.constant dense<[[4, 5], [6, 7]]> : tensor<2x2xi64>
      %result = "stablehlo.map"(%input0, %input1) ({
        ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
          %0 = stablehlo.multiply %arg0, %arg1 : tensor<i64>
          stablehlo.return %0 : tensor<i64>
      }) {dimensions = array<i64: 0, 1>} : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
      return %result : tensor<2x2xi64>
    }"""
    assert values(text) == [[0, 5], [12, 21]]


def test_map_to_a_constant() -> None:
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xi32> {
      %0 = "stablehlo.map"(%x) ({
        ^bb0(%a: tensor<f32>):
          %1 = stablehlo.constant dense<7> : tensor<i32>
          stablehlo.return %1 : tensor<i32>
      }) {dimensions = array<i64: 0>} : (tensor<3xf32>) -> tensor<3xi32>
      return %0 : tensor<3xi32>
    }"""
    assert values(text, [1, 2, 3]) == [7, 7, 7]


SCAN = """
func.func @main(%x: tensor<2x3xi32>, %i: tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>) {
  %0:2 = chlo.scan(%x) inits(%i) dimension=1 REVERSE {
  ^bb0(%a: tensor<2xi32>, %c: tensor<2xi32>):
    %1 = stablehlo.add %a, %c : tensor<2xi32>
    stablehlo.return %1, %1 : tensor<2xi32>, tensor<2xi32>
  } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2x3xi32>, tensor<2xi32>
}"""


def test_scan_of_whole_slices() -> None:
    sums, last = values(SCAN.replace("REVERSE", ""), [[1, 2, 3], [4, 5, 6]], [0, 10])
    assert sums == [[1, 3, 6], [14, 19, 25]]
    assert last == [6, 25]


def test_scan_backwards() -> None:
    text = SCAN.replace("REVERSE", "attributes {is_reverse = true}")
    sums, last = values(text, [[1, 2, 3], [4, 5, 6]], [0, 10])
    assert sums == [[6, 5, 3], [25, 21, 16]]
    assert last == [6, 25]


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("carry", ["2,3", "1,3", "4", "", "2,3,4"])
def test_a_carry_of_a_scan_has_any_shape(carry: str) -> None:
    """Of the rank of the scanned inputs too; a carry is whole at every step."""
    text = f"""
      f {{ x = s32[3] parameter(0) c = s32[{carry}] parameter(1)
        n = s32[3] negate(x) o = s32[] constant(1)
        w = s32[{carry}] broadcast(o), dimensions={{}}
        s = s32[{carry}] add(c, w) ROOT t = (s32[3], s32[{carry}]) tuple(n, s) }}
      ENTRY e {{ a = s32[2,3] parameter(0) i = s32[{carry}] parameter(1)
        ROOT r = (s32[2,3], s32[{carry}]) scan(a, i), dimensions={{0}}, num_carries=1,
          to_apply=f }}"""
    assert hs.verify(text) == []
    shape = tuple(map(int, carry.split(","))) if carry else ()
    stacked, last = values(text, [[1, 2, 3], [4, 5, 6]], np.zeros(shape, np.int32))
    assert stacked == [[-1, -2, -3], [-4, -5, -6]]
    assert last == np.full(shape, 2).tolist()
    scan = hs.read(text).root
    assert all(check.outcome == "proved" for check in scan.indexing(output=0).prove().checks)
    assert all(check.outcome == "proved" for check in scan.indexing(output=1).prove().checks)
    (access,) = scan.indexing(output=1)[1]
    assert access.map is not None
    assert access.map.is_identity


def test_fold_and_reduce_agree() -> None:
    """What numpy folds is what one element after the other gives."""
    numbers = np.random.default_rng(0).integers(-100, 100, (4, 5, 6)).astype(np.int8)
    text = reduction("multiply", "i8", "4x5x6", "0, 2", "5")
    rows = numbers.transpose(1, 0, 2).reshape(5, -1)
    with np.errstate(over="ignore"):
        expected = [int(reduce(lambda a, b: np.int8(a * b), row, np.int8(3))) for row in rows]
    assert values(text, numbers, np.int8(3)) == expected


@pytest.mark.slow
def test_a_body_that_calls_many_levels_deep_is_evaluated() -> None:
    assert values(reduce_of_chain(3000), np.ones((4, 8), np.float32)) == [8.0] * 4
