"""Elementwise functions of floats, one for each op and numpy type.

Inexact functions are computed in double precision and rounded once.  Functions take arrays of any
shape, and numpy scalars, which loop counters are, on a faster path.
Source: StableHLO spec.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.arrays import ml_dtypes
from hloscope.interpreter.numbers import special
from hloscope.interpreter.numbers.rounding import is_native, rounds_to
from hloscope.interpreter.numbers.transcendental import TRANSCENDENTAL

Function = Callable[..., Any]


def _sign(x: Any) -> Any:
    """Sign of x: ±1, ±0 or NaN."""
    size = np.copysign((x != 0).astype(x.dtype), x)
    return np.where(x == x, size, x)


def _afz(x: Any) -> Any:
    """Nearest integer; halves are rounded away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign((abs(x - whole) >= 0.5).astype(x.dtype), x)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _asin_acos_kernel(x: Any) -> Any:
    """The complex kernel at a real number: its real part if `|x| <= 1`, else its imaginary part."""
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
    "round_nearest_afz": _afz,
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
    "erf": special.erf,
    "rsqrt": _rsqrt,
    "chlo.bessel_i1e": special.bessel_i1e,
    "chlo.digamma": special.digamma,
    "chlo.erfc": special.erfc,
    "chlo.erf_inv": special.erf_inv,
    "chlo.lgamma": special.lgamma,
    "chlo.polygamma": special.polygamma,
    "chlo.zeta": special.zeta,
    "chlo._asin_acos_kernel": _asin_acos_kernel,
}
_BLOCK: Final = 1 << 15
"""Number of elements that are converted to doubles at a time."""
_WITHOUT_INFINITY: Final = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e8m0fnu")


def float_function(name: str, dtype: Any) -> Function | None:
    """Return the function of an op for a float type; `None` if the op has none.

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
            return rounded(special.erf_of_narrow, dtype)
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
    """Return a numpy function computed in double precision, without a copy of the operands."""
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
    """Return a function of doubles as one of a float type, rounded once.

    Large arrays are computed block by block, so that few doubles exist at a time.
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
    """`1 / (1 + exp(-x))`, each step rounded, as the specification defines it."""
    exponential = by_double(np.exp, dtype)
    one = dtype.type(1)

    def logistic(x: Any) -> Any:
        return one / (one + exponential(-x))

    return logistic


def _cosh(x: Any) -> Any:
    """`cosh` in `float32` steps, which gives JAX's values; these are some ULPs off."""
    return _exp(x + _LOG_HALF) + _exp(_LOG_HALF - x)


def _sinh(x: Any) -> Any:
    """`sinh` in `float32` steps, which gives JAX's values; these are some ULPs off."""
    small = _expm1(x)
    small = np.float32(0.5) * (small + small / (small + np.float32(1)))
    return np.where(np.abs(x) < 1, small, _exp(x + _LOG_HALF) - _exp(_LOG_HALF - x))


def _extremum(is_maximum: bool, dtype: Any) -> Function:
    """Maximum or minimum; NaN if an operand is NaN, and -0 is less than +0."""
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
    """Return the function to integers in the order of IEEE 754's `totalOrder` of floats.

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
