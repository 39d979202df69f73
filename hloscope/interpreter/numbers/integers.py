"""Elementwise functions of integers and booleans, one for each op and numpy type.

Functions take arrays of any shape, and numpy scalars, which loop counters are, on a faster path.
Arithmetic wraps around.  Where the specification leaves a result open it is XLA's: `x / 0` has all
bits set, `x % 0` is `x`.
Source: StableHLO spec; XLA `elemental_ir_emitter.cc`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.interpreter.values import dtype_of
from hloscope.ir import ElementType

Function = Callable[..., Any]

_SAME_FOR_ALL: Final[dict[str, Function]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
_NATIVE: Final[dict[str, Function]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "negate": operator.neg,
    "abs": abs,
    "sign": np.sign,
    "shift_left": operator.lshift,
}


def integer_function(name: str, element: ElementType) -> Function | None:
    """Return the function of the op `name` for an integer type; `None` if the op has none.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> integer_function("divide", ELEMENT_TYPES["s32"])(np.int32([7, -7]), np.int32(2)).tolist()
    [3, -3]
    """
    dtype = dtype_of(element)
    if element.kind == "pred":
        return _boolean(name)
    if name in _SAME_FOR_ALL:
        return _SAME_FOR_ALL[name]
    if name == "shift_right_arithmetic":
        return _signed_shift(dtype, element.bits)
    is_signed = element.kind == "signed"
    if dtype.kind in "iu":
        return _native(name, dtype, element.bits)
    wide = np.dtype("int8" if is_signed else "uint8")
    function = _native(name, wide, element.bits)
    return None if function is None else _in_wide(function, wide, dtype)


def _in_wide(function: Function, wide: Any, dtype: Any) -> Function:
    """Return `function`, of integers of type `wide`, as a function of the narrow type `dtype`."""

    def kernel(*operands: Any) -> Any:
        return function(*[x.astype(wide) for x in operands]).astype(dtype)

    return kernel


def _boolean(name: str) -> Function | None:
    """Return the function of an op on booleans; `None` if the op has none.

    Sums and maxima are `or`, products and minima `and`.
    """
    match name:
        case "add" | "maximum":
            return operator.or_
        case "multiply" | "minimum":
            return operator.and_
        case "and" | "or" | "xor" | "not":
            return _NATIVE[name]
        case _:
            return None


def _native(name: str, dtype: Any, bits: int) -> Function | None:
    """Return the function of an op on one of numpy's integer types; `None` if the op has none.

    Elements have `bits` bits, which may be fewer than `dtype` has.
    """
    if name in _NATIVE:
        return _NATIVE[name]
    match name:
        case "maximum":
            return _extremum(operator.ge, np.maximum)
        case "minimum":
            return _extremum(operator.le, np.minimum)
        case "divide":
            return _division(dtype)
        case "remainder":
            return _remainder
        case "power":
            return _power
        case "shift_right_logical":
            return _logical_shift(dtype, bits)
        case "popcnt":
            return _on_bits(_ones, dtype, bits)
        case "count_leading_zeros":
            return _on_bits(lambda x: bits - _ones(_smeared(x)), dtype, bits)
        case "chlo.mulhi":
            return _high_product(dtype, bits)
        case _:
            return None


def _extremum(wins: Function, ufunc: np.ufunc) -> Function:
    """Return the maximum or minimum, which `ufunc` computes of arrays."""
    return lambda a, b: (a if wins(a, b) else b) if a.ndim == b.ndim == 0 else ufunc(a, b)


def _division(dtype: Any) -> Function:
    """Return a division that rounds towards zero; `x / 0` has all bits set."""
    if dtype.kind == "u":
        return _unsigned_division
    least = int(np.iinfo(dtype).min)
    make = dtype.type
    all_set = make(-1)

    def divide(a: Any, b: Any) -> Any:
        if a.ndim == b.ndim == 0:
            x, y = int(a), int(b)
            if y == 0:
                return all_set
            # The least integer has no positive counterpart; its negation wraps around to itself.
            if y == -1:
                return a if x == least else make(-x)
            quotient = abs(x) // abs(y)
            return make(quotient if (x < 0) == (y < 0) else -quotient)
        quotient = (a - np.fmod(a, b)) // b
        zero = b == 0
        return np.where(zero, all_set, quotient) if zero.any() else quotient

    return divide


def _unsigned_division(a: Any, b: Any) -> Any:
    zero = b == 0
    quotient = a // b
    return np.where(zero, ~np.zeros_like(b), quotient) if zero.any() else quotient


def _remainder(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of the dividend; `x % 0` is `x`."""
    if a.ndim == b.ndim == 0:
        x, y = int(a), int(b)
        rest = abs(x) % abs(y) if y else abs(x)
        return a if rest == abs(x) else a.dtype.type(rest if x > 0 else -rest)
    rest = np.fmod(a, b)
    zero = b == 0
    return np.where(zero, a, rest) if zero.any() else rest


def _power(a: Any, b: Any) -> Any:
    """Return the power; a negative exponent gives 0, except for the bases 1 and -1."""
    negative = b < 0
    if not negative.any():
        return np.power(a, b)
    one = b.dtype.type(1)
    result = np.power(a, np.where(negative, one & b, b))  # of -1 and 1, the parity decides
    return np.where(negative & (a != one) & (a != -one), b.dtype.type(0), result)


def _logical_shift(dtype: Any, bits: int) -> Function:
    """Return a right shift that fills with zeros, also for signed types.

    Elements of type `dtype` have `bits` bits, which may be fewer than `dtype` has.
    """
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if dtype == unsigned:
        return operator.rshift
    if bits == 8 * dtype.itemsize:
        return lambda a, b: (a.view(unsigned) >> b.view(unsigned)).view(dtype)
    mask = unsigned.type((1 << bits) - 1)

    def shift(a: Any, b: Any) -> Any:
        return np.right_shift(a.view(unsigned) & mask, b.view(unsigned)).view(dtype)

    return shift


def _signed_shift(dtype: Any, bits: int) -> Function:
    """Return a right shift that fills with the highest bit, also for unsigned types.

    For a signed type, the highest bit is the sign. Elements of type `dtype` have `bits` bits.
    """
    if dtype.kind == "i":
        return operator.rshift
    signed = np.dtype(f"i{dtype.itemsize}")
    spare = signed.type(8 * dtype.itemsize - bits)

    def shift(a: Any, b: Any) -> Any:
        return ((a.astype(signed) << spare) >> spare >> b.astype(signed)).astype(dtype)

    return shift


def _on_bits(function: Function, dtype: Any, bits: int) -> Function:
    """Return `function`, a function of `uint64`, for the low `bits` bits of the type `dtype`."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    mask = np.uint64((1 << bits) - 1)

    def kernel(x: Any) -> Any:
        return function(x.view(unsigned).astype(np.uint64) & mask).astype(dtype)

    return kernel


def _smeared(x: Any) -> Any:
    """Return x with all bits below its highest set bit set."""
    for distance in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(distance))
    return x


def _ones(x: Any) -> Any:
    """Return the number of bits set: sums in fields of 2, 4 and 8 bits, then of all fields."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    x = (x & pairs) + ((x >> np.uint64(2)) & pairs)
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


def _high_product(dtype: Any, bits: int) -> Function:
    """Return a function for the upper `bits` bits of the product of two `bits`-bit integers."""
    if bits <= 32:
        wide = np.dtype(f"{dtype.kind}8")
        return lambda a, b: ((a.astype(wide) * b.astype(wide)) >> wide.type(bits)).astype(dtype)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)

    def high(a: Any, b: Any) -> Any:
        x, y = a.view(np.uint64), b.view(np.uint64)
        x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
        # The product of 32-bit halves, term by term; no partial sum exceeds 64 bits.
        middle = x1 * y0 + ((x0 * y0) >> half)
        other = x0 * y1 + (middle & low)
        product = (x1 * y1 + (middle >> half) + (other >> half)).view(dtype)
        if dtype.kind == "u":
            return product
        # As an unsigned number a negative a is `a + 2^64`, which adds `b` to the upper half.
        zero = dtype.type(0)
        return product - np.where(a < zero, b, zero) - np.where(b < zero, a, zero)

    return high
