"""Readers of types and attributes that MLIR defines itself, by the word with which they begin.

Source: MLIR language reference, "Builtin Types", "Builtin Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hloscope.ir import (
    FORMATS,
    BufferType,
    DialectType,
    ElementType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
    encode,
)
from hloscope.mlir.ir import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    FloatAttr,
    IntegerAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.mlir.text.dense import LiteralError, check_brackets, check_dense, limits
from hloscope.mlir.text.lexer import BLANK, STRING, Lexer
from hloscope.mlir.types import ELEMENTS, F64, I1, I64, WIDEST, integer_type, type_text
from hloscope.support.lazy import pattern

if TYPE_CHECKING:
    from hloscope.mlir.text.parser_attributes import AttributeParser

INTEGER: Final = pattern(r"[su]?i\d+", re.ASCII)
"""Name of an integer type."""
_SIZES: Final = pattern(rf"{BLANK}((?:(?:\d+|\?){BLANK}x{BLANK})*)", re.ASCII)
_DIGITS: Final = pattern(r"\d+", re.ASCII)
_SIZE: Final = pattern(r"\d+|\?")
_LIMIT: Final = 1 << 63
_SCALABLE: Final = pattern(r"(\d+)\s*\]\s*x\s*")
_FIXED: Final = pattern(r"(\d+)\s*x\s*")
_BOUNDS: Final = pattern(
    r"#(?:stablehlo|mhlo)\.(?:bounds<([^<>]*)>|type_extensions<\s*bounds\s*=\s*\[([^]]*)\]\s*>)"
)
_BOUND: Final = pattern(r"\s*(?:\?|-?\d+)\s*", re.ASCII)
_COMMENT: Final = pattern(rf"({STRING})|//[^\n]*")
_IN_DENSE: Final = pattern(rf"{STRING}|//[^\n]*|[<>]|\Z")
_NUMBERS: Final = ("pred", "signed", "unsigned", "float")
"""Kinds of the element types that complex numbers and arrays may have."""

# ---------------------------------------------------------------------------------------- types


def read_integer(parser: AttributeParser) -> Type:
    """Read `i32`, `si8` or `ui8`."""
    lexer = parser.lexer
    width = int(lexer.tok.lstrip("sui")[:20])
    if width >= 1 << 32:
        lexer.fail_plainly("invalid integer width")
    if width > WIDEST:
        message = f"integer bitwidth is limited to {WIDEST} bits"
        lexer.fail_plainly(message)
    type = integer_type(lexer.next())
    assert type is not None
    return type


def _tensor(parser: AttributeParser) -> Type:
    lexer = parser.lexer
    lexer.next()
    lexer.expect("<", "expected '<' in tensor type")
    unranked = lexer.tok == "*"
    if unranked:
        if not lexer.text.startswith("x", lexer.end):
            lexer.next()
            lexer.wrong("expected 'x' in dimension list")
        lexer.move(lexer.end + 1)
        sizes: tuple[int | None, ...] = ()
    else:
        sizes = _sizes(lexer)
    at, end = lexer.start, lexer.end
    element = parser.type()
    encoding = parser.encoding() if lexer.try_token(",") else ""
    lexer.expect(">", "expected '>' in tensor type")
    kind = _element_type(element)
    if kind is None:
        message = f"invalid tensor element type: '{type_text(element)}'"
        lexer.fail_plainly(message, at, end)
    if unranked:
        if encoding:
            lexer.fail_plainly("cannot apply encoding to unranked tensor", at, end)
        return UnrankedTensorType(kind)
    bounds: tuple[int | None, ...] = (None,) * len(sizes) if None in sizes else ()
    if not encoding:
        return TensorType(kind, sizes, bounds=bounds)
    return _encoded(lexer, TensorType(kind, sizes, bounds=bounds), encoding)


def _sizes(lexer: Lexer) -> tuple[int | None, ...]:
    """Read the sizes of a shaped type, `2x?x`, up to the token after them; `None` for `?`."""
    found = _SIZES.match(lexer.text, lexer.start)
    assert found is not None
    sizes = tuple(None if s == "?" else int(s[:40]) for s in _SIZE.findall(found[1]))
    if any(size is not None and size >= _LIMIT for size in sizes):
        lexer.fail_plainly("invalid dimension")
    if sizes:
        lexer.move(found.end())
    if lexer.kind == "number" or lexer.tok == "?":
        number = _DIGITS.match(lexer.text, lexer.start)
        lexer.move(lexer.end if number is None else number.end())
        lexer.wrong("expected 'x' in dimension list")
    return sizes


def _encoded(lexer: Lexer, type: TensorType, encoding: str) -> Type:
    """Return a tensor type with an encoding: bounds of its sizes, or any attribute as text.

    Args:
        lexer: The lexer, for errors.
        type: The tensor type without encoding.
        encoding: The text of the encoding.
    """
    found = _BOUNDS.fullmatch(encoding)
    if found is None:
        return TensorType(type.element, type.sizes, bounds=type.bounds, encoding=encoding)
    parts = (found[1] if found[1] is not None else found[2]).split(",")
    if parts == [""]:
        parts = []
    if not all(map(_BOUND.fullmatch, parts)):
        lexer.fail_plainly("expected integer value", lexer.before)
    bounds = tuple(None if "?" in b or "-" in b else int(b) for b in parts)
    if len(bounds) != len(type.sizes):
        lexer.fail_plainly(
            f"Bounds length is {len(bounds)}, expected to be equal to rank({len(type.sizes)})"
            " of the tensor",
            lexer.before - 1,
        )
    for number, (bound, size) in enumerate(zip(bounds, type.sizes, strict=True)):
        if bound is not None and size is not None:
            lexer.fail_plainly(
                f"Static dimension {number} cannot have a bound, use ShapedType::kDynamic to"
                " indicate a missing bound",
                lexer.before - 1,
            )
    if all(bound is None for bound in bounds):
        inside = ", ".join("?" * len(bounds))
        text = f"#stablehlo.bounds<{inside}>"
        return TensorType(type.element, type.sizes, bounds=type.bounds, encoding=text)
    return TensorType(type.element, type.sizes, bounds=bounds)


def _element_type(type: Type) -> ElementType | None:
    """Return a type as an `ElementType`; `None` if tensors cannot have such elements."""
    match type:
        case ElementType():
            return None if type.name == "none" else type
        case VectorType():
            return ElementType(type_text(type), 0, "opaque")
        case DialectType() if type.text.startswith(("!", "memref<")):
            return ElementType(type.text, 0, "opaque")
        case _:
            return None


def _vector(parser: AttributeParser) -> Type:
    lexer = parser.lexer
    lexer.next()
    lexer.expect("<", "expected '<' in vector type")
    sizes: list[int] = []
    scalable: list[bool] = []
    while lexer.kind == "number" or lexer.tok == "[":
        unit = lexer.try_token("[")
        found = (_SCALABLE if unit else _FIXED).match(lexer.text, lexer.start)
        if found is None:
            lexer.next()
            lexer.wrong(
                "missing ']' closing scalable dimension"
                if unit
                else "expected 'x' in dimension list"
            )
        sizes.append(int(found[1][:40]))
        scalable.append(unit)
        lexer.move(found.end())
    if 0 in sizes:
        message = "vector types must have positive constant sizes"
        lexer.fail_plainly(message, lexer.start, lexer.end)
    at, end = lexer.start, lexer.end
    element = parser.type()
    lexer.expect(">", "expected '>' in vector type")
    kind = _element_type(element)
    if kind is None:
        lexer.fail_plainly("vector elements must be int/index/float type", at, end)
    return VectorType(kind, tuple(sizes), tuple(scalable) if any(scalable) else ())


def _complex(parser: AttributeParser) -> Type:
    lexer = parser.lexer
    lexer.next()
    lexer.expect("<", "expected '<' in complex type")
    at, end = lexer.start, lexer.end
    part = parser.type()
    lexer.expect(">", "expected '>' in complex type")
    if not isinstance(part, ElementType) or part.kind not in _NUMBERS or part.name == "index":
        lexer.fail_plainly("invalid element type for complex", at, end)
    name = f"complex<{type_text(part)}>"
    return ELEMENTS.get(name) or ElementType(name, 2 * part.bits, "complex")


def _tuple(parser: AttributeParser) -> Type:
    lexer = parser.lexer
    lexer.next()
    lexer.expect("<", "expected '<' in tuple type")
    return TupleType(tuple(lexer.items(parser.type, ">", "expected '>' in tuple type")))


def _memref(parser: AttributeParser) -> Type:
    lexer = parser.lexer
    start = lexer.start
    lexer.next()
    if lexer.tok != "<":
        lexer.wrong("expected '<' in memref type")
    end = lexer.balanced()
    if lexer.after() != "*":
        lexer.next()
        sizes = _sizes(lexer)
        element = _element_type(parser.type())
        if lexer.end == end and lexer.tok == ">" and element is not None:
            lexer.next()
            bounds = (None,) * len(sizes) if None in sizes else ()
            return BufferType(TensorType(element, sizes, bounds=bounds))
    lexer.move(end)
    return DialectType(parser.aliases.verbatim(start))


# ------------------------------------------------------------------------------------ numbers


def _negative(parser: AttributeParser, type: Type | None) -> Attribute:
    lexer = parser.lexer
    lexer.next()
    if lexer.kind != "number":
        lexer.wrong("expected constant integer or floating point value")
    return read_number(parser, type, negative=True)


def read_number(parser: AttributeParser, type: Type | None, *, negative: bool = False) -> Attribute:
    """Read a number without its sign.

    Its type is the one after a colon, else `type`. `negative` says that a `-` was read before.
    """
    lexer = parser.lexer
    token, at, end = lexer.tok, lexer.start, lexer.end
    lexer.next()
    is_float = "." in token
    if type is None:
        type = parser.type() if lexer.try_token(":") else F64 if is_float else I64
    kind = type.kind if isinstance(type, ElementType) else ""
    if isinstance(type, ElementType) and kind == "float" and type.name in FORMATS:
        return FloatAttr(_float_bits(lexer, token, type, negative, at, end), type)
    if is_float or kind == "float":
        message = "floating point value not valid for specified type"
        lexer.fail_plainly(message, lexer.start)
    if not isinstance(type, ElementType) or kind not in ("pred", "signed", "unsigned"):
        lexer.fail_plainly("integer literal not valid for specified type", at, end)
    value = _integer(lexer, token, type, negative, at, end)
    return BoolAttr(value != 0) if type == I1 else IntegerAttr(value, type)


def _float_bits(
    lexer: Lexer, token: str, type: ElementType, negative: bool, at: int, end: int
) -> int:
    """Return the bits of a floating-point literal `token` of a type.

    Args:
        lexer: The lexer, for errors.
        token: The literal without sign.
        type: The float type.
        negative: Was a `-` read before?
        at: Start of the literal.
        end: End of the literal.
    """
    if token.startswith("0x"):
        bits = int(token, 16) if len(token) < 100 else 1 << 200
        if negative:
            message = "hexadecimal float literal should not have a leading minus"
            lexer.fail_plainly(message, at, end)
        if bits >> type.bits:
            lexer.fail_plainly("hexadecimal float constant out of range for type", at, end)
        return bits
    if "." not in token:
        message = "unexpected decimal integer literal for a floating point attribute"
        lexer.fail_plainly(message, at, end)
    return encode(float(("-" if negative else "") + token), type.name)


def _integer(lexer: Lexer, token: str, type: ElementType, negative: bool, at: int, end: int) -> int:
    """Return the value of an integer literal `token`; for a signless type, as a signed integer.

    Args:
        lexer: The lexer, for errors.
        token: The literal without sign.
        type: The integer type.
        negative: Was a `-` read before?
        at: Start of the literal.
        end: End of the literal.
    """
    if negative and type.kind == "unsigned":
        message = "negative integer literal not valid for unsigned integer type"
        lexer.fail_plainly(message, at, end)
    low, high = limits(type)
    value = int(token, 0 if token.startswith("0x") else 10) if len(token) < 4000 else high + 1
    if negative:
        value = -value
    if not low <= value <= high:
        lexer.fail_plainly("integer constant out of range for attribute", at, end)
    if type.kind == "signed" and value > max(-low - 1, 0):
        value -= 1 << type.bits
    return value


# ------------------------------------------------------------------- attributes of many elements


def _dense(parser: AttributeParser, type: Type | None) -> Attribute:
    lexer = parser.lexer
    at, end = lexer.start, lexer.end
    lexer.next()
    if lexer.tok != "<":
        lexer.wrong("expected '<' after 'dense'")
    start = lexer.end
    stop = _dense_end(lexer, start)
    literal = lexer.text[start : stop - 1].strip()
    if "//" in literal:
        literal = _COMMENT.sub(lambda found: found[1] or "", literal).strip()
    lexer.move(stop)
    if lexer.tok != ":" and "//" not in literal:
        _check_brackets(lexer, start, stop - 1)
        lexer.move(stop)
    type = _elements_type(parser, at, end, type)
    try:
        check_dense(literal, type)
    except LiteralError as error:
        if error.at >= 0 and lexer.text.startswith(literal, start):
            at = end = start + error.at
        lexer.fail_plainly(str(error), at)
    return DenseAttr(literal, type)


def _dense_end(lexer: Lexer, start: int) -> int:
    for found in _IN_DENSE.finditer(lexer.text, start):
        if found[0] == ">":
            return found.end()
        if found[0] in ("<", ""):
            break
    at = _check_brackets(lexer, start, found.start())
    lexer.move(at)
    lexer.wrong("expected '>'")


def _check_brackets(lexer: Lexer, start: int, end: int) -> int:
    """Raise an error unless the text `[start, end)` consists of elements and nested lists.

    Return the end of the text without spaces.
    """
    try:
        return start + check_brackets(lexer.text[start:end].rstrip())
    except LiteralError as error:
        lexer.move(start + error.at)
        lexer.wrong(str(error))


def _elements_type(
    parser: AttributeParser, at: int, end: int, type: Type | None
) -> TensorType | VectorType:
    """Return the type of a literal of elements: `type`, or the one that follows after a colon.

    `[at, end)` is the position of the literal, for errors.
    """
    lexer = parser.lexer
    if type is None:
        lexer.expect(":")
        type = parser.type()
    if not isinstance(type, TensorType | VectorType):
        lexer.fail_plainly("elements literal must be a shaped type", at, end)
    if None in type.sizes:
        lexer.fail_plainly("elements literal type must have static shape", at, end)
    return type


def _dense_array(parser: AttributeParser, type: Type | None) -> Attribute:
    lexer = parser.lexer
    lexer.next()
    lexer.expect("<", "expected '<' after 'array'")
    at, end = lexer.start, lexer.end
    element = parser.type()
    if (
        not isinstance(element, ElementType)
        or element.kind not in _NUMBERS
        or element.name == "index"
    ):
        text = type_text(element)
        lexer.fail_plainly(f"expected integer or float type, got: {text}", at, end)
    if element != I1 and element.bits % 8:
        message = "element type bitwidth must be a multiple of 8"
        lexer.fail_plainly(message, at, end)
    if lexer.try_token(">"):
        return DenseArrayAttr(element, ())
    lexer.expect(":", "expected ':' after dense array type")
    elements = lexer.items(lambda: _array_element(lexer, element))
    lexer.expect(">", "expected '>' to close an array attribute")
    return DenseArrayAttr(element, tuple(elements))


def _array_element(lexer: Lexer, element: ElementType) -> int:
    at = lexer.start
    negative = lexer.try_token("-")
    token, end = lexer.tok, lexer.end
    if token in ("true", "false"):
        if element != I1:
            message = "expected i1 type for 'true' or 'false' values"
            lexer.fail_plainly(message, at, end)
        lexer.next()
        return int(token == "true")
    if element.kind == "float":
        if lexer.kind != "number":
            lexer.fail_plainly("expected floating point literal", at, end)
        bits = _float_bits(lexer, token, element, negative, at, end)
        lexer.next()
        return bits
    if lexer.kind != "number" or "." in token:
        lexer.fail_plainly("expected integer literal", at, end)
    if element == I1:
        lexer.fail_plainly("expected 'true' or 'false' values for i1 type", at, end)
    value = _integer(lexer, token, element, negative, at, end)
    lexer.next()
    return value


def _resource(parser: AttributeParser, type: Type | None) -> Attribute:
    lexer = parser.lexer
    start = lexer.start
    lexer.next()
    if lexer.tok != "<":
        lexer.wrong("expected '<' after 'dense_resource'")
    lexer.move(lexer.balanced())
    text = parser.aliases.verbatim(start)
    if type is None:
        at = lexer.start
        lexer.expect(":")
        type = parser.type()
        if not isinstance(type, TensorType | VectorType):
            lexer.fail_plainly("`dense_resource` expected a shaped type", at)
    return VerbatimAttr(f"{text} : {type_text(type)}", parser.resources)


# --------------------------------------------------------------------------- other attributes


def _as_text(parser: AttributeParser, type: Type | None) -> Attribute:
    """Read an attribute `word<…>` and an optional `: type`, and return it as text."""
    lexer = parser.lexer
    start, word = lexer.start, lexer.next()
    if word == "distinct" and lexer.tok == "[":
        lexer.move(lexer.balanced())
    if lexer.tok != "<":
        lexer.wrong(f"expected '<' after '{word}'")
    lexer.move(lexer.balanced())
    text = parser.aliases.verbatim(start)
    if word in ("sparse", "opaque") and type is None:
        lexer.expect(":")
        type = parser.type()
    if word in ("sparse", "opaque") and type is not None:
        return VerbatimAttr(f"{text} : {type_text(type)}")
    return VerbatimAttr(text)


def _word(value: Attribute) -> Callable[[AttributeParser, Type | None], Attribute]:
    def read(parser: AttributeParser, type: Type | None) -> Attribute:
        parser.lexer.next()
        return value

    return read


TYPES: Final[dict[str, Callable[[AttributeParser], Type]]] = {
    "tensor": _tensor,
    "tuple": _tuple,
    "complex": _complex,
    "vector": _vector,
    "memref": _memref,
}
"""Readers of types, by their first word."""

ATTRIBUTES: Final[dict[str, Callable[[AttributeParser, Type | None], Attribute]]] = {
    "-": _negative,
    "unit": _word(UnitAttr()),
    "true": _word(BoolAttr(True)),
    "false": _word(BoolAttr(False)),
    "dense": _dense,
    "array": _dense_array,
    "dense_resource": _resource,
    **dict.fromkeys(
        ("affine_map", "affine_set", "sparse", "opaque", "strided", "distinct"), _as_text
    ),
}
"""Readers of attributes, by their first word.

The second argument is the type of a number without `: type`.
"""
