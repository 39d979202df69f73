"""Simplification of reductions and sorts: unused operands and results are removed."""

from __future__ import annotations

from typing import Final

from hloscope.mlir import I64, Block, IntegerAttr, Operation, Value
from hloscope.passes.effects import may_go
from hloscope.passes.folding import (
    body_of,
    fold_reduce_of_no_dimensions,
    fold_reduce_to_outer_values,
)
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import tensor_of
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import dims

REDUCTION: Final = LimitedRewrites()
REDUCTION.add("reduce_of_no_dimensions", "stablehlo.reduce", fold_reduce_of_no_dimensions)
REDUCTION.add("reduce_to_outer_values", "stablehlo.reduce", fold_reduce_to_outer_values)


@REDUCTION.on("stablehlo.reduce")
def reduce_of_nothing(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a reduction of empty operands by broadcasts of its initial values."""
    half = len(operation.results)
    type = tensor_of(operation.operands[0]) if half and operation.operands else None
    if type is None or 0 not in type.sizes or len(operation.operands) != 2 * half:
        return False
    types = [tensor_of(result) for result in operation.results]
    if not all(found is not None and found.is_static for found in types):
        return False
    across = {"broadcast_dimensions": dims(())}
    values = [
        rewriter.create(
            "stablehlo.broadcast_in_dim", (init,), across, before=operation, types=[result.type]
        ).result
        for init, result in zip(operation.operands[half:], operation.results, strict=True)
    ]
    rewriter.replace(operation, values)
    return True


@REDUCTION.on("stablehlo.reduce")
def reduce_without_unused(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Remove unused results, unless a used result depends on their operands.

    An operand is used through its initial value and through the body's two arguments for it.  If a
    used result depends on the operand of an unused one, nothing is removed; upstream removes that
    operand, which may change the result.
    """
    half, found = len(operation.results), body_of(operation)
    used = [k for k, result in enumerate(operation.results) if rewriter.uses(result)]
    if found is None or not used or len(used) == half or len(operation.operands) != 2 * half:
        return False
    block, end = found
    if len(end.operands) != half or len(block.arguments) != 2 * half:
        return False
    needed = _needed(rewriter, block, [end.operands[k] for k in used])
    rest = [inner for inner in block.operations[:-1] if inner not in needed]
    # Operands that the used results depend on; a pair of arguments belongs to one operand.
    pairs = [
        k for k in range(half) if {block.arguments[k], block.arguments[k + half]} & needed.keys()
    ]
    if pairs != used or not all(map(may_go, rest)):
        return False
    # The terminator lets go of its operands first, then the body's unused ops from the end.
    rewriter.set_operands(end, [end.operands[k] for k in used])
    for inner in reversed(rest):
        rewriter.erase(inner)
    kept = [*used, *(k + half for k in used)]
    rewriter.keep_arguments(block, [block.arguments[k] for k in kept])
    rewriter.set_operands(operation, [operation.operands[k] for k in kept])
    rewriter.keep_results(operation, [operation.results[k] for k in used])
    return True


def _needed(rewriter: Rewriter, block: Block, values: list[Value]) -> dict[Value | Operation, None]:
    """Return the arguments and operations of a block on which some values depend."""
    needed: dict[Value | Operation, None] = {}
    work = [*values]
    while work:
        value = work.pop()
        owner = value.owner
        if owner is block:
            needed[value] = None
        elif isinstance(owner, Operation) and owner.parent is block and owner not in needed:
            needed[owner] = None
            for inner in rewriter.walk(owner):
                work += inner.operands
    return needed


# --------------------------------------------------------------------------------------------- sort


@REDUCTION.on("stablehlo.sort")
def sort_without_unused(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Remove operands whose result is unused and that the comparator does not read."""
    found, count = body_of(operation), len(operation.results)
    if found is None or len(operation.operands) != count:
        return False
    arguments = found[0].arguments
    if len(arguments) != 2 * count:
        return False
    kept = [
        k
        for k in range(count)
        if any(map(rewriter.uses, (operation.results[k], arguments[2 * k], arguments[2 * k + 1])))
    ]
    if not kept or len(kept) == count:
        return False
    pairs = [arguments[2 * k + side] for k in kept for side in (0, 1)]
    rewriter.keep_arguments(found[0], pairs)
    rewriter.set_operands(operation, [operation.operands[k] for k in kept])
    rewriter.keep_results(operation, [operation.results[k] for k in kept])
    return True


@REDUCTION.on("stablehlo.sort")
def sort_of_last_dimension(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace the dimension -1 by the number of the last dimension."""
    type = tensor_of(operation.results[0]) if operation.results else None
    number = operation.get("dimension")
    given = number.value if isinstance(number, IntegerAttr) else -1
    if type is None or given != -1 or not type.rank:
        return False
    last = {"dimension": IntegerAttr(type.rank - 1, I64)}
    rewriter.set_properties(operation, {**operation.properties, **last})
    return True


__all__ = ["REDUCTION"]
