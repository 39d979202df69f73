"""Floating-point instructions: arithmetic, comparisons and conversions, rounded once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Final

from hloscope.memory.ptx.integers import BITS, FLOATS, INTEGERS, Compute, mode_of, plain_row, row
from hloscope.memory.ptx.syntax import PtxType
from hloscope.support.arrays import Array, Floats, np

# --------------------------------------------------------------------------------------------------
# Floating-point instructions, including comparisons.
#
# The results of `.approx` instructions are correctly rounded. Hardware may differ from them in the
# last bits, by no more than PTX allows.
#
# Source: PTX ISA 8.8, "Floating-Point Instructions", "Half Precision Floating-Point Instructions",
# "Comparison and Selection Instructions".


_Mods = frozenset[str]
_ROUND: Final = "rn rz rm rp ftz sat"
_CANONICAL: Final = {2: 0x7FFF, 4: 0x7FFF_FFFF, 8: 0x7FFF_FFFF_FFFF_FFFF}
"""Bits of the NaN that minima and maxima return, by bytes of the type."""


def _finished(compute: Compute, modifiers: _Mods) -> Compute:
    """Return `compute`, wrapped to flush subnormals for `.ftz` and to clamp for `.sat`."""
    if not modifiers & {"ftz", "sat"}:
        return compute

    def whole(*sources: Array) -> Array:
        if "ftz" in modifiers:
            sources = tuple(map(flushed, sources))
        value = compute(*sources)
        value = flushed(value) if "ftz" in modifiers else value
        return saturated(value) if "sat" in modifiers else value

    return whole


def _rounded(
    plain: Callable[[Array, Array], Array],
    with_error: Callable[[Array, Array], tuple[Array, Array]],
    modifiers: _Mods,
    type_: PtxType,
) -> Compute:
    """Return the function of an operation on two sources, rounded as the modifiers say.

    `rn`, to nearest, is numpy's operation `plain`. Other modes round the f64 result and its exact
    error, which `with_error` returns.
    """
    mode = mode_of(modifiers)
    if mode == "rn":
        return _finished(plain, modifiers)

    def directed(a: Array, b: Array) -> Array:
        value, error = with_error(a.astype(np.float64), b.astype(np.float64))
        if type_.element == "float64":
            return directed_f64(value, error, mode)
        return narrow(to_odd(value, error), type_, mode)

    return _finished(directed, modifiers)


row("add", 2, FLOATS, _ROUND)(lambda m, t: _rounded(operator.add, two_sum, m, t))
row("sub", 2, FLOATS, _ROUND)(lambda m, t: _rounded(operator.sub, two_difference, m, t))
row("mul", 2, FLOATS, _ROUND)(lambda m, t: _rounded(operator.mul, two_product, m, t))


@row("fma", 3, FLOATS, f"{_ROUND} relu")
@row("mad", 3, "f32 f64", _ROUND)
def _fma(modifiers: _Mods, type_: PtxType) -> Compute:
    mode = mode_of(modifiers)
    compute = partial(fused, type_=type_, mode=mode)
    if "relu" in modifiers:
        return lambda a, b, c: np.maximum(compute(a, b, c), np.zeros((), type_.dtype))
    return _finished(compute, modifiers)


@row("div", 2, "f32 f64", f"{_ROUND} approx full")
def _div(modifiers: _Mods, type_: PtxType) -> Compute:
    mode = mode_of(modifiers)
    if mode == "rn":
        return _finished(operator.truediv, modifiers)
    # The quotient of two f32 in f64 is inexact by less than any f32 that it could be rounded to.
    return _finished(
        lambda a, b: narrow(a.astype(np.float64) / b.astype(np.float64), type_, mode), modifiers
    )


row("abs", 1, FLOATS, "ftz")(lambda m, t: _finished(np.abs, m))
row("neg", 1, FLOATS, "ftz")(lambda m, t: _finished(np.negative, m))


def _extreme(modifiers: _Mods, type_: PtxType, *, is_max: bool) -> Compute:
    """Return the function of a maximum (`is_max`) or minimum of floats.

    A NaN is skipped, or returned with `.NaN`; -0 is less than +0.
    """
    pick = np.maximum if is_max else np.minimum
    join = np.bitwise_and if is_max else np.bitwise_or
    size = type_.dtype.itemsize
    nan = np.array([_CANONICAL[size]], f"u{size}").view(type_.dtype)

    def compute(a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        bits = join(a.view(f"u{size}"), b.view(f"u{size}")).view(type_.dtype)
        value = np.where(a == b, bits, pick(a, b))  # equal values differ at most in their sign
        if "NaN" in modifiers:
            return np.where(a_nan | b_nan, nan, value)
        value = np.where(a_nan, b, np.where(b_nan, a, value))
        return np.where(a_nan & b_nan, nan, value)

    return _finished(compute, modifiers)


row("min", 2, FLOATS, "ftz NaN")(partial(_extreme, is_max=False))
row("max", 2, FLOATS, "ftz NaN")(partial(_extreme, is_max=True))


_FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "rcp": lambda x: 1 / x,
    "sqrt": lambda x: np.sqrt(x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": lambda x: np.sin(x),
    "cos": lambda x: np.cos(x),
    "lg2": lambda x: np.log2(x),
    "ex2": lambda x: np.exp2(x),
    "tanh": lambda x: np.tanh(x),
}


def _of_f64(function: Callable[[Array], Array], modifiers: _Mods, type_: PtxType) -> Compute:
    """Return `function` computed in f64 and rounded once."""
    mode = mode_of(modifiers)
    return _finished(lambda a: narrow(function(a.astype(np.float64)), type_, mode), modifiers)


for _name, _function in _FUNCTIONS.items():
    _types = "f32 f64" if _name in ("rcp", "sqrt", "rsqrt") else "f32 f16 f16x2 bf16 bf16x2"
    row(_name, 1, _types, f"{_ROUND} approx")(partial(_of_f64, _function))


plain_row("copysign", 2, "f32 f64")(lambda a, b: np.copysign(b, a))


@row("testp", 1, "f32 f64", "finite infinite number notanumber normal subnormal", result="pred")
def _testp(modifiers: _Mods, type_: PtxType) -> Compute:
    tiny = np.finfo(type_.dtype).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return tests[next(iter(modifiers & set(tests)), "finite")]


_ORDERED: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "eq": operator.eq,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
    "num": lambda a, b: (a == a) & (b == b),
}
_UNORDERED: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "equ": lambda a, b: ~_ORDERED["ne"](a, b),
    "neu": operator.ne,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "nan": lambda a, b: (a != a) | (b != b),
}
COMPARISONS: Final = _ORDERED | _UNORDERED
"""Comparisons of `setp` and `set`, by modifier; integers use only the ordered ones."""


def comparison_of(modifiers: _Mods) -> Compute:
    """Return the comparison that a modifier names."""
    compare = COMPARISONS[next(iter(modifiers & COMPARISONS.keys()))]
    if "ftz" not in modifiers:
        return compare
    return lambda a, b: compare(flushed(a), flushed(b))


COMPARED: Final = f"{BITS} {INTEGERS} {FLOATS}".split()
"""Names of the types that can be compared."""


# --------------------------------------------------------------------------------------------------
# `cvt`: conversions between integers and floats of all sizes.
#
# Source: PTX ISA 8.8, "Data Movement and Conversion Instructions: cvt".


MODIFIERS: Final = frozenset("rn rz rm rp rni rzi rmi rpi rna ftz sat satfinite relu".split())
_TO_INTEGRAL: Final[dict[str, Callable[[Array], Array]]] = {
    "rni": lambda x: np.rint(x),
    "rzi": lambda x: np.trunc(x),
    "rmi": lambda x: np.floor(x),
    "rpi": lambda x: np.ceil(x),
}


def conversion(modifiers: frozenset[str], to: PtxType, of: PtxType) -> Compute | None:
    """Return the function of a `cvt` with one source of type `of` and a result of type `to`.

    `None` if PTX has no such conversion.
    """
    if to.name == "tf32":
        return _to_tf32 if "rna" in modifiers else None
    if of.parts > 1 and to.parts == of.parts:
        return lambda a: a.astype(to.dtype)  # e4m3x2 to f16x2: exact
    if to.parts > 1 or of.parts > 1 or "pred" in (to.name, of.name):
        return None
    if not of.is_float:
        return _of_integer(modifiers, to, of)
    return _of_float(modifiers, to)


def packing(modifiers: frozenset[str], to: PtxType, of: PtxType) -> Compute | None:
    """Return the function of a `cvt` with two f32 sources; `None` if PTX has no such conversion.

    The first source becomes the upper half.
    """
    if to.parts != 2 or of.name != "f32":
        return None
    limit = None
    if to.bits == 16:  # f8: the largest value instead of infinity, NaN stays
        limit = {"e4m3x2": 448.0, "e5m2x2": 57344.0}[to.name]
    mode = mode_of(modifiers)

    def compute(a: Array, b: Array) -> Array:
        upper, lower = np.broadcast_arrays(a, b)
        both = np.stack([lower, upper], axis=1).astype(np.float64)
        if "relu" in modifiers:
            both = np.maximum(both, 0)
        if limit is None:
            return narrow(both, to, mode)
        return np.clip(both, -limit, limit).astype(np.float32).astype(to.dtype)

    return compute


def _of_integer(modifiers: frozenset[str], to: PtxType, of: PtxType) -> Compute:
    if not to.is_float:
        if "sat" not in modifiers:
            return lambda a: a.astype(to.dtype)
        low, high = np.iinfo(to.dtype).min, np.iinfo(to.dtype).max
        source_low, source_high = np.iinfo(of.dtype).min, np.iinfo(of.dtype).max
        least, most = max(low, source_low), min(high, source_high)
        return lambda a: np.clip(a, a.dtype.type(least), a.dtype.type(most)).astype(to.dtype)
    mode = mode_of(modifiers)

    def compute(a: Array) -> Array:
        if a.dtype.itemsize < 8:
            return narrow(a.astype(np.float64), to, mode)
        # An f64 cannot represent all 64-bit integers, but it can represent both halves. Their sum
        # with its exact error is rounded once.
        high = (a >> np.array(32, a.dtype)).astype(np.float64) * 2.0**32
        low = (a & np.array(0xFFFF_FFFF, a.dtype)).astype(np.float64)
        value, error = two_sum(high, low)
        return value if to.name == "f64" else narrow(to_odd(value, error), to, mode)

    return compute


def _of_float(modifiers: frozenset[str], to: PtxType) -> Compute:
    integral = next((_TO_INTEGRAL[m] for m in sorted(modifiers & _TO_INTEGRAL.keys())), None)
    mode = mode_of(modifiers)

    def compute(a: Array) -> Array:
        wide = (flushed(a) if "ftz" in modifiers else a).astype(np.float64)
        if not to.is_float:
            return _clamped((integral or np.trunc)(wide), to)
        value = narrow(integral(wide) if integral else wide, to, mode)
        value = flushed(value) if "ftz" in modifiers else value
        if "relu" in modifiers:
            value = np.where(np.signbit(value), np.zeros((), to.dtype), value)
        return saturated(value) if "sat" in modifiers else value

    return compute


def _clamped(integral: Array, to: PtxType) -> Array:
    """Return integral f64 values as integers of type `to`, clamped to its range; NaN becomes 0."""
    limits = np.iinfo(to.dtype)
    low, high = float(limits.min), float(limits.max)  # 2^63 - 1 rounds up to 2^63: compare by >=
    inside = np.where((integral > low) & (integral < high), integral, 0.0).astype(to.dtype)
    value = np.where(integral >= high, limits.max, inside)
    return np.where(integral <= low, limits.min, value).astype(to.dtype)


def _to_tf32(value: Array) -> Array:
    """Return f32 values rounded to 10 bits of fraction, ties away from zero."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFF_E000)).view(np.float32)
    return np.where(np.isfinite(value), rounded, value)


# --------------------------------------------------------------------------------------------------
# Floating-point results, rounded once in the direction that an instruction names.
#
# A sum, product or fused multiply-add of f16, bf16 or f32 is first computed in f64 *rounded to
# odd*: if the f64 result is inexact, its last bit is set. f64 has more than two bits more than the
# narrower types, so rounding this value again gives the correctly rounded result.
#
# Source: S. Boldo, G. Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms
# Using Rounding to Odd", IEEE Transactions on Computers 57(4), 2008.


_SPLIT = float((1 << 27) + 1)


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum of a and b, and the exact error of the sum."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_difference(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded difference of a and b, and the exact error of the difference."""
    return two_sum(a, -b)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product of a and b, and its exact error (Dekker).

    The error is exact if nothing over- or underflows.
    """
    product = a * b
    a_high = _SPLIT * a
    a_high = a_high - (a_high - a)
    b_high = _SPLIT * b
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def to_odd(value: Floats, error: Floats) -> Floats:
    """Return `value + error` rounded to odd, where `value` is that sum rounded to nearest."""
    value, error = np.broadcast_arrays(value, error)
    bits = value.view(np.int64)
    # An inexact value with an even last bit is replaced by its odd neighbour on the side of the
    # exact result.
    fix = (error != 0) & (bits & 1 == 0) & np.isfinite(value) & np.isfinite(error)
    if not fix.any():
        return value
    # One step away from zero adds 1 to the bits, one towards zero subtracts 1.
    away = (error > 0) == (value > 0)
    return (bits + np.where(fix, np.where(away, 1, -1), 0)).view(np.float64)


def narrow(exact: Floats, type_: PtxType, mode: str = "rn") -> Array:
    """Return f64 values as values of a narrower type, rounded once.

    Args:
        exact: The values, which are exact or rounded to odd.
        type_: `f16`, `bf16` or `f32`, or a packed one.
        mode: `rn` nearest even, `rz` towards zero, `rm` down, `rp` up.
    """
    if type_.element == "float64":
        return exact
    if mode == "rn" and type_.element != "bfloat16":
        return exact.astype(type_.dtype)
    single = exact.astype(np.float32)
    wide = single.astype(np.float64)
    if type_.element == "bfloat16":
        toward = np.where(np.abs(wide) > np.abs(exact), np.nextafter(single, np.float32(0)), single)
        bits = toward.view(np.uint32) | ((wide != exact) & np.isfinite(exact)).astype(np.uint32)
        odd = bits.view(np.float32)
        nearest = odd.astype(type_.dtype)
        return nearest if mode == "rn" else _directed(nearest, exact, mode)
    return _directed(exact.astype(type_.dtype), exact, mode)


def _directed(nearest: Array, exact: Floats, mode: str) -> Array:
    """Return values rounded in the direction `mode`, from those rounded to nearest.

    Where rounding to nearest went the other way, the value moves to its neighbour.

    Args:
        nearest: The values rounded to nearest.
        exact: The values before rounding.
        mode: `rz` towards zero, `rm` down, `rp` up.
    """
    wide = nearest.astype(np.float64)
    low, high = wide > exact, wide < exact
    if mode == "rz":
        low, high = low & (exact > 0), high & (exact < 0)
    down = np.nextafter(nearest, nearest.dtype.type(-np.inf))
    up = np.nextafter(nearest, nearest.dtype.type(np.inf))
    if mode in ("rm", "rz"):
        nearest = np.where(low, down, nearest)
    if mode in ("rp", "rz"):
        nearest = np.where(high, up, nearest)
    return nearest


def directed_f64(value: Floats, error: Floats, mode: str) -> Floats:
    """Return `value + error` rounded in the direction `mode`.

    `value` is that sum rounded to nearest.
    """
    if mode == "rn":
        return value
    down = (error < 0) & ((mode == "rm") | ((mode == "rz") & (value > 0)))
    up = (error > 0) & ((mode == "rp") | ((mode == "rz") & (value < 0)))
    lower = np.where(down, np.nextafter(value, -np.inf), value)
    return np.where(up, np.nextafter(value, np.inf), lower)


def fused(a: Array, b: Array, c: Array, type_: PtxType, mode: str) -> Array:
    """Return `a * b + c`, elementwise, rounded only once to type `type_`.

    `mode` is the rounding mode: `rn`, `rz`, `rm` or `rp`; see `narrow`.
    """
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    if type_.element != "float64":
        product = x * y  # the product is exact: at most 48 bits
        return narrow(to_odd(*two_sum(product, z)), type_, mode)
    high, low = two_product(x, y)
    low_sum, low_error = two_sum(z, low)
    total, error = two_sum(high, low_sum)
    exact = total + to_odd(*two_sum(low_error, error))
    plain = x * y + z
    return np.where(np.isfinite(exact), exact, plain)


def flushed(value: Array) -> Array:
    """Return f32 values with subnormals replaced by zeros of the same sign (`.ftz`)."""
    if value.dtype != np.float32:
        return value
    is_small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(is_small, np.copysign(np.float32(0), value), value)


def saturated(value: Array) -> Array:
    """Return values clamped to [0, 1]; NaN becomes 0 (`.sat`)."""
    one = np.ones((), value.dtype)
    clamped = np.where(value > 0, value, 0 * one)
    return np.where(clamped > 1, one, clamped).astype(value.dtype)
