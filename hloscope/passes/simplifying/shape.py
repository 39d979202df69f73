"""Simplification of ops that rearrange elements."""

from __future__ import annotations

from typing import Final

from hloscope.ir import Dims, TensorType
from hloscope.mlir import I64, IntegerAttr, Operation, Value
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import integer_of, integers_of, maker_of, static_result, tensor_of
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import (
    becomes,
    becomes_splat,
    becomes_value,
    dims,
    is_identity,
    same_static_count,
)

SHAPE: Final = LimitedRewrites()


def _only(operation: Operation) -> TensorType | None:
    """Return the type of the only operand, for an op with one result; `None` otherwise."""
    if len(operation.operands) != 1 or len(operation.results) != 1:
        return None
    return tensor_of(operation.operands[0])


def _mapped(operation: Operation, name: str) -> Dims | None:
    """Return the result dimensions of the operand's dimensions; `None` if they are invalid."""
    numbers, result = integers_of(operation, name), tensor_of(operation.results[0])
    operand = tensor_of(operation.operands[0])
    if numbers is None or result is None or operand is None or len(numbers) != operand.rank:
        return None
    return numbers if all(0 <= d < result.rank for d in numbers) else None


# --------------------------------------------------------------------------------- broadcast_in_dim


def _broadcast(operation: Operation) -> Dims | None:
    return None if _only(operation) is None else _mapped(operation, "broadcast_dimensions")


def is_reshape(operation: Operation) -> bool:
    """Is a `broadcast_in_dim` a reshape: each element once, in order?"""
    numbers = _broadcast(operation)
    return (
        numbers is not None
        and list(numbers) == sorted(numbers)
        and same_static_count(_only(operation), tensor_of(operation.results[0]))
    )


@SHAPE.on("stablehlo.broadcast_in_dim", benefit=2)
def broadcast_to_reshape(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a broadcast of each element once, in order, by a reshape."""
    if not is_reshape(operation) or operation.result.type == operation.operands[0].type:
        return False
    return becomes(rewriter, operation, "stablehlo.reshape", operation.operands, {}, merges=True)


@SHAPE.on("stablehlo.broadcast_in_dim", benefit=2)
def broadcast_to_itself(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a broadcast that changes nothing by its operand."""
    numbers = _broadcast(operation)
    if numbers is None or not is_identity(numbers):
        return False
    return becomes_value(rewriter, operation, operation.operands[0], merges=True)


@SHAPE.on("stablehlo.broadcast_in_dim")
def broadcast_of_broadcast(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Merge two broadcasts into one, unless the inner one is a reshape."""
    outer = _broadcast(operation)
    inner = maker_of(operation.operands[0], "stablehlo.broadcast_in_dim") if outer else None
    numbers = _broadcast(inner) if inner is not None else None
    if outer is None or inner is None or numbers is None or is_reshape(inner):
        return False
    both = {"broadcast_dimensions": dims([outer[d] for d in numbers])}
    return becomes(rewriter, operation, operation.name, inner.operands, both, merges=True)


@SHAPE.on("stablehlo.broadcast_in_dim")
def broadcast_to_transpose(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a broadcast that only permutes dimensions by a transpose."""
    numbers, result = _broadcast(operation), tensor_of(operation.results[0])
    if numbers is None or result is None or sorted(numbers) != [*range(result.rank)]:
        return False
    if not same_static_count(tensor_of(operation.operands[0]), result):
        return False
    order = {"permutation": dims([numbers.index(d) for d in range(result.rank)])}
    return becomes(
        rewriter, operation, "stablehlo.transpose", operation.operands, order, merges=True
    )


# -------------------------------------------------------------------- reshape, transpose, convert


@SHAPE.on("stablehlo.reshape")
def reshape_of_reshape(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Merge two reshapes into one: the inner sizes do not matter."""
    inner = maker_of(operation.operands[0], operation.name) if _only(operation) else None
    if inner is None or _only(inner) is None:
        return False
    return becomes(
        rewriter, operation, operation.name, inner.operands, operation.properties, merges=True
    )


@SHAPE.on("stablehlo.reshape", "stablehlo.convert")
def same_type(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a reshape or conversion to the same type by its operand."""
    return _only(operation) is not None and becomes_value(
        rewriter, operation, operation.operands[0], merges=True
    )


def _permutation(operation: Operation) -> Dims | None:
    numbers = None if _only(operation) is None else _mapped(operation, "permutation")
    return numbers if numbers is not None and sorted(numbers) == [*range(len(numbers))] else None


@SHAPE.on("stablehlo.transpose")
def transpose_to_itself(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a transpose that changes nothing by its operand."""
    order = _permutation(operation)
    if order is None or not is_identity(order):
        return False
    return becomes_value(rewriter, operation, operation.operands[0], merges=True)


@SHAPE.on("stablehlo.transpose")
def transpose_of_transpose(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Merge two transposes into one."""
    outer = _permutation(operation)
    inner = maker_of(operation.operands[0], operation.name) if outer is not None else None
    first = _permutation(inner) if inner is not None else None
    if outer is None or inner is None or first is None:
        return False
    both = {"permutation": dims([first[d] for d in outer])}
    return becomes(rewriter, operation, operation.name, inner.operands, both, merges=True)


@SHAPE.on("stablehlo.transpose")
def transpose_to_reshape(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a transpose by a reshape if dimensions of size above 1 keep their order."""
    order, type = _permutation(operation), _only(operation)
    if order is None or type is None or not type.is_static or static_result(operation) is None:
        return False
    moved = [d for d in order if type.sizes[d] != 1]
    if moved != sorted(moved):
        return False
    return becomes(rewriter, operation, "stablehlo.reshape", operation.operands, {})


# ------------------------------------------------------------------------------------ reverse, iota


@SHAPE.on("stablehlo.reverse")
def reverse_to_itself(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a reverse that moves no element by its operand."""
    type, listed = _only(operation), integers_of(operation, "dimensions")
    if type is None or listed is None or not all(0 <= d < type.rank for d in listed):
        return False
    known = limits.known(operation.operands[0])
    is_still = type.is_static and (
        type.num_elements == 0 or all(type.sizes[d] == 1 for d in listed)
    )
    is_splat = known is not None and known.is_splat
    if listed and not is_still and not is_splat:
        return False
    return becomes_value(rewriter, operation, operation.operands[0])


def _iota(operation: Operation) -> tuple[int, TensorType] | None:
    number = integer_of(operation, "iota_dimension")
    type = tensor_of(operation.results[0]) if len(operation.results) == 1 else None
    if number is None or type is None or not 0 <= number < type.rank:
        return None
    return number, type


@SHAPE.on("stablehlo.iota")
def iota_of_one(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace an iota of size 1 along its dimension by zeros."""
    found = _iota(operation)
    if found is None or found[1].sizes[found[0]] != 1:
        return False
    return becomes_splat(rewriter, operation, 0)


@SHAPE.on("stablehlo.iota")
def iota_to_broadcast(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace an iota by the broadcast of an iota of rank 1."""
    found = _iota(operation)
    if found is None or found[1].rank < 2:
        return False
    number, type = found
    line = TensorType(type.element, (type.sizes[number],))
    if not type.is_static:
        return False
    properties = {**operation.properties, "iota_dimension": IntegerAttr(0, I64)}
    row = rewriter.create(operation.name, (), properties, before=operation, types=[line])
    across = {"broadcast_dimensions": dims([number])}
    return becomes(rewriter, operation, "stablehlo.broadcast_in_dim", row.results, across)


# -------------------------------------------------------------------------------------- concatenate


@SHAPE.on("stablehlo.concatenate")
def concatenate_one(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a concatenation of one operand by the operand."""
    return len(operation.operands) == 1 and becomes_value(
        rewriter, operation, operation.operands[0]
    )


@SHAPE.on("stablehlo.concatenate")
def concatenate_without_empty(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Remove empty operands, if others remain."""
    number = integer_of(operation, "dimension")
    if number is None:
        return False
    kept = []
    for value in operation.operands:
        type = tensor_of(value)
        if type is None or not 0 <= number < type.rank:
            return False
        if type.sizes[number] != 0:
            kept.append(value)
    if not kept or len(kept) == len(operation.operands):
        return False
    rewriter.set_operands(operation, kept)
    return True


@SHAPE.on("stablehlo.concatenate")
def concatenate_of_concatenate(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Inline operands that are concatenations of the same dimension with no other use."""
    number = integer_of(operation, "dimension")
    operands: list[Value] = []
    # The stack is reversed, so that operands are found in order.
    work, seen = [*reversed(operation.operands)], {operation}
    while work:
        value = work.pop()
        inner = maker_of(value, operation.name)
        if (
            inner is None
            or inner in seen
            or rewriter.uses(value) != 1
            or integer_of(inner, "dimension") != number
            or len(inner.results) != 1
        ):
            operands.append(value)
        else:
            seen.add(inner)
            work += reversed(inner.operands)
    if operands == [*operation.operands]:
        return False
    rewriter.set_operands(operation, operands)
    return True


__all__ = ["SHAPE", "is_reshape"]
