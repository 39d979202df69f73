"""Tables of the encodings of attributes, types and locations, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

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
from hloscope.mlir import (
    UNKNOWN,
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
    parse_attribute,
    type_text,
)
from hloscope.mlir.dialects import sdy_struct
from hloscope.stablehlo.bytecode.attributes import ATTRIBUTE_ENCODINGS, ELEMENT_ENCODINGS
from hloscope.stablehlo.bytecode.image import RESOURCE_ENCODINGS, is_resource
from hloscope.stablehlo.bytecode.types import (
    MEMREF_ENCODINGS,
    TYPE_ENCODINGS,
    Encoding,
    memref_encoding,
    text_of,
)
from hloscope.stablehlo.vhlo import (
    ATTRIBUTES as VHLO_ATTRIBUTES,
    TYPES as VHLO_TYPES,
    CodeRow,
    code_row,
)
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Codes of attributes and types of the other dialects, as `hloscope.stablehlo.vhlo.tables` has
# VHLO's.
#
# The version of a row is 0.0.0, since only VHLO's rows have a first version.


_BUILTIN_ATTRIBUTES: Final = """
    0  Array            0.0.0 | value:attrs | array
    1  Dictionary       0.0.0 | value:pairs | dict
    2  String           0.0.0 | value:string | string
    3  StringWithType   0.0.0 | value:string type:type | typed_string
    4  FlatSymbolRef    0.0.0 | root:attr | symbol
    5  SymbolRef        0.0.0 | root:attr nested:attrs | nested_symbol
    6  Type             0.0.0 | value:type | type
    7  Unit             0.0.0 | | unit
    8  Integer          0.0.0 | type:type value:bits | integer
    9  Float            0.0.0 | type:type value:bits | float
    10 CallSiteLoc      0.0.0 | callee:loc caller:loc | call_site
    11 FileLineColLoc   0.0.0 | file:attr line:varint column:varint | file
    12 FusedLoc         0.0.0 | locations:locs | fused
    13 FusedLocMetadata 0.0.0 | locations:locs metadata:attr | fused_metadata
    14 NameLoc          0.0.0 | name:attr child:loc | name
    15 UnknownLoc       0.0.0 | | unknown
    16 DenseResource    0.0.0 | type:type name:resource | resource
    17 DenseArray       0.0.0 | element:type size:varint data:blob | dense_array
    18 DenseElements    0.0.0 | type:type data:blob | dense_builtin
    22 FileLineColRange 0.0.0 | file:attr numbers:varints | file_range
"""
"""Builtin attributes: rows `code name version | fields | encoding`, one per attribute.

Source: MLIR's `BuiltinDialectBytecode.td`.
"""

_BUILTIN_TYPES: Final = """
    0  Integer          0.0.0 | width:varint | integer_type
    1  Index            0.0.0 | | index
    2  Function         0.0.0 | inputs:types results:types | function
    3  BFloat16         0.0.0 | | bf16
    4  Float16          0.0.0 | | f16
    5  Float32          0.0.0 | | f32
    6  Float64          0.0.0 | | f64
    7  Float80          0.0.0 | | f80
    8  Float128         0.0.0 | | f128
    9  Complex          0.0.0 | element:type | complex
    10 MemRef           0.0.0 | shape:svarints element:type layout:attr | memref
    11 MemRefInSpace    0.0.0 | space:attr shape:svarints element:type layout:attr | memref_in_space
    12 None             0.0.0 | | none
    13 RankedTensor     0.0.0 | shape:svarints element:type | tensor
    14 RankedTensorWith 0.0.0 | encoding:attr shape:svarints element:type | encoded
    15 Tuple            0.0.0 | types:types | tuple
    16 UnrankedMemRef   0.0.0 | element:type | unranked_memref
    17 UnrankedInSpace  0.0.0 | space:attr element:type | unranked_memref_in_space
    18 UnrankedTensor   0.0.0 | element:type | unranked
    19 Vector           0.0.0 | shape:svarints element:type | vector
    20 VectorScalable   0.0.0 | scalable:bytes shape:svarints element:type | scalable
"""
"""Builtin types, in rows as in `_BUILTIN_ATTRIBUTES`.

Source: MLIR's `BuiltinDialectBytecode.td`.
"""

_QUANT_TYPES: Final = """
    4 UniformQuantized        0.0.0 | flags:varint storage:type expressed:type scale:f64 \
zero_point:svarint least:svarint most:svarint | quantized
    5 UniformQuantizedPerAxis 0.0.0 | flags:varint storage:type expressed:type axis:varint \
least:svarint most:svarint scales:f64s zero_points:svarints | quantized_axis
"""
"""Types of the dialect `quant`, in rows as in `_BUILTIN_ATTRIBUTES`.

Source: MLIR's `QuantDialectBytecode.td`.
"""

_STABLEHLO_ATTRIBUTES: Final = """
    1  channel_handle          0.0.0 | handle:svarint type:svarint | struct channel_handle
    2  comparison_direction    0.0.0 | value:varint | enum comparison_direction
    3  comparison_type         0.0.0 | value:varint | enum comparison_type
    4  conv                    0.0.0 | input_batch_dimension:svarint \
input_feature_dimension:svarint input_spatial_dimensions:svarints \
kernel_input_feature_dimension:svarint kernel_output_feature_dimension:svarint \
kernel_spatial_dimensions:svarints output_batch_dimension:svarint \
output_feature_dimension:svarint output_spatial_dimensions:svarints | struct conv
    5  dot                     0.0.0 | lhs_batching_dimensions:svarints \
rhs_batching_dimensions:svarints lhs_contracting_dimensions:svarints \
rhs_contracting_dimensions:svarints | free dot
    6  fft_type                0.0.0 | value:varint | enum fft_type
    7  gather                  0.0.0 | offset_dims:svarints collapsed_slice_dims:svarints \
operand_batching_dims:svarints start_indices_batching_dims:svarints start_index_map:svarints \
index_vector_dim:svarint | free gather
    8  precision               0.0.0 | value:varint | enum precision
    9  rng_algorithm           0.0.0 | value:varint | enum rng_algorithm
    10 rng_distribution        0.0.0 | value:varint | enum rng_distribution
    11 scatter                 0.0.0 | update_window_dims:svarints inserted_window_dims:svarints \
input_batching_dims:svarints scatter_indices_batching_dims:svarints \
scatter_dims_to_operand_dims:svarints index_vector_dim:svarint | free scatter
    12 transpose               0.0.0 | value:varint | enum transpose
    13 type_extensions         0.0.0 | bounds:svarints | struct bounds
    14 output_operand_alias    0.0.0 | output_tuple_indices:svarints operand_index:svarint \
operand_tuple_indices:svarints | struct output_operand_alias
    15 dot_algorithm           0.0.0 | lhs_precision_type:type rhs_precision_type:type \
accumulation_type:type lhs_component_count:svarint rhs_component_count:svarint \
num_primitive_operations:svarint allow_imprecise_accumulation:byte | algorithm
    16 result_accuracy_mode    0.0.0 | value:varint | enum result_accuracy_mode
    17 result_accuracy         0.0.0 | atol:f64 rtol:f64 ulps:svarint mode:attr | accuracy
    19 sub_axis_info           0.0.0 | pre_size:svarint size:svarint | struct sub_axis_info
    20 axis_ref                0.0.0 | name:string sub_axis_info:flagged_byte | named_axis_ref
    21 mesh_axis               0.0.0 | name:string size:svarint | named_axis
    22 mesh                    0.0.0 | axes:attr device_ids:flagged_byte | mesh
    18 replica_group_mesh_axes 0.0.0 | mesh:attr axes:attrs | mesh_axes_list
"""
"""Attributes of StableHLO, in rows as in `_BUILTIN_ATTRIBUTES`.

Source: `StablehloBytecode.cpp`.
"""

_STABLEHLO_TYPES: Final = """
    0 token  0.0.0 | | token
    1 future 0.0.0 | types:types | future
"""
"""Types of StableHLO, in rows as in `_BUILTIN_ATTRIBUTES`.

Source: `StablehloBytecode.cpp`.
"""

_CHLO_ATTRIBUTES: Final = """
    0 comparison_direction 0.0.0 | value:varint | chlo_enum comparison_direction
    1 comparison_type      0.0.0 | value:varint | chlo_enum comparison_type
"""
"""Attributes of CHLO, in rows as in `_BUILTIN_ATTRIBUTES`; others are written as text.

Source: `ChloBytecode.cpp`.

Source: `ChloBytecode.cpp`; its other attributes are written as text.
"""

_SDY_ATTRIBUTES: Final = """
    0  manual_axes            0.0.0 | axes:attrs | sdy
    1  mesh_axis              0.0.0 | name:string size:svarint | sdy
    2  mesh                   0.0.0 | axes:attrs device_ids:svarints | sdy
    3  sub_axis_info          0.0.0 | pre_size:svarint size:svarint | sdy
    4  axis_ref               0.0.0 | name:string sub_axis_info:attr? | sdy
    5  dimension_sharding     0.0.0 | axes:attrs is_closed:byte priority:varint | sdy
    6  sharding               0.0.0 | mesh:attr dimensions:attrs replicated:attrs | sdy
    7  sharding_per_value     0.0.0 | shardings:attrs | sdy
    8  dim_mapping            0.0.0 | factors:svarints | sdy
    9  tensor_mapping         0.0.0 | dimensions:attrs | sdy
    10 op_sharding_rule       0.0.0 | sizes:svarints operands:attrs results:attrs \
reduction:svarints need_replication:svarints permutation:svarints blocked_propagation:svarints \
is_custom:byte | sdy
    11 axis_ref_list          0.0.0 | axes:attrs | sdy
    12 list_of_axis_ref_lists 0.0.0 | lists:attrs | sdy
    13 all_to_all_param       0.0.0 | axes:attrs source:svarint target:svarint | sdy
    14 all_to_all_param_list  0.0.0 | params:attrs | sdy
    15 sharding_unreduced     0.0.0 | mesh:attr dimensions:attrs replicated:attrs \
unreduced:attrs | sdy
    16 sharding_per_value_2   0.0.0 | shardings:attrs | sdy
    17 sharding_reduction     0.0.0 | mesh:attr dimensions:attrs replicated:attrs \
unreduced:attrs reduction:svarint | sdy
"""
"""Attributes of Shardy, in rows as in `_BUILTIN_ATTRIBUTES`.

Source: Shardy's `bytecode.td`.
"""


def _code_rows(text: str) -> tuple[CodeRow, ...]:
    return tuple(map(code_row, text.strip().splitlines()))


ATTRIBUTES: Final = {
    "builtin": _code_rows(_BUILTIN_ATTRIBUTES),
    "stablehlo": _code_rows(_STABLEHLO_ATTRIBUTES),
    "chlo": _code_rows(_CHLO_ATTRIBUTES),
    "sdy": _code_rows(_SDY_ATTRIBUTES),
}
"""Rows of the attributes of each dialect, by the dialect's name."""

TYPES: Final = {
    "builtin": _code_rows(_BUILTIN_TYPES),
    "quant": _code_rows(_QUANT_TYPES),
    "stablehlo": _code_rows(_STABLEHLO_TYPES),
}
"""Rows of the types of each dialect, by the dialect's name."""


# --------------------------------------------------------------------------------------------------
# Encodings of locations in bytecode.


LOCATIONS: Final = (type(UNKNOWN), FileLoc, NameLoc, CallSiteLoc, FusedLoc)
"""Classes of locations that can be written."""


def _range(_: str, file: object, numbers: Sequence[int]) -> FileLoc:
    name = text_of(file)
    if len(numbers) > 4:
        raise ValueError("a place has at most four numbers")
    line, column = [*numbers[:2], 0, 0][:2]
    if len(numbers) < 3:
        return FileLoc(name, line, column, line, column)
    return FileLoc(name, line, column, line if len(numbers) == 3 else numbers[2], numbers[-1])


def _range_fields(_: str, value: FileLoc) -> Sequence[Any]:
    """Return the fields of a location range: file name, and as few numbers as MLIR writes.

    If the range starts in column 0 and ends on the same line, its end is omitted.
    """
    line, column, end = value.line, value.column, value.end_column
    if value.end_line != line:
        numbers: tuple[int, ...] = (line, column, value.end_line, end)
    elif column == 0:
        numbers = () if line == end == 0 else (line,)
    else:
        numbers = (line, column) if column == end else (line, column, end)
    return StringAttr.of(value.file), numbers


LOCATION_ENCODINGS: Final[dict[str, Encoding]] = {
    "unknown": Encoding(lambda _: UNKNOWN, lambda _, value: ()),
    "call_site": Encoding(
        lambda _, callee, caller: CallSiteLoc(callee, caller),
        lambda _, value: (value.callee, value.caller),
    ),
    "file": Encoding(
        lambda _, file, line, column: FileLoc(text_of(file), line, column),
        lambda _, value: (StringAttr.of(value.file), value.line, value.column),
    ),
    "file_range": Encoding(_range, _range_fields),
    "fused": Encoding(lambda _, parts: FusedLoc(parts), lambda _, value: (value.locations,)),
    "fused_metadata": Encoding(
        lambda _, parts, metadata: FusedLoc(parts, attribute_text(metadata)),
        lambda _, value: (value.locations, parse_attribute(value.metadata)),
    ),
    "name": Encoding(
        lambda _, name, child: NameLoc(text_of(name), child),
        lambda _, value: (StringAttr.of(value.name), value.child),
    ),
}
"""Encodings of locations, by the names that the rows of the tables use for them."""


# --------------------------------------------------------------------------------------------------
# Choice of the bytecode row and the fields of attributes, types and locations.
#
# A value in an op of VHLO has VHLO's encoding; elsewhere it has the builtin one. A value that VHLO
# has no row for has its own dialect's encoding inside VHLO too, as in mixed artifacts.


TEXT: Final = CodeRow(-1, "text", (0, 0, 0), (), ("text",))
"""Row of values without a code in their dialect, which are written as text."""


class VhloDictionary(Struct, frozen=True):
    """The attributes of a VHLO op, as a dictionary of the builtin dialect with VHLO's values."""

    entries: tuple[tuple[str, Any], ...]


class ChosenEncoding(NamedTuple):
    """How a value is written: dialect and row of the encoding, and the values of its fields."""

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
    VhloDictionary: "outer",
}
"""Name of the encoding of values of each class; only classes that have one encoding."""


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
"""Name of an encoding in the other dialects, by its name in VHLO; only where the names differ."""
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
"""Name of the encoding of a structure that is not `struct <name>`, by the structure's name."""


def choose_encoding(value: Any, *, vhlo: bool) -> ChosenEncoding:
    """Return how an attribute, type or location is written.

    `vhlo`: whether it belongs to an op of VHLO.

    Raises:
        UnsupportedError: Bytecode cannot express the value.
    """
    key = _key_of(value)
    if key == "outer":
        return ChosenEncoding("builtin", _BUILTIN["dict"][1], ENCODINGS["dict"].fields("", value))
    found = _VHLO.get(key) if vhlo else None
    if found is None:
        other = _builtin_key(key, value)
        found = _BUILTIN.get(other)
        if found is None:
            return _as_text(value)
    dialect, row = found
    if dialect == "sdy" and isinstance(value, VerbatimAttr):
        value = sdy_struct(value.text)
    return ChosenEncoding(dialect, row, ENCODINGS[row.value[0]].fields(row.argument, value))


def in_dictionary(entries: tuple[tuple[str, Any], ...], *, vhlo: bool) -> DictAttr | VhloDictionary:
    """Return the attributes of an op as one dictionary attribute.

    Args:
        entries: Name and value of each attribute, in order.
        vhlo: Is the op one of VHLO? Then the values are VHLO's.
    """
    if vhlo and any(has_vhlo(value) for _, value in entries):
        return VhloDictionary(entries)
    return DictAttr(entries)


def has_vhlo(value: Any) -> bool:
    """Does VHLO have an encoding of this attribute or type?

    Parts of the value, such as elements, are not checked.
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
        "witness" if value.text == "!shape.witness" else memref_encoding(value.text)
    ),
    VectorType: lambda value: "scalable" if any(value.scalable) else "",
}
"""Functions that name the encoding of a value, by classes with several encodings.

An empty name means the encoding in `_CLASSES`.
"""


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
"""Pattern of spaces that MLIR's printer never writes.

Text with one of them would not equal MLIR's bytes.
"""


def _as_text(value: Any) -> ChosenEncoding:
    """Return the encoding as text, for values that have no code in any dialect.

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
    return ChosenEncoding(dialect, TEXT, (text,))


# --------------------------------------------------------------------------------------------------
# All encodings: pairs of functions that make a value from its fields, and return its fields.
#
# Table rows name the encoding. The first function raises `ValueError` if no value has those fields.
# Further words of the row, such as the name of an enum, are the first argument of both functions.


ENCODINGS: Final[dict[str, Encoding]] = {
    **TYPE_ENCODINGS,
    **MEMREF_ENCODINGS,
    **ATTRIBUTE_ENCODINGS,
    **ELEMENT_ENCODINGS,
    **LOCATION_ENCODINGS,
    **RESOURCE_ENCODINGS,
}
"""All encodings, by the names that the rows of the tables use for them."""
