"""Syntax tree of MLIR: operations with attributes and regions of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.ir import FunctionType, Type
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.lexer import plain_name
from hloscope.support.lazy import pattern
from hloscope.support.limits import Nested
from hloscope.support.source import Source, Span
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# Syntax tree of MLIR: operations with operands, attributes and regions of blocks.
#
# It has what the text or bytecode has: an op may be unknown or invalid. The program graph of
# `hloscope.ir` is made from the tree, and the tree is made from the graph for printing. Nodes
# compare by identity, and do not change after their reader or builder has returned them.


_type_of: Final = attrgetter("type")
NO_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}


class Value:
    """A result of an operation, or an argument of a block.

    Attributes:
        type: Type of the value.
        owner: The operation or block that defines it; `None` for a value that is used but not yet
            defined.
        index: Index among the results or arguments of the owner.
        name: Name in the source without `%`; if results of one op share it (`%0:2`), `index`
            distinguishes them. Empty if the source has none.
        location: Location of a block argument; a result has the location of its operation.
        at: Offset of the name of a block argument in the source, or -1.
    """

    __slots__ = ("at", "index", "location", "name", "owner", "type")

    def __init__(
        self,
        type: Type,
        owner: Operation | Block | None = None,
        index: int = 0,
        name: str = "",
        location: Location = UNKNOWN,
        at: int = -1,
    ) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self.location = location
        self.at = at

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"


class Operation:
    """One operation.

    Attributes:
        name: Name with the dialect: `stablehlo.add`.
        operands: Operands, in order.
        results: Results, in order.
        properties: Inherent attributes of a registered op, or those in `<{…}>`, by name.
        attributes: Other (discardable) attributes, in the order of the text.
        regions: Regions, in order.
        successors: Successor blocks of a terminator; their arguments are among the operands.
        successor_operands: Number of operands, from the end, that each successor receives.
        location: Location as given in the text.
        source: The text that has the op, or `None`.
        start: Offset of the name in the source.
        end: Offset of the end of the name.
        shared_key: An object that ops share if the reader found them to be equal, regions included,
            apart from names of values and positions. `None` if the reader did not compare.
    """

    __slots__ = (
        "attributes",
        "end",
        "location",
        "name",
        "operands",
        "parent",
        "properties",
        "regions",
        "results",
        "shared_key",
        "source",
        "start",
        "successor_operands",
        "successors",
    )

    def __init__(
        self,
        name: str,
        operands: tuple[Value, ...] = (),
        results: tuple[Value, ...] = (),
        properties: Mapping[str, Attribute] = NO_ATTRIBUTES,
        attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
        successors: tuple[Block, ...] = (),
        successor_operands: tuple[int, ...] = (),
        location: Location = UNKNOWN,
        source: Source | None = None,
        start: int = 0,
        end: int = 0,
    ) -> None:
        self.name = name
        self.operands = operands
        self.results = results
        self.properties = properties
        self.attributes = attributes
        self.regions = regions
        self.successors = successors
        self.successor_operands = successor_operands
        self.location = location
        self.source = source
        self.start = start
        self.end = end
        self.parent: Block | None = None
        self.shared_key: object | None = None
        for region in regions:
            region.parent = self

    @property
    def result(self) -> Value:
        """The only result of the op.

        Raises `ValueError` if the op has no or several results.
        """
        (value,) = self.results
        return value

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the op's regions."""
        return [block for region in self.regions for block in region.blocks]

    @property
    def inside(self) -> list[Operation]:
        """The operations directly in the op's regions.

        Operations nested in those are not included.
        """
        return [inner for region in self.regions for block in region.blocks for inner in block]

    @property
    def operand_types(self) -> list[Type]:
        """The types of the operands."""
        return [value.type for value in self.operands]

    @property
    def result_types(self) -> list[Type]:
        """The types of the results."""
        return [value.type for value in self.results]

    def walk(self) -> Iterator[Operation]:
        """Yield the op and all nested ones in program order, each before those inside it."""
        return nested([self], lambda operation: operation.inside if operation.regions else ())

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region contains this one; `None` if there is none."""
        return None if self.parent is None else self.parent.parent_op

    @property
    def span(self) -> Span | None:
        """Position of the op's name in the source; `None` without a source."""
        return None if self.source is None else Span(self.source, self.start, self.end)

    def get(self, name: str) -> Attribute | None:
        """Return the property or attribute named `name`; `None` if the op has neither."""
        found = self.properties.get(name)
        return self.attributes.get(name) if found is None else found

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self.operands)} operands>"


UNPARSED_TEXT: Final = "hloscope.text"
"""Name of the property with the whole text of an op, from the op's name on.

Only ops of unknown dialects have it. No attribute of an op can have this name.
"""


class SourceModule(Operation):
    """The `builtin.module` of a text; `resources` is the text of its `{-# … #-}`."""

    __slots__ = ("resources",)

    resources: str


class Block:
    """A list of operations in order, with arguments; `label` is its name in the source."""

    __slots__ = ("arguments", "label", "operations", "parent")

    def __init__(
        self,
        arguments: tuple[Value, ...] = (),
        operations: tuple[Operation, ...] = (),
        label: str = "",
    ) -> None:
        self.arguments = arguments
        self.operations = operations
        self.label = label
        self.parent: Region | None = None
        for operation in operations:
            operation.parent = self

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region contains the block; `None` if there is none."""
        return None if self.parent is None else self.parent.parent


class Region:
    """A list of blocks inside an op; the first block is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks
        self.parent: Operation | None = None
        for block in blocks:
            block.parent = self

    @property
    def block(self) -> Block:
        """The only block of the region.

        Raises `ValueError` if the region has no or several blocks.
        """
        (block,) = self.blocks
        return block


def function_type(function: Operation) -> FunctionType | None:
    """Return the declared type of the op `function`; `None` if it declares none."""
    found = function.get("function_type")
    known = found.type if isinstance(found, TypeAttr) else None
    return known if isinstance(known, FunctionType) else None


def equality_key(operation: Operation) -> object:
    """Return a key of an op's name, properties, attributes and types; equal keys mean equal ops.

    Parts are compared by identity: the tree keeps them alive, and readers share equal ones.
    """
    if operation.shared_key is not None:
        return operation.shared_key
    operands = operation.operands
    return (
        operation.name,
        id(operation.properties),
        id(operation.attributes),
        len(operands),
        *map(id, map(_type_of, operands)),
        *map(id, map(_type_of, operation.results)),
    )


def illegal(name: str) -> str:
    """Return MLIR's message for an op `name` that a conversion must replace but cannot.

    >>> illegal("vhlo.tan_v2")
    "failed to legalize operation 'vhlo.tan_v2' that was explicitly marked illegal"
    """
    return f"failed to legalize operation '{name}' that was explicitly marked illegal"


# --------------------------------------------------------------------------------------------------
# Data of `dense_resource<name>` attributes, at the end of a text.
#
# The form is `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`: four bytes of alignment,
# little-endian, then the elements in row-major order, little-endian.
#
# Source: MLIR, `AsmParser`'s `parseResourceFileMetadata` and `AsmResourceBlob`.


_NAME: Final = r'([A-Za-z_][\w$.]*|"(?:[^"\\]|\\.)*")'
_ENTRY: Final = pattern(rf'\s*{_NAME}\s*:\s*"0x((?:[0-9A-Fa-f]{{2}})*)"\s*(,?)')
_GROUP: Final = pattern(rf"\s*{_NAME}\s*:\s*\{{")
_SECTION: Final = pattern(r"(?<![\w$.])dialect_resources\s*:\s*\{")
_CLOSE: Final = pattern(r"\s*\}\s*,?")
_USE: Final = pattern(rf"dense_resource<\s*{_NAME}\s*>")


class ResourceTable:
    """The resources of one text: named data at its end, which `dense_resource<name>` refers to.

    They are parsed when the data of one is first needed.

    Attributes:
        text: The section `{-# … #-}`; empty if the text has none.
    """

    __slots__ = ("_found", "text")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._found: dict[str, tuple[int, bytes]] | None = None

    def blob(self, attribute: str) -> bytes | None:
        """Return the data of the resource that an attribute names; `None` if the text lacks it.

        `attribute` is the text `dense_resource<name> : type`.

        Raises:
            UnsupportedError: The resources are damaged.
        """
        use = _USE.match(attribute)
        if use is None:
            return None
        if self._found is None:
            self._found = resources_of(self.text)
        found = self._found.get(plain_name(use[1]))
        return None if found is None else found[1]


def resources_of(text: str) -> dict[str, tuple[int, bytes]]:
    r"""Return the alignment in bytes and the data of each resource, by name.

    `text` is a section `{-# … #-}`; only resources of the dialect `builtin` are included.

    >>> resources_of('{-# dialect_resources: { builtin: { a: "0x04000000FF" } } #-}')
    {'a': (4, b'\xff')}

    Raises:
        UnsupportedError: A resource is damaged.
    """
    found: dict[str, tuple[int, bytes]] = {}
    section = _SECTION.search(text)
    if section is None:
        return found
    at = section.end()
    while group := _GROUP.match(text, at):
        at = group.end()
        while entry := _ENTRY.match(text, at):
            at = entry.end()
            if group[1] == "builtin":
                found[plain_name(entry[1])] = _value(entry[1], bytes.fromhex(entry[2]))
        at = _after(text, at)
    return found


def _after(text: str, at: int) -> int:
    """Return the offset after the group in brackets at offset `at`, and after a comma behind it."""
    found = _CLOSE.match(text, at)
    if found is None:
        raise UnsupportedError("the resources of a module are not understood")
    return found.end()


def _value(name: str, data: bytes) -> tuple[int, bytes]:
    alignment = int.from_bytes(data[:4], "little")
    if len(data) < 4 or alignment & (alignment - 1):
        raise UnsupportedError(f"the resource {name} has no alignment")
    return alignment, data[4:]


# --------------------------------------------------------------------------------------------------
# MLIR attributes as values: immutable, hashed, compared by value.
#
# `mlir.text.parser` reads their text and `mlir.text.printer` writes it; a dialect has its own
# structures and enums.


class UnitAttr(Struct, frozen=True):
    """The attribute `unit`, which has no value but its presence."""


class BoolAttr(Struct, frozen=True):
    """A boolean, an attribute of type `i1`."""

    value: bool


class IntegerAttr(Struct, frozen=True):
    """An integer, `value : type`, of an integer type or `index`."""

    value: int
    type: Type


class FloatAttr(Struct, frozen=True):
    """A floating-point number as the bits of its type, so that NaNs and signed zeros are exact."""

    bits: int
    type: Type


class StringAttr(Struct, frozen=True):
    """A string, as bytes; `type` is `None` for nearly all strings."""

    value: bytes
    type: Type | None = None

    @classmethod
    def of(cls, text: str) -> StringAttr:
        """Return the attribute of a Python string; surrogates stand for bytes that are not UTF-8.

        >>> StringAttr.of("main").value
        b'main'
        """
        return cls(text.encode("utf-8", "surrogateescape"))

    @property
    def text(self) -> str:
        """The string as a Python string; bytes that are not UTF-8 become surrogates."""
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
    """The attribute `array<i64: 1, 2>`; a boolean is 0 or 1, a float is its bits."""

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
    """An attribute whose value is a type."""

    type: Type


class EnumAttr(Struct, frozen=True):
    """A value of an enum, `#stablehlo<comparison_direction EQ>`: dialect, enum, value."""

    dialect: str
    name: str
    value: str


class StructAttr(Nested, Struct, frozen=True):
    """A structure, `#stablehlo.gather<offset_dims = [1], …>`: dialect, mnemonic, stored fields.

    A field's value is an attribute, an integer, or a tuple of integers.
    """

    dialect: str
    name: str
    fields: tuple[tuple[str, Attribute | int | tuple[int, ...]], ...]

    def get(self, name: str) -> Attribute | int | tuple[int, ...] | None:
        """Return the value of the field named `name`; `None` if it is omitted."""
        return dict(self.fields).get(name)


class VerbatimAttr(Struct, frozen=True):
    """Any other attribute, as text: `#dialect.name<…>`, `affine_map<…>`, `dense_resource<…> : …`.

    For a `dense_resource`, `resources` are those of the text that contains it.
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
