"""Functions of complex numbers, against those of real ones and exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from hloscope.interpreter.shown import ulps
from tests.interpreter.ops import COMPLEX, apply, dtype_of

C64, C128 = np.complex64, np.complex128
NAN, INF = float("nan"), float("inf")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cbrt": lambda z: mpmath.exp(mpmath.log(z) / 3),
    "cosine": mpmath.cos,
    "exponential": mpmath.exp,
    "exponential_minus_one": lambda z: mpmath.exp(z) - 1,
    "log": mpmath.log,
    "log_plus_one": lambda z: mpmath.log(1 + z),
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "sign": lambda z: z / abs(z),
    "sine": mpmath.sin,
    "sqrt": mpmath.sqrt,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "chlo.acos": mpmath.acos,
    "chlo.acosh": mpmath.acosh,
    "chlo.asin": mpmath.asin,
    "chlo.asinh": mpmath.asinh,
    "chlo.atan": mpmath.atan,
    "chlo.atanh": mpmath.atanh,
    "chlo.cosh": mpmath.cosh,
    "chlo.sinh": mpmath.sinh,
    "chlo.square": lambda z: z * z,
}


def samples(dtype: Any, count: int = 60) -> Any:
    random = np.random.default_rng(5)
    sizes = np.exp(random.uniform(-9, 2, (2, count))) * random.choice([-1, 1], (2, count))
    return (sizes[0] + 1j * sizes[1]).astype(dtype)


def exactly(function: Callable[..., Any], *operands: Any) -> Any:
    with mpmath.workprec(400):
        rows = zip(*[x.tolist() for x in operands], strict=True)
        found = [complex(function(*map(mpmath.mpc, row))) for row in rows]
    return np.array(found).astype(operands[0].dtype)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_exact_but_for_the_last_bits(op: str) -> None:
    z = samples(C64)
    assert ulps(apply(op, z), exactly(FUNCTIONS[op], z)).max() == 0
    w = samples(C128)
    assert ulps(apply(op, w), exactly(FUNCTIONS[op], w)).max() <= 32
    assert apply(op, z[0]) == apply(op, z)[0]
    assert apply(op, w[0]).dtype == C128


@pytest.mark.parametrize("spelling", COMPLEX)
def test_arithmetic(spelling: str) -> None:
    dtype = dtype_of(spelling)
    z, w = dtype.type([1 + 2j, -1]), dtype.type([3 - 1j, 2j])
    assert apply("add", z, w).tolist() == [4 + 1j, -1 + 2j]
    assert apply("subtract", z, w).tolist() == [-2 + 3j, -1 - 2j]
    assert apply("multiply", z, w).tolist() == [5 + 5j, -2j]
    np.testing.assert_allclose(apply("divide", z * w, w), z, rtol=1e-6)
    assert apply("negate", dtype.type([2.5])).tolist() == [-2.5]
    assert np.signbit(apply("negate", dtype.type([2.5])).imag).tolist() == [True]
    assert apply("abs", dtype.type([3 + 4j]), result=spelling[8:-1]).tolist() == [5]
    assert apply("chlo.conj", z).tolist() == [1 - 2j, -1]


def test_what_is_not_finite() -> None:
    assert apply("multiply", C64([INF]), C64([1 + 1j])).tolist() == [complex(INF, INF)]
    quotient = apply("divide", C64([1]), C64([0]))[0]
    assert quotient.real == INF
    assert np.isnan(quotient.imag)
    infinite = C64([complex(INF, INF), complex(INF, NAN), 1 + 1j])
    quotients = apply("divide", infinite, C64([1j, 1j, complex(INF, -INF)]))
    assert [str(q) for q in quotients.tolist()] == ["(inf-infj)", "(nan-infj)", "0j"]
    ones = apply("divide", C64([complex(INF, INF), complex(-INF, 2)]), C64([1, 1]))
    assert np.isinf(ones).tolist() == [True, True]
    assert np.sign(ones.real).tolist() == [1, -1]
    assert apply("rsqrt", C64([complex(0, INF)])).tolist() == [0]
    assert np.isnan(apply("exponential", C128([complex(-INF, INF)]))[0])
    assert apply("exponential", C128([complex(INF, 0)])).tolist() == [complex(INF, 0)]
    assert apply("exponential", C128([complex(-INF, 3)])).tolist() == [0]
    assert apply("sign", C64([0, 3 + 4j])).tolist() == [0, C64(0.6 + 0.8j)]


def test_exponentials_do_not_overflow_too_early() -> None:
    z = C128([complex(710, 1.5)])
    assert ulps(apply("exponential", z), exactly(mpmath.exp, z)).max() <= 8


def test_logarithms_near_one_are_exact() -> None:
    z = C64([complex(-1e-10, 1e-5), complex(-5e-11, 1e-5), complex(1e-20, 1e-20), -1 + 1e-9j])
    assert ulps(apply("log_plus_one", z), exactly(FUNCTIONS["log_plus_one"], z)).max() == 0
    far = C128([complex(1e300, 1e300), complex(0, -1e200)])
    assert ulps(apply("log_plus_one", far), exactly(FUNCTIONS["log_plus_one"], far)).max() <= 1


def test_powers_and_angles() -> None:
    z, w = samples(C64, 20), samples(C64, 21)[1:]
    power = exactly(lambda a, b: mpmath.exp(b * mpmath.log(a)), z, w)
    assert ulps(apply("power", z, w), power).max() <= 1
    x, y = C64([1, 2 + 1j]), C64([1, 0.5])
    angle = exactly(lambda b, a: -1j * mpmath.log((a + 1j * b) / mpmath.sqrt(a * a + b * b)), y, x)
    np.testing.assert_allclose(apply("atan2", y, x), angle, rtol=1e-6)


def test_extremes_are_lexicographic() -> None:
    z, w = C64([1 + 2j, 1 + 5j]), C64([1 + 3j, 2])
    assert apply("maximum", z, w).tolist() == [1 + 3j, 2]
    assert apply("minimum", z, w).tolist() == [1 + 2j, 1 + 5j]


def test_the_kernel_of_asin_and_acos() -> None:
    z = C64([0.5 + 0.25j, -2 + 1e-3j, 3j, -0.1 - 7j])
    kernel = apply("chlo._asin_acos_kernel", z)
    asin = np.arctan2(z.real, kernel.real) + 1j * np.sign(z.imag) * kernel.imag
    np.testing.assert_allclose(asin, np.arcsin(z), rtol=1e-6)
    real = np.float64([0.5, -3, 1])
    expected = [np.sqrt(0.75), np.arccosh(3), 0]
    np.testing.assert_allclose(apply("chlo._asin_acos_kernel", real), expected, rtol=1e-15)
