"""Conversions between element types: `convert`, `reduce_precision` and bit casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.interpreter.values import Array, dtype_of
from hloscope.ir import ElementType, QuantizedType
from hloscope.support.arrays import ml_dtypes

# --------------------------------------------------------------------------------------------------
# Conversions between element types: `convert` and `reduce_precision`.
#
# Every conversion rounds once, to nearest, ties to even.  Integers wrap around when converted to
# integers.  Floats saturate when converted to integers, and NaN becomes 0. Source: StableHLO spec
# `convert`, `reduce_precision`; cases it leaves open follow its reference interpreter.


Function = Callable[..., Any]

_STICKY: Final = np.int64(1 << 29)
"""The lowest bit of a double's mantissa that a `float32` can store."""
_FINITE: Final = ("float4", "float6")
"""Prefixes of names of float types without infinity and NaN."""

_REGISTERED: Final = 2
"""Value of numpy's `dtype.isbuiltin` for a type that another library has registered."""


def is_native(dtype: Any) -> bool:
    """Is `dtype` one of numpy's own float types?"""
    return dtype.name in ("float16", "float32", "float64")


def rounds_to(dtype: Any) -> Function:
    """Return the function that rounds doubles to the nearest numbers of the float type `dtype`.

    >>> rounds_to(np.dtype("float16"))(np.float64([1.0004, 0.1])).tolist()
    [1.0, 0.0999755859375]
    """
    if dtype == np.float64:
        return lambda x: x
    if is_native(dtype):
        return lambda x: x.astype(dtype)
    cast = _cast(dtype)
    if dtype.name.startswith(_FINITE):  # numbers beyond `float32` are large, not infinite
        return lambda x: cast(_round_to_odd(np.where(np.isinf(x), x, np.clip(x, -1e9, 1e9))))
    return lambda x: cast(_round_to_odd(x))


def _round_to_odd(x: Any) -> Any:
    """Return doubles as `float32`, rounded to odd.

    The last bit is set if bits were lost.  Rounding such a number again to fewer bits gives the
    same
    result as rounding the double once.
    """
    bits = np.asarray(x).view(np.int64)
    lost = (bits & (_STICKY - 1)) != 0
    kept = (bits & -_STICKY) | np.where(lost, _STICKY, np.int64(0))
    return kept.view(np.float64).astype(np.float32)


def _cast(dtype: Any) -> Function:
    """Return the function that converts `float32` to `dtype`, a float type that numpy lacks."""
    if dtype.name == "float8_e8m0fnu":  # which has no zero
        least = np.float32(2**-127)
        return lambda x: np.where(x == 0, least, x).astype(dtype)
    if dtype.name.startswith(_FINITE):
        zero, minus = np.float32(0), np.float32(-0.0)
        return lambda x: np.where(np.isfinite(x), x, np.where(x < 0, minus, zero)).astype(dtype)
    return lambda x: x.astype(dtype)


def promoted(x: Any, dtype: Any) -> Any:
    """Return `x` converted to `dtype`, a type of the same kind that represents more numbers.

    Two types from ml_dtypes may have no direct conversion; it then goes through one of numpy's
    types.

    >>> import ml_dtypes
    >>> promoted(np.array([-2, 1], ml_dtypes.int2), np.dtype(ml_dtypes.uint4)).tolist()
    [14, 1]
    """
    if x.dtype == dtype:
        return x
    if x.dtype.isbuiltin == dtype.isbuiltin == _REGISTERED:
        if "int" in dtype.name:
            return x.astype(np.int8).astype(dtype)
        return _cast(dtype)(x.astype(np.float32))
    return x.astype(dtype)


def conversion(source: ElementType, target: ElementType) -> Function:
    """Return the function that converts numbers of type `source` to type `target`.

    >>> from hloscope.ir.types import ELEMENT_TYPES as types
    >>> conversion(types["f32"], types["s8"])(np.float32([300, -1.9, np.nan])).tolist()
    [127, -1, 0]
    """
    into = dtype_of(target)
    if source == target:
        return lambda x: x
    if source.kind == "complex":
        return _of_complex(source, target)
    if target.kind == "pred":
        return lambda x: x != 0
    if target.kind == "complex":
        part = _float_conversion(source, np.dtype(f"f{into.itemsize // 2}"))
        return lambda x: part(x).astype(into)
    if target.kind == "float":
        return _float_conversion(source, into)
    if source.kind == "float":
        return _saturating(target, dtype_of(source))
    if source.kind == "pred" or dtype_of(source).kind in "iu":
        return lambda x: x.astype(into)
    return lambda x: x.astype(np.int8).astype(into)


def _of_complex(source: ElementType, target: ElementType) -> Function:
    """Return the conversion from a complex type; to a real type it converts the real part."""
    into = dtype_of(target)
    if target.kind == "complex":
        return lambda x: x.astype(into)
    part = ElementType(
        f"f{source.bits // 2}", source.bits // 2, "float", f"float{source.bits // 2}"
    )
    real = conversion(part, target)
    return lambda x: real(x.real)


def _float_conversion(source: ElementType, into: Any) -> Function:
    """Return the conversion from any real type, `source`, to the float type `into`."""
    dtype = dtype_of(source)
    if source.kind != "float":
        # Numpy rounds an integer once here.  It may convert wide integers to 16-bit floats in two
        # steps.
        if is_native(into) and (into.itemsize > 2 or source.bits < 32):
            return lambda x: x.astype(into)
        rounded = rounds_to(into)
        return lambda x: rounded(x.astype(np.float64))
    if is_native(into):
        return lambda x: x.astype(into)
    if dtype == np.float64:
        return rounds_to(into)
    cast = _cast(into)
    return lambda x: cast(x.astype(np.float32))


def _saturating(target: ElementType, source: Any) -> Function:
    """Return the conversion from a float type to an integer type.

    Numbers beyond the limits of `target` become the limits; NaN becomes 0.
    """
    into = dtype_of(target)
    signed = target.kind == "signed"
    least = -(1 << (target.bits - 1)) if signed else 0
    most = (1 << (target.bits - signed)) - 1
    clipped = _saturating_64(into) if target.bits == 64 else _clipped(into, least, most)
    if not is_native(source) or into.kind not in "iu":
        return clipped
    start, end = float(least), float(most + 1)

    def kernel(x: Any) -> Any:
        # If all numbers are in range, numpy's conversion is defined and much faster.  NaN fails the
        # comparison.
        if x.size > 1 and x.min() >= start and x.max() < end:
            return x.astype(into)
        return clipped(x)

    return kernel


def _clipped(into: Any, least: int, most: int) -> Function:
    """Return a conversion to the integer type `into` that saturates at `least` and `most`.

    NaN becomes 0. The type has fewer than 64 bits, so that both limits are exact doubles.
    """

    def kernel(x: Any) -> Any:
        x = x.astype(np.float64)
        inside = np.clip(x, least, most)  # NaN stays
        return np.where(inside == inside, inside, 0.0).astype(np.int64).astype(into)

    return kernel


def _saturating_64(into: Any) -> Function:
    """Return a conversion from floats to the 64-bit integer type `into`, which saturates.

    The upper limit is not an exact double.
    """
    info = np.iinfo(into)
    least, most = into.type(info.min), into.type(info.max)
    end = 2.0 ** (63 if into.kind == "i" else 64)
    start = -end if into.kind == "i" else 0.0

    def kernel(x: Any) -> Any:
        x = x.astype(np.float64)
        inside = (x > start) & (x < end)
        result = np.where(inside, x, 0.0).astype(into)
        result = np.where(x <= start, least, result)
        return np.where(x >= end, most, result)

    return kernel


def reduced_precision(element: ElementType, exponent_bits: int, mantissa_bits: int) -> Function:
    """Return the function that rounds numbers of `element` to fewer exponent and mantissa bits.

    Results that would be subnormal are zero, and results that are too large are infinite.  With 0
    mantissa bits a NaN becomes infinite too.

    >>> from hloscope.ir.types import ELEMENT_TYPES as types
    >>> reduced_precision(types["f32"], 5, 2)(np.float32([3.3, 1e5, -1e-5])).tolist()
    [3.5, inf, -0.0]
    """
    dtype = dtype_of(element)
    exponent_bits = max(min(exponent_bits, 11), 1)  # no type has more
    mantissa_bits = max(mantissa_bits, 0)
    if dtype == np.float64:
        return _reduced(np.dtype("f8"), 52, 1023, exponent_bits, mantissa_bits)
    reduce = _reduced(np.dtype("f4"), 23, 127, exponent_bits, mantissa_bits)
    if dtype == np.float32:
        return reduce
    info_exponent, info_mantissa = _bits_of(dtype)
    if exponent_bits >= info_exponent and mantissa_bits >= info_mantissa:
        return lambda x: x
    back = _cast(dtype)
    return lambda x: back(reduce(x.astype(np.float32)))


def _bits_of(dtype: Any) -> tuple[int, int]:
    """Return the numbers of exponent and mantissa bits of a float type."""
    if dtype == np.float16:
        return 5, 10
    info = ml_dtypes.finfo(dtype)
    return int(info.nexp), int(info.nmant)


def _reduced(dtype: Any, mantissa: int, bias: int, exponent_bits: int, kept: int) -> Function:
    """Return a function that rounds bit patterns of the float type `dtype` to `kept` mantissa bits.

    `dtype` has `mantissa` mantissa bits and the exponent bias `bias`. Magnitudes of floats are
    ordered like their bit patterns, so an overflow of the mantissa correctly carries into the
    exponent.
    """
    bits = np.dtype(f"i{dtype.itemsize}").type
    sign = bits(-1 << (8 * dtype.itemsize - 1))
    infinity = bits((2 * bias + 1) << mantissa)
    dropped = max(mantissa - kept, 0)
    new_bias = (1 << (exponent_bits - 1)) - 1
    is_narrower = new_bias < bias
    largest = least = infinity
    if is_narrower:
        largest = bits((bias + new_bias) << mantissa | ((1 << mantissa) - (1 << dropped)))
        least = bits((bias - new_bias + 1) << mantissa)

    def kernel(x: Any) -> Any:
        x = np.asarray(x)
        own = x.view(bits)
        size = own & ~sign
        result = size
        if dropped:
            # Adding half of the dropped unit, minus one, plus the last kept bit, and cutting: ties
            # go to even.
            last = (size >> bits(dropped)) & bits(1)
            result = (size + (bits((1 << (dropped - 1)) - 1) + last)) & bits(-1 << dropped)
        if is_narrower:
            result = np.where(result > largest, infinity, result)
            result = np.where(result < least, bits(0), result)
        result = np.where(size > infinity, size if kept else infinity, result)
        result = np.where(size == infinity, infinity, result)
        return (result | (own & sign)).view(dtype)

    return kernel


# --------------------------------------------------------------------------------------------------
# Bit casts between elements of any widths.


def packed_bits(element: ElementType, bits_of_pred: int) -> int:
    """Return the number of bits of an element in memory where elements have no gaps.

    A quantized element takes the bits of its storage integer, a boolean takes `bits_of_pred`.
    """
    if isinstance(element, QuantizedType):
        element = element.storage
    return bits_of_pred if element.kind == "pred" else element.bits


def rebit(value: Array, old: int, new: int, dtype: Any) -> Array:
    """Return the bits along the last dimension as elements of another width, low bits first.

    Args:
        value: The elements.
        old: Bits of an element; an element of less than a byte is in the low bits of one.
        new: Bits of a new element.
        dtype: Numpy dtype of the new elements.

    >>> rebit(np.array([0x1234], "u2"), 16, 4, np.dtype("u1")).tolist()
    [4, 3, 2, 1]
    >>> rebit(np.array([1, 2], "u1"), 8, 16, np.dtype("u2")).tolist()
    [513]
    """
    if old == new:
        if old % 8 or dtype.kind == "b":
            return _from_bytes(value.view(np.uint8), new, dtype)
        return value.view(dtype)
    if old % 8 == 0 and new % 8 == 0 and dtype.kind != "b":
        return np.ascontiguousarray(value).view(dtype)
    pieces = value.view(np.uint8) if old < 8 else np.ascontiguousarray(value).view(np.uint8)
    if old < 8 and old < new:
        pieces = _joined(pieces, old, min(new, 8))
    elif new < 8:
        pieces = _split(pieces, min(old, 8), new)
    if new > 8:
        return np.ascontiguousarray(pieces).view(dtype)
    return _from_bytes(pieces, new, dtype)


def _split(pieces: Array, old: int, new: int) -> Array:
    """Return `pieces`, elements of `old` bits, split into elements of `new` bits.

    The low bits come first. Each element is in the low bits of a byte.
    """
    shifts = np.arange(0, old, new, dtype=np.uint8)
    parts = pieces[..., None] >> shifts & ((1 << new) - 1)
    return parts.reshape(*pieces.shape[:-1], -1)


def _joined(pieces: Array, old: int, new: int) -> Array:
    """Return `pieces`, elements of `old` bits, joined to elements of `new` bits.

    The first one becomes the low bits. Each element is in the low bits of a byte.
    """
    shifts = np.arange(0, new, old, dtype=np.uint8)
    groups = (pieces & ((1 << old) - 1)).reshape(*pieces.shape[:-1], -1, len(shifts))
    joined: Array = np.bitwise_or.reduce(groups << shifts, axis=-1)
    return joined


def _from_bytes(pieces: Array, bits: int, dtype: Any) -> Array:
    """Return elements of `bits` bits and type `dtype`, made of consecutive bytes.

    An element of less than a byte is made of the low bits of one.
    """
    if bits < 8:
        pieces = pieces & ((1 << bits) - 1)
    elements: Array = pieces != 0 if dtype.kind == "b" else np.asarray(pieces).view(dtype)
    return elements
