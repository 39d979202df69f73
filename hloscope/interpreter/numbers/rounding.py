"""Numbers of one element type as those of another: `convert`, and `reduce_precision`.

Every conversion rounds once, to nearest, ties to even.  Integers wrap around among themselves;
floats saturate towards integers, NaN is 0.
Source: StableHLO spec `convert`, `reduce_precision`; what it leaves open is as its reference
interpreter has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.arrays import ml_dtypes
from hloscope.interpreter.values import dtype_of
from hloscope.ir import ElementType

Function = Callable[..., Any]

_STICKY: Final = np.int64(1 << 29)
"""The last bit of a double that is kept by `float32`."""
_FINITE: Final = ("float4", "float6")
"""Types without infinity and NaN, by the beginning of their names."""

_REGISTERED: Final = 2
"""What numpy's `dtype.isbuiltin` is of a type that another library has brought."""


def is_native(dtype: Any) -> bool:
    """Is it one of numpy's own types of floats?"""
    return dtype.name in ("float16", "float32", "float64")


def rounds_to(dtype: Any) -> Function:
    """The function from doubles to the nearest numbers of a type of floats.

    >>> rounds_to(np.dtype("float16"))(np.float64([1.0004, 0.1])).tolist()
    [1.0, 0.0999755859375]
    """
    if dtype == np.float64:
        return lambda x: x
    if is_native(dtype):
        return lambda x: x.astype(dtype)
    cast = _cast(dtype)
    if dtype.name.startswith(_FINITE):  # numbers beyond `float32` are large, not infinite
        return lambda x: cast(_odd(np.where(np.isinf(x), x, np.clip(x, -1e9, 1e9))))
    return lambda x: cast(_odd(x))


def _odd(x: Any) -> Any:
    """Doubles as `float32`, so that what is lost shows in the last bit: rounding again is right."""
    bits = np.asarray(x).view(np.int64)
    lost = (bits & (_STICKY - 1)) != 0
    kept = (bits & -_STICKY) | np.where(lost, _STICKY, np.int64(0))
    return kept.view(np.float64).astype(np.float32)


def _cast(dtype: Any) -> Function:
    """The function from `float32` to a type that numpy has not itself."""
    if dtype.name == "float8_e8m0fnu":  # which has no zero
        least = np.float32(2**-127)
        return lambda x: np.where(x == 0, least, x).astype(dtype)
    if dtype.name.startswith(_FINITE):
        zero, minus = np.float32(0), np.float32(-0.0)
        return lambda x: np.where(np.isfinite(x), x, np.where(x < 0, minus, zero)).astype(dtype)
    return lambda x: x.astype(dtype)


def promoted(x: Any, dtype: Any) -> Any:
    """Numbers as those of a wider type of their kind, as accumulators may have.

    Between types that numpy has not itself there is not always a way: it leads over one it has.

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
    """The function that makes numbers of one element type those of another.

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
    into = dtype_of(target)
    if target.kind == "complex":
        return lambda x: x.astype(into)
    part = ElementType(
        f"f{source.bits // 2}", source.bits // 2, "float", f"float{source.bits // 2}"
    )
    real = conversion(part, target)
    return lambda x: real(x.real)


def _float_conversion(source: ElementType, into: Any) -> Function:
    """From any real type to floats."""
    dtype = dtype_of(source)
    if source.kind != "float":
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
    into = dtype_of(target)
    signed = target.kind == "signed"
    least = -(1 << (target.bits - 1)) if signed else 0
    most = (1 << (target.bits - signed)) - 1
    clipped = _saturating_64(into) if target.bits == 64 else _clipped(into, least, most)
    if not is_native(source) or into.kind not in "iu":
        return clipped
    start, end = float(least), float(most + 1)

    def kernel(x: Any) -> Any:
        if x.size > 1 and x.min() >= start and x.max() < end:
            return x.astype(into)
        return clipped(x)

    return kernel


def _clipped(into: Any, least: int, most: int) -> Function:
    def kernel(x: Any) -> Any:
        x = x.astype(np.float64)
        inside = np.clip(x, least, most)  # NaN stays
        return np.where(inside == inside, inside, 0.0).astype(np.int64).astype(into)

    return kernel


def _saturating_64(into: Any) -> Function:
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
    """The function to the nearest numbers of so many bits, in the same element type.

    What would be subnormal is zero; what is too large infinite, and so is NaN where there are no
    bits of mantissa to tell it from infinity.

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
    if dtype == np.float16:
        return 5, 10
    info = ml_dtypes.finfo(dtype)
    return int(info.nexp), int(info.nmant)


def _reduced(dtype: Any, mantissa: int, bias: int, exponent_bits: int, kept: int) -> Function:
    """By the bits: add half of what is dropped, cut, and look at the exponent."""
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
            last = (size >> bits(dropped)) & bits(1)
            result = (size + (bits((1 << (dropped - 1)) - 1) + last)) & bits(-1 << dropped)
        if is_narrower:
            result = np.where(result > largest, infinity, result)
            result = np.where(result < least, bits(0), result)
        result = np.where(size > infinity, size if kept else infinity, result)
        result = np.where(size == infinity, infinity, result)
        return (result | (own & sign)).view(dtype)

    return kernel
