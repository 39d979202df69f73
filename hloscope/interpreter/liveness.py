"""Which instructions of a computation matter for what it returns or does."""

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
"""Ops whose results depend on nothing but operands and the computations they call."""
STRUCTURE: Final = (GetTupleElement, Result, Tuple)
_ASSERTIONS: Final = "check."
"""How targets begin that compare values and end the program where they differ."""
_CALLING: Final = (Call, Case, Fusion, While)


def needed(computation: Computation, functions: Collection[str] = ()) -> frozenset[Instruction]:
    """The instructions that are returned, have effects, or are read by such ones.

    Calls, branches and loops count as effects; what regions read from outside is read.

    Args:
        computation: Where the instructions are.
        functions: Targets of custom calls that may have effects, whatever the program says.
    """
    found: set[Instruction] = {computation.root}
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
