from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.ir.types import ELEMENT_TYPES, TensorType, TokenType, TupleType, Type
from hloscope.stablehlo.types import ELEMENTS, DialectType, EncodedType, parse_type, type_end

F32, S32, PRED = ELEMENT_TYPES["f32"], ELEMENT_TYPES["s32"], ELEMENT_TYPES["pred"]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("tensor<f32>", TensorType(F32, ())),
        ("tensor<2x3xf32>", TensorType(F32, (2, 3))),
        ("tensor<2x0xi1>", TensorType(PRED, (2, 0))),
        ("tensor<?x3xi32>", TensorType(S32, (None, 3), bounds=(None, None))),
        (
            "tensor<?x3xf32, #stablehlo.bounds<4, ?>>",
            TensorType(F32, (None, 3), bounds=(4, None)),
        ),
        (
            "tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>",
            TensorType(F32, (None,), bounds=(4,)),
        ),
        ("tensor<2xcomplex<f64>>", TensorType(ELEMENT_TYPES["c128"], (2,))),
        ("tensor<4xf8E4M3FN>", TensorType(ELEMENT_TYPES["f8e4m3fn"], (4,))),
        ("tensor<4xui4>", TensorType(ELEMENT_TYPES["u4"], (4,))),
        ("tensor<4xbf16>", TensorType(ELEMENT_TYPES["bf16"], (4,))),
        ("!stablehlo.token", TokenType()),
        (
            "tuple<tensor<f32>, tuple<>>",
            TupleType((TensorType(F32, ()), TupleType(()))),
        ),
        ("tensor<*xf32>", DialectType("tensor<*xf32>")),
        ("!shape.shape", DialectType("!shape.shape")),
        ("index", DialectType("index")),
        (
            "tensor<4x4xf32, #CSR>",
            EncodedType(F32, (4, 4), encoding="#CSR"),
        ),
    ],
)
def test_a_type_is_read(text: str, type: Type) -> None:
    assert parse_type(text) == type
    assert type_end(f"{text}) -> x", 0) == len(text)


def test_a_quantized_element_keeps_its_text_and_the_width_of_its_storage() -> None:
    type = parse_type("tensor<2x!quant.uniform<i8:f32, 2.0:15>>")
    assert isinstance(type, TensorType)
    assert (type.element.name, type.element.bits) == ("!quant.uniform<i8:f32, 2.0:15>", 8)
    assert type.sizes == (2,)


def test_every_element_type_has_a_spelling() -> None:
    assert set(ELEMENT_TYPES.values()) - set(ELEMENTS.values()) == {ELEMENT_TYPES["s1"]}


def test_an_alias_stands_for_its_type() -> None:
    assert parse_type("tensor<!e>", {"!e": "f32"}) == parse_type("tensor<f32>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensro<2xf32>", None),
        ("tensor<2xf23>", "unknown element type `f23`; did you mean `f32`"),
        ("tensor<2x>", "expected an element type"),
        ("tensr", "expected a type, found `tensr`; did you mean `tensor`"),
        ("tensor<?xf32, #stablehlo.bounds<4, 5>>", "2 bounds for 1 dimensions"),
    ],
)
def test_what_is_no_type_is_refused(text: str, message: str | None) -> None:
    if message is None:
        assert isinstance(parse_type(text), DialectType)
        return
    with pytest.raises(ParseError, match=message):
        parse_type(text)
