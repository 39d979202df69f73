"""Choice of the bytecode row and the fields of attributes, types and locations.

A value in an op of VHLO has VHLO's encoding; elsewhere it has the builtin one. A value that VHLO
has no row for has its own dialect's encoding inside VHLO too, as in mixed artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.bytecode.codes import ATTRIBUTES, TYPES
from hloscope.bytecode.locations import LOCATIONS
from hloscope.bytecode.memref_ways import memref_way
from hloscope.bytecode.resources import is_resource
from hloscope.bytecode.values import WAYS
from hloscope.dialects import sdy_struct
from hloscope.errors import UnsupportedError
from hloscope.ir import (
    BufferType,
    DialectType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from hloscope.lazy import pattern
from hloscope.mlir import (
    ArrayAttr,
    BoolAttr,
    CallSiteLoc,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FileLoc,
    FloatAttr,
    FusedLoc,
    IntegerAttr,
    NameLoc,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
    attribute_text,
    element_text,
    type_text,
)
from hloscope.vhlo import ATTRIBUTES as VHLO_ATTRIBUTES, TYPES as VHLO_TYPES, CodeRow

TEXT: Final = CodeRow(-1, "text", (0, 0, 0), (), ("text",))
"""The row of a value that is written as text."""


class Outer(Struct, frozen=True):
    """A dictionary of an op of VHLO: VHLO's values in a builtin dictionary."""

    entries: tuple[tuple[str, Any], ...]


class Chosen(NamedTuple):
    """The encoding of a value: its dialect, table row and fields."""

    dialect: str
    row: CodeRow
    fields: Sequence[Any]


_CLASSES: Final[dict[type, str]] = {
    ArrayAttr: "array",
    BoolAttr: "bool",
    DictAttr: "dict",
    FloatAttr: "float",
    IntegerAttr: "integer",
    StringAttr: "string",
    DenseAttr: "dense",
    DenseArrayAttr: "dense_array",
    TypeAttr: "type",
    UnitAttr: "unit",
    SymbolAttr: "symbol",
    FunctionType: "function",
    FutureType: "future",
    TensorType: "tensor",
    TokenType: "token",
    TupleType: "tuple",
    UnrankedTensorType: "unranked",
    BufferType: "buffer",
    VectorType: "vector",
    NameLoc: "name",
    CallSiteLoc: "call_site",
    FusedLoc: "fused",
    FileLoc: "file",
    LOCATIONS[0]: "unknown",
    Outer: "outer",
}
"""The encoding of each class that has only one."""


def _key(row: CodeRow) -> str:
    return " ".join(row.value) if row.value != ("sdy",) else f"sdy {row.name}"


def _rows(rows: Sequence[CodeRow], dialect: str) -> dict[str, tuple[str, CodeRow]]:
    return {_key(row): (dialect, row) for row in rows}


_VHLO: Final = _rows((*VHLO_ATTRIBUTES, *VHLO_TYPES), "vhlo")
_BUILTIN: Final = {
    key: found
    for tables in (TYPES, ATTRIBUTES)
    for dialect, rows in tables.items()
    for key, found in _rows(rows, dialect).items()
}
_OTHER_NAMES: Final = {
    "bool": "integer",
    "buffer": "memref",
    "dense": "dense_builtin",
    "axis_ref": "named_axis_ref",
    "struct mesh_axis": "named_axis",
    "mesh_axes": "mesh_axes_list",
}
"""Encodings of other dialects, by VHLO's name of the encoding."""
_STRUCTS: Final = {
    "result_accuracy": "accuracy",
    "axis_ref": "axis_ref",
    "mesh": "mesh",
    "replica_group_mesh_axes": "mesh_axes",
    "dot_algorithm": "algorithm",
    "gather": "free gather",
    "scatter": "free scatter",
    "dot": "free dot",
}
"""Encodings of structures that are not named `struct` and their name."""


def choose(value: Any, *, vhlo: bool) -> Chosen:
    """Choose the encoding of an attribute, type or location.

    `vhlo` tells whether the value is inside an op of VHLO.

    Raises:
        UnsupportedError: The value has no form in bytecode.
    """
    key = _key_of(value)
    if key == "outer":
        return Chosen("builtin", _BUILTIN["dict"][1], WAYS["dict"].fields("", value))
    found = _VHLO.get(key) if vhlo else None
    if found is None:
        other = _builtin_key(key, value)
        found = _BUILTIN.get(other)
        if found is None:
            return _as_text(value)
    dialect, row = found
    if dialect == "sdy" and isinstance(value, VerbatimAttr):
        value = sdy_struct(value.text)
    argument = row.value[1] if len(row.value) > 1 else row.name
    return Chosen(dialect, row, WAYS[row.value[0]].fields(argument, value))


def in_dictionary(entries: tuple[tuple[str, Any], ...], *, vhlo: bool) -> DictAttr | Outer:
    """Return the dictionary of the attributes of an op."""
    if vhlo and any(has_vhlo(value) for _, value in entries):
        return Outer(entries)
    return DictAttr(entries)


def has_vhlo(value: Any) -> bool:
    """Does VHLO have a row for an attribute or type?

    The parts of the value do not count.
    """
    return _key_of(value) in _VHLO


def _key_of(value: Any) -> str:
    kind = type(value)
    special = _SPECIAL.get(kind)
    found = special(value) if special is not None else ""
    if found:
        return found
    if isinstance(value, ElementType):
        return _element_key(value)
    return _CLASSES.get(kind, "")


def _struct_key(value: StructAttr) -> str:
    if value.dialect == "sdy":
        return f"sdy {value.name}"
    return _STRUCTS.get(value.name, f"struct {value.name}")


def _verbatim_key(value: VerbatimAttr) -> str:
    if is_resource(value):
        return "resource"
    return f"sdy {sdy_struct(value.text).name}" if value.text.startswith("#sdy") else ""


_SPECIAL: Final[dict[type, Callable[[Any], str]]] = {
    TensorType: lambda value: "encoded" if value.encoding or value.has_bounds else "",
    EnumAttr: lambda value: f"{'chlo_' * (value.dialect == 'chlo')}enum {value.name}",
    StructAttr: _struct_key,
    FileLoc: lambda value: "file_range" if value.end_line >= 0 else "",
    FusedLoc: lambda value: "fused_metadata" if value.metadata else "",
    SymbolAttr: lambda value: "nested_symbol" if value.nested else "",
    StringAttr: lambda value: "typed_string" if value.type is not None else "",
    VerbatimAttr: _verbatim_key,
    DialectType: lambda value: (
        "witness" if value.text == "!shape.witness" else memref_way(value.text)
    ),
    VectorType: lambda value: "scalable" if any(value.scalable) else "",
}
"""Encodings of classes with several; an empty name means the one in `_CLASSES`."""


def _element_key(type: ElementType) -> str:
    if isinstance(type, QuantizedType):
        return "blocks" if type.by_blocks else "quantized_axis" if type.axes else "quantized"
    return "complex" if type.kind == "complex" else element_text(type)


def _builtin_key(key: str, value: Any) -> str:
    if isinstance(value, ElementType) and key not in _BUILTIN and value.kind in _INTEGERS:
        return "integer_type"
    return _OTHER_NAMES.get(key, key)


_INTEGERS: Final = ("pred", "signed", "unsigned")


_WITHOUT_CODE: Final = ("affine_map<", "affine_set<", "strided<")
_UNPRINTED_SPACES: Final = pattern(
    r"\(\s|\[\s|\s[\]),]|\s>(?!=)|\s\s|,\S|\S->|->\S|\S[+*]|[+*]\S|[^\s>]>=|\S==|[>=]=\S|<\s"
    r"|[\t\n]"
)
"""Spaces that MLIR's printer never writes.

Text with one of them would not equal MLIR's bytes.
"""


def _as_text(value: Any) -> Chosen:
    """Return the encoding as text, for values without a code in any dialect.

    Raises:
        UnsupportedError: MLIR's text of the value is not known.
    """
    if isinstance(value, VerbatimAttr | EnumAttr | StructAttr):
        text = attribute_text(value)
        plain = text.startswith(_WITHOUT_CODE) and not _UNPRINTED_SPACES.search(text)
        if text[0] != "#" and not plain:
            raise UnsupportedError(f"`{text[:100]}` cannot be written as bytecode")
    elif isinstance(value, Type):
        text = type_text(value)
    else:
        raise UnsupportedError(f"{value} cannot be written as bytecode")
    head = text.lstrip("#!")
    dialect = "builtin"
    if text[0] in "#!":
        dialect = head[: next(i for i, c in enumerate(head + "<") if c in ".<")]
    return Chosen(dialect, TEXT, (text,))
