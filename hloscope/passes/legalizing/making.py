"""Constructors of constants, types and small ops for conversion patterns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import ELEMENT_TYPES, ElementType, TensorType
from hloscope.mlir import I64, DenseArrayAttr, DenseAttr, IntegerAttr, Operation, Value, elements
from hloscope.passes.rewriting import Rewriter

I1: Final = ELEMENT_TYPES["pred"]
I32: Final = ELEMENT_TYPES["s32"]
F32: Final = ELEMENT_TYPES["f32"]


def shaped(element: ElementType, *sizes: int | None) -> TensorType:
    """Return a tensor type; unknown sizes have no bounds."""
    bounds = (None,) * len(sizes) if None in sizes else ()
    return TensorType(element, sizes, None, bounds)


def with_element(type: TensorType, element: ElementType) -> TensorType:
    """Return the type with another element type."""
    return TensorType(element, type.sizes, None, type.bounds, type.encoding)


def dense(text: str, type: TensorType) -> DenseAttr:
    """Return a literal from the text between its angle brackets; equal values compare equal."""
    return DenseAttr(elements(DenseAttr(text, type)).raw, type)


def integers(values: Sequence[int]) -> DenseArrayAttr:
    """Return `array<i64: …>` of these values."""
    return DenseArrayAttr(I64, tuple(values))


def i64(value: int) -> IntegerAttr:
    """Return `value : i64`."""
    return IntegerAttr(value, I64)


def constant(
    rewriter: Rewriter, values: int | Sequence[int], element: ElementType, *, before: Operation
) -> Value:
    """Create a constant of integers, of rank 0 for a number or rank 1 for a list."""
    if isinstance(values, int):
        type, text = shaped(element), str(values)
    else:
        type, text = shaped(element, len(values)), f"[{', '.join(map(str, values))}]"
    return rewriter.constant(dense(text if values != [] else "", type), type, before=before)


def splat(rewriter: Rewriter, text: str, type: TensorType, *, before: Operation) -> Value:
    """Create a constant of equal elements."""
    return rewriter.constant(dense(text, type), type, before=before)


def sliced(
    rewriter: Rewriter,
    value: Value,
    starts: Sequence[int],
    limits: Sequence[int],
    *,
    before: Operation,
) -> Value:
    """Create a `stablehlo.slice` with strides of 1."""
    properties = {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers([1] * len(starts)),
    }
    return rewriter.create("stablehlo.slice", (value,), properties, before=before).result


def reshaped(rewriter: Rewriter, value: Value, *sizes: int, before: Operation) -> Value:
    """Create a `stablehlo.reshape` to these sizes."""
    assert isinstance(value.type, TensorType)
    type = shaped(value.type.element, *sizes)
    return rewriter.create("stablehlo.reshape", (value,), before=before, types=(type,)).result


def concatenated(rewriter: Rewriter, values: Sequence[Value], *, before: Operation) -> Value:
    """Create a `stablehlo.concatenate` along the first dimension."""
    properties = {"dimension": i64(0)}
    return rewriter.create("stablehlo.concatenate", values, properties, before=before).result


def surely_meet(shapes: Sequence[Sequence[int | None]]) -> bool:
    """Are shapes compatible under numpy broadcasting, for any values of unknown sizes?

    >>> surely_meet([(None, 4), (4,)]), surely_meet([(None,), (4,)]), surely_meet([(3,), (4,)])
    (True, False, False)
    """
    for k in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-k] for shape in shapes if len(shape) >= k and shape[-k] != 1]
        # Two unknown sizes, or one beside a known size above 1, may turn out to differ.
        if len(set(sizes)) > 1 or sizes.count(None) > 1:
            return False
    return True
