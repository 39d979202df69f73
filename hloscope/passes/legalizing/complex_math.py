"""`stablehlo-complex-math-expander`: complex functions as accurate real arithmetic.

`log` and `log_plus_one` add squares exactly where they cancel (splitting by T. J. Dekker, sums
by D. E. Knuth).  `sqrt` avoids overflow and underflow of both parts.

Source: StableHLO `StablehloComplexMathExpanderPatterns.td`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import (
    DenseAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    StructAttr,
    Value,
    elements,
)
from hloscope.passes.conversion import InsertionPoint
from hloscope.passes.framework import Pass, until_none_fits
from hloscope.passes.legalizing.terms import (
    Site,
    Term,
    atan2,
    complex_,
    cosine,
    exp,
    imag,
    like_constant,
    log,
    log1p,
    maximum,
    minimum,
    real,
    select,
    sine,
    sqrt,
)
from hloscope.passes.patterns import Pattern
from hloscope.passes.rewriting import Rewriter


def expand_exponential(z: Term) -> Term:
    """Expand `exp(x + iy)` to `e^x (cos y + i sin y)`.

    If `e^x` overflows, two factors `e^(x/2)` are used.
    """
    x = real(z)
    size = exp(x)
    is_large = size.eq(x.limit("inf"))
    root = exp(x * x.constant(0.5))
    y = imag(z)
    cos = cosine(y)
    left = select(is_large, root * cos * root, size * cos)
    # For real numbers `e^x * sin 0` would be NaN when `e^x` is infinite.
    zero = x.constant(0.0)
    is_real = y.eq(zero)
    sin = sine(y)
    return complex_(left, select(is_real, zero, select(is_large, root * sin * root, size * sin)))


def _splitter(x: Term, largest: Term) -> Term:
    """Return Dekker's factor `2^s + 1`, where `s` is half the mantissa bits of the type of `x`.

    `largest` is the largest finite number of that type.
    """
    in_double = largest > x.constant(1e308)
    double = x.constant(134217729.0)
    single = select(largest > x.constant(1e38), x.constant(4097.0), x.constant(65.0))
    return select(in_double, double, single)


def _square_error(negated: Term, splitter: Term, x: Term) -> Term:
    """Return the rounding error of `x²`: what must be added to the rounded square.

    `negated` is the negated rounded square, `splitter` Dekker's factor.
    """
    # Dekker: `high` has the upper half of the bits, so that its products with itself and with `low`
    # are exact.
    scaled = splitter * x
    high = scaled + (x - scaled)
    error = negated + high * high
    low = x - high
    cross = high * low
    return error + cross + cross + low * low


def _sum_error(total: Term, first: Term, second: Term) -> Term:
    """Return the rounding error of the sum `total` of `first` and `second` (Knuth)."""
    rest = total - first
    return (first - (total - rest)) + (second - rest)


def expand_log(z: Term) -> Term:
    """Expand `log(x + iy)` to `log |z| + i atan2(y, x)`.

    Near the unit circle, the real part is `log1p(x² + y² - 1) / 2`.
    """
    x = real(z)
    minus_one = x.constant(-1.0)
    y = imag(z)
    yy, xx = y * y, x * x
    is_steep = yy > xx
    # -1 is added to the larger square first: these two cancel, without an error.
    large = select(is_steep, yy, xx)
    first = minus_one + large
    small = select(is_steep, xx, yy)
    second = first + small
    minus_yy = -yy
    splitter = _splitter(x, x.limit("largest"))
    y_error = _square_error(minus_yy, splitter, y)
    third = second + y_error
    x_error = _square_error(-xx, splitter, x)
    fourth = third + x_error
    # `lost` has the rounding errors of the partial sums; they are added last, since they are
    # smallest.
    lost = (large - (first - minus_one)) + (small - (second - first))
    lost = lost + (y_error - (third - second)) + (x_error - (fourth - third))
    less = fourth + lost
    size = abs(less)
    half = x.constant(0.5)
    is_near = size < half
    near = half * log1p(less)
    # Elsewhere nothing cancels: the larger part is factored out, so that no square overflows.
    width, height = abs(x), abs(y)
    longer = maximum(width, height)
    log_longer = log(longer)
    shorter = minimum(width, height)
    ratio = select(shorter.eq(longer), x.constant(1.0), shorter / longer)
    far = log_longer + half * log1p(ratio * ratio)
    return complex_(select(is_near, near, far), atan2(y, x))


def expand_log_plus_one(z: Term) -> Term:
    """Expand `log(1 + x + iy)` to `log |1 + z| + i atan2(y, 1 + x)`, in three regions.

    For large `z`, the larger part is factored out; near -1, squares are added; elsewhere, `log1p`
    is applied to an exact sum.
    """
    x = real(z)
    width = abs(x)
    y = imag(z)
    height = abs(y)
    longer = maximum(width, height)
    largest = x.limit("largest")
    # A hundredth of the root of the largest number: the squares below stay finite.
    is_large = longer > sqrt(largest) * x.constant(0.01)
    log_longer = log(longer)
    half = x.constant(0.5)
    shorter = minimum(width, height)
    is_equal = shorter.eq(longer)
    one = x.constant(1.0)
    # `0 / 0` and `inf / inf` are NaN: equal parts have the ratio 1.
    ratio = shorter / longer
    large = log_longer + half * log1p(select(is_equal, one, ratio * ratio))
    x_plus = x + one
    # Near -1, `log1p` would cancel: `2x + x² + y²` is near -1.  The squares of `1 + x` and `y`
    # do not cancel.
    is_pole = abs(x_plus) + height < x.constant(0.2)
    plus_squared, yy = x_plus * x_plus, y * y
    near_pole = half * log(plus_squared + yy)
    near = half * log1p(_exact_sum(x, y, yy, largest))
    return complex_(select(is_large, large, select(is_pole, near_pole, near)), atan2(y, x_plus))


def _exact_sum(x: Term, y: Term, yy: Term, largest: Term) -> Term:
    """Return `2x + x² + y²` with the rounding errors of all steps added at the end.

    `yy` is `y²`, `largest` the largest finite number.
    """
    twice = x + x
    first = twice + yy
    xx = x * x
    second = first + xx
    minus_yy = -yy
    splitter = _splitter(x, largest)
    y_error = _square_error(minus_yy, splitter, y)
    third = second + y_error
    x_error = _square_error(-xx, splitter, x)
    fourth = third + x_error
    lost = _sum_error(first, twice, yy)
    lost = lost + _sum_error(second, first, xx)
    lost = lost + _sum_error(third, second, y_error)
    return fourth + (lost + _sum_error(fourth, third, x_error))


def expand_sqrt(z: Term) -> Term:
    """Expand `sqrt(x + iy)` to `sqrt((|z| + |x|) / 2)` and `|y|` divided by twice that.

    The signs of `x` and `y` decide which of both is the real part, and the sign of the other.
    """
    x = real(z)
    zero = x.constant(0.0)
    is_right = x >= zero
    width = abs(x)
    y = imag(z)
    height = abs(y)
    is_diagonal = width.eq(height)
    root_width = sqrt(width)
    scaled = root_width * x.constant(1.5537739740300374)  # sqrt(1 + sqrt(2))
    root_two = x.constant(math.sqrt(2.0))
    diagonal = scaled / root_two
    longer, shorter = maximum(width, height), minimum(width, height)
    is_equal = longer.eq(shorter)
    equal = root_two * longer
    one = x.constant(1.0)
    ratio = shorter / longer
    squared = ratio * ratio
    root = sqrt(one + squared)
    # A ratio whose square vanishes beside 1 still counts: its first series term is added.
    is_lost = root.eq(one) & (squared > zero)
    part = longer * squared
    two = x.constant(2.0)
    size = select(is_equal, equal, select(is_lost, longer + part / two, longer * root))
    plain = sqrt(size / two + width / two)
    # Where `|z|` overflows or underflows, the roots of both parts are taken before the parts are
    # combined.
    is_out = plain.eq(zero) | plain.eq(x.limit("inf"))
    is_flat, is_steep = width > height, width < height
    slope = select(is_diagonal, one, select(is_steep, width / height, height / width))
    hypot = _hypot_with_one(slope, one, (zero, two, root_two))
    flat_root = sqrt(one + hypot)
    flat = root_width * (flat_root / root_two)
    root_height = sqrt(height)
    steep_root = sqrt(slope + hypot)
    long_part = select(
        is_diagonal,
        diagonal,
        select(is_out, select(is_flat, flat, root_height * (steep_root / root_two)), plain),
    )
    short_diagonal = root_height / x.constant(2.19736822693562)  # sqrt(2 + 2 sqrt(2))
    roots = select(
        is_diagonal, one, select(is_steep, root_width / root_height, root_height / root_width)
    )
    flat = (root_height * roots) / (flat_root * root_two)
    out = select(is_flat, flat, root_height / (steep_root * root_two))
    short_part = select(is_diagonal, short_diagonal, select(is_out, out, height / (plain * two)))
    # The larger root belongs to the real part for `x >= 0`, else to the imaginary part.
    left = select(is_right, long_part, short_part)
    is_left = x < zero
    is_below = y < zero
    above = select(is_below, -long_part, long_part)
    return complex_(left, select(is_left, above, select(is_below, -short_part, short_part)))


def _hypot_with_one(x: Term, one: Term, constants: tuple[Term, Term, Term]) -> Term:
    """Return `sqrt(1 + x²)` without overflow.

    `one` is the constant 1, `constants` are the constants 0, 2 and `sqrt(2)`.
    """
    zero, two, root_two = constants
    size = abs(x)
    # The larger number is factored out, so that the square is at most 1.
    longer, shorter = maximum(one, size), minimum(one, size)
    is_equal = longer.eq(shorter)
    equal = root_two * longer
    ratio = shorter / longer
    squared = ratio * ratio
    root = sqrt(one + squared)
    is_lost = root.eq(one) & (squared > zero)
    return select(
        is_equal, equal, select(is_lost, longer + (longer * squared) / two, longer * root)
    )


EXPANSIONS: Final[dict[str, Callable[[Term], Term]]] = {
    "exponential": expand_exponential,
    "log": expand_log,
    "log_plus_one": expand_log_plus_one,
    "sqrt": expand_sqrt,
}


def _constant(at: InsertionPoint, value: DenseAttr, like: Value) -> Value:
    """Create a constant in the shape of `like`; for dynamic sizes, a `chlo.constant_like`."""
    type, scalar = like.type, value.type
    assert isinstance(type, TensorType)
    assert isinstance(scalar, TensorType)
    if type.is_static:
        return like_constant(at, value, like)
    bits = int.from_bytes(elements(value).raw, "little")
    own = TensorType(scalar.element, type.sizes, None, type.bounds, type.encoding)
    return at.make("chlo.constant_like", own, like, value=FloatAttr(bits, scalar.element))


def _has_default_accuracy(op: Operation) -> bool:
    """Does the op have the default result accuracy?"""
    given = op.get("result_accuracy")
    if given is None:
        return True
    if not isinstance(given, StructAttr):
        return False
    mode = given.get("mode")
    plain = all(
        value in (0, None) or (isinstance(value, FloatAttr | IntegerAttr) and not _number(value))
        for name, value in given.fields
        if name != "mode"
    )
    return plain and (mode is None or "DEFAULT" in str(mode))


def _number(value: FloatAttr | IntegerAttr) -> int:
    return value.bits if isinstance(value, FloatAttr) else value.value


def _expand(rewriter: Rewriter, op: Operation) -> bool:
    type = op.operands[0].type if len(op.operands) == 1 else None
    if not isinstance(type, TensorType) or type.element.kind != "complex":
        return False
    if op.result.type != type or not _has_default_accuracy(op):
        return False
    expansion = EXPANSIONS[op.name.partition(".")[2]]
    made = expansion(Term(op.operands[0], Site(InsertionPoint(rewriter, op), _constant)))
    rewriter.replace(op, [made.value])
    return True


PATTERNS: Final = [Pattern(f"expand_{n}", (f"stablehlo.{n}",), _expand) for n in EXPANSIONS]


PASS: Final = Pass(
    "stablehlo-complex-math-expander",
    until_none_fits(PATTERNS, "StableHLOComplexMathExpanderPass"),
    "Expands complex functions into accurate real arithmetic.",
    on_functions=True,
)
