"""Custom calls with an attribute that names the operands with the sizes of their results.

Source: StableHLO `Base.cpp` (`getShapeRefinements`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.errors import HloscopeError
from hloscope.ir import Dims, TensorType, TupleType, Type, UnrankedTensorType, compatible
from hloscope.mlir import DenseAttr, Operation, Value, expanded, type_text
from hloscope.passes.dynamism.constants import S64, ints
from hloscope.passes.dynamism.values import flattened
from hloscope.passes.framework import Run

SHAPE_OPERANDS = "indices_of_shape_operands"


def shape_operands(op: Operation, run: Run) -> list[Value] | None:
    """Return the operands with the sizes of the results, one for each tensor of the results.

    `None` if the attribute is missing, or if it is invalid, which is reported as an error.
    """
    given = op.get(SHAPE_OPERANDS)
    if given is None:
        return None

    def report(message: str) -> None:
        run.plain_error(op, f"{SHAPE_OPERANDS}: {message}", fails=False)

    type = given.type if isinstance(given, DenseAttr) else None
    if not isinstance(given, DenseAttr) or not isinstance(type, TensorType):
        return None
    results = flattened([value.type for value in op.results])
    has_tuples = any(isinstance(value.type, TupleType) for value in op.results)
    count = type.num_elements if type.is_static else 0
    if count != len(results):
        also = ", with tuples flattened" if has_tuples else ""
        report(
            f"number of elements ({count}) must be equal to the number of operation results"
            f" ({len(results)}){also}"
        )
        return None
    if type.rank != 1:
        report("must have rank = 1")
        return None
    if type.element != S64:
        report("must have i64 element type")
        return None
    found: list[Value] = []
    for number, index in enumerate(_numbers(given)):
        if not 0 <= index < len(op.operands):
            report(
                f"index #{number} ({index}) must be within bounds for operation operands"
                f" (from 0 to {len(op.operands)})"
            )
            return None
        found.append(op.operands[index])
    return found


def _numbers(given: DenseAttr) -> Dims:
    try:
        return tuple(expanded(given))
    except (ValueError, HloscopeError):
        return ()


def shapes_of(op: Operation, run: Run) -> list[Dims] | None:
    """Return the sizes of the results; `None` unless the operands are constants that fit."""
    operands = shape_operands(op, run)
    if operands is None:
        return None
    results = flattened([value.type for value in op.results])
    found: list[Dims] = []
    for number, (operand, type) in enumerate(zip(operands, results, strict=True)):
        sizes = ints(operand)
        if sizes is None:
            return None
        if not _fit(sizes, type):
            message = (
                f"{SHAPE_OPERANDS}: refinement #{number} ([{', '.join(map(str, sizes))}]) must be"
                f" compatible with operation result #{number} ('{type_text(type)}')"
            )
            run.plain_error(op, message, fails=False)
            return None
        found.append(sizes)
    return found


def _fit(sizes: Sequence[int], type: Type) -> bool:
    if any(size < 0 for size in sizes):
        return False
    if isinstance(type, UnrankedTensorType):
        return True
    return isinstance(type, TensorType) and compatible(type, TensorType(type.element, tuple(sizes)))
