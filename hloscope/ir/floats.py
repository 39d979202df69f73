"""Floating-point formats: bits to numbers and back, and texts as in MLIR.

Source: LLVM `APFloat::toString`, `APFloat::convert`; MLIR `AsmPrinter.cpp` (`printFloatValue`).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple


class Format(NamedTuple):
    """A float format; a normal number is `1.m * 2 ** (e - bias)`.

    Attributes:
        exponent: Exponent bits.
        mantissa: Mantissa bits.
        bias: Bias of the exponent.
        special: Meaning of special bit patterns.  `ieee`: the highest exponent is infinity and
            NaNs; `fn`: no infinity, all ones is NaN; `fnuz`: no infinity, the pattern of -0 is
            NaN; `finite`: only numbers; `scale`: no sign, no zero, all ones is NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str

    @property
    def precision(self) -> int:
        """Bits of the significand of a normal number."""
        return self.mantissa + 1

    @property
    def bits(self) -> int:
        """Width of the format in bits, including the sign bit if there is one."""
        return self.exponent + self.mantissa + (self.special != "scale")


_ROWS: Final = """
    f64            11 52  1023 ieee
    f32             8 23   127 ieee
    tf32            8 10   127 ieee
    bf16            8  7   127 ieee
    f16             5 10    15 ieee
    f8e5m2          5  2    15 ieee
    f8e4m3          4  3     7 ieee
    f8e3m4          3  4     3 ieee
    f8e4m3fn        4  3     7 fn
    f8e5m2fnuz      5  2    16 fnuz
    f8e4m3fnuz      4  3     8 fnuz
    f8e4m3b11fnuz   4  3    11 fnuz
    f6e3m2fn        3  2     3 finite
    f6e2m3fn        2  3     1 finite
    f4e2m1fn        2  1     1 finite
    f8e8m0fnu       8  0   127 scale
"""

FORMATS: Final[dict[str, Format]] = {
    name: Format(int(e), int(m), int(bias), special)
    for name, e, m, bias, special in map(str.split, _ROWS.strip().splitlines())
}
"""Formats by name: those of `ir.types.ELEMENT_TYPES`, and `tf32`."""


def decode(bits: int, name: str) -> float:
    """Return the number that the integer `bits` encodes in the format `name` of `FORMATS`.

    >>> decode(0x3F80, "bf16"), decode(0x7E, "f8e4m3fn"), decode(0x80, "f8e4m3fnuz")
    (1.0, 448.0, nan)
    """
    form = FORMATS[name]
    fields = form.exponent + form.mantissa
    negative = bits >> fields & 1
    exponent = bits >> form.mantissa & (1 << form.exponent) - 1
    mantissa = bits & (1 << form.mantissa) - 1
    highest = exponent == (1 << form.exponent) - 1
    match form.special:
        case "ieee" if highest:
            value = math.inf if mantissa == 0 else math.nan
        case "fn" if highest and mantissa == (1 << form.mantissa) - 1:
            value = math.nan
        case "fnuz" if bits == 1 << fields:
            value = math.nan
        case "scale":
            return math.nan if highest else math.ldexp(1.0, exponent - form.bias)
        case _ if exponent == 0:
            value = math.ldexp(mantissa, 1 - form.bias - form.mantissa)
        case _:
            whole = mantissa | 1 << form.mantissa
            value = math.ldexp(whole, exponent - form.bias - form.mantissa)
    return -value if negative else value


def encode(value: float, name: str) -> int:
    """Return the bits of the number of format `name` that is nearest to `value`, ties to even.

    A number that is too large becomes infinity.  Formats without infinity give NaN, or their
    largest number if they have no NaN either.

    >>> hex(encode(0.1, "bf16")), hex(encode(1e6, "f8e4m3fn")), hex(encode(-math.inf, "f16"))
    ('0x3dcd', '0x7f', '0xfc00')
    """
    form = FORMATS[name]
    sign = 0
    if form.special != "scale" and math.copysign(1.0, value) < 0:
        sign = 1 << form.exponent + form.mantissa
    if not math.isfinite(value):
        return _not_finite(form, sign, math.isnan(value))
    if value == 0:
        return 0 if form.special == "fnuz" else sign
    numerator, denominator = abs(value).as_integer_ratio()
    # 2 ** power <= value < 2 ** (power + 1), after correcting the estimate by bit lengths.
    power = numerator.bit_length() - denominator.bit_length()
    if numerator << max(-power, 0) < denominator << max(power, 0):
        power -= 1
    least = _least(form)
    if form.special == "scale" and power < least:
        return 0
    # Representable numbers near the value are multiples of 2 ** unit; subnormal ones share the unit
    # of the least exponent.  The division is exact, so the value is rounded only once.
    unit = max(power, least) - form.mantissa
    half = denominator << max(unit, 0)
    count, rest = divmod(numerator << max(-unit, 0), half)
    if 2 * rest > half or (2 * rest == half and count & 1):
        count += 1
    # Bit patterns count the numbers, so rounding up to a power of two carries into the exponent.
    bits = (
        count
        if power < least
        else (power + form.bias << form.mantissa) + (count - (1 << form.mantissa))
    )
    if bits > _largest(form):
        return _not_finite(form, sign, nan=False)
    return 0 if form.special == "fnuz" and not bits else sign | bits


def _least(form: Format) -> int:
    """Return the exponent `e` of the smallest normal number, `2 ** e`."""
    return (0 if form.special == "scale" else 1) - form.bias


def _largest(form: Format) -> int:
    """Return the bits of the largest finite number of the format."""
    everything = (1 << form.exponent + form.mantissa) - 1
    match form.special:
        case "ieee":
            return everything - (1 << form.mantissa)
        case "fn" | "scale":
            return everything - 1
        case _:
            return everything


def _not_finite(form: Format, sign: int, nan: bool) -> int:
    """Return the bits of infinity, or of NaN if `nan`.

    A format without infinity gives NaN for both; a format without NaN gives its largest number.
    `sign` is the sign bit, already shifted to its position.
    """
    fields = form.exponent + form.mantissa
    match form.special:
        case "ieee":
            infinity = (1 << fields) - (1 << form.mantissa)
            return sign | infinity | (1 << form.mantissa - 1 if nan else 0)
        case "fn":
            return sign | (1 << fields) - 1
        case "scale":
            return (1 << fields) - 1
        case "fnuz":
            return 1 << fields
        case _:
            return sign | (1 << fields) - 1


def format_float(bits: int, name: str) -> str:
    """Return the text that MLIR prints for the number with these bits.

    Reading it gives the same bits.

    The text has six digits after the point and an exponent if these identify the number, else as
    many digits as identify every number of the format.  Infinities, NaNs and texts that would look
    like an integer are printed as bits.

    Args:
        bits: The number's bits as an integer.
        name: Name of the format in `FORMATS`.

    >>> format_float(0x3F800000, "f32"), format_float(0x3F666666, "f32")
    ('1.000000e+00', '0.899999976')
    >>> format_float(0x4996B438, "f32"), format_float(0x7FC0, "bf16")
    ('0x4996B438', '0x7FC0')
    """
    # Cached, as printing asks for every element of a constant, and many elements are equal.
    form = FORMATS[name]
    value = decode(bits, name)
    if math.isfinite(value):
        minus = "-" if math.copysign(1.0, value) < 0 else ""
        if value == 0:
            return f"{minus}0.000000e+00"
        mantissa, exponent = math.frexp(abs(value))
        significand = int(mantissa * (1 << 53))
        trailing = (significand & -significand).bit_length() - 1
        significand, exponent = significand >> trailing, exponent - 53 + trailing
        digits, power = _decimal(significand, exponent, 6)
        if _reads_back(digits, power, significand, exponent, form):
            fraction = digits[1:].ljust(6, "0")
            power += len(digits) - 1
            return f"{minus}{digits[0]}.{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
        text = _plain(*_decimal(significand, exponent, limit := _digits(form)), limit)
        if "." in text:
            return minus + text
    return f"0x{bits:X}"


def _digits(form: Format) -> int:
    """Return the number of decimal digits that distinguish all numbers of the format.

    59 / 196 is slightly below log10(2).
    """
    return 2 + form.precision * 59 // 196


def _decimal(significand: int, exponent: int, limit: int) -> tuple[str, int]:
    """Return the digits of `significand * 2 ** exponent`, and the power of ten of the last digit.

    There are at most `limit` digits.  As in LLVM, excess bits are cut off first, and the rest is
    rounded, halves up.
    """
    power = min(exponent, 0)
    number = significand << exponent if exponent > 0 else significand * 5**-exponent
    excess = number.bit_length() - (limit * 196 + 58) // 59
    if excess > 0:
        tens = excess * 59 // 196
        number //= 10**tens
        power += tens
    digits = str(number)
    if len(digits) > limit:
        power += len(digits) - limit
        digits = str(int(digits[:limit]) + (digits[limit] >= "5"))
    short = digits.rstrip("0")
    return short, power + len(digits) - len(short)


def _reads_back(digits: str, power: int, significand: int, exponent: int, form: Format) -> bool:
    """Is `significand * 2 ** exponent` the number of the format that is nearest to these digits?"""
    number = int(digits)
    top = exponent + significand.bit_length() - 1
    unit = max(top, _least(form)) - form.mantissa
    # Integers with a common factor: 2 ** (2 - unit) and, for negative powers, 10 ** -power.  The
    # factor 4 leaves room for the quarter unit below a power of two.
    ten = 10 ** abs(power)
    exact = significand << (exponent - unit + 2)
    shown = number * ten if power > 0 else number
    if power < 0:
        exact *= ten
    shift = 2 - unit
    if shift >= 0:
        shown <<= shift
        one = 4
    else:
        exact, one = exact << -shift, 4 << -shift
    one *= ten if power < 0 else 1
    apart = shown - exact
    half = one // 2
    if apart < 0 and significand == 1 and top > _least(form):
        half //= 2  # below a power of two the distance of numbers is half as large
    # Exactly halfway, reading rounds to the even number.
    even = not (significand << (exponent - unit)) & 1
    return abs(apart) < half or (abs(apart) == half and even)


def _plain(digits: str, power: int, limit: int) -> str:
    """Return the decimal text of `digits * 10 ** power`.

    There is no exponent if the text then needs at most three extra zeros and has at most `limit`
    digits.
    """
    count = len(digits)
    first = power + count - 1
    if power >= 0:
        if power <= 3 and count + power <= limit:
            return digits + "0" * power
    elif first >= 0:
        return f"{digits[: first + 1]}.{digits[first + 1 :]}"
    elif first >= -3:
        return "0." + "0" * (-first - 1) + digits
    fraction = digits[1:] or "0"
    return f"{digits[0]}.{fraction}E{'-' if first < 0 else '+'}{abs(first)}"
