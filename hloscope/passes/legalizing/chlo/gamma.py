"""`lgamma`, `digamma`, `zeta` and `polygamma`.

The gamma function uses Lanczos' approximation (`g = 7`, 9 terms) and reflection, zeta the
Euler-Maclaurin formula, and polygamma both.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`; Numerical Recipes in C, 6.1; Cephes `zeta.c`.
"""

from __future__ import annotations

import math
from typing import Final

from hloscope.passes.legalizing.chlo.elementary import is_inf
from hloscope.passes.legalizing.chlo.expansions import ANY, Expansion
from hloscope.passes.legalizing.chlo.terms import (
    Term,
    cosine,
    exp,
    floor,
    is_finite,
    log,
    log1p,
    select,
    sine,
)

LANCZOS_G: Final = 7.0
LANCZOS_BASE: Final = 0.9999999999998099
LANCZOS: Final = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)

ZETA_TERMS: Final = 9
"""Number of terms that are summed before the formula for the rest."""

EULER_MACLAURIN: Final = (
    -1.3954464685812522e-19,
    5.5090028283602295e-18,
    -2.1748686985580617e-16,
    8.586062056277845e-15,
    -3.389680296322583e-13,
    1.3382536530684679e-11,
    -5.284190138687493e-10,
    2.08767569878681e-08,
    -8.267195767195768e-07,
    3.306878306878307e-05,
    -0.001388888888888889,
)
"""`B(2k) / (2k)!` with Bernoulli numbers `B`, from the last term to the second."""


def lgamma(x: Term) -> Term:
    """Expand to the logarithm of the absolute value of the gamma function."""
    half = x.number(0.5)
    is_reflected = x < half
    reflected = -x
    one = x.number(1.0)
    z = select(is_reflected, reflected, x - one)
    # Constants take the sizes of `x` itself from here on, as in upstream.
    z = Term(z.value, x.site, x.value)
    total = x.number(LANCZOS_BASE)
    for k, coefficient in enumerate(LANCZOS, 1):
        total = total + x.number(coefficient) / (z + float(k))
    shift = x.number(LANCZOS_G + 0.5)
    t = shift + z
    log_t = x.number(math.log(LANCZOS_G + 0.5)) + log1p(z / shift)
    quotient = t / log_t
    # `(z + ½) log t - t` as one product, which does not overflow for large `z`.
    power = (z + half - quotient) * log_t
    log_total = log(total)
    direct = x.number((math.log(2.0) + math.log(math.pi)) / 2.0) + power
    direct = direct + log_total
    # Reflection: `lgamma(x) = log pi - log |sin(pi x)| - lgamma(1 - x)`, with the angle reduced to
    # [0, ½] for accuracy.
    size = abs(x)
    fraction = size - floor(size)
    fraction = select(half < fraction, one - fraction, fraction)
    log_sine = log(sine(x.number(math.pi) * fraction))
    other = x.number(math.log(math.pi)) - log_sine - direct
    made = select(is_reflected, select(is_finite(log_sine), other, -log_sine), direct)
    return select(is_inf(x), x.limit("inf"), made)


def digamma(x: Term) -> Term:
    """Expand to the derivative of `lgamma`."""
    is_reflected = x < 0.5
    z = select(is_reflected, -x, x - 1.0)
    zero = x.number(0.0)
    slope, total = zero, x.number(LANCZOS_BASE)
    for k, given in enumerate(LANCZOS, 1):
        coefficient = x.number(given)
        place = z + float(k)
        slope = slope - coefficient / (place * place)
        total = total + coefficient / place
    shift = x.number(LANCZOS_G + 0.5)
    t = shift + z
    log_t = x.number(math.log(LANCZOS_G + 0.5)) + log1p(z / shift)
    quotient = slope / total
    correction = LANCZOS_G / t
    direct = log_t + quotient - correction
    # The cotangent of `pi x` has period 1; reducing `x` to a fraction near 0 is exact.
    fraction = x + abs(floor(x + 0.5))
    pi = x.number(math.pi)
    angle = pi * fraction
    cos, sin = cosine(angle), sine(angle)
    made = select(is_reflected, direct - pi * cos / sin, direct)
    is_pole = (x <= zero) & x.eq(floor(x))
    return select(is_pole, x.limit("nan"), made)


def zeta(x: Term, q: Term) -> Term:
    """Expand to Hurwitz' zeta function, the sum of `(k + q) ** -x`."""
    zero, one = q.constant(0.0), q.constant(1.0)
    minus_x = -x
    place, total = q, q**minus_x
    # The first terms are summed; the formula for the rest converges better for a larger `q`.
    for _ in range(ZETA_TERMS):
        place = place + one
        total = total + place**minus_x
    place = place + one
    power = place**minus_x
    border = x.constant(1.0)
    place, power = place.own, power.own
    integral = power * place / (x - border)
    inverse = one / (place * place)
    rest = zero
    for k, coefficient in enumerate(EULER_MACLAURIN):
        degree = 2.0 * (len(EULER_MACLAURIN) - k)
        factor = (x + x.constant(degree)) * (x + x.constant(degree - 1.0))
        rest = factor * (inverse * (rest + place.constant(coefficient)))
    half = power.constant(0.5)
    correction = power * (half + x / place * (place.constant(1.0 / 12.0) + rest))
    made = total + integral + correction
    # A last term that does not change the sum ends the series: the correction is not needed.
    is_summed = abs(power) < abs(total) * place.limit("smallest")
    return _at_poles(x, q, (zero, one, border), select(is_summed, total, made))


def _at_poles(x: Term, q: Term, known: tuple[Term, Term, Term], made: Term) -> Term:
    """Return `made` with the values at `x <= 1`, and at `q <= 0`, where the sum is undefined."""
    zero, one, border = known
    nan = x.limit("nan")
    made = select(x < border, nan, made)
    is_left = q <= zero
    made = select(is_left & x.ne(floor(x)), nan, made)
    inf = x.limit("inf")
    is_pole = is_left & q.eq(floor(q))
    two = x.constant(2.0)
    is_even = x.eq(floor(x)) & (x % two).eq(zero)
    made = select(is_pole, select(is_even, inf, nan), made)
    return select(x.eq(one), inf, made)


def polygamma(n: Term, x: Term) -> Term:
    """Expand to a derivative of `digamma`: `(-1)ⁿ⁺¹ n! zeta(n + 1, x)`."""
    one, two = x.constant(1.0), x.constant(2.0)
    sign = two * (n % two) - one
    following = (n + one).own
    factorial = exp(lgamma(following))
    series = zeta(following, x)
    made = sign * factorial * series
    zero = x.constant(0.0)
    is_first = n.eq(zero)
    made = select(is_first, digamma(x), made)
    return select(n.ne(floor(n)) | (n < zero), x.limit("nan"), made)


ROWS: Final = (
    Expansion("lgamma", lgamma, in_f32=ANY),
    Expansion("digamma", digamma, in_f32=ANY),
    Expansion("zeta", zeta, in_f32=ANY),
    Expansion("polygamma", polygamma, in_f32=ANY),
)
