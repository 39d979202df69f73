"""Constraints of HLO on element types of operands, where StableHLO has none.

Most are in the op's row in `hlo_parser`; here are those that relate several operands.

Source: XLA `shape_inference.cc` (`InferConvertShape`, `InferStochasticConvertShape`,
`InferTriangularSolveShape`, `VerifyReducerShape` …).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.hlo_parser import print_type, signature
from hloscope.ir import BufferType, ElementType, Instruction, Op, TensorType, Type
from hloscope.ops import (
    ELEMENTWISE,
    Convert,
    Map,
    Reduce,
    ReduceWindow,
    Scatter,
    SelectAndScatter,
    Sort,
    StochasticConvert,
    TriangularSolve,
)


def check_elements(ins: Instruction) -> None:
    """Check the element types of operands, and of the parameters of reducing computations.

    Raises:
        VerifyError: The op does not accept an element type.
    """
    needed = signature(ins.op)
    for number, kinds in needed.elements.items() if needed is not None else ():
        if number < len(ins.operands):
            _check_kind(ins, number, kinds)
    rule = _RULES.get(type(ins.op))
    if rule is not None:
        rule(ins)


def _check_kind(ins: Instruction, number: int, kinds: tuple[str, ...]) -> None:
    element = _element(ins.operands[number].type)
    if element.kind not in kinds and element.name not in kinds:
        needed = ", ".join(kinds)
        raise VerifyError(f"operand {number} has element type {element}, needs one of {needed}")


def _triangular_solve(ins: Instruction) -> None:
    a, b = [_element(o.type) for o in ins.operands]
    if a != b:
        raise VerifyError(f"operands are of {a} and {b}, need to be of one element type")


def _convert(ins: Instruction) -> None:
    """Check that no imaginary part is lost, and that random bits are as wide as the operand."""
    operand, result = _element(ins.operands[0].type), _element(ins.type)
    if operand.kind == "complex" != result.kind:
        raise VerifyError(f"complex numbers of {operand} do not become {result}")
    if isinstance(ins.op, StochasticConvert):
        random = _element(ins.operands[1].type)
        if random.bits != operand.bits:
            raise VerifyError(f"random bits of {random} for {operand}, need to be as wide")


def _complex(ins: Instruction) -> None:
    real, imaginary = [_element(o.type) for o in ins.operands]
    if real != imaginary:
        raise VerifyError(f"parts are of {real} and {imaginary}, need to be of one element type")


def _scatter(ins: Instruction) -> None:
    _check_kind(ins, len(ins.operands) // 2, ("signed", "unsigned"))
    _check_body(ins)


def _check_body(ins: Instruction) -> None:
    """Check that the parameters of a body have the element types of the values passed to it."""
    types = [o.type for o in ins.operands]
    number = len(types) // 2
    # Order of a body's parameters: accumulators before inputs.  Scatter passes no indices, and
    # select-and-scatter the initial value, then the source.
    if isinstance(ins.op, SelectAndScatter):
        given = [types[2], types[1]]
    elif isinstance(ins.op, Scatter):
        given = [*types[:number], *types[number + 1 :]]
    else:
        given = [*types[number:], *types[:number]]
    body = ins.calls[-1]
    for i, (operand, parameter) in enumerate(zip(given, body.arguments, strict=False)):
        if not isinstance(parameter, TensorType):
            text = print_type(parameter, layout=False)
            raise VerifyError(f"parameter {i} of {body.name} is {text}, needs an array")
        have, want = _element(operand), parameter.element
        if have != want and not have.kind == want.kind == "float":
            raise VerifyError(f"parameter {i} of {body.name} is of {want}, its operand of {have}")


def in_precision_of_body(ins: Instruction) -> tuple[Type, ...]:
    """Return operand types, floats in the precision that the body of a map or sort declares."""
    types = tuple([o.type for o in ins.operands])
    if not isinstance(ins.op, Map | Sort) or not ins.calls:
        return types
    # A comparator has two parameters for each operand of a sort.
    step = 2 if isinstance(ins.op, Sort) else 1
    taken = ins.calls[0].arguments[::step]
    pairs = zip(types, taken, strict=False)
    return (*[_in_precision(*pair) for pair in pairs], *types[len(taken) :])


def _in_precision(type_: Type, parameter: Type) -> Type:
    if not isinstance(type_, TensorType) or not isinstance(parameter, TensorType):
        return type_
    is_float = type_.element.kind == parameter.element.kind == "float"
    return replace(type_, element=parameter.element) if is_float else type_


_RULES: Final[dict[type[Op], Callable[[Instruction], None]]] = {
    Convert: _convert,
    ELEMENTWISE["complex"]: _complex,
    Reduce: _check_body,
    ReduceWindow: _check_body,
    Scatter: _scatter,
    SelectAndScatter: _check_body,
    StochasticConvert: _convert,
    TriangularSolve: _triangular_solve,
}


def _element(type_: Type) -> ElementType:
    array = type_.element if isinstance(type_, BufferType) else type_
    assert isinstance(array, TensorType)
    return array.element
