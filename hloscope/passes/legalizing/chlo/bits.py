"""Functions on the bits of numbers: `next_after`, `mulhi`.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import Operation, integer_type, is_signless
from hloscope.passes.legalizing.chlo.expansions import Expansion
from hloscope.passes.legalizing.chlo.terms import Site, Term, select
from hloscope.passes.patterns import Pattern
from hloscope.passes.rewriting import Rewriter

_U64: Final = ELEMENT_TYPES["u64"]


def next_after(x: Term, y: Term) -> Term:
    """Return the float next to `x` in the direction of `y`."""
    element = x.element
    integer = integer_type(f"i{element.bits}")
    assert integer is not None
    x_bits, y_bits = x.bits(integer), y.bits(integer)
    is_nan = x.ne(x) | y.ne(y)
    nan = x.limit("nan").bits(integer)
    sign_mask = x_bits.constant(1 << (element.bits - 1))
    rest_mask = x_bits.constant((1 << (element.bits - 1)) - 1)
    # The bits of floats of one sign are in the order of their sizes, so that the next float is one
    # integer away.
    x_size, y_size = x_bits & rest_mask, y_bits & rest_mask
    is_same = x.eq(y)
    zero = x_bits.constant(0)
    x_is_zero, y_is_zero = x_size.eq(zero), y_size.eq(zero)
    x_sign, y_sign = x_bits & sign_mask, y_bits & sign_mask
    one = x_bits.constant(1)
    smallest = y_sign | one
    signs_differ = x_sign.ne(y_sign)
    is_smaller = (x_size > y_size) | signs_differ
    beside = x_bits + select(is_smaller, x_bits.constant(-1), one)
    # From zero the next float is the smallest one, with the sign of `y`.
    from_zero = select(y_is_zero, y_bits, smallest)
    made = select(x_is_zero, from_zero, beside)
    made = select(is_same, y_bits, made)
    return select(is_nan, nan, made).bits(element)


def _shifted(x: Term, bits: int) -> Term:
    return x.make("shift_right_logical", x.constant(bits))


def narrow_mulhi(x: Term, y: Term) -> Term:
    """Return the upper half of a product, computed in twice the width."""
    element = x.element
    kind = "ui" if element.kind == "unsigned" else "i" if is_signless(element) else "si"
    wide = integer_type(f"{kind}{2 * element.bits}")
    assert wide is not None
    product = x.convert(wide) * y.convert(wide)
    name = "shift_right_logical" if kind == "ui" else "shift_right_arithmetic"
    return product.own.make(name, product.own.constant(element.bits)).convert(element)


def unsigned_mulhi(x: Term, y: Term) -> Term:
    """Return the upper half of a 64-bit product, from 32-bit halves."""
    low = (1 << 32) - 1
    x_high = _shifted(x, 32)
    y_high = _shifted(y, 32)
    high = x_high * y_high
    x_low = x & x.constant(low)
    mixed = x_low * y_high
    y_low = y & y.constant(low)
    # No partial sum overflows: each is at most `(2^32 - 1)² + 2 (2^32 - 1) = 2^64 - 1`.
    carry = mixed + (x_low * y_low).make("shift_right_logical", x.constant(32))
    total = high + carry.make("shift_right_logical", x.constant(32))
    other = x_high * y_low + (carry & x.constant(low))
    return total + other.make("shift_right_logical", x.constant(32))


def signed_mulhi(x: Term, y: Term) -> Term:
    """Return the unsigned upper half, corrected for negative factors."""
    made = unsigned_mulhi(x.convert(_U64), y.convert(_U64))
    # A negative `x` is read as `x + 2^64`, which adds `y` to the upper half; and vice versa.
    for one, other in ((x, y), (y, x)):
        is_negative = one < one.constant(0)
        taken = other.convert(_U64)
        made = made - select(is_negative, taken, other.convert(_U64).constant(0))
    return made.own.convert(x.element)


def mulhi(rewriter: Rewriter, op: Operation) -> bool:
    """Expand by the width of the integers: below 64 bits, in twice the width."""
    types = [value.type for value in op.operands]
    first = types[0]
    if not isinstance(first, TensorType) or any(type != first for type in types):
        return False
    element = first.element
    if element.kind not in ("signed", "unsigned") or element.bits > 64:
        return False
    site = Site(rewriter, op)
    x, y = (Term(value, site) for value in op.operands)
    if element.bits < 64:
        made = narrow_mulhi(x, y)
    else:
        made = (unsigned_mulhi if element.kind == "unsigned" else signed_mulhi)(x, y)
    rewriter.replace(op, [made.value])
    return True


PATTERNS: Final = (Pattern("mulhi", ("chlo.mulhi",), mulhi),)
ROWS: Final = (Expansion("next_after", next_after),)
