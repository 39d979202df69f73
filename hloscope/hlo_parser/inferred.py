"""Types omitted in the text: the op's inferred type, with the layout that XLA would choose.

An element-wise op has its first operand's layout, a transpose permutes its operand's, and a tuple
keeps those of its parts. Every other type has no layout, that is, row-major order.
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
"""Element-wise ops whose result does not have the layout of the first operand."""


def inferred_type(op: Op, operands: tuple[Type, ...], calls: tuple[Computation, ...]) -> Type:
    """Return the type of an instruction whose text omits it.

    Raises:
        VerifyError: The operands do not fit the op.
        ValueError: The operands do not determine the type.
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
    """Does the result have the layout of the first operand?"""
    if isinstance(op, Elementwise):
        return op.name not in _NO_LAYOUT
    opcode = OPCODES.get(type(op))
    return opcode is not None and SPELLINGS[opcode].like_first


def _as_dynamic(type_: TensorType, operands: tuple[Type, ...]) -> TensorType:
    """Return `type_` with those dimensions dynamic that are so in an operand with an equal size.

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
    """Return the layout with which a transpose is a bitcast."""
    layout = operand.layout or Layout(tuple(range(operand.rank - 1, -1, -1)))
    place = {old: new for new, old in enumerate(permutation)}
    return replace(layout, minor_to_major=tuple(place[d] for d in layout.minor_to_major))
