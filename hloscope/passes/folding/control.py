"""Folds of branches and loops with constant conditions."""

from __future__ import annotations

from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.ir import TensorType, TokenType, Type
from hloscope.mlir import Block, DenseAttr, Operation, Value
from hloscope.passes.effects import is_quiet
from hloscope.passes.folding.reduction import body_of
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.rewriting import Rewriter

CONTROL: Final = LimitedRewrites()
"""Folds that only the folder has."""
PURE_LOOPS: Final = LimitedRewrites()
"""Folds that are right if calls and unknown ops have no undeclared effects."""


@CONTROL.on("stablehlo.case")
def inline_known_case(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Inline the known branch before the op; the op then returns zeros.

    The op stays if other branches have effects.  An op in the known branch of another one waits
    until that branch has been inlined, so that no operation moves once per nesting level.
    """
    found = _known_branch(rewriter, operation, limits)
    if found is None or _is_in_known_branch(rewriter, operation, limits):
        return False
    block, end = found
    values, types = end.operands, [result.type for result in operation.results]
    for inner in block.operations[:-1]:
        rewriter.move(inner, before=operation)
    for result, value in zip(operation.results, values, strict=True):
        rewriter.replace_uses(result, value)
    # Without uses of its results the op is erased by the driver, if its regions allow that.
    rewriter.set_operands(end, [_zero(rewriter, type, end) for type in types])
    rewriter.watcher.changed(operation)
    return True


def _known_branch(
    rewriter: Rewriter, operation: Operation, limits: Limits
) -> tuple[Block, Operation] | None:
    """Return block and terminator of the branch with a known number; `None` if not inlinable."""
    known = limits.known(operation.operands[0]) if operation.operands else None
    if known is None or not known.is_splat or not rewriter.is_used(operation):
        return None
    number, last = int(known.element), len(operation.regions) - 1
    # An index that is out of range selects the last branch, by the specification.
    found = body_of(operation, number if 0 <= number <= last else last)
    types = [result.type for result in operation.results]
    if found is None or found[0].arguments or not all(map(_has_zero, types)):
        return None
    return found if [value.type for value in found[1].operands] == types else None


def _is_in_known_branch(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Is the op in the known branch of another `case`?"""
    region = operation.parent.parent if operation.parent is not None else None
    outer = region.parent if region is not None else None
    if outer is None or outer.name != operation.name:
        return False
    found = _known_branch(rewriter, outer, limits)
    return found is not None and found[0] is operation.parent


def _has_zero(type: Type) -> bool:
    if isinstance(type, TensorType):
        return type.is_static and bool(type.element.numpy)
    return isinstance(type, TokenType)


def _zero(rewriter: Rewriter, type: Type, before: Operation) -> Value:
    if not isinstance(type, TensorType):
        return rewriter.create("stablehlo.after_all", (), before=before, types=[type]).result
    width = -(-type.element.bits // 8) if type.num_elements else 0
    return rewriter.constant(DenseAttr(bytes(width), type), type, before=before)


@CONTROL.on("stablehlo.while")
def fold_while_that_never_runs(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace the results by the operands; the driver erases the op if it has no effects."""
    if not _never_runs(operation, limits) or not rewriter.is_used(operation):
        return False
    for result, value in zip(operation.results, operation.operands, strict=True):
        rewriter.replace_uses(result, value)
    rewriter.watcher.changed(operation)
    return True


@PURE_LOOPS.on("stablehlo.while")
def erase_while_that_never_runs(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Erase a loop that never runs, if it has no used results and no declared effects."""
    if rewriter.is_used(operation) or not _never_runs(operation, limits):
        return False
    if any(map(_declares_effects, rewriter.walk(operation))):
        return False
    rewriter.erase(operation)
    return True


def _never_runs(operation: Operation, limits: Limits) -> bool:
    found = body_of(operation)
    if found is None or len(found[1].operands) != 1:
        return False
    if [v.type for v in operation.operands] != [v.type for v in operation.results]:
        return False
    known = limits.known(found[1].operands[0])
    return known is not None and known.is_splat and not known.element.any()


def _declares_effects(operation: Operation) -> bool:
    """Does the definition of the op declare effects?  Calls and unknown ops declare none."""
    name = operation.name
    if not name.startswith("stablehlo.") or name not in DEFINITIONS:
        return False
    return "terminator" not in DEFINITIONS[name].traits and not is_quiet(operation)


__all__ = ["CONTROL", "PURE_LOOPS"]
