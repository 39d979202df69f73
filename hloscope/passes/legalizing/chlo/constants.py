"""`chlo.constant_like` and `chlo.constant`: constants in the shape of another tensor.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.errors import VerifyError
from hloscope.ir import ELEMENT_TYPES, FORMATS, ElementType, TensorType
from hloscope.mlir import (
    INDEX,
    BoolAttr,
    DenseAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    Value,
    VerbatimAttr,
    elements,
)
from hloscope.passes.legalizing.making import i64, integers
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

PATTERNS: Final = Patterns()


def like_constant(rewriter: Rewriter, value: DenseAttr, like: Value, before: Operation) -> Value:
    """Create a constant of equal elements in the shape of another value.

    Args:
        rewriter: The rewriter.
        value: The number, as a literal of rank 0.
        like: Value with the shape.
        before: Operation before which ops are inserted.
    """
    shape, scalar = like.type, value.type
    assert isinstance(shape, TensorType)
    assert isinstance(scalar, TensorType)
    type = TensorType(scalar.element, shape.sizes, None, shape.bounds, shape.encoding)
    # Known sizes need one constant; bounded ones keep their bounds by `set_dimension_size`; others
    # are broadcast to the sizes at run time.
    if shape.is_static:
        return rewriter.constant(DenseAttr(value.literal, type), type, before=before)
    number = rewriter.constant(value, scalar, before=before)
    if shape.is_bounded:
        return _bounded(rewriter, number, like, type, before)
    sizes = rewriter.create(
        "shape.shape_of", (like,), before=before, types=(TensorType(INDEX, (shape.rank,)),)
    )
    return rewriter.create(
        "stablehlo.dynamic_broadcast_in_dim",
        (number, sizes.result),
        {"broadcast_dimensions": integers(())},
        before=before,
        types=(type,),
    ).result


def _bounded(
    rewriter: Rewriter, number: Value, like: Value, type: TensorType, before: Operation
) -> Value:
    """Broadcast a number to the bounds of a type, then set the sizes that are not static."""
    wide = TensorType(type.element, type.shape)
    made = rewriter.create(
        "stablehlo.broadcast_in_dim",
        (number,),
        {"broadcast_dimensions": integers(())},
        before=before,
        types=(wide,),
    ).result
    sizes, bounds = list(wide.sizes), [None] * wide.rank
    known: list[int | None] = list(bounds)
    # Bounded sizes are set one by one: the broadcast has the bounds as sizes.
    for k, size in enumerate(type.sizes):
        if size is None:
            sizes[k], known[k] = None, type.bounds[k]
            part = TensorType(type.element, tuple(sizes), None, tuple(known))
            extent = rewriter.create(
                "stablehlo.get_dimension_size",
                (like,),
                {"dimension": i64(k)},
                before=before,
                types=(TensorType(ELEMENT_TYPES["s32"], ()),),
            )
            made = rewriter.create(
                "stablehlo.set_dimension_size",
                (made, extent.result),
                {"dimension": i64(k)},
                before=before,
                types=(part,),
            ).result
    return made


def _number(op: Operation, element: ElementType) -> DenseAttr | None:
    """Return the attribute `value` as a literal of rank 0; `None` if it does not fit."""
    type, size = TensorType(element, ()), (element.bits + 7) // 8
    match op.get("value"):
        case FloatAttr(bits, given) if given == element and element.name in FORMATS:
            return DenseAttr(bits.to_bytes(size, "little"), type)
        case BoolAttr(value) if element.kind == "pred":
            return DenseAttr(bytes([value]), type)
        case IntegerAttr(value, given) if given == element:
            bits = value % (1 << element.bits)
            return DenseAttr(bits.to_bytes(size, "little"), type)
        case VerbatimAttr(text) if element.kind == "complex" and text.startswith("#complex.number"):
            inside = text.partition("<")[2].partition(">")[0].partition(" ")[2]
            try:
                return DenseAttr(elements(DenseAttr(f"({inside})", type)).raw, type)
            except VerifyError:
                return None
        case _:
            return None


@PATTERNS.on("chlo.constant_like")
def constant_like(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by a constant, broadcast at run time for unknown sizes."""
    like, result = op.operands[0], op.result.type
    if not isinstance(like.type, TensorType) or not isinstance(result, TensorType):
        return False
    value = _number(op, result.element)
    if value is None:
        return False
    rewriter.replace(op, [like_constant(rewriter, value, like, op)])
    return True


@PATTERNS.on("chlo.constant")
def constant(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by a constant of StableHLO."""
    value, type = op.get("value"), op.result.type
    if not isinstance(value, DenseAttr) or not isinstance(type, TensorType):
        return False
    rewriter.replace(op, [rewriter.constant(value, type, before=op)])
    return True
