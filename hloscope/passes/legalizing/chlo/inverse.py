"""Inverse trigonometric and hyperbolic functions of real and complex numbers.

Real functions are rewritten to avoid cancellation and overflow.  Complex ones use Hull's
algorithm with fewer regions (T. E. Hull, T. F. Fairgrieve, P. T. P. Tang, TOMS 23 (1997) 299),
and `atanh` one region for each vanishing term.

Source: StableHLO `ChloDecompositionPatternsMath.td`.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hloscope.passes.legalizing.chlo.expansions import Expansion
from hloscope.passes.legalizing.chlo.terms import (
    Term,
    atan2,
    complex_,
    imag,
    log,
    log1p,
    maximum,
    minimum,
    real,
    select,
    sign,
    sqrt,
)

# -------------------------------------------------------------------------------------------- real


def acos(x: Term) -> Term:
    """`atan2(sqrt(1 - x²), x)`."""
    one = x.number(1.0)
    return atan2(sqrt((one - x) * (one + x)), x)


def asin(x: Term) -> Term:
    """`2 atan(x / (1 + sqrt(1 - x²)))`."""
    one = x.number(1.0)
    half = atan2(x, one + sqrt((one - x) * (one + x)))
    return half + half


def atan(x: Term) -> Term:
    """`atan2(x, 1)`."""
    return atan2(x, x.number(1.0))


def acosh(x: Term) -> Term:
    """`log(x + sqrt(x² - 1))`; for the largest numbers `log 2x`."""
    largest = x.limit("largest")
    two = x.number(2.0)
    # `2x` would overflow, so that its logarithm is a sum.
    is_large = x >= largest / two
    large = log(two) + log(x)
    one = x.number(1.0)
    root = sqrt(x - one)
    return select(is_large, large, log1p(root * (sqrt(x + one) + root)))


def asinh(x: Term) -> Term:
    """`sign(x) log(|x| + sqrt(x² + 1))`; for the largest numbers `log 2|x|`."""
    sign_of, size = sign(x), abs(x)
    # `x²` would overflow.
    is_large = size >= sqrt(x.limit("largest"))
    large = log(x.number(2.0)) + log(size)
    squared = size * size
    one = x.number(1.0)
    return sign_of * select(is_large, large, log1p(size + squared / (one + sqrt(one + squared))))


def atanh(x: Term) -> Term:
    """`(log(1 + x) - log(1 - x)) / 2`."""
    outside = abs(x) > 1.0
    return select(outside, x.limit("nan"), (log1p(x) - log1p(-x)) * 0.5)


# ----------------------------------------------------------------------------------------- complex


class _Constants(NamedTuple):
    """Constants that both hypotenuses of the kernel use, created at their first use."""

    one: Term
    zero: Term
    two: Term
    root_two: Term


def _hypot(
    size: Term, y: Term, known: _Constants | None, x: Term, one: Term
) -> tuple[Term, _Constants]:
    """Return `sqrt(size² + y²)` of non-negative numbers, without intermediate overflow."""
    large, small = maximum(size, y), minimum(size, y)
    is_equal = large.eq(small)
    root_two = x.constant(math.sqrt(2.0)) if known is None else known.root_two
    # The order of these lines is the order of the ops upstream creates.
    diagonal = root_two * large
    ratio = small / large
    squared = ratio * ratio
    root = sqrt(one + squared)
    is_one = root.eq(one)
    zero = x.constant(0.0) if known is None else known.zero
    # A ratio whose square vanishes beside 1 still counts: its first series term is added.
    is_lost = is_one & (squared > zero)
    part = large * squared
    two = x.constant(2.0) if known is None else known.two
    made = select(is_equal, diagonal, select(is_lost, large + part / two, large * root))
    return made, _Constants(one, zero, two, root_two)


def asin_acos_kernel(z: Term) -> Term:
    """Return the part that complex inverse functions share, for `|x| + i|y|`.

    The real part is the other leg of the triangle with the requested angle.  The imaginary part is
    `log(a + sqrt(a² - 1))`, where `a` is half the sum of the distances from 1 and -1.
    """
    signed_x = real(z)
    x = abs(signed_x)
    signed_y = imag(z)
    y = abs(signed_y)
    either = maximum(x, y)
    # Beyond `safe_max` squares overflow; there, `log(2 |z|)` is accurate.
    safe_max = sqrt(signed_x.limit("largest")) / signed_x.constant(8.0)
    is_large = either >= safe_max
    one = signed_x.constant(1.0)
    is_inside = x <= one
    half = signed_x.constant(0.5)
    x_plus = x + one
    right, known = _hypot(abs(x_plus), y, None, signed_x, one)
    x_minus = x - one
    left, _ = _hypot(abs(x_minus), y, known, signed_x, one)
    a = half * (right + left)
    half_sum = half * (a + x)
    yy = y * y
    right_sum = right + x_plus
    right_part = yy / right_sum
    left_difference = left - x_minus
    # Inside the unit strip `left - (x - 1)` does not cancel; outside, `left + (x - 1)` does not.
    inside = sqrt(half_sum * (right_part + left_difference))
    half_part = half_sum / right_sum
    left_sum = left + x_minus
    outside = y * sqrt(half_part + half_sum / left_sum)
    leg = select(is_large, y, select(is_inside, inside, outside))
    threshold = select(
        x < safe_max * signed_x.constant(1e12),
        safe_max * signed_x.constant(1e-6),
        safe_max * signed_x.constant(1e2),
    )
    is_tall = y >= threshold
    longest = select(is_tall, y, x)
    is_far = longest >= select(is_tall, threshold, safe_max)
    logs = log(known.two) + log(longest)
    ratio = select(is_tall & ~y.eq(signed_y.limit("inf")), x / y, known.zero)
    far = logs + half * log1p(ratio * ratio)
    # `a - 1` cancels near 1: each region computes it by a formula without that difference.
    is_flat = (y < sqrt(signed_x.limit("normal")) * signed_x.constant(4.0)) & (x < one)
    product = x_plus * x_minus
    a_plus = a + one
    flat = -(product / a_plus)
    is_right = x >= one
    half_yy = half * yy
    part = half_yy / right_sum
    beyond = part + half * left_sum
    near = select(a <= signed_x.constant(1.5), part + half_yy / left_difference, a - one)
    a_minus = select(is_flat, flat, select(is_right, beyond, near))
    root = sqrt(a_minus * a_plus)
    return complex_(leg, select(is_far, far, select(is_flat, y / root, log1p(a_minus + root))))


def complex_asin(z: Term) -> Term:
    """Expand to `atan2(x, leg)`, and the logarithm with the sign of `y`."""
    x = real(z)
    w = asin_acos_kernel(z)
    angle = atan2(x, real(w))
    is_below = imag(z) < x.constant(0.0)
    length = imag(w)
    return complex_(angle, select(is_below, -length, length))


def complex_acos(z: Term) -> Term:
    """Expand to `atan2(leg, x)`, and the logarithm with the opposite sign of `y`."""
    w = asin_acos_kernel(z)
    angle = atan2(real(w), real(z))
    y = imag(z)
    is_below = y < y.constant(0.0)
    length = imag(w)
    return complex_(angle, select(is_below, length, -length))


def complex_acosh(z: Term) -> Term:
    """Expand to `acos`, rotated by 90 degrees."""
    w = asin_acos_kernel(z)
    length = imag(w)
    y = imag(z)
    is_below = y < y.constant(0.0)
    angle = atan2(real(w), real(z))
    return complex_(length, select(is_below, -angle, angle))


def complex_asinh(z: Term) -> Term:
    """Expand to `-i asin(iz)`."""
    x = real(z)
    is_left = x < x.constant(0.0)
    y = imag(z)
    w = asin_acos_kernel(complex_(-y, x))
    length = imag(w)
    return complex_(select(is_left, -length, length), atan2(y, real(w)))


def complex_atanh(z: Term) -> Term:
    """Expand to `log1p(4x / ((1 - x)² + y²)) / 4`, and half the difference of two angles."""
    x = real(z)
    zero = x.constant(0.0)
    is_right = x >= zero
    one = x.constant(1.0)
    minus_one = x.constant(-1.0)
    side = select(is_right, one, minus_one)
    four = x.constant(4.0)
    width = abs(x)
    largest = x.limit("largest")
    in_double = largest > x.constant(1e308)
    double = x.constant(9007199254740994.0)
    in_single = largest > x.constant(1e38)
    safe = select(in_double, double, select(in_single, x.constant(16777218.0), x.constant(2050.0)))
    # Below `safe_squared` no square overflows.  Above it, the smaller terms vanish beside the
    # larger ones and are left out.
    safe_squared = safe * safe
    is_narrow = width < safe_squared
    y = imag(z)
    height = abs(y)
    is_safe = is_narrow & (height < safe_squared)
    rest = one - width
    rest_squared = rest * rest
    yy = y * y
    near = width / (rest_squared + yy)
    is_flat = height * safe < width
    flat = one / width
    inf = x.limit("inf")
    is_inf = x.eq(inf)
    minus_inf = x.limit("-inf")
    is_infinite = (is_inf | x.eq(minus_inf)) | (y.eq(inf) | y.eq(minus_inf))
    far = select(is_infinite, zero, (one / (width / y + y / width)) / y)
    length = side * log1p(four * select(is_safe, near, select(is_flat, flat, far)))
    length = length * x.constant(0.25)
    angle = atan2(y + y, rest * (one + width) - yy)
    upper = select(y >= y.constant(0.0), one, minus_one)
    return complex_(length, select(is_safe, angle, upper * x.constant(math.pi)) * x.constant(0.5))


def complex_atan(z: Term) -> Term:
    """Expand to `-i atanh(iz)`."""
    w = complex_atanh(complex_(-imag(z), real(z)))
    return complex_(imag(w), -real(w))


ROWS: Final = (
    Expansion("_asin_acos_kernel", None, complex=asin_acos_kernel),
    Expansion("acos", acos, complex=complex_acos),
    Expansion("acosh", acosh, complex=complex_acosh),
    Expansion("asin", asin, complex=complex_asin),
    Expansion("asinh", asinh, complex=complex_asinh),
    Expansion("atan", atan, complex=complex_atan),
    Expansion("atanh", atanh, complex=complex_atanh),
)
