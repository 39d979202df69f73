"""Rules for random numbers."""

from __future__ import annotations

from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.registry import (
    NEVER,
    all_output_sizes,
    everything,
    everything_map,
    everywhere,
    input_to_output,
    leaves,
    output_sizes,
    output_to_input,
    over,
    sizes,
)
from hloscope.ir import Instruction
from hloscope.ops import Rng, RngBitGenerator, RngGetAndUpdateState


@output_to_input(Rng)
def _(ins: Instruction, op: Rng, output: int) -> tuple[Accesses, ...]:
    """Return accesses of all parameters of the distribution, which every element reads."""
    return tuple(everything(sizes(ins.type), sizes(operand.type)) for operand in ins.operands)


@input_to_output(Rng)
def _(ins: Instruction, op: Rng, operand: int) -> tuple[Accesses, ...]:
    return everywhere(ins, operand)


_STATE = "which words of the state matter is up to the algorithm"


@output_to_input(RngBitGenerator, precision=Precision.OVER, reason=_STATE)
def _(ins: Instruction, op: RngBitGenerator, output: int) -> tuple[Accesses, ...]:
    state = sizes(ins.operands[0].type)
    return (over(_STATE, everything_map(output_sizes(ins, output), state)),)


@input_to_output(RngBitGenerator, precision=Precision.OVER, reason=_STATE)
def _(ins: Instruction, op: RngBitGenerator, operand: int) -> tuple[Accesses, ...]:
    state = sizes(ins.operands[0].type)
    return tuple(over(_STATE, everything_map(state, shape)) for shape in all_output_sizes(ins))


@output_to_input(RngGetAndUpdateState)
def _(ins: Instruction, op: RngGetAndUpdateState, output: int) -> tuple[Accesses, ...]:
    return ()


@input_to_output(RngGetAndUpdateState)
def _(ins: Instruction, op: RngGetAndUpdateState, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(leaves(ins.type))
