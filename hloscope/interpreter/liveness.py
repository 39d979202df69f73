"""The instructions of a computation that affect its results or have side effects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hloscope.ir import Computation, Instruction, Op, captured
from hloscope.ops import (
    OPS,
    Call,
    Case,
    CustomCall,
    Fusion,
    GetTupleElement,
    Parameter,
    Result,
    Return,
    Tuple,
    While,
    batch_norm,
    contraction,
    convolution,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    quantize,
    reduction,
    shape,
    slicing,
    windows,
)

_FAMILIES: Final = (
    batch_norm, contraction, convolution, dynamic, elementwise, gather_scatter, linalg, quantize,
    reduction, shape, slicing, windows,
)  # fmt: skip
PURE: Final[frozenset[type[Op]]] = frozenset(
    cls for cls in OPS.values() if cls.__module__ in {family.__name__ for family in _FAMILIES}
) | {Call, Case, Fusion, While}
"""Ops without side effects: results depend only on operands and called computations."""
STRUCTURE: Final = (GetTupleElement, Result, Tuple)
_ASSERTIONS: Final = "check."
"""Prefix of custom-call targets that compare values and stop the program if they differ."""
_CALLING: Final = (Call, Case, Fusion, While)


def needed(computation: Computation, functions: Collection[str] = ()) -> frozenset[Instruction]:
    """Return the instructions that are returned, have side effects, or are read by such ones.

    Calls, branches and loops count as side effects.  Values that regions capture count as read.

    Args:
        computation: The computation that holds the instructions.
        functions: Targets of custom calls that count as side effects even if the program declares
            none.
    """
    found: set[Instruction] = {computation.root}
    # Users come after the values they read.  In reverse order, all users of an instruction have
    # been decided before it, so one pass is enough.
    for ins in reversed(computation.instructions):
        if ins in found or not _may_be_left_out(ins, functions):
            found.add(ins)
            found.update(ins.operands)
            found.update(captured(ins))
    return frozenset(found)


def _may_be_left_out(ins: Instruction, functions: Collection[str]) -> bool:
    if isinstance(ins.op, CustomCall):
        target = ins.op.call_target_name
        fails = target.startswith(_ASSERTIONS) or target in functions
        return not ins.op.has_side_effect and not fails
    if isinstance(ins.op, (*_CALLING, Parameter, Return)):
        return False
    return type(ins.op) in PURE or isinstance(ins.op, STRUCTURE)
