"""Rules for ops of StableHLO's own tests: prints return their operand, tests return nothing."""

from __future__ import annotations

from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.registry import (
    identity,
    input_to_output,
    output_to_input,
    sizes,
    without_rule,
)
from hloscope.ir import Instruction, Op
from hloscope.ops import Expectation, Print, Probe, RunParallel


@output_to_input(Print, Probe)
@input_to_output(Print, Probe)
def _(ins: Instruction, op: Op, number: int) -> tuple[Accesses, ...]:
    return (identity(sizes(ins.operands[0].type)),)


@output_to_input(Expectation)
@input_to_output(Expectation)
def _(ins: Instruction, op: Op, number: int) -> tuple[Accesses, ...]:
    """Return no accesses, as comparisons have no outputs."""
    return ()


without_rule(RunParallel, reason="functions that run on other processes")
