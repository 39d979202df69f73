"""`cvt`: conversions between integers and floats of all sizes.

Source: PTX ISA 8.8, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.arrays import Array, np
from hloscope.ptx.rounding import flushed, narrow, saturated, to_odd, two_sum
from hloscope.ptx.table import Compute, mode_of
from hloscope.ptx.types import PtxType

MODIFIERS: Final = frozenset("rn rz rm rp rni rzi rmi rpi rna ftz sat satfinite relu".split())
_TO_INTEGRAL: Final[dict[str, Callable[[Array], Array]]] = {
    "rni": lambda x: np.rint(x),
    "rzi": lambda x: np.trunc(x),
    "rmi": lambda x: np.floor(x),
    "rpi": lambda x: np.ceil(x),
}


def conversion(modifiers: frozenset[str], to: PtxType, of: PtxType) -> Compute | None:
    """Return the function of a `cvt` of one source, or `None` if PTX has no such conversion."""
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
    """Return the function of a `cvt` of two f32; `None` if PTX has no such conversion.

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
        # An f64 does not hold 64-bit integers: both halves do, and their sum with its exact error
        # is rounded once.
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
    """Return integral f64 values as integers, clamped to their range; NaN becomes 0."""
    limits = np.iinfo(to.dtype)
    low, high = float(limits.min), float(limits.max)  # 2^63 - 1 rounds up to 2^63: compare by >=
    inside = np.where((integral > low) & (integral < high), integral, 0.0).astype(to.dtype)
    value = np.where(integral >= high, limits.max, inside)
    return np.where(integral <= low, limits.min, value).astype(to.dtype)


def _to_tf32(value: Array) -> Array:
    """Round to 10 bits of fraction, ties away from zero."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFF_E000)).view(np.float32)
    return np.where(np.isfinite(value), rounded, value)
