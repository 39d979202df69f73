"""Conversion between MLIR attributes and fields of ops, by the constraints in the op tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Final, NamedTuple

from hloscope.errors import UnsupportedError
from hloscope.ir import (
    ELEMENT_TYPES,
    Dims,
    ElementType,
    Literal,
    TensorType,
    Written,
    decode,
    encode,
)
from hloscope.mlir import (
    F64,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    MlirLiteral,
    Names,
    Printer,
    StringAttr,
    StructAttr,
    SymbolAttr,
    UnitAttr,
    dense_sizes,
    dense_values,
    expanded,
    parse_attribute,
    python_value,
)
from hloscope.mlir.dialects import DIALECTS, EMPTY, axes_of, frontend_values, mesh_of, shardy_value
from hloscope.ops import (
    API_VERSIONS,
    AxisRef,
    ConvDimensions,
    Groups,
    Mesh,
    MeshGroups,
    Pairs,
    Table,
    WrittenGroups,
)
from hloscope.support.limits import read_json

# --------------------------------------------------------------------------------------------------
# Conversion between attributes and values of an op's fields, by the constraint in the tables.
#
# Readers take an attribute and raise `ValueError` with the expected form. They accept invalid
# values, which type inference reports.


PRED: Final = ELEMENT_TYPES["pred"]
I32: Final = ELEMENT_TYPES["s32"]
I64: Final = ELEMENT_TYPES["s64"]
F32: Final = ELEMENT_TYPES["f32"]


def attribute_text(attribute: Attribute) -> str:
    """Return an attribute as MLIR prints it, without aliases.

    >>> attribute_text(EnumAttr("stablehlo", "fft_type", "RFFT"))
    '#stablehlo<fft_type RFFT>'
    """
    return Printer(DIALECTS, Names(), generic=True).attribute_text(attribute)


# --- numbers --------------------------------------------------------------------------------------


def read_int(attribute: Attribute) -> int:
    """Return the integer of an attribute such as `3 : i64`.

    >>> read_int(IntegerAttr(3, I64))
    3
    """
    match attribute:
        case IntegerAttr(value) | BoolAttr(value):
            return int(value)
        case DenseAttr(_, TensorType(_, ())):
            return dense_values(attribute)[0]
        case _:
            raise ValueError("an integer")


def read_float(attribute: Attribute) -> float:
    """Return the number of an attribute such as `1.0e-3 : f32`.

    It has the fewest digits that give the same bits.

    >>> read_float(FloatAttr(0x3A83126F, F32))
    0.001
    """
    if not isinstance(attribute, FloatAttr) or not isinstance(attribute.type, ElementType):
        raise ValueError("a number")
    name = attribute.type.name
    value = decode(attribute.bits, name)
    for digits in range(1, 17):
        short = float(f"{value:.{digits}g}")
        if encode(short, name) == attribute.bits:
            return short
    return value


def write_float(value: float) -> FloatAttr:
    """Return a number as a float attribute of type `f32`."""
    return FloatAttr(encode(value, "f32"), F32)


def read_bool(attribute: Attribute) -> bool:
    """Return the Boolean of an attribute; a unit attribute is true."""
    match attribute:
        case UnitAttr():
            return True
        case BoolAttr(value):
            return value
        case IntegerAttr(value, type) if type == PRED:
            return value != 0
        case _:
            raise ValueError("`true` or `false`")


def write_bool(value: bool | str) -> BoolAttr:
    """Return a Boolean attribute; the texts `true` and `false` are accepted, too."""
    return BoolAttr(value if isinstance(value, bool) else value == "true")


def read_text(attribute: Attribute) -> str:
    """Return the text of a string attribute, or the name of a symbol reference."""
    match attribute:
        case StringAttr():
            return attribute.text
        case SymbolAttr(root, nested):
            return "::".join((root, *nested))
        case _:
            raise ValueError("a string")


# --- arrays ---------------------------------------------------------------------------------------


def read_dims(attribute: Attribute) -> Dims:
    """Return the integers of an attribute.

    It is `array<i64: 1, 2>`, `dense<…> : tensor<2xi64>` or `[1, 2]`.

    Raises:
        ValueError: It is none of these.
    """
    match attribute:
        case DenseArrayAttr(_, values):
            return values
        case DenseAttr():
            return expanded(attribute)
        case ArrayAttr(elements):
            return tuple(map(read_int, elements))
        case _:
            raise ValueError("an array of integers")


def i64_array(values: Iterable[int]) -> DenseArrayAttr:
    """Return integers as the attribute `array<i64: 1, 2>`."""
    return DenseArrayAttr(I64, tuple(values))


def read_bools(attribute: Attribute) -> tuple[bool, ...]:
    """Return the Booleans of an attribute: an array, a dense literal or a list."""
    return tuple(map(bool, read_dims(attribute)))


def write_bools(values: tuple[bool, ...]) -> DenseArrayAttr:
    """Return Booleans as the attribute `array<i1: true>`."""
    return DenseArrayAttr(PRED, tuple(map(int, values)))


def read_pairs(attribute: Attribute) -> tuple[Any, ...]:
    """Return the integers of an attribute as nested tuples, such as `((0, 1),)`.

    The attribute is a dense literal, or a list of lists.
    """
    if isinstance(attribute, ArrayAttr):
        return tuple(map(read_dims, attribute.elements))
    if not isinstance(attribute, DenseAttr):
        raise ValueError("pairs of integers")
    nested: tuple[Any, ...] = expanded(attribute)
    for size in dense_sizes(attribute)[:0:-1]:
        if size:
            nested = tuple([nested[at : at + size] for at in range(0, len(nested), size)])
    return nested


def write_pairs(values: tuple[Any, ...]) -> DenseAttr:
    """Return pairs of integers as a dense literal of shape `[pairs, 2]`."""
    rows = ", ".join(f"[{low}, {high}]" for low, high in values)
    return DenseAttr(f"[{rows}]" if values else "", TensorType(I64, (len(values), 2)))


def read_table(attribute: Attribute) -> Groups:
    """Return a table of integers as tuples: replica groups, or source-target pairs.

    An attribute with groups along mesh axes stays symbolic.
    """
    if isinstance(attribute, DenseAttr):
        return Table(dense_sizes(attribute), expanded(attribute))
    return AttributeGroups(attribute)


def write_table(value: Groups | Pairs) -> Attribute:
    """Return the attribute of replica groups or source-target pairs, also for groups of HLO."""
    if isinstance(value, AttributeGroups):
        return value.written  # type: ignore[no-any-return]
    if isinstance(value, WrittenGroups):
        value = Table.of(value.rows)
    if not isinstance(value, Table):
        return write_pairs(value)
    return DenseAttr(_nested(value.values, value.shape), TensorType(I64, value.shape))


def _nested(values: tuple[int, ...], shape: Dims) -> str:
    if len(set(values)) == 1 and prod(shape) != 1:
        return str(values[0])
    if not values:
        return ""
    texts = [str(value) for value in values]
    for size in reversed(shape):
        texts = [f"[{', '.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
    return texts[0]


# --- enumerations, structures, literals -----------------------------------------------------------


def read_enum(attribute: Attribute) -> str:
    """Return the value of an enum attribute, such as `EQ`."""
    match attribute:
        case EnumAttr(_, _, value):
            return value
        case StringAttr():
            return attribute.text
        case _:
            raise ValueError("a value of an enumeration")


def read_enums(attribute: Attribute) -> tuple[str, ...]:
    """Return the values of a list of enum attributes, such as `("DEFAULT", "HIGH")`."""
    if not isinstance(attribute, ArrayAttr):
        raise ValueError("a list of values of an enumeration")
    return tuple(map(read_enum, attribute.elements))


def read_struct(attribute: Attribute, name: str) -> dict[str, Any]:
    """Return the fields of the structure `name`; fields that are omitted are empty, or 0.

    Raises:
        ValueError: The attribute is not a structure of that name.
    """
    if not isinstance(attribute, StructAttr) or attribute.name != name:
        raise ValueError(f"a structure `{name}`")
    given = dict(attribute.fields)
    found: dict[str, Any] = {}
    for field, empty in EMPTY[name].items():
        value = given.get(field, empty)
        if isinstance(value, int | tuple):
            found[field] = value
        else:
            found[field] = read_int(value) if empty == 0 else read_dims(value)
    return found


def write_struct(dialect: str, name: str, values: dict[str, Any]) -> StructAttr:
    """Return the structure attribute `#dialect.name<…>` with these values of its fields.

    Empty and zero fields are omitted, except in `conv` and channels.
    """
    every = name in ("conv", "channel_handle")
    fields = [(field, values[field]) for field in EMPTY[name]]
    return StructAttr(
        dialect, name, tuple([(f, v) for f, v in fields if every or v not in ((), 0)])
    )


def read_conv(attribute: Attribute) -> ConvDimensions:
    """Return the dimension numbers of `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`."""
    return ConvDimensions(*read_struct(attribute, "conv").values())


def write_conv(dims: ConvDimensions) -> StructAttr:
    """Return dimension numbers as the attribute `#stablehlo.conv<…>`."""
    values = [getattr(dims, field) for field in ConvDimensions.__struct_fields__]
    return write_struct("stablehlo", "conv", dict(zip(EMPTY["conv"], values, strict=True)))


def _read_channel(attribute: Attribute) -> dict[str, Any]:
    channel = read_struct(attribute, "channel_handle")
    return {"channel_id": channel["handle"], "channel_type": channel["type"]}


def _write_channel(values: dict[str, Any], dialect: str) -> Attribute | None:
    handle = values.get("channel_id")
    if handle is None:
        return None
    fields = {"handle": handle, "type": int(values.get("channel_type") or 0)}
    return write_struct(dialect, "channel_handle", fields)


def _write_enums(words: tuple[str, ...], dialect: str, name: str) -> Attribute:
    return ArrayAttr(tuple([EnumAttr(dialect, name, word) for word in words]))


def read_literal(attribute: Attribute) -> MlirLiteral:
    """Return the attribute of a constant as a literal; any attribute is accepted."""
    return MlirLiteral(attribute, getattr(attribute, "type", None))


def write_literal(literal: Literal) -> Attribute:
    """Return the attribute `value` of a constant, given its literal.

    Raises:
        UnsupportedError: The literal comes from another language, and needs a type, which `tree`
            has.
    """
    if not isinstance(literal, MlirLiteral):
        raise UnsupportedError("a literal of another language has no attribute")
    return literal.written  # type: ignore[no-any-return]


def read_verbatim(text: str) -> Attribute:
    """Parse the text of an attribute."""
    return parse_attribute(text, dialects=DIALECTS)


class AttributeText(Written):
    """The text of an MLIR attribute that no field holds."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The value of the attribute in Python: numbers, texts, tuples, dictionaries, a `Literal`.

        A string that holds a JSON object gives the parsed object. A Shardy attribute gives a
        Shardy value, such as a `Sharding`; `None` if its notation is not supported.
        """
        return _parsed_value(self)


def _parsed_value(text: str) -> Any:
    if text.startswith("#sdy"):
        try:
            return shardy_value(text)
        except UnsupportedError:
            return None
    found = python_value(read_verbatim(text))
    if isinstance(found, dict):
        return frontend_values(found)
    if isinstance(found, str) and found.startswith("{"):
        try:
            return read_json(found)
        except ValueError:
            return found
    return found


def verbatim(attribute: Attribute) -> AttributeText:
    """Return the text of an attribute, whose value is parsed on request."""
    return AttributeText(attribute_text(attribute))


def read_lists(attribute: Attribute) -> tuple[Any, ...]:
    """Return nested list attributes as tuples: 64-bit integers as `int`, other elements as text.

    >>> read_lists(read_verbatim("[[0, 1], [2 : i32], 3]"))
    ((0, 1), ('2 : i32',), 3)
    """
    if not isinstance(attribute, ArrayAttr):
        raise ValueError("a list")
    return tuple(
        tuple(map(_leaf, e.elements)) if isinstance(e, ArrayAttr) else _leaf(e)
        for e in attribute.elements
    )


def _leaf(attribute: Attribute) -> int | AttributeText:
    if isinstance(attribute, IntegerAttr) and attribute.type == I64:
        return attribute.value
    return verbatim(attribute)


def write_lists(values: tuple[Any, ...]) -> ArrayAttr:
    """Return nested tuples, as of `read_lists`, as nested list attributes."""
    return ArrayAttr(
        tuple(
            ArrayAttr(tuple(map(_written_leaf, v))) if isinstance(v, tuple) else _written_leaf(v)
            for v in values
        )
    )


def _written_leaf(value: int | str) -> Attribute:
    return read_verbatim(value) if isinstance(value, str) else IntegerAttr(value, I64)


class Kind(NamedTuple):
    """Conversion between an attribute and the value of a field of an op's class.

    Attributes:
        read: Returns the value; for a structure, values by name.
        write: Returns the attribute, given value and dialect; `None` to omit it.
        spreads: Whether the attribute sets several fields of the op.
    """

    read: Callable[[Attribute], Any]
    write: Callable[[Any, str], Attribute | None]
    spreads: bool = False


def _plain(read: Callable[[Attribute], Any], write: Callable[[Any], Attribute]) -> Kind:
    return Kind(read, lambda value, _: write(value))


def _enum(name: str) -> Kind:
    return Kind(read_enum, lambda value, dialect: EnumAttr(dialect, name, value))


def _struct(name: str) -> Kind:
    return Kind(
        lambda attribute: read_struct(attribute, name),
        lambda values, dialect: write_struct(dialect, name, values),
        spreads=True,
    )


def _write_api_version(value: str | int) -> IntegerAttr:
    """Return an API version as an integer attribute.

    A name, as in HLO, is converted to its number.
    """
    text = str(value)
    if text in API_VERSIONS:
        return IntegerAttr(API_VERSIONS.index(text), I32)
    if not text.removeprefix("-").isdecimal():
        raise UnsupportedError(f"StableHLO has no API version of custom calls `{text}`")
    return IntegerAttr(int(text), I32)


_I32: Final = _plain(read_int, lambda value: IntegerAttr(int(value), I32))
_I64: Final = _plain(read_int, lambda value: IntegerAttr(value, I64))
_TEXT: Final = _plain(read_text, lambda value: StringAttr.of(value))
_TABLE: Final = _plain(read_table, write_table)
VERBATIM: Final = _plain(verbatim, read_verbatim)
"""Conversion of attributes that are not interpreted, but stored as text."""

_ENUMS: Final = (
    *("comparison_direction", "comparison_type", "fft_type", "rng_algorithm", "rng_distribution"),
    "transpose",
)

KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("i64", "i64>=0", "i64>0"), _I64),
    **dict.fromkeys(("i32", "i32>=0", "i32>0"), _I32),
    "api_version": _plain(read_int, _write_api_version),
    "f32": _plain(read_float, write_float),
    "f64": _plain(read_float, lambda value: FloatAttr(encode(value, "f64"), F64)),
    "bool": _plain(read_bool, write_bool),
    "unit": _plain(read_bool, lambda _: UnitAttr()),
    "string": _TEXT,
    "dims": _plain(read_dims, i64_array),
    "bools": _plain(read_bools, write_bools),
    "pairs": _plain(read_pairs, write_pairs),
    **dict.fromkeys(("table", "groups", "ints"), _TABLE),
    "array": _plain(read_lists, write_lists),
    "conv": _plain(read_conv, write_conv),
    "elements": _plain(read_literal, write_literal),
    "precision": Kind(read_enums, lambda words, dialect: _write_enums(words, dialect, "precision")),
    "channel": Kind(_read_channel, _write_channel, spreads=True),
    **{name: _enum(name) for name in _ENUMS},
    **{name: _struct(name) for name in ("gather", "scatter", "dot", "ragged_dot")},
}
"""Conversions, by the constraint of the attribute.

Attributes of other constraints are stored as text.
"""


def kind_of(constraint: str) -> Kind:
    """Return the conversion of attributes with this constraint, as op definitions name it."""
    return KINDS.get(constraint, VERBATIM)


# --------------------------------------------------------------------------------------------------
# Replica groups as `#stablehlo.replica_group_mesh_axes<…>`.
#
# Source: StableHLO's `ReplicaGroupMeshAxesAttr`.


class AttributeGroups(MeshGroups):
    """Device groups along the axes of a mesh, given by an attribute."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh | str:
        """The mesh, or its name if the attribute refers to it by a symbol."""
        return mesh_of(self._structure.get("mesh"))

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes or sub-axes along which a group extends."""
        return axes_of(self._structure)

    @property
    def _structure(self) -> StructAttr:
        if not isinstance(self.written, StructAttr):
            raise UnsupportedError("replica groups in an unknown notation")
        return self.written
