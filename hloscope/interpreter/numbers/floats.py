"""Elementwise functions of floats, gamma, zeta, error and Bessel functions among them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.interpreter.numbers.conversions import is_native, rounds_to
from hloscope.support.arrays import ml_dtypes

# --------------------------------------------------------------------------------------------------
# Special functions of doubles: gamma, zeta, error and Bessel functions.
#
# Each takes arrays of any shape and is accurate to a few units in the last place, more than
# narrower types can represent.  Outside of their domain they follow CHLO: `lgamma` is infinite and
# `digamma` NaN at 0, -1, -2, …. Source: Abramowitz and Stegun, "Handbook of Mathematical
# Functions"; NIST's Digital Library of Mathematical Functions, chapters 5, 7, 10 and 25.


Function = Callable[..., Any]

_SPECIAL_BLOCK: Final = 1 << 16
_BERNOULLI: Final = tuple(
    numerator / denominator
    for numerator, denominator in (
        (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
        (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730),
    )
)  # fmt: skip
"""Bernoulli numbers B2, B4, B6, …."""


def each(function: Callable[[float], float]) -> Function:
    """Return the function of arrays that applies a Python function to each element."""

    def kernel(x: Any) -> Any:
        if x.ndim == 0:
            return np.float64(function(float(x)))
        flat = x.reshape(-1)
        result = np.empty(flat.shape, np.float64)
        for start in range(0, flat.size, _SPECIAL_BLOCK):
            part = flat[start : start + _SPECIAL_BLOCK].tolist()
            result[start : start + len(part)] = list(map(function, part))
        return result.reshape(x.shape)

    return kernel


erf: Final = each(math.erf)
erfc: Final = each(math.erfc)
_lgamma: Final = each(math.lgamma)


_POINTS: Final = 512
"""Number of points per unit in the table of `erf_of_narrow`."""
_GRID: Final = np.arange(6 * _POINTS + 1) / _POINTS
_ERF: Final = erf(_GRID)
_SLOPE: Final = 2 / math.sqrt(math.pi) * np.exp(-_GRID * _GRID)


def erf_of_narrow(x: Any) -> Any:
    """Return the error function of x to 12 digits, by a Taylor series at the nearest table point.

    >>> erf_of_narrow(np.float64([0, -0.5, 9])).round(12).tolist()
    [0.0, -0.520499877813, 1.0]
    """
    size = np.minimum(np.abs(x), 6.0)
    index = np.rint(np.where(size == size, size, 0.0) * _POINTS).astype(np.intp)
    point = _GRID[index]
    d = size - point
    series = d * (1 - d * (point - d * (2 * point * point - 1) / 3))
    return np.copysign(_ERF[index] + _SLOPE[index] * series, x)


def zeta(s: Any, q: Any) -> Any:
    """Return Hurwitz's zeta function, `sum over k >= 0 of (q + k)^-s`.

    >>> zeta(np.float64([2, 1, 0.5]), np.float64([1, 2, 1])).round(4).tolist()
    [1.6449, inf, nan]
    """
    s, q = np.broadcast_arrays(s, q)
    safe = np.where(s > 1, s, 2.0)
    below = np.where(q < 0, np.ceil(-q), 0.0)
    first = q + below
    total = _hurwitz(safe, np.where(first > 0, first, 1.0))
    if below.any():  # terms of negative numbers, from the last to the first
        sign = np.where(safe % 2 == 0, 1.0, -1.0)
        others = _hurwitz(safe, 1 - first) - _hurwitz(safe, below + 1 - first)
        total = np.where(below > 0, total + sign * others, total)
        total = np.where((q < 0) & (safe != np.floor(safe)), np.nan, total)
    total = np.where((q <= 0) & (q == np.floor(q)), np.inf, total)
    total = np.where(s == 1, np.inf, total)
    return np.where((s < 1) | np.isnan(s) | np.isnan(q), np.nan, total)


def _hurwitz(s: Any, q: Any) -> Any:
    """Return Hurwitz's zeta for `s > 1`, `q > 0`: ten terms, then the Euler-Maclaurin formula."""
    total = np.zeros(s.shape)
    for k in range(10):
        total = total + np.power(q + k, -s)
    end = q + 10
    tail = np.power(end, -s)
    total = total + tail * end / (s - 1) + 0.5 * tail
    factor = s * tail / end
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + factor * bernoulli / math.factorial(2 * k)
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (end * end)
    total = np.where(np.isinf(s), np.where(q > 1, 0.0, np.where(q == 1, 1.0, np.inf)), total)
    return np.where(np.isinf(q), 0.0, total)


_EULER: Final = 0.57721566490153286
_ROOT: Final = 1.4616321449683622
_ROOT_REST: Final = 9.549995429965697e-17
"""The positive zero of `digamma` minus `_ROOT`, its nearest double."""
_POWERS: Final = np.arange(2.0, 44.0)
_NEAR_TWO: Final = zeta(_POWERS, np.float64(2)) / _POWERS * np.where(_POWERS % 2 == 0, 1.0, -1.0)
"""Taylor coefficients at 0 of `lgamma(2 + x) - (1 - gamma) x`, for x^2, x^3, …."""
_NEAR_ROOT: Final = zeta(_POWERS, np.float64(_ROOT)) * np.where(_POWERS % 2 == 0, 1.0, -1.0)
"""Taylor coefficients at 0 of `digamma(root + x)`, for x, x^2, …."""


def _series(terms: Any, x: Any) -> Any:
    """Return the polynomial `sum of terms[k] x^k`, by Horner's scheme."""
    total = np.zeros_like(x)
    for term in terms[::-1]:
        total = term + x * total
    return total


def lgamma(x: Any) -> Any:
    """Return the logarithm of the magnitude of the gamma function at x.

    >>> lgamma(np.float64([4, 0, -0.5])).round(4).tolist()
    [1.7918, inf, 1.2655]
    """
    infinite = (x <= 0) & (x == np.floor(x)) | (x > 2.5e305)
    # At its zeros, 1 and 2, the library function loses relative accuracy; a Taylor series does not.
    near = (x > 0.5) & (x < 2.5)
    rest = _lgamma(np.where(infinite | near, 1.0, x))
    if near.any():
        first = near & (x < 1.5)
        z = np.where(near, np.where(first, x - 1, x - 2), 0.0)
        series = z * ((1 - _EULER) + z * _series(_NEAR_TWO, z))
        rest = np.where(near, np.where(first, series - np.log1p(z), series), rest)
    return np.where(infinite, np.inf, rest)


def digamma(x: Any) -> Any:
    """Return the derivative of `lgamma` at x.

    >>> digamma(np.float64([1, 0.5, -1])).round(4).tolist()
    [-0.5772, -1.9635, nan]
    """
    # `digamma(1 - x) = digamma(x) + pi / tan(pi x)` leads to arguments above 1/2.
    reflected = x < 0.5
    z = np.where(reflected, 1 - x, x)
    result = _asymptotic_digamma(z)
    # Near the zero the asymptotic series would cancel.
    near = np.abs(z - _ROOT) < 0.5
    if near.any():
        offset = np.where(near, (z - _ROOT) - _ROOT_REST, 0.0)
        result = np.where(near, offset * _series(_NEAR_ROOT, offset), result)
    rest = x - np.round(x)
    tangent = np.tan(np.pi * np.where(reflected & (rest != 0), rest, 0.25))  # of period 1 in x
    result = np.where(reflected, result - np.pi / tangent, result)
    return np.where((x <= 0) & (rest == 0), np.nan, result)


def _asymptotic_digamma(z: Any) -> Any:
    """Return `digamma` by its asymptotic series, after shifting the argument to 10 or more."""
    steps = np.zeros_like(z)
    for _ in range(10):
        low = z < 10
        steps = steps - np.where(low, 1 / z, 0.0)
        z = np.where(low, z + 1, z)
    square = 1 / (z * z)
    series = np.zeros_like(z)
    for k in range(len(_BERNOULLI), 0, -1):
        series = square * (_BERNOULLI[k - 1] / (2 * k) + series)
    return steps + (np.log(z) - 0.5 / z - series)


def polygamma(n: Any, x: Any) -> Any:
    """Return the `n`-th derivative of `digamma`; NaN unless `n` is a whole number, 0 or more.

    >>> polygamma(np.float64([0, 1, 2, 0.5]), np.float64(1)).round(4).tolist()
    [-0.5772, 1.6449, -2.4041, nan]
    """
    n, x = np.broadcast_arrays(n, x)
    sign = np.where(n % 2 == 0, -1.0, 1.0)
    result = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
    result = np.where(n == 0, digamma(x), result)
    return np.where((n < 0) | (n != np.floor(n)), np.nan, result)


def erf_inv(y: Any) -> Any:
    """Return the `x` with `erf(x) = y`: an estimate, refined by Halley's method.

    Source of the estimate: S. Winitzki, "A handy approximation for the error function and its
    inverse" (2008).

    >>> erf_inv(np.float64([0.5, -1, 2])).round(4).tolist()
    [0.4769, -inf, nan]
    """
    size = np.abs(y)
    inside = (size < 1) & (size > 1e-8)
    x = np.asarray(np.where(size <= 1e-8, size * (math.sqrt(math.pi) / 2), np.inf))
    for part, missed in (
        (inside & (size < 0.5), _residual_small),
        (inside & (size >= 0.5), _residual),
    ):
        if part.any():
            x[part] = _refined(np.asarray(size)[part], missed)
    return np.where(size <= 1, np.copysign(x, y), np.nan)


def _residual_small(x: Any, y: Any) -> Any:
    return erf(x) - y


def _residual(x: Any, y: Any) -> Any:
    return (1 - y) - erfc(x)  # near 1, `1 - y` is exact, and `erf(x)` would be rounded


def _refined(y: Any, missed: Function) -> Any:
    """Return `x` with `erf(x) = y`, for `y >= 0`: an estimate and two steps of Halley's method.

    `missed` returns `erf(x) - y` for `x` and `y`.
    """
    logarithm = np.log1p(-y * y)
    half = 2 / (np.pi * 0.147) + logarithm / 2
    x = np.sqrt(np.sqrt(half * half - logarithm / 0.147) - half)
    for _ in range(2):
        step = missed(x, y) * (math.sqrt(math.pi) / 2) * np.exp(x * x)
        x = x - step / (1 + x * step)
    return x


def bessel_i1e(x: Any) -> Any:
    """Return `exp(-|x|) I1(x)`, by the power series below 30, else by the asymptotic series.

    >>> bessel_i1e(np.float64([0, 1, -30])).round(4).tolist()
    [0.0, 0.2079, -0.0719]
    """
    size = np.abs(x)
    near = np.where(size < 30, size, 0.0)
    quarter = near * near / 4
    term = near / 2 * np.exp(-near)
    total = term
    for k in range(1, 80):
        term = term * quarter / (k * (k + 1))
        total = total + term
    far = np.where(size < 30, 30.0, size)
    term = np.ones_like(far)
    series = term
    for k in range(1, 30):
        term = term * ((2 * k - 1) ** 2 - 4) / (8 * k * far)
        series = series + term
    series = np.where(np.isinf(far), 0.0, series / np.sqrt(2 * np.pi * far))
    return np.copysign(np.where(size < 30, total, series), x)


# --------------------------------------------------------------------------------------------------
# Transcendental functions that numpy has for floats and for complex numbers.


TRANSCENDENTAL: Final[dict[str, np.ufunc]] = {
    "log": np.log,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "power": np.power,
    "chlo.acos": np.arccos,
    "chlo.acosh": np.arccosh,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.sinh": np.sinh,
}
"""Numpy ufunc by the name of the op."""


# --------------------------------------------------------------------------------------------------
# Elementwise functions of floats, one for each op and numpy type.
#
# Inexact functions are computed in double precision and rounded once.  Functions take arrays of any
# shape, and numpy scalars, which loop counters are, on a faster path. Source: StableHLO spec.


def _sign(x: Any) -> Any:
    """Return the sign of x: ±1, ±0 or NaN."""
    size = np.copysign((x != 0).astype(x.dtype), x)
    return np.where(x == x, size, x)


def _round_half_away(x: Any) -> Any:
    """Return the nearest integer; halves are rounded away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign((abs(x - whole) >= 0.5).astype(x.dtype), x)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _asin_acos_kernel(x: Any) -> Any:
    """Return the function `_asin_acos_kernel` of complex numbers, at a real number x.

    It is the real part if `|x| <= 1`, else the imaginary part; the other part is 0.
    """
    size = np.abs(x)
    outside = np.arccosh(np.where(size > 1, size, 1.0))
    return np.where(size > 1, outside, np.sqrt((1 - x) * (1 + x)))


_OPERATORS: Final[dict[str, Function]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "abs": abs,
    "chlo.conj": operator.pos,
    "chlo.next_after": np.nextafter,
    "chlo.square": np.square,
}
_EXACT: Final[dict[str, Function]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_nearest_even": np.rint,
    "remainder": np.fmod,
    "sqrt": np.sqrt,
    "sign": _sign,
    "round_nearest_afz": _round_half_away,
}
_BY_DOUBLE: Final[dict[str, np.ufunc]] = {
    **TRANSCENDENTAL,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log_plus_one": np.log1p,
    "cbrt": np.cbrt,
    "atan2": np.arctan2,
}
_SPECIAL: Final[dict[str, Function]] = {
    "erf": erf,
    "rsqrt": _rsqrt,
    "chlo.bessel_i1e": bessel_i1e,
    "chlo.digamma": digamma,
    "chlo.erfc": erfc,
    "chlo.erf_inv": erf_inv,
    "chlo.lgamma": lgamma,
    "chlo.polygamma": polygamma,
    "chlo.zeta": zeta,
    "chlo._asin_acos_kernel": _asin_acos_kernel,
}
_BLOCK: Final = 1 << 15
"""Number of elements of a block; `rounded` converts one block at a time to doubles."""
_WITHOUT_INFINITY: Final = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e8m0fnu")


def float_function(name: str, dtype: Any) -> Function | None:
    """Return the function of the op `name` for a float dtype; `None` if the op has none.

    >>> float_function("exponential", np.dtype("float32"))(np.float32([0, 1])).tolist()
    [1.0, 2.7182817459106445]
    """
    match name:
        case "maximum" | "minimum":
            return _extremum(name == "maximum", dtype)
        case "logistic":
            return _logistic(dtype)
        case "chlo.cosh" | "chlo.sinh" if dtype == np.float32:
            return _cosh if name == "chlo.cosh" else _sinh
        case "erf" if dtype != np.float64:
            return rounded(erf_of_narrow, dtype)
    if name in _BY_DOUBLE:
        return by_double(_BY_DOUBLE[name], dtype)
    if name in _SPECIAL:
        return rounded(_SPECIAL[name], dtype)
    function = _OPERATORS.get(name) or _EXACT.get(name)
    if function is None or is_native(dtype):
        return function
    if name in _OPERATORS and dtype.name not in _WITHOUT_INFINITY:
        return function
    return rounded(function, dtype)


def by_double(ufunc: np.ufunc, dtype: Any) -> Function:
    """Return a function that computes a numpy ufunc in double precision.

    The operands are not copied as a whole.
    """
    if dtype == np.float64:
        return ufunc
    if dtype != np.float32:
        return rounded(ufunc, dtype)

    def unary(x: Any) -> Any:
        if x.ndim == 0:
            return np.float32(ufunc(float(x)))
        result = np.empty(x.shape, np.float32)
        return ufunc(x, out=result, dtype=np.float64, casting="unsafe")

    def binary(a: Any, b: Any) -> Any:
        if a.ndim == b.ndim == 0:
            return np.float32(ufunc(float(a), float(b)))
        result = np.empty(np.broadcast_shapes(a.shape, b.shape), np.float32)
        return ufunc(a, b, out=result, dtype=np.float64, casting="unsafe")

    return unary if ufunc.nin == 1 else binary


def rounded(function: Function, dtype: Any) -> Function:
    """Return a function of doubles as a function of the float type `dtype`.

    Results are rounded once.

    Large arrays are computed block by block, so that few doubles are in memory at a time.
    """
    if dtype == np.float64:
        return function
    to_dtype = rounds_to(dtype)

    def kernel(*operands: Any) -> Any:
        first = operands[0]
        if first.size <= _BLOCK or any(x.shape != first.shape for x in operands):
            return to_dtype(function(*[x.astype(np.float64) for x in operands]))
        flat = [x.reshape(-1) for x in operands]
        result = np.empty(first.size, dtype)
        for start in range(0, first.size, _BLOCK):
            part = [x[start : start + _BLOCK].astype(np.float64) for x in flat]
            result[start : start + _BLOCK] = to_dtype(function(*part))
        return result.reshape(first.shape)

    return kernel


_exp: Final = by_double(np.exp, np.dtype("float32"))
_LOG_HALF: Final = np.float32(np.log(0.5))
_expm1: Final = by_double(np.expm1, np.dtype("float32"))


def _logistic(dtype: Any) -> Function:
    """Return the function `1 / (1 + exp(-x))`, whose specification rounds each step."""
    exponential = by_double(np.exp, dtype)
    one = dtype.type(1)

    def logistic(x: Any) -> Any:
        return one / (one + exponential(-x))

    return logistic


def _cosh(x: Any) -> Any:
    """Return `cosh` computed in `float32` steps, as JAX does; it is wrong by some ULPs."""
    return _exp(x + _LOG_HALF) + _exp(_LOG_HALF - x)


def _sinh(x: Any) -> Any:
    """Return `sinh` computed in `float32` steps, as JAX does; it is wrong by some ULPs."""
    small = _expm1(x)
    small = np.float32(0.5) * (small + small / (small + np.float32(1)))
    return np.where(np.abs(x) < 1, small, _exp(x + _LOG_HALF) - _exp(_LOG_HALF - x))


def _extremum(is_maximum: bool, dtype: Any) -> Function:
    """Return the function for the maximum or minimum of two numbers.

    It is NaN if an operand is NaN, and -0 counts as less than +0.
    """
    ufunc = np.maximum if is_maximum else np.minimum
    wins = operator.gt if is_maximum else operator.lt
    both = operator.and_ if is_maximum else operator.or_
    zero, minus = dtype.type(0), dtype.type(-0.0)

    def extremum(a: Any, b: Any) -> Any:
        if a.ndim == b.ndim == 0:
            if wins(a, b) or a != a:
                return a
            if a != 0 or b != 0:
                return b
        result = ufunc(a, b)
        is_zero = result == 0
        if is_zero.any():
            signed = np.where(both(np.signbit(a), np.signbit(b)), minus, zero)
            result = np.where(is_zero, signed, result)
        return result

    return extremum


def total_order(dtype: Any) -> Function:
    """Return a function from floats to integers that are ordered like IEEE 754's `totalOrder`.

    It works on the bit patterns, because payloads of NaNs count, which a conversion of 8-bit floats
    to float32 would lose.

    >>> total_order(np.dtype("float32"))(np.float32([-0.0, 0, np.nan])).tolist()
    [-1, 0, 2143289344]
    """
    name = dtype.name
    if name == "float8_e8m0fnu":  # without a sign
        return lambda x: np.asarray(x).view(np.uint8)
    bits = np.dtype(f"i{dtype.itemsize}").type
    sign = bits(8 * dtype.itemsize - 1)
    size = bits(np.iinfo(bits).max)
    # Floats of 4 and 6 bits are the low bits of a byte.
    unused = 8 * dtype.itemsize - int(ml_dtypes.finfo(dtype).bits)

    def key(x: Any) -> Any:
        own = np.asarray(x).astype(dtype, copy=False).view(bits)
        if unused:
            own = np.left_shift(own, unused)
        return own ^ ((own >> sign) & size)

    if not name.endswith("fnuz"):
        return key
    # In these types the pattern of -0 is the NaN, which XLA orders before all numbers.  Its key
    # would be -1, so it gets an integer below those of all numbers instead.
    return lambda x: np.where(np.isnan(x), np.iinfo(bits).min - 1, key(x).astype(np.int16))
