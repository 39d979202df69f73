"""Types and quantized types: read, printed, refused."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.ir.types import (
    ELEMENT_TYPES,
    BufferType,
    DialectType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    UnrankedTensorType,
    VectorType,
)
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir, parse_type
from hloscope.mlir.types import I1, I32, integer_type, is_signless, type_text

F32 = ELEMENT_TYPES["f32"]


@pytest.mark.parametrize(
    "text",
    """
    tensor<f32>
    tensor<0x3xf32>
    tensor<2x?x4xi1>
    tensor<*xf32>
    tensor<4xui8>
    tensor<4xsi8>
    tensor<4xi5>
    tensor<2xcomplex<f64>>
    tensor<2xf8E4M3B11FNUZ>
    tensor<?x3xf32, #stablehlo.bounds<4, ?>>
    tensor<?xf32, #stablehlo.bounds<?>>
    tensor<2xf32, #stablehlo.bounds<?>>
    tensor<2x3xf32, #sparse_tensor.encoding<{ map = (d0, d1) -> (d0 : dense, d1 : compressed) }>>
    tensor<2xindex>
    tensor<2x!tf_type.string>
    tensor<2xvector<4xf32>>
    vector<4x[8]xf32>
    memref<2xf32>
    memref<*xf32>
    memref<2x?xf32, affine_map<(d0, d1) -> (d0)>>
    tuple<>
    tuple<tensor<i1>, tuple<i32>>
    () -> ()
    (i32, f32) -> (i1, i2)
    ((i32) -> i32) -> (() -> ())
    i64
    none
    index
    complex<i32>
    !stablehlo.token
    !stablehlo.future<tensor<i1>, tensor<2xf32>>
    !shape.shape
    !foo.bar<a -> [b], "<">
    !quant.any<i8<-4:3>:f32>
    !quant.calibrated<f32<-0.998:1.232100e+00>>
    !quant.uniform<i8:f32, 2.000000e+00:15>
    !quant.uniform<i8:f32, 2.000000e+00>
    !quant.uniform<u8:f32, 2.000000e+00:15>
    !quant.uniform<ui8:f32, 2.000000e+00:15>
    !quant.uniform<i8<-127:127>:f32:0, {0.072314441204071045,0.050758145749568939:3}>
    !quant.uniform<i8:f32:{0:1, 1:2}, {{2.000000e+00:120}, {4.000000e+00}}>
    """.strip().splitlines(),
)
def test_what_is_read_is_printed_again(text: str) -> None:
    text = text.strip()
    assert type_text(parse_type(text, dialects=DIALECTS)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("tensor< 2 x 3 x f32 >", "tensor<2x3xf32>"),
        (
            "tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>",
            "tensor<?xf32, #stablehlo.bounds<4>>",
        ),
        ("!quant<uniform<i8<-128:127>:f32, 2.0>>", "!quant.uniform<i8:f32, 2.000000e+00>"),
        (
            "!quant.uniform<i8<-128:127>:f32:1, {0.1:-30, 0.5}>",
            "!quant.uniform<i8:f32:1, {1.000000e-01:-30,5.000000e-01}>",
        ),
        ("tensor<2xf32, #a.b<\n  c // d\n>>", "tensor<2xf32, #a.b< c >>"),
        ("i007", "i7"),
    ],
)
def test_other_spellings(text: str, printed: str) -> None:
    assert type_text(parse_type(text, dialects=DIALECTS)) == printed


def test_what_types_are() -> None:
    def read(text: str) -> object:
        return parse_type(text, dialects=DIALECTS)

    assert read("tensor<2x?xi1>") == TensorType(I1, (2, None), bounds=(None, None))
    assert read("tensor<?xf32, #stablehlo.bounds<4>>") == TensorType(F32, (None,), bounds=(4,))
    assert read("tensor<*xf32>") == UnrankedTensorType(F32)
    assert read("vector<2x[4]xf32>") == VectorType(F32, (2, 4), (False, True))
    assert read("memref<2xf32>") == BufferType(TensorType(F32, (2,)))
    assert read("(i32) -> f32") == FunctionType((I32,), (F32,))
    assert read("tuple<i32>") == TupleType((I32,))
    assert read("!stablehlo.token") == TokenType()
    assert read("!stablehlo.future<tensor<f32>>") == FutureType((TensorType(F32, ()),))
    assert read("!a.b") == DialectType("!a.b")
    assert read("i32") is I32
    assert read("tensor<2x3xf32>") is read("tensor<2x3xf32>")


def test_quantized_types_have_their_parts() -> None:
    type = parse_type("!quant.uniform<i4<-4:3>:f32:2, {0.5:1, 0.25}>", dialects=DIALECTS)
    assert isinstance(type, QuantizedType)
    assert (type.storage, type.expressed, type.bits) == (ELEMENT_TYPES["s4"], F32, 4)
    assert (type.scales, type.zero_points) == ((0.5, 0.25), (1, 0))
    assert (type.storage_min, type.storage_max, type.axis) == (-4, 3, 2)
    assert type.is_per_axis
    assert not type.is_per_tensor
    one = parse_type("!quant.uniform<i8:f32, 0.5>", dialects=DIALECTS)
    assert isinstance(one, QuantizedType)
    assert one.is_per_tensor
    assert one.axis is None


def test_integers_of_all_widths() -> None:
    assert integer_type("i5") == ElementType("s5", 5, "signed")
    assert integer_type("ui8") is ELEMENT_TYPES["u8"]
    assert integer_type("si8") != integer_type("i8")
    assert integer_type("f32") is None
    assert [is_signless(parse_type(t)) for t in ("i8", "si8", "ui8", "index", "i1")] == [  # type: ignore[arg-type]
        True,
        False,
        False,
        False,
        True,
    ]


_WRONG = """
tensor<2xf33> | expected non-function type
tensor<2 f32> | expected 'x' in dimension list
tensor<??xf32> | expected 'x' in dimension list
tensor<1e400xf32> | expected 'x' in dimension list
tensor<2xf32 | expected '>' in tensor type
tensor 2 | expected '<' in tensor type
tensor<2xtensor<f32>> | invalid tensor element type
tensor<2xtuple<>> | invalid tensor element type
tensor<*xf32, #a.b> | cannot apply encoding to unranked tensor
tensor<99999999999999999999xf32> | invalid dimension
tensor<?x?xf32, #stablehlo.bounds<3>> | Bounds length is 1, expected to be equal to rank(2)
tensor<3xf32, #stablehlo.bounds<3>> | Static dimension 0 cannot have a bound
vector<0xf32> | vector types must have positive constant sizes
vector<[4xf32> | missing ']' closing
complex<tensor<f32>> | invalid element type for complex
(i32) | expected '->' in function type
i16777216 | integer bitwidth is limited to 16777215 bits
i99999999999 | invalid integer width
!nobody | undefined symbol alias id 'nobody'
!stablehlo.foobar | unknown stablehlo type: foobar
!stablehlo.future<i32> | future element type must be a ranked tensor, but got 'i32'
!foo.bar<(> | unbalanced '(' character in pretty dialect name
!quant.foobar | unknown quantized type foobar
!quant.uniform<i8<-4:3>:f32, 0.9:127 23> | expected '>'
!quant.uniform<i8<16>:f32, 0.9:127> | expected ':'
!quant.uniform<i8<-4:3>f32, 0.9:127> | expected ':'
!quant.uniform<i8<-4:3>:f32 0.9:127> | expected ','
!quant.uniform<int8<-4:3>:f32, 0.9:127> | illegal storage type prefix
!quant.uniform<i33:f32, 0.9:127> | illegal storage type size: 33
!quant.uniform<i0:f32, 0.9:127> | illegal storage type size: 0
!quant.uniform<i8<2:1>:f32, 0.9:127> | illegal storage min and storage max: (2:1)
!quant.uniform<i4<-1:9>:f32, 0.9:127> | illegal storage type maximum: 9
!quant.uniform<i4<-9:1>:f32, 0.9:127> | illegal storage type minimum: -9
!quant.uniform<i8:f32, abc:127> | expected floating point literal
!quant.uniform<i8:f32, 1:127> | unexpected decimal integer literal
!quant.uniform<i8:f32, 0.1:abc> | expected integer value
!quant.uniform<i8:f32, 0.1:9223372036854775808> | integer value too large
!quant.uniform<i8:i32, 0.1> | invalid kind of type specified
!quant.uniform<i8:f32, -1.0:127> | scale -1.000000e+00 out of expressed type range
!quant.uniform<i8:f16, 5.8e-8 > | scale 5.800000e-08 out of expressed type range
!quant.uniform<i8:f16:1, {2.0, 6.6e4}> | scale 6.600000e+04 out of expressed type range
!quant.uniform<i8:f32:-1, {2.0, 3.0:1}> | illegal quantized dimension: -1
!quant.uniform<i8:f32:{0:0, 1:2}, {{1.0}}> | illegal block size: 0
!quant.uniform<i8:f32:{0:1}, {{1.0}, 2.0}> | ranks are not consistent between elements
!quant.uniform<i8:f32:{0:1, {1.0}> | unbalanced '{' character
!quant.calibrated<f32<1.0:0.5>> | illegal min and max
"""


@pytest.mark.parametrize("row", _WRONG.strip().splitlines())
def test_what_is_no_type_is_refused(row: str) -> None:
    text, message = row.split(" | ")
    with pytest.raises(ParseError) as caught:
        parse_type(text.strip(), dialects=DIALECTS)
    assert message.strip() in caught.value.message


def test_aliases_stand_for_what_they_are() -> None:
    text = """
      !before = tensor<2xf32>
      !integers = i3
      #list = [1, 2]
      #encoding = #a.b<{
        c}>
      %0 = "a.b"() {x = #list} : () -> !before
      %1 = "a.b"() : () -> tensor<2x!integers>
      %2 = "a.b"() : () -> tensor<2xf32, #encoding>
    """
    a, b, c = parse_mlir(text).regions[0].block.operations
    assert type_text(a.result.type) == "tensor<2xf32>"
    assert type_text(b.result.type) == "tensor<2xi3>"
    assert type_text(c.result.type) == "tensor<2xf32, #a.b<{ c}>>"
    assert a.get("x") is not None


_REFUSED = r"""
"a.b"() {x = #a} : () -> ()\n#a = 1 : i32     | 1:14 | undefined symbol alias id 'a'
"a.b"() : () -> !a \n !a = i32                 | 1:17 | undefined symbol alias id 'a'
#a = #b \n #b = 1 : i32                        | 1:6 | undefined symbol alias id 'b'
#a = 1 : i32 \n#a = 1 : i32                    | 2:1 | redefinition of attribute alias id 'a'
!a = i32 \n!a = i64                            | 2:1 | redefinition of type alias id 'a'
#a = loc("x") \n#a = loc("x")                  | 2:1 | redefinition of attribute alias id 'a'
#a = loc("x") \n#a = 1 : i32                   | 2:1 | redefinition of attribute alias id 'a'
"a.b"() : () -> () loc(#a) \n#a = loc("x")\n#a = 1 | 3:1 | redefinition of attribute alias id 'a'
"""
"""Text | place | message of jaxlib."""


@pytest.mark.parametrize("row", _REFUSED.strip().splitlines())
def test_aliases_are_defined_once_and_before_their_use(row: str) -> None:
    text, place, message = map(str.strip, row.replace("\\n", "\n").split(" | "))
    with pytest.raises(ParseError) as caught:
        parse_mlir(text, "f")
    assert f"f:{place}: error: {message}" in str(caught.value)


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_mlir("!a = !b\n!b = !a\n")
