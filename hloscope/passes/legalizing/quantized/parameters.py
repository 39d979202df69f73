"""Quantised types: what stands for them, and their parameters as constants."""

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
    """The quantised type of an array's elements, if they are quantised."""
    if isinstance(type, TensorType) and isinstance(type.element, QuantizedType):
        return type.element
    return None


def storage_of(type: Type) -> Type:
    """The type with the integers that are stored; others as they are."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.storage)


def expressed_of(type: Type) -> Type:
    """The type with the numbers that are meant; others as they are."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.expressed)


def as_elements(type: Type, element: ElementType) -> TensorType:
    """An array of other elements."""
    assert isinstance(type, TensorType)
    return TensorType(element, type.sizes, None, type.bounds, type.encoding)


def stored(rewriter: Rewriter, op: Operation) -> list[Value]:
    """The operands as the integers that are stored."""
    return [converted(rewriter, v, storage_of(v.type), before=op) for v in op.operands]


def has_quantized(op: Operation) -> bool:
    """Is an operand or a result quantised?"""
    return any(quantized(value.type) is not None for value in (*op.operands, *op.results))


def numbers(
    rewriter: Rewriter,
    values: Sequence[float],
    element: ElementType,
    *,
    per_axis: bool,
    before: Operation,
) -> Value:
    """A constant of `f32` or `i32`, with one dimension if there is one for each slice."""
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
    """Scales, zero points (of this element type), and along which dimension they are broadcast."""
    axis = type.is_per_axis
    scales = numbers(rewriter, type.scales, F32, per_axis=axis, before=before)
    zeros = numbers(rewriter, type.zero_points, zero_points, per_axis=axis, before=before)
    return scales, zeros, along(type)


def along(type: QuantizedType) -> dict[str, Attribute]:
    """The attribute that broadcasts along the quantised dimension."""
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
    """An op of CHLO that broadcasts."""
    return rewriter.create(
        f"chlo.broadcast_{name}", values, properties or {}, before=before, types=(type,)
    ).result


def convert(rewriter: Rewriter, value: Value, type: TensorType, *, before: Operation) -> Value:
    """`stablehlo.convert`."""
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(type,)).result


def rounded(
    rewriter: Rewriter, value: Value, type: QuantizedType, *, clamps: bool, before: Operation
) -> Value:
    """Numbers in storage units, to the nearest integer, those out of range to the limits."""
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
