"""Encodings of attributes with many elements."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from hloscope.bytecode.ways import Fields, Way
from hloscope.ir import ElementType, TensorType, VectorType
from hloscope.mlir import I1, DenseArrayAttr, DenseAttr, elements


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
    """Return a byte for each truth value; one byte if all are equal.

    Bytecode packs eight values into a byte. Old writers have a byte for each value, or 0xFF for a
    splat.
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


ELEMENT_WAYS: Final[dict[str, Way]] = {
    "dense": Way(_dense, _dense_fields),
    "dense_builtin": Way(
        lambda _, type, data: _dense("builtin", type, data),
        lambda _, value: _dense_fields("builtin", value),
    ),
    "dense_array": Way(_dense_array, _dense_array_fields),
}
"""Encodings by the name that table rows give them."""
