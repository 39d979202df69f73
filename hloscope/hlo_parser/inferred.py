"""Types that the text leaves out: the op's own inference, with the layouts XLA would give.

XLA infers the layout along with the sizes: an element-wise op takes its first operand's, a
transpose moves the operand's dimensions, a tuple keeps its parts as they are.  Everything else
has no layout, which means row-major.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hloscope.hlo_parser.opcodes import OPCODES, SPELLINGS
from hloscope.hlo_parser.signatures import signature
from hloscope.ir import Computation, Layout, Op, TensorType, TupleType, Type
from hloscope.ops import (
    Call,
    Case,
    Elementwise,
    GetTupleElement,
    ReduceWindow,
    Transpose,
    Tuple,
    While,
    element_of,
)

_NO_LAYOUT: Final = ("select", "clamp")
"""Element-wise ops whose result is not laid out like the first operand, as all others are."""


def inferred_type(op: Op, operands: tuple[Type, ...], calls: tuple[Computation, ...]) -> Type:
    """Return the type of an instruction of HLO text that does not write it.

    Raises:
        VerifyError: The operands do not fit the op.
        ValueError: The type does not follow from them.
    """
    needed = signature(op)
    if needed is not None and not needed.takes(operands):
        needed.refuse(OPCODES.get(type(op), op.name), operands)
    type_ = op.infer(operands, calls)
    if isinstance(op, ReduceWindow) and isinstance(type_, TensorType) and len(operands) == 2:
        type_ = replace(type_, element=element_of(op, operands[1]))
    if isinstance(op, Elementwise) and isinstance(type_, TensorType):
        type_ = _as_dynamic(type_, operands)
    if isinstance(op, Tuple):
        return TupleType(operands)
    if isinstance(op, GetTupleElement):
        (whole,) = operands
        return whole.elements[op.index] if isinstance(whole, TupleType) else type_
    if isinstance(op, While):
        return operands[0]
    if isinstance(op, Call | Case) and calls:
        return calls[0].root.type
    first = operands[0] if operands else None
    if isinstance(op, Transpose) and isinstance(first, TensorType):
        return _with_layout(type_, _permuted(first, op.permutation))
    if _is_like_first(op) and isinstance(first, TensorType):
        return _with_layout(type_, first.layout)
    return type_


def _is_like_first(op: Op) -> bool:
    """Is the result laid out like the first operand?"""
    if isinstance(op, Elementwise):
        return op.name not in _NO_LAYOUT
    opcode = OPCODES.get(type(op))
    return opcode is not None and SPELLINGS[opcode].like_first


def _as_dynamic(type_: TensorType, operands: tuple[Type, ...]) -> TensorType:
    """Return `type_` with the dimensions dynamic that are so in any operand of the same size.

    Source: XLA `ShapeInference::InferElementwiseBinaryOpShape`.
    """
    sizes, bounds = list(type_.sizes), list(type_.each_bound)
    for operand in operands:
        if isinstance(operand, TensorType) and operand.bounds and operand.rank == type_.rank:
            for d, bound in enumerate(operand.bounds):
                if bound is not None and bound == sizes[d]:
                    sizes[d], bounds[d] = None, bound
    return replace(type_, sizes=tuple(sizes), bounds=tuple(bounds) if None in sizes else ())


def _with_layout(type_: Type, layout: Layout | None) -> Type:
    if layout is None or not isinstance(type_, TensorType):
        return type_
    if len(layout.minor_to_major) != type_.rank:
        return type_
    return replace(type_, layout=layout)


def _permuted(operand: TensorType, permutation: tuple[int, ...]) -> Layout:
    """Return the layout under which a transpose moves nothing in memory."""
    layout = operand.layout or Layout(tuple(range(operand.rank - 1, -1, -1)))
    place = {old: new for new, old in enumerate(permutation)}
    return replace(layout, minor_to_major=tuple(place[d] for d in layout.minor_to_major))
