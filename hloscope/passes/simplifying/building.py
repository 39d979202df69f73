"""What most simplifications end with: a value or a new operation in place of an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hloscope.ir import Dims, TensorType, compatible
from hloscope.mlir import I64, Attribute, DenseArrayAttr, DenseAttr, Operation, Value
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.attributes import merge
from hloscope.stablehlo import made


def dims(values: Sequence[int]) -> DenseArrayAttr:
    """`array<i64: …>`."""
    return DenseArrayAttr(I64, tuple(values))


def becomes_value(
    rewriter: Rewriter, operation: Operation, value: Value, *, merges: bool = False
) -> bool:
    """A value takes the place of the only result, if it is of the same type."""
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
    """A new operation with a result of the same type takes the place of one.

    Args:
        rewriter: The module.
        operation: What is replaced.
        name: Of the new op.
        operands: Of the new op.
        properties: Of the new op.
        merges: Discardable attributes go over.
        infers: The type has to be one that the new op may have, which constants decide: of a
            program that cannot run, nothing is made.
    """
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
    """A constant of zeros (or, of booleans and integers, of ones) takes the place of one."""
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
    """Is it 0, 1, 2 and so on?"""
    return dimensions == tuple(range(len(dimensions)))


def same_static_count(one: TensorType | None, other: TensorType | None) -> bool:
    """Have two types of known sizes as many elements?"""
    if one is None or other is None or not one.is_static or not other.is_static:
        return False
    return one.num_elements == other.num_elements
