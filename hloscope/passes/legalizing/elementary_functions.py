"""Elementary functions of CHLO: trigonometric, hyperbolic, their inverses, and bit functions."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import Operation, integer_type, is_signless
from hloscope.passes.conversion import InsertionPoint
from hloscope.passes.legalizing.terms import (
    ANY,
    Expansion,
    Site,
    Term,
    atan2,
    complex_,
    exp,
    expm1,
    imag,
    is_finite,
    log,
    log1p,
    maximum,
    minimum,
    real,
    select,
    sign,
    sqrt,
)
from hloscope.passes.patterns import Pattern
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# Inverse trigonometric and hyperbolic functions of real and complex numbers.
#
# Real functions are rewritten to avoid cancellation and overflow.  Complex ones use Hull's
# algorithm with fewer regions (T. E. Hull, T. F. Fairgrieve, P. T. P. Tang, TOMS 23 (1997) 299),
# and `atanh` one region for each vanishing term.
#
# Source: StableHLO `ChloDecompositionPatternsMath.td`.


# -------------------------------------------------------------------------------------------- real


def acos(x: Term) -> Term:
    """Expand `acos x` to `atan2(sqrt(1 - x²), x)`."""
    one = x.number(1.0)
    return atan2(sqrt((one - x) * (one + x)), x)


def asin(x: Term) -> Term:
    """Expand `asin x` to `2 atan(x / (1 + sqrt(1 - x²)))`."""
    one = x.number(1.0)
    half = atan2(x, one + sqrt((one - x) * (one + x)))
    return half + half


def atan(x: Term) -> Term:
    """Expand `atan x` to `atan2(x, 1)`."""
    return atan2(x, x.number(1.0))


def acosh(x: Term) -> Term:
    """Expand `acosh x` to `log(x + sqrt(x² - 1))`; for the largest numbers to `log 2x`."""
    largest = x.limit("largest")
    two = x.number(2.0)
    # `2x` would overflow, so that its logarithm is a sum.
    is_large = x >= largest / two
    large = log(two) + log(x)
    one = x.number(1.0)
    root = sqrt(x - one)
    return select(is_large, large, log1p(root * (sqrt(x + one) + root)))


def asinh(x: Term) -> Term:
    """Expand `asinh x` to `sign(x) log(|x| + sqrt(x² + 1))`; for the largest to `log 2|x|`."""
    sign_of, size = sign(x), abs(x)
    # `x²` would overflow.
    is_large = size >= sqrt(x.limit("largest"))
    large = log(x.number(2.0)) + log(size)
    squared = size * size
    one = x.number(1.0)
    return sign_of * select(is_large, large, log1p(size + squared / (one + sqrt(one + squared))))


def atanh(x: Term) -> Term:
    """Expand `atanh x` to `(log(1 + x) - log(1 - x)) / 2`."""
    outside = abs(x) > 1.0
    return select(outside, x.limit("nan"), (log1p(x) - log1p(-x)) * 0.5)


# ----------------------------------------------------------------------------------------- complex


class _Constants(NamedTuple):
    """Constants that two square roots in `asin_acos_kernel` share; the first one creates them."""

    one: Term
    zero: Term
    two: Term
    root_two: Term


def _hypot(
    size: Term, y: Term, constants: _Constants | None, x: Term, one: Term
) -> tuple[Term, _Constants]:
    """Return `sqrt(size² + y²)` without overflow, and the constants that it uses.

    Args:
        size: A number that is not negative.
        y: A number that is not negative.
        constants: Constants of a previous call, which are used again; `None` to create them.
        x: Term whose type new constants get.
        one: The constant 1.
    """
    large, small = maximum(size, y), minimum(size, y)
    is_equal = large.eq(small)
    root_two = x.constant(math.sqrt(2.0)) if constants is None else constants.root_two
    # The order of these lines is the order of the ops upstream creates.
    diagonal = root_two * large
    ratio = small / large
    squared = ratio * ratio
    root = sqrt(one + squared)
    is_one = root.eq(one)
    zero = x.constant(0.0) if constants is None else constants.zero
    # A ratio whose square vanishes beside 1 still counts: its first series term is added.
    is_lost = is_one & (squared > zero)
    part = large * squared
    two = x.constant(2.0) if constants is None else constants.two
    made = select(is_equal, diagonal, select(is_lost, large + part / two, large * root))
    return made, _Constants(one, zero, two, root_two)


def asin_acos_kernel(z: Term) -> Term:
    """Return the complex number from which complex `asin`, `acos` and their inverses are computed.

    It is computed for `|x| + i|y|`. The real part is the number `leg` for which `atan2(x, leg)` is
    the real part of `asin`. The imaginary part is `log(a + sqrt(a² - 1))`, where `a` is half the
    sum of the distances from 1 and -1.
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
    """Expand complex `asin z` by `asin_acos_kernel`.

    The real part is `atan2(x, leg)`, the imaginary part the logarithm with the sign of `y`.
    """
    x = real(z)
    w = asin_acos_kernel(z)
    angle = atan2(x, real(w))
    is_below = imag(z) < x.constant(0.0)
    length = imag(w)
    return complex_(angle, select(is_below, -length, length))


def complex_acos(z: Term) -> Term:
    """Expand complex `acos z` by `asin_acos_kernel`.

    The real part is `atan2(leg, x)`, the imaginary part the logarithm with the opposite sign of
    `y`.
    """
    w = asin_acos_kernel(z)
    angle = atan2(real(w), real(z))
    y = imag(z)
    is_below = y < y.constant(0.0)
    length = imag(w)
    return complex_(angle, select(is_below, length, -length))


def complex_acosh(z: Term) -> Term:
    """Expand complex `acosh z` to `acos z`, rotated by 90 degrees."""
    w = asin_acos_kernel(z)
    length = imag(w)
    y = imag(z)
    is_below = y < y.constant(0.0)
    angle = atan2(real(w), real(z))
    return complex_(length, select(is_below, -angle, angle))


def complex_asinh(z: Term) -> Term:
    """Expand complex `asinh z` to `-i asin(iz)`."""
    x = real(z)
    is_left = x < x.constant(0.0)
    y = imag(z)
    w = asin_acos_kernel(complex_(-y, x))
    length = imag(w)
    return complex_(select(is_left, -length, length), atan2(y, real(w)))


def complex_atanh(z: Term) -> Term:
    """Expand complex `atanh z` in terms of `log1p` and `atan2`.

    The real part is `log1p(4x / ((1 - x)² + y²)) / 4`, the imaginary part half the difference of
    two angles.
    """
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
    """Expand complex `atan z` to `-i atanh(iz)`."""
    w = complex_atanh(complex_(-imag(z), real(z)))
    return complex_(imag(w), -real(w))


INVERSE_ROWS: Final = (
    Expansion("_asin_acos_kernel", None, complex=asin_acos_kernel),
    Expansion("acos", acos, complex=complex_acos),
    Expansion("acosh", acosh, complex=complex_acosh),
    Expansion("asin", asin, complex=complex_asin),
    Expansion("asinh", asinh, complex=complex_asinh),
    Expansion("atan", atan, complex=complex_atan),
    Expansion("atanh", atanh, complex=complex_atanh),
)


# --------------------------------------------------------------------------------------------------
# `sinh` and `cosh`, with the factor ½ inside the exponential to avoid overflow.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


def cosh(x: Term) -> Term:
    """Expand `cosh x` to `exp(x + log ½) + exp(log ½ - x)`."""
    half = log(x.number(0.5))
    return exp(x + half) + exp(half - x)


def large_sinh(x: Term) -> Term:
    """Expand `sinh x`, for `|x|` that is not small, to `exp(x + log ½) - exp(log ½ - x)`."""
    half = log(x.number(0.5))
    return exp(x + half) - exp(half - x)


def sinh(x: Term) -> Term:
    """Expand `sinh x`; near 0 with `expm1`, as the difference of exponentials would cancel."""
    large = large_sinh(x)
    less = expm1(x)
    one = x.number(1.0)
    small = x.number(0.5) * (less + less / (less + one))
    return select(abs(x) < one, small, large)


HYPERBOLIC_ROWS: Final = (
    Expansion("cosh", cosh, complex=cosh, in_f32=ANY),
    Expansion("sinh", sinh, complex=large_sinh, in_f32=ANY),
)


# --------------------------------------------------------------------------------------------------
# Small elementwise functions: conjugates, squares, tests for infinities, `tan`.


def same(x: Term) -> Term:
    """Return `x`: a real number is its own conjugate."""
    return x


def conj(z: Term) -> Term:
    """Return the complex conjugate `x - iy` of `z = x + iy`."""
    return complex_(real(z), -imag(z))


def square(x: Term) -> Term:
    """Return `x²`."""
    return x * x


def complex_square(z: Term) -> Term:
    """Return `z²` as `(x - y)(x + y) + 2ixy`; equal finite parts give a real part of 0."""
    x = real(z)
    finite, size = is_finite(x), abs(x)
    y = imag(z)
    equal = finite & size.eq(abs(y))
    return complex_(select(equal, x.constant(0.0), (x - y) * (x + y)), x.constant(2.0) * (x * y))


def tan(x: Term) -> Term:
    """Create a `stablehlo.tan`."""
    return x.make("tan")


def is_inf(x: Term) -> Term:
    """Return whether elements are infinite, of either sign."""
    size = abs(x)
    return size.eq(size.limit("inf"))


def is_pos_inf(x: Term) -> Term:
    """Return whether elements are positive infinity."""
    return x.eq(x.limit("inf"))


def is_neg_inf(x: Term) -> Term:
    """Return whether elements are negative infinity."""
    return x.eq(x.limit("-inf"))


ELEMENTARY_ROWS: Final = (
    Expansion("conj", same, complex=conj),
    Expansion("square", square, complex=complex_square),
    Expansion("tan", tan, complex=tan),
    Expansion("is_inf", is_inf),
    Expansion("is_pos_inf", is_pos_inf),
    Expansion("is_neg_inf", is_neg_inf),
)


# --------------------------------------------------------------------------------------------------
# Functions on the bits of numbers: `next_after`, `mulhi`.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


_U64: Final = ELEMENT_TYPES["u64"]


def next_after(x: Term, y: Term) -> Term:
    """Return the next float after `x` in the direction of `y`."""
    element = x.element
    integer = integer_type(f"i{element.bits}")
    assert integer is not None
    x_bits, y_bits = x.bits(integer), y.bits(integer)
    is_nan = x.ne(x) | y.ne(y)
    nan = x.limit("nan").bits(integer)
    sign_mask = x_bits.constant(1 << (element.bits - 1))
    rest_mask = x_bits.constant((1 << (element.bits - 1)) - 1)
    # The bits of floats of one sign are in the order of their sizes, so that the next float is one
    # integer away.
    x_size, y_size = x_bits & rest_mask, y_bits & rest_mask
    is_same = x.eq(y)
    zero = x_bits.constant(0)
    x_is_zero, y_is_zero = x_size.eq(zero), y_size.eq(zero)
    x_sign, y_sign = x_bits & sign_mask, y_bits & sign_mask
    one = x_bits.constant(1)
    smallest = y_sign | one
    signs_differ = x_sign.ne(y_sign)
    is_smaller = (x_size > y_size) | signs_differ
    beside = x_bits + select(is_smaller, x_bits.constant(-1), one)
    # From zero the next float is the smallest one, with the sign of `y`.
    from_zero = select(y_is_zero, y_bits, smallest)
    made = select(x_is_zero, from_zero, beside)
    made = select(is_same, y_bits, made)
    return select(is_nan, nan, made).bits(element)


def _shifted(x: Term, bits: int) -> Term:
    return x.make("shift_right_logical", x.constant(bits))


def narrow_mulhi(x: Term, y: Term) -> Term:
    """Return the upper half of the product of integers, computed in twice the width."""
    element = x.element
    kind = "ui" if element.kind == "unsigned" else "i" if is_signless(element) else "si"
    wide = integer_type(f"{kind}{2 * element.bits}")
    assert wide is not None
    product = x.convert(wide) * y.convert(wide)
    name = "shift_right_logical" if kind == "ui" else "shift_right_arithmetic"
    return product.own.make(name, product.own.constant(element.bits)).convert(element)


def unsigned_mulhi(x: Term, y: Term) -> Term:
    """Return the upper half of the product of unsigned 64-bit integers, from 32-bit halves."""
    low = (1 << 32) - 1
    x_high = _shifted(x, 32)
    y_high = _shifted(y, 32)
    high = x_high * y_high
    x_low = x & x.constant(low)
    mixed = x_low * y_high
    y_low = y & y.constant(low)
    # No partial sum overflows: each is at most `(2^32 - 1)² + 2 (2^32 - 1) = 2^64 - 1`.
    carry = mixed + (x_low * y_low).make("shift_right_logical", x.constant(32))
    total = high + carry.make("shift_right_logical", x.constant(32))
    other = x_high * y_low + (carry & x.constant(low))
    return total + other.make("shift_right_logical", x.constant(32))


def signed_mulhi(x: Term, y: Term) -> Term:
    """Return the upper half of the product of signed 64-bit integers.

    It is the unsigned one, corrected for negative factors.
    """
    made = unsigned_mulhi(x.convert(_U64), y.convert(_U64))
    # A negative `x` is read as `x + 2^64`, which adds `y` to the upper half; and vice versa.
    for one, other in ((x, y), (y, x)):
        is_negative = one < one.constant(0)
        taken = other.convert(_U64)
        made = made - select(is_negative, taken, other.convert(_U64).constant(0))
    return made.own.convert(x.element)


def mulhi(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.mulhi`: integers below 64 bits are multiplied in twice the width."""
    types = [value.type for value in op.operands]
    first = types[0]
    if not isinstance(first, TensorType) or any(type != first for type in types):
        return False
    element = first.element
    if element.kind not in ("signed", "unsigned") or element.bits > 64:
        return False
    site = Site(InsertionPoint(rewriter, op))
    x, y = (Term(value, site) for value in op.operands)
    if element.bits < 64:
        made = narrow_mulhi(x, y)
    else:
        made = (unsigned_mulhi if element.kind == "unsigned" else signed_mulhi)(x, y)
    rewriter.replace(op, [made.value])
    return True


BITS_PATTERNS: Final = (Pattern("mulhi", ("chlo.mulhi",), mulhi),)
BITS_ROWS: Final = (Expansion("next_after", next_after),)
