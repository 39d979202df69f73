"""Integer, bit and predicate instructions, and arithmetic of extended precision."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.memory.ptx.machine import Batch, Lanes, Operands, fail
from hloscope.memory.ptx.syntax import TYPES, Instruction, PtxType
from hloscope.support.arrays import Array, Bools, np

# --------------------------------------------------------------------------------------------------
# Table of the instructions that compute a value from values, lane by lane.
#
# An entry is a function from the modifiers and the type of an instruction to the function of its
# sources. An instruction without an entry is unknown, and `decoding` reports it.


Compute: TypeAlias = Callable[..., Array]
"""Function from one array of values per source, [lanes], to the values of the result."""
Maker: TypeAlias = Callable[[frozenset[str], PtxType], Compute]
"""Function from modifiers and type to the function of an instruction's sources."""


class Row(Struct, frozen=True):
    """Entry of the instruction table: an opcode, and the types for which the entry holds.

    Attributes:
        opcode: Name of the opcode.
        sources: Number of sources.
        modifiers: Modifiers that the instruction may have, in addition to its type.
        types: Types that the instruction may have.
        make: Function from modifiers and type to the function of the sources.
        source_types: Types of sources that differ from the instruction's type, by index of the
            source.
        result: Type of the result: a name, `same`, or `wide` (twice the bits, for `.wide`).
    """

    opcode: str
    sources: int
    modifiers: frozenset[str]
    types: frozenset[str]
    make: Maker
    source_types: dict[int, str]
    result: str


INTEGERS: Final = "u16 u32 u64 s16 s32 s64"
UNSATURATED: Final = "u16 u32 u64 s16 s64"
"""Integer types of which `add` and `sub` have no saturated form: all but s32."""
BITS: Final = "b16 b32 b64"
FLOATS: Final = "f16 f16x2 bf16 bf16x2 f32 f64"
ROUNDING: Final = frozenset({"rn", "rz", "rm", "rp"})

TABLE: Final[dict[str, list[Row]]] = {}
"""Entries of the instruction table by opcode; entries of one opcode have different types."""


def row(
    opcode: str,
    sources: int,
    types: str,
    modifiers: str = "",
    *,
    source_types: dict[int, str] | None = None,
    result: str = "same",
) -> Callable[[Maker], Maker]:
    """Return a decorator that adds the decorated function to `TABLE`, in one entry per opcode.

    Args:
        opcode: Names of the opcodes, separated by spaces.
        sources: Number of source operands.
        types: Names of the types that the instruction may have, separated by spaces.
        modifiers: Further modifiers that it may have, separated by spaces.
        source_types: Types of sources that differ from the instruction's type, by index of the
            source.
        result: Type of the result: a name, `same`, or `wide` (twice the bits, for `.wide`).
    """

    def add(make: Maker) -> Maker:
        given = frozenset(modifiers.split()), frozenset(types.split())
        for name in opcode.split():
            TABLE.setdefault(name, []).append(
                Row(name, sources, *given, make, source_types or {}, result)
            )
        return make

    return add


def plain_row(
    opcode: str, sources: int, types: str, modifiers: str = "", **options: Any
) -> Callable[[Compute], Compute]:
    """Return a decorator for the function of an instruction's sources.

    Neither modifiers nor type change the function. The arguments are those of `row`.
    """

    def add(compute: Compute) -> Compute:
        row(opcode, sources, types, modifiers, **options)(lambda modifiers, type_: compute)
        return compute

    return add


def mode_of(modifiers: frozenset[str]) -> str:
    """Return the rounding mode among the modifiers; `rn` (to nearest even) if there is none."""
    return next(iter(modifiers & ROUNDING), "rn")


# --------------------------------------------------------------------------------------------------
# Integer, bit and predicate instructions.
#
# Source: PTX ISA 8.8, "Integer Arithmetic Instructions", "Logic and Shift Instructions".


_Mods = frozenset[str]
_WIDER: Final = {2: "4", 4: "8"}


def _doubled(value: Array) -> Array:
    """Return the values in the type with twice the bits and the same signedness."""
    return value.astype(f"{value.dtype.kind}{_WIDER[value.dtype.itemsize]}")


def high_product(a: Array, b: Array) -> Array:
    """Return the upper halves of the products of two arrays of integers, elementwise."""
    size = a.dtype.itemsize
    if size < 8:
        return (_doubled(a) * _doubled(b) >> 8 * size).astype(a.dtype)
    # Four products of 32-bit halves; the signed result subtracts b where a < 0 and a where b < 0.
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, 0).astype(np.uint64)
        high = high - np.where(b < 0, x, 0).astype(np.uint64)
    result: Array = high.astype(a.dtype)
    return result


plain_row("add", 2, UNSATURATED)(operator.add)
plain_row("sub", 2, UNSATURATED)(operator.sub)
row("add", 2, "s32", "sat")(lambda m, _: _saturating(operator.add, m))
row("sub", 2, "s32", "sat")(lambda m, _: _saturating(operator.sub, m))


def _saturating(op: Callable[[Array, Array], Array], modifiers: _Mods) -> Compute:
    """Return the function for s32 sources; with `.sat` it clamps exact results to s32's limits."""
    if "sat" not in modifiers:
        return op
    limits = np.iinfo(np.int32)

    def compute(a: Array, b: Array) -> Array:
        exact = op(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, limits.min, limits.max).astype(np.int32)

    return compute


def _product(modifiers: _Mods) -> Compute:
    if "hi" in modifiers:
        return high_product
    if "wide" in modifiers:
        return lambda a, b: _doubled(a) * _doubled(b)
    return operator.mul


@row("mul", 2, INTEGERS, "lo hi wide", result="wide")
def _mul(modifiers: _Mods, type_: PtxType) -> Compute:
    return _product(modifiers)


@row("mad", 3, INTEGERS, "lo hi wide", source_types={2: "wide"}, result="wide")
def _mad(modifiers: _Mods, type_: PtxType) -> Compute:
    product = _product(modifiers)
    return lambda a, b, c: product(a, b) + c


plain_row("mul24", 2, "u32 s32", "lo")(lambda a, b: ((a << 8) >> 8) * ((b << 8) >> 8))


@plain_row("div", 2, INTEGERS)
def _div(a: Array, b: Array) -> Array:
    """Return the quotients, rounded towards zero; a division by zero gives all ones."""
    # Without its remainder, which has the sign of `a`, `a` is a multiple of `b`.
    return np.where(b == 0, ~np.zeros_like(a), (a - np.fmod(a, b)) // b)


@plain_row("rem", 2, INTEGERS)
def _rem(a: Array, b: Array) -> Array:
    """Return the remainders, with the sign of the dividend."""
    return np.where(b == 0, a, np.fmod(a, b))


plain_row("abs", 1, "s16 s32 s64")(np.abs)
plain_row("neg", 1, "s16 s32 s64")(np.negative)
plain_row("min", 2, INTEGERS)(np.minimum)
plain_row("max", 2, INTEGERS)(np.maximum)
plain_row("sad", 3, INTEGERS)(lambda a, b, c: c + np.where(a < b, b - a, a - b))
plain_row("and", 2, f"pred {BITS}")(np.bitwise_and)
plain_row("or", 2, f"pred {BITS}")(np.bitwise_or)
plain_row("xor", 2, f"pred {BITS}")(np.bitwise_xor)
plain_row("not", 1, f"pred {BITS}")(np.invert)
plain_row("cnot", 1, BITS)(lambda a: (a == 0).astype(a.dtype))


_SHIFTED_BY: Final = {1: "u32"}
plain_row("shl", 2, BITS, source_types=_SHIFTED_BY)(lambda a, b: a << _amount(b, a))
plain_row("shr", 2, f"{BITS} {INTEGERS}", source_types=_SHIFTED_BY)(lambda a, b: a >> _amount(b, a))


def _amount(amount: Array, shifted: Array) -> Array:
    """Return shift amounts in the type of the shifted integers, no larger than their bits.

    A shift of all bits leaves zeros in numpy, or the signs if signed integers are shifted right.
    """
    return np.minimum(amount, np.iinfo(shifted.dtype).bits).astype(shifted.dtype)


@row("shf", 3, "b32", "l r wrap clamp")
def _shf(modifiers: _Mods, type_: PtxType) -> Compute:
    """Return the function that computes `shf`, which shifts the 64 bits `b:a`.

    The upper half of `b:a` is b. The result is the upper half of the shifted bits (left) or the
    lower half (right).
    """

    def compute(a: Array, b: Array, c: Array) -> Array:
        both = b.astype(np.uint64) << np.uint64(32) | a
        amount = (c & 31 if "wrap" in modifiers else np.minimum(c, 32)).astype(np.uint64)
        if "l" in modifiers:
            return (both << amount >> np.uint64(32)).astype(np.uint32)
        return (both >> amount).astype(np.uint32)

    return compute


@row("bfe", 3, "u32 s32 u64 s64", source_types={1: "u32", 2: "u32"})
def _bfe(modifiers: _Mods, type_: PtxType) -> Compute:
    """Return the function that computes `bfe`, which extracts `c` bits of `a` from bit `b` on.

    If the type is signed, the field's highest bit is extended.
    """
    bits = type_.bits

    def compute(a: Array, b: Array, c: Array) -> Array:
        start, length = (b & 0xFF).astype(np.int64), (c & 0xFF).astype(np.int64)
        raw = a.astype(f"u{type_.bytes}")
        # A field ends at the highest bit of `a`.
        low = _ones(np.clip(bits - start, 0, length), raw)
        field = raw >> _amount(start, raw) & low
        if type_.is_signed:
            at = np.clip(start + length - 1, 0, bits - 1).astype(raw.dtype)
            sign = (raw >> at & 1).astype(bool) & (length > 0)
            field = np.where(sign, field | ~low, field)
        return field.astype(type_.dtype)

    return compute


def _ones(count: Array, like: Array) -> Array:
    """Return integers of the type of `like` with the `count` low bits set, or all if fewer."""
    one = np.ones_like(like)
    found: Array = (one << _amount(count, like)) - one
    return found


@plain_row("bfi", 4, "b32 b64", source_types={2: "u32", 3: "u32"})
def _bfi(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Return `b` with the `d` low bits of `a` inserted from bit `c` on."""
    shift = _amount(c & 0xFF, a)
    mask = _ones(d & 0xFF, a) << shift
    found: Array = (b & ~mask) | (a << shift & mask)
    return found


@row("bfind", 1, "u32 s32 u64 s64", "shiftamt", result="u32")
def _bfind(modifiers: _Mods, type_: PtxType) -> Compute:
    def compute(a: Array) -> Array:
        value = np.where(a < 0, ~a, a).astype(f"u{type_.bytes}")
        highest = type_.bits - 1 - _leading_zeros(value).astype(np.int64)
        found = type_.bits - 1 - highest if "shiftamt" in modifiers else highest
        return np.where(value == 0, 0xFFFF_FFFF, found).astype(np.uint32)

    return compute


def _leading_zeros(value: Array) -> Array:
    bits = 8 * value.dtype.itemsize
    count, rest = np.zeros(value.shape, np.uint32), value
    step = bits // 2
    while step:
        upper = rest >> np.array(step, value.dtype)
        has_upper = upper != 0
        count = count + np.where(has_upper, 0, step).astype(np.uint32)
        rest = np.where(has_upper, upper, rest)
        step //= 2
    found: Array = count + (rest == 0).astype(np.uint32)
    return found


plain_row("clz", 1, "b32 b64", result="u32")(_leading_zeros)
plain_row("popc", 1, "b32 b64", result="u32")(lambda a: np.bitwise_count(a).astype(np.uint32))


@plain_row("brev", 1, "b32 b64")
def _brev(a: Array) -> Array:
    rows = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), a.dtype.itemsize)
    bits = np.unpackbits(rows, axis=1, bitorder="little")[:, ::-1]
    return np.packbits(bits, axis=1, bitorder="little").view(a.dtype).reshape(a.shape)


@plain_row("prmt", 3, "b32")
def _prmt(a: Array, b: Array, c: Array) -> Array:
    """Return four of the eight bytes of `b:a`, selected by `c`.

    Bit 3 of a selector replicates the byte's sign instead.
    """
    both = b.astype(np.uint64) << np.uint64(32) | a
    result = np.zeros(both.shape, np.uint32)
    for i in range(4):
        choice = c >> np.uint32(4 * i)
        byte = (both >> ((choice & 7) * 8).astype(np.uint64) & np.uint64(0xFF)).astype(np.uint32)
        spread = np.where(byte & 0x80, np.uint32(0xFF), np.uint32(0))
        byte = np.where(choice & 8, spread, byte)
        result = result | byte << np.uint32(8 * i)
    return result


@plain_row("lop3", 4, "b32")
def _lop3(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Return a bitwise function of a, b and c, by the table `d`.

    Bit 4a + 2b + c of `d` is the result for the bits a, b, c.
    """
    zero = a & b & c & np.uint32(0)
    result = zero
    for i in range(8):
        chosen = (d >> np.uint32(i) & 1).astype(bool)
        term = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        result = result | np.where(chosen, term, zero)
    return result


plain_row("mov", 1, f"pred b128 {BITS} {INTEGERS} f16 bf16 f32 f64")(lambda a: a)


@plain_row("selp", 3, f"{BITS} {INTEGERS} f16 bf16 f32 f64", source_types={2: "pred"})
def _selp(a: Array, b: Array, c: Array) -> Array:
    """Return, elementwise, `a` where `c` is true and `b` elsewhere."""
    return np.where(c, a, b)


# --------------------------------------------------------------------------------------------------
# Extended-precision arithmetic: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.
#
# The carry flag is one bit of each thread.
#
# Source: PTX ISA 8.8, "Extended-Precision Integer Arithmetic Instructions".


def with_carry(ins: Instruction, operands: Operands) -> Callable[[Batch, Lanes], None]:
    """Return the function of an instruction that reads or writes the carry flag."""
    modifiers = ins.modifiers[:-1]
    type_ = TYPES.get("".join(ins.modifiers[-1:]))
    base, takes = ins.opcode.removesuffix("c"), ins.opcode.endswith("c")
    count = 4 if base == "mad" else 3
    if type_ is None or type_.bits not in (32, 64) or type_.is_float or base not in _OPERATIONS:
        fail(ins, "not an instruction with carry")
    if set(modifiers) - {"cc", "lo", "hi"} or len(ins.operands) != count:
        fail(ins, f"expected {count} operands and the modifiers .cc, .lo or .hi")
    # Unsigned arithmetic wraps in numpy; there is a carry if the result is less than an operand.
    unsigned = TYPES[f"u{type_.bits}"]
    reads = [operands.reads(ins, operand, unsigned) for operand in ins.operands[1:]]
    write = operands.writes(ins, ins.operands[0], unsigned)
    gives, is_high = "cc" in modifiers, "hi" in modifiers

    def run(batch: Batch, lanes: Lanes) -> None:
        flag = batch.carry()
        sources = [read(batch, lanes) for read in reads]
        if base == "mad":
            sources = [_half_of_product(sources[0], sources[1], type_, is_high=is_high), sources[2]]
        carry = flag[lanes.at] if takes else np.zeros(1, bool)
        value, out = _OPERATIONS[base](sources[0], sources[1], carry)
        write(batch, lanes, value)
        if gives:
            flag[lanes.at] = out

    return run


def _half_of_product(a: Array, b: Array, type_: PtxType, *, is_high: bool) -> Array:
    """Return the upper (`is_high`) or the lower half of each product of two integers, as bits."""
    if not is_high:
        return a * b
    high = high_product(a.view(type_.dtype), b.view(type_.dtype))
    return high.view(type_.raw)


def _sum(a: Array, b: Array, carry: Bools) -> tuple[Array, Bools]:
    """Return `a + b + carry` of unsigned integers, elementwise, and whether it overflows."""
    partial = a + b
    total = partial + carry.astype(a.dtype)
    return total, (partial < a) | (total < partial)


def _difference(a: Array, b: Array, borrow: Bools) -> tuple[Array, Bools]:
    """Return `a - b - borrow` of unsigned integers, elementwise, and whether it underflows."""
    partial = a - b
    total = partial - borrow.astype(a.dtype)
    return total, (a < b) | (total > partial)


_OPERATIONS: dict[str, Callable[[Array, Array, Bools], tuple[Array, Bools]]] = {
    "add": _sum,
    "mad": _sum,
    "sub": _difference,
}
