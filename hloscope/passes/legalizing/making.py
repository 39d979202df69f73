"""What patterns of conversions make all the time: constants, elements of shapes."""

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
    """The type of an array; sizes that are not known have no bounds."""
    bounds = (None,) * len(sizes) if None in sizes else ()
    return TensorType(element, sizes, None, bounds)


def with_element(type: TensorType, element: ElementType) -> TensorType:
    """The type with other elements."""
    return TensorType(element, type.sizes, None, type.bounds, type.encoding)


def dense(text: str, type: TensorType) -> DenseAttr:
    """A literal, by its text between the angle brackets; equal ones compare so."""
    return DenseAttr(elements(DenseAttr(text, type)).raw, type)


def integers(values: Sequence[int]) -> DenseArrayAttr:
    """`array<i64: 1, 2>`."""
    return DenseArrayAttr(I64, tuple(values))


def i64(value: int) -> IntegerAttr:
    """`1 : i64`."""
    return IntegerAttr(value, I64)


def constant(
    rewriter: Rewriter, values: int | Sequence[int], element: ElementType, *, before: Operation
) -> Value:
    """A constant of integers, without dimensions or with one."""
    if isinstance(values, int):
        type, text = shaped(element), str(values)
    else:
        type, text = shaped(element, len(values)), f"[{', '.join(map(str, values))}]"
    return rewriter.constant(dense(text if values != [] else "", type), type, before=before)


def splat(rewriter: Rewriter, text: str, type: TensorType, *, before: Operation) -> Value:
    """A constant with one value everywhere."""
    return rewriter.constant(dense(text, type), type, before=before)


def sliced(
    rewriter: Rewriter,
    value: Value,
    starts: Sequence[int],
    limits: Sequence[int],
    *,
    before: Operation,
) -> Value:
    """`stablehlo.slice` with steps of one."""
    properties = {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers([1] * len(starts)),
    }
    return rewriter.create("stablehlo.slice", (value,), properties, before=before).result


def reshaped(rewriter: Rewriter, value: Value, *sizes: int, before: Operation) -> Value:
    """`stablehlo.reshape` to these sizes."""
    assert isinstance(value.type, TensorType)
    type = shaped(value.type.element, *sizes)
    return rewriter.create("stablehlo.reshape", (value,), before=before, types=(type,)).result


def concatenated(rewriter: Rewriter, values: Sequence[Value], *, before: Operation) -> Value:
    """`stablehlo.concatenate` along the first dimension."""
    properties = {"dimension": i64(0)}
    return rewriter.create("stablehlo.concatenate", values, properties, before=before).result


def surely_meet(shapes: Sequence[Sequence[int | None]]) -> bool:
    """Do shapes meet as numpy broadcasts them, whatever sizes that are not known will be?

    >>> surely_meet([(None, 4), (4,)]), surely_meet([(None,), (4,)]), surely_meet([(3,), (4,)])
    (True, False, False)
    """
    for k in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-k] for shape in shapes if len(shape) >= k and shape[-k] != 1]
        if len(set(sizes)) > 1 or sizes.count(None) > 1:
            return False
    return True
