"""Sizes as values of type `i64`, of tensors of known or unknown sizes."""

from __future__ import annotations

from hloscope.ir import TensorType
from hloscope.mlir import I32, I64, Operation, Value
from hloscope.passes.legalizing.making import constant, i64, reshaped, shaped
from hloscope.passes.rewriting import Rewriter


def as_i64(rewriter: Rewriter, value: Value, *, before: Operation) -> Value:
    """Convert integers to `i64`."""
    type = value.type
    assert isinstance(type, TensorType)
    if type.element == I64:
        return value
    wide = shaped(I64, *type.sizes)
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(wide,)).result


def dimension_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """Create a `stablehlo.get_dimension_size` as `i64`."""
    size = rewriter.create(
        "stablehlo.get_dimension_size",
        (value,),
        {"dimension": i64(k)},
        before=before,
        types=(shaped(I32),),
    )
    return as_i64(rewriter, size.result, before=before)


def known_size(rewriter: Rewriter, value: Value, k: int, *, before: Operation) -> Value:
    """Return a size as a tensor of one `i64`; a constant if it is known."""
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
    """Return the sizes of a static type."""
    assert None not in type.sizes
    return type.shape
