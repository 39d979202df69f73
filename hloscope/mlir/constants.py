"""Values of attributes as Python integers without numpy, and literals of constants."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import MOST_WRITTEN, Dims, ElementType, Literal, TensorType, Type, Value, decode
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
    SymbolAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.mlir.literals import data_size, elements, to_array
from hloscope.mlir.text.attribute_text import attribute_text
from hloscope.mlir.types import type_text
from hloscope.support.lazy import pattern

MOST_SPLAT: Final = 1 << 16
"""Maximum number of elements of a splat that is expanded; a larger one stays one element."""

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
        """Return the elements, from the text or from a resource; `None` if the program has neither.

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


def plain(attribute: Attribute) -> Any:
    """Return the Python value of an attribute: symbols become names, elements become a `Literal`.

    >>> plain(DictAttr((("a", ArrayAttr((BoolAttr(True), UnitAttr()))),)))
    {'a': [True, True]}
    """
    match attribute:
        case DictAttr(entries):
            return {name: plain(value) for name, value in entries}
        case ArrayAttr(elements):
            return [plain(e) for e in elements]
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
    """Return the integers of `dense<…>`, those of a splat repeated for all elements.

    A splat of more than `MOST_SPLAT` elements stays one integer.
    """
    values, number = dense_values(attribute), prod(dense_sizes(attribute))
    if len(values) == 1 and number != 1 and number <= MOST_SPLAT:
        return values * number
    return values
