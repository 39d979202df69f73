"""MLIR attributes as values: immutable, hashed, compared by value.

Their text is read by `mlir.parser` and written by `mlir.printer`; structures and enums of a
dialect by that dialect.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hloscope.ir import Type
from hloscope.limits import Nested
from hloscope.mlir.resources import ResourceTable


class UnitAttr(Struct, frozen=True):
    """`unit`: it is there."""


class BoolAttr(Struct, frozen=True):
    """`true` or `false`, an `i1`."""

    value: bool


class IntegerAttr(Struct, frozen=True):
    """`value : type`; the type is an integer type or `index`."""

    value: int
    type: Type


class FloatAttr(Struct, frozen=True):
    """A floating-point number by the bits of its type, so that NaNs and zeros keep theirs."""

    bits: int
    type: Type


class StringAttr(Struct, frozen=True):
    """A string, as bytes; `type` is `none` for nearly all."""

    value: bytes
    type: Type | None = None

    @classmethod
    def of(cls, text: str) -> StringAttr:
        """The string of a text, in which surrogates stand for bytes that are not UTF-8.

        >>> StringAttr.of("main").value
        b'main'
        """
        return cls(text.encode("utf-8", "surrogateescape"))

    @property
    def text(self) -> str:
        """The string; bytes that are not UTF-8 become surrogates."""
        return self.value.decode("utf-8", "surrogateescape")


def string_of(attribute: object) -> str:
    """The text of a string attribute; empty for any other, and for none.

    >>> string_of(StringAttr(b"main")), string_of(None)
    ('main', '')
    """
    return attribute.text if isinstance(attribute, StringAttr) else ""


class ArrayAttr(Nested, Struct, frozen=True):
    """`[a, b]`."""

    elements: tuple[Attribute, ...]


class DictAttr(Nested, Struct, frozen=True):
    """`{a = 1, b}`, sorted by name as MLIR keeps it."""

    entries: tuple[tuple[str, Attribute], ...]


class DenseArrayAttr(Struct, frozen=True):
    """`array<i64: 1, 2>`; booleans as 0 and 1, floats by their bits."""

    element: Type
    values: tuple[int, ...]


class DenseAttr(Struct, frozen=True):
    """`dense<…> : type`, kept as written between the angle brackets, decoded on demand.

    `literal` is the text, or the raw little-endian row-major bytes (one element for a splat;
    `i1` one byte each) of one that was computed or read from bytecode; many are a view of the file.
    """

    literal: str | bytes | memoryview
    type: Type


class SymbolAttr(Struct, frozen=True):
    """`@root::@nested`."""

    root: str
    nested: tuple[str, ...] = ()


class TypeAttr(Struct, frozen=True):
    """A type as an attribute."""

    type: Type


class EnumAttr(Struct, frozen=True):
    """`#stablehlo<comparison_direction EQ>`: dialect, name of the enum, value."""

    dialect: str
    name: str
    value: str


class StructAttr(Nested, Struct, frozen=True):
    """`#stablehlo.gather<offset_dims = [1], …>`: dialect, mnemonic, fields that are set, in order.

    A field's value is an attribute, an integer, or a tuple of integers.
    """

    dialect: str
    name: str
    fields: tuple[tuple[str, Attribute | int | tuple[int, ...]], ...]

    def get(self, name: str) -> Attribute | int | tuple[int, ...] | None:
        """The field of that name, `None` if it is not set."""
        return dict(self.fields).get(name)


class VerbatimAttr(Struct, frozen=True):
    """Anything else as written: `#dialect.name<…>`, `affine_map<…>`, `dense_resource<…> : …`.

    `resources` are those of the text that a `dense_resource` stands in.
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
