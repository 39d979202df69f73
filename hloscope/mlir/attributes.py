"""MLIR attributes as values: immutable, hashed, compared by value.

`mlir.text.parser` reads their text and `mlir.text.printer` writes it; a dialect has its own
structures and enums.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hloscope.ir import Type
from hloscope.limits import Nested
from hloscope.mlir.resources import ResourceTable


class UnitAttr(Struct, frozen=True):
    """The attribute `unit`, whose presence is its value."""


class BoolAttr(Struct, frozen=True):
    """A Boolean attribute of type `i1`."""

    value: bool


class IntegerAttr(Struct, frozen=True):
    """An integer, `value : type`, of an integer type or `index`."""

    value: int
    type: Type


class FloatAttr(Struct, frozen=True):
    """A floating-point number as bits of its type, so that NaNs and signed zeros are exact."""

    bits: int
    type: Type


class StringAttr(Struct, frozen=True):
    """A string, as bytes; `type` is `None` for nearly all."""

    value: bytes
    type: Type | None = None

    @classmethod
    def of(cls, text: str) -> StringAttr:
        """Return the attribute of a text; surrogates stand for bytes that are not UTF-8.

        >>> StringAttr.of("main").value
        b'main'
        """
        return cls(text.encode("utf-8", "surrogateescape"))

    @property
    def text(self) -> str:
        """The string as text; bytes that are not UTF-8 become surrogates."""
        return self.value.decode("utf-8", "surrogateescape")


def string_of(attribute: object) -> str:
    """Return the text of a string attribute; empty for every other value.

    >>> string_of(StringAttr(b"main")), string_of(None)
    ('main', '')
    """
    return attribute.text if isinstance(attribute, StringAttr) else ""


class ArrayAttr(Nested, Struct, frozen=True):
    """An array of attributes, `[a, b]`."""

    elements: tuple[Attribute, ...]


class DictAttr(Nested, Struct, frozen=True):
    """The dictionary `{a = 1, b}`, sorted by name as in MLIR."""

    entries: tuple[tuple[str, Attribute], ...]


class DenseArrayAttr(Struct, frozen=True):
    """The attribute `array<i64: 1, 2>`; booleans are 0 and 1, floats are bits."""

    element: Type
    values: tuple[int, ...]


class DenseAttr(Struct, frozen=True):
    """The attribute `dense<…> : type`, whose literal is decoded on demand.

    `literal` is the text between the angle brackets. For computed values and bytecode it is raw
    bytes, little-endian and row-major: one element for a splat, and one byte for each `i1`. Long
    data may be a view of the file.
    """

    literal: str | bytes | memoryview
    type: Type


class SymbolAttr(Struct, frozen=True):
    """A reference to a symbol, `@root::@nested`."""

    root: str
    nested: tuple[str, ...] = ()


class TypeAttr(Struct, frozen=True):
    """A type as an attribute."""

    type: Type


class EnumAttr(Struct, frozen=True):
    """A value of an enum, `#stablehlo<comparison_direction EQ>`: dialect, enum, value."""

    dialect: str
    name: str
    value: str


class StructAttr(Nested, Struct, frozen=True):
    """A structure, `#stablehlo.gather<offset_dims = [1], …>`: dialect, mnemonic, given fields.

    A field's value is an attribute, an integer, or a tuple of integers.
    """

    dialect: str
    name: str
    fields: tuple[tuple[str, Attribute | int | tuple[int, ...]], ...]

    def get(self, name: str) -> Attribute | int | tuple[int, ...] | None:
        """Return the field of that name; `None` if it is omitted."""
        return dict(self.fields).get(name)


class VerbatimAttr(Struct, frozen=True):
    """Any other attribute, as text: `#dialect.name<…>`, `affine_map<…>`, `dense_resource<…> : …`.

    `resources` are those of the text that contains a `dense_resource`.
    """

    text: str
    resources: ResourceTable | None = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not VerbatimAttr:
            return NotImplemented
        return self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"VerbatimAttr({self.text!r})"


Attribute: TypeAlias = (
    UnitAttr
    | BoolAttr
    | IntegerAttr
    | FloatAttr
    | StringAttr
    | ArrayAttr
    | DictAttr
    | DenseArrayAttr
    | DenseAttr
    | SymbolAttr
    | TypeAttr
    | EnumAttr
    | StructAttr
    | VerbatimAttr
)
