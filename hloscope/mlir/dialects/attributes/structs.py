"""Structures such as `#stablehlo.gather<offset_dims = [1], …>`, and enums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias, TypeVar

from hloscope.errors import ParseError
from hloscope.mlir import (
    ArrayAttr,
    AsmParser,
    AsmPrinter,
    Attribute,
    BoolAttr,
    EnumAttr,
    StringAttr,
    StructAttr,
    TypeAttr,
)

# --------------------------------------------------------------------------------------------------
# Structures such as `#stablehlo.gather<offset_dims = [1], …>`.
#
# Fields of `OptionalFields` come in any order and may be missing.  Those that are empty or 0 are
# not stored, as a text without them is equivalent.  Fields of `RequiredFields` are all present, in
# order if `ordered`.
#
# Source: `StablehloAttrs.td`, `ChloOps.td`; `parseStruct` and `printStruct` of `StablehloOps.cpp`.


DYNAMIC: Final = -(1 << 63)
"""Integer that a structure stores for an unknown size, written `?`."""

FieldValue: TypeAlias = Attribute | int | tuple[int, ...]
AnyAttribute = TypeVar("AnyAttribute", bound=Attribute)
ReadField: TypeAlias = Callable[[AsmParser], FieldValue]


def read_list(parser: AsmParser) -> tuple[int, ...]:
    """Return the integers in the text `[1, ?]`; `?` is `DYNAMIC`."""
    parser.token("[")
    return _elements(parser, "]")


def _elements(parser: AsmParser, close: str) -> tuple[int, ...]:
    return tuple(
        parser.items(lambda: DYNAMIC if parser.try_token("?") else parser.integer(), close)
    )


def list_text(values: tuple[int, ...]) -> str:
    """Return integers as the text `1, ?`, where `?` is `DYNAMIC`."""
    return ", ".join("?" if value == DYNAMIC else str(value) for value in values)


def read_bounds(parser: AsmParser) -> StructAttr:
    """Return the bounds in the text `<3, ?>`."""
    parser.token("<")
    return StructAttr("stablehlo", "bounds", (("bounds", _elements(parser, ">")),))


def read_type_extensions(parser: AsmParser) -> StructAttr:
    """Return the bounds in the text `<bounds = [3, ?]>`, a former spelling."""
    parser.tokens("<", "bounds", "=")
    bounds = read_list(parser)
    parser.token(">")
    return StructAttr("stablehlo", "bounds", (("bounds", bounds),))


# ------------------------------------------------------------------------------ optional fields


class OptionalFields(NamedTuple):
    """A structure whose fields are optional, in any order: its fields, and its name in messages.

    A field with `*` after its name is one integer; other fields are lists of integers.
    """

    fields: tuple[str, ...]
    what: str


_OPTIONAL_ROWS: Final = """
    stablehlo gather  | gather | offset_dims collapsed_slice_dims operand_batching_dims \
        start_indices_batching_dims start_index_map index_vector_dim*
    stablehlo scatter | scatter | update_window_dims inserted_window_dims input_batching_dims \
        scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim*
    stablehlo dot     | dot | lhs_batching_dimensions rhs_batching_dimensions \
        lhs_contracting_dimensions rhs_contracting_dimensions
    chlo ragged_dot   | ragged dot | lhs_batching_dimensions rhs_batching_dimensions \
        lhs_contracting_dimensions rhs_contracting_dimensions lhs_ragged_dimensions \
        rhs_group_dimensions
"""


def _optional_fields(row: str) -> tuple[tuple[str, ...], OptionalFields]:
    head, what, fields = row.split("|")
    return tuple(head.split()), OptionalFields(tuple(fields.split()), what.strip())


OPTIONAL_FIELDS: Final = dict(
    map(_optional_fields, _OPTIONAL_ROWS.replace("\\\n", "").strip().splitlines())
)
"""Structures whose fields are optional, in any order, by (dialect, mnemonic)."""


def empty(description: OptionalFields) -> dict[str, int | tuple[int, ...]]:
    """Return the default value of each field of a structure, by the field's name: 0 or `()`."""
    return {field.rstrip("*"): 0 if field.endswith("*") else () for field in description.fields}


def read_fields(parser: AsmParser, description: OptionalFields) -> dict[str, int | tuple[int, ...]]:
    """Read the fields of a structure, `a = [1], b = 2>`, in any order; return them by name.

    `description` has the fields of the structure.
    """
    try:
        return _read_fields(parser, description)
    except ParseError as error:
        parser.keep(error)
    parser.fail(f"failed parsing {description.what} dimension numbers attribute")


def _read_fields(
    parser: AsmParser, description: OptionalFields
) -> dict[str, int | tuple[int, ...]]:
    """Read the fields of a structure up to `>`; each may occur once."""
    found: dict[str, int | tuple[int, ...]] = {}
    kinds = {field.rstrip("*"): field.endswith("*") for field in description.fields}
    while not parser.try_token(">"):
        name = parser.try_keyword(*kinds)
        if name is None:
            names = ", ".join(f"`{name}`" for name in kinds)
            parser.fail(f"expected one of: {names}")
        if name in found:
            parser.fail(f"duplicated `{name}` entry")
        parser.token("=")
        found[name] = parser.integer() if kinds[name] else read_list(parser)
        if not parser.try_token(","):
            parser.token(">")
            break
    return found


def read_optional_fields(parser: AsmParser, dialect: str, mnemonic: str) -> StructAttr:
    """Read the text of a structure after its mnemonic, and return its attribute.

    `dialect` and `mnemonic` are its key in `OPTIONAL_FIELDS`.
    """
    parser.token("<")
    description = OPTIONAL_FIELDS[dialect, mnemonic]
    return sparse_struct(dialect, mnemonic, read_fields(parser, description))


def sparse_struct(
    dialect: str, mnemonic: str, values: dict[str, int | tuple[int, ...]]
) -> StructAttr:
    """Return the attribute of a structure in `OPTIONAL_FIELDS`, without fields that are empty or 0.

    Args:
        dialect: Dialect of the structure.
        mnemonic: Name of the structure.
        values: Values of the fields by name.

    >>> sparse_struct("stablehlo", "dot", {"rhs_contracting_dimensions": (1,)}).fields
    (('rhs_contracting_dimensions', (1,)),)
    """
    names = (field.rstrip("*") for field in OPTIONAL_FIELDS[dialect, mnemonic].fields)
    return StructAttr(
        dialect, mnemonic, tuple((name, value) for name in names if (value := values.get(name)))
    )


# ------------------------------------------------------------------------------ required fields


class RequiredFields(NamedTuple):
    """A structure whose fields are all required.

    `fields` has (name, kind of value), `definition` is the name in MLIR's messages. `ordered`:
    whether the fields must be written in this order.
    """

    fields: tuple[tuple[str, str], ...]
    definition: str
    ordered: bool = True


_REQUIRED_ROWS: Final = """
    channel_handle          | StableHLO_ChannelHandle | handle:int type:int
    output_operand_alias    | StableHLO_OutputOperandAlias | output_tuple_indices:ints \
        operand_index:int operand_tuple_indices:ints
    dot_algorithm           | StableHLO_DotAlgorithm | lhs_precision_type:type \
        rhs_precision_type:type accumulation_type:type lhs_component_count:int \
        rhs_component_count:int num_primitive_operations:int allow_imprecise_accumulation:bool
    replica_group_mesh_axes | StableHLO_ReplicaGroupMeshAxes | mesh:any axes:array
    mesh_axis               | StableHLO_MeshAxis | name:string size:int
"""

_ANY_ORDER: Final = ("channel_handle", "replica_group_mesh_axes", "mesh_axis")


def _required_fields(row: str) -> tuple[str, RequiredFields]:
    name, definition, fields = (part.strip() for part in row.split("|"))
    pairs = tuple((field, kind) for field, _, kind in (f.partition(":") for f in fields.split()))
    return name, RequiredFields(pairs, definition, name not in _ANY_ORDER)


REQUIRED_FIELDS: Final = dict(
    map(_required_fields, _REQUIRED_ROWS.replace("\\\n", "").strip().splitlines())
)
"""Structures of `stablehlo` whose fields are all required, by mnemonic."""

_CPP: Final = {
    "int": "int64_t",
    "ints": "::llvm::ArrayRef<int64_t>",
    "type": "Type",
    "bool": "bool",
    "any": "Attribute",
    "array": "ArrayAttr",
    "string": "::llvm::StringRef",
}


def _read_ints(parser: AsmParser) -> tuple[int, ...]:
    """Return the integers in the text `[1, 2]`."""
    parser.token("[")
    return tuple(parser.items(parser.integer, "]"))


def attribute_of(parser: AsmParser, kind: type[AnyAttribute]) -> AnyAttribute:
    """Read an attribute of class `kind`; any other one is an error."""
    at = parser.at
    found = parser.attribute()
    if not isinstance(found, kind):
        parser.fail("invalid kind of attribute specified", at)
    return found


def _read_bool(parser: AsmParser) -> BoolAttr:
    word = parser.try_keyword("true", "false")
    if word is None:
        parser.fail("expected integer value")
    return BoolAttr(word == "true")


_READ: Final[dict[str, ReadField]] = {
    "int": lambda parser: parser.integer(),
    "ints": _read_ints,
    "type": lambda parser: TypeAttr(parser.type()),
    "bool": _read_bool,
    "any": lambda parser: parser.attribute(),
    "array": lambda parser: attribute_of(parser, ArrayAttr),
    "string": lambda parser: StringAttr(parser.string()),
}


def camel(name: str) -> str:
    """Return the C++ name of a field: `lhsComponentCount` for `lhs_component_count`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def parameter_failed(
    parser: AsmParser, error: ParseError, definition: str, name: str, type: str
) -> NoReturn:
    """Record `error` in the parser and raise a second error, which names a structure's parameter.

    Args:
        parser: The parser.
        error: The error about the value.
        definition: The structure's name in messages.
        name: Name of the parameter.
        type: C++ type of the parameter.
    """
    parser.keep(error)
    parser.fail(f"failed to parse {definition} parameter '{name}' which is to be a `{type}`")


def read_required_fields(parser: AsmParser, mnemonic: str) -> StructAttr:
    """Read a structure in `REQUIRED_FIELDS` after its mnemonic, and return its attribute."""
    description = REQUIRED_FIELDS[mnemonic]
    parser.token("<")
    kinds, found = dict(description.fields), {}
    for position, (name, _) in enumerate(description.fields):
        if position:
            parser.token(",")
        field = name
        if description.ordered:
            parser.keyword(name)
        else:
            field = _any_field(parser, [name for name in kinds if name not in found])
        parser.token("=")
        try:
            found[field] = _READ[kinds[field]](parser)
        except ParseError as error:
            kind = kinds[field]
            name = camel(field) if description.ordered else field
            parameter_failed(parser, error, description.definition, name, _CPP[kind])
    parser.token(">")
    return StructAttr("stablehlo", mnemonic, tuple((name, found[name]) for name in kinds))


def _any_field(parser: AsmParser, names: list[str]) -> str:
    """Read and return the name of a field, which must be one of the unread fields `names`."""
    at = parser.at
    word = parser.try_keyword()
    if word is None:
        parser.report("expected valid keyword")
        parser.fail("expected a parameter name in struct")
    if word not in names:
        parser.fail(f"duplicate or unknown struct parameter name: {word}", at)
    return word


# -------------------------------------------------------------------------------------- writing


def write_fields(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write all fields that a structure stores, as `<a = [1], b = 2>`."""
    separator = "<"
    for name, value in attribute.fields:
        printer.write(f"{separator}{name} = ")
        separator = ", "
        write_field(printer, value)
    printer.write("<>" if separator == "<" else ">")


def write_field(printer: AsmPrinter, value: FieldValue) -> None:
    """Write the value of a structure's field."""
    if isinstance(value, int):
        printer.write(str(value))
    elif isinstance(value, tuple):
        printer.write(f"[{list_text(value)}]")
    elif isinstance(value, TypeAttr):
        printer.type(value.type)
    elif isinstance(value, StringAttr):
        printer.string(value.value)
    else:
        printer.attribute(value, type=False)


def bounds_text(attribute: StructAttr) -> str:
    """Return the attribute `bounds` as the text `<3, ?>`.

    >>> bounds_text(StructAttr("stablehlo", "bounds", (("bounds", (3, DYNAMIC)),)))
    '<3, ?>'
    """
    bounds = attribute.get("bounds")
    return f"<{list_text(bounds) if isinstance(bounds, tuple) else ''}>"


# --------------------------------------------------------------------------------------------------
# Enums of the dialects: `#stablehlo<comparison_direction EQ>`.
#
# Source: `StablehloEnums.td`, `ChloEnums.td`.


class Enum(NamedTuple):
    """An enum of a dialect: its name in messages, and its values.

    `bracketed`: whether the attribute is spelled `#stablehlo.result_accuracy_mode<DEFAULT>`, with
    its value in angle brackets.
    """

    type: str
    values: tuple[str, ...]
    bracketed: bool = False


_ROWS: Final = """
    stablehlo comparison_direction ComparisonDirection EQ NE GE GT LE LT
    stablehlo comparison_type      ComparisonType      NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED
    stablehlo fft_type             FftType             FFT IFFT RFFT IRFFT
    stablehlo precision            Precision           DEFAULT HIGH HIGHEST
    stablehlo rng_algorithm        RngAlgorithm        DEFAULT THREE_FRY PHILOX
    stablehlo rng_distribution     RngDistribution     UNIFORM NORMAL
    stablehlo transpose            Transpose  TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT
    stablehlo result_accuracy_mode ResultAccuracyMode  DEFAULT HIGHEST TOLERANCE
    chlo      comparison_direction ComparisonDirection EQ NE GE GT LE LT
    chlo      comparison_type      ComparisonType      NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED
    chlo      precision            Precision           DEFAULT HIGH HIGHEST
"""

ENUMS: Final = {
    (dialect, mnemonic): Enum(type, tuple(values), mnemonic == "result_accuracy_mode")
    for dialect, mnemonic, type, *values in map(str.split, _ROWS.strip().splitlines())
}
"""All enums, by dialect and mnemonic."""

_KNOWN: Final = {
    (dialect, mnemonic, value): EnumAttr(dialect, mnemonic, value)
    for (dialect, mnemonic), enum in ENUMS.items()
    for value in enum.values
}
_FAMILY: Final = {"stablehlo": "StableHLO", "chlo": "CHLO"}


def read_value(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read a value of an enum, such as `EQ`, and return its attribute.

    `dialect` and `mnemonic` name the enum.
    """
    at = parser.at
    word = parser.try_keyword()
    known = _KNOWN.get((dialect, mnemonic, word)) if word is not None else None
    if known is not None:
        return known
    enum = ENUMS[dialect, mnemonic]
    type = f"::mlir::{dialect}::{enum.type}"
    if word is None:
        parser.report("expected valid keyword or string", at)
    else:
        parser.report(f"expected {type} to be one of: {', '.join(enum.values)}", at)
    parser.fail(
        f"failed to parse {_FAMILY[dialect]}_{enum.type}Attr parameter 'value' "
        f"which is to be a `{type}`",
        at,
    )


def read_enum(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read the text of an enum attribute after its mnemonic, and return the attribute.

    `dialect` and `mnemonic` name the enum.
    """
    if not ENUMS[dialect, mnemonic].bracketed:
        return read_value(parser, dialect, mnemonic)
    parser.token("<")
    found = read_value(parser, dialect, mnemonic)
    parser.token(">")
    return found


def read_value_or_attribute(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read an enum, `EQ` or `#stablehlo<comparison_direction EQ>`, and return its attribute.

    Pretty forms allow both. `dialect` and `mnemonic` name the enum.
    """
    if not parser.peek().startswith("#"):
        return read_value(parser, dialect, mnemonic)
    at = parser.at
    found = parser.attribute()
    if not isinstance(found, EnumAttr) or (found.dialect, found.name) != (dialect, mnemonic):
        parser.fail("invalid kind of attribute specified", at)
    return found


def enum_text(attribute: EnumAttr) -> str:
    """Return the text of an enum attribute, with `#`.

    >>> enum_text(EnumAttr("stablehlo", "precision", "HIGH"))
    '#stablehlo<precision HIGH>'
    """
    dialect, name, value = attribute.dialect, attribute.name, attribute.value
    if (enum := ENUMS.get((dialect, name))) is not None and enum.bracketed:
        return f"#{dialect}.{name}<{value}>"
    return f"#{dialect}<{name} {value}>"
