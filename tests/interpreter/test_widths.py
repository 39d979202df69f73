"""Values whose width, size or domain differs from what the operands have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hloscope.interpreter.ops.elementwise import function_of
from hloscope.ir import ELEMENT_TYPES
from hloscope.ops import OPS
from tests.interpreter.helpers import values


@pytest.mark.parametrize("declared", ["f32", "f64"])
def test_floats_are_computed_in_the_precision_that_is_declared(declared: str) -> None:
    narrow = ELEMENT_TYPES["bf16"]
    add = function_of(OPS["add"](), (narrow, narrow), ELEMENT_TYPES[declared])
    small = ml_dtypes.bfloat16(0.001)
    assert float(add(ml_dtypes.bfloat16(1), small)) == pytest.approx(1 + float(small), rel=1e-6)


def test_the_kernel_of_arc_sine_and_cosine_on_both_sides_of_one() -> None:
    x = [0.5, -0.75, 1.25, -1.5, 1.75, 2.5, -3.0]
    text = """func.func @main(%p: tensor<7xf64>) -> tensor<7xf64> {
      %0 = chlo._asin_acos_kernel %p : tensor<7xf64> -> tensor<7xf64>
      return %0 : tensor<7xf64> }"""
    outside = [np.arccosh(abs(v)) if abs(v) > 1 else np.sqrt(1 - v * v) for v in x]
    assert values(text, np.float64(x)) == pytest.approx(outside)


def test_booleans_are_bits_in_stablehlo_and_bytes_in_hlo() -> None:
    flags = np.arange(16).reshape(2, 8) % 3 == 0
    text = """func.func @main(%p: tensor<2x8xi1>) -> tensor<2xi8> {
      %0 = stablehlo.bitcast_convert %p : (tensor<2x8xi1>) -> tensor<2xi8>
      return %0 : tensor<2xi8> }"""
    packed = np.packbits(flags, axis=1, bitorder="little").view("i1")[:, 0]
    assert values(text, flags) == packed.tolist()
    text = "HloModule m\nENTRY e { p = pred[4] parameter(0) ROOT r = u32[] bitcast-convert(p) }"
    assert values(text, flags[0, :4]) == int(flags[0, :4].view("<u4")[0])


@pytest.mark.parametrize("size", range(6))
def test_a_size_that_is_set_may_be_longer_than_the_value(size: int) -> None:
    text = """func.func @main(%p: tensor<?xi32>, %n: tensor<i32>) -> tensor<?xi32> {
      %0 = stablehlo.set_dimension_size %p, %n, dim = 0
        : (tensor<?xi32>, tensor<i32>) -> tensor<?xi32>
      return %0 : tensor<?xi32> }"""
    assert values(text, np.int32([1, 2, 3]), np.int32(size)) == [1, 2, 3, 0, 0][:size]
