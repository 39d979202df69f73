"""Element-wise functions of complex numbers, one for each op and numpy type.

Functions that are not exact run in double; those of `complex64` round once.
Source: StableHLO spec.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Function = Callable[..., Any]

_OPERATORS: Final[dict[str, Function]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": operator.neg,
    "chlo.conj": np.conj,
}
_NUMPY: Final[dict[str, Function]] = {
    "divide": np.divide,
    "abs": np.abs,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "sqrt": np.sqrt,
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


def complex_function(name: str, dtype: Any) -> Function | None:
    """The function of an op for a complex type; `None` if it has none.

    >>> complex_function("multiply", np.dtype("complex64"))(np.complex64(1j), np.complex64(1j))
    np.complex64(-1+0j)
    """
    if name in _OPERATORS:
        return _OPERATORS[name]
    match name:
        case "maximum":
            return _extremum(operator.gt)
        case "minimum":
            return _extremum(operator.lt)
    function = _NUMPY.get(name) or _OWN.get(name)
    return function if function is None or dtype == np.complex128 else _by_double(function)


def _by_double(function: Function) -> Function:
    def kernel(*operands: Any) -> Any:
        result = function(*[x.astype(np.complex128) for x in operands])
        return result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)

    return kernel


def _extremum(wins: Function) -> Function:
    """The one that is first or last by the real parts, then the imaginary parts."""
    before = lexicographic(wins, wins)

    def extremum(a: Any, b: Any) -> Any:
        return np.where(before(a, b) | _has_nan(a), a, b)

    return extremum


def _has_nan(x: Any) -> Any:
    return np.isnan(x.real) | np.isnan(x.imag)


def lexicographic(strictly: Function, last: Function) -> Function:
    """Comparison of pairs: `strictly` on the real parts, `last` where those are equal."""

    def compare(a: Any, b: Any) -> Any:
        return strictly(a.real, b.real) | ((a.real == b.real) & last(a.imag, b.imag))

    return compare


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _sign(x: Any) -> Any:
    size = np.abs(x)
    return np.where(size == 0, x, x / np.where(size == 0, 1, size))


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _cbrt(x: Any) -> Any:
    return np.power(x, 1 / 3)


_OWN: Final[dict[str, Function]] = {
    "rsqrt": _rsqrt,
    "sign": _sign,
    "logistic": _logistic,
    "cbrt": _cbrt,
}
