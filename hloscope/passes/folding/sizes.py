"""Folds of ops that read or set sizes."""

from __future__ import annotations

from typing import Final

from hloscope.mlir import DenseAttr, Operation
from hloscope.passes.folding.computing import replace
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import integer_of, static_result, tensor_of
from hloscope.passes.rewriting import Rewriter

SIZES: Final = LimitedRewrites()
"""Folds of ops that compute sizes."""


@SIZES.on("stablehlo.get_dimension_size")
def fold_get_dimension_size(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a known size."""
    type, size = static_result(operation), size_of_dimension(operation)
    if type is None or size is None or type.rank or type.element.name != "s32":
        return False
    literal = DenseAttr(size.to_bytes(8, "little")[:4], type)
    return size < 1 << 31 and replace(rewriter, operation, literal)


@SIZES.on("stablehlo.set_dimension_size")
def fold_set_dimension_size(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace by the operand, if its dimension has that size already."""
    if len(operation.operands) != 2 or len(operation.results) != 1:
        return False
    operand, given = operation.operands
    known, size = limits.known(given), size_of_dimension(operation)
    if operand.type != operation.result.type or known is None or size is None:
        return False
    if not known.is_splat or int(known.element) != size:
        return False
    rewriter.replace(operation, [operand])
    return True


def size_of_dimension(operation: Operation) -> int | None:
    """Return the size of the operand's dimension `dimension`; `None` if unknown."""
    dimension = integer_of(operation, "dimension")
    type = tensor_of(operation.operands[0]) if operation.operands else None
    if type is None or dimension is None or not 0 <= dimension < type.rank:
        return None
    return type.sizes[dimension]


__all__ = ["SIZES", "size_of_dimension"]
