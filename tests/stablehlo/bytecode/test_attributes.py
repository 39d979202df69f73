"""Attributes and literals of bytecode: values and their fields, and fields that have no value."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hloscope.ir import TensorType
from hloscope.mlir import (
    ELEMENTS,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    StringAttr,
    StructAttr,
    elements,
    parse_type,
)
from hloscope.stablehlo.bytecode.attributes import (
    ATTRIBUTE_ENCODINGS,
    ELEMENT_ENCODINGS,
    ENUMS,
)

ENCODINGS: Final = {**ATTRIBUTE_ENCODINGS, **ELEMENT_ENCODINGS}
I1, I8, U8, F32 = (ELEMENTS[name] for name in ("i1", "i8", "ui8", "f32"))


def made(encoding: str, word: str, *fields: Any) -> Any:
    """The value of the fields; it has the same fields again."""
    value = ENCODINGS[encoding].make(word, *fields)
    assert tuple(ENCODINGS[encoding].fields(word, value)) == fields
    return value


@pytest.mark.parametrize("encoding", ["enum", "chlo_enum"])
def test_every_value_of_an_enum_has_its_number(encoding: str) -> None:
    for name, values in ENUMS.items():
        for number, value in enumerate(values):
            if value:
                found = made(encoding, name, number)
                assert (found.name, found.value) == (name, value)
        with pytest.raises(ValueError, match=f"^{len(values)} is no {name}$"):
            ENCODINGS[encoding].make(name, len(values))


def test_numbers_of_distributions_begin_at_one() -> None:
    assert made("enum", "rng_distribution", 1).value == "UNIFORM"
    with pytest.raises(ValueError, match=r"^0 is no rng_distribution$"):
        ENCODINGS["enum"].make("rng_distribution", 0)


def test_integers_have_the_sign_of_their_type() -> None:
    for type, bits, value in ((I8, 127, 127), (I8, 128, -128), (I8, 255, -1), (U8, 255, 255)):
        assert ENCODINGS["integer"].make("", type, bits).value == value
    assert ENCODINGS["integer"].make("", I1, 1) == BoolAttr(True)
    assert ENCODINGS["integer"].make("", I1, 0) == BoolAttr(False)
    for number in (0, 1):
        assert made("bool", "", number) == BoolAttr(bool(number))


OTHER_VALUES: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("bool", (2,), "2 is not a Boolean value"),
    ("integer", (F32, 1), "none of integers"),
    ("float", (I8, 1), "not of floats"),
    ("accuracy", (0, 0, 1, None), "a mode of accuracy"),
    ("accuracy", (0, 0, 1, ATTRIBUTE_ENCODINGS["enum"].make("rng_distribution", 1)),
     "a mode of accuracy"),
    ("axis_ref", (1, None), "a string attribute"),
    ("axis_ref", (StringAttr.of("x"), StructAttr("stablehlo", "bounds", ())), "a part of an axis"),
    ("mesh", (None, None), "axes of a mesh"),
    ("mesh_axes", (None, ()), "a mesh or its name"),
    ("mesh_axes", (StringAttr.of("m"), None), "axes of a mesh"),
    ("mesh_axes", (StringAttr.of("m"), (StringAttr.of("x"),)), "axes of a mesh"),
    ("nested_symbol", (StringAttr.of("a"), (StringAttr.of("b"),)), "symbols are needed"),
]  # fmt: skip


def test_fields_of_no_value_are_refused() -> None:
    for encoding, fields, message in OTHER_VALUES:
        with pytest.raises(ValueError, match=message):
            ENCODINGS[encoding].make("", *fields)


@pytest.mark.parametrize("bits", [0, 1 << 63])
def test_tolerances_of_zero_and_minus_zero_are_left_out(bits: int) -> None:
    mode = ATTRIBUTE_ENCODINGS["enum"].make("result_accuracy_mode", 1)
    value = ATTRIBUTE_ENCODINGS["accuracy"].make("", bits, 7, 0, mode)
    assert [name for name, _ in value.fields] == ["rtol", "mode"]
    assert ATTRIBUTE_ENCODINGS["accuracy"].fields("", value) == [0, 7, 0, mode]
    assert [name for name, _ in made("accuracy", "", 5, 7, 3, mode).fields] == [
        "atol", "rtol", "ulps", "mode",
    ]  # fmt: skip


TRUTHS: Final = [
    ("dense", (0,), b"", b""),
    ("dense", (1,), b"\1", b"\1"),
    ("dense", (1,), b"\0", b"\0"),
    ("dense_builtin", (1,), b"\xff", b"\1"),
    ("dense", (3,), b"\5", b"\1\0\1"),
    ("dense", (3,), b"\xff", b"\1"),
    ("dense", (3,), b"\0", b"\0"),
    ("dense", (8,), b"\x81", b"\1\0\0\0\0\0\0\1"),
    ("dense", (9,), b"\1\1", b"\1\0\0\0\0\0\0\0\1"),
    ("dense", (3, 3), b"\2\1", b"\0\1\0\0\0\0\0\0\1"),
]


def test_truth_values_are_packed() -> None:
    for kind, sizes, data, values in TRUTHS:
        found = made(kind, "", TensorType(I1, sizes), data)
        assert bytes(elements(found).raw) == values, (kind, sizes, data)


def test_old_truth_values_have_a_byte_each() -> None:
    for data in (b"\1\0\1", b"\0\0\1"):
        found = ENCODINGS["dense"].make("", TensorType(I1, (3,)), data)
        assert bytes(elements(found).raw) == data


WRONG_DATA: Final = [
    (I1, (9,), b"\1\0\1"),
    (I1, (0,), b"\1\1"),
    (F32, (3,), b"12345678"),
    (F32, (3,), b"123"),
    (F32, (None,), b"1234"),
]


def test_literals_of_another_size_are_refused() -> None:
    for element, sizes, data in WRONG_DATA:
        with pytest.raises(ValueError, match=r"bytes for|sizes are not known"):
            ENCODINGS["dense"].make("", TensorType(element, sizes), data)


def test_literals_have_all_elements_or_one() -> None:
    for data in (b"123456789abc", b"1234"):
        assert made("dense", "", TensorType(F32, (3,)), data) == DenseAttr(
            data, TensorType(F32, (3,))
        )
    pair = parse_type("tensor<2xcomplex<f32>>")
    for data in (b"12345678", b"123456789abcdefg"):
        assert bytes(elements(made("dense", "", pair, data)).raw) == data
    narrow = ENCODINGS["dense"].make("", TensorType(ELEMENTS["i4"], (2,)), b"\xf3\x17")
    assert bytes(elements(narrow).raw) == b"\3\7"  # bits above the fourth do not count


def test_arrays_of_integers_have_the_sign_of_their_type() -> None:
    assert made("dense_array", "", I8, 3, b"\x01\x80\xff") == DenseArrayAttr(I8, (1, -128, -1))
    assert made("dense_array", "", U8, 2, b"\x80\xff") == DenseArrayAttr(U8, (128, 255))
    assert made("dense_array", "", I1, 2, b"\1\0") == DenseArrayAttr(I1, (1, 0))
    with pytest.raises(ValueError, match="a truth value is neither"):
        ENCODINGS["dense_array"].make("", I1, 2, b"\1\2")
    with pytest.raises(ValueError, match="3 bytes for 2 elements of 1"):
        ENCODINGS["dense_array"].make("", I8, 2, b"\1\2\3")
