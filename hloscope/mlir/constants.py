"""Values of attributes as Python integers without numpy, and literals of constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Final, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import (
    FORMATS,
    MOST_WRITTEN,
    Dims,
    ElementType,
    Literal,
    TensorType,
    Type,
    Value,
    decode,
    format_float,
)
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
from hloscope.mlir.literals import data_size, dense_text, elements, to_array
from hloscope.mlir.text.lexer import bare_or_quoted, quoted, symbol
from hloscope.mlir.types import F64, I64, type_text
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Values of attributes as Python integers without numpy, and literals of constants.


MOST_SPLAT: Final = 1 << 16
"""Maximum number of elements to which a splat is expanded; a splat with more stays one element."""

_NUMBER: Final = pattern(r"-?0x[0-9A-Fa-f]+|-?\d+|true|false")
_WORDS: Final = {"true": 1, "false": 0}


class MlirLiteral(Literal):
    """The value attribute of an MLIR constant, as a literal of the program graph."""

    __slots__ = ()

    def array(self, type: Type) -> Value:
        """Return the elements as an array of the type of the constant."""
        dense = self._dense(type)
        return super().array(type) if dense is None else to_array(dense)

    def _dense(self, type: Type) -> DenseAttr | None:
        """Return the elements as a `dense<…>` attribute, from the text or from a resource.

        The result is `None` if the program has neither.

        Raises:
            VerifyError: The resource has more or fewer bytes than the type.
            UnsupportedError: The resources of the text are damaged.
        """
        written = self.written
        if isinstance(written, DenseAttr):
            return written
        if not isinstance(written, VerbatimAttr) or not isinstance(type, TensorType):
            return None
        blob = _blob(written)
        if blob is None:
            return None
        # A `DenseAttr` may have the bytes of one element for all; a resource has those of all
        # elements.
        need = data_size(type)
        if len(blob) != need:
            name = written.text.partition(" : ")[0]
            raise VerifyError(f"`{name}` has {len(blob):,} bytes of data, its type {need:,}")
        return DenseAttr(blob, type)

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        try:
            literal = self._dense(type)
            if literal is None or len(literal.literal) > MOST_WRITTEN:
                return None
            return dense_values(literal)
        except (ValueError, VerifyError, UnsupportedError):
            return None

    def __eq__(self, other: object) -> bool:
        if self is other or not super().__eq__(other):
            return self is other
        assert isinstance(other, MlirLiteral)
        left, right = self.written, other.written
        if not isinstance(left, VerbatimAttr) or left.resources is right.resources:
            return True
        return _blob(left) == _blob(right)

    __hash__ = Literal.__hash__

    def __str__(self) -> str:
        match self.written:
            case DenseAttr(str(literal), type):
                return f"dense<{literal}> : {type_text(type)}"
            case _:
                return attribute_text(self.written)


def _blob(attribute: VerbatimAttr) -> bytes | None:
    """Return the data of the resource that an attribute names; `None` if the text lacks it."""
    table = attribute.resources
    return None if table is None else table.blob(attribute.text)


_COMPLEX: Final = pattern(r"#complex\.number<:\w+ ([^,]+), ([^,>]+)>( : .*)?")


def python_value(attribute: Attribute) -> Any:
    """Return the Python value of an attribute.

    Symbols become their names, `dense<…>` becomes a `Literal`, arrays become lists.

    >>> python_value(DictAttr((("a", ArrayAttr((BoolAttr(True), UnitAttr()))),)))
    {'a': [True, True]}
    """
    match attribute:
        case DictAttr(entries):
            return {name: python_value(value) for name, value in entries}
        case ArrayAttr(elements):
            return [python_value(e) for e in elements]
        case DenseArrayAttr(values=values):
            return list(values)
        case IntegerAttr(value) | BoolAttr(value):
            return value
        case FloatAttr(bits, ElementType(name)):
            return decode(bits, name)
        case StringAttr(value):
            return value.decode("utf-8", "replace")
        case SymbolAttr(root, nested):
            return "::".join((root, *nested))
        case UnitAttr():
            return True
        case EnumAttr(_, _, word):
            return word
        case DenseAttr(type=type):
            return MlirLiteral(attribute, type)
        case VerbatimAttr(text) if found := _COMPLEX.fullmatch(text):
            return complex(float(found[1]), float(found[2]))
        case _:
            return attribute


def dense_values(attribute: DenseAttr) -> tuple[int, ...]:
    """Return the integers of `dense<…>` in row-major order; for a splat, one integer.

    Booleans are 0 and 1.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> dense_values(DenseAttr("[[1, 2], [3, 4]]", TensorType(ELEMENT_TYPES["s64"], (2, 2))))
    (1, 2, 3, 4)
    >>> dense_values(DenseAttr("[255, 0x80, -1]", TensorType(ELEMENT_TYPES["s8"], (3,))))
    (-1, -128, -1)

    Raises:
        ValueError: The elements are not integers, or too few.
    """
    type = attribute.type
    element = getattr(type, "element", None)
    if not isinstance(element, ElementType) or element.kind not in ("pred", "signed", "unsigned"):
        raise ValueError("integers")
    literal = attribute.literal
    signed = element.kind == "signed"
    if isinstance(literal, str) and '"' not in literal:
        values = [_WORDS[w] if w in _WORDS else int(w, 0) for w in _NUMBER.findall(literal)]
        end = 1 << element.bits  # a signed number may also be written as its unsigned value
        return tuple([v - end if signed and 2 * v >= end else v for v in values])
    found = elements(attribute)
    parts = [found.raw[at : at + found.width] for at in range(0, len(found.raw), found.width)]
    return tuple([int.from_bytes(part, "little", signed=signed) for part in parts])


def dense_sizes(attribute: DenseAttr) -> Dims:
    """Return the sizes of the type of a `dense<…>` attribute.

    Raises:
        ValueError: A size is unknown.
    """
    sizes = getattr(attribute.type, "sizes", None)
    if sizes is None or None in sizes:
        raise ValueError("sizes that are known")
    return tuple(sizes)


def expanded(attribute: DenseAttr) -> tuple[int, ...]:
    """Return the integers of `dense<…>`, one for each element; those of a splat are repeated.

    A splat of more than `MOST_SPLAT` elements gives one integer.
    """
    values, number = dense_values(attribute), prod(dense_sizes(attribute))
    if len(values) == 1 and number != 1 and number <= MOST_SPLAT:
        return values * number
    return values


# --------------------------------------------------------------------------------------------------
# Attributes as MLIR prints them.
#
# Source: MLIR `AsmPrinter.cpp` (`printAttributeImpl`).


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

    `type_of` returns the text of a type, `inner` that of a nested attribute. Without `typed`, the
    `: type` after the value is omitted.
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
    """Return the text of a dictionary entry: `name = value`, or `name` for a unit attribute.

    `inner` returns the text of an attribute.
    """
    name = bare_or_quoted(name)
    return name if isinstance(value, UnitAttr) else f"{name} = {inner(value)}"


def float_text(bits: int, type: Type) -> str:
    """Return a float of type `type`, given by its bits, as MLIR prints it."""
    if isinstance(type, ElementType) and type.name in FORMATS:
        return format_float(bits, type.name)
    return f"0x{bits:X}"


def _in_array(attribute: Attribute, inner: AttributeText) -> str:
    """Return the text of an attribute that is an element of `[…]`.

    MLIR omits the types `i64` and `f64` of such elements. `inner` returns the text of an attribute
    with its type.
    """
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
