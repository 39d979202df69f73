"""Each instruction that computes a value agrees with Python's exact numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import ParseError
from hloscope.memory.ptx.floats import COMPARISONS
from hloscope.memory.ptx.integers import TABLE
from hloscope.support.arrays import Array
from tests.memory.ptx.kernels import compute, nearest, run_body

RANDOM = np.random.default_rng(5)
INTS = {
    name: np.dtype(f"{'i' if name[0] == 's' else 'u'}{int(name[1:]) // 8}")
    for name in ("s16", "s32", "s64", "u16", "u32", "u64", "b16", "b32", "b64")
}
COUNT = 96


def integers(dtype: np.dtype[Any], count: int = COUNT) -> Array:
    """Random integers of all sizes, with the limits of the type among them."""
    limits = np.iinfo(dtype)
    edges = [0, 1, 2, 7, limits.max, limits.min, limits.max - 1, limits.min + 1, limits.max // 2]
    bits = RANDOM.integers(0, 8 * dtype.itemsize, count)
    random = RANDOM.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    random >>= bits.astype(dtype)
    random[: len(edges)] = np.array(edges, dtype)
    return RANDOM.permutation(random)


def wrapped(value: int, dtype: np.dtype[Any]) -> int:
    """An integer cut to the bits of a type."""
    return int(
        np.array([value & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)[0]
    )


def toward_zero(a: int, b: int) -> int:
    """The quotient that C has; all ones if there is none."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bits_of(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


EVERY = ("s16", "s32", "s64", "u16", "u32", "u64")
BITS = ("b16", "b32", "b64")
TWO: dict[str, tuple[tuple[str, ...], Callable[[int, int], int]]] = {
    "add": (EVERY, lambda a, b: a + b),
    "sub": (EVERY, lambda a, b: a - b),
    "mul.lo": (EVERY, lambda a, b: a * b),
    "div": (EVERY, toward_zero),
    "rem": (EVERY, lambda a, b: a if b == 0 else a - b * toward_zero(a, b)),
    "min": (EVERY, min),
    "max": (EVERY, max),
    "and": (BITS, lambda a, b: a & b),
    "or": (BITS, lambda a, b: a | b),
    "xor": (BITS, lambda a, b: a ^ b),
}


def check_two(name: str) -> None:
    types, of = TWO[name]
    for type_ in types:
        dtype = INTS[type_]
        a, b = integers(dtype), integers(dtype)
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        found = compute(f"{name}.{type_}", [a, b], dtype)
        assert found.tolist() == [wrapped(of(x, y), dtype) for x, y in pairs], type_


@pytest.mark.parametrize("name", ["add", "sub", "mul.lo", "div", "rem", "min", "max"])
def test_arithmetic_of_two_integers(name: str) -> None:
    check_two(name)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bitwise_operations_of_two_integers(name: str) -> None:
    check_two(name)


@pytest.mark.parametrize(("name", "of"), [("add", operator.add), ("sub", operator.sub)])
def test_saturated_sums_and_differences_end_at_the_limits_of_s32(
    name: str, of: Callable[[int, int], int]
) -> None:
    a, b = integers(INTS["s32"]), integers(INTS["s32"])
    exact = [of(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert min(exact) < -(2**31)
    assert max(exact) > 2**31 - 1
    found = compute(f"{name}.sat.s32", [a, b], INTS["s32"])
    assert found.tolist() == [min(max(value, -(2**31)), 2**31 - 1) for value in exact]


@pytest.mark.parametrize("type_", ["u16", "u32", "u64", "s16", "s64"])
def test_sums_of_types_other_than_s32_are_not_saturated(type_: str) -> None:
    for name in ("add", "sub"):
        with pytest.raises(ParseError, match=r"unknown modifier `\.sat`"):
            compute(f"{name}.sat.{type_}", [integers(INTS[type_])] * 2, INTS[type_])


@pytest.mark.parametrize("type_", EVERY)
def test_high_and_wide_products_and_sums_of_products(type_: str) -> None:
    dtype = INTS[type_]
    a, b, c = integers(dtype), integers(dtype), integers(dtype)
    pairs = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    bits = 8 * dtype.itemsize
    found = compute(f"mul.hi.{type_}", [a, b], dtype)
    assert found.tolist() == [wrapped(x * y >> bits, dtype) for x, y, _ in pairs]
    found = compute(f"mad.lo.{type_}", [a, b, c], dtype)
    assert found.tolist() == [wrapped(x * y + z, dtype) for x, y, z in pairs]
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        found = compute(f"mul.wide.{type_}", [a, b], wide)
        assert found.tolist() == [x * y for x, y, _ in pairs]
        found = compute(f"mad.wide.{type_}", [a, b, integers(wide)], wide)
        assert len(found) == COUNT


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_carries_are_handed_on(type_: str) -> None:
    dtype = np.dtype(f"u{int(type_[1:]) // 8}")
    a, b, c, d = (integers(dtype) for _ in range(4))
    bits = 8 * dtype.itemsize
    register = "%r" if bits == 32 else "%d"
    for low, high, of in (("add.cc", "addc", 1), ("sub.cc", "subc", -1)):
        text = f"{low}.{type_} {register}7, {register}1, {register}2;"
        text = f"{text} {high}.{type_} {register}8, {register}3, {register}4;"
        found = compute_two(text, [a, b, c, d], dtype)
        for i in range(COUNT):
            x = int(a[i]) + (int(c[i]) << bits)
            y = int(b[i]) + (int(d[i]) << bits)
            assert int(found[i]) == bits_of(x + of * y >> bits, bits), (low, i)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_the_lower_half_of_a_product_hands_its_carry_to_the_upper_half(type_: str) -> None:
    bits = int(type_[1:])
    dtype, signed = np.dtype(f"u{bits // 8}"), INTS[type_]
    a, b, c, d = (integers(dtype) for _ in range(4))
    register = "%r" if bits == 32 else "%d"
    text = f"mad.lo.cc.{type_} {register}7, {register}1, {register}2, {register}3;"
    text = f"{text} madc.hi.{type_} {register}8, {register}1, {register}2, {register}4;"
    found = compute_two(text, [a, b, c, d], dtype)
    factors = zip(a.view(signed).tolist(), b.view(signed).tolist(), strict=True)
    sums = [x * y + z for (x, y), z in zip(factors, c.tolist(), strict=True)]
    assert found.tolist() == [
        bits_of((value >> bits) + z, bits) for value, z in zip(sums, d.tolist(), strict=True)
    ]


NO_CARRY = "not an instruction with carry"
WRONG_CARRY = {
    "addc %r1, %r2, %r3;": NO_CARRY,
    "add.cc %r1, %r2, %r3;": NO_CARRY,
    "add.cc.u16 %h1, %h2, %h3;": NO_CARRY,
    "add.cc.f32 %r1, %r2, %r3;": NO_CARRY,
    "mul.cc.u32 %r1, %r2, %r3;": NO_CARRY,
    "add.cc.sat.u32 %r1, %r2, %r3;": "expected 3 operands",
    "add.cc.u32 %r1, %r2;": "expected 3 operands",
    "mad.lo.cc.u32 %r1, %r2, %r3;": "expected 4 operands",
    "madc.lo.cc.u32 %r1, %r2, %r3, %r4, %r5;": "expected 4 operands",
}


def test_wrong_instructions_with_carry_are_refused() -> None:
    for line, message in WRONG_CARRY.items():
        with pytest.raises(ParseError, match=message):
            run_body(f"  {line}\n  ret;", np.zeros(2, np.int32))


def compute_two(text: str, sources: list[Array], result: np.dtype[Any]) -> Array:
    """Values of register 8 after instructions on registers 1, 2 … of the type of the sources."""
    bits = 8 * result.itemsize
    register = {32: "%r", 64: "%d"}[bits]
    body = [f"mul.wide.u32 %d9, %r19, {result.itemsize};"]
    for i in range(len(sources)):
        load = f"ld.global.b{bits} {register}{i + 1}, [%d0];"
        body += [f"add.s64 %d0, %d9, %d{10 + i};", load]
    body += [text, f"add.s64 %d0, %d9, %d{10 + len(sources)};"]
    body += [f"st.global.b{bits} [%d0], {register}8;", "ret;"]
    run = run_body("\n".join(body), *sources, np.zeros(COUNT, result), block=COUNT)
    return run.outputs[f"p{len(sources)}"]


def field_of(a: int, start: int, length: int, bits: int, signed: bool) -> int:
    """`bfe` by its definition, bit by bit."""
    sign_at = min(start + length - 1, bits - 1)
    sign = signed and length > 0 and bool(bits_of(a, bits) >> sign_at & 1)
    found = 0
    for i in range(bits):
        inside = i < length and start + i < bits
        bit = bits_of(a, bits) >> start + i & 1 if inside else int(sign)
        found |= bit << i
    return found


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_bit_fields(type_: str) -> None:
    dtype = INTS[type_]
    bits = 8 * dtype.itemsize
    # Fields that begin or end at the limits of the type; bits above the lowest eight are ignored.
    starts = [0, 1, 5, bits - 1, bits, bits + 1, 255, 256]
    lengths = [0, 1, 5, bits - 1, bits, bits + 1, 255, 256]
    start, length = (g.reshape(-1).astype(np.uint32) for g in np.meshgrid(starts, lengths))
    start, length = np.repeat(start, 4), np.repeat(length, 4)
    a, b = integers(dtype, len(start)), integers(dtype, len(start))
    fields = [(int(s) & 0xFF, int(n) & 0xFF) for s, n in zip(start, length, strict=True)]
    found = compute(f"bfe.{type_}", [a, start, length], dtype)
    for i, (at, count) in enumerate(fields):
        right = field_of(int(a[i]), at, count, bits, dtype.kind == "i")
        assert bits_of(int(found[i]), bits) == right, (a[i], at, count)
    if dtype.kind == "u":
        found = compute(f"bfi.b{bits}", [a, b, start, length], dtype)
        for i, (at, count) in enumerate(fields):
            mask = bits_of(((1 << count) - 1) << at, bits)
            right = int(b[i]) & ~mask | int(a[i]) << at & mask
            assert int(found[i]) == right


@pytest.mark.parametrize("kind", ["b", "u", "s"])
def test_shifts_beyond_the_width_are_clamped(kind: str) -> None:
    for bits in (16, 32, 64):
        type_ = f"{kind}{bits}"
        dtype = INTS[type_]
        a = integers(dtype)
        amount = RANDOM.integers(0, 2 * bits, COUNT).astype(np.uint32)
        amount[::8], amount[1::8], amount[2::8], amount[3::8] = bits - 1, bits, 65536, 2**32 - 1
        pairs = list(zip(a.tolist(), np.minimum(amount, 2 * bits).tolist(), strict=True))
        assert compute(f"shr.{type_}", [a, amount], dtype).tolist() == [x >> n for x, n in pairs]
        if kind == "b":
            found = compute(f"shl.{type_}", [a, amount], dtype)
            assert found.tolist() == [bits_of(x << n, bits) for x, n in pairs]


def test_funnel_shifts_counts_permutations_and_tables() -> None:
    u32 = INTS["u32"]
    a, b, c = integers(u32), integers(u32), integers(u32)
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    amounts: dict[str, Callable[[int], int]] = {
        "wrap": lambda n: n & 31,
        "clamp": lambda n: min(n, 32),
    }
    for mode, of in amounts.items():
        found = compute(f"shf.l.{mode}.b32", [a, b, c], u32)
        assert found.tolist() == [bits_of((y << 32 | x) << of(n) >> 32, 32) for x, y, n in rows]
        found = compute(f"shf.r.{mode}.b32", [a, b, c], u32)
        assert found.tolist() == [bits_of((y << 32 | x) >> of(n), 32) for x, y, n in rows]
    for bits in (32, 64):
        dtype = INTS[f"u{bits}"]
        x = integers(dtype)
        texts = [f"{v:0{bits}b}" for v in x.tolist()]
        assert compute(f"popc.b{bits}", [x], u32).tolist() == [t.count("1") for t in texts]
        assert compute(f"clz.b{bits}", [x], u32).tolist() == [
            bits - len(t.lstrip("0")) for t in texts
        ]
        assert compute(f"brev.b{bits}", [x], dtype).tolist() == [int(t[::-1], 2) for t in texts]
        for kind in "us":
            # A negative number is searched for its highest bit that differs from the sign.
            own = x.view(INTS[f"{kind}{bits}"])
            highest = [(~v if v < 0 else v).bit_length() - 1 for v in own.tolist()]
            found = compute(f"bfind.{kind}{bits}", [own], u32)
            assert found.tolist() == [bits_of(at, 32) for at in highest]
            found = compute(f"bfind.shiftamt.{kind}{bits}", [own], u32)
            assert found.tolist() == [
                bits_of(-1 if at < 0 else bits - 1 - at, 32) for at in highest
            ]
    found = compute("prmt.b32", [a, b, c], u32)
    for value, (x, y, n) in zip(found.tolist(), rows, strict=True):
        source = (y << 32 | x).to_bytes(8, "little")
        picks = [n >> 4 * i & 15 for i in range(4)]
        right = [(0xFF * (source[p & 7] >> 7)) if p & 8 else source[p & 7] for p in picks]
        assert value == int.from_bytes(bytes(right), "little")
    found = compute("lop3.b32", [a, b, c], u32, operand="0x6A")
    assert found.tolist() == [(x & y) ^ z for x, y, z in rows]


def test_one_source_and_choices() -> None:
    for type_ in ("s16", "s32", "s64"):
        dtype = INTS[type_]
        a = integers(dtype)
        assert compute(f"abs.{type_}", [a], dtype).tolist() == [
            wrapped(abs(x), dtype) for x in a.tolist()
        ]
        assert compute(f"neg.{type_}", [a], dtype).tolist() == [
            wrapped(-x, dtype) for x in a.tolist()
        ]
    u32 = INTS["u32"]
    a, b = integers(u32), integers(u32)
    chosen = RANDOM.integers(0, 2, COUNT).astype(bool)
    assert (compute("not.b32", [a], u32) == ~a).all()
    assert (compute("cnot.b32", [a], u32) == (a == 0)).all()
    assert (compute("selp.b32", [a, b, chosen], u32) == np.where(chosen, a, b)).all()
    assert (compute("not.pred@p", [chosen], u32) == ~chosen).all()
    assert (compute("sad.u32", [a, b, a], u32) == a + np.where(a < b, b - a, a - b)).all()
    assert (compute("mov.b32", [a], u32) == a).all()
    found = compute("mul24.lo.u32", [a, b], u32)
    assert found.tolist() == [
        bits_of((x & 0xFFFFFF) * (y & 0xFFFFFF), 32)
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


# Floating point.

FLOATS: dict[str, tuple[Any, int, int]] = {
    "f16": (np.dtype(np.float16), 11, -24),
    "bf16": (np.dtype(ml_dtypes.bfloat16), 8, -133),
    "f32": (np.dtype(np.float32), 24, -149),
    "f64": (np.dtype(np.float64), 53, -1074),
}
"""Numpy type, binary digits, exponent of the smallest number."""


def floats(type_: str, count: int = COUNT) -> Array:
    """Numbers whose exponents are close together, so that sums cancel and round."""
    dtype, digits, _ = FLOATS[type_]
    scale = 2.0 ** RANDOM.integers(-digits // 2, digits // 2 + 1, count)
    return (RANDOM.standard_normal(count) * scale).astype(dtype)


@pytest.mark.parametrize("type_", FLOATS)
def test_sums_products_and_fused_ones_are_rounded_once(type_: str) -> None:
    dtype, digits, least = FLOATS[type_]
    a, b, c = floats(type_), floats(type_), floats(type_)
    c[::3] = (-(a.astype(np.float64) * b.astype(np.float64))).astype(dtype)[::3]
    exact = [tuple(Fraction(float(v[i])) for v in (a, b, c)) for i in range(COUNT)]
    operations: dict[str, Callable[..., Fraction]] = {
        "add.rn": lambda x, y, z: x + y,
        "sub.rn": lambda x, y, z: x - y,
        "mul.rn": lambda x, y, z: x * y,
        "fma.rn": lambda x, y, z: x * y + z,
    }
    for name, of in operations.items():
        sources = [a, b, c] if name == "fma.rn" else [a, b]
        found = compute(f"{name}.{type_}", sources, dtype)
        for value, numbers in zip(found, exact, strict=True):
            assert float(value) == nearest(of(*numbers), digits, least), (name, numbers)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_other_directions(mode: str) -> None:
    a, b, c = floats("f32"), floats("f32"), floats("f32")
    for name, of in {
        "add": lambda x, y, z: x + y,
        "mul": lambda x, y, z: x * y,
        "fma": lambda x, y, z: x * y + z,
    }.items():
        found = compute(
            f"{name}.{mode}.f32", [a, b, c][: 3 if name == "fma" else 2], np.dtype(np.float32)
        )
        for i, value in enumerate(found):
            exact = of(*[Fraction(float(v[i])) for v in (a, b, c)])
            up = Fraction(float(np.nextafter(value, np.float32(np.inf))))
            down = Fraction(float(np.nextafter(value, np.float32(-np.inf))))
            is_down = mode == "rm" or (mode == "rz" and exact > 0)
            low, high = (Fraction(float(value)), up) if is_down else (down, Fraction(float(value)))
            assert low <= exact < high if is_down else low < exact <= high


def test_functions_of_one_value() -> None:
    x = np.abs(floats("f32")) + np.float32(0.01)
    functions: dict[str, Callable[[float], float]] = {
        "rcp.rn": lambda v: 1 / v,
        "sqrt.rn": math.sqrt,
        "rsqrt.approx": lambda v: 1 / math.sqrt(v),
        "sin.approx": math.sin,
        "cos.approx": math.cos,
        "lg2.approx": math.log2,
        "ex2.approx": lambda v: 2.0 ** min(v, 100.0),
        "tanh.approx": math.tanh,
        "neg": lambda v: -v,
        "abs": abs,
    }
    x = np.minimum(x, np.float32(100))
    for name, of in functions.items():
        found = compute(f"{name}.f32", [x], x.dtype)
        right = np.array([of(float(v)) for v in x])
        assert np.allclose(found, right, rtol=1e-6, atol=1e-7), name
    y = floats("f32")
    assert np.allclose(compute("div.full.f32", [x, y], x.dtype), x / y, rtol=1e-6)
    assert (compute("copysign.f32", [y, x], x.dtype) == np.copysign(x, y)).all()
    assert (
        compute("mad.rn.f32", [x, y, x], x.dtype) == compute("fma.rn.f32", [x, y, x], x.dtype)
    ).all()


SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-41, -1e-41, 1.5, -2.0], np.float32)


def test_special_values() -> None:
    a, b = (g.reshape(-1) for g in np.meshgrid(SPECIAL, SPECIAL))
    largest = compute("max.f32", [a, b], a.dtype)
    with_nan = compute("max.NaN.f32", [a, b], a.dtype)
    for x, y, value, other in zip(a, b, largest, with_nan, strict=True):
        numbers = [v for v in (x, y) if not np.isnan(v)]
        if not numbers:
            assert np.isnan(value)
            continue
        right = max(numbers, key=lambda v: (float(v), not np.signbit(v)))
        assert (value, np.signbit(value)) == (right, np.signbit(right))
        assert np.isnan(other) == (len(numbers) < 2)
    least = compute("min.f32", [a, b], a.dtype)
    assert np.signbit(least[(a == 0) & (b == 0)]).sum() == 3
    flushed = compute("add.ftz.f32", [SPECIAL, SPECIAL], a.dtype)
    assert flushed[5] == 0
    assert np.signbit(flushed[6])
    clamped = compute("add.sat.f32", [SPECIAL, SPECIAL], a.dtype)
    assert clamped.tolist()[:5] == [0, 0, 0, 1, 0]
    tests = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan}
    for name, of in tests.items():
        assert (compute(f"testp.{name}.f32@p", [SPECIAL], np.dtype("u4")) == of(SPECIAL)).all()


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    a, b = (g.reshape(-1) for g in np.meshgrid(SPECIAL, SPECIAL))
    unordered = np.isnan(a) | np.isnan(b)
    relations = {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        "lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b,
    }  # fmt: skip
    if name in ("num", "nan"):
        right = unordered == (name == "nan")
    elif name in relations:
        right = relations[name] & ~unordered
    else:
        right = relations[name[:-1]] | unordered
    assert (compute(f"setp.{name}.f32@p", [a, b], np.dtype("u4")) == right).all()


def test_conversions() -> None:
    f32, u32 = np.dtype(np.float32), np.dtype(np.uint32)
    x = np.array([0.5, 1.5, -1.5, 2.5, 300.7, -300.7, 3e9, -3e9, np.nan, np.inf], f32)
    found = compute("cvt.rni.s32.f32", [x], np.dtype("i4"))
    assert found.tolist() == [0, 2, -2, 2, 301, -301, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    found = compute("cvt.rzi.u64.f32", [x], np.dtype("u8"))
    assert found.tolist() == [0, 1, 0, 2, 300, 0, 3 * 10**9, 0, 0, 2**64 - 1]
    assert compute("cvt.rmi.f32.f32", [x[:4]], f32).tolist() == [0, 1, -2, 2]
    assert compute("cvt.rpi.f32.f32", [x[:4]], f32).tolist() == [1, 2, -1, 3]
    assert compute("cvt.sat.f32.f32", [x], f32).tolist() == [0.5, 1, 0, 1, 1, 0, 1, 0, 0, 1]
    s = integers(np.dtype("i8"))
    for type_ in ("f32", "f64", "bf16", "f16"):
        dtype, digits, least = FLOATS[type_]
        few = s % 60000 if type_ == "f16" else s
        found = compute(f"cvt.rn.{type_}.s64", [few], dtype)
        assert [float(v) for v in found] == [
            nearest(Fraction(n), digits, least) for n in few.tolist()
        ]
    w = floats("f64")
    for type_ in ("f32", "bf16", "f16"):
        dtype, digits, least = FLOATS[type_]
        w = np.clip(w, -6e4, 6e4)
        found = compute(f"cvt.rn.{type_}.f64", [w], dtype)
        assert [float(v) for v in found] == [nearest(Fraction(float(n)), digits, least) for n in w]
    i = integers(np.dtype("i4"))
    assert (compute("cvt.s32.s8", [i], np.dtype("i4")) == i.astype(np.int8)).all()
    assert (compute("cvt.u64.u32", [i.view(u32)], np.dtype("u8")) == i.view(u32)).all()
    assert (
        compute("cvt.sat.s8.s32", [i], np.dtype("i4")).astype(np.int8) == np.clip(i, -128, 127)
    ).all()
    a, b = floats("f32"), floats("f32")
    pair = compute("cvt.rn.bf16x2.f32", [a, b], u32).view(ml_dtypes.bfloat16).reshape(-1, 2)
    assert (pair[:, 0] == b.astype(ml_dtypes.bfloat16)).all()
    assert (pair[:, 1] == a.astype(ml_dtypes.bfloat16)).all()
    small = compute("cvt.rn.satfinite.e4m3x2.f32", [a, b], np.dtype("u2")).view(
        ml_dtypes.float8_e4m3fn
    )
    assert (
        small.reshape(-1, 2)[:, 0] == np.clip(b, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    ).all()


def test_packed_values_are_computed_part_by_part() -> None:
    half = floats("f16", 2 * COUNT), floats("f16", 2 * COUNT)
    packed = [h.view(np.uint32) for h in half]
    found = compute("add.rn.f16x2", packed, np.dtype("u4")).view(np.float16)
    assert (found == half[0] + half[1]).all()


TESTED = set(
    "add sub mul mul24 mad div rem abs neg min max sad and or xor not cnot shl shr shf bfe bfi"
    " bfind clz popc brev prmt lop3 mov selp fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign"
    " testp".split()
)


def test_masks_of_lanes() -> None:
    """The lanes of a warp that have the thread's number, a lower or a higher one."""
    for name in ("eq", "lt", "le", "gt", "ge"):
        is_in = getattr(operator, name)
        body = (
            f"  mov.u32 %r1, %lanemask_{name};\n  mul.wide.u32 %d9, %r19, 4;\n"
            "  add.s64 %d9, %d9, %d10;\n  st.global.b32 [%d9], %r1;\n  ret;"
        )
        found = run_body(body, np.zeros(64, np.uint32), block=64).outputs["p0"]
        masks = [sum(1 << k for k in range(32) if is_in(k, lane)) for lane in range(32)]
        assert found.tolist() == masks * 2, name


def test_every_row_is_tested() -> None:
    assert {*TABLE} == TESTED
