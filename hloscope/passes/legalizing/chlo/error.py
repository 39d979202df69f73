"""`erf`, `erfc` and `erf_inv` by rational and polynomial approximations.

Those of `f32` come from XLA and Eigen, those of `f64` from Cephes, `erf_inv` from M. Giles,
"Approximating the erfinv function".

Source: StableHLO `ChloLegalizeToStablehlo.cpp`; Cephes `ndtr.c`.
"""

from __future__ import annotations

from typing import Final

from hloscope.passes.legalizing.chlo.expansions import ANY, HALF, Expansion
from hloscope.passes.legalizing.chlo.terms import Term, clamp, exp, log1p, polynomial, select, sqrt

ERF_TOP_F32: Final = (
    -2.72614237e-10,
    2.77068146e-08,
    -2.10102394e-06,
    -5.69250624e-05,
    -0.000734990637,
    -0.0029546,
    -0.0160960332,
)
"""Coefficients in `x²` near 0, as for all `erf` polynomials; the highest power first."""
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
"""Coefficients in `1 / x²`, for `|x|` below 2."""
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
"""Coefficients in `1 / x²`, for `|x|` from 2 on."""
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
"""Coefficients in `|x|`, for `|x|` below 8."""
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
"""Coefficients in `|x|`, for `|x|` from 8 on."""
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
"""Coefficients for `w` below 5, and from 5 on."""
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
"""Coefficients for `w` below 6.25, below 16, and from 16 on."""
ERF_INV_MORE_F64: Final = (
    (-1.3882523362786469e-05, 1.0052589676941592),
    (0.00018673420803405714, 3.0838856104922208),
)
"""Further coefficients for the first two ranges."""
ERF_INV_MOST_F64: Final = (
    -0.000740702534166267,
    -0.006033670871430149,
    0.24015818242558962,
    1.6536545626831027,
)
"""Further coefficients for the first range."""


def erf_f32(x: Term) -> Term:
    """Expand to a rational function on [-4, 4]; beyond, `erf` is 1 to all digits."""
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
    """Return `erfc` for `|x|` above 1."""
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
    """Expand to a rational function below 1, and to `1 - erfc` from 1 on."""
    near = _erf_f64_near_zero(x)
    one = x.constant(1.0)
    far = one - _erfc_f64_far(x)
    return select(abs(x) < one, near, far)


def erfc_f64(x: Term) -> Term:
    """Expand to `1 - erf` below 1, and to `erfc`'s own functions from 1 on."""
    far = _erfc_f64_far(x)
    one = x.constant(1.0)
    near = one - _erf_f64_near_zero(x)
    return select(abs(x) < one, near, far)


def _erfc_f32_far(x: Term) -> Term:
    """Return `erfc` for `|x|` above 1."""
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
    """Expand to `1 - erf` below 1, and to `erfc`'s own polynomials from 1 on."""
    far = _erfc_f32_far(x)
    one = x.constant(1.0)
    squared = x * x
    near = one - x * polynomial(squared, ERF_SMALL_F32)
    return select(abs(x) < one, near, far)


def erf_inv_f32(x: Term) -> Term:
    """Expand to a polynomial of `w = -log(1 - x²)`, or of its square root."""
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
    """Expand to polynomials of `w = -log(1 - x²)` or its root, in three ranges."""
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


def _with_ends(x: Term, made: Term) -> Term:
    """Return `made` with infinities at 1 and -1."""
    return select(abs(x).eq(1.0), x * x.limit("inf"), made)


ROWS: Final = (
    Expansion("erf", erf_f32, double=erf_f64, in_f32=HALF),
    Expansion("erfc", erfc_f32, double=erfc_f64, in_f32=HALF),
    Expansion("erf_inv", erf_inv_f32, double=erf_inv_f64, in_f32=ANY),
)
