"""Batch normalisation, by the specification's examples and the formulas in doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.helpers import values

WHOLE = "tensor<2x2x2xf64>"
ONE = "tensor<2xf64>"
SETTINGS = "{epsilon = 0.0 : f32, feature_index = 2 : i64}"
OPERAND = [[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 2.0]]]


def test_training_of_the_specification() -> None:
    text = f"""func.func @main(%x: {WHOLE}, %s: {ONE}, %o: {ONE}) -> ({WHOLE}, {ONE}, {ONE}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {SETTINGS}
        : ({WHOLE}, {ONE}, {ONE}) -> ({WHOLE}, {ONE}, {ONE})
      return %0#0, %0#1, %0#2 : {WHOLE}, {ONE}, {ONE}
    }}"""
    output, mean, variance = values(text, OPERAND, [1, 1], [1, 1])
    assert output == [[[0, 0], [2, 2]], [[2, 2], [0, 0]]]
    assert mean == [2, 3]
    assert variance == [1, 1]


def test_inference_of_the_specification() -> None:
    text = f"""
    func.func @main(%x: {WHOLE}, %s: {ONE}, %o: {ONE}, %m: {ONE}, %v: {ONE}) -> {WHOLE} {{
      %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {SETTINGS}
        : ({WHOLE}, {ONE}, {ONE}, {ONE}, {ONE}) -> {WHOLE}
      return %0 : {WHOLE}
    }}"""
    found = values(text, OPERAND, [1, 1], [1, 1], [2, 3], [1, 1])
    assert found == [[[0, 0], [2, 2]], [[2, 2], [0, 0]]]


GRAD = f"""
func.func @main(%x: {WHOLE}, %s: {ONE}, %m: {ONE}, %v: {ONE}, %g: {WHOLE})
    -> ({WHOLE}, {ONE}, {ONE}) {{
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {SETTINGS}
    : ({WHOLE}, {ONE}, {ONE}, {ONE}, {WHOLE}) -> ({WHOLE}, {ONE}, {ONE})
  return %0#0, %0#1, %0#2 : {WHOLE}, {ONE}, {ONE}
}}"""


def test_grad_of_the_specification() -> None:
    grad = np.full((2, 2, 2), 0.1)
    of_operand, of_scale, of_offset = values(GRAD, OPERAND, [1, 1], [2, 3], [1, 1], grad)
    assert np.allclose(of_operand, 0)
    assert np.allclose(of_scale, 0)
    assert np.allclose(of_offset, 0.4)


def test_grad_is_the_derivative_of_training() -> None:
    rng = np.random.default_rng(0)
    x, grad = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2, 2))
    scale = np.array([1.5, -0.5])

    def loss(x: Any, scale: Any) -> float:
        centred = x - x.mean((0, 1))
        return float((grad * scale * centred / np.sqrt((centred**2).mean((0, 1)))).sum())

    mean, variance = x.mean((0, 1)), x.var((0, 1))
    of_operand, of_scale, of_offset = values(GRAD, x, scale, mean, variance, grad)
    assert np.allclose(of_offset, grad.sum((0, 1)))
    step = 1e-6
    for index in np.ndindex(2, 2, 2):
        moved = x.copy()
        moved[index] += step
        slope = (loss(moved, scale) - loss(x, scale)) / step
        assert np.array(of_operand)[index] == pytest.approx(slope, abs=1e-4)
    for i in range(2):
        moved = scale.copy()
        moved[i] += step
        slope = (loss(x, moved) - loss(x, scale)) / step
        assert of_scale[i] == pytest.approx(slope, abs=1e-4)


@pytest.mark.parametrize(("element", "tolerance"), [("f32", 1e-5), ("f16", 4e-3), ("bf16", 3e-2)])
def test_other_types_and_features(element: str, tolerance: float) -> None:
    x = np.random.default_rng(0).normal(3, 2, (4, 3, 5))
    whole, one = f"tensor<4x3x5x{element}>", f"tensor<3x{element}>"
    text = f"""func.func @main(%x: {whole}, %s: {one}, %o: {one}) -> ({whole}, {one}, {one}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o)
        {{epsilon = 0.25 : f32, feature_index = 1 : i64}}
        : ({whole}, {one}, {one}) -> ({whole}, {one}, {one})
      return %0#0, %0#1, %0#2 : {whole}, {one}, {one}
    }}"""
    output, mean, variance = values(text, x.tolist(), [1, 2, 3], [0, 1, 0])
    centred = x - x.mean((0, 2), keepdims=True)
    expected = centred / np.sqrt(x.var((0, 2), keepdims=True) + 0.25)
    expected = expected * np.reshape([1, 2, 3], (3, 1)) + np.reshape([0, 1, 0], (3, 1))
    assert np.allclose(np.array(mean, float), x.mean((0, 2)), tolerance)
    assert np.allclose(np.array(variance, float), x.var((0, 2)), 10 * tolerance)
    assert np.allclose(np.array(output, float), expected, 10 * tolerance, 10 * tolerance)
