"""CHLO's functions against exact arithmetic, its broadcasts, its constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from hloscope.interpreter.shown import ulps
from hloscope.mlir.types import ELEMENTS
from tests.interpreter.helpers import values
from tests.interpreter.ops import INTEGERS, apply, array, numbers

F32, F64, I32 = np.float32, np.float64, np.int32
NAN, INF = float("nan"), float("inf")

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "chlo.acos": (mpmath.acos, -1, 1),
    "chlo.acosh": (mpmath.acosh, 1, 9),
    "chlo.asin": (mpmath.asin, -1, 1),
    "chlo.asinh": (mpmath.asinh, -9, 9),
    "chlo.atan": (mpmath.atan, -9, 9),
    "chlo.atanh": (mpmath.atanh, -1, 1),
    "chlo.bessel_i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), -60, 60),
    "chlo.digamma": (mpmath.digamma, -5, 40),
    "chlo.erf": (mpmath.erf, -4, 4),
    "chlo.erf_inv": (mpmath.erfinv, -1, 1),
    "chlo.erfc": (mpmath.erfc, -4, 9),
    "chlo.lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), -5, 40),
    "chlo.tan": (mpmath.tan, -5, 5),
}


def exactly(function: Callable[[Any], Any], x: Any) -> Any:
    with mpmath.workprec(200):
        return np.array([float(function(mpmath.mpf(float(v)))) for v in x]).astype(x.dtype)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_exact_but_for_the_last_bits(op: str) -> None:
    function, low, high = FUNCTIONS[op]
    points = np.random.default_rng(3).uniform(low, high, 80)
    for dtype, most in ((np.float16, 0), (F32, 0), (F64, 512)):
        x = points.astype(dtype)
        exact = exactly(function, x)
        assert ulps(apply(op, x), exact).max() <= most
        assert ulps(apply(op, x[0]), exact[0]) <= most


def test_gamma_functions_are_exact_near_their_zeros() -> None:
    x = 1 + F64([-1e-3, -1e-9, 1e-9, 0.3, 0.999999, 1.000001, 1.4])
    assert ulps(apply("chlo.lgamma", x), exactly(mpmath.loggamma, x)).max() <= 4
    root = F64([1.46163, 1.4616321449683622, 1.4617])
    assert ulps(apply("chlo.digamma", root), exactly(mpmath.digamma, root)).max() <= 4


def test_hyperbolic_functions() -> None:
    x = F64([-0.5, 0, 2, 20])
    for op, function in (("chlo.cosh", np.cosh), ("chlo.sinh", np.sinh)):
        assert apply(op, x).tolist() == function(x).tolist()
        assert apply(op, F64([800])).tolist() == apply(op, F32([90])).tolist() == [INF]
        np.testing.assert_allclose(apply(op, F32(x)), function(x), rtol=2e-6)


def test_functions_at_their_ends() -> None:
    ends = F64([INF, -INF, NAN, 0, -2])
    assert numbers(apply("chlo.lgamma", ends)) == [INF, INF, "nan", INF, INF]
    assert numbers(apply("chlo.digamma", ends)) == [INF, "nan", "nan", "nan", "nan"]
    assert numbers(apply("chlo.erf", ends))[:4] == [1, -1, "nan", 0]
    assert numbers(apply("chlo.erfc", ends))[:4] == [0, 2, "nan", 1]
    assert numbers(apply("chlo.bessel_i1e", ends))[:4] == [0, 0, "nan", 0]
    assert numbers(apply("chlo.erf_inv", F64([1, -1, 2, NAN, 0]))) == [INF, -INF, "nan", "nan", 0]
    assert numbers(apply("chlo.acosh", F64([1, 0.5]))) == [0, "nan"]
    assert numbers(apply("chlo.atanh", F64([1, -1, 2]))) == [INF, -INF, "nan"]
    tiny = F64([1e-300, -0.0])
    assert apply("chlo.erf_inv", tiny)[0] == pytest.approx(8.862269254527579e-301)
    assert np.signbit(apply("chlo.erf_inv", tiny)).tolist() == [False, True]
    assert apply("chlo.bessel_i1e", tiny)[0] == 5e-301


def test_zeta_and_polygamma() -> None:
    s, q = F64([2, 2.5, 1.0001, 1.5, 20, 40, 3]), F64([1, 3.25, 0.3, 2, 1.5, 9, 40])
    exact = [float(mpmath.zeta(a, b)) for a, b in zip(s, q, strict=True)]
    np.testing.assert_allclose(apply("chlo.zeta", s, q), exact, rtol=1e-14)
    s, q = F64([1, 0.5, 3, 2.5, 3, NAN]), F64([2, 1, -1, -1.5, INF, 1])
    assert numbers(apply("chlo.zeta", s, q)) == [INF, "nan", INF, "nan", 0, "nan"]
    s, q = F64([INF, INF, INF, INF]), F64([1, 2, 0.5, 1.5])
    assert numbers(apply("chlo.zeta", s, q)) == [1, 0, INF, 0]
    below = apply("chlo.zeta", F64([4, 3]), F64([-2.5, -1.25]))
    sums = [sum((k - 2.5) ** -4.0 for k in range(20000)), None]
    sums[1] = sum((k - 1.25) ** -3.0 for k in range(20000))
    np.testing.assert_allclose(below, sums, rtol=1e-8)
    n, x = F64([0, 1, 3, 10, 2]), F64([3.3, 0.2, 5.5, 2, -1.3])
    exact = [float(mpmath.psi(int(a), b)) for a, b in zip(n, x, strict=True)]
    np.testing.assert_allclose(apply("chlo.polygamma", n, x), exact, rtol=1e-13)
    n, x = F64([0.5, -1, 1]), F64([1, 1, NAN])
    assert numbers(apply("chlo.polygamma", n, x)) == ["nan"] * 3


# --------------------------------------------------------------------------------- bits


def test_the_next_number_towards_another() -> None:
    a, b = F32([1, 1, 0, NAN, 2, INF]), F32([2, 0, -1, 1, 2, 0])
    expected = np.nextafter(a, b)
    assert numbers(apply("chlo.next_after", a, b)) == numbers(expected)
    narrow = array([1, 1, 0], "bf16"), array([2, 0, 1], "bf16")
    assert apply("chlo.next_after", *narrow).view(np.uint16).tolist() == [0x3F81, 0x3F7F, 1]


@pytest.mark.parametrize("spelling", INTEGERS)
def test_the_upper_half_of_products(spelling: str) -> None:
    element = ELEMENTS[spelling]
    bits, signed = element.bits, element.kind == "signed"
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    chosen = [least, least + 1, least // 3, 0, 1, most // 3, most - 1, most]
    rows = [(a, b) for a in chosen for b in chosen]
    dtype = array([0], spelling).dtype
    wide = np.int64 if signed else np.uint64
    lhs, rhs = (np.array(column, wide).astype(dtype) for column in zip(*rows, strict=True))
    found = [int(x) for x in apply("chlo.mulhi", lhs, rhs)]
    assert found == [int(a) * int(b) >> bits for a, b in zip(lhs, rhs, strict=True)]
    assert int(apply("chlo.mulhi", lhs[0], rhs[0])) == found[0]


def test_which_numbers_are_infinite() -> None:
    x = F32([INF, -INF, NAN, 1])
    assert apply("chlo.is_inf", x, result="i1").tolist() == [True, True, False, False]
    assert apply("chlo.is_pos_inf", x, result="i1").tolist() == [True, False, False, False]
    assert apply("chlo.is_neg_inf", x, result="i1").tolist() == [False, True, False, False]


def test_squares() -> None:
    assert apply("chlo.square", F32([-3, 0.5])).tolist() == [9, 0.25]
    assert apply("chlo.square", np.complex64([1 + 2j, 3j])).tolist() == [-3 + 4j, -9]


# ---------------------------------------------------------------- broadcasts and constants


def broadcast(op: str, a: str, b: str, result: str, *operands: Any, attributes: str = "") -> Any:
    text = f"""func.func @main(%a: {a}, %b: {b}) -> {result} {{
      %r = "chlo.broadcast_{op}"(%a, %b) {{{attributes}}} : ({a}, {b}) -> {result}
      return %r : {result}
    }}"""
    return values(text, *operands)


def test_operands_broadcast_as_numpy_has_it() -> None:
    column, row = I32([[10], [20]]), I32([1, 2, 3])
    types = "tensor<2x1xi32>", "tensor<3xi32>", "tensor<2x3xi32>"
    for op, function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                         "maximum": np.maximum, "minimum": np.minimum, "or": np.bitwise_or,
                         "and": np.bitwise_and, "xor": np.bitwise_xor}.items():  # fmt: skip
        assert broadcast(op, *types, column, row) == function(column, row).tolist()
    assert broadcast("divide", *types, column, row)[1] == [20, 10, 6]
    assert broadcast("power", *types, column, row)[0] == [10, 100, 1000]
    assert broadcast("shift_left", *types, column, row)[0] == [20, 40, 80]


def test_operands_broadcast_along_given_dimensions() -> None:
    found = broadcast(
        "add", "tensor<2xi32>", "tensor<2x3xi32>", "tensor<2x3xi32>",
        I32([10, 20]), I32([[1, 2, 3], [4, 5, 6]]),
        attributes="broadcast_dimensions = array<i64: 0>",
    )  # fmt: skip
    assert found == [[11, 12, 13], [24, 25, 26]]
    found = broadcast(
        "subtract", "tensor<2x2xi32>", "tensor<2xi32>", "tensor<2x2xi32>",
        I32([[1, 2], [3, 4]]), I32([1, 3]), attributes="broadcast_dimensions = array<i64: 0>",
    )  # fmt: skip
    assert found == [[0, 1], [0, 1]]


def test_scalars_broadcast() -> None:
    scalar = "tensor<f32>"
    assert broadcast("add", scalar, scalar, scalar, F32(1), F32(2)) == 3
    assert broadcast("add", scalar, "tensor<2xf32>", "tensor<2xf32>", F32(1), F32([2, 3])) == [3, 4]


def test_other_ops_broadcast() -> None:
    found = broadcast(
        "compare", "tensor<2x1xf32>", "tensor<2xf32>", "tensor<2x2xi1>",
        F32([[1], [2]]), F32([1, 2]),
        attributes="comparison_direction = #chlo<comparison_direction LT>",
    )  # fmt: skip
    assert found == [[False, True], [False, False]]
    types = "tensor<2x1xf32>", "tensor<2xf32>"
    real = F32([[1], [2]]), F32([3, 4])
    assert broadcast("complex", *types, "tensor<2x2xcomplex<f32>>", *real) == [
        [1 + 3j, 1 + 4j], [2 + 3j, 2 + 4j],
    ]  # fmt: skip
    zeta = broadcast("zeta", *types, "tensor<2x2xf32>", *real)
    assert zeta[0] == [INF, INF]
    assert zeta[1] == pytest.approx([0.3949341, 0.2838230], rel=1e-6)


def test_select_broadcasts_its_predicate() -> None:
    text = """func.func @main(%p: tensor<2x1xi1>, %a: tensor<2xi32>, %b: tensor<i32>)
        -> tensor<2x2xi32> {
      %r = "chlo.broadcast_select"(%p, %a, %b)
        : (tensor<2x1xi1>, tensor<2xi32>, tensor<i32>) -> tensor<2x2xi32>
      return %r : tensor<2x2xi32>
    }"""
    assert values(text, np.bool_([[1], [0]]), I32([1, 2]), I32(9)) == [[1, 2], [9, 9]]


@pytest.mark.parametrize(
    ("value", "element", "expected"),
    [
        ("3.2 : f32", "f32", float(F32(3.2))),
        ("7 : i8", "i8", 7),
        ("true", "i1", True),
        ("0x7F800000 : f32", "f32", INF),
        ("1.5 : bf16", "bf16", 1.5),
        ("#complex.number<:f32 1.0, 2.0> : complex<f32>", "complex<f32>", 1 + 2j),
    ],
)
def test_constants_take_the_shape_of_another(value: str, element: str, expected: Any) -> None:
    for shape in ("", "2x"):
        operand, result = f"tensor<{shape}f32>", f"tensor<{shape}{element}>"
        text = f"""func.func @main(%a: {operand}) -> {result} {{
          %r = "chlo.constant_like"(%a) {{value = {value}}} : ({operand}) -> {result}
          return %r : {result}
        }}"""
        found = values(text, F32([0, 0]) if shape else F32(0))
        assert found == ([expected, expected] if shape else expected)
