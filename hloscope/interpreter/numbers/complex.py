"""Elementwise functions of complex numbers, one for each op and numpy type.

Inexact functions are computed in double precision; for `complex64` the result is rounded once.
Source: StableHLO spec.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.interpreter.numbers.floats import TRANSCENDENTAL

Function = Callable[..., Any]

_OPERATORS: Final[dict[str, Function]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": operator.neg,
    "chlo.conj": np.conj,
}
_NUMPY: Final[dict[str, Function]] = {
    **TRANSCENDENTAL,
    "abs": np.abs,
    "sqrt": np.sqrt,
}


def complex_function(name: str, dtype: Any) -> Function | None:
    """Return the function of the op `name` for a complex dtype; `None` if the op has none.

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
    """Return `function` computed in double precision and rounded once."""

    def kernel(*operands: Any) -> Any:
        result = function(*[x.astype(np.complex128) for x in operands])
        return result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)

    return kernel


def _extremum(wins: Function) -> Function:
    """Return a function that selects one of two numbers, by real parts, then by imaginary parts.

    `wins` compares two real numbers: true if the first one is selected.
    """
    before = lexicographic(wins, wins)

    return lambda a, b: np.where(before(a, b), a, b)


def lexicographic(strictly: Function, last: Function) -> Function:
    """Return a comparison of complex numbers: by real parts, if these are equal by imaginary parts.

    `strictly` compares the real parts, `last` the imaginary parts.
    """

    def compare(a: Any, b: Any) -> Any:
        return strictly(a.real, b.real) | ((a.real == b.real) & last(a.imag, b.imag))

    return compare


def _divide(z: Any, w: Any) -> Any:
    """Return the quotient of complex numbers.

    Infinity over a finite number is infinite, a finite number over infinity is zero.

    Source: ISO C, annex G.5.1.
    """
    quotient = np.asarray(z / w)
    # Numpy returns NaN + NaN i for these cases, although their magnitude is known.
    lost = np.isnan(quotient.real) & np.isnan(quotient.imag) | (w == 0)
    if not lost.any():
        return quotient[()]
    z, w = np.broadcast_arrays(z, w)
    infinite_z, infinite_w = (np.isinf(x.real) | np.isinf(x.imag) for x in (z, w))
    over_zero = np.copysign(np.inf, w.real)
    result = np.where(w == 0, _of_parts(over_zero * z.real, over_zero * z.imag), quotient)
    over_number = lost & infinite_z & np.isfinite(w) & (w != 0)
    over_infinity = lost & infinite_w & np.isfinite(z)
    (a, b), (c, d) = _unit(z, infinite_z), _unit(w, infinite_w)
    size = np.where(over_number, np.inf, 0.0)
    found = _of_parts(size * (a * c + b * d), size * (b * c - a * d))
    return np.where(over_number | over_infinity, found, result)


def _unit(z: Any, infinite: Any) -> tuple[Any, Any]:
    """Return real and imaginary parts of z, with infinite z replaced by a finite direction.

    Where `infinite` is true, infinite parts become 1 and finite ones 0; signs stay.
    """
    parts = z.real, z.imag
    units = [np.copysign(np.where(np.isinf(x), 1.0, 0.0), x) for x in parts]
    return np.where(infinite, units[0], z.real), np.where(infinite, units[1], z.imag)


def _atan2(y: Any, x: Any) -> Any:
    """Return `-i log((x + i y) / sqrt(x² + y²))`, as the specification defines `atan2`."""
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _of_parts(real: Any, imag: Any) -> Any:
    """Return complex numbers with these real and imaginary parts.

    A sum `real + 1j * imag` would lose signed zeros and infinities.
    """
    result = np.empty((*np.broadcast_shapes(real.shape, imag.shape), 2))
    result[..., 0] = real
    result[..., 1] = imag
    return result.view(np.complex128)[..., 0]


def _exp(z: Any) -> Any:
    """Return `exp(z)`, also where `exp(x)` overflows but its product with cos or sin does not."""
    x, y = z.real, z.imag
    size = np.exp(x)
    half = np.exp(x / 2)  # twice: where `exp(x)` overflows, a product with it need not
    overflows = np.isinf(size)
    real = np.where(overflows, half * np.cos(y) * half, size * np.cos(y))
    imag = np.where(overflows, half * np.sin(y) * half, size * np.sin(y))
    return _of_parts(np.where(y == 0, size, real), np.where(y == 0, y, imag))


def _expm1(z: Any) -> Any:
    """Return `exp(z) - 1` without cancellation near 0: `cos(y) - 1 = -2 sin²(y / 2)`."""
    x, y = z.real, z.imag
    half = np.sin(y / 2)
    whole = _exp(z)
    real = np.where(x < 1, np.expm1(x) * np.cos(y) - 2 * half * half, whole.real - 1)
    return _of_parts(np.where(y == 0, np.expm1(x), real), whole.imag)


def _log1p(z: Any) -> Any:
    """Return `log(1 + z)`; near 0 from `|1 + z|² - 1`, summed in twice the precision."""
    x, y = z.real, z.imag
    is_far = ~((np.abs(x) < 4) & (np.abs(y) < 4))
    a, b = np.where(is_far, 0.0, x), np.where(is_far, 0.0, y)
    # `|1 + z|² - 1 = 2x + x² + y²`, whose terms may cancel almost completely.
    excess = _exact_sum(2 * a, *_exact_product(a, a), *_exact_product(b, b))
    near = np.where(excess > -0.75, 0.5 * np.log1p(excess), np.log(np.hypot(1 + a, b)))
    far = np.log(np.hypot(x / 2 + 0.5, y / 2)) + np.log(2.0)
    return _of_parts(np.where(is_far, far, near), np.arctan2(y, 1 + x))


def _exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product, and its rounding error.

    Source: T. J. Dekker, 1971.
    """
    product = a * b
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _halves(a: Any) -> tuple[Any, Any]:
    """Return the upper and the lower half of the bits of doubles; their sum is exact."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _exact_sum(*terms: Any) -> Any:
    """Return the sum of the terms, rounded as if computed with twice the bits.

    Source: Ogita, Rump and Oishi, 2005.
    """
    total, lost = terms[0], 0.0
    for term in terms[1:]:
        new = total + term
        part = new - total
        lost = lost + ((total - (new - part)) + (term - part))
        total = new
    return total + lost


def _square(z: Any) -> Any:
    """Return `z²` of `z = x + iy`, whose real part is 0 if `|x| = |y|`."""
    x, y = z.real, z.imag
    is_zero = (np.abs(x) == np.abs(y)) & np.isfinite(x)
    return _of_parts(np.where(is_zero, 0.0, (x - y) * (x + y)), 2 * (x * y))


def _asin_acos_kernel(z: Any) -> Any:
    """Return `sqrt(a² - x²) + i log(a + sqrt(a² - 1))`, `a = (|z + 1| + |z - 1|) / 2`.

    The real and imaginary parts are the magnitudes of the real part of `sqrt(1 - z²)` and the
    imaginary part of `asin(z)`.
    """
    real = (np.sqrt(1 - z) * np.sqrt(1 + z)).real
    return _of_parts(np.abs(real), np.abs(np.arcsin(z).imag))


def _rsqrt(z: Any) -> Any:
    return _divide(np.complex128(1), np.sqrt(z))


def _sign(x: Any) -> Any:
    size = np.abs(x)
    return np.where(size == 0, x, x / np.where(size == 0, 1, size))


def _logistic(x: Any) -> Any:
    return _divide(np.complex128(1), 1 + _exp(-x))


def _cbrt(x: Any) -> Any:
    return np.power(x, 1 / 3)


_OWN: Final[dict[str, Function]] = {
    "atan2": _atan2,
    "divide": _divide,
    "exponential": _exp,
    "exponential_minus_one": _expm1,
    "log_plus_one": _log1p,
    "chlo.square": _square,
    "chlo._asin_acos_kernel": _asin_acos_kernel,
    "rsqrt": _rsqrt,
    "sign": _sign,
    "logistic": _logistic,
    "cbrt": _cbrt,
}
