"""Text of types, from `ShapeProto` and `LayoutProto`."""

from __future__ import annotations

from typing import Final

from hloscope.hlo_parser.printer import joined
from hloscope.hlo_parser.proto.wire import Message

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
"""Element types by their numbers.  Source: XLA's `PrimitiveType`."""

_TUPLE, _OPAQUE, _TOKEN, _BUFFER = 13, 14, 17, 34
_UNBOUNDED: Final = -(1 << 63)
_LEVELS: Final = {0: "D", 1: "C", 2: "S", 3: "H"}
_INDICES: Final = {0: ""} | {6: "u8", 7: "u16", 8: "u32", 9: "u64"}


def shape_text(shape: Message) -> str:
    """Return the text of a type.

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
