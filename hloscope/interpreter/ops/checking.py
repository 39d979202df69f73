"""Ops that compare values: dialect `check`, and custom calls of the same names.

Source: StableHLO's `CheckOps.cpp`; the custom calls have other tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.numbers.distance import FAR, Difference, exactly, within, within_ulps
from hloscope.interpreter.ops.observing import probed
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value
from hloscope.ir import TensorType, TupleType, Written
from hloscope.ops import (
    TOLERANCE,
    CustomCall,
    ExpectAlmostEq,
    ExpectAlmostEqConst,
    ExpectClose,
    ExpectEq,
    ExpectEqConst,
    ExpectSerializedEq,
)

Comparison = Callable[[Array, Array], Difference | None]


def _number(text: Written, default: int) -> int:
    """Integer value of an attribute, or the default if it has none."""
    found = text.value
    return default if found is None else int(found)


def _compared(what: str, compare: Comparison, found: Any, expected: Any) -> None:
    """Compare two values.

    Raises:
        EvaluationError: Their shapes or elements differ.
    """
    if found.shape != expected.shape:
        raise EvaluationError(
            f"{what}: found shape {list(found.shape)}, expected {list(expected.shape)}"
        )
    difference = compare(found, expected)
    if difference is not None:
        raise EvaluationError(f"{what}: {difference}")


def _pair(what: str, compare: Comparison) -> Kernel:
    """Kernel that compares its two operands."""

    def kernel(found: Value, expected: Value) -> Value:
        _compared(what, compare, found, expected)
        return ()

    return kernel


def _with_constant(op: ExpectEqConst | ExpectAlmostEqConst, compare: Comparison) -> Kernel:
    """Kernel that compares its operand with the constant of the op."""
    what, expected = op.name, op.value.array(op.value.type or TupleType(()))

    def kernel(found: Value) -> Value:
        _compared(what, compare, found, expected)
        return ()

    return kernel


@evaluates(ExpectEq)
def _expect_eq(op: ExpectEq, at: Site) -> Kernel:
    return _pair(op.name, exactly)


@evaluates(ExpectEqConst)
def _expect_eq_const(op: ExpectEqConst, at: Site) -> Kernel:
    return _with_constant(op, exactly)


@evaluates(ExpectAlmostEq)
def _expect_almost_eq(op: ExpectAlmostEq, at: Site) -> Kernel:
    return _pair(op.name, partial(within, tolerance=op.tolerance))


@evaluates(ExpectAlmostEqConst)
def _expect_almost_eq_const(op: ExpectAlmostEqConst, at: Site) -> Kernel:
    compare = partial(within, tolerance=op.tolerance)
    return _with_constant(op, compare)


@evaluates(ExpectClose)
def _expect_close(op: ExpectClose, at: Site) -> Kernel:
    most = _number(op.max_ulp_difference, 1) & FAR  # unsigned
    least = _number(op.min_ulp_difference, 0) & FAR
    return _pair(op.name, partial(within_ulps, most=most, least=least))


@evaluates(ExpectSerializedEq)
def _expect_serialized_eq(op: ExpectSerializedEq, at: Site) -> Kernel:
    """Compare the operand with a value that a probe has written."""
    number = _number(op.iteration, 0)
    (type_,) = at.operands
    world = at.world

    def kernel(found: Value) -> Value:
        _compared(op.name, exactly, found, probed(world, op.probe_id, number, type_))
        return ()

    return kernel


@implements("check.expect_eq")
def _call_eq(op: CustomCall, at: Site) -> Kernel:
    return _pair(op.call_target_name, exactly)


@implements("check.expect_almost_eq")
def _call_almost_eq(op: CustomCall, at: Site) -> Kernel:
    return _pair(op.call_target_name, partial(within, tolerance=1e-3))


@implements("check.expect_close")
def _call_close(op: CustomCall, at: Site) -> Kernel:
    return _pair(op.call_target_name, partial(within_ulps, most=3))


@implements("check.eq")
def _call_check(op: CustomCall, at: Site) -> Kernel:
    """True; it raises an error if the operands differ."""
    compare, true = partial(within, tolerance=TOLERANCE), np.bool_(True)
    shape = at.result.sizes if isinstance(at.ins.type, TensorType) else ()
    result = np.broadcast_to(true, [size or 1 for size in shape])

    def kernel(found: Value, expected: Value) -> Value:
        _compared(op.call_target_name, compare, found, expected)
        return result

    return kernel
