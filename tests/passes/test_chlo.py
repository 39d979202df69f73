"""CHLO as StableHLO: values before and after, for all float types, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.interpreter import evaluate
from hloscope.passes import PassError
from hloscope.passes.pipeline import find_pass
from hloscope.stablehlo import parse_stablehlo, print_stablehlo, to_graph

LEGALIZE = find_pass("chlo-legalize-to-stablehlo")

TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
REAL = ("f16", "bf16", "f32", "f64")
COMPLEX = ("complex<f32>", "complex<f64>")

ULPS = {
    "bessel_i1e": 16,
    "cosh": 1024,  # the exponential of a sum that was rounded
    "sinh": 1024,
    "erf": 32,
    "erfc": 256,
    "erf_inv": 16,
    "lgamma": 64,
    "digamma": 64,
    "zeta": 256,
    "polygamma": 512,
}
"""Where expansion and interpreter differ by more than 8 units in the last place."""

SCALE = {"lgamma": 1.0, "digamma": 1.0, "polygamma": 1.0}
"""Near their zeros these lose digits: an error counts as one of a number of this size."""

UNARY = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma sinh"
    " square tan"
).split()
OF_COMPLEX = frozenset("acos acosh asin asinh atan atanh conj cosh sinh square tan".split())


def parts(random: np.random.Generator, count: int) -> Any:
    special = [0.0, -0.0, 1, -1, 0.5, -2, 3, np.inf, -np.inf, np.nan, 1e-3, -1e4]
    near, wide = random.standard_normal(count), random.uniform(-30, 30, count)
    return np.concatenate([near, wide, special])


def numbers(type_: str, seed: int, count: int = 40) -> Any:
    random = np.random.default_rng(seed)
    if type_ in COMPLEX:
        near = random.uniform(-3, 3, (2, count))
        return (near[0] + 1j * near[1]).astype(TYPES[type_])
    return parts(random, count).astype(TYPES[type_])


def both(op: str, type_: str, arguments: list[Any], result: str = "") -> tuple[Any, Any]:
    """Values of a program with one op: as it is, and expanded."""
    array = f"tensor<{len(arguments[0])}x{type_}>"
    given = f"tensor<{len(arguments[0])}x{result or type_}>"
    names = [f"%a{k}" for k in range(len(arguments))]
    text = f"""func.func @main({", ".join(f"{name}: {array}" for name in names)}) -> {given} {{
      %0 = "chlo.{op}"({", ".join(names)}) : ({", ".join([array] * len(names))}) -> {given}
      return %0 : {given}
    }}"""
    program = parse_stablehlo(text)
    expanded, _ = LEGALIZE.apply(program.tree)
    assert "chlo." not in print_stablehlo(expanded)
    return evaluate(program, arguments)[0], evaluate(to_graph(expanded), arguments)[0]


def differ(op: str, type_: str, expected: Any, found: Any) -> Any:
    """Where values differ by more than is stated; complex ones against their size."""
    info = ml_dtypes.finfo(TYPES[type_])
    wide = np.complex128 if type_ in COMPLEX else np.float64
    a, b = expected.astype(wide), found.astype(wide)
    least = max(SCALE.get(op, 0.0), float(info.smallest_normal) / float(info.eps))
    with np.errstate(all="ignore"):
        allowed = ULPS.get(op, 8) * float(info.eps) * np.maximum(np.abs(a), least)
        near = np.abs(a - b) <= allowed
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("op", UNARY)
def test_functions_keep_their_values(op: str, full: bool) -> None:
    for type_ in (*REAL, *(COMPLEX if op in OF_COMPLEX else ())):
        for seed in range(20 if full else 2):
            given = numbers(type_, seed)
            expected, found = both(op, type_, [given])
            wrong = differ(op, type_, expected, found)
            assert not wrong.any(), (type_, given[wrong], expected[wrong], found[wrong])


@pytest.mark.parametrize("op", ["is_inf", "is_pos_inf", "is_neg_inf"])
def test_infinities(op: str) -> None:
    for type_ in REAL:
        expected, found = both(op, type_, [numbers(type_, 0)], "i1")
        assert np.array_equal(expected, found)


def test_zeta() -> None:
    random = np.random.default_rng(0)
    for type_ in REAL:
        x, q = random.uniform(1.1, 12, 50), random.uniform(0.1, 20, 50)
        expected, found = both("zeta", type_, [v.astype(TYPES[type_]) for v in (x, q)])
        assert not differ("zeta", type_, expected, found).any()


def test_polygamma() -> None:
    random = np.random.default_rng(1)
    for type_ in ("f32", "f64"):
        n, x = random.integers(0, 5, 50), random.uniform(0.5, 10, 50)
        expected, found = both("polygamma", type_, [v.astype(TYPES[type_]) for v in (n, x)])
        assert not differ("polygamma", type_, expected, found).any()


def test_next_after_is_exact() -> None:
    for type_ in REAL:
        x, y = numbers(type_, 1), numbers(type_, 2)
        expected, found = both("next_after", type_, [x, y])
        assert np.array_equal(expected, found, equal_nan=True)


@pytest.mark.parametrize("type_", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_mulhi_is_exact(type_: str) -> None:
    dtype = np.dtype(("u" if type_[0] == "u" else "") + "int" + type_.lstrip("ui"))
    limits = np.iinfo(dtype)
    random = np.random.default_rng(3)
    x, y = random.integers(limits.min, limits.max, (2, 50), dtype, endpoint=True)
    expected = [(int(a) * int(b)) >> limits.bits for a, b in zip(x, y, strict=True)]
    _, found = both("mulhi", type_, [x, y])
    assert [int(value) for value in found] == expected


def values(text: str, *arguments: Any) -> tuple[Any, Any]:
    """Values of a program as it is, and expanded."""
    program = parse_stablehlo(text)
    expanded, _ = LEGALIZE.apply(program.tree)
    return evaluate(program, arguments), evaluate(to_graph(expanded), arguments)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("4", "2x4", "2x4"), ("2x1", "1x3", "2x3"), ("", "3", "3"), ("2x3", "2x3", "2x3")],
)
@pytest.mark.parametrize("op", ["add", "subtract", "maximum", "power", "atan2", "zeta"])
def test_broadcasts(op: str, left: str, right: str, result: str) -> None:
    types = [f"tensor<{size}{'x' if size else ''}f32>" for size in (left, right, result)]
    shapes = [tuple(map(int, size.split("x"))) if size else () for size in (left, right)]
    text = f"""func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{
      %0 = chlo.broadcast_{op} %a, %b : ({types[0]}, {types[1]}) -> {types[2]}
      return %0 : {types[2]}
    }}"""
    given = [np.linspace(1.5, 4, int(np.prod(s)), dtype="f4").reshape(s) for s in shapes]
    before, after = values(text, *given)
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5)


def test_top_k_of_equal_values() -> None:
    text = """func.func @main(%a: tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
      %0:2 = chlo.top_k(%a, k = 3) : tensor<2x6xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
      return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x3xi32>
    }"""
    given = np.array([[1, 5, 5, 2, 5, 0], [-0.0, 0.0, 1, 1, -1, 1]], "f4")
    before, after = values(text, given)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("reverse", ["", " attributes {is_reverse = true}"])
def test_scans_run_either_way(reverse: str) -> None:
    text = f"""func.func @main(%a: tensor<2x3xi32>, %i: tensor<2xi32>)
        -> (tensor<2x3xi32>, tensor<2xi32>) {{
      %0:2 = chlo.scan(%a) inits(%i) dimension=1{reverse} {{
      ^bb0(%x: tensor<2xi32>, %c: tensor<2xi32>):
        %1 = stablehlo.add %x, %c : tensor<2xi32>
        stablehlo.return %1, %1 : tensor<2xi32>, tensor<2xi32>
      }} : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
      return %0#0, %0#1 : tensor<2x3xi32>, tensor<2xi32>
    }}"""
    given = np.array([[1, 2, 3], [4, 5, 6]], "i4"), np.array([10, 20], "i4")
    before, after = values(text, *given)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    wanted = [[11, 13, 16], [24, 29, 35]] if not reverse else [[16, 15, 13], [35, 31, 26]]
    assert after[0].tolist() == wanted


RAGGED = {
    "neither": ("5x3", "2x3x4", "5x4", "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]"),
    "contracted": ("5x3", "3x4", "2x5x4", "lhs_ragged_dimensions = [1], rhs_group_dimensions = []"),
}


@pytest.mark.parametrize("mode", sorted(RAGGED))
def test_ragged_products(mode: str) -> None:
    left, right, result, dims = RAGGED[mode]
    at = len(right.split("x")) - 2
    a, b, c = (f"tensor<{size}xf32>" for size in (left, right, result))
    text = f"""func.func @main(%a: {a}, %b: {b}, %g: tensor<2xi64>) -> {c} {{
      %0 = "chlo.ragged_dot"(%a, %b, %g) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [{at}], {dims}>}}
        : ({a}, {b}, tensor<2xi64>) -> {c}
      return %0 : {c}
    }}"""
    shapes = [tuple(map(int, size.split("x"))) for size in (left, right)]
    given = [np.arange(np.prod(s), dtype="f4").reshape(s) for s in shapes]
    before, after = values(text, *given, np.array([1, 2]))
    assert np.array_equal(before[0], after[0])


REFUSED = [
    ('"chlo.erf"(%a) : (tensor<3xf8E4M3FN>) -> tensor<3xf8E4M3FN>', "tensor<3xf8E4M3FN>"),
    (
        '"chlo.bessel_i1e"(%a) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>',
        "tensor<3xcomplex<f32>>",
    ),
    ("chlo.tan %a : tensor<*xf32> -> tensor<*xf32>", "tensor<*xf32>"),
]


@pytest.mark.parametrize(("op", "type_"), REFUSED)
def test_what_has_no_expansion_is_refused(op: str, type_: str) -> None:
    text = f"func.func @main(%a: {type_}) -> {type_} {{ %0 = {op} return %0 : {type_} }}"
    tree = parse_stablehlo(text).tree
    before = print_stablehlo(tree)
    with pytest.raises(PassError, match="failed to legalize operation 'chlo"):
        LEGALIZE.apply(tree)
    assert print_stablehlo(tree) == before


def test_broadcasts_of_other_dimensions_are_refused_with_a_warning() -> None:
    text = """func.func @main(%a: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<3x4xf32> {
      %0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>}
        : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    }"""
    with pytest.raises(PassError) as caught:
        LEGALIZE.apply(parse_stablehlo(text).tree)
    warning, error = caught.value.diagnostics
    assert (warning.severity, error.severity) == ("warning", "error")
    assert "non prefix-padded dynamic rank broadcast_dimensions = 0" in warning.message
