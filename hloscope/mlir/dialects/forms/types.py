"""Directives for types: written ones, and those that follow from others."""

from __future__ import annotations

from typing import Final

from hloscope.errors import ParseError
from hloscope.ir import (
    ELEMENT_TYPES,
    DialectType,
    ElementType,
    FunctionType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.mlir import ELEMENTS, INDEX, AsmPrinter, Context, Directive, Operation, Part, Reading

# --------------------------------------------------------------------------------------------------
# Directives for types.
#
# Source: `AssemblyFormat.cpp` of StableHLO.


_REAL: Final = {
    ELEMENT_TYPES["c64"]: ELEMENT_TYPES["f32"],
    ELEMENT_TYPES["c128"]: ELEMENT_TYPES["f64"],
}


def write_function(printer: AsmPrinter, op: Operation) -> None:
    """Write the function type `(a, b) -> c` of an op."""
    printer.function_type([x.type for x in op.operands], [x.type for x in op.results])


def _assign(reading: Reading, type: FunctionType, at: int) -> None:
    """Set the types of all operands and of one result from a function type."""
    if len(type.inputs) != len(reading.uses):
        reading.parser.fail(
            f"{len(reading.uses)} operands present, but expected {len(type.inputs)}", at
        )
    if len(type.results) != 1:
        reading.parser.fail("expected single output", at)
    reading.types += type.inputs
    reading.state.types += type.results


def function(context: Context, arguments: list[str]) -> Part:
    """`<function>`: `(a, b) -> c` of all operands and results."""
    context.results = True

    def read(reading: Reading) -> None:
        type = reading.parser.function_type()
        reading.types += type.inputs
        reading.state.types += type.results

    return Part(read, write_function)


def same(context: Context, arguments: list[str]) -> Part:
    """`<same>`: one type if operands and the result all have it, else a function type."""
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        parser = reading.parser
        at = parser.at
        type = parser.try_function_type()
        if type is None:
            one = parser.type()
            reading.types += [one] * len(reading.uses)
            reading.state.types.append(one)
        else:
            _assign(reading, type, at)

    def write(printer: AsmPrinter, op: Operation) -> None:
        type = op.results[0].type
        for operand in op.operands:
            if operand.type is not type and operand.type != type:
                return write_function(printer, op)
        printer.type(type)

    return Part(read, write)


def each(context: Context, arguments: list[str]) -> Part:
    """`<each>`: the one type of all operands and the result."""
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        type = reading.parser.type()
        reading.types += [type] * len(reading.uses)
        reading.state.types.append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.results[0].type)

    def fits(op: Operation) -> bool:
        return all(operand.type == op.results[0].type for operand in op.operands)

    return Part(read, write, fits=fits)


def every_input(context: Context, arguments: list[str]) -> Part:
    """`<every type>`: the one type of all operands; results have other types."""

    def read(reading: Reading) -> None:
        reading.types += [reading.parser.type()] * len(reading.uses)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.operands[0].type)

    def fits(op: Operation) -> bool:
        return all(operand.type == op.operands[0].type for operand in op.operands)

    return Part(read, write, fits=fits)


def pairwise(context: Context, arguments: list[str]) -> Part:
    """`<pairwise>`: types of the operands, which are those of the results."""
    context.results = True

    def read(reading: Reading) -> None:
        at = reading.parser.at
        try:
            types = reading.parser.type_list()
        except ParseError as error:
            reading.parser.keep(error)
            reading.parser.fail("expected type list", at)
        reading.types += types
        reading.state.types += types

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.types([x.type for x in op.operands])

    return Part(read, write)


def tuple_of(context: Context, arguments: list[str]) -> Part:
    """`<tuple>`: the result, a tuple of exactly the operands' types."""
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        at = reading.parser.at
        type = reading.parser.type()
        if not isinstance(type, TupleType):
            reading.parser.fail("expected tuple type", at)
        reading.types += type.elements
        reading.state.types.append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.results[0].type)

    def fits(op: Operation) -> bool:
        type = op.results[0].type
        types = tuple([operand.type for operand in op.operands])
        return isinstance(type, TupleType) and type.elements == types

    return Part(read, write, fits=fits)


def _real(type: Type) -> Type | None:
    """Type of the real parts of a complex tensor; `None` for other types."""
    match type:
        case TensorType(element, sizes, layout, bounds, encoding) if element in _REAL:
            return TensorType(_REAL[element], sizes, layout, bounds, encoding)
        case UnrankedTensorType(element) if element in _REAL:
            return UnrankedTensorType(_REAL[element])
        case _:
            return None


def complex_of(context: Context, arguments: list[str]) -> Part:
    """`<complex>`: the type of the result if the operands are its parts, else a function type."""
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        parser = reading.parser
        at = parser.at
        function = parser.try_function_type()
        if function is not None:
            _assign(reading, function, at)
            return
        type = parser.type()
        real = _real(type)
        if real is None:
            parser.fail("expected tensor with complex element type", at)
        reading.types += [real, real]
        reading.state.types.append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        type = op.results[0].type
        real = _real(type)
        # The types of the operands follow from a complex result only in this case.
        if all(operand.type == real for operand in op.operands):
            printer.type(type)
        else:
            write_function(printer, op)

    return Part(read, write)


def select_of(context: Context, arguments: list[str]) -> Part:
    """`<select>`: `p, t` if both values and the result have type `t`, else a function type."""
    context.outputs = max(context.outputs, 1)

    def read(reading: Reading) -> None:
        parser = reading.parser
        at = parser.at
        types = parser.type_list()
        match types:
            case [FunctionType() as function]:
                _assign(reading, function, at)
            case [condition, one]:
                reading.types += [condition, one, one]
                reading.state.types.append(one)
            case _:
                parser.fail("expected functional type or list of two types", at)

    def write(printer: AsmPrinter, op: Operation) -> None:
        condition, true, false = (x.type for x in op.operands)
        # One type stands for both values and the result only if it is the type of all three.
        if true == false == op.results[0].type:
            printer.types([condition, true])
        else:
            write_function(printer, op)

    return Part(read, write)


def one_input(context: Context, arguments: list[str]) -> Part:
    """`<in>`: the type of the next operand; `<in *>`: of all operands."""
    if arguments:

        def read_all(reading: Reading) -> None:
            reading.types += reading.parser.type_list()

        def write_all(printer: AsmPrinter, op: Operation) -> None:
            printer.types([x.type for x in op.operands])

        return Part(read_all, write_all)

    index = context.inputs
    context.inputs += 1

    def read(reading: Reading) -> None:
        reading.types.append(reading.parser.type())

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.operands[index].type)

    return Part(read, write)


def one_output(context: Context, arguments: list[str]) -> Part:
    """`<out>`: the type of the next result; `<out *>`: of all results."""
    if arguments:
        context.results = True

        def read_all(reading: Reading) -> None:
            reading.state.types += reading.parser.type_list()

        def write_all(printer: AsmPrinter, op: Operation) -> None:
            printer.types([x.type for x in op.results])

        return Part(read_all, write_all)

    index = context.outputs
    context.outputs += 1

    def read(reading: Reading) -> None:
        reading.state.types.append(reading.parser.type())

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.results[index].type)

    return Part(read, write)


def after_colon(context: Context, arguments: list[str]) -> Part:
    """`<any>`: ` : a, b`, or nothing if there are no operands."""

    def read(reading: Reading) -> None:
        if reading.parser.try_token(":"):
            reading.types += reading.parser.type_list()

    def write(printer: AsmPrinter, op: Operation) -> None:
        if op.operands:
            printer.write(" : ")
            printer.types([x.type for x in op.operands])

    return Part(read, write)


def operand_list(context: Context, arguments: list[str]) -> Part:
    """`<list>`: ` %a, %b : t, u`, or nothing if there are no operands."""
    context.variadic = True

    def read(reading: Reading) -> None:
        reading.uses += reading.parser.uses()
        if reading.uses:
            reading.parser.token(":")
            reading.types += reading.parser.type_list()

    def write(printer: AsmPrinter, op: Operation) -> None:
        if op.operands:
            printer.write(" ")
            printer.values(op.operands)
            printer.write(" : ")
            printer.types([x.type for x in op.operands])

    return Part(read, write)


def barrier(context: Context, arguments: list[str]) -> Part:
    """`<barrier>`: ` %a, %b : t, u`, also the types of the results; `()` without operands."""
    context.variadic = True
    types = pairwise(context, arguments)

    def read(reading: Reading) -> None:
        reading.uses += reading.parser.uses()
        if reading.uses:
            reading.parser.token(":")
            types.read(reading)
        else:
            reading.parser.token("(")
            reading.parser.token(")")

    def write(printer: AsmPrinter, op: Operation) -> None:
        if op.operands:
            printer.write(" ")
            printer.values(op.operands)
            printer.write(" : ")
            types.write(printer, op)
        else:
            printer.write("()")

    def fits(op: Operation) -> bool:
        return len(op.operands) == len(op.results)

    return Part(read, write, fits=fits)


def choice(context: Context, arguments: list[str]) -> Part:
    """`<choice>`: the type of both values, after that of the condition unless it is `i1`."""
    context.outputs = max(context.outputs, 1)
    boolean = ELEMENT_TYPES["pred"]

    def read(reading: Reading) -> None:
        types = reading.parser.type_list()
        reading.types += [boolean if len(types) == 1 else types[0], types[-1], types[-1]]
        reading.state.types.append(types[-1])

    def write(printer: AsmPrinter, op: Operation) -> None:
        condition = op.operands[0].type
        types = [] if condition == boolean else [condition]
        printer.types([*types, op.results[0].type])

    return Part(read, write)


DIRECTIVES: Final[dict[str, Directive]] = {
    "function": function,
    "same": same,
    "each": each,
    "every": every_input,
    "pairwise": pairwise,
    "tuple": tuple_of,
    "complex": complex_of,
    "select": select_of,
    "in": one_input,
    "out": one_output,
    "any": after_colon,
    "list": operand_list,
    "barrier": barrier,
    "choice": choice,
}
"""Directives for types."""


# --------------------------------------------------------------------------------------------------
# Directives of forms for types that are not written because they follow from others.
#
# Source: the traits and type constraints of MLIR's `arith`, `tensor` and `shape`.


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


IMPLIED: Final[dict[str, Directive]] = {
    "implied": implied,
    "implied_boolean": boolean_of,
    "insertion": insertion,
}
"""Places for types that are not written."""
