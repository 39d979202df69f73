"""Quantized values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.helpers import values

AXIS = "!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>"
HALF = "!quant.uniform<i8:f32, 0.5:-20>"
TENTH = "!quant.uniform<i8:f32, 0.1:-30>"


def quantize(type_: str, shape: str = "2", element: str = "f32", storage: str = "i8") -> str:
    """A program that quantizes its argument and returns the integers."""
    return f"""func.func @main(%x: tensor<{shape}x{element}>) -> tensor<{shape}x{storage}> {{
      %q = stablehlo.uniform_quantize %x
        : (tensor<{shape}x{element}>) -> tensor<{shape}x{type_}>
      %r = stablehlo.bitcast_convert %q
        : (tensor<{shape}x{type_}>) -> tensor<{shape}x{storage}>
      return %r : tensor<{shape}x{storage}>
    }}"""


def compute(body: str, *types: str, result: str) -> Any:
    """What a body gives that reads %0, %1 … of quantized types, made of integers."""
    names = [f"%a{i}" for i in range(len(types))]
    plain = [f"tensor<{t.partition('!')[0]}i8>" for t in types]
    taken = ", ".join(f"{n}: {p}" for n, p in zip(names, plain, strict=True))
    casts = "\n".join(
        f"%{i} = stablehlo.bitcast_convert {n} : ({p}) -> tensor<{t}>"
        for i, (n, p, t) in enumerate(zip(names, plain, types, strict=True))
    )
    end = f"tensor<{result.partition('!')[0]}i8>" if "!" in result else f"tensor<{result}>"
    last = f"%r = stablehlo.bitcast_convert %s : (tensor<{result}>) -> {end}\n return %r : {end}"
    last = last if "!" in result else f"return %s : {end}"
    return f"func.func @main({taken}) -> {end} {{\n{casts}\n{body}\n{last}\n}}"


def test_quantize_per_axis() -> None:
    assert values(quantize(AXIS), [4.0, 15.0]) == [10, 10]


def test_quantize_rounds_to_even_and_stays_in_the_range() -> None:
    text = quantize("!quant.uniform<i8<-100:100>:f32, 1.0>", "7")
    given = [0.5, 1.5, -0.5, 1e9, -1e9, float("inf"), float("nan")]
    assert values(text, given) == [0, 2, 0, 100, -100, 100, 0]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_quantize_other_floats(element: str) -> None:
    assert values(quantize(f"!quant.uniform<i8:{element}, 0.5:3>", "3", element), [1, -2, 100]) == [
        5,
        -1,
        127,
    ]


def test_quantize_to_unsigned_and_wide_integers() -> None:
    unsigned = quantize("!quant.uniform<u8:f32, 2.0:128>", "2", storage="ui8")
    assert values(unsigned, [-300.0, 10.0]) == [0, 133]
    wide = quantize("!quant.uniform<i32:f32, 0.001>", "2", storage="i32")
    assert values(wide, [1000.0, 1e30]) == [1000000, 2147483647]


def test_quantize_by_blocks() -> None:
    type_ = "!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0:1}, {4.0, 8.0}}>"
    found = values(quantize(type_, "2x4"), [[8.0] * 4, [16.0] * 4])
    assert found == [[8, 8, 5, 5], [4, 4, 2, 2]]


def test_requantize() -> None:
    text = f"""func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {{
      %a = stablehlo.bitcast_convert %x : (tensor<2xi8>) -> tensor<2x{AXIS}>
      %b = stablehlo.uniform_quantize %a
        : (tensor<2x{AXIS}>) -> tensor<2x!quant.uniform<i8:f32:0, {{0.1:-20,0.2:-30}}>>
      %r = stablehlo.bitcast_convert %b
        : (tensor<2x!quant.uniform<i8:f32:0, {{0.1:-20,0.2:-30}}>>) -> tensor<2xi8>
      return %r : tensor<2xi8>
    }}"""
    assert values(text, np.int8([10, 10])) == [20, 45]


def test_dequantize_per_axis() -> None:
    text = f"""func.func @main(%x: tensor<2xi8>) -> tensor<2xf32> {{
      %a = stablehlo.bitcast_convert %x : (tensor<2xi8>) -> tensor<2x{AXIS}>
      %r = stablehlo.uniform_dequantize %a : (tensor<2x{AXIS}>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }}"""
    assert values(text, np.int8([10, 10])) == [4.0, 15.0]


def test_elementwise_ops_compute_real_numbers() -> None:
    types = (f"2x{TENTH}", f"2x{HALF}")
    body = (
        f"%s = stablehlo.add %0, %1 : (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<2x{HALF}>"
    )
    text = compute(body, *types, result=f"2x{HALF}")
    assert values(text, np.int8([-20, -10]), np.int8([-14, -12])) == [-12, -8]  # 1+3, 2+4


def test_comparisons_have_plain_results() -> None:
    types = (f"2x{TENTH}", f"2x{HALF}")
    signature = f"(tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<2xi1>"
    body = f"%s = stablehlo.compare LT, %0, %1, FLOAT : {signature}"
    text = compute(body, *types, result="2xi1")
    assert values(text, np.int8([-20, 0]), np.int8([-17, -15])) == [True, False]  # 1 < 1.5, 3 < 2.5


def test_data_movement_leaves_the_integers() -> None:
    body = f"""%t = stablehlo.concatenate %0, %0, dim = 0
        : (tensor<2x{HALF}>, tensor<2x{HALF}>) -> tensor<4x{HALF}>
      %s = stablehlo.reverse %t, dims = [0] : tensor<4x{HALF}>"""
    assert values(compute(body, f"2x{HALF}", result=f"4x{HALF}"), np.int8([1, 2])) == [2, 1, 2, 1]


def test_reductions_compute_real_numbers() -> None:
    body = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
      %i = stablehlo.uniform_quantize %z : (tensor<f32>) -> tensor<{HALF}>
      %s = stablehlo.reduce(%0 init: %i) applies stablehlo.add across dimensions = [0]
        : (tensor<3x{HALF}>, tensor<{HALF}>) -> tensor<{HALF}>"""
    assert values(compute(body, f"3x{HALF}", result=HALF), np.int8([-18, -16, -14])) == -8  # 1+2+3


def test_a_dot_product() -> None:
    types = (f"1x2x{HALF}", "2x1x!quant.uniform<i8:f32, 2.0>")
    signature = f"(tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<1x1x{HALF}>"
    body = f"%s = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : {signature}"
    text = compute(body, *types, result=f"1x1x{HALF}")
    given = np.int8([[-18, -16]]), np.int8([[1], [2]])
    assert values(text, *given) == [[0]]  # 1 * 2 + 2 * 4 = 10


def test_a_hybrid_dot_product() -> None:
    weights = "2x2x!quant.uniform<i8:f32:1, {0.5, 2.0}>"
    text = f"""func.func @main(%x: tensor<1x2xf32>, %a: tensor<2x2xi8>) -> tensor<1x2xf32> {{
      %w = stablehlo.bitcast_convert %a : (tensor<2x2xi8>) -> tensor<{weights}>
      %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x2xf32>, tensor<{weights}>) -> tensor<1x2xf32>
      return %r : tensor<1x2xf32>
    }}"""
    assert values(text, [[1.0, 2.0]], np.int8([[2, 2], [4, 4]])) == [[5.0, 20.0]]


def test_a_convolution_pads_with_the_number_zero() -> None:
    types = (f"1x2x1x{HALF}", "3x1x1x!quant.uniform<i8:f32, 1.0>")
    body = f"""%s = stablehlo.convolution(%0, %1)
        dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{pad = [[1, 1]]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<{types[0]}>"""
    text = compute(body, *types, result=types[0])
    given = np.int8([[[-18], [-16]]]), np.int8([[[1]], [[1]], [[1]]])
    assert values(text, *given) == [[[-14], [-14]]]  # 1 + 2 in both places
