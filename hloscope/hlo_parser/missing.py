"""Stand-ins for computations that a part of a module calls but does not contain.

A fusion or a `reduce` copied from a dump lacks its callee. A stand-in has the parameter and result
types that the caller implies; its root is an unknown op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.hlo_parser.nodes import TextComputation, TextInstruction
from hloscope.hlo_parser.sections import Section
from hloscope.ir import ELEMENT_TYPES, Body, Computation, Op, TensorType, TupleType, Type
from hloscope.ops import Parameter, UnknownOp
from hloscope.source import Source

_TRUTH: Final = TensorType(ELEMENT_TYPES["pred"], ())
_COMBINERS: Final = ("reduce", "reduce_window", "scatter", "all_reduce", "reduce_scatter")

OPCODE: Final = "missing-computation"
"""Opcode of the root of a stand-in."""


def signature_of_callee(
    op: Op, number: int, operands: Sequence[Type], result: Type
) -> tuple[tuple[Type, ...], Type]:
    """Return the parameter and result types of a callee, as implied by its caller.

    Args:
        op: The op of the caller.
        number: Index of the callee among the instruction's callees.
        operands: Types of the operands of the caller.
        result: Type of the caller.
    """
    given = tuple(operands)
    match op.name:
        case "while":
            return given, _TRUTH if number == 0 else result
        case "case":
            return given[number + 1 : number + 2], result
        case "sort":
            scalars = [_scalar(type) for type in given]
            return tuple([scalar for scalar in scalars for _ in range(2)]), _TRUTH
        case "select_and_scatter":
            scalar = _scalar(result)
            return (scalar, scalar), _TRUTH if number == 0 else scalar
        case "map":
            return tuple(map(_scalar, given)), _scalar(result)
        case "async_start" if isinstance(result, TupleType) and len(result.elements) > 1:
            return given, result.elements[1]
        case name if name in _COMBINERS:
            parts = result.elements if isinstance(result, TupleType) else (result,)
            if name in ("all_reduce", "reduce_scatter"):
                parts = parts[:1]
            scalars = [_scalar(type) for type in parts]
            combined = scalars[0] if len(scalars) == 1 else TupleType(tuple(scalars))
            return (*scalars, *scalars), combined
        case _:
            return given, result


def _scalar(type: Type) -> Type:
    return TensorType(type.element, ()) if isinstance(type, TensorType) else type


def stand_in(
    name: str, takes: Sequence[Type], returns: Type, source: Source, at: tuple[int, int]
) -> Computation:
    """Return a computation with these types, at the position where it is named."""
    parameters = [
        TextInstruction(f"p{k}", type, Parameter(k), (), (), (), "", (), source, *at)
        for k, type in enumerate(takes)
    ]
    root = TextInstruction(
        "result", returns, UnknownOp(OPCODE), tuple(parameters), (), (), "", (), source, *at
    )
    every = (*parameters, root)
    body = Body(every, tuple(parameters), root)
    body.captures = ()
    return TextComputation(source, Section(name, False, at[0], at[0], at[1], at[1] - 1), body)
