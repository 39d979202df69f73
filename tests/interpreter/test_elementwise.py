"""Element-wise ops: the specification's examples, then what each kind of type does differently."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.floats import _BLOCK, rounded
from hloscope.interpreter.ops.elementwise import comparison, plain_function
from hloscope.interpreter.registry import LIFTED, MAKERS, load_families
from hloscope.interpreter.values import dtype_of
from hloscope.ir.types import ELEMENT_TYPES
from hloscope.mlir.types import ELEMENTS
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from tests.interpreter.helpers import values
from tests.interpreter.ops import COMPLEX, FLOATS, INTEGERS, apply, array, numbers

F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
NAN, INF = float("nan"), float("inf")
PI = np.pi
A, B = [[1, 2], [3, 4]], [[5, 6], [7, 8]]

EXACT: list[tuple[str, list[Any], Any]] = [
    ("abs", [I32([-2, 0, 2])], [2, 0, 2]),
    ("add", [I32(A), I32(B)], [6, 8, 10, 12]),
    ("and", [I32(A), I32(B)], [1, 2, 3, 0]),
    ("and", [np.bool_([False, False, True]), np.bool_([False, True, True])], [0, 0, 1]),
    ("ceil", [F32([-0.8166, -0.2530, 0.2530, 0.8166, 2.0])], [-0.0, -0.0, 1, 1, 2]),
    ("clamp", [I32([5, 10, 15]), I32([3, 13, 23]), I32([10, 15, 20])], [5, 13, 20]),
    ("count_leading_zeros", [I64([[0, 1], [128, -1]])], [64, 63, 56, 0]),
    ("divide", [I32([17, -17, 17, -17]), I32([3, 3, -3, -3])], [5, -5, -5, 5]),
    ("floor", [F32([-0.8166, -0.2530, 0.2530, 0.8166, 2.0])], [-1, -1, 0, 0, 2]),
    ("maximum", [I32([[1, 2], [7, 8]]), I32([[5, 6], [3, 4]])], [5, 6, 7, 8]),
    ("minimum", [I32([[1, 2], [7, 8]]), I32([[5, 6], [3, 4]])], [1, 2, 3, 4]),
    ("multiply", [I32(A), I32(B)], [5, 12, 21, 32]),
    ("negate", [I32([0, -2])], [0, 2]),
    ("not", [I32(A)], [-2, -3, -4, -5]),
    ("not", [np.bool_([True, False])], [False, True]),
    ("or", [I32(A), I32(B)], [5, 6, 7, 12]),
    ("or", [np.bool_([False, False, True]), np.bool_([False, True, True])], [0, 1, 1]),
    ("popcnt", [I64([0, 1, 2, 127])], [0, 1, 1, 7]),
    ("remainder", [I64([17, -17, 17, -17]), I64([3, 3, -3, -3])], [2, -2, 2, -2]),
    ("round_nearest_afz", [F64([-2.5, 0.4, 0.5, 0.6, 2.5])], [-3, 0, 1, 1, 3]),
    ("round_nearest_even", [F64([-2.5, 0.4, 0.5, 0.6, 2.5])], [-2, 0, 0, 1, 2]),
    ("select", [np.bool_([[0, 1], [1, 0]]), I32(A), I32(B)], [5, 2, 3, 8]),
    ("shift_left", [I64([-1, 0, 1]), I64([1, 2, 3])], [-2, 0, 8]),
    ("shift_right_arithmetic", [I64([-1, 0, 8]), I64([1, 2, 3])], [-1, 0, 1]),
    ("shift_right_logical", [I64([-1, 0, 8]), I64([1, 2, 3])], [9223372036854775807, 0, 1]),
    ("sign", [F64([NAN, -1.0, -0.0, 0.0, 1.0])], ["nan", -1, 0, 0, 1]),
    ("sqrt", [F32([[0, 1], [4, 9]])], [0, 1, 2, 3]),
    ("subtract", [F32([[6, 8], [10, 12]]), F32(B)], [1, 2, 3, 4]),
    ("xor", [I32(A), I32(B)], [4, 4, 4, 12]),
    ("xor", [np.bool_([False, False, True]), np.bool_([False, True, True])], [0, 1, 0]),
]

CLOSE: list[tuple[str, list[Any], Any]] = [
    ("atan2", [F64([0, 1, -1]), F64([0, 0, 0])], [0, PI / 2, -PI / 2]),
    ("cbrt", [F64([0, 1, 8, 27])], [0, 1, 2, 3]),
    ("cosine", [F32([[0, PI / 2], [PI, 3 * PI / 2]])], [1, 0, -1, 0]),
    ("divide", [F32([17.1, -17.1, 17.1, -17.1]), F32([3, 3, -3, -3])], [5.7, -5.7, -5.7, 5.7]),
    ("exponential", [F64([[0, 1], [2, 3]])], [1, 2.7182818, 7.3890561, 20.0855369]),
    ("exponential_minus_one", [F64([0, 1])], [0, 1.71828187]),
    ("log", [F64([[1, 2], [3, 4]])], [0, 0.69314718, 1.09861229, 1.38629436]),
    ("log_plus_one", [F64([0, -0.999, 7, 6.38905621, 15])],
     [0, -6.90776825, 2.07944155, 2, 2.77258873]),
    ("logistic", [F64([[0, 1], [2, 3]])], [0.5, 0.73105858, 0.88079708, 0.95257413]),
    ("power", [F64([-2, -0.0, 5, 3, 1e4]), F64([2, 2, 2, -1, 10])], [4, 0, 25, 1 / 3, 1e40]),
    ("rsqrt", [F32([[1, 4], [9, 25]])], [1, 0.5, 0.33333343, 0.2]),
    ("sine", [F32([[0, PI / 2], [PI, 3 * PI / 2]])], [0, 1, 0, -1]),
    ("tan", [F64([0, PI / 4])], [0, 1]),
    ("tanh", [F32([-1, 0, 1])], [-0.76159416, 0, 0.76159416]),
]  # fmt: skip


def ids(case: Any) -> str:
    return case if isinstance(case, str) else ""


@pytest.mark.parametrize(("op", "operands", "expected"), EXACT, ids=ids)
def test_examples_of_exact_ops(op: str, operands: list[Any], expected: list[Any]) -> None:
    found = apply(op, *operands)
    assert numbers(found) == expected
    assert np.asarray(found).dtype == operands[-1].dtype


@pytest.mark.parametrize(("op", "operands", "expected"), CLOSE, ids=ids)
def test_examples_of_rounded_ops(op: str, operands: list[Any], expected: list[float]) -> None:
    found = apply(op, *operands)
    assert found.dtype == operands[0].dtype
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("op", "operands", "expected"), EXACT + CLOSE, ids=ids)
def test_scalars_are_evaluated_as_arrays_are(op: str, operands: list[Any], expected: Any) -> None:
    whole = numbers(apply(op, *operands))
    flat = [x.reshape(-1) for x in operands]
    for i, element in enumerate(whole):
        assert numbers(apply(op, *[x[i] for x in flat])) == [element]


# ------------------------------------------------------------------------------- integers


@pytest.mark.parametrize("spelling", INTEGERS)
def test_integers_wrap_around(spelling: str) -> None:
    element = ELEMENTS[spelling]
    bits, signed = element.bits, element.kind == "signed"
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    low, high = array([least], spelling), array([most], spelling)
    one = array([1 if most > 0 else -1], spelling)
    step = 1 if most > 0 else -1
    wrap = lambda n: (n - least) % (1 << bits) + least  # noqa: E731
    exact = [
        ("add", (high, one), most + step),
        ("subtract", (low, one), least - step),
        ("multiply", (high, high), most * most),
        ("negate", (low,), -least),
        ("not", (low,), ~least),
        ("maximum", (low, high), most),
        ("minimum", (low, high), least),
        ("shift_left", (high, array([0], spelling)), most),
        ("xor", (low, high), least ^ most),
        ("popcnt", (high,), bin(most).count("1")),
        ("count_leading_zeros", (array([0], spelling),), bits),
    ]
    for op, operands, expected in exact:
        assert int(apply(op, *operands)[0]) == wrap(expected), op


@pytest.mark.parametrize("spelling", ["i8", "i4", "i2", "i64"])
def test_the_least_integer_has_no_positive(spelling: str) -> None:
    least = -(1 << (ELEMENTS[spelling].bits - 1))
    x, minus = array([least], spelling), array([-1], spelling)
    assert int(apply("abs", x)[0]) == least
    assert int(apply("divide", x, minus)[0]) == least
    assert int(apply("remainder", x, minus)[0]) == 0
    assert int(apply("divide", x[0], minus[0])) == least


@pytest.mark.parametrize("spelling", [n for n in INTEGERS if ELEMENTS[n].bits > 3])
def test_division_by_zero_is_defined(spelling: str) -> None:
    x, zero = array([5, 0], spelling), array([0, 0], spelling)
    all_set = -1 if ELEMENTS[spelling].kind == "signed" else (1 << ELEMENTS[spelling].bits) - 1
    assert [int(n) for n in apply("divide", x, zero)] == [all_set, all_set]
    assert apply("remainder", x, zero).astype(int).tolist() == [5, 0]
    assert int(apply("divide", x[0], zero[0])) == all_set
    assert int(apply("remainder", x[0], zero[0])) == 5


def test_shifts_beyond_the_width() -> None:
    x, by = np.int8([1, -1, 1, 64]), np.int8([7, 8, -1, 100])
    assert apply("shift_left", x, by).tolist() == [-128, 0, 0, 0]
    assert apply("shift_right_logical", np.int8([-1, -1, -1, 5]), by).tolist() == [1, 0, 0, 0]
    assert apply("shift_right_arithmetic", x, by).tolist() == [0, -1, 0, 0]
    assert apply("shift_left", x[1], by[1]) == 0


def test_shifts_of_small_integers_see_their_own_bits_only() -> None:
    x, by = array([-1, -8, 7], "i4"), array([1, 3, 4], "i4")
    assert apply("shift_right_logical", x, by).astype(int).tolist() == [7, 1, 0]
    assert apply("shift_right_arithmetic", x, by).astype(int).tolist() == [-1, -1, 0]
    assert apply("shift_left", x, by).astype(int).tolist() == [-2, 0, 0]
    assert apply("popcnt", x).astype(int).tolist() == [4, 1, 3]
    assert apply("count_leading_zeros", x).astype(int).tolist() == [0, 0, 1]


@pytest.mark.parametrize("spelling", ["ui4", "ui8", "ui32", "ui64"])
def test_arithmetic_shifts_take_the_first_bit_for_a_sign_always(spelling: str) -> None:
    bits = ELEMENTS[spelling].bits
    top = 1 << (bits - 1)
    x = np.array([top, top >> 1, top], np.uint64).astype(array([0], spelling).dtype)
    found = apply("shift_right_arithmetic", x, array([1, 1, bits], spelling))
    assert [int(n) for n in found] == [top | top >> 1, top >> 2, (1 << bits) - 1]


def test_powers_of_integers() -> None:
    a, b = I32([2, 2, -1, -1, 1, 0, 0, 3]), I32([10, -1, -3, -2, -5, 0, -1, 40])
    assert apply("power", a, b).tolist() == [1024, 0, -1, 1, 1, 1, 0, 689956897]
    assert apply("power", np.uint8([2, 255, 3]), np.uint8([8, 2, 200])).tolist() == [0, 1, 161]


def test_signs_and_sizes_of_integers() -> None:
    assert apply("sign", np.int8([-128, 0, 127])).tolist() == [-1, 0, 1]
    assert apply("sign", array([-2, 0, 1], "i2")).astype(int).tolist() == [-2 // 2, 0, 1]
    assert apply("negate", np.uint8([1, 255])).tolist() == [255, 1]


def test_booleans_add_by_or_and_multiply_by_and() -> None:
    a, b = np.bool_([1, 1, 0, 0]), np.bool_([1, 0, 1, 0])
    assert apply("add", a, b).tolist() == apply("maximum", a, b).tolist() == [1, 1, 1, 0]
    assert apply("multiply", a, b).tolist() == apply("minimum", a, b).tolist() == [1, 0, 0, 0]
    assert apply("add", a[0], b[0]) == np.True_


def test_an_op_without_meaning_for_a_type_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="`divide` of pred cannot be evaluated"):
        apply("divide", np.bool_([True]), np.bool_([True]))


# --------------------------------------------------------------------------------- floats


def test_extremes_take_nan_and_know_signed_zeros() -> None:
    a, b = F32([NAN, 1, -0.0, 0.0, 5, -0.0]), F32([1, NAN, 0.0, -0.0, -0.0, -0.0])
    most, least = apply("maximum", a, b), apply("minimum", a, b)
    assert numbers(most) == ["nan", "nan", 0, 0, 5, 0]
    assert np.signbit(most[2:]).tolist() == [False, False, False, True]
    assert numbers(least) == ["nan", "nan", 0, 0, 0, 0]
    assert np.signbit(least[2:]).tolist() == [True, True, True, True]
    for x, y, m in zip(a, b, most, strict=True):
        one = apply("maximum", x, y)
        assert numbers(one) == numbers(m)
        assert np.signbit(one) == np.signbit(m) or m != m


def test_zeros_keep_their_sign() -> None:
    zeros = F32([-0.0, 0.0])
    for op in ("sign", "floor", "ceil", "round_nearest_afz", "round_nearest_even", "sqrt", "cbrt",
               "sine", "tan", "tanh", "exponential_minus_one", "log_plus_one"):  # fmt: skip
        assert np.signbit(apply(op, zeros)).tolist() == [True, False], op
    assert numbers(apply("rsqrt", zeros)) == [-INF, INF]
    assert np.signbit(apply("round_nearest_afz", F32([-0.4, 0.4]))).tolist() == [True, False]


def test_rounding_to_integers_does_not_round_twice() -> None:
    below = np.nextafter(F32(0.5), F32(0))
    assert apply("round_nearest_afz", F32([below, -below, 2**23 + 1, INF])).tolist() == [
        0, 0, 2**23 + 1, INF,
    ]  # fmt: skip


def test_powers_of_floats() -> None:
    a, b = F32([0, -1, NAN, 1, -8, INF]), F32([0, INF, 0, NAN, 1 / 3, -1])
    assert numbers(apply("power", a, b)) == [1, 1, 1, 1, "nan", 0]


def test_remainders_of_floats_have_the_sign_of_the_dividend() -> None:
    a, b = F32([5.5, -5.5, 5.5, 1]), F32([2, 2, -2, 0])
    assert numbers(apply("remainder", a, b)) == [1.5, -1.5, 1.5, "nan"]


def test_atan2_knows_the_quadrants() -> None:
    found = apply("atan2", F32([0, -0.0, 1, -0.0]), F32([-1, -1, 0, 0]))
    assert found.tolist() == F32([PI, -PI, PI / 2, -0.0]).tolist()


def test_logistic_rounds_every_step() -> None:
    assert apply("logistic", np.float16([0.3, -12])).view(np.uint16).tolist() == [0x3899, 0]


@pytest.mark.parametrize("spelling", ["f16", "bf16", "f32"])
def test_functions_are_evaluated_in_double_and_rounded_once(spelling: str) -> None:
    x = array(np.linspace(0.01, 0.99, 99), spelling)
    wide = x.astype(F64)
    for op, function in {
        "exponential": np.exp, "log": np.log, "log_plus_one": np.log1p, "sine": np.sin,
        "cosine": np.cos, "tan": np.tan, "tanh": np.tanh, "cbrt": np.cbrt, "sqrt": np.sqrt,
        "exponential_minus_one": np.expm1, "rsqrt": lambda v: 1 / np.sqrt(v),
    }.items():  # fmt: skip
        found, exact = apply(op, x).astype(F64), function(wide)
        below, above = (np.nextafter(apply(op, x), array(e, spelling)) for e in (-99, 99))
        off = np.abs(found - exact)
        assert (off <= np.abs(below.astype(F64) - exact)).all(), op
        assert (off <= np.abs(above.astype(F64) - exact)).all(), op


@pytest.mark.parametrize("spelling", FLOATS)
def test_every_op_of_floats_keeps_the_type(spelling: str) -> None:
    one = array([1, 1], spelling)
    for name, cls in ELEMENTWISE.items():
        if cls.result != "same" or name in ("not", "and", "or", "xor", "popcnt", "select", "clamp",
                                            "count_leading_zeros", "reduce_precision"):  # fmt: skip
            continue
        function = plain_function(name, ELEMENTS[spelling])
        if function is not None:
            with np.errstate(all="ignore"):
                found = function(*[one] * cls.arity)
            assert found.dtype == one.dtype, name


def test_narrow_floats_overflow_as_their_type_does() -> None:
    top = lambda x, t: apply("add", array([x], t), array([x], t))  # noqa: E731
    assert numbers(top(448, "f8E4M3FN")) == ["nan"]
    assert numbers(top(57344, "f8E5M2")) == [INF]
    assert numbers(top(30, "f8E4M3B11FNUZ")) == ["nan"]
    assert numbers(top(6, "f4E2M1FN")) == [6]
    assert numbers(top(7.5, "f6E2M3FN")) == [7.5]
    bf16 = array([1.0078125], "bf16")
    assert apply("multiply", bf16, bf16).view(np.uint16).tolist() == [0x3F82]


# ---------------------------------------------------------------------------- ops of HLO


def test_ops_of_hlo() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[3] parameter(0)
      n = s32[3] parameter(1)
      erf = f32[3] erf(x)
      p = s32[3] popcnt(n)
      z = s32[3] count-leading-zeros(n)
      c = pred[3] compare(x, erf), direction=GT, type=TOTALORDER
      r = f32[3] reduce-precision(x), exponent_bits=8, mantissa_bits=0
      ROOT t = (f32[3], s32[3], s32[3], pred[3], f32[3]) tuple(erf, p, z, c, r)
    }"""
    ((erf, ones, zeros, greater, reduced),) = (
        values(text, F32([0, 0.5, -3.3]), I32([0, 255, -1])),
    )
    np.testing.assert_allclose(erf, [0, 0.5204999, -0.9999969], rtol=1e-6)
    assert (ones, zeros, greater) == ([0, 8, 32], [32, 24, 0], [False, False, False])
    assert reduced == [0, 0.5, -4]


@pytest.mark.parametrize(
    "type", ["f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3fn", "bf16", "f16", "f4e2m1fn", "f6e2m3fn"]
)
def test_the_total_order_of_floats_is_that_of_their_bits(type: str) -> None:
    """Sign and magnitude, so that the payloads of NaNs count: 0x7d < 0x7e of f8e5m2."""
    element = ELEMENT_TYPES[type]
    dtype = dtype_of(element)
    bits = ml_dtypes.finfo(dtype).bits
    magnitudes = np.arange(1 << bits - 1, dtype=f"u{dtype.itemsize}")
    ascending = np.concatenate([magnitudes[::-1] | (1 << bits - 1), magnitudes]).view(dtype)
    less = comparison(element, "LT", is_total=True)
    assert less(ascending[:-1], ascending[1:]).all()
    assert not less(ascending[1:], ascending[:-1]).any()
    assert not less(ascending, ascending).any()


@pytest.mark.parametrize("type", ["f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b11fnuz"])
def test_the_only_nan_of_floats_without_minus_zero_is_before_all_numbers(type: str) -> None:
    """As XLA:CPU compares them (jaxlib 0.10)."""
    element = ELEMENT_TYPES[type]
    order = [0x80, *range(0xFF, 0x80, -1), *range(0x80)]
    ascending = np.array(order, np.uint8).view(dtype_of(element))
    less = comparison(element, "LT", is_total=True)
    assert less(ascending[:-1], ascending[1:]).all()


def test_stochastic_convert_rounds_up_as_often_as_it_should() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[5] parameter(0)
      r = u32[5] parameter(1)
      ROOT s = s8[5] stochastic-convert(x, r)
    }"""
    x = F32([1.25, 1.25, -1.25, 3, 1000])
    random = np.uint32([2**30 - 1, 2**30, 0, 0, 0])
    assert values(text, x, random) == [2, 1, -2, 3, 127]


# ----------------------------------------------------------------------------------- all


def test_every_elementwise_op_is_evaluated() -> None:
    load_families()
    classes = {*ELEMENTWISE.values(), *IMPLICIT_BROADCAST.values()}
    assert not [cls.name for cls in classes if cls not in MAKERS]
    assert not [cls.name for cls in ELEMENTWISE.values() if cls not in LIFTED]


@pytest.mark.parametrize("spelling", ["i1", *INTEGERS, *FLOATS, *COMPLEX])
def test_scalars_and_arrays_mix(spelling: str) -> None:
    """Kernels of these ops serve regions, whose values may be of one shape or scalars."""
    some = array([1, 0, 1] if spelling == "i1" else [1, 2, 4], spelling)
    if ELEMENTS[spelling].bits < 4:
        some = array([1, 0, 1], spelling)
    for name, cls in ELEMENTWISE.items():
        function = plain_function(name, ELEMENTS[spelling])
        if function is None or cls.arity == 1:
            continue
        with np.errstate(all="ignore"):
            for scalar in range(cls.arity):
                operands = [some] * cls.arity
                if name == "select":
                    operands[0] = np.bool_([True, False, True])
                operands[scalar] = operands[scalar][0]
                mixed = np.broadcast_to(function(*operands), some.shape)
                whole = function(*[np.broadcast_to(x, some.shape).copy() for x in operands])
                assert numbers(mixed) == numbers(whole), name
                for i, element in enumerate(numbers(whole)):
                    one = function(*[np.broadcast_to(x, some.shape)[i] for x in operands])
                    assert numbers(one) == [element], name


@pytest.mark.parametrize("size", [_BLOCK, _BLOCK + 1, 2 * _BLOCK + 3])
def test_large_arrays_are_rounded_as_small_ones(size: int) -> None:
    power = rounded(np.power, np.dtype("float16"))
    x, y = np.linspace(0, 4, size).astype("f2"), np.linspace(2, 3, size).astype("f2")
    expected = (x.astype("f8") ** y.astype("f8")).astype("f2")
    assert np.array_equal(power(x, y), expected)
    two = np.array(2, "f2")
    assert np.array_equal(power(x, two), (x.astype("f8") ** 2).astype("f2"))
