"""Decides which reductions of a thread XLA unrolls to straight-line code with merged loads.

Source: XLA `xla/backends/gpu/codegen/emitters/transforms/optimize_loops.cc` (`GetUnrollingFactor`).
"""

from __future__ import annotations

from math import prod
from typing import Final

from hloscope.ir import Instruction
from hloscope.memory.fused import Fused
from hloscope.memory.storage import array_of
from hloscope.ops import Elementwise, Reduce
from hloscope.walks import reached

MOST_UNROLLED: Final = 400
"""Maximum number of operations of an unrolled loop."""
SLOW: Final = 20
"""Cost, in operations, of an element-wise function that needs many instructions."""
OF_ITSELF: Final = 4
"""Operations of a step in addition to loads and arithmetic."""
FAST: Final = frozenset(
    ("abs", "add", "and", "ceil", "compare", "convert", "copy", "divide", "floor", "maximum",
     "minimum", "multiply", "negate", "not", "or", "remainder", "select", "shift_left",
     "shift_right_arithmetic", "shift_right_logical", "sign", "subtract", "xor")
)  # fmt: skip
"""Element-wise ops that count as one operation."""


def stays_loop(root: Instruction, fused: Fused) -> bool:
    """Is a root computed from a reduction that is not unrolled?"""
    inside = [root, *_producers(root, fused)]
    return any(isinstance(ins.op, Reduce) and not _is_unrolled(ins, fused) for ins in inside)


def _producers(value: Instruction, fused: Fused) -> set[Instruction]:
    """Return all instructions of the kernel that a value depends on."""

    def inside(ins: Instruction) -> list[Instruction]:
        return [operand for operand in ins.operands if fused.contains(operand)]

    return {*reached(inside(value), inside)}


def _is_unrolled(reduction: Instruction, fused: Fused) -> bool:
    """Does XLA unroll all steps of a reduction?"""
    assert isinstance(reduction.op, Reduce)
    type = array_of(reduction.operands[0])
    if type is None:
        return False
    steps = prod([type.shape[k] for k in reduction.op.dimensions])
    body = [ins for callee in reduction.calls for ins in callee.instructions]
    inside = _producers(reduction, fused)
    handed_in = {
        operand for ins in (reduction, *inside) for operand in ins.operands if operand in fused.edge
    }
    size = OF_ITSELF + len(handed_in) + sum(map(_size, [*inside, *body]))
    return steps * size <= MOST_UNROLLED


def _size(ins: Instruction) -> int:
    """Return the number of operations of an instruction in a step."""
    if not isinstance(ins.op, Elementwise):
        return 0
    return 1 if ins.op.name in FAST else SLOW
