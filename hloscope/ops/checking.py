"""Ops of StableHLO's tests: `check` compares values, `interpreter` runs, prints and probes."""

from __future__ import annotations

from typing import Final

from hloscope.errors import Name, message_of
from hloscope.ir import Callees, Literal, Op, TupleType, Type, Types, Written, compatible
from hloscope.ops.inference import count, op, require, without_layouts

TOLERANCE: Final = 1e-4
"""Default maximum absolute difference of `expect_almost_eq`."""


class Expectation(Op):
    """Base of the ops that compare values; they have no results."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return TupleType(())


class _Pair(Expectation):
    """Base of the ops that compare two operands."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 2)
        a, b = operands
        require(
            compatible(a, b),
            "",
            message_of("the operands of `{}` are of different types", Name(self.name)),
        )
        return super().infer(operands, calls)


class _Single(Expectation):
    """Base of the ops that compare one operand with an attribute."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return super().infer(operands, calls)


@op("check.expect_eq")
class ExpectEq(_Pair):
    """Expects equal operands, floats compared as in IEEE 754."""


@op("check.expect_eq_const")
class ExpectEqConst(_Single):
    """Expects the operand to equal the constant `value`."""

    value: Literal


@op("check.expect_almost_eq")
class ExpectAlmostEq(_Pair):
    """Expects operands that differ by at most `tolerance`.

    Attributes:
        tolerance: Maximum absolute difference.
    """

    tolerance: float = TOLERANCE


@op("check.expect_almost_eq_const")
class ExpectAlmostEqConst(_Single):
    """Expects the operand to differ from a constant by at most `tolerance`.

    Attributes:
        value: The constant.
        tolerance: Maximum absolute difference.
    """

    value: Literal
    tolerance: float = TOLERANCE


@op("check.expect_close")
class ExpectClose(_Pair):
    """Expects operands whose distance, in units in the last place, is within limits.

    Attributes:
        max_ulp_difference: Maximum distance; 1 if not written.
        min_ulp_difference: Minimum distance; 0 if not written.
    """

    max_ulp_difference: Written = Written()
    min_ulp_difference: Written = Written()


@op("check.expect_serialized_eq")
class ExpectSerializedEq(_Single):
    """Expects the operand to equal a value that a probe has written to a file.

    Attributes:
        probe_id: Name of the probe.
        iteration: Index of the value among the probe's values, from 0; the first if not written.
    """

    probe_id: str = ""
    iteration: Written = Written()


class _Observed(Op):
    """Base of the ops that return their operand."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return without_layouts(operands[0])


@op("interpreter.print")
class Print(_Observed):
    """Prints its operand and returns it."""


@op("interpreter.probe")
class Probe(_Observed):
    """Writes its operand to a file and returns it.

    Attributes:
        probe_id: Name of the probe.
    """

    probe_id: str = ""


@op("interpreter.run_parallel")
class RunParallel(Op):
    """Runs functions in a grid of processes.

    Operands are the arguments of all functions in order, results are their results.

    Attributes:
        programs: Names of the functions: one list for each replica, one entry for each partition.
        infeed: Names of the functions that supply the values for `infeed`.
    """

    programs: Written = Written()
    infeed: Written = Written()
