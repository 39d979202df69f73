"""The pass `stablehlo-aggressive-folder`, and its folds of control flow and reductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hloscope.ir import TensorType, TokenType, Type
from hloscope.mlir import Block, DenseAttr, Operation, Value
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.passes.folding.elementwise import (
    ARRANGING,
    ELEMENTWISE,
    SHAPE_ARRANGING,
    SHAPE_ELEMENTWISE,
)
from hloscope.passes.folding.index import INDEX_FOLDS, SIZES
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.patterns import FOLD_ELEMENTS, Limits, Patterns, limited
from hloscope.passes.reading import integers_of, tensor_of
from hloscope.passes.regions import is_effect_free
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# Folds of branches and loops with constant conditions.


CONTROL: Final = Patterns()
"""Folds of control flow, which only the folder has."""
PURE_LOOPS: Final = Patterns()
"""Folds of loops that are valid if calls and unknown ops have no undeclared effects."""


@CONTROL.on("stablehlo.case")
def inline_known_case(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Move the operations of a `case`'s branch before the op, if a constant index selects it.

    The results are replaced, and the branch then returns zeros; the driver erases the op. The op
    stays if other branches have effects. An op in the selected branch of another `case` waits until
    that branch has been inlined, so that no operation moves once per nesting level.
    """
    found = _known_branch(rewriter, op, limits)
    if found is None or _is_in_known_branch(rewriter, op, limits):
        return False
    block, end = found
    values, types = end.operands, [result.type for result in op.results]
    for inner in block.operations[:-1]:
        rewriter.move(inner, before=op)
    for result, value in zip(op.results, values, strict=True):
        rewriter.replace_uses(result, value)
    # Without uses of its results the op is erased by the driver, if its regions allow that.
    rewriter.set_operands(end, [_zero(rewriter, type, end) for type in types])
    rewriter.watcher.changed(op)
    return True


def _known_branch(
    rewriter: Rewriter, op: Operation, limits: Limits
) -> tuple[Block, Operation] | None:
    """Return block and terminator of the branch that a constant index selects.

    `None` if it cannot be inlined.
    """
    known = limits.known(op.operands[0]) if op.operands else None
    if known is None or not known.is_splat or not rewriter.is_used(op):
        return None
    number, last = int(known.element), len(op.regions) - 1
    # An index that is out of range selects the last branch, by the specification.
    found = body_of(op, number if 0 <= number <= last else last)
    types = [result.type for result in op.results]
    if found is None or found[0].arguments or not all(map(_has_zero, types)):
        return None
    return found if [value.type for value in found[1].operands] == types else None


def _is_in_known_branch(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Is the op in the branch of another `case` that a constant index selects?"""
    outer = op.parent_op
    if outer is None or outer.name != op.name:
        return False
    found = _known_branch(rewriter, outer, limits)
    return found is not None and found[0] is op.parent


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
def fold_while_that_never_runs(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace the results of a loop without iterations by its operands.

    The driver then erases the op if it has no effects.
    """
    if not _never_runs(op, limits) or not rewriter.is_used(op):
        return False
    for result, value in zip(op.results, op.operands, strict=True):
        rewriter.replace_uses(result, value)
    rewriter.watcher.changed(op)
    return True


@PURE_LOOPS.on("stablehlo.while")
def erase_while_that_never_runs(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Erase a loop without iterations, if it has no used results and no declared effects."""
    if rewriter.is_used(op) or not _never_runs(op, limits):
        return False
    if any(map(_declares_effects, rewriter.walk(op))):
        return False
    rewriter.erase(op)
    return True


def _never_runs(op: Operation, limits: Limits) -> bool:
    found = body_of(op)
    if found is None or len(found[1].operands) != 1:
        return False
    if [v.type for v in op.operands] != [v.type for v in op.results]:
        return False
    known = limits.known(found[1].operands[0])
    return known is not None and known.is_splat and not known.element.any()


def _declares_effects(op: Operation) -> bool:
    """Does the definition of the op declare effects?

    Calls and unknown ops declare none.
    """
    name = op.name
    if not name.startswith("stablehlo.") or name not in DEFINITIONS:
        return False
    return "terminator" not in DEFINITIONS[name].traits and not is_effect_free(op)


# --------------------------------------------------------------------------------------------------
# Folds of reductions whose result does not depend on the reduced elements.
#
# The specification does not define how often initial values are used.  So a reduction of at least
# one element has the value that its body returns.  A reduction without elements has its initial
# values and is not folded here.


REDUCTION: Final = Patterns()
"""Folds of `reduce`, which only the folder has."""


def body_of(op: Operation, region: int = 0) -> tuple[Block, Operation] | None:
    """Return the only block of a region and its `return`; `None` for a region of another form.

    `region` is the index of the region.
    """
    if len(op.regions) <= region or len(op.regions[region].blocks) != 1:
        return None
    block = op.regions[region].blocks[0]
    last = block.operations[-1] if block.operations else None
    return None if last is None or last.name != "stablehlo.return" else (block, last)


def _reduces_something(op: Operation) -> bool:
    """Does each result of the `reduce` combine at least one element with the initial value?"""
    half, dimensions = len(op.results), integers_of(op, "dimensions")
    if dimensions is None or not half or len(op.operands) != 2 * half:
        return False
    type = tensor_of(op.operands[0])
    return type is not None and all(
        0 <= d < type.rank and type.sizes[d] is not None and type.sizes[d] != 0 for d in dimensions
    )


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_of_no_dimensions(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `reduce` over no dimensions by its operands."""
    half = len(op.results)
    given = op.operands[:half]
    if integers_of(op, "dimensions") != () or len(given) != half:
        return False
    if any(value.type != result.type for value, result in zip(given, op.results, strict=True)):
        return False
    rewriter.replace(op, given)
    return True


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_to_constants(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `reduce` whose body returns constants only by splats of them."""
    found = body_of(op)
    if found is None or not _reduces_something(op):
        return False
    block, end = found
    if len(block.operations) != 1 or len(end.operands) != len(op.results):
        return False
    literals: list[tuple[DenseAttr, TensorType]] = []
    for value, result in zip(end.operands, op.results, strict=True):
        known, type = limits.known(value), tensor_of(result)
        if known is None or not known.is_splat or type is None or not type.is_static:
            return False
        if known.type.element != type.element:
            return False
        literals.append((known.as_type(type), type))
    rewriter.replace(op, [rewriter.constant(*literal, before=op) for literal in literals])
    return True


@REDUCTION.on("stablehlo.reduce")
def fold_reduce_to_outer_values(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace results by values from outside that the body returns, if the types are equal."""
    found = body_of(op)
    if found is None or not _reduces_something(op):
        return False
    block, end = found
    if len(end.operands) != len(op.results):
        return False
    for value, result in zip(end.operands, op.results, strict=True):
        owner = value.owner
        place = owner.parent if isinstance(owner, Operation) else owner
        if place is block or value.type != result.type:
            return False
    rewriter.replace(op, end.operands)
    return True


@REDUCTION.on("stablehlo.reduce")
def lower_splats_into_reduce(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace the arguments of a reduction's body by constants, if it is `and` or `or` of splats.

    Both ops are idempotent, so that the number of uses of an element does not matter.
    """
    found = body_of(op)
    if found is None or not _reduces_something(op):
        return False
    block, end = found
    first = block.operations[0]
    # The body must be the op and a `return` of its result; anything else may depend on order.
    if len(block.operations) != 2 or first.name not in ("stablehlo.and", "stablehlo.or"):
        return False
    if end.operands != first.results or len(block.arguments) != len(op.operands):
        return False
    # With constants in place already, the pattern would apply again without an end.
    if not any(rewriter.uses(argument) for argument in block.arguments):
        return False
    literals = []
    for value, argument in zip(op.operands, block.arguments, strict=True):
        known, type = limits.known(value), tensor_of(argument)
        if known is None or not known.is_splat or type is None or not type.is_static:
            return False
        if known.type.element != type.element:
            return False
        literals.append((known.as_type(type), type))
    for argument, (literal, type) in zip(block.arguments, literals, strict=True):
        rewriter.replace_uses(argument, rewriter.constant(literal, type, before=first))
    return True


# --------------------------------------------------------------------------------------------------
# The pass `stablehlo-aggressive-folder`.


SHAPE_FOLDS: Final = SHAPE_ELEMENTWISE + SHAPE_ARRANGING + SIZES
"""Folds that passes over sizes share."""

FOLDS: Final = SHAPE_FOLDS + ELEMENTWISE + ARRANGING + REDUCTION + CONTROL
"""All folds that are valid if calls and unknown ops may have undeclared effects."""


OPTIONS: Final[Mapping[str, Option]] = {
    "assume-no-undeclared-side-effects": Option(
        default=False, help="Assume that calls and unknown ops have no effects."
    ),
    "fold-op-element-limit": Option(
        default=FOLD_ELEMENTS,
        help="Largest number of elements of a constant that some folds create.",
        read=int,
    ),
    "optimize-float": Option(default=True, help="Fold floats, too."),
}
"""Options of the folder by name; passes that include its patterns have these options, too."""


def fold_patterns(options: Mapping[str, Any]) -> Patterns:
    """Return the patterns of the folder for these option values, by option name."""
    limits = Limits(options["fold-op-element-limit"], optimize_float=options["optimize-float"])
    folds = PURE_LOOPS + FOLDS if options["assume-no-undeclared-side-effects"] else FOLDS
    return limited(folds, limits)


def _run(run: Run) -> None:
    run.greedy_bottom_up(fold_patterns(run.options) + INDEX_FOLDS)


AGGRESSIVE_FOLDER: Final = Pass(
    "stablehlo-aggressive-folder",
    _run,
    "Computes ops of constants.",
    OPTIONS,
    on_functions=True,
)
