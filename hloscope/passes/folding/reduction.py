"""Folds of reductions whose result does not depend on the reduced elements.

The specification does not define how often initial values are used.  So a reduction of at least
one element has the value that its body returns.  A reduction without elements has its initial
values and is not folded here.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import Block, DenseAttr, Operation
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import integers_of, tensor_of
from hloscope.passes.rewriting import Rewriter

REDUCTION: Final = LimitedRewrites()
"""Folds that only the folder has."""


def body_of(operation: Operation, region: int = 0) -> tuple[Block, Operation] | None:
    """Return the only block of a region and its `return`; `None` for another form of region."""
    if len(operation.regions) <= region or len(operation.regions[region].blocks) != 1:
        return None
    block = operation.regions[region].blocks[0]
    last = block.operations[-1] if block.operations else None
    return None if last is None or last.name != "stablehlo.return" else (block, last)


def _reduces_something(operation: Operation) -> bool:
    """Does each result reduce at least one element?"""
    half, dimensions = len(operation.results), integers_of(operation, "dimensions")
    if dimensions is None or not half or len(operation.operands) != 2 * half:
        return False
    type = tensor_of(operation.operands[0])
    return type is not None and all(
        0 <= d < type.rank and type.sizes[d] is not None and type.sizes[d] != 0 for d in dimensions
    )


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_of_no_dimensions(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a reduction over no dimensions by its operands."""
    half = len(operation.results)
    given = operation.operands[:half]
    if integers_of(operation, "dimensions") != () or len(given) != half:
        return False
    if any(
        value.type != result.type for value, result in zip(given, operation.results, strict=True)
    ):
        return False
    rewriter.replace(operation, given)
    return True


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_to_constants(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a reduction whose body only returns constants."""
    found = body_of(operation)
    if found is None or not _reduces_something(operation):
        return False
    block, end = found
    if len(block.operations) != 1 or len(end.operands) != len(operation.results):
        return False
    literals: list[tuple[DenseAttr, TensorType]] = []
    for value, result in zip(end.operands, operation.results, strict=True):
        known, type = limits.known(value), tensor_of(result)
        if known is None or not known.is_splat or type is None or not type.is_static:
            return False
        if known.type.element != type.element:
            return False
        literals.append((known.as_type(type), type))
    rewriter.replace(
        operation, [rewriter.constant(*literal, before=operation) for literal in literals]
    )
    return True


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_to_outer_values(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace the results by outer values that the body returns, if the types are equal."""
    found = body_of(operation)
    if found is None or not _reduces_something(operation):
        return False
    block, end = found
    if len(end.operands) != len(operation.results):
        return False
    for value, result in zip(end.operands, operation.results, strict=True):
        owner = value.owner
        place = owner.parent if isinstance(owner, Operation) else owner
        if place is block or value.type != result.type:
            return False
    rewriter.replace(operation, end.operands)
    return True


@REDUCTION.on("stablehlo.reduce")
def lower_splats_into_reduce(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace the body's arguments by constants, for `and` or `or` of splats.

    Both ops are idempotent, so that the number of uses of an element does not matter.
    """
    found = body_of(operation)
    if found is None or not _reduces_something(operation):
        return False
    block, end = found
    first = block.operations[0]
    # The body must be the op and a `return` of its result; anything else may depend on order.
    if len(block.operations) != 2 or first.name not in ("stablehlo.and", "stablehlo.or"):
        return False
    if end.operands != first.results or len(block.arguments) != len(operation.operands):
        return False
    # With constants in place already, the pattern would apply again without an end.
    if not any(rewriter.uses(argument) for argument in block.arguments):
        return False
    literals = []
    for value, argument in zip(operation.operands, block.arguments, strict=True):
        known, type = limits.known(value), tensor_of(argument)
        if known is None or not known.is_splat or type is None or not type.is_static:
            return False
        if known.type.element != type.element:
            return False
        literals.append((known.as_type(type), type))
    for argument, (literal, type) in zip(block.arguments, literals, strict=True):
        rewriter.replace_uses(argument, rewriter.constant(literal, type, before=first))
    return True


__all__ = ["REDUCTION", "body_of"]
