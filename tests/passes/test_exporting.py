"""Programs of symbolic sizes that `jax.export` wrote: refined as XLA does, run, explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloscope
from hloscope.errors import HloscopeError
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import PassError, applied, parse_pipeline, specification
from hloscope.passes.dynamism.dimensions import size_of_text
from tests.cli.test_refine import EXPORTED
from tests.conftest import SHARED, needs_shared

REFINE = "ext-refine-shapes,ext-canonicalize-dynamism"


def after(text: str, pipeline: str = REFINE) -> str:
    tree = parse_mlir(text, dialects=DIALECTS)
    return print_mlir(applied(tree, parse_pipeline(pipeline)), dialects=DIALECTS)


WINDOWS = """
func.func @main(%x: tensor<8xf32>, %i: tensor<f32>) -> tensor<?xf32> {
  %two = stablehlo.constant dense<2> : tensor<1xi64>
  %one = stablehlo.constant dense<1> : tensor<1xi64>
  %pad = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi64>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %i, %two, %two, %one, %one, %pad)
    {called_computations = [@sum]} : (tensor<8xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>,
    tensor<1xi64>, tensor<1xi64>, tensor<1x2xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
"""
RANDOM = """
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<?xui32>) {
  %n = stablehlo.constant dense<5> : tensor<1xi64>
  %r:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %n)
    {rng_algorithm = #stablehlo<rng_algorithm DEFAULT>} :
    (tensor<2xui64>, tensor<1xi64>) -> (tensor<2xui64>, tensor<?xui32>)
  return %r#0, %r#1 : tensor<2xui64>, tensor<?xui32>
}
"""
TOP_K = """
func.func @main(%x: tensor<3x8xf32>) -> (tensor<3x?xf32>, tensor<3x?xi32>) {
  %k = stablehlo.constant dense<2> : tensor<ui64>
  %r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) :
    (tensor<3x8xf32>, tensor<ui64>) -> (tensor<3x?xf32>, tensor<3x?xi32>)
  return %r#0, %r#1 : tensor<3x?xf32>, tensor<3x?xi32>
}
"""
APPROXIMATE = """
func.func @main(%x: tensor<8xf32>, %i: tensor<f32>) -> tensor<2xf32> {
  %k = stablehlo.constant dense<2> : tensor<ui64>
  %r = stablehlo.custom_call @stablehlo.dynamic_approx_top_k(%x, %i, %k)
    {called_computations = [@less], mhlo.backend_config = {reduction_dim = 0 : i64}} :
    (tensor<8xf32>, tensor<f32>, tensor<ui64>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
func.func private @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WINDOWS, ["stablehlo.reduce_window", "tensor<5xf32>"]),
        (RANDOM, ["stablehlo.rng_bit_generator", "tensor<5xui32>"]),
        (TOP_K, ["chlo.top_k(%arg0, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>"]),
        (APPROXIMATE, ["@ApproxTopK(%arg0, %arg1)", "top_k = 2 : i64"]),
    ],
)
def test_xlas_custom_calls_become_static_ops(text: str, expected: list[str]) -> None:
    found = after(text)
    for part in expected:
        assert part in found
    assert "?" not in found
    assert "stablehlo.dynamic" not in found


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WINDOWS, "called_computations = [@sum]", ""),
        (WINDOWS, "called_computations = [@sum]", 'called_computations = [@sum], more = "x"'),
        (RANDOM, "rng_algorithm = #stablehlo<rng_algorithm DEFAULT>", ""),
        (TOP_K, "dynamic_top_k(%x, %k)", 'dynamic_top_k(%x, %k) {backend_config = "x"}'),
        (APPROXIMATE, "reduction_dim = 0 : i64", "reduction_dim = 0 : i64, top_k = 1 : i64"),
        (APPROXIMATE, "reduction_dim = 0 : i64", "reduction_dim = 0 : i32"),
    ],
)
def test_calls_that_break_a_rule_stay(text: str, old: str, new: str) -> None:
    assert old in text
    assert "stablehlo.dynamic" in after(text.replace(old, new))


def test_more_than_there_are_cannot_be_taken() -> None:
    found = after(TOP_K.replace("dense<2>", "dense<9>"))
    assert "dynamic_top_k" in found


COMPOSED = """
func.func @main(%x: tensor<?xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %r:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64},
    decomposition = @impl} : (tensor<?xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %r#0, %r#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @impl(%x: tensor<?xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0, %1 = chlo.top_k(%x, k = 2) : tensor<?xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
"""
RECOMPOSED = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} :
    (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_ops_of_chlo_are_put_together_again() -> None:
    assert "chlo.top_k(%arg0" in after(COMPOSED, "ext-chlo-recompose-ops")
    assert "chlo.erf %arg0" in after(RECOMPOSED, "ext-chlo-recompose-ops")
    other = RECOMPOSED.replace("mhlo.version", "version")
    assert "chlo.erf" not in after(other, "ext-chlo-recompose-ops")


def test_what_is_dynamic_or_asserted_is_not_valid() -> None:
    with pytest.raises(PassError, match="op has dynamic shapes"):
        after(TOP_K, "validate-static-shapes")
    text = EXPORTED.replace("tensor<?x?xf32>", "tensor<6x9xf32>").replace(
        "tensor<?xf32>", "tensor<3xf32>"
    )
    with pytest.raises(PassError, match="op has residual shape assertions"):
        after(text, "inline,validate-static-shapes")


def test_dimension_variables_are_read() -> None:
    found = specification(parse_mlir(EXPORTED, dialects=DIALECTS))
    assert found.names == ("b", "s")
    assert found.sizes == {0: ("2*b", "s^2")}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("b", 5),
        ("3*b^2 - 4", 71),
        ("floordiv(b, 2) + mod(b, 3)", 4),
        ("max(b, 7) - min(b, 2)", 5),
        ("-b + 6", 1),
    ],
)
def test_sizes_are_expressions_of_variables(text: str, size: int) -> None:
    assert size_of_text(text, {"b": 5}) == size


@pytest.mark.parametrize(
    "text",
    [
        "c",
        "b +",
        "__import__('os')",
        "b.c",
        "mod(b, 0)",
        "b^b^b^b^b",
        "2^9999",
        "1.5",
        "(" * 400,
        "b" * 2000,
        "b^(0-1)",
        "True",
        "",
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(HloscopeError):
        size_of_text(text, {"b": 5})


MODELS = SHARED / "real/models"
CHOICES = {
    "poly_convnet": [{"b": 1, "h": 1, "w": 2}, {"b": 3, "h": 2, "w": 5}],
    "poly_gather_concat": [{"m": 3, "n": 4}, {"m": 1, "n": 2}],
    "poly_transformer": [{"b": 1, "t": 1}, {"b": 2, "t": 5}],
}


def file_of(name: str) -> Path:
    return MODELS / f"{name}.poly.stablehlo.mlir"


@needs_shared
@pytest.mark.parametrize("name", sorted(CHOICES))
def test_real_exports_become_static_and_return_what_xla_returned(name: str) -> None:
    given = np.load(MODELS / f"{name}.inputs.npz")
    program = hloscope.refine(hloscope.read(file_of(name)), list(given.values()))
    assert not hloscope.explain_dynamic(program)
    results = program.evaluate(*given.values())
    results = results if isinstance(results, tuple) else (results,)
    expected = np.load(MODELS / f"{name}.outputs.npz")
    for found, wanted in zip(results, expected.values(), strict=True):
        np.testing.assert_allclose(np.asarray(found, wanted.dtype), wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.slow(keep=1)
@needs_shared
@pytest.mark.parametrize("name", sorted(CHOICES))
def test_real_exports_mean_the_same_at_other_sizes(name: str) -> None:
    dynamic = hloscope.read(file_of(name))
    for number, dims in enumerate(CHOICES[name]):
        static = hloscope.refine(dynamic, dims=dims)
        assert not hloscope.explain_dynamic(static)
        random = np.random.default_rng(number)
        given = [
            random.integers(0, 2, p.type.shape).astype("i4")
            if p.type.element.kind == "signed"
            else random.standard_normal(p.type.shape).astype("f4")
            for p in static.module.entry.parameters
        ]
        for found, wanted in zip(
            _several(static.evaluate(*given)), _several(dynamic.evaluate(*given)), strict=True
        ):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def _several(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
