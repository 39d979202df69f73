"""Literal text ⇄ numpy arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser import literals, parse_hlo
from hloscope.hlo_parser.literals import literal_value, print_literal
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.arrays import numpy_dtype
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.shape import Constant

CASES = [
    # type, text as XLA prints it, value
    ("f32[]", "0.1", 0.1),
    ("f32[]", "-0", -0.0),
    ("f32[]", "1e+10", 1e10),
    ("f32[]", "16777216", 16777216),
    ("f32[]", "9.99995e-41", 9.99995e-41),
    ("f32[]", "3.40282347e+38", 3.40282347e38),
    ("f64[]", "0.33333333333333331", 1 / 3),
    ("bf16[]", "0.1001", 0.1),
    ("f16[]", "0.099976", 0.1),
    ("f8e4m3fn[]", "0.102", 0.1),
    ("f8e5m2[]", "1.8", 1.75),
    ("f4e2m1fn[]", "1.5", 1.5),
    ("f6e2m3fn[]", "1.25", 1.25),
    ("f8e8m0fnu[]", "1e+03", 1024),
    ("f32[2]", "{inf, -inf}", [np.inf, -np.inf]),
    ("pred[]", "true", True),
    ("pred[2]", "{1, 0}", [True, False]),
    ("s4[3]", "{-8, 0, 7}", [-8, 0, 7]),
    ("u64[]", "18446744073709551615", 2**64 - 1),
    ("s64[]", "-9223372036854775808", -(2**63)),
    ("c64[]", "(1, -2.5)", 1 - 2.5j),
    ("c64[2]", "{(1, 2), (3, -inf)}", [1 + 2j, complex(3, -np.inf)]),
    ("c64[2,1]", "{ {(1, 2)}, {(3, 4)} }", [[1 + 2j], [3 + 4j]]),
    ("c128[]", "(0.1, 0)", 0.1),
    ("s32[3]", "{1, 2, 3}", [1, 2, 3]),
    ("s32[2,3]", "{ { 1, 2, 3 }, { 4, 5, 6 } }", [[1, 2, 3], [4, 5, 6]]),
    ("s32[2,1]", "{ {1}, {2} }", [[1], [2]]),
    ("s32[1,1,1]", "{ { {7} } }", [[[7]]]),
    (
        "s32[2,1,1,2]",
        "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } } }, { /*i0=1*/ { /*i1=0*/ { 3, 4 } } } }",
        [[[[1, 2]]], [[[3, 4]]]],
    ),
    ("f32[0]", "{}", np.zeros(0)),
    ("f32[2,0]", "{ {}, {} }", np.zeros((2, 0))),
    ("f32[0,3]", "{  }", np.zeros((0, 3))),
    ("f32[1,1,0,1]", "{ { /*i0=0*/ { /*i1=0*/ } } }", np.zeros((1, 1, 0, 1))),
]


@pytest.mark.parametrize(("type_", "text", "value"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES])
def test_text_and_value_correspond(type_: str, text: str, value: object) -> None:
    tensor = parse_type(type_)
    assert isinstance(tensor, TensorType)
    found = literal_value(tensor, text)
    want = np.array(value).astype(numpy_dtype(tensor.element))
    assert isinstance(found, np.ndarray)
    assert found.dtype == want.dtype
    assert found.shape == tensor.shape
    assert found.tobytes() == want.tobytes()
    assert print_literal(tensor, found) == text


LOOSE = [
    ("f32[2]", "{ 1 ,\n /* second */ 2 }", "{1, 2}"),
    ("f32[]", "0x1.8p3", "12"),
    ("f32[2]", "f32[2] {1, 2}", "{1, 2}"),
    ("f32[2]", "f32[2]{0} {1, 2}", "{1, 2}"),
    ("pred[2]", "{true, false}", "{1, 0}"),
    ("pred[]", "1", "true"),
    ("pred[]", "-2", "true"),
    ("u64[]", "-1", "18446744073709551615"),
    ("s32[2,2]", "7", "{ { 7, 0 }, { 0, 0 } }"),  # as XLA reads it
    ("s32[0]", "7", "{}"),
    ("f32[<=3]", "{1, 2, 3}", "{1, 2, 3}"),
    ("f32[2,0]", "{ { }, { } }", "{ {}, {} }"),
]


@pytest.mark.parametrize(("type_", "text", "printed"), LOOSE)
def test_other_writings_are_read(type_: str, text: str, printed: str) -> None:
    tensor = parse_type(type_)
    assert print_literal(tensor, literal_value(tensor, text)) == printed


NANS = [
    ("f32", "nan", 0x7FC00000),
    ("f32", "-nan", 0xFFC00000),
    ("f32", "nan(0x123)", 0x7F800123),
    ("f32", "-nan(0x400001)", 0xFFC00001),
    ("f64", "nan(0xfff)", 0x7FF0000000000FFF),
    ("bf16", "nan(0x1)", 0x7F81),
    ("f16", "-nan", 0xFE00),
    ("f8e5m2", "nan(0x1)", 0x7D),
    ("f8e4m3", "-nan", 0xFC),
    ("f8e3m4", "nan(0x3)", 0x73),
    ("f8e4m3fn", "nan", 0x7F),
    ("f8e4m3fn", "-nan", 0xFF),
    ("f8e8m0fnu", "nan", 0xFF),
]


@pytest.mark.parametrize(("element", "text", "bits"), NANS)
def test_nans_keep_sign_and_payload(element: str, text: str, bits: int) -> None:
    for type_, literal in ((f"{element}[]", text), (f"{element}[2]", f"{{1, {text}}}")):
        tensor = parse_type(type_)
        found = literal_value(tensor, literal)
        assert isinstance(found, np.ndarray)
        raw = found.reshape(-1)[-1:].view(f"u{ELEMENT_TYPES[element].bits // 8}")
        assert hex(int(raw[0])) == hex(bits)
        assert print_literal(tensor, found) == literal


def test_tuples_are_tuples_of_arrays() -> None:
    type_ = parse_type("(f32[], (s32[2,2], pred[]), ())")
    text = "( 1, ( { { 1, 2 }, { 3, 4 } }, true ), (  ) )"
    value = literal_value(type_, text)
    assert isinstance(value, tuple)
    assert value[2] == ()
    assert isinstance(value[1], tuple)
    assert np.array_equal(value[1][0], [[1, 2], [3, 4]])
    assert print_literal(type_, value) == text


@pytest.mark.parametrize("text", ["{...}", "{ { ... } }"])
def test_values_left_out_are_unavailable(text: str) -> None:
    with pytest.raises(UnsupportedError, match="left out when it was printed"):
        literal_value(parse_type("f32[3,4]"), text)


def test_a_huge_array_is_not_made_from_one_number() -> None:
    with pytest.raises(UnsupportedError, match="too large"):
        literal_value(parse_type("f32[1000000,1000000]"), "1")


ERRORS = [
    ("f32[4]", "{1}", "dimension 0: expected 4 entries, found 1"),
    ("f32[2,2]", "{ {1, 2}, {3} }", "dimension 1: expected 2 entries, found 1"),
    ("f32[2]", "{{1}, {2}}", "expected 1 levels of braces"),
    ("f32[]", "{1}", "expected 0 levels of braces"),
    ("f32[2]", "1 2", "expected a literal of shape 2"),
    ("f32[]", "", "expected a literal of shape scalar"),
    ("f32[]", "1 2", "expected 1 numbers, found 2"),
    ("f32[3]", "{1, , 3}", "expected 3 numbers, found 2"),
    ("f32[1000000000000]", "{1}", "expected 1000000000000 entries, found 1"),
    ("f32[2]", "{1, x}", "`x` is no f32"),
    ("f32[]", "1_0", "`1_0` is no f32"),
    ("f32[]", "infinity", "`infinity` is no f32"),
    ("f32[]", "nan(0x0)", "`nan(0x0)` is no f32"),
    ("f32[]", "nan(0x1000000)", "is no f32"),
    ("f32[]", "1e39", "`1e39` is no f32"),
    ("f8e4m3fn[]", "500", "`500` is no f8e4m3fn"),
    ("f4e2m1fn[]", "8", "`8` is no f4e2m1fn"),
    ("s8[]", "128", "`128` is no s8"),
    ("s8[2]", "{1, -129}", "`-129` is no s8"),
    ("u4[]", "-1", "`-1` is no u4"),
    ("s32[]", "1.5", "`1.5` is no s32"),
    ("u64[]", "18446744073709551616", "is no u64"),
    ("pred[]", "maybe", "`maybe` is no pred"),
    ("(f32[], f32[])", "(1)", "expected 2 elements of a tuple, found 1"),
    ("(f32[])", "1", "expected `(…)`"),
    ("f32[2]", "s32[2] {1, 2}", "the literal is of another type"),
    ("token[]", "1", "have no literals"),
]


@pytest.mark.parametrize(("type_", "text", "message"), ERRORS)
def test_wrong_literals_are_refused(type_: str, text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        literal_value(parse_type(type_), text)
    assert message in caught.value.message


def test_a_long_wrong_number_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[list[str]] = []
    plain = literals._values
    monkeypatch.setattr(
        literals, "_values", lambda element, words: (looked.append(words), plain(element, words))[1]
    )
    long = "6" + ".66" * 2000
    with pytest.raises(ParseError, match=r"`6\.66.*…` is no bf16") as caught:
        literal_value(parse_type("bf16[2]"), f"{{5.5, {long}}}")
    assert looked == [["5.5", long], ["5.5"], [long]]
    assert len(caught.value.message) < 1000


def test_arrays_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="expected an array of shape"):
        print_literal(parse_type("f32[2]"), np.zeros(3))
    with pytest.raises(ValueError, match="have no literals"):
        print_literal(parse_type("token[]"), np.zeros(3))


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_value_of_every_small_type_is_read_back(name: str) -> None:
    element = ELEMENT_TYPES[name]
    dtype = numpy_dtype(element)
    if element.bits > 16:
        values = np.arange(-50, 50).astype(dtype)
    else:
        count = 1 << min(element.bits, 8) if element.kind != "pred" else 2
        raw = np.arange(count, dtype=np.uint8)
        values = raw.view(dtype) if element.bits == 8 and name != "pred" else raw.astype(dtype)
        if element.bits == 16:
            values = (np.arange(1 << 12, dtype=np.uint16) << 4).view(dtype)
    tensor = TensorType(element, values.shape)
    again = literal_value(tensor, print_literal(tensor, values))
    assert isinstance(again, np.ndarray)
    assert again.tobytes() == values.tobytes()


shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=3)


@settings(max_examples=60)
@given(
    shapes.flatmap(
        lambda shape: st.one_of(
            hnp.arrays(np.float32, shape, elements=st.floats(width=32)),
            hnp.arrays(np.float64, shape, elements=st.floats()),
            hnp.arrays(np.int64, shape),
            hnp.arrays(np.bool_, shape),
        )
    )
)
def test_printed_arrays_are_read_back(array: np.ndarray) -> None:  # type: ignore[type-arg]
    names = {"float32": "f32", "float64": "f64", "int64": "s64", "bool": "pred"}
    tensor = TensorType(ELEMENT_TYPES[names[array.dtype.name]], array.shape)
    again = literal_value(tensor, print_literal(tensor, array))
    assert isinstance(again, np.ndarray)
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


def test_constants_that_xla_printed_are_printed_back(shared: Path, full: bool) -> None:
    paths = sorted((shared / "real" / "models").glob("*.hlo.txt"))
    literals = {
        (ins.type, str(ins.op.literal))
        for path in (paths if full else paths[::10])
        for computation in parse_hlo(path.read_text())
        for ins in computation
        if isinstance(ins.op, Constant) and not ins.op.literal.is_elided
    }
    assert len(literals) > 50
    for type_, literal in literals:
        assert print_literal(type_, literal_value(type_, literal)) == literal
