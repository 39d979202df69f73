"""Cholesky, triangular systems, Fourier transforms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter.evaluation import evaluate
from tests.interpreter.helpers import read, values


def array(text: str, *arguments: Any) -> Any:
    (found,) = evaluate(read(text), arguments)
    return found


def unary(op: str, operand: str, result: str, settings: str) -> str:
    return f"""func.func @main(%a: tensor<{operand}>) -> tensor<{result}> {{
      %0 = "stablehlo.{op}"(%a) {{{settings}}} : (tensor<{operand}>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""


def cholesky(type_: str, lower: str = "true") -> str:
    return unary("cholesky", type_, type_, f"lower = {lower}")


def test_cholesky_of_the_specification() -> None:
    a = [[1.0, 2.0, 3.0], [2.0, 20.0, 26.0], [3.0, 26.0, 70.0]]
    expected = [[1, 0, 0], [2, 4, 0], [3, 5, 6]]
    assert np.allclose(values(cholesky("3x3xf32"), a), expected)


@pytest.mark.parametrize("element", ["f32", "f64", "complex<f32>", "complex<f64>", "bf16"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_reads_one_triangle(element: str, lower: str) -> None:
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(2, 4, 4))) + 2 * np.eye(4)
    if "complex" in element:
        root = root + 1j * np.tril(rng.normal(size=(2, 4, 4)), -1)
    whole = root @ root.swapaxes(-1, -2).conj()
    half = np.tril(whole) if lower == "true" else np.triu(whole)
    other = half + (np.triu(whole + 9, 1) if lower == "true" else np.tril(whole + 9, -1))
    found = np.array(values(cholesky(f"2x4x4x{element}", lower), other.tolist()), complex)
    expected = root if lower == "true" else root.swapaxes(-1, -2).conj()
    assert np.allclose(found, expected, atol=0.1 if element == "bf16" else 1e-4)


def test_matrices_without_a_factor_give_nan() -> None:
    a = np.array([[[4.0, 0], [0, 9]], [[1, 2], [2, 1]]], np.float32)
    found = array(cholesky("2x2x2xf32"), a)
    assert found[0].tolist() == [[2, 0], [0, 3]]
    assert np.isnan(found[1]).all()


def solve(a: str, b: str, left: bool, lower: bool, unit: bool, transpose: str) -> str:
    def said(value: bool) -> str:
        return str(value).lower()

    return f"""func.func @main(%a: tensor<{a}>, %b: tensor<{b}>) -> tensor<{b}> {{
      %0 = "stablehlo.triangular_solve"(%a, %b) {{
        left_side = {said(left)}, lower = {said(lower)}, unit_diagonal = {said(unit)},
        transpose_a = #stablehlo<transpose {transpose}>
      }} : (tensor<{a}>, tensor<{b}>) -> tensor<{b}>
      return %0 : tensor<{b}>
    }}"""


def test_triangular_solve_of_the_specification() -> None:
    text = solve("3x3xf32", "3x3xf32", True, True, False, "NO_TRANSPOSE")
    a = [[1.0, 0.0, 0.0], [2.0, 4.0, 0.0], [3.0, 5.0, 6.0]]
    b = [[2.0, 0.0, 0.0], [4.0, 8.0, 0.0], [6.0, 10.0, 12.0]]
    assert values(text, a, b) == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


@pytest.mark.parametrize("size", [1, 3, 70])
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_triangular_systems(size: int, element: str) -> None:
    rng = np.random.default_rng(size)

    def some(*shape: int) -> Any:
        real = rng.normal(size=shape)
        return real + 1j * rng.normal(size=shape) if "complex" in element else real

    whole = some(2, size, size) / size + 3 * np.eye(size)
    options = itertools.product(
        (True, False), (True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    )
    for left, lower, unit, transpose in options:
        a = np.tril(whole) if lower else np.triu(whole)
        if unit:
            a = a - a * np.eye(size) + np.eye(size)
        if transpose != "NO_TRANSPOSE":
            a = a.swapaxes(-1, -2)
        if transpose == "ADJOINT":
            a = a.conj()
        x = some(2, size, 2) if left else some(2, 2, size)
        b = a @ x if left else x @ a
        shape = "x".join(map(str, b.shape))
        text = solve(
            f"2x{size}x{size}x{element}", f"{shape}x{element}", left, lower, unit, transpose
        )
        assert np.allclose(array(text, whole, b), x), (left, lower, unit, transpose)


def test_singular_systems_divide_by_zero() -> None:
    text = solve("2x2xf32", "2x1xf32", True, True, False, "NO_TRANSPOSE")
    assert values(text, [[0, 0], [1, 1]], [[1], [2]]) == [[np.inf], [-np.inf]]


def fft(kind: str, length: list[int], operand: str, result: str) -> str:
    lengths = f"array<i64: {', '.join(map(str, length))}>"
    settings = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {lengths}"
    return unary("fft", operand, result, settings)


def test_fft_of_the_specification() -> None:
    text = fft("FFT", [4], "4xcomplex<f32>", "4xcomplex<f32>")
    assert values(text, [1, 0, 0, 0]) == [1, 1, 1, 1]


def transformed(x: Any, axis: int, sign: int) -> Any:
    """The sum as it is written."""
    size = x.shape[axis]
    k = np.arange(size)
    matrix = np.exp(sign * 2j * np.pi * np.outer(k, k) / size)
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


@pytest.mark.parametrize("length", [[5], [3, 4], [2, 3, 4]])
@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
def test_transforms_and_their_inverses(length: list[int], element: str) -> None:
    rng = np.random.default_rng(0)
    shape = (2, *length)
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    type_ = "x".join([*map(str, shape), element])
    expected = x
    for axis in range(1, len(shape)):
        expected = transformed(expected, axis, -1)
    found = values(fft("FFT", length, type_, type_), x.tolist())
    assert np.allclose(found, expected, 1e-4)
    back = values(fft("IFFT", length, type_, type_), found)
    assert np.allclose(back, x, 1e-4)


@pytest.mark.parametrize("length", [[4], [5], [3, 6], [2, 3, 5]])
def test_transforms_of_real_numbers(length: list[int]) -> None:
    x = np.random.default_rng(0).normal(size=(2, *length))
    half = (2, *length[:-1], length[-1] // 2 + 1)
    real, complex_ = "x".join([*map(str, x.shape), "f64"]), "x".join(map(str, half))
    complex_ += "xcomplex<f64>"
    expected = x.astype(complex)
    for axis in range(1, x.ndim):
        expected = transformed(expected, axis, -1)
    found = values(fft("RFFT", length, real, complex_), x.tolist())
    assert np.allclose(found, expected[..., : half[-1]])
    assert np.allclose(values(fft("IRFFT", length, complex_, real), found), x)


def test_transforms_of_nothing() -> None:
    text = fft("RFFT", [0], "2x0xf32", "2x0xcomplex<f32>")
    assert values(text, np.zeros((2, 0), np.float32)) == [[], []]
