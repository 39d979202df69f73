"""Rules for ops of Shardy, which divide values among devices."""

from __future__ import annotations

from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.registry import (
    identity,
    input_to_output,
    missing,
    output_to_input,
    sizes,
)
from hloscope.ir import Instruction
from hloscope.ops import ManualComputation, ShardingConstraint


@output_to_input(ShardingConstraint)
@input_to_output(ShardingConstraint)
def _(ins: Instruction, op: ShardingConstraint, number: int) -> tuple[Accesses, ...]:
    return (identity(sizes(ins.operands[0].type)),)


missing(ManualComputation, reason="which part of a value a device has is up to its sharding")
