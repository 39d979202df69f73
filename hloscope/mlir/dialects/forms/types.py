"""Directives for types: types that a form writes, and types that it implies."""

from __future__ import annotations

from collections.abc import Sequence
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
from hloscope.mlir import (
    ELEMENTS,
    INDEX,
    AsmPrinter,
    Context,
    Directive,
    FormState,
    Operation,
    Part,
)

# --------------------------------------------------------------------------------------------------
# Directives for types.
#
# Source: `AssemblyFormat.cpp` of StableHLO.


_REAL: Final = {
    ELEMENT_TYPES["c64"]: ELEMENT_TYPES["f32"],
    ELEMENT_TYPES["c128"]: ELEMENT_TYPES["f64"],
}


def _assign(reading: FormState, type: FunctionType, at: int) -> None:
    """Set the types of all operands and of the one result to those of a function type.

    `reading` is what has been read of the op; `at` is the offset of the function type, for errors.
    """
    if len(type.inputs) != len(reading.uses):
        reading.parser.fail(
            f"{len(reading.uses)} operands present, but expected {len(type.inputs)}", at
        )
    if len(type.results) != 1:
        reading.parser.fail("expected single output", at)
    reading.types += type.inputs
    reading.state.types += type.results


def function(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<function>`, types of all operands and results.

    Its text is `(a, b) -> c`.

    Facts in `context` are updated.
    """
    context.results = True

    def read(reading: FormState) -> None:
        type = reading.parser.function_type()
        reading.types += type.inputs
        reading.state.types += type.results

    return Part(read, lambda printer, op: printer.function_type(op.operands, op.results))


def same(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<same>`: one type, or a function type.

    One type is written if all operands and the result have it.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: FormState) -> None:
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
        if all(operand.type is type or operand.type == type for operand in op.operands):
            printer.type(type)
        else:
            printer.function_type(op.operands, op.results)

    return Part(read, write)


def each(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<each>`: the one type of all operands and result.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: FormState) -> None:
        type = reading.parser.type()
        reading.types += [type] * len(reading.uses)
        reading.state.types.append(type)

    def fits(op: Operation) -> bool:
        return all(operand.type == op.results[0].type for operand in op.operands)

    return Part(read, _write_result_type, fits=fits)


def _write_result_type(printer: AsmPrinter, op: Operation) -> None:
    printer.type(op.results[0].type)


def every_input(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<every type>`: the one type of all operands.

    The results have other types.
    """

    def read(reading: FormState) -> None:
        reading.types += [reading.parser.type()] * len(reading.uses)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.type(op.operands[0].type)

    def fits(op: Operation) -> bool:
        return all(operand.type == op.operands[0].type for operand in op.operands)

    return Part(read, write, fits=fits)


def pairwise(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<pairwise>`: the operands' types.

    The types of the results are equal to them.

    Facts in `context` are updated.
    """
    context.results = True

    def read(reading: FormState) -> None:
        at = reading.parser.at
        try:
            types = reading.parser.type_list()
        except ParseError as error:
            reading.parser.keep(error)
            reading.parser.fail("expected type list", at)
        reading.types += types
        reading.state.types += types

    return Part(read, lambda printer, op: printer.types(op.operands))


def tuple_of(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<tuple>`: the type of the result.

    It is a tuple of exactly the operands' types.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: FormState) -> None:
        at = reading.parser.at
        type = reading.parser.type()
        if not isinstance(type, TupleType):
            reading.parser.fail("expected tuple type", at)
        reading.types += type.elements
        reading.state.types.append(type)

    def fits(op: Operation) -> bool:
        type = op.results[0].type
        return isinstance(type, TupleType) and list(type.elements) == op.operand_types

    return Part(read, _write_result_type, fits=fits)


def _real(type: Type) -> Type | None:
    """Return the type of the real parts of a complex tensor; `None` for other types."""
    match type:
        case TensorType(element, sizes, layout, bounds, encoding) if element in _REAL:
            return TensorType(_REAL[element], sizes, layout, bounds, encoding)
        case UnrankedTensorType(element) if element in _REAL:
            return UnrankedTensorType(_REAL[element])
        case _:
            return None


def complex_of(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<complex>`: the type of the result, or a function type.

    The type of the result suffices if the operands have the types of its parts.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: FormState) -> None:
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
            printer.function_type(op.operands, op.results)

    return Part(read, write)


def select_of(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<select>`: `p, t`, or a function type.

    `p, t` is written if both values and the result have type `t`.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def read(reading: FormState) -> None:
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
        _, true, false = op.operand_types
        # One type stands for both values and the result only if it is the type of all three.
        if true == false == op.results[0].type:
            printer.types(op.operands[:2])
        else:
            printer.function_type(op.operands, op.results)

    return Part(read, write)


def one_input(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<in>`: the type of the next operand.

    `<in *>` has the types of all operands.

    `arguments` are the words after `in`; facts in `context` are updated.
    """
    if arguments:

        def read_all(reading: FormState) -> None:
            reading.types += reading.parser.type_list()

        return Part(read_all, lambda printer, op: printer.types(op.operands))

    index = context.inputs
    context.inputs += 1

    def read(reading: FormState) -> None:
        reading.types.append(reading.parser.type())

    return Part(read, lambda printer, op: printer.type(op.operands[index].type))


def one_output(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<out>`: the type of the next result.

    `<out *>` has the types of all results.

    `arguments` are the words after `out`; facts in `context` are updated.
    """
    if arguments:
        context.results = True

        def read_all(reading: FormState) -> None:
            reading.state.types += reading.parser.type_list()

        return Part(read_all, lambda printer, op: printer.types(op.results))

    index = context.outputs
    context.outputs += 1

    def read(reading: FormState) -> None:
        reading.state.types.append(reading.parser.type())

    return Part(read, lambda printer, op: printer.type(op.results[index].type))


def after_colon(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<any>`: the operand types, as ` : a, b`.

    Without operands nothing is written.
    """

    def read(reading: FormState) -> None:
        if reading.parser.try_token(":"):
            reading.types += reading.parser.type_list()

    def write(printer: AsmPrinter, op: Operation) -> None:
        if op.operands:
            printer.write(" : ")
            printer.types(op.operands)

    return Part(read, write)


def operand_list(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<list>`: ` %a, %b : t, u`; nothing without operands.

    Facts in `context` are updated.
    """
    context.variadic = True

    def read(reading: FormState) -> None:
        reading.uses += reading.parser.uses()
        if reading.uses:
            reading.parser.token(":")
            reading.types += reading.parser.type_list()

    def write(printer: AsmPrinter, op: Operation) -> None:
        if op.operands:
            printer.write(" ")
            printer.typed(op.operands)

    return Part(read, write)


def barrier(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<barrier>`: ` %a, %b : t, u`; `()` without operands.

    The types are also those of the results.

    Facts in `context` are updated.
    """
    context.variadic = True
    types = pairwise(context, arguments)

    def read(reading: FormState) -> None:
        reading.uses += reading.parser.uses()
        if reading.uses:
            reading.parser.token(":")
            types.read(reading)
        else:
            reading.parser.tokens("(", ")")

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write(" " if op.operands else "()")
        if op.operands:
            printer.typed(op.operands)

    return Part(read, write, fits=lambda op: len(op.operands) == len(op.results))


def choice(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<choice>`: the type of both branches' values.

    If the condition is not an `i1`, its type precedes that of the values.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)
    boolean = ELEMENT_TYPES["pred"]

    def read(reading: FormState) -> None:
        types = reading.parser.type_list()
        reading.types += [boolean if len(types) == 1 else types[0], types[-1], types[-1]]
        reading.state.types.append(types[-1])

    def write(printer: AsmPrinter, op: Operation) -> None:
        condition = op.operands[0]
        printer.types([*([] if condition.type == boolean else [condition]), op.results[0]])

    return Part(read, write)


# --------------------------------------------------------------------------------------------------
# Directives of forms for types that are not written because they follow from others.
#
# Source: the traits and type constraints of MLIR's `arith`, `tensor` and `shape`.


def _named(text: str) -> Type:
    return DialectType(text) if text.startswith("!") else ELEMENTS[text]


def implied(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<implied …>`, a type that is not written.

    `<implied inputs index>` gives the operands without a written type the type `index`; `element`
    in place of `index` is the element type of the result.  `<implied output i1>` gives the result
    the type `i1`; `element` is the element type of operand 0.

    `arguments` are the words after `implied`; facts in `context` are updated.
    """
    what, name = arguments
    written = context.inputs

    def type_of(others: Sequence[Type]) -> Type:
        return _element(others[0]) if name == "element" else _named(name)

    def read_inputs(reading: FormState) -> None:
        # The types written so far are those of the first operands.
        missing = len(reading.uses) - len(reading.types)
        reading.types += [type_of(reading.state.types)] * missing

    def fit_inputs(op: Operation) -> bool:
        if name == "element" and not op.results:
            return False
        type = type_of(op.result_types)
        return all(operand.type == type for operand in op.operands[written:])

    def read_output(reading: FormState) -> None:
        reading.state.types.append(type_of(reading.types))

    def fit_output(op: Operation) -> bool:
        if len(op.results) != 1 or (name == "element" and not op.operands):
            return False
        return op.results[0].type == type_of(op.operand_types)

    if what == "inputs":
        return Part(read_inputs, lambda printer, op: None, fits=fit_inputs)
    context.outputs += 1
    return Part(read_output, lambda printer, op: None, fits=fit_output)


def boolean_of(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<implied_boolean>`, a result type that is not written.

    It is `i1` in the shape of operand 0.

    Facts in `context` are updated.
    """
    context.outputs += 1

    def read(reading: FormState) -> None:
        reading.state.types.append(_boolean(reading.types[0]))

    def fits(op: Operation) -> bool:
        return len(op.results) == 1 and op.results[0].type == _boolean(op.operands[0].type)

    return Part(read, lambda printer, op: None, fits=fits)


def _boolean(type: Type) -> Type:
    """Return the type of booleans in the shape of a tensor type; `i1` for other types."""
    boolean = ELEMENT_TYPES["pred"]
    match type:
        case TensorType(_, sizes, layout, bounds, encoding):
            return TensorType(boolean, sizes, layout, bounds, encoding)
        case UnrankedTensorType():
            return UnrankedTensorType(boolean)
        case _:
            return boolean


def insertion(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<insertion>`: the type of operand 1 and of the result.

    It is a tensor type. Operand 0 is an element, the other operands are indices.

    Facts in `context` are updated.
    """
    context.outputs = max(context.outputs, 1)

    def implied_types(type: Type, count: int) -> list[Type]:
        return [_element(type), type, *[INDEX] * (count - 2)]

    def read(reading: FormState) -> None:
        type = reading.parser.type()
        reading.types += implied_types(type, len(reading.uses))
        reading.state.types.append(type)

    def fits(op: Operation) -> bool:
        expected = implied_types(op.results[0].type, len(op.operands))
        return op.operand_types == expected

    return Part(read, _write_result_type, fits=fits)


def _element(type: Type) -> Type:
    if isinstance(type, TensorType | UnrankedTensorType):
        return type.element
    return type if isinstance(type, ElementType) else INDEX


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
    "implied": implied,
    "implied_boolean": boolean_of,
    "insertion": insertion,
}
"""Directives for types, by name."""
