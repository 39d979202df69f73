"""Attributes as MLIR prints them.

Source: MLIR `AsmPrinter.cpp` (`printAttributeImpl`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from hloscope.ir import FORMATS, ElementType, Type, format_float
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
from hloscope.mlir.literals import dense_text
from hloscope.mlir.text.escape import bare_or_quoted, quoted, symbol
from hloscope.mlir.types import F64, I64, type_text

TypeText: TypeAlias = Callable[[Type], str]
AttributeText: TypeAlias = Callable[[Attribute], str]

_TYPED: Final = (IntegerAttr, FloatAttr, StringAttr, DenseAttr)
_TRUTHS: Final = ("false", "true")


def attribute_text(attribute: Attribute, *, type: bool = True) -> str:
    """Return an attribute as text, with its `: type` unless `type` is false.

    >>> from hloscope.mlir.types import I32
    >>> attribute_text(DictAttr((("a", IntegerAttr(1, I32)), ("b", UnitAttr()))))
    '{a = 1 : i32, b}'
    """
    return write(attribute, type_text, attribute_text, typed=type)


def write(
    attribute: Attribute, type_of: TypeText, inner: AttributeText, *, typed: bool = True
) -> str:
    """Return an attribute as text.

    `type_of` and `inner` write the types and the attributes that are nested in it. Without `typed`,
    its own `: type` is omitted.
    """
    if isinstance(attribute, _TYPED):
        text = _untyped(attribute)
        if not typed or attribute.type is None:
            return text
        return f"{text} : {type_of(attribute.type)}"
    match attribute:
        case DenseArrayAttr(element, values):
            texts = ", ".join(_array_texts(element, values))
            kind = f"{type_of(element)}{': ' if texts else ''}" if typed else ""
            return f"array<{kind}{texts}>"
        case ArrayAttr(parts):
            return f"[{', '.join(_in_array(part, inner) for part in parts)}]"
        case DictAttr(entries):
            return f"{{{', '.join(entry(name, value, inner) for name, value in entries)}}}"
        case TypeAttr(kind):
            return type_of(kind)
        case StructAttr(dialect, name, fields):
            texts = ", ".join(f"{key} = {_field(value, inner)}" for key, value in fields)
            return f"#{dialect}.{name}<{texts}>"
        case _:
            return _simple(attribute)


def _untyped(attribute: IntegerAttr | FloatAttr | StringAttr | DenseAttr) -> str:
    """Return the text of an attribute that has a type, without that type."""
    match attribute:
        case IntegerAttr(value):
            return str(value)
        case FloatAttr(bits, kind):
            return float_text(bits, kind)
        case StringAttr(text):
            return quoted(text)
        case DenseAttr():
            return dense_text(attribute)


def _simple(attribute: UnitAttr | BoolAttr | SymbolAttr | EnumAttr | VerbatimAttr) -> str:
    """Return the text of an attribute without nested types or attributes."""
    match attribute:
        case UnitAttr():
            return "unit"
        case BoolAttr(value):
            return _TRUTHS[value]
        case SymbolAttr(root, nested):
            return "::".join(map(symbol, (root, *nested)))
        case EnumAttr(dialect, name, text):
            return f"#{dialect}<{name} {text}>"
        case VerbatimAttr(text):
            return text


def entry(name: str, value: Attribute, inner: AttributeText) -> str:
    """Return a dictionary entry as `name = value`; the name alone for a unit attribute."""
    name = bare_or_quoted(name)
    return name if isinstance(value, UnitAttr) else f"{name} = {inner(value)}"


def float_text(bits: int, type: Type) -> str:
    """Return a float, given by its bits, as MLIR prints it."""
    if isinstance(type, ElementType) and type.name in FORMATS:
        return format_float(bits, type.name)
    return f"0x{bits:X}"


def _in_array(attribute: Attribute, inner: AttributeText) -> str:
    """Return an element of an array as text; the types `i64` and `f64` are implied there."""
    match attribute:
        case IntegerAttr(value, kind) if kind == I64:
            return str(value)
        case FloatAttr(bits, kind) if kind == F64:
            text = float_text(bits, kind)
            return inner(attribute) if text.startswith("0x") else text
        case _:
            return inner(attribute)


def _array_texts(element: Type, values: Iterable[int]) -> Iterable[str]:
    if isinstance(element, ElementType):
        if element.name in FORMATS:
            return (format_float(value, element.name) for value in values)
        if element.kind == "pred":
            return (_TRUTHS[bool(value)] for value in values)
    return map(str, values)


def _field(value: Attribute | int | tuple[int, ...], inner: AttributeText) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return inner(value)
