"""Conversions between element types, `reduce_precision`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloscope
from hloscope.interpreter.numbers.conversions import promoted, rounds_to
from hloscope.mlir.types import ELEMENTS
from hloscope.ops.inference import promotable
from tests.interpreter.ops import COMPLEX, FLOATS, INTEGERS, apply, array, dtype_of, numbers

F32, F64 = np.float32, np.float64
NAN, INF = float("nan"), float("inf")
PLAIN = [n for n in FLOATS if n not in ("f8E8M0FNU", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN")]
FINITE = ["f4E2M1FN", "f6E2M3FN", "f6E3M2FN"]


def convert(x: Any, to: str) -> Any:
    found = apply("convert", x, result=to)
    assert np.asarray(found).dtype == dtype_of(to)
    return found


def test_the_example_of_convert() -> None:
    assert convert(np.int64([-1, 0, 1]), "complex<f64>").tolist() == [-1, 0, 1]


@pytest.mark.slow(keep=10)
@pytest.mark.parametrize("source", ["i1", *INTEGERS, *FLOATS, *COMPLEX])
def test_zero_and_one_convert_to_themselves(source: str) -> None:
    for target in ("i1", *INTEGERS, *FLOATS, *COMPLEX):
        if "f8E8M0FNU" not in (source, target):  # it has no zero
            assert numbers(convert(array([0, 1], source), target)) == [0, 1]
        assert numbers(convert(array(1, source)[()], target)) == [1]


def test_floats_saturate_towards_integers() -> None:
    x = F32([300, -300, NAN, INF, -INF, 1.9, -1.9])
    assert convert(x, "i8").tolist() == [127, -128, 0, 127, -128, 1, -1]
    assert convert(x, "ui8").tolist() == [255, 0, 0, 255, 0, 1, 0]
    assert convert(x, "i4").astype(int).tolist() == [7, -8, 0, 7, -8, 1, -1]
    assert convert(x, "ui2").astype(int).tolist() == [3, 0, 0, 3, 0, 1, 0]
    assert convert(x, "i1").tolist() == [True] * 7
    assert convert(F32([0, -0.0, NAN, 0.25]), "i1").tolist() == [False, False, True, True]


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["i32", "ui32", "i64", "ui64"])
def test_floats_saturate_at_the_ends_of_wide_integers(source: str, target: str) -> None:
    info = np.iinfo(dtype_of(target))
    x = array([1e30, -1e30, INF, -INF, NAN, 2.0**31, 2.0**63, 2.0**64, -1.5, 5e9], source)
    expected = [
        0 if v != v else min(max(int(v), info.min), info.max) if abs(v) < INF
        else info.max if v > 0 else info.min
        for v in x.tolist()
    ]  # fmt: skip
    assert convert(x, target).tolist() == expected
    assert [int(convert(v, target)) for v in x] == expected


def test_integers_wrap_and_extend_by_their_sign() -> None:
    assert convert(np.int32([300, -129, 128]), "i8").tolist() == [44, 127, -128]
    assert convert(np.int8([-1]), "ui32").tolist() == [4294967295]
    assert convert(np.int32([9, -9, 16]), "i4").astype(int).tolist() == [-7, 7, 0]
    assert convert(array([-1, -8], "i4"), "ui64").tolist() == [2**64 - 1, 2**64 - 8]
    assert convert(array([-1, 1], "i2"), "f8E5M2").astype(F64).tolist() == [-1, 1]
    assert convert(np.int32([0, 2, -4]), "i1").tolist() == [False, True, True]


def test_integers_round_once_towards_floats() -> None:
    assert convert(np.int64([16777217, 9007199254740993]), "f32").tolist() == [
        16777216, 9007199254740992,
    ]  # fmt: skip
    assert convert(np.uint64([2**64 - 1]), "f64").tolist() == [2.0**64]
    # To f32 first, it would be halfway between two numbers of bf16, and go to the even one.
    assert convert(np.int32([2**24 + 2**16 + 1]), "bf16").astype(F64).tolist() == [2**24 + 2**17]


def test_complex_numbers_convert_by_their_real_part() -> None:
    z = np.complex64([1.5 + 2.5j, 2j])
    assert convert(z, "f32").tolist() == [1.5, 0]
    assert convert(z, "i8").tolist() == [1, 0]
    assert convert(z, "i1").tolist() == [True, False]
    assert convert(z, "complex<f64>").tolist() == [1.5 + 2.5j, 2j]
    assert convert(F32([1.5]), "complex<f32>").tolist() == [1.5]


def test_overflow_is_that_of_the_type() -> None:
    assert convert(F64([1e300, 1e-300]), "f32").tolist() == [INF, 0]
    assert numbers(convert(F32([500, 464, 465, INF]), "f8E4M3FN")) == ["nan", 448, "nan", "nan"]
    assert numbers(convert(F32([70000, INF]), "f8E5M2")) == [INF, INF]
    assert numbers(convert(F32([3, 0, -1, 5, INF]), "f8E8M0FNU")) == [
        4, 2.0**-127, "nan", 4, "nan",
    ]  # fmt: skip
    assert numbers(convert(F32([0.25, 0.75, 5, 7, INF]), "f4E2M1FN")) == [0, 1, 4, 6, 0]
    assert numbers(convert(F32([0.0625, 7.75, 100]), "f6E2M3FN")) == [0, 7.5, 7.5]


@pytest.mark.parametrize("spelling", [n for n in (*PLAIN, *FINITE) if n not in ("f32", "f64")])
def test_doubles_round_once_to_nearest_even(spelling: str) -> None:
    """Points halfway between neighbours, and a little to either side: exact arithmetic decides."""
    dtype = dtype_of(spelling)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    count = 1 << ELEMENTS[spelling].bits
    with np.errstate(invalid="ignore"):  # signalling NaNs
        every = np.arange(count).astype(unsigned).view(dtype).astype(F64)
    every = np.unique(every[np.isfinite(every)])
    if every.size > 2000:
        every = every[:: every.size // 1000]
        every = np.unique(np.concatenate([every, -every]))
        every = every[np.abs(every) > 1e-30]
        below, above = every, np.nextafter(every.astype(dtype), array(99, spelling)).astype(F64)
        below, above = below[np.abs(every) < 60], above[np.abs(every) < 60]
    else:
        below, above = every[:-1], every[1:]
    middle = (below + above) / 2
    to = rounds_to(dtype)
    low, high = np.nextafter(middle, -INF), np.nextafter(middle, INF)
    assert (to(low).astype(F64) == below).all()
    assert (to(high).astype(F64) == above).all()
    chosen = to(middle).astype(F64)
    assert ((chosen == below) | (chosen == above)).all()
    size = to(middle).view(unsigned)
    assert (size & 1 == 0).all()


def test_large_doubles_are_the_largest_number_where_there_is_no_infinity() -> None:
    assert numbers(convert(F64([1e300, -1e40, INF]), "f6E3M2FN")) == [28, -28, 0]
    assert numbers(convert(F64([1e300, -1e40, INF]), "f4E2M1FN")) == [6, -6, 0]


def test_scalars_of_double_round_once_too() -> None:
    tie = F64(1 + 2**-8 + 2**-40)
    assert float(rounds_to(dtype_of("bf16"))(tie)) == 1 + 2**-7
    assert convert(tie, "bf16").astype(F64) == 1 + 2**-7


# ------------------------------------------------------------------------ reduce_precision


def reduce(x: Any, exponent: int, mantissa: int) -> Any:
    attributes = f"exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32"
    return apply("reduce_precision", x, attributes=attributes)


def test_the_example_of_reduce_precision() -> None:
    x = F64([INF, NAN, 0.0, 1000.0, 1000000.0])
    assert numbers(reduce(x, 5, 10)) == [INF, "nan", 0, 1000, INF]


def test_reduced_precision_drops_subnormals_and_keeps_signs() -> None:
    x = F32([3.1415927, 65536, 1e-8, NAN, INF, -1e-8, -INF, 2.0**-14, 2.0**-15])
    assert numbers(reduce(x, 5, 10)) == [3.140625, INF, 0, "nan", INF, 0, -INF, 2.0**-14, 0]
    assert np.signbit(reduce(x, 5, 10)[[2, 5]]).tolist() == [False, True]


def test_without_mantissa_nan_is_infinite() -> None:
    assert reduce(F32([3.1415927, NAN, 3, 1.5]), 5, 0).tolist() == [4, INF, 2, 2]


@pytest.mark.parametrize("spelling", ["f64", "f32", "f16", "bf16", "f8E5M2", "f8E4M3FN"])
def test_as_many_bits_or_more_change_nothing(spelling: str) -> None:
    x = array([1.25, -3, 0.0, NAN], spelling)
    assert numbers(reduce(x, 11, 52)) == [1.25, -3, 0, "nan"]
    assert numbers(reduce(x, 8, 1)) == [1, -3, 0, "nan"]


@pytest.mark.parametrize("mantissa", [0, 1, 5, 9, 22])
def test_the_mantissa_rounds_to_nearest_even(mantissa: int) -> None:
    x = np.random.default_rng(0).normal(size=200).astype(F32)
    for before, after in zip(x, reduce(x, 8, mantissa), strict=True):
        unit = Fraction(2) ** (int(np.floor(np.log2(abs(before)))) - mantissa)
        assert Fraction(float(after)) == round(Fraction(float(before)) / unit) * unit


def test_scalars_reduce() -> None:
    assert reduce(F32(3.3), 5, 2) == 3.5


def widening(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair that typing accepts, whether a library knows a way between the two or not."""
    pairs = [(a, b) for a in names for b in names if promotable(ELEMENTS[a], ELEMENTS[b])]
    assert len(pairs) > len(names)
    return pairs


def test_accumulators_of_every_wider_type_take_every_integer() -> None:
    for a, b in widening(INTEGERS):
        x = np.arange(4).astype(np.int8).astype(dtype_of(a))
        found = promoted(x, dtype_of(b))
        assert found.dtype == dtype_of(b)
        bits = (1 << ELEMENTS[b].bits) - 1
        assert [int(v) & bits for v in found.tolist()] == [int(v) & bits for v in x.tolist()]


def test_accumulators_of_every_wider_type_take_every_float() -> None:
    for a, b in widening(FLOATS):
        found = promoted(np.float32([1, 2]).astype(dtype_of(a)), dtype_of(b))
        assert found.dtype == dtype_of(b)
        assert found.astype(np.float32).tolist() == [1, 2]


def test_a_reduction_starts_with_a_number_of_a_narrower_type() -> None:
    text = """func.func @main(%a: tensor<2x3xui4>, %i: tensor<i2>) -> tensor<3xui4> {
      %r = "stablehlo.reduce"(%a, %i) ({
        ^bb0(%x: tensor<ui4>, %y: tensor<ui4>):
          %s = stablehlo.add %x, %y : tensor<ui4>
          stablehlo.return %s : tensor<ui4>
      }) {dimensions = array<i64: 0>} : (tensor<2x3xui4>, tensor<i2>) -> tensor<3xui4>
      return %r : tensor<3xui4>
    }"""
    a, one = np.arange(6).reshape(2, 3), np.int8(1)
    found = hloscope.evaluate(text, a.astype(ml_dtypes.uint4), one.astype(ml_dtypes.int2))
    assert found.tolist() == [4, 6, 8]
