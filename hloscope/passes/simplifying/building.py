"""Last steps of simplifications: replace an operation by a value or by a new operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hloscope.ir import Dims, TensorType, compatible
from hloscope.mlir import I64, Attribute, DenseArrayAttr, DenseAttr, Operation, Value
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.attributes import merge
from hloscope.stablehlo import made


def dims(values: Sequence[int]) -> DenseArrayAttr:
    """Return `array<i64: …>` of these values."""
    return DenseArrayAttr(I64, tuple(values))


def becomes_value(
    rewriter: Rewriter, operation: Operation, value: Value, *, merges: bool = False
) -> bool:
    """Replace the only result by a value of the same type; false if the type differs."""
    if len(operation.results) != 1 or operation.results[0].type != value.type:
        return False
    if value is operation.results[0]:
        return False
    if merges:
        merge(rewriter, operation, value)
    rewriter.replace(operation, [value])
    return True


def becomes(
    rewriter: Rewriter,
    operation: Operation,
    name: str,
    operands: Sequence[Value],
    properties: Mapping[str, Attribute],
    *,
    merges: bool = False,
    infers: bool = False,
) -> bool:
    """Replace an operation by a new one with a result of the same type.

    Args:
        rewriter: The rewriter of the module.
        operation: The replaced operation.
        name: Name of the new op.
        operands: Operands of the new op.
        properties: Inherent attributes of the new op.
        merges: Copy the discardable attributes?
        infers: Check that the new op may have this type, which depends on its constants.  If not,
            the program cannot run, and nothing is changed.
    """
    # The declared type may be less specific than the inferred one, but must not contradict it.
    if infers:
        (type,) = [value.type for value in made(name, operands, properties).results]
        if not compatible(type, operation.result.type):
            return False
    new = rewriter.create(
        name,
        operands,
        properties,
        before=operation,
        types=[operation.result.type],
        attributes=dict(operation.attributes) if merges else {},
    )
    rewriter.replace(operation, new.results)
    return True


def becomes_splat(rewriter: Rewriter, operation: Operation, value: int) -> bool:
    """Replace by a constant of equal elements: 0, or 1 for booleans and integers."""
    type = operation.result.type
    if not isinstance(type, TensorType) or not type.is_static or not type.element.numpy:
        return False
    if value and type.element.kind not in ("pred", "signed", "unsigned"):
        return False
    width = -(-type.element.bits // 8) if type.num_elements else 0
    raw = value.to_bytes(width, "little") if width else b""
    rewriter.replace(operation, [rewriter.constant(DenseAttr(raw, type), type, before=operation)])
    return True


def is_identity(dimensions: Dims) -> bool:
    """Are the dimensions 0, 1, 2 and so on, in order?"""
    return dimensions == tuple(range(len(dimensions)))


def same_static_count(one: TensorType | None, other: TensorType | None) -> bool:
    """Have two static types the same number of elements?"""
    if one is None or other is None or not one.is_static or not other.is_static:
        return False
    return one.num_elements == other.num_elements
