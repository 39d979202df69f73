"""Directives of forms for types that are not written because they follow from others.

Source: the traits and type constraints of MLIR's `arith`, `tensor` and `shape`.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import (
    ELEMENT_TYPES,
    DialectType,
    ElementType,
    TensorType,
    Type,
    UnrankedTensorType,
)
from hloscope.mlir import ELEMENTS, INDEX, AsmPrinter, Context, Directive, Operation, Part, Reading


def _named(text: str) -> Type:
    return DialectType(text) if text.startswith("!") else ELEMENTS[text]


def implied(context: Context, arguments: list[str]) -> Part:
    """Directives for types that are not written.

    `<implied inputs index>` is for the operands without a type; `element` is the element type of
    the
    result.  `<implied output i1>` is for the result; `element` is the element type of operand 0.
    """
    what, name = arguments
    written = context.inputs

    def read_inputs(reading: Reading) -> None:
        type = _element(reading.state.types[0]) if name == "element" else _named(name)
        # Types written so far belong to the first operands.
        reading.types += [type] * (len(reading.uses) - len(reading.types))

    def fit_inputs(op: Operation) -> bool:
        if name == "element" and not op.results:
            return False
        type = _element(op.results[0].type) if name == "element" else _named(name)
        return all(operand.type == type for operand in op.operands[written:])

    def read_output(reading: Reading) -> None:
        type = _element(reading.types[0]) if name == "element" else _named(name)
        reading.state.types.append(type)

    def fit_output(op: Operation) -> bool:
        if len(op.results) != 1 or (name == "element" and not op.operands):
            return False
        type = _element(op.operands[0].type) if name == "element" else _named(name)
        return op.results[0].type == type

    if what == "inputs":
        return Part(read_inputs, _write_nothing, fits=fit_inputs)
    context.outputs += 1
    return Part(read_output, _write_nothing, fits=fit_output)


def _write_nothing(printer: AsmPrinter, op: Operation) -> None:
    pass


def boolean_of(context: Context, arguments: list[str]) -> Part:
    """`<implied_boolean>`: a result of type `i1` in the shape of operand 0, not written."""
    context.outputs += 1

    def read(reading: Reading) -> None:
        reading.state.types.append(_boolean(reading.types[0]))

    def fits(op: Operation) -> bool:
        return len(op.results) == 1 and op.results[0].type == _boolean(op.operands[0].type)

    return Part(read, _write_nothing, fits=fits)


def _boolean(type: Type) -> Type:
    """Type of booleans in the shape of a tensor type; the boolean type itself for others."""
    boolean = ELEMENT_TYPES["pred"]
    match type:
        case TensorType(_, sizes, layout, bounds, encoding):
            return TensorType(boolean, sizes, layout, bounds, encoding)
        case UnrankedTensorType():
            return UnrankedTensorType(boolean)
        case _:
            return boolean


def insertion(context: Context, arguments: list[str]) -> Part:
    """`<insertion>`: type of operand 1 and the result, a tensor.

    Operand 0 is an element, the other operands are indices.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        type = reading.parser.type()
        reading.types += [_element(type), type, *[INDEX] * (len(reading.uses) - 2)]
        reading.state.types.append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.results[0].type)

    def fits(op: Operation) -> bool:
        type = op.results[0].type
        expected = [_element(type), type, *[INDEX] * (len(op.operands) - 2)]
        return [operand.type for operand in op.operands] == expected

    return Part(read, write, fits=fits)


def _element(type: Type) -> Type:
    if isinstance(type, TensorType | UnrankedTensorType):
        return type.element
    return type if isinstance(type, ElementType) else INDEX


DIRECTIVES: Final[dict[str, Directive]] = {
    "implied": implied,
    "implied_boolean": boolean_of,
    "insertion": insertion,
}
"""Places for types that are not written."""
