"""Special functions of CHLO: error, gamma, zeta and Bessel functions, by approximations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from hloscope.passes.legalizing.elementary_functions import is_inf
from hloscope.passes.legalizing.terms import (
    ANY,
    HALF,
    Expansion,
    Term,
    chebyshev,
    clamp,
    cosine,
    exp,
    floor,
    is_finite,
    log,
    log1p,
    polynomial,
    select,
    sign,
    sine,
    sqrt,
)

# --------------------------------------------------------------------------------------------------
# `erf`, `erfc` and `erf_inv` by rational and polynomial approximations.
#
# Those of `f32` come from XLA and Eigen, those of `f64` from Cephes, `erf_inv` from M. Giles,
# "Approximating the erfinv function".
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`; Cephes `ndtr.c`.


ERF_TOP_F32: Final = (
    -2.72614237e-10,
    2.77068146e-08,
    -2.10102394e-06,
    -5.69250624e-05,
    -0.000734990637,
    -0.0029546,
    -0.0160960332,
)
"""Coefficients of the numerator of `erf` in `x²` near 0, highest power first, for `f32`."""
ERF_BOTTOM_F32: Final = (
    -1.45660715e-05,
    -0.000213374049,
    -0.00168282702,
    -0.00737332925,
    -0.0142647391,
)
ERFC_NEAR_F32: Final = (
    0.0232682,
    -0.138703942,
    0.368742466,
    -0.582473278,
    0.621000468,
    -0.494451523,
    0.340488,
    -0.274112701,
    0.563825965,
)
"""Coefficients of `erfc` in `1 / x²` for `|x|` below 2, highest power first, for `f32`."""
ERFC_FAR_F32: Final = (
    -10.477664,
    12.9772,
    -7.49551868,
    2.92101908,
    -1.01526523,
    0.42184633,
    -0.282076746,
    0.564189494,
)
"""Coefficients of `erfc` in `1 / x²` for `|x|` from 2 on, highest power first, for `f32`."""
ERF_SMALL_F32: Final = (
    7.85386146e-05,
    -0.00080101937,
    0.00518832775,
    -0.0268538129,
    0.112835854,
    -0.37612626,
    1.12837911,
)
ERF_TOP_F64: Final = (
    9.604973739870516,
    90.02601972038427,
    2232.005345946843,
    7003.325141128051,
    55592.30130103949,
)
ERF_BOTTOM_F64: Final = (
    1.0,
    33.56171416475031,
    521.3579497801527,
    4594.323829709801,
    22629.000061389095,
    49267.39426086359,
)
ERFC_NEAR_TOP_F64: Final = (
    2.461969814735305e-10,
    0.5641895648310689,
    7.463210564422699,
    48.63719709856814,
    196.5208329560771,
    526.4451949954773,
    934.5285271719576,
    1027.5518868951572,
    557.5353353693994,
)
"""Coefficients of the numerator of `erfc` in `|x|` for `|x|` below 8, for `f64`."""
ERFC_NEAR_BOTTOM_F64: Final = (
    1.0,
    13.228195115474499,
    86.70721408859897,
    354.9377788878199,
    975.7085017432055,
    1823.9091668790973,
    2246.3376081871097,
    1656.6630919416134,
    557.5353408177277,
)
ERFC_FAR_TOP_F64: Final = (
    0.5641895835477551,
    1.275366707599781,
    5.019050422511805,
    6.160210979930536,
    7.4097426995044895,
    2.9788666537210022,
)
"""Coefficients of the numerator of `erfc` in `|x|` for `|x|` from 8 on, for `f64`."""
ERFC_FAR_BOTTOM_F64: Final = (
    1.0,
    2.2605286322011726,
    9.396035249380015,
    12.048953980809666,
    17.08144507475659,
    9.608968090632859,
    3.369076451000815,
)
ERF_INV_F32: Final = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)
"""Pairs of coefficients for `w = -log(1 - x²)` below 5, and from 5 on, for `f32`."""
ERF_INV_F64: Final = (
    (-3.64441206401782e-21, 2.2137376921775787e-09, -2.7109920616438573e-11),
    (-1.6850591381820166e-19, 9.075656193888539e-08, -2.555641816996525e-10),
    (1.28584807152564e-18, -2.7517406297064545e-07, 1.5076572693500548e-09),
    (1.1157877678025181e-17, 1.8239629214389228e-08, -3.789465440126737e-09),
    (-1.333171662854621e-16, 1.5027403968909828e-06, 7.61570120807834e-09),
    (2.0972767875968562e-17, -4.013867526981546e-06, -1.496002662714924e-08),
    (6.637638134358324e-15, 2.9234449089955446e-06, 2.914795345090108e-08),
    (-4.054566272975207e-14, 1.2475304481671779e-05, -6.771199775845234e-08),
    (-8.151934197605472e-14, -4.7318229009055734e-05, 2.2900482228026655e-07),
    (2.6335093153082323e-12, 6.828485145957318e-05, -9.9298272942317e-07),
    (-1.2975133253453532e-11, 2.4031110387097894e-05, 4.526062597223154e-06),
    (-5.415412054294628e-11, -0.0003550375203628475, -1.968177810553167e-05),
    (1.0512122733215323e-09, 0.0009532893797373805, 7.599527703001776e-05),
    (-4.112633980346984e-09, -0.0016882755560235047, -0.00021503011930044477),
    (-2.9070369957882005e-08, 0.002491442096107851, -0.00013871931833623122),
    (4.2347877827932404e-07, -0.003751208507569241, 1.0103004648645344),
    (-1.3654692000834679e-06, 0.005370914553590064, 4.849906401408584),
)
"""Coefficients for `w = -log(1 - x²)` below 6.25, below 16, and from 16 on, for `f64`."""
ERF_INV_MORE_F64: Final = (
    (-1.3882523362786469e-05, 1.0052589676941592),
    (0.00018673420803405714, 3.0838856104922208),
)
"""Further coefficients of `ERF_INV_F64` for the first two ranges of `w`, below 6.25 and 16."""
ERF_INV_MOST_F64: Final = (
    -0.000740702534166267,
    -0.006033670871430149,
    0.24015818242558962,
    1.6536545626831027,
)
"""Further coefficients of `ERF_INV_F64` for the first range of `w`, below 6.25."""


def erf_f32(x: Term) -> Term:
    """Expand `erf x` to a rational function on [-4, 4]; beyond, `erf` is 1 to all digits."""
    x = clamp(x.constant(-4.0), x, x.constant(4.0))
    squared = x * x
    top, bottom = polynomial(squared, ERF_TOP_F32), polynomial(squared, ERF_BOTTOM_F32)
    made = x * top / bottom
    return clamp(x.constant(-1.0), made, x.constant(1.0))


def _erf_f64_near_zero(x: Term) -> Term:
    squared = x * x
    top = x * polynomial(squared, ERF_TOP_F64)
    return top / polynomial(squared, ERF_BOTTOM_F64)


def _erfc_f64_far(x: Term) -> Term:
    """Return `erfc x` of `f64` for `|x|` above 1."""
    exponent = -(x * x)
    factor = exp(exponent)
    size = abs(x)
    near = factor * polynomial(size, ERFC_NEAR_TOP_F64)
    near = near / polynomial(size, ERFC_NEAR_BOTTOM_F64)
    far = factor * polynomial(size, ERFC_FAR_TOP_F64)
    far = far / polynomial(size, ERFC_FAR_BOTTOM_F64)
    made = select(size < 8.0, near, far)
    is_zero = exponent < -709.782712893384  # below the logarithm of the largest number
    zero = x.constant(0.0)
    made = select(is_zero, zero, made)
    # `erfc(-x) = 2 - erfc(x)`; the functions above have `|x|` only.
    return select(x < zero, 2.0 - made, made)


def erf_f64(x: Term) -> Term:
    """Expand `erf x` of `f64` to a rational function for `|x|` below 1, else to `1 - erfc x`."""
    near = _erf_f64_near_zero(x)
    one = x.constant(1.0)
    far = one - _erfc_f64_far(x)
    return select(abs(x) < one, near, far)


def erfc_f64(x: Term) -> Term:
    """Expand `erfc x` of `f64` to `1 - erf x` for `|x|` below 1, else to `_erfc_f64_far`."""
    far = _erfc_f64_far(x)
    one = x.constant(1.0)
    near = one - _erf_f64_near_zero(x)
    return select(abs(x) < one, near, far)


def _erfc_f32_far(x: Term) -> Term:
    """Return `erfc x` of `f32` for `|x|` above 1."""
    squared = x * x
    exponent = -squared
    size = abs(x)
    one = x.constant(1.0)
    inverse = one / squared
    factor = exp(exponent) * (one / size)
    two = x.constant(2.0)
    is_near = size < two
    near = polynomial(inverse, ERFC_NEAR_F32)
    made = factor * select(is_near, near, polynomial(inverse, ERFC_FAR_F32))
    is_zero = exponent < -88.7228394  # below the logarithm of the largest number
    zero = x.constant(0.0)
    made = select(is_zero, zero, made)
    return select(x < zero, two - made, made)


def erfc_f32(x: Term) -> Term:
    """Expand `erfc x` of `f32` to `1 - erf x` for `|x|` below 1, else to `_erfc_f32_far`."""
    far = _erfc_f32_far(x)
    one = x.constant(1.0)
    squared = x * x
    near = one - x * polynomial(squared, ERF_SMALL_F32)
    return select(abs(x) < one, near, far)


def erf_inv_f32(x: Term) -> Term:
    """Expand the inverse of `erf` to a polynomial of `w = -log(1 - x²)`, or of its square root."""
    # `log1p(-x²)` does not cancel near 0.
    w = -log1p(x * -x)
    is_near = w < 5.0
    w = select(is_near, w - 2.5, sqrt(w) - 3.0)
    made = None
    for near, far in ERF_INV_F32:
        coefficient = select(is_near, x.constant(near), x.constant(far))
        made = coefficient if made is None else coefficient + made * w
    assert made is not None
    return _with_ends(x, made * x)


def erf_inv_f64(x: Term) -> Term:
    """Expand the inverse of `erf` to a polynomial of `w = -log(1 - x²)` or its root.

    There are three ranges of `w`, each with its own coefficients.
    """
    w = -log1p(x * -x)
    is_near, is_middle = w < 6.25, w < 16.0
    root = sqrt(w)
    near_w = w - 3.125
    shift = select(is_middle, w.constant(3.25), w.constant(5.0))
    w = select(is_near, near_w, root - shift)
    made = None
    for near, middle, far in ERF_INV_F64:
        inner = select(is_near, x.constant(near), x.constant(middle))
        coefficient = select(is_middle, inner, x.constant(far))
        made = coefficient if made is None else coefficient + made * w
    assert made is not None
    # Ranges of smaller `w` have more terms; the others keep their sum.
    for near, middle in ERF_INV_MORE_F64:
        coefficient = select(is_near, x.constant(near), x.constant(middle))
        made = select(is_middle, coefficient + made * w, made)
    for near in ERF_INV_MOST_F64:
        made = select(is_near, x.constant(near) + made * w, made)
    return _with_ends(x, made * x)


def _with_ends(x: Term, value: Term) -> Term:
    """Return the term `value`, with infinities where `x` is 1 or -1."""
    return select(abs(x).eq(1.0), x * x.limit("inf"), value)


ERROR_ROWS: Final = (
    Expansion("erf", erf_f32, double=erf_f64, in_f32=HALF),
    Expansion("erfc", erfc_f32, double=erfc_f64, in_f32=HALF),
    Expansion("erf_inv", erf_inv_f32, double=erf_inv_f64, in_f32=ANY),
)


# --------------------------------------------------------------------------------------------------
# `lgamma`, `digamma`, `zeta` and `polygamma`.
#
# The gamma function uses Lanczos' approximation (`g = 7`, 9 terms) and reflection, zeta the Euler-
# Maclaurin formula, and polygamma both.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`; Numerical Recipes in C, 6.1; Cephes `zeta.c`.


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
"""Number of terms of the zeta series that are summed; a formula approximates the rest."""

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
"""`B(2k) / (2k)!` with Bernoulli numbers `B`, from the last term of the formula to the second."""


def lgamma(x: Term) -> Term:
    """Expand `lgamma x`, the logarithm of the absolute value of the gamma function."""
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
    """Expand `digamma x`, the derivative of `lgamma`."""
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
    """Expand Hurwitz' `zeta(x, q)`, the sum of `(k + q) ** -x` over `k` from 0."""
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


def _at_poles(x: Term, q: Term, constants: tuple[Term, Term, Term], value: Term) -> Term:
    """Return the zeta function `value`, corrected where the sum is undefined: `x <= 1` or `q <= 0`.

    `constants` has the constants 0, 1 and the lower bound of `x`, which is also 1.
    """
    zero, one, border = constants
    nan = x.limit("nan")
    value = select(x < border, nan, value)
    is_left = q <= zero
    value = select(is_left & x.ne(floor(x)), nan, value)
    inf = x.limit("inf")
    is_pole = is_left & q.eq(floor(q))
    two = x.constant(2.0)
    is_even = x.eq(floor(x)) & (x % two).eq(zero)
    value = select(is_pole, select(is_even, inf, nan), value)
    return select(x.eq(one), inf, value)


def polygamma(n: Term, x: Term) -> Term:
    """Expand `polygamma(n, x)`, the derivative of order `n` of `digamma`.

    For `n` from 1 on it is `(-1)ⁿ⁺¹ n! zeta(n + 1, x)`.
    """
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


GAMMA_ROWS: Final = (
    Expansion("lgamma", lgamma, in_f32=ANY),
    Expansion("digamma", digamma, in_f32=ANY),
    Expansion("zeta", zeta, in_f32=ANY),
    Expansion("polygamma", polygamma, in_f32=ANY),
)


# --------------------------------------------------------------------------------------------------
# `bessel_i1e`: the exponentially scaled modified Bessel function of order 1.
#
# It uses Chebyshev series of Cephes: one for arguments up to 8, another one beyond.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`; Cephes `i1.c`, `i1f.c`.


SMALL_F32: Final = (
    9.38153732e-09,
    -4.44505908e-08,
    2.00329481e-07,
    -8.56872e-07,
    3.47025139e-06,
    -1.32731639e-05,
    4.78156508e-05,
    -0.000161760821,
    0.000512286,
    -0.00151357241,
    0.0041564228,
    -0.0105640851,
    0.0247264486,
    -0.0529459827,
    0.102643661,
    -0.176416516,
    0.252587199,
)
LARGE_F32: Final = (
    -3.83538046e-09,
    -2.63146891e-08,
    -2.51223611e-07,
    -3.88256467e-06,
    -0.000110588939,
    -0.00976109784,
    0.778576254,
)
SMALL_F64: Final = (
    2.7779141127610464e-18,
    -2.111421214358166e-17,
    1.5536319577362005e-16,
    -1.1055969477353862e-15,
    7.600684294735408e-15,
    -5.042185504727912e-14,
    3.223793365945575e-13,
    -1.9839743977649436e-12,
    1.1736186298890901e-11,
    -6.663489723502027e-11,
    3.625590281552117e-10,
    -1.8872497517228294e-09,
    9.381537386495773e-09,
    -4.445059128796328e-08,
    2.0032947535521353e-07,
    -8.568720264695455e-07,
    3.4702513081376785e-06,
    -1.3273163656039436e-05,
    4.781565107550054e-05,
    -0.00016176081582589674,
    0.0005122859561685758,
    -0.0015135724506312532,
    0.004156422944312888,
    -0.010564084894626197,
    0.024726449030626516,
    -0.05294598120809499,
    0.1026436586898471,
    -0.17641651835783406,
    0.25258718644363365,
)
LARGE_F64: Final = (
    7.517296310842105e-18,
    4.414348323071708e-18,
    -4.6503053684893586e-17,
    -3.209525921993424e-17,
    2.96262899764595e-16,
    3.3082023109209285e-16,
    -1.8803547755107825e-15,
    -3.8144030724370075e-15,
    1.0420276984128802e-14,
    4.272440016711951e-14,
    -2.1015418427726643e-14,
    -4.0835511110921974e-13,
    -7.198551776245908e-13,
    2.0356285441470896e-12,
    1.4125807436613782e-11,
    3.2526035830154884e-11,
    -1.8974958123505413e-11,
    -5.589743462196584e-10,
    -3.835380385964237e-09,
    -2.6314688468895196e-08,
    -2.512236237870209e-07,
    -3.882564808877691e-06,
    -0.00011058893876262371,
    -0.009761097491361469,
    0.7785762350182801,
)


def _series(x: Term, small: Sequence[float], large: Sequence[float]) -> Term:
    """Return an odd function by Chebyshev series: `small` for `|x|` up to 8, `large` beyond."""
    size = abs(x)
    half, two = x.number(0.5), x.number(2.0)
    # The series takes arguments in [-2, 2]: [0, 8] is mapped linearly, [8, inf) by its inverse.
    most, border = x.number(32.0), x.number(8.0)
    near = size * chebyshev(half * size - two, small)
    far = chebyshev(most / size - two, large) / sqrt(size)
    made = select(size <= border, near, far)
    # The function is odd.
    return sign(x) * made


def single(x: Term) -> Term:
    """Expand the function with the coefficients for `f32`."""
    return _series(x, SMALL_F32, LARGE_F32)


def double(x: Term) -> Term:
    """Expand the function with the coefficients for `f64`."""
    return _series(x, SMALL_F64, LARGE_F64)


BESSEL_ROWS: Final = (Expansion("bessel_i1e", single, double=double, in_f32=HALF),)
