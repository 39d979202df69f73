"""Quantized types: stored and expressed types, and parameters as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import ELEMENT_TYPES, ElementType, QuantizedType, TensorType, Type, encode
from hloscope.mlir import Attribute, DenseAttr, Operation, Value
from hloscope.passes.conversion import converted
from hloscope.passes.legalizing.making import integers, shaped
from hloscope.passes.rewriting import Rewriter

F32: Final = ELEMENT_TYPES["f32"]
I32: Final = ELEMENT_TYPES["s32"]


def quantized(type: Type) -> QuantizedType | None:
    """Return the quantized element type of a tensor type; `None` for other types."""
    if isinstance(type, TensorType) and isinstance(type.element, QuantizedType):
        return type.element
    return None


def storage_of(type: Type) -> Type:
    """Return the type with stored integers; types that are not quantized are unchanged."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.storage)


def expressed_of(type: Type) -> Type:
    """Return the type with expressed floats; types that are not quantized are unchanged."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.expressed)


def as_elements(type: Type, element: ElementType) -> TensorType:
    """Return a tensor type with another element type."""
    assert isinstance(type, TensorType)
    return TensorType(element, type.sizes, None, type.bounds, type.encoding)


def stored(rewriter: Rewriter, op: Operation) -> list[Value]:
    """Return the operands as stored integers."""
    return [converted(rewriter, v, storage_of(v.type), before=op) for v in op.operands]


def has_quantized(op: Operation) -> bool:
    """Has an operand or result a quantized type?"""
    return any(quantized(value.type) is not None for value in (*op.operands, *op.results))


def numbers(
    rewriter: Rewriter,
    values: Sequence[float],
    element: ElementType,
    *,
    per_axis: bool,
    before: Operation,
) -> Value:
    """Create a constant of `f32` or `i32`: rank 1 for values per axis, else rank 0."""
    assert element in (F32, I32)
    if element == F32:
        raw = b"".join(encode(value, "f32").to_bytes(4, "little") for value in values)
    else:
        raw = b"".join((int(value) % (1 << 32)).to_bytes(4, "little") for value in values)
    if per_axis and len(set(values)) == 1:
        raw = raw[:4]
    type = shaped(element, len(values)) if per_axis else shaped(element)
    return rewriter.constant(DenseAttr(raw, type), type, before=before)


def parameters(
    rewriter: Rewriter, type: QuantizedType, zero_points: ElementType, *, before: Operation
) -> tuple[Value, Value, dict[str, Attribute]]:
    """Create constants of scales and zero points; return them with the broadcast attribute."""
    axis = type.is_per_axis
    scales = numbers(rewriter, type.scales, F32, per_axis=axis, before=before)
    zeros = numbers(rewriter, type.zero_points, zero_points, per_axis=axis, before=before)
    return scales, zeros, along(type)


def along(type: QuantizedType) -> dict[str, Attribute]:
    """Return the attribute that broadcasts along the quantized dimension; empty without one."""
    return {"broadcast_dimensions": integers(type.axes)} if type.is_per_axis else {}


def broadcast(
    rewriter: Rewriter,
    name: str,
    values: tuple[Value, Value],
    type: TensorType,
    properties: dict[str, Attribute] | None = None,
    *,
    before: Operation,
) -> Value:
    """Create a broadcasting op of CHLO."""
    return rewriter.create(
        f"chlo.broadcast_{name}", values, properties or {}, before=before, types=(type,)
    ).result


def convert(rewriter: Rewriter, value: Value, type: TensorType, *, before: Operation) -> Value:
    """Create a `stablehlo.convert`."""
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(type,)).result


def rounded(
    rewriter: Rewriter, value: Value, type: QuantizedType, *, clamps: bool, before: Operation
) -> Value:
    """Round values in storage units to the nearest integer, and clamp them if `clamps`."""
    own = value.type
    if clamps:
        low = numbers(rewriter, [type.storage_min], F32, per_axis=False, before=before)
        high = numbers(rewriter, [type.storage_max], F32, per_axis=False, before=before)
        value = rewriter.create(
            "stablehlo.clamp", (low, value, high), before=before, types=(own,)
        ).result
    return rewriter.create(
        "stablehlo.round_nearest_even", (value,), before=before, types=(own,)
    ).result
