"""Floating-point results, rounded once in the direction that an instruction names.

A sum, product or fused multiply-add of f16, bf16 or f32 is first computed in f64 *rounded to odd*:
if the f64 result is inexact, its last bit is set. f64 has more than two bits more than the narrower
types, so rounding this value again gives the correctly rounded result.

Source: S. Boldo, G. Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms
Using Rounding to Odd", IEEE Transactions on Computers 57(4), 2008.
"""

from __future__ import annotations

from hloscope.arrays import Array, Floats, np
from hloscope.ptx.types import PtxType

_SPLIT = float((1 << 27) + 1)


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and its exact error (Dekker), if nothing over- or underflows."""
    product = a * b
    a_high = _SPLIT * a
    a_high = a_high - (a_high - a)
    b_high = _SPLIT * b
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def to_odd(value: Floats, error: Floats) -> Floats:
    """Return `value + error` rounded to odd, where `value` is the sum rounded to nearest."""
    value, error = np.broadcast_arrays(value, error)
    bits = value.view(np.int64)
    # An inexact value with an even last bit moves to its odd neighbour on the side of the exact
    # result.
    fix = (error != 0) & (bits & 1 == 0) & np.isfinite(value) & np.isfinite(error)
    if not fix.any():
        return value
    # Away from zero is one more in the bits, towards zero one less.
    away = (error > 0) == (value > 0)
    return (bits + np.where(fix, np.where(away, 1, -1), 0)).view(np.float64)


def narrow(exact: Floats, type_: PtxType, mode: str = "rn") -> Array:
    """Return an f64 that is exact or rounded to odd as a value of a narrower type.

    Args:
        exact: The value.
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
    """Return values moved one step where rounding to nearest went the other way."""
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
    """Return `value + error` rounded in a direction, where `value` is rounded to nearest."""
    if mode == "rn":
        return value
    down = (error < 0) & ((mode == "rm") | ((mode == "rz") & (value > 0)))
    up = (error > 0) & ((mode == "rp") | ((mode == "rz") & (value < 0)))
    lower = np.where(down, np.nextafter(value, -np.inf), value)
    return np.where(up, np.nextafter(value, np.inf), lower)


def fused(a: Array, b: Array, c: Array, type_: PtxType, mode: str) -> Array:
    """Return `a * b + c`, rounded once."""
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    if type_.element != "float64":
        product = x * y  # exact: at most 48 bits
        return narrow(to_odd(*two_sum(product, z)), type_, mode)
    high, low = two_product(x, y)
    low_sum, low_error = two_sum(z, low)
    total, error = two_sum(high, low_sum)
    exact = total + to_odd(*two_sum(low_error, error))
    plain = x * y + z
    return np.where(np.isfinite(exact), exact, plain)


def flushed(value: Array) -> Array:
    """Return f32 values with subnormals replaced by zeros of their sign (`.ftz`)."""
    if value.dtype != np.float32:
        return value
    is_small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(is_small, np.copysign(np.float32(0), value), value)


def saturated(value: Array) -> Array:
    """Return values clamped to [0, 1], NaN as 0 (`.sat`)."""
    one = np.ones((), value.dtype)
    clamped = np.where(value > 0, value, 0 * one)
    return np.where(clamped > 1, one, clamped).astype(value.dtype)
