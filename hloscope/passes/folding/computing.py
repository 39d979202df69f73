"""Evaluation of operations of constants by the interpreter's kernels, within limits."""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.arrays import np
from hloscope.errors import HloscopeError
from hloscope.interpreter import World, kernel
from hloscope.ir import Instruction, TensorType
from hloscope.mlir import DenseAttr, Operation, from_array
from hloscope.ops import Op, Parameter
from hloscope.passes.limits import Known, Limits, work_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import make_op


def constants(operation: Operation, limits: Limits) -> list[Known] | None:
    """Return the elements of all operands; `None` unless all are constants."""
    found = []
    for value in operation.operands:
        known = limits.known(value)
        if known is None:
            return None
        found.append(known)
    return found or None


def replace(rewriter: Rewriter, operation: Operation, literal: DenseAttr) -> bool:
    """Replace an operation by a constant; return true."""
    type = operation.result.type
    assert isinstance(type, TensorType)
    rewriter.replace(operation, [rewriter.constant(literal, type, before=operation)])
    return True


def computed(
    operation: Operation, given: Sequence[Known], type: TensorType, limits: Limits
) -> DenseAttr | None:
    """Return the value of an operation of constants; `None` if a limit is exceeded.

    Args:
        operation: The operation, without regions.
        given: Elements of its operands.
        type: Type of its result.
        limits: Budget, from which the bytes read and written are spent.
    """
    # The bytes are spent before any array is made.
    if not limits.spend(work_of(type) + sum(work_of(known.type) for known in given)):
        return None
    op, types = _op(operation), [known.type for known in given]
    return None if op is None else _evaluated(op, types, [k.array for k in given], type)


def computed_elementwise(
    operation: Operation, given: Sequence[Known], type: TensorType, limits: Limits
) -> DenseAttr | None:
    """Return the value of an element-wise operation; of splats, one element is computed."""
    if not all(known.is_splat for known in given):
        return computed(operation, given, type, limits)
    op, types = _op(operation), [TensorType(known.type.element, ()) for known in given]
    if op is None or not limits.spend(1):
        return None
    element = TensorType(type.element, ())
    found = _evaluated(op, types, [known.element for known in given], element)
    return None if found is None else DenseAttr(found.literal, type)


def _op(operation: Operation) -> Op | None:
    try:
        return make_op(operation)
    except HloscopeError:  # an attribute is missing, which the verifier reports
        return None


def _evaluated(
    op: Op, types: Sequence[TensorType], arrays: Sequence[np.ndarray], type: TensorType
) -> DenseAttr | None:
    operands = tuple([Instruction(f"p{n}", t, Parameter(n)) for n, t in enumerate(types)])
    try:
        compute = kernel(Instruction("folded", type, op, operands), World())
        # NumPy warns of overflow and invalid operands; the results are IEEE values either way.
        with np.errstate(all="ignore"):
            return from_array(np.asarray(compute(*arrays)), type)
    except (HloscopeError, ValueError, TypeError, IndexError):  # operands do not fit, or no kernel
        return None


__all__ = [
    "computed",
    "computed_elementwise",
    "constants",
    "replace",
]
