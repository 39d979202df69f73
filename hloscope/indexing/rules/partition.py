"""Rules for ops of Shardy, which divide values among devices."""

from __future__ import annotations

from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.registry import (
    identity,
    input_to_output,
    output_to_input,
    sizes,
    without_rule,
)
from hloscope.ir import Instruction
from hloscope.ops import ManualComputation, ShardingConstraint


@output_to_input(ShardingConstraint)
@input_to_output(ShardingConstraint)
def _(ins: Instruction, op: ShardingConstraint, number: int) -> tuple[Accesses, ...]:
    return (identity(sizes(ins.operands[0].type)),)


without_rule(ManualComputation, reason="which part of a value a device has is up to its sharding")
