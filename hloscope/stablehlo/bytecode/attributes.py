"""Encodings of attributes in MLIR bytecode: conversion between values and fields in a file."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from hloscope.ir import ElementType, TensorType, VectorType
from hloscope.mlir import (
    ELEMENTS,
    I1,
    ArrayAttr,
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
    elements,
)
from hloscope.mlir.dialects import EMPTY, ENUMS as STABLEHLO_ENUMS, SDY_STRUCTS, sparse_struct
from hloscope.stablehlo.bytecode.types import Encoding, Fields, only, text_of, wrap
from hloscope.stablehlo.vhlo import ALGORITHM, ENUMS as VHLO_ENUMS

# --------------------------------------------------------------------------------------------------
# Encodings of attributes in bytecode, except for those with many elements.


_SIGN: Final = 1 << 63


def _dictionary(_: str, pairs: Fields) -> DictAttr:
    return DictAttr(tuple([(text_of(key), value) for key, value in pairs]))


def _dictionary_fields(_: str, value: DictAttr) -> Fields:
    return (tuple([(StringAttr.of(name), one) for name, one in value.entries]),)


def _bool(_: str, value: int) -> BoolAttr:
    if value > 1:
        raise ValueError(f"{value} is not a Boolean value")
    return BoolAttr(bool(value))


ENUMS: Final[dict[str, tuple[str, ...]]] = {
    **{name: enum.values for (dialect, name), enum in STABLEHLO_ENUMS.items()
       if dialect == "stablehlo"},
    **{name: tuple(values) for name, values in VHLO_ENUMS.items()},
    "rng_distribution": ("", "UNIFORM", "NORMAL"),
}  # fmt: skip
"""Values of each enum, by its name; the index of a value is its number in bytecode.

The numbers of `rng_distribution` start at 1, so its entry 0 is unused.
"""


def _enum(name: str, value: int) -> EnumAttr:
    dialect = "vhlo" if name in VHLO_ENUMS else "stablehlo"
    return EnumAttr(dialect, name, _enum_value(name, value))


def _enum_value(name: str, value: int) -> str:
    values = ENUMS[name]
    if value >= len(values) or not values[value]:
        raise ValueError(f"{value} is no {name}")
    return values[value]


def _enum_fields(name: str, value: EnumAttr) -> Fields:
    return (ENUMS[name].index(value.value),)


def _integer(_: str, type: ElementType, bits: int) -> IntegerAttr | BoolAttr:
    if type.kind not in ("pred", "signed", "unsigned"):
        raise ValueError("the type of an integer is none of integers")
    if type == I1:
        return BoolAttr(bool(bits))
    signed = type.kind == "signed" and bits >> (type.bits - 1)
    return IntegerAttr(bits - (1 << type.bits) if signed else bits, type)


def _integer_fields(_: str, value: IntegerAttr | BoolAttr) -> Fields:
    if isinstance(value, BoolAttr):
        return I1, (int(value.value), 1)
    bits = value.type.bits if isinstance(value.type, ElementType) else 64
    return value.type, (value.value & ((1 << bits) - 1), bits)


def _float(_: str, type: ElementType, bits: int) -> FloatAttr:
    if type.kind != "float":
        raise ValueError("a floating-point number has a type that is not of floats")
    return FloatAttr(bits, type)


def _float_fields(_: str, value: FloatAttr) -> Fields:
    bits = value.type.bits if isinstance(value.type, ElementType) else 64
    return value.type, (value.bits, bits)


def _struct(name: str, *values: Any) -> StructAttr:
    names = STRUCTS[name]
    return StructAttr("stablehlo", name, tuple(zip(names, values, strict=True)))


def _struct_fields(name: str, value: StructAttr) -> Fields:
    found = dict(value.fields)
    return [found[field] for field in STRUCTS[name]]


STRUCTS: Final[dict[str, tuple[str, ...]]] = {
    "output_operand_alias": (
        "output_tuple_indices",
        "operand_index",
        "operand_tuple_indices",
    ),
    "bounds": ("bounds",),
    "sub_axis_info": ("pre_size", "size"),
    "mesh_axis": ("name", "size"),
    "dot_algorithm": ALGORITHM,
    **{name: tuple(EMPTY[name]) for name in ("channel_handle", "conv", "dot", "gather", "scatter")},
}
"""Field names of each structure, by its name, in the order of bytecode."""


def _free(name: str, *values: Any) -> StructAttr:
    return sparse_struct("stablehlo", name, dict(zip(STRUCTS[name], values, strict=True)))


def _free_fields(name: str, value: StructAttr) -> Fields:
    found = dict(value.fields)
    names = STRUCTS[name]
    return [found.get(field, 0 if field == "index_vector_dim" else ()) for field in names]


def _algorithm(_: str, *values: Any) -> StructAttr:
    *rest, imprecise = values
    types = [TypeAttr(type) for type in rest[:3]]
    fields = [*types, *rest[3:], _bool("", imprecise)]
    return StructAttr(
        "stablehlo", "dot_algorithm", tuple(zip(STRUCTS["dot_algorithm"], fields, strict=True))
    )


def _algorithm_fields(_: str, value: StructAttr) -> Fields:
    *types_and_counts, imprecise = [field for _, field in value.fields]
    plain = [field.type if isinstance(field, TypeAttr) else field for field in types_and_counts]
    return [*plain, int(imprecise == BoolAttr(True))]


def _accuracy(_: str, atol: int, rtol: int, ulps: int, mode: object) -> StructAttr:
    if not isinstance(mode, EnumAttr) or mode.name != "result_accuracy_mode":
        raise ValueError("a mode of accuracy is needed")
    f64 = ELEMENTS["f64"]
    fields: list[tuple[str, Any]] = [
        (name, FloatAttr(bits, f64))
        for name, bits in (("atol", atol), ("rtol", rtol))
        if bits not in (0, _SIGN)
    ]
    if ulps:
        fields.append(("ulps", ulps))
    return StructAttr("stablehlo", "result_accuracy", (*fields, ("mode", mode)))


def _accuracy_fields(_: str, value: StructAttr) -> Fields:
    found: dict[str, Any] = dict(value.fields)
    tolerances = [found[n].bits if n in found else 0 for n in ("atol", "rtol")]
    return [*tolerances, found.get("ulps", 0), found["mode"]]


def _with_part(name: StringAttr, part: StructAttr | None) -> StructAttr:
    text_of(name)
    if part is not None and not _is_struct(part, "sub_axis_info"):
        raise ValueError("a part of an axis is needed")
    fields: tuple[tuple[str, Any], ...] = (("name", name),)
    return StructAttr(
        "stablehlo", "axis_ref", fields if part is None else (*fields, ("sub_axis_info", part))
    )


def _is_struct(value: object, name: str) -> bool:
    return isinstance(value, StructAttr) and value.name == name


def _mesh_axis(_: str, name: StringAttr, size: int) -> StructAttr:
    text_of(name)
    return _struct("mesh_axis", name, size)


def _mesh(_: str, axes: object, ids: object) -> StructAttr:
    if not isinstance(axes, ArrayAttr) or not all(
        _is_struct(a, "mesh_axis") for a in axes.elements
    ):
        raise ValueError("axes of a mesh are needed")
    if ids is not None and not isinstance(ids, DenseAttr):
        raise ValueError("numbers of devices are needed")
    fields: list[tuple[str, Any]] = [("axes", axes)]
    if ids is not None:
        fields.append(("device_ids", ids))
    return StructAttr("stablehlo", "mesh", tuple(fields))


def _mesh_fields(_: str, value: StructAttr) -> Fields:
    return value.get("axes"), value.get("device_ids")


def _mesh_axes(_: str, mesh: object, axes: object) -> StructAttr:
    if isinstance(mesh, StringAttr):
        mesh = SymbolAttr(mesh.text)
    if isinstance(axes, tuple):
        axes = ArrayAttr(axes)
    if not isinstance(mesh, SymbolAttr) and not _is_struct(mesh, "mesh"):
        raise ValueError("a mesh or its name is needed")
    if not isinstance(axes, ArrayAttr) or not all(_is_struct(a, "axis_ref") for a in axes.elements):
        raise ValueError("axes of a mesh are needed")
    fields: tuple[tuple[str, Any], ...] = (("mesh", mesh), ("axes", axes))
    return StructAttr("stablehlo", "replica_group_mesh_axes", fields)


def _mesh_axes_fields(_: str, value: StructAttr) -> Fields:
    mesh = value.get("mesh")
    if isinstance(mesh, SymbolAttr):
        mesh = StringAttr.of(mesh.root)
    return mesh, value.get("axes")


def _mesh_axes_list_fields(_: str, value: StructAttr) -> Fields:
    axes = value.get("axes")
    return value.get("mesh"), axes.elements if isinstance(axes, ArrayAttr) else ()


def _symbol(_: str, root: StringAttr) -> SymbolAttr:
    return SymbolAttr(text_of(root))


def _nested_symbol(_: str, root: StringAttr, nested: Fields) -> SymbolAttr:
    if not all(isinstance(one, SymbolAttr) for one in nested):
        raise ValueError("symbols are needed")
    return SymbolAttr(text_of(root), tuple([one.root for one in nested]))


def _nested_symbol_fields(_: str, value: SymbolAttr) -> Fields:
    return StringAttr.of(value.root), tuple([SymbolAttr(one) for one in value.nested])


ATTRIBUTE_ENCODINGS: Final[dict[str, Encoding]] = {
    "array": wrap(ArrayAttr, "elements"),
    "bool": Encoding(_bool, lambda _, value: (int(value.value),)),
    "dict": Encoding(_dictionary, _dictionary_fields),
    "enum": Encoding(_enum, _enum_fields),
    "chlo_enum": Encoding(
        lambda name, value: EnumAttr("chlo", name, _enum_value(name, value)), _enum_fields
    ),
    "float": Encoding(_float, _float_fields),
    "integer": Encoding(_integer, _integer_fields),
    "struct": Encoding(_struct, _struct_fields),
    "free": Encoding(_free, _free_fields),
    "algorithm": Encoding(_algorithm, _algorithm_fields),
    "string": wrap(StringAttr, "value"),
    "typed_string": Encoding(lambda _, v, t: StringAttr(v, t), lambda _, a: (a.value, a.type)),
    "type": wrap(TypeAttr, "type"),
    "accuracy": Encoding(_accuracy, _accuracy_fields),
    "axis_ref": Encoding(
        lambda _, name, part: _with_part(name, part),
        lambda _, value: (value.get("name"), value.get("sub_axis_info")),
    ),
    "named_axis_ref": Encoding(
        lambda _, name, part: _with_part(StringAttr(name), part),
        lambda _, value: (value.get("name").value, value.get("sub_axis_info")),
    ),
    "named_axis": Encoding(
        lambda _, name, size: _mesh_axis("", StringAttr(name), size),
        lambda _, value: (value.get("name").value, value.get("size")),
    ),
    "mesh": Encoding(_mesh, _mesh_fields),
    "mesh_axes": Encoding(_mesh_axes, _mesh_axes_fields),
    "mesh_axes_list": Encoding(_mesh_axes, _mesh_axes_list_fields),
    "symbol": Encoding(_symbol, lambda _, value: (StringAttr.of(value.root),)),
    "nested_symbol": Encoding(_nested_symbol, _nested_symbol_fields),
    "sdy": Encoding(
        lambda name, *values: StructAttr(
            "sdy", name, tuple(zip(SDY_STRUCTS[name], values, strict=True))
        ),
        lambda name, value: [field for _, field in value.fields],
    ),
    "unit": only(UnitAttr()),
}
"""Encodings of attributes, by the names that the tables of bytecode use for them."""


# --------------------------------------------------------------------------------------------------
# Encodings of attributes with many elements.


def _count(type: object) -> tuple[ElementType, int]:
    if not isinstance(type, TensorType | VectorType) or None in type.sizes:
        raise ValueError("elements of a type whose sizes are not known")
    return type.element, prod(type.sizes)  # type: ignore[arg-type]


def _dense(kind: str, type: TensorType, data: bytes | memoryview) -> DenseAttr:
    element, count = _count(type)
    if element == I1:
        return DenseAttr(_truths(data, count, kind), type)
    parts = 2 if element.kind == "complex" else 1
    width = parts * -(-element.bits // parts // 8)
    if element.kind in ("opaque", "quantized") or not width:
        raise ValueError(f"elements of type {element.name} are not numbers")
    if len(data) not in (width * count, width):
        raise ValueError(f"{len(data):,} bytes for {count:,} elements of {width}")
    if element.bits < 8:
        mask = (1 << element.bits) - 1
        data = bytes([byte & mask for byte in data])
    return DenseAttr(data, type)


def _truths(data: bytes | memoryview, count: int, kind: str) -> bytes:
    """Return one byte for each element of a packed `i1` literal; a single byte if all are equal.

    Bytecode packs eight elements into a byte. Old writers have a byte for each, or 0xFF for a
    splat. `count` is the number of elements, `kind` names the literal in errors.
    """
    packed = -(-count // 8)
    if not count and not data:
        return b""
    # The order of these tests matters: one byte may be a splat (0 or 0xFF), one value, or up to
    # eight packed values. Only lengths that fit none of those are a byte for each value.
    if len(data) == 1 and (data[0] in (0, 0xFF) or count == 1):
        return bytes([data[0] & 1])
    if len(data) == packed and len(data) != count:
        digits = f"{int.from_bytes(data, 'little'):0{packed * 8}b}"[::-1][:count]
        return bytes(map(int, digits))
    if len(data) == count or (len(data) == 1 and count):
        return bytes([byte & 1 for byte in data])
    raise ValueError(f"{len(data):,} bytes for {count:,} truth values")


def _dense_fields(kind: str, value: DenseAttr) -> Fields:
    found = elements(value)
    element, count = _count(value.type)
    if element != I1:
        return value.type, found.raw
    if not count:
        return value.type, b""
    if count > 1 and not found.splat:
        digits = "".join("1" if byte else "0" for byte in reversed(bytes(found.raw)))
        return value.type, int(digits, 2).to_bytes(-(-count // 8), "little")
    # MLIR writes a splat as 0xFF, but VHLO a single value as 1.
    single = 1 if count == 1 and kind != "builtin" else 0xFF
    return value.type, bytes([single if found.raw[0] else 0])


def _dense_array(_: str, element: ElementType, size: int, data: bytes | memoryview) -> Any:
    width = -(-element.bits // 8) if isinstance(element, ElementType) else 0
    if not width or len(data) != width * size:
        raise ValueError(f"{len(data):,} bytes for {size:,} elements of {width}")
    if element == I1 and any(byte > 1 for byte in data):
        raise ValueError("a truth value is neither 0 nor 1")
    signed = element.kind == "signed"
    parts = [bytes(data[at : at + width]) for at in range(0, len(data), width)]
    values = tuple([int.from_bytes(part, "little", signed=signed) for part in parts])
    return DenseArrayAttr(element, values)


def _dense_array_fields(_: str, value: DenseArrayAttr) -> Fields:
    element = value.element
    width = -(-element.bits // 8) if isinstance(element, ElementType) else 8
    mask = (1 << 8 * width) - 1
    data = b"".join([(one & mask).to_bytes(width, "little") for one in value.values])
    return element, len(value.values), data


ELEMENT_ENCODINGS: Final[dict[str, Encoding]] = {
    "dense": Encoding(_dense, _dense_fields),
    "dense_builtin": Encoding(
        lambda _, type, data: _dense("builtin", type, data),
        lambda _, value: _dense_fields("builtin", value),
    ),
    "dense_array": Encoding(_dense_array, _dense_array_fields),
}
"""Encodings of literals, by the names that the tables of bytecode use for them."""
