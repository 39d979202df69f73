"""Attributes and locations: read, refused."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
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
    VerbatimAttr,
)
from hloscope.mlir.locations import (
    UNKNOWN,
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    LazyLoc,
    NameLoc,
    resolve_location,
)
from hloscope.mlir.text.parser import parse_attribute, parse_mlir
from hloscope.mlir.types import F64, I1, I32, I64, INDEX

F32 = ELEMENT_TYPES["f32"]
BF16 = ELEMENT_TYPES["bf16"]

_READ: list[tuple[str, Attribute]] = [
    ("unit", UnitAttr()),
    ("true", BoolAttr(True)),
    ("1 : i1", BoolAttr(True)),
    ("3", IntegerAttr(3, I64)),
    ("-3 : i32", IntegerAttr(-3, I32)),
    ("0xFF : i8", IntegerAttr(-1, ELEMENT_TYPES["s8"])),
    ("255 : ui8", IntegerAttr(255, ELEMENT_TYPES["u8"])),
    ("7 : index", IntegerAttr(7, INDEX)),
    ("1.0", FloatAttr(0x3FF0000000000000, F64)),
    ("-1.5e0 : f32", FloatAttr(0xBFC00000, F32)),
    ("0x7FC0 : bf16", FloatAttr(0x7FC0, BF16)),
    ("1.0e400 : f32", FloatAttr(0x7F800000, F32)),
    ('"a\\22\\n\\C3\\A9"', StringAttr(b'a"\n\xc3\xa9')),
    ('"a" : i32', StringAttr(b"a", I32)),
    ("@f", SymbolAttr("f")),
    ('@"a b"::@c', SymbolAttr("a b", ("c",))),
    ("[1, [], unit]", ArrayAttr((IntegerAttr(1, I64), ArrayAttr(()), UnitAttr()))),
    ('{b, "a c" = 1}', DictAttr((("a c", IntegerAttr(1, I64)), ("b", UnitAttr())))),
    ("{}", DictAttr(())),
    ("array<i64>", DenseArrayAttr(I64, ())),
    ("array<i64: 1, -2>", DenseArrayAttr(I64, (1, -2))),
    ("array<i1: true, false>", DenseArrayAttr(I1, (1, 0))),
    ("array<f32: 1.0, 0x7FC00000>", DenseArrayAttr(F32, (0x3F800000, 0x7FC00000))),
    ("tensor<2xf32>", TypeAttr(TensorType(F32, (2,)))),
    ("dense<1> : tensor<2xi32>", DenseAttr("1", TensorType(I32, (2,)))),
    ("dense<[1, // one\n 2]> : tensor<2xi32>", DenseAttr("[1, \n 2]", TensorType(I32, (2,)))),
    ("dense<> : tensor<0xi32>", DenseAttr("", TensorType(I32, (0,)))),
    ('dense<"0x01000000"> : tensor<1xi32>', DenseAttr('"0x01000000"', TensorType(I32, (1,)))),
    ("dense_resource<w> : tensor<2xf32>", VerbatimAttr("dense_resource<w> : tensor<2xf32>")),
    ("affine_map<(d0) -> (d0 floordiv 2)>", VerbatimAttr("affine_map<(d0) -> (d0 floordiv 2)>")),
    ("affine_set<(d0) : (d0 >= 0)>", VerbatimAttr("affine_set<(d0) : (d0 >= 0)>")),
    ("strided<[1, ?], offset: 2>", VerbatimAttr("strided<[1, ?], offset: 2>")),
    ("distinct[0]<1>", VerbatimAttr("distinct[0]<1>")),
    ('loc("a":1:2)', VerbatimAttr('loc("a":1:2)')),
    ("#a<b c>", VerbatimAttr("#a<b c>")),
    ("#stablehlo<precision HIGH>", EnumAttr("stablehlo", "precision", "HIGH")),
    (
        "#stablehlo.channel_handle<handle = 1, type = 0>",
        StructAttr("stablehlo", "channel_handle", (("handle", 1), ("type", 0))),
    ),
]


@pytest.mark.parametrize(("text", "attribute"), _READ)
def test_attributes(text: str, attribute: Attribute) -> None:
    assert parse_attribute(text, dialects=DIALECTS) == attribute


_WRONG = """
[1 | expected ']'
[1,] | expected attribute value
{a = } | expected attribute value
{a = 1, a} | duplicate key 'a' in dictionary attribute
{1} | expected attribute name
{a b} | expected '}' in attribute dictionary
- x | expected constant integer or floating point value
300 : i8 | integer constant out of range for attribute
-1 : ui8 | negative integer literal not valid for unsigned integer type
1 : tensor<f32> | integer literal not valid for specified type
1.0 : i32 | floating point value not valid for specified type
1 : f32 | unexpected decimal integer literal
0x1FFFFFFFF : f32 | hexadecimal float constant out of range for type
"abc | expected '"' in string literal
"a\\q" | unknown escape in string literal
@1 | @ identifier expected to start with letter or '_'
@a::b | expected nested symbol reference identifier
array<i64: 1 | expected '>' to close an array attribute
array<i64: 1.0> | expected integer literal
array<i1: 1> | expected 'true' or 'false' values for i1 type
array<i64: true> | expected i1 type for 'true' or 'false' values
array<i5: 1> | element type bitwidth must be a multiple of 8
array<tensor<f32>: 1> | expected integer or float type
array<i8: 300> | integer constant out of range
dense<1> tensor<i32> | expected ':'
dense<1> : i32 | elements literal must be a shaped type
dense<1> : tensor<?xi32> | elements literal type must have static shape
dense<[1, 2]> : tensor<3xi32> | inferred shape of elements literal ([2]) does not match type ([3])
dense<[[1], 2]> : tensor<2x1xi32> | ranks are not consistent between elements
dense<[1, ]> : tensor<2xi32> | expected element literal of primitive type
dense<[, 1]> : tensor<2xi32> | expected element literal of primitive type
dense<[1 2, 3]> : tensor<2xi32> | expected ']'
dense<[1, 2> : tensor<2xi32> | expected ']'
dense<> : tensor<2xi32> | parsed zero elements
dense<1.0> : tensor<2xi32> | expected integer elements, but parsed floating-point
dense<1> : tensor<2xf32> | unexpected decimal integer literal
dense<[0.0, 0xFF800000]> : tensor<2xf16> | hexadecimal float constant out of range for type
dense<(0.0, 0x1FFFFFFFF)> : tensor<complex<f32>> | hexadecimal float constant out of range
dense<true> : tensor<2xi32> | expected i1 type for 'true' or 'false' values
dense<-1> : tensor<2xui8> | expected unsigned integer elements, but parsed negative value
dense<[1, 300]> : tensor<2xi8> | integer constant out of range for type
dense<(1.0)> : tensor<complex<f32>> | expected ',' between complex elements
dense<1.0> : tensor<complex<f32>> | expected 2 elements
dense<"0x01"> : tensor<2xi32> | elements hex data size is invalid
dense<"01"> : tensor<2xi32> | expected string containing hex digits
#nobody | undefined symbol alias id 'nobody'
#a.b<(> | unbalanced '(' character
#stablehlo. | expected valid keyword
1 2 | expected the end of the text
affine_map | expected '<' after 'affine_map'
loc("a":1) | expected
"""


@pytest.mark.parametrize("row", _WRONG.strip().splitlines())
def test_what_is_no_attribute_is_refused(row: str) -> None:
    text, message = row.split(" | ")
    if text.startswith("loc"):
        text = f'"a.b"() : () -> () {text}'
        with pytest.raises(ParseError) as caught:
            parse_mlir(text)
    else:
        with pytest.raises(ParseError) as caught:
            parse_attribute(text.strip(), dialects=DIALECTS)
    assert message.strip() in caught.value.message


def test_long_literals_are_compared_quickly_and_exactly() -> None:
    row = ", ".join(map(str, range(100)))
    good = f"dense<[{', '.join(f'[{row}]' for _ in range(100))}]> : tensor<100x100xi32>"
    parse_attribute(good)
    for broken in (
        good.replace(", 99]", "]", 1),
        good.replace(", 5,", ", ,", 1),
        good.replace(", 5,", " 5,", 1),
        good.replace("], [", "][", 1),
        good.replace(", 5,", ", 4294967296,", 1),
    ):
        with pytest.raises(ParseError):
            parse_attribute(broken)


@pytest.mark.parametrize(
    "text",
    [
        "dense<1> : tensor<1000000000000xi32>",
        'dense<"0x01"> : tensor<1000000000000xi8>',
        "dense<true> : tensor<99999x99999x99999xi1>",
    ],
)
def test_splats_are_not_expanded(text: str) -> None:
    assert isinstance(parse_attribute(text), DenseAttr)


@pytest.mark.parametrize("size", ["1000000000000", "0x1000000000000"])
def test_sizes_are_not_believed(size: str) -> None:
    with pytest.raises(ParseError):
        parse_attribute(f"dense<[1]> : tensor<{size}xi32>")


# ---------------------------------------------------------------------------------- locations


def test_locations() -> None:
    text = """
      %0 = "a.b"() : () -> i32 loc("x.py":3:4)
      "a.b"() : () -> () loc(#late)
      "a.b"() : () -> () loc(callsite("f"(#late) at fused<"m>">["a", unknown, #late]))
      "a.b"() : () -> () loc("x.py":3:4 to 5:6)
      "a.b"() : () -> () loc("x.py":3:4 to :6)
      "a.b"() : () -> ()
      #late = loc("late"(#later))
      #later = loc("y.py":1:2)
    """
    ops = parse_mlir(text).regions[0].block.operations
    late = NameLoc("late", FileLoc("y.py", 1, 2))
    assert isinstance(ops[0].location, LazyLoc)
    assert [resolve_location(op.location) for op in ops] == [
        FileLoc("x.py", 3, 4),
        late,
        CallSiteLoc(NameLoc("f", late), FusedLoc((NameLoc("a"), UNKNOWN, late), '"m>"')),
        FileLoc("x.py", 3, 4, 5, 6),
        FileLoc("x.py", 3, 4, 3, 6),
        UNKNOWN,
    ]


def test_long_chains_of_locations() -> None:
    count = 3000
    text = '"a.b"() : () -> () loc(#l0)\n' + "".join(
        f'#l{i} = loc("n{i}"(#l{i + 1}))\n' for i in range(count)
    )
    module = parse_mlir(f'{text}#l{count} = loc("x":1:1)\n')
    location = resolve_location(module.regions[0].block.operations[0].location)
    for number in range(count):
        assert isinstance(location, NameLoc)
        assert location.name == f"n{number}"
        location = location.child


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a.b"() : () -> () loc(#none)', "never defined"),
        ('"a.b"() : () -> () loc(nothing)', "expected location instance"),
        ('"a.b"() : () -> () loc("a"', "expected ')' in location"),
        ('"a.b"() : () -> () loc("a" "b")', "expected ')' in location"),
        ('"a.b"() : () -> () loc(callsite("a"))', "expected 'at'"),
        ("#x = loc(fused)\n", "expected '['"),
    ],
)
def test_wrong_locations(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_mlir(text)
    assert message in caught.value.message


def test_locations_that_name_themselves() -> None:
    module = parse_mlir('"a.b"() : () -> () loc(#a)\n#a = loc("x"(#b))\n#b = loc("y"(#a))\n')
    with pytest.raises(ParseError, match="refers to itself"):
        resolve_location(module.regions[0].block.operations[0].location)
