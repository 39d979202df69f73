"""Numbers, strings and `dense<…>`: read, kept as bytes, printed as MLIR prints them."""

from __future__ import annotations

import math
import re
import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from hloscope.errors import VerifyError
from hloscope.ir.floats import FORMATS, decode, encode, format_float
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.mlir.constants import attribute_text
from hloscope.mlir.ir import (
    ArrayAttr,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
)
from hloscope.mlir.literals import dense_text, elements, from_array, to_array
from hloscope.mlir.text.lexer import bare_or_quoted, quoted, symbol, unquoted
from hloscope.mlir.text.parser import parse_attribute
from hloscope.mlir.types import ELEMENTS, F64, I1, I32, I64

# What MLIR prints for these values; from jaxlib.
FLOATS = """
    f32  0.9           0.899999976
    f32  0.7           0.699999988
    f32  1e10          1.000000e+10
    f32  -0.0          -0.000000e+00
    f32  1e-45         1.401300e-45
    f32  123456.7      123456.703
    f32  1234567.0     0x4996B438
    f32  16777216.0    0x4B800000
    f32  3e38          3.000000e+38
    f32  0.0001234567  1.23456703E-4
    f32  nan           0x7FC00000
    f32  -inf          0xFF800000
    f64  3.14159265358979 3.14159265358979
    f64  0.3           3.000000e-01
    f64  1234567.0     0x4132D68700000000
    f64  1e100         1.000000e+100
    bf16 0.1           1.000980e-01
    bf16 inf           0x7F80
    f16  65504.0       6.550400e+04
    f16  0.333         3.330080e-01
    f8e4m3fn   448.0   4.480000e+02
    f8e4m3fn   1e10    0x7F
    f8e5m2     0.1     9.375000e-02
    f8e4m3fnuz 0.1     1.015630e-01
    f8e4m3fnuz nan     0x80
    f8e8m0fnu  2.0     2.000000e+00
    f4e2m1fn   6.0     6.000000e+00
"""
NUMPY = {name: ELEMENT_TYPES[name].numpy for name in FORMATS if name in ELEMENT_TYPES}


@pytest.mark.parametrize("row", [line.strip() for line in FLOATS.strip().splitlines()])
def test_a_number_is_printed_as_mlir_prints_it(row: str) -> None:
    name, value, text = row.split()
    assert format_float(encode(float(value), name), name) == text


@pytest.mark.slow(keep=6)
@pytest.mark.parametrize("name", [n for n, form in FORMATS.items() if form.bits <= 16])
def test_every_number_of_a_small_format_reads_back(name: str) -> None:
    for bits in range(1 << FORMATS[name].bits):
        text = format_float(bits, name)
        if text.startswith("0x"):
            assert int(text, 16) == bits
        else:
            assert encode(float(text), name) == bits, text


@pytest.mark.parametrize("name", NUMPY)
def test_numbers_are_decoded_as_numpy_does(name: str) -> None:
    bits = FORMATS[name].bits
    step = max(1, (1 << bits) // 5000)
    kind = np.dtype(getattr(ml_dtypes, NUMPY[name], NUMPY[name]))
    storage = np.dtype(f"u{kind.itemsize}")
    numbers = np.arange(0, 1 << bits, step, dtype=np.uint64).astype(storage)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        expected = numbers.view(kind).astype(np.float64)
    found = [decode(int(n), name) for n in numbers]
    assert np.array_equal(expected, found, equal_nan=True)


@given(st.integers(0, 2**32 - 1))
@example(0x00000001)
@example(0x00800000)
@example(0x7F7FFFFF)
def test_every_f32_reads_back(bits: int) -> None:
    text = format_float(bits, "f32")
    if text.startswith("0x"):
        assert int(text, 16) == bits
    else:
        assert struct.unpack("<I", struct.pack("<f", float(text)))[0] == bits


@given(st.floats())
def test_a_double_is_rounded_as_the_processor_does(value: float) -> None:
    with np.errstate(all="ignore"):
        expected = [np.float16(value).view("u2"), np.float32(value).view("u4")]
    if math.isnan(value):
        return
    assert [encode(value, "f16"), encode(value, "f32")] == [int(e) for e in expected]
    assert encode(value, "f64") == struct.unpack("<Q", struct.pack("<d", value))[0]


# Literal, type, what MLIR prints; from jaxlib.
DENSE = """
    [true, false]          | 2xi1             | [true, false]
    1                      | i1               | true
    [1, 1]                 | 2xi8             | 1
    [[1, 2], [3, -4]]      | 2x2xi32          | [[1, 2], [3, -4]]
    [0x1F, -0x2]           | 2xi8             | [31, -2]
    255                    | i8               | -1
    255                    | ui8              | 255
    [15, 7]                | 2xi4             | [-1, 7]
    [-1, 1]                | 2xindex          | [-1, 1]
                           | 0xi8             |
    [[], []]               | 2x0xf32          |
    5                      | 0xi32            | 5
    1.5                    | 3xf32            | 1.500000e+00
    [-0.0, 0.0]            | 2xf32            | [-0.000000e+00, 0.000000e+00]
    0x7FC00000             | f32              | 0x7FC00000
    1.0e400                | f64              | 0x7FF0000000000000
    (1.0,2.0)              | complex<f32>     | (1.000000e+00,2.000000e+00)
    [(1.0, 2.0), (3.0,0.5)] | 2xcomplex<f64> | [(1.000000e+00,2.000000e+00), (3.000000e+00,5.000000e-01)]
    (1,2)                  | 2xcomplex<i32>   | (1,2)
    [(1,-2), (3,4)]        | 2xcomplex<i8>    | [(1,-2), (3,4)]
    (255,1)                | complex<ui8>     | (255,1)
    "0x0102"               | 2xi8             | [1, 2]
    "0x0000803F"           | 10xf32           | 1.000000e+00
    "0x0F01"               | 2xf4E2M1FN       | [-6.000000e+00, 5.000000e-01]
    "0x07F8"               | 2xi4             | [7, -8]
    "0x010001"             | 3xi1             | [true, false, true]
    [1, // a comment ] , 5
    1]                     | 2xi8             | 1
"""  # noqa: E501
ROWS = [re.split(r" *\| *", row) for row in re.split(r"\n    (?!1\])", DENSE.strip("\n")) if row]


def dense(literal: str | bytes, type_: str) -> DenseAttr:
    *sizes, element = type_.split("x") if "complex" not in type_ else _complex(type_)
    found = ELEMENTS.get(element)
    if found is None:
        literal_attribute = parse_attribute(f"dense<{literal!s}> : tensor<{type_}>")
        assert isinstance(literal_attribute, DenseAttr)
        return literal_attribute
    return DenseAttr(literal, TensorType(found, tuple(map(int, sizes))))


def _complex(type_: str) -> list[str]:
    sizes, _, element = type_.rpartition("complex")
    return [*filter(None, sizes.split("x")), f"complex{element}"]


@pytest.mark.slow(keep=len(ROWS))
@pytest.mark.parametrize(
    ("literal", "type_", "printed"), ROWS, ids=[f"{r[0]}:{r[1]}" for r in ROWS]
)
def test_a_literal_is_printed_as_mlir_prints_it(literal: str, type_: str, printed: str) -> None:
    assert dense_text(dense(literal.strip(), type_)) == f"dense<{printed}>"


@pytest.mark.parametrize(
    ("element", "values", "digits"),
    [
        ("i8", "-1, 1, 0", "FF0100"),
        ("i4", "-1, 1, 0", "0F0100"),
        ("i2", "-1, 1, 0", "030100"),
        ("i1", "true, false, true", "010001"),
        ("i16", "-2, 1, 0", "FEFF01000000"),
        ("f32", "1.0, -1.0, 0.5", "0000803F000080BF0000003F"),
        ("bf16", "1.0, -1.0, 0.5", "803F80BF003F"),
        ("complex<f32>", "(1.0,0.0), (0.0,0.0), (0.0,1.0)", "0000803F" + "00" * 16 + "0000803F"),
    ],
)
def test_more_than_a_hundred_elements_are_printed_as_digits(
    element: str, values: str, digits: str
) -> None:
    many = DenseAttr(f"[{', '.join([values] * 34)}]", TensorType(ELEMENTS[element], (102,)))
    assert dense_text(many) == f'dense<"0x{digits * 34}">'
    few = DenseAttr(f"[{', '.join([values] * 33)}]", TensorType(ELEMENTS[element], (99,)))
    assert '"' not in dense_text(few)
    again = DenseAttr(dense_text(many)[6:-1], many.type)
    assert elements(again) == elements(many)


@pytest.mark.parametrize("name", [n for n, e in ELEMENT_TYPES.items() if e.numpy])
def test_a_literal_becomes_an_array_and_back(name: str) -> None:
    element = ELEMENT_TYPES[name]
    kind = np.dtype(getattr(ml_dtypes, element.numpy, element.numpy))
    values = np.array([[1, 0, 1], [1, 1, 0]]).astype(kind)
    literal = from_array(values, TensorType(element, (2, 3)))
    assert to_array(literal).dtype == kind
    assert np.array_equal(to_array(literal), values, equal_nan=True)
    spelled = DenseAttr(dense_text(literal)[6:-1], literal.type)
    assert np.array_equal(to_array(spelled), values, equal_nan=True)


def test_small_integers_keep_their_sign_in_arrays() -> None:
    assert to_array(dense("[-8, 7]", "2xi4")).astype(int).tolist() == [-8, 7]
    assert to_array(dense("[15, 7]", "2xui4")).astype(int).tolist() == [15, 7]


def test_a_splat_takes_no_memory() -> None:
    huge = dense("0.5", "1000000x1000000xf32")
    tracemalloc.start()
    try:
        assert dense_text(huge) == "dense<5.000000e-01>"
        assert to_array(huge)[999_999, 0] == 0.5
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("literal", "type_"),
    [("[1, 2]", "3xi8"), ("[1, x]", "2xi8"), ("[1.0, q]", "2xf32"), ('"0x01"', "2xi16")],
)
def test_what_is_no_literal_of_the_type_is_refused(literal: str, type_: str) -> None:
    with pytest.raises(VerifyError):
        elements(dense(literal, type_))


def test_an_array_of_another_type_is_refused() -> None:
    with pytest.raises(VerifyError):
        from_array(np.zeros(2, "f8"), TensorType(ELEMENT_TYPES["f32"], (2,)))


ATTRIBUTES = [
    (UnitAttr(), "unit"),
    (BoolAttr(True), "true"),
    (IntegerAttr(-5, I32), "-5 : i32"),
    (IntegerAttr(1, I1), "1 : i1"),
    (FloatAttr(0x3F800000, ELEMENTS["f32"]), "1.000000e+00 : f32"),
    (StringAttr(b'a"\n\xc3\xa9'), r'"a\22\0A\C3\A9"'),
    (StringAttr(b"x", I32), '"x" : i32'),
    (ArrayAttr((IntegerAttr(1, I64), IntegerAttr(2, I32), FloatAttr(0, F64), UnitAttr())),
     "[1, 2 : i32, 0.000000e+00, unit]"),
    (ArrayAttr((FloatAttr(0x7FF0000000000000, F64),)), "[0x7FF0000000000000 : f64]"),
    (DictAttr((("a", IntegerAttr(1, I64)), ("b c", UnitAttr()))), '{a = 1 : i64, "b c"}'),
    (DenseArrayAttr(I64, ()), "array<i64>"),
    (DenseArrayAttr(I1, (1, 0)), "array<i1: true, false>"),
    (DenseArrayAttr(ELEMENTS["f32"], (0x3F800000,)), "array<f32: 1.000000e+00>"),
    (SymbolAttr("a", ("b c",)), '@a::@"b c"'),
    (TypeAttr(TensorType(I32, (2,))), "tensor<2xi32>"),
    (EnumAttr("stablehlo", "precision", "HIGH"), "#stablehlo<precision HIGH>"),
    (StructAttr("stablehlo", "dot", (("a", (1, 2)), ("b", 3), ("c", BoolAttr(False)))),
     "#stablehlo.dot<a = [1, 2], b = 3, c = false>"),
    (DenseAttr("[1, 1]", TensorType(I32, (2,))), "dense<1> : tensor<2xi32>"),
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "text"), ATTRIBUTES, ids=[t for _, t in ATTRIBUTES])
def test_an_attribute_is_printed_as_mlir_prints_it(attribute: UnitAttr, text: str) -> None:
    assert attribute_text(attribute) == text


def test_a_type_may_be_left_out() -> None:
    assert attribute_text(IntegerAttr(3, I32), type=False) == "3"
    assert attribute_text(DenseArrayAttr(I64, (1, 2)), type=False) == "array<1, 2>"


@given(st.binary())
def test_a_string_reads_back(value: bytes) -> None:
    text = quoted(value)
    assert text.isascii()
    assert text.isprintable()
    assert unquoted(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("main", "main"), ("a.b$c_1", "a.b$c_1"), ("1a", '"1a"'), ("", '""'), ("é", r'"\C3\A9"')],
)
def test_a_name_has_quotes_if_it_needs_them(name: str, text: str) -> None:
    assert bare_or_quoted(name) == text
    assert symbol(name) == f"@{text}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("dense<0> : tensor<3xi0>", "dense<0> : tensor<3xi0>"),
        ("dense<[0, 0, 0]> : tensor<3xi0>", "dense<0> : tensor<3xi0>"),
        ('dense<"0x"> : tensor<3xi0>', "dense<0> : tensor<3xi0>"),
        ("dense<> : tensor<0xi0>", "dense<0> : tensor<0xi0>"),
        ("0 : i0", "0 : i0"),
    ],
)
def test_integers_of_no_bits(text: str, want: str) -> None:
    """What MLIR prints; from jaxlib."""
    assert attribute_text(parse_attribute(text)) == want
