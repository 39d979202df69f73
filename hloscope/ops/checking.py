"""Ops of StableHLO's own tests: `check` compares values, `interpreter` runs, prints and probes."""

from __future__ import annotations

from typing import Final

from hloscope.errors import Name, said
from hloscope.ir import Literal, TupleType, Written, compatible
from hloscope.ops.base import Callee, Op, Type, op
from hloscope.ops.infer_util import bare, count, require

TOLERANCE: Final = 1e-4
"""Largest absolute difference, unless another is given."""


class Expectation(Op):
    """Base of the ops that compare values and have no result."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return TupleType(())


class _Pair(Expectation):
    """Base of those that compare two operands."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        a, b = operands
        require(
            compatible(a, b),
            "",
            said("the operands of `{}` are of different types", Name(self.name)),
        )
        return super().infer(operands, calls)


class _Single(Expectation):
    """Base of those that compare one operand with something written."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        return super().infer(operands, calls)


@op("check.expect_eq")
class ExpectEq(_Pair):
    """The operands are equal, floats as IEEE 754 compares them."""


@op("check.expect_eq_const")
class ExpectEqConst(_Single):
    """The operand equals a constant, `value`."""

    value: Literal


@op("check.expect_almost_eq")
class ExpectAlmostEq(_Pair):
    """The operands differ by `tolerance` at most.

    Attributes:
        tolerance: Largest absolute difference.
    """

    tolerance: float = TOLERANCE


@op("check.expect_almost_eq_const")
class ExpectAlmostEqConst(_Single):
    """The operand differs from a constant by `tolerance` at most.

    Attributes:
        value: The constant.
        tolerance: Largest absolute difference.
    """

    value: Literal
    tolerance: float = TOLERANCE


@op("check.expect_close")
class ExpectClose(_Pair):
    """The distance of the operands, in units in the last place, is within limits.

    Attributes:
        max_ulp_difference: Largest distance; 1 where none is written.
        min_ulp_difference: Least distance; 0 where none is written.
    """

    max_ulp_difference: Written = Written()
    min_ulp_difference: Written = Written()


@op("check.expect_serialized_eq")
class ExpectSerializedEq(_Single):
    """The operand equals a value that a probe has written to a file.

    Attributes:
        probe_id: Name of the probe.
        iteration: Which of its values; the first where nothing is written.
    """

    probe_id: str = ""
    iteration: Written = Written()


class _Observed(Op):
    """Base of ops that return their operand."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        return bare(operands[0])


@op("interpreter.print")
class Print(_Observed):
    """The operand, printed."""


@op("interpreter.probe")
class Probe(_Observed):
    """The operand, written to a file.

    Attributes:
        probe_id: Name of the probe.
    """

    probe_id: str = ""


@op("interpreter.run_parallel")
class RunParallel(Op):
    """Runs functions on a grid of processes; operands and results are theirs, one after another.

    Attributes:
        programs: Names of the functions, one row for each replica.
        infeed: Names of the functions that feed them from the host.
    """

    programs: Written = Written()
    infeed: Written = Written()
