"""Text of types, constants, shardings, metadata and replica groups, from protos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from hloscope.errors import ParseError
from hloscope.hlo_parser.literals import print_literal
from hloscope.hlo_parser.proto.wire import Message, tag_of
from hloscope.hlo_parser.types import joined, parse_type
from hloscope.hlo_parser.values import quote
from hloscope.ir import TensorType, TupleType, Type, Value, numpy_dtype
from hloscope.support.arrays import np
from hloscope.support.limits import MOST_DIMENSIONS

# --------------------------------------------------------------------------------------------------
# Text of shardings, meshes, replica groups, metadata and lists of names, from protos.


_TUPLE_SHARDING: Final = 2
_MAXIMAL: Final = 1
_TILED: Final = 3
_WHOLE: Final = {0: "replicated", 4: "manual", 5: "unknown", 6: "unreduced"}
_GROUPS: Final = {0: " shard_as ", 1: " shard_like "}


def numbers(values: Sequence[int]) -> str:
    """Return integers separated by commas: `1,2`."""
    return ",".join(map(str, values))


_METADATA: Final[dict[str, Callable[[Any], str]]] = {
    **dict.fromkeys(("op_type", "op_name", "source_file"), quote),
    **dict.fromkeys(("source_line", "source_end_line", "source_column", "source_end_column"), str),
    "profile_type": lambda types: f"{{{numbers(types)}}}",
    **dict.fromkeys(("deduplicated_name", "scheduling_name"), quote),
    "size_of_generated_code_in_bytes": str,
    "size_of_memory_working_set_in_bytes": str,
    "stack_frame_id": str,
}
"""Functions that print the fields of metadata, in the order of the text."""
_OWN: Final = frozenset(("scheduling_name", "deduplicated_name"))
"""Fields that differ between most instructions, so that their texts are not cached."""
_ORDER: Final = list(_METADATA)
_PLACE: Final = _ORDER.index("scheduling_name")
_BEFORE_NAME, _AFTER_NAME = frozenset(_ORDER[:_PLACE]), frozenset(_ORDER[_PLACE + 1 :])
_SCHEDULING_NAME: Final = tag_of("OpMetadata", "scheduling_name")


def metadata_text(metadata: Message) -> str:
    """Return the text of metadata: `{op_name="f" source_line=3}`.

    Source: XLA's `OpMetadataToString`.
    """
    known, data = metadata.file.metadata, metadata.data
    text = known.get(data)
    if text is None:
        text = known[data] = _metadata_text(metadata)
    return text


def source_text(ins: Message) -> str:
    """Return the text of an instruction's metadata; empty if it has none.

    In most dumps the metadata ends with the instruction's own name. The bytes before it are the
    same for many instructions, so their text is cached.
    """
    name, data = ins.field_bytes("name"), ins.field_bytes("metadata")
    if not name or not data or len(name) > 127:
        return _whole_metadata_text(ins)
    own = _SCHEDULING_NAME + bytes((len(name),)) + name
    if not data.endswith(own):
        return _whole_metadata_text(ins)
    before, known = data[: -len(own)], ins.file.metadata_halves
    halves = known.get(before)
    if halves is None:
        try:
            halves = known[before] = _halves(ins["metadata"].without_end(len(own)))
        except ParseError:  # those bytes are the end of another field
            return _whole_metadata_text(ins)
    return f"{{{halves[0]}scheduling_name={quote(ins['name'])}{halves[1]}}}"


def _whole_metadata_text(ins: Message) -> str:
    text = metadata_text(ins["metadata"]) if ins.is_set("metadata") else ""
    return text if text != "{}" else ""


def _halves(metadata: Message) -> tuple[str, str]:
    """Return the text of metadata before, and the text after, the field `scheduling_name`."""
    parts = _parts(metadata)
    first = [text for name, text in parts if name in _BEFORE_NAME]
    last = [text for name, text in parts if name in _AFTER_NAME]
    return "".join([f"{text} " for text in first]), "".join([f" {text}" for text in last])


def _metadata_text(metadata: Message) -> str:
    return f"{{{' '.join([text for _, text in _parts(metadata)])}}}"


def _parts(metadata: Message) -> list[tuple[str, str]]:
    """Return the name and the text of each field of metadata that is printed, in order."""
    parts, known = [], metadata.file.metadata_fields
    given = metadata.present_fields
    for name, write in _METADATA.items():
        if name not in given:
            continue
        key = name, metadata.field_bytes(name)
        text = known.get(key)
        if text is None:
            value = metadata[name]
            text = f"{name}={write(value)}" if value else ""
            if key[1] is not None and name not in _OWN:
                known[key] = text
        if text:
            parts.append((name, text))
    return parts


def sharding_text(sharding: Message) -> str:
    """Return the text of a sharding, with its braces.

    Raises:
        UnsupportedError: The sharding has an unknown kind.
    """
    if sharding["type"] == _TUPLE_SHARDING:
        return f"{{{', '.join(map(sharding_text, sharding['tuple_shardings']))}}}"
    if "named_sharding" in sharding:
        return _named(sharding["named_sharding"])
    tail = ""
    if sharding["is_shard_group"]:
        tail += sharding.word("shard_group_type", _GROUPS) + str(sharding["shard_group_id"])
    tail += _metadata(sharding)
    if sharding["type"] == _MAXIMAL:
        return f"{{maximal device={numbers(sharding['tile_assignment_devices'])}{tail}}}"
    if sharding["type"] != _TILED:
        return f"{{{sharding.word('type', _WHOLE)}{tail}}}"
    devices = f"devices=[{numbers(sharding['tile_assignment_dimensions'])}]"
    devices += _iota(sharding) or numbers(sharding["tile_assignment_devices"])
    if sharding["replicate_on_last_tile_dim"]:
        devices += " last_tile_dim_replicate"
    if kinds := sharding["last_tile_dims"]:
        if not set(kinds) <= set(_WHOLE):
            sharding.refuse("last_tile_dims", f"kinds {kinds} are not known")
        devices += f" last_tile_dims={{{', '.join(_WHOLE[kind] for kind in kinds)}}}"
    return f"{{{devices}{tail}}}"


def _metadata(sharding: Message) -> str:
    parts = list(map(metadata_text, sharding["metadata"]))
    if len(parts) == 1:
        return f" metadata={parts[0]}"
    return f" metadata={{{', '.join(parts)}}}" if parts else ""


def _iota(
    devices: Message, dims: str = "iota_reshape_dims", by: str = "iota_transpose_perm"
) -> str:
    """Return the text `<=[sizes]T(permutation)` of a list of devices; empty if it is no iota.

    `dims` and `by` are the names of the fields with the sizes and the permutation.
    """
    if not devices[dims]:
        return ""
    order = devices[by]
    turned = f"T({numbers(order)})" if list(order) != list(range(len(order))) else ""
    return f"<=[{numbers(devices[dims])}]{turned}"


def _mesh(mesh: Message) -> str:
    axes = ",".join(f"'{axis['name']}'={axis['size']}" for axis in mesh["axes"])
    text = f"mesh[{axes}]"
    if "iota_transform" in mesh:
        iota = _iota(mesh["iota_transform"], "reshape_dims", "transpose_perm")
        return f"{text}, device_ids=({iota.removeprefix('<=')})"
    return f"{text}, device_ids=({numbers(mesh['device_ids'])})" if mesh["device_ids"] else text


def _axis(ref: Message, mesh: Message) -> str:
    axes, number = mesh["axes"], ref["mesh_axis_index"]
    if not 0 <= number < len(axes):
        ref.fail("mesh_axis_index", f"axis {number} of {len(axes)}")
    part = ref["sub_axis_info"]
    size = f":({part['pre_size']}){part['size']}" if "sub_axis_info" in ref else ""
    return f"'{axes[number]['name']}'{size}"


def _axes(refs: Sequence[Message], mesh: Message) -> list[str]:
    return [_axis(ref, mesh) for ref in refs]


def _named(sharding: Message) -> str:
    mesh = sharding["mesh"]
    dimensions = (
        ", ".join([*_axes(one["axes"], mesh), *(() if one["is_closed"] else ("?",))])
        for one in sharding["dim_shardings"]
    )
    parts = [_mesh(mesh), f"[{', '.join(f'{{{one}}}' for one in dimensions)}]"]
    parts += [
        f"{role}={{{', '.join(_axes(sharding[f'{role}_axes'], mesh))}}}"
        for role in ("replicated", "unreduced", "manual")
        if sharding[f"{role}_axes"]
    ]
    return f"{{{', '.join(parts)}{_metadata(sharding)}}}"


def groups_text(ins: Message) -> str | None:
    """Return the text of a collective's replica groups in the notation of the proto."""
    if "mesh_axes_replica_group_list" in ins:
        groups = ins["mesh_axes_replica_group_list"]
        mesh = groups["mesh"]
        return f"{_mesh(mesh)} {{{','.join(_axes(groups['axes'], mesh))}}}"
    devices = ins["collective_device_list"]
    iotas = (ins["iota_collective_device_list"], devices["iota_replica_group_list"])
    for iota in iotas:
        if iota["iota_reshape_dims"]:
            size = f"[{iota['num_replica_groups']},{iota['num_devices_per_group']}]"
            return size + _iota(iota)
    listed = devices["replica_groups"] or ins["replica_groups"]
    texts = (f"{{{numbers(group['replica_ids'])}}}" for group in listed)
    return f"{{{','.join(texts)}}}"


# --------------------------------------------------------------------------------------------------
# Text of types, from `ShapeProto` and `LayoutProto`.


ELEMENTS: Final = {
    number: name
    for row in """
        1 pred 2 s8 3 s16 4 s32 5 s64 6 u8 7 u16 8 u32 9 u64 10 f16 11 f32 12 f64 15 c64 16 bf16
        18 c128 19 f8e5m2 20 f8e4m3fn 21 s4 22 u4 23 f8e4m3b11fnuz 24 f8e5m2fnuz 25 f8e4m3fnuz
        26 s2 27 u2 28 f8e4m3 29 f8e3m4 30 s1 31 u1 32 f4e2m1fn 33 f8e8m0fnu 35 f6e3m2fn
        36 f6e2m3fn
    """.splitlines()
    for number, name in zip(map(int, row.split()[::2]), row.split()[1::2], strict=True)
}
"""Names of element types by their numbers in protos.

Source: XLA's `PrimitiveType`.
"""

_TUPLE, _OPAQUE, _TOKEN, _BUFFER = 13, 14, 17, 34
_UNBOUNDED: Final = -(1 << 63)
_LEVELS: Final = {0: "D", 1: "C", 2: "S", 3: "H"}
_INDICES: Final = {0: ""} | {6: "u8", 7: "u16", 8: "u32", 9: "u64"}


def shape_text(shape: Message) -> str:
    """Return the text of the type that a `ShapeProto` describes.

    Raises:
        ParseError, UnsupportedError: The message is not a type, or has an unsupported one.
    """
    known, data = shape.file.types, shape.data
    text = known.get(data)
    if text is None:
        text = known[data] = _text(shape)
    return text


def _text(shape: Message) -> str:
    kind = shape["element_type"]
    if kind == _TUPLE:
        return f"({joined([shape_text(part) for part in shape['tuple_shapes']])})"
    if kind == _TOKEN:
        return "token[]"
    if kind == _OPAQUE:
        return "opaque[]"
    if kind == _BUFFER:
        if len(shape["tuple_shapes"]) != 1:
            shape.fail("tuple_shapes", "a buffer has one shape")
        return f"b({shape_text(shape['tuple_shapes'][0])})"
    element = shape.word("element_type", ELEMENTS)
    sizes, dynamic = shape["dimensions"], shape["is_dynamic_dimension"]
    if dynamic and len(dynamic) != len(sizes):
        shape.fail("is_dynamic_dimension", f"{len(dynamic)} for {len(sizes)} dimensions")
    texts = []
    for size, open_ in zip(sizes, dynamic or [False] * len(sizes), strict=True):
        if size < 0 and not (open_ and size == _UNBOUNDED):
            shape.fail("dimensions", f"a dimension of size {size}")
        texts.append("?" if size < 0 else f"<={size}" if open_ else str(size))
    layout = _layout(shape["layout"], len(sizes)) if "layout" in shape else ""
    return f"{element}[{','.join(texts)}]{layout}"


def _layout(layout: Message, rank: int) -> str:
    order = layout["minor_to_major"]
    if sorted(order) != list(range(rank)):
        layout.fail("minor_to_major", f"{order} is not an order of {rank} dimensions")
    parts = _levels(layout)
    tiles = (
        ",".join("*" if size == _UNBOUNDED else str(size) for size in tile["dimensions"])
        for tile in layout["tiles"]
    )
    if tile_text := "".join(f"({tile})" for tile in tiles):
        parts.append(f"T{tile_text}")
    if layout["tail_padding_alignment_in_elements"] > 1:
        parts.append(f"L({layout['tail_padding_alignment_in_elements']})")
    if layout["index_primitive_type"]:
        parts.append(f"#({layout.word('index_primitive_type', _INDICES)})")
    if layout["pointer_primitive_type"]:
        parts.append(f"*({layout.word('pointer_primitive_type', _INDICES)})")
    if layout["element_size_in_bits"]:
        parts.append(f"E({layout['element_size_in_bits']})")
    if layout["memory_space"]:
        parts.append(f"S({layout['memory_space']})")
    if layout["split_configs"]:
        configs = (
            f"({config['dimension']}:{','.join(map(str, config['split_indices']))})"
            for config in layout["split_configs"]
        )
        parts.append(f"SC{''.join(configs)}")
    if "physical_shape" in layout:
        parts.append(f"P({shape_text(layout['physical_shape'])})")
    if layout["dynamic_shape_metadata_prefix_bytes"]:
        parts.append(f"M({layout['dynamic_shape_metadata_prefix_bytes']})")
    tail = f":{''.join(parts)}" if parts else ""
    return f"{{{','.join(map(str, order))}{tail}}}" if order or parts else ""


def _levels(layout: Message) -> list[str]:
    levels = [_LEVELS.get(level, "") for level in layout["dim_level_types"]]
    if not levels:
        return []
    unique = layout["dim_unique"] or [True] * len(levels)
    ordered = layout["dim_ordered"] or [True] * len(levels)
    if "" in levels or not len(levels) == len(unique) == len(ordered):
        layout.refuse("dim_level_types", "these level types are not known")
    marks = (
        f"{level}{'' if one else '+'}{'' if sorted_ else '~'}"
        for level, one, sorted_ in zip(levels, unique, ordered, strict=True)
    )
    return [f"D({','.join(marks)})"]


# --------------------------------------------------------------------------------------------------
# Text of constants, from `LiteralProto`.


_LISTED: Final = {"pred": "preds"} | {
    name: f"{name}s" for name in ("s32", "s64", "u32", "u64", "f32", "f64", "c64", "c128")
}
"""Fields with the values of a literal, for element types whose field is a list of numbers.

Other types have a field of bytes.
"""
_LARGEST: Final = 16
"""Maximum bytes of an element of any type."""


def literal_text(literal: Message) -> str:
    """Return the text of a literal; `{...}` if its values are omitted.

    Values are also omitted once the literals of the file have too many elements, as XLA omits long
    ones when it prints text.

    Raises:
        ParseError: The values do not fill the shape.
        UnsupportedError: The literal has a part without a textual form.
    """
    type_ = parse_type(shape_text(literal["shape"]))
    if literal["dynamic_sizes"]:
        literal.refuse("dynamic_sizes", "literals of dynamic sizes are not read")
    value = _value(literal, type_)
    return "{...}" if value is None else print_literal(type_, value)


def literal_arrays(literal: Message) -> Value | None:
    """Return the array of a literal, or nested tuples of arrays; `None` if values are omitted.

    Raises:
        ParseError: The values do not fill the shape.
        UnsupportedError: The shape is not supported.
    """
    return _value(literal, parse_type(shape_text(literal["shape"])))


def _value(literal: Message, type_: Type) -> Value | None:
    """Return the array of a literal, or nested tuples of arrays.

    `None` if the values are omitted or more than `MOST_ELEMENTS`. `type_` is the type of the
    literal.
    """
    if isinstance(type_, TupleType):
        parts = literal["tuple_literals"]
        if len(parts) != len(type_.elements):
            literal.fail("tuple_literals", f"{len(parts)} for {len(type_.elements)} elements")
        values = []
        for part, element in zip(parts, type_.elements, strict=True):
            value = _value(part, element)
            if value is None:
                return None
            values.append(value)
        return tuple(values)
    if not isinstance(type_, TensorType) or type_.bounds:
        literal.refuse("shape", "a literal of this shape is not read")
    array: Value | None = _array(literal, type_)
    return array


def _array(literal: Message, type_: TensorType) -> Any:
    name = type_.element.name
    field = _LISTED.get(name, f"{name}s")
    count = prod(type_.shape)
    literal.file.elements -= max(prod(type_.shape[:k]) for k in range(type_.rank + 1))
    if literal.file.elements < 0 or (count and field not in literal):
        return None
    if literal.size(field) > _LARGEST * count:
        literal.fail(field, "the values do not fill the shape")
    dtype = numpy_dtype(type_.element)
    if field not in _LISTED.values():
        flat = _from_bytes(literal[field], type_)
    else:
        values = literal.numbers(field)
        if name in ("c64", "c128"):
            flat = values.view(dtype) if len(values) % 2 == 0 else None
        else:
            flat = values.astype(dtype)
            if values.dtype.kind in "iu" and (flat != values).any():
                literal.fail(field, f"a value is no {name}")
    if flat is None or len(flat) != count:
        literal.fail(field, "the values do not fill the shape")
    order = type_.layout.minor_to_major[::-1] if type_.layout else tuple(range(type_.rank))
    if type_.rank > MOST_DIMENSIONS:
        literal.refuse("shape", f"a literal of {type_.rank} dimensions is not read")
    stored = flat.reshape([type_.shape[dim] for dim in order])
    return stored.transpose([order.index(dim) for dim in range(type_.rank)])


def _from_bytes(data: bytes, type_: TensorType) -> Any:
    """Return the elements in `data` as a one-dimensional array; `None` if an element is incomplete.

    They are little-endian and of the element type of `type_`. An element of under 8 bits is in the
    low bits of its byte.
    """
    bits, dtype = type_.element.bits, numpy_dtype(type_.element)
    raw = np.frombuffer(data, np.uint8)
    if bits >= 8:
        whole = len(raw) % dtype.itemsize == 0
        return raw.view(dtype.newbyteorder("<")).astype(dtype) if whole else None
    parts = raw & (1 << bits) - 1
    if type_.element.kind == "signed":
        signed = parts.astype(np.int8)
        return np.where(signed >> bits - 1, signed - (1 << bits), signed).astype(dtype)
    return parts.astype(dtype) if type_.element.kind == "unsigned" else parts.view(dtype)
