"""Sizes known only at run time, which the rules take for their bounds.

Where an op moves elements by a size that may be less than its bound, nothing is known; where it
reads up to the bound, it may read less.
"""

from __future__ import annotations

from dataclasses import replace

from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import unknown
from hloscope.ir.graph import Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import TensorType, Type
from hloscope.ops import control
from hloscope.ops.dynamic import DynamicBroadcastInDim, GetDimensionSize, SetDimensionSize
from hloscope.ops.elementwise import Elementwise, ImplicitBroadcast
from hloscope.ops.reduction import Map
from hloscope.ops.shape import Bitcast, BroadcastInDim, Concatenate, Reshape, Reverse, Transpose

_REASON = "a size known only at run time counts as its bound"
_INDEXED_ALIKE: tuple[type[Op], ...] = (
    Elementwise, ImplicitBroadcast, Map, BroadcastInDim, DynamicBroadcastInDim, Transpose,
    GetDimensionSize, SetDimensionSize, control.Tuple, control.GetTupleElement, control.Return,
    control.OptimizationBarrier, control.Domain, control.AddDependency, control.CopyStart,
    control.CopyDone,
)  # fmt: skip
"""Ops that touch an element wherever it exists, whatever the sizes."""


def dynamic_dimensions(type: Type) -> tuple[int, ...]:
    """The dimensions whose size is not known."""
    if not isinstance(type, TensorType) or None not in type.sizes:
        return ()
    return tuple(k for k, size in enumerate(type.sizes) if size is None)


def has_dynamic_sizes(ins: Instruction) -> bool:
    """Has an operand or the result a size that is not known?"""
    type = ins.type
    if isinstance(type, TensorType) and None in type.sizes:
        return True
    for operand in ins.operands:
        type = operand.type
        if isinstance(type, TensorType) and None in type.sizes:
            return True
    return False


def _is_moved(ins: Instruction) -> bool:
    """Does the place of an element depend on a size that is not known?"""
    match ins.op:
        case Reshape() | Bitcast():
            return True
        case Reverse(dimensions):
            return not set(dimensions).isdisjoint(dynamic_dimensions(ins.type))
        case Concatenate(dimension):
            return any(dimension in dynamic_dimensions(o.type) for o in ins.operands[:-1])
        case _:
            return False


def weakened(ins: Instruction, answer: tuple[Accesses, ...]) -> tuple[Accesses, ...]:
    """The answer of a rule, claiming no more than holds for every size up to the bounds."""
    if isinstance(ins.op, _INDEXED_ALIKE):
        return answer
    if _is_moved(ins):
        return (unknown("elements move by a size known only at run time"),) * len(answer)
    return tuple(
        tuple(
            replace(access, precision=Precision.OVER, reason=_REASON)
            if access.precision is Precision.EXACT
            else access
            for access in accesses
        )
        for accesses in answer
    )
