"""Text of constants, from `LiteralProto`."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from hloscope.arrays import np
from hloscope.hlo_parser.literals import print_literal
from hloscope.hlo_parser.proto.shapes import shape_text
from hloscope.hlo_parser.proto.wire import Message
from hloscope.hlo_parser.types import parse_type
from hloscope.ir import TensorType, TupleType, Type, Value, numpy_dtype
from hloscope.limits import MOST_DIMENSIONS

_LISTED: Final = {"pred": "preds"} | {
    name: f"{name}s" for name in ("s32", "s64", "u32", "u64", "f32", "f64", "c64", "c128")
}
"""Element types whose values are lists of numbers; others are bytes."""
_LARGEST: Final = 16
"""Maximum bytes of an element."""


def literal_text(literal: Message) -> str:
    """Return the text of a literal; `{...}` if its values are omitted.

    Values are also omitted after the file's literals have too many elements, as XLA omits long ones
    when it prints text.

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
    """Return the arrays of a literal, in tuples by its shape; `None` if values are omitted.

    Raises:
        ParseError: The values do not fill the shape.
        UnsupportedError: The shape is not supported.
    """
    return _value(literal, parse_type(shape_text(literal["shape"])))


def _value(literal: Message, type_: Type) -> Value | None:
    """Return the arrays; `None` if values are omitted or too many."""
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
    """Return the array of little-endian elements; a narrow one has the low bits of its byte."""
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
