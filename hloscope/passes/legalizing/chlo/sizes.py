"""Sizes as values: `i64`, of arrays whose sizes are known or not."""

from __future__ import annotations

from hloscope.ir import TensorType
from hloscope.mlir import I32, I64, Operation, Value
from hloscope.passes.legalizing.making import constant, i64, reshaped, shaped
from hloscope.passes.rewriting import Rewriter


def as_i64(rewriter: Rewriter, value: Value, *, before: Operation) -> Value:
    """Integers as `i64`."""
    type = value.type
    assert isinstance(type, TensorType)
    if type.element == I64:
        return value
    wide = shaped(I64, *type.sizes)
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(wide,)).result


def dimension_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """`stablehlo.get_dimension_size` as `i64`."""
    size = rewriter.create(
        "stablehlo.get_dimension_size",
        (value,),
        {"dimension": i64(k)},
        before=before,
        types=(shaped(I32),),
    )
    return as_i64(rewriter, size.result, before=before)


def known_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """A size, as a constant if it is known, in an array of one."""
    type = value.type
    assert isinstance(type, TensorType)
    size = type.sizes[k]
    made = (
        dimension_size(rewriter, value, k, before=before)
        if size is None
        else constant(rewriter, size, I64, before=before)
    )
    return reshaped(rewriter, made, 1, before=before)


def sizes_of(type: TensorType) -> tuple[int, ...]:
    """The sizes of a type that has all of them."""
    assert None not in type.sizes
    return type.shape
