"""Folds of data movement: a splat gets another type, other constants are rearranged."""

from __future__ import annotations

from typing import Final

from hloscope.ir import ElementType, TensorType
from hloscope.mlir import DenseAttr, Operation
from hloscope.passes.folding.computing import computed, constants, replace
from hloscope.passes.limits import Known, LimitedRewrites, Limits
from hloscope.passes.reading import integer_of, integers_of, static_result
from hloscope.passes.rewriting import Rewriter

SHAPE_ARRANGING: Final = LimitedRewrites()
"""Folds of ops that compute sizes."""
ARRANGING: Final = LimitedRewrites()
"""Folds that only the folder has."""


def _is_folded_type(element: ElementType, limits: Limits) -> bool:
    """Is an element type folded in data movement?  Complex types are, in addition."""
    return limits.folds(element) or element.kind == "complex"


def _fold_by_type(
    rewriter: Rewriter, operation: Operation, limits: Limits, splat_only: bool = True
) -> bool:
    """Replace the op by its operand's constant with the result's type.

    With `splat_only`, only if all elements are equal.
    """
    type = static_result(operation)
    known = limits.known(operation.operands[0]) if operation.operands else None
    if type is None or known is None or known.type.element != type.element:
        return False
    if splat_only and not known.is_splat:
        return False
    return replace(rewriter, operation, known.as_type(type))


def _fold_splat(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    type = static_result(operation)
    return (
        type is not None
        and _is_folded_type(type.element, limits)
        and _fold_by_type(rewriter, operation, limits)
    )


@SHAPE_ARRANGING.on("stablehlo.broadcast_in_dim")
def fold_broadcast_in_dim(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold the broadcast of a splat."""
    return _fold_splat(rewriter, operation, limits)


@SHAPE_ARRANGING.on("stablehlo.reshape")
def fold_reshape(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold the reshape of a constant."""
    type = static_result(operation)
    known = limits.known(operation.operands[0]) if operation.operands else None
    if type is None or known is None or not _is_folded_type(type.element, limits):
        return False
    is_same = known.type.element == type.element and _count(known.type) == _count(type)
    return is_same and replace(rewriter, operation, known.as_type(type))


def _count(type: TensorType) -> int | None:
    return type.num_elements if type.is_static else None


@SHAPE_ARRANGING.on("stablehlo.dynamic_slice")
def fold_dynamic_slice_of_splat(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a dynamic slice of a splat, with any start."""
    return _fold_splat(rewriter, operation, limits)


@SHAPE_ARRANGING.on("stablehlo.slice")
def fold_slice(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a slice of a constant."""
    type = static_result(operation)
    if type is None or not limits.folds(type.element):
        return False
    return _fold_movement(rewriter, operation, type, limits)


@SHAPE_ARRANGING.on("stablehlo.concatenate")
def fold_concatenate(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a concatenation of constants."""
    type = static_result(operation)
    if type is None or not limits.folds(type.element) or not limits.allows(type):
        return False
    given = constants(operation, limits)
    if given is None:
        return False
    if all(known.is_splat and known.raw == given[0].raw for known in given):
        return replace(rewriter, operation, given[0].as_type(type))
    literal = computed(operation, given, type, limits)
    return literal is not None and replace(rewriter, operation, literal)


@SHAPE_ARRANGING.on("stablehlo.concatenate")
def join_splats(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Join adjacent operands that are the same splat into one longer splat."""
    type = static_result(operation)
    if type is None or not limits.folds(type.element):
        return False
    number = integer_of(operation, "dimension")
    if number is None or not 0 <= number < type.rank:
        return False
    # Runs of operands that are equal splats, as lists of their numbers.
    runs: list[list[int]] = []
    known = [limits.known(value) for value in operation.operands]
    for k, found in enumerate(known):
        if runs and _is_same_splat(known[runs[-1][-1]], found):
            runs[-1].append(k)
        else:
            runs.append([k])
    if len(runs) == len(known):
        return False
    operands = []
    for run in runs:
        first = known[run[0]]
        if len(run) == 1 or first is None:
            operands.append(operation.operands[run[0]])
            continue
        length = sum(_size(found, number) for k in run if (found := known[k]) is not None)
        sizes = (*first.type.sizes[:number], length, *first.type.sizes[number + 1 :])
        longer = TensorType(first.type.element, sizes)
        operands.append(rewriter.constant(first.as_type(longer), longer, before=operation))
    rewriter.set_operands(operation, operands)
    return True


def _is_same_splat(one: Known | None, other: Known | None) -> bool:
    if one is None or other is None or not (one.is_splat and other.is_splat):
        return False
    same_type = one.type.element == other.type.element and one.type.rank == other.type.rank
    return same_type and one.type.rank > 0 and one.raw == other.raw


def _size(known: Known, dimension: int) -> int:
    size = known.type.sizes[dimension]
    assert size is not None, "a literal has a static type"
    return size


@ARRANGING.on("stablehlo.transpose")
def fold_transpose(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold the transpose of a constant."""
    type = static_result(operation)
    if type is None or not _is_folded_type(type.element, limits):
        return False
    if type.element.kind == "complex":
        return _fold_by_type(rewriter, operation, limits)
    return _fold_movement(rewriter, operation, type, limits)


@ARRANGING.on("stablehlo.reverse")
def fold_reverse(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold the reverse of a constant, if that moves an element."""
    type = static_result(operation)
    known = limits.known(operation.operands[0]) if operation.operands else None
    if type is None or known is None or not limits.folds(type.element):
        return False
    dimensions = integers_of(operation, "dimensions") or ()
    if known.is_splat or not limits.allows(type) or not _reverses_something(type, dimensions):
        return False
    return _fold_movement(rewriter, operation, type, limits)


def _reverses_something(type: TensorType, dimensions: tuple[int, ...]) -> bool:
    """Does reversing these dimensions move an element?"""
    return type.num_elements > 0 and any(
        0 <= d < type.rank and type.sizes[d] != 1 for d in dimensions
    )


@ARRANGING.on("stablehlo.iota")
def fold_iota(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold an integer `iota` of at most one element."""
    type = static_result(operation)
    if type is None or type.element.kind not in ("signed", "unsigned") or not type.element.numpy:
        return False
    if type.num_elements > 1 or not limits.folds(type.element) or not limits.allows(type):
        return False
    width = -(-type.element.bits // 8)
    return replace(rewriter, operation, DenseAttr(bytes(width * type.num_elements), type))


def _fold_movement(
    rewriter: Rewriter, operation: Operation, type: TensorType, limits: Limits
) -> bool:
    given = constants(operation, limits)
    if given is None or len(given) != 1 or given[0].type.element != type.element:
        return False
    if given[0].is_splat:
        return replace(rewriter, operation, given[0].as_type(type))
    literal = computed(operation, given, type, limits)
    return literal is not None and replace(rewriter, operation, literal)


__all__ = ["ARRANGING", "SHAPE_ARRANGING"]
