"""Directives of forms for attributes, and the forms of constants and branches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from hloscope.errors import VerifyError
from hloscope.ir import ElementType, TensorType, Type
from hloscope.mlir import (
    F64,
    I1,
    I32,
    I64,
    INDEX,
    NONE,
    AsmParser,
    AsmPrinter,
    Attribute,
    BoolAttr,
    Context,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    Directive,
    EnumAttr,
    FloatAttr,
    Form,
    FormState,
    IntegerAttr,
    Need,
    OpAsmParser,
    Operation,
    Part,
    State,
    StringAttr,
    UnfitError,
    Use,
    Value,
    VerbatimAttr,
    attribute_part,
    elements,
    parse_type,
    resolve,
)
from hloscope.mlir.dialects.attributes.structs import read_value_or_attribute

# --------------------------------------------------------------------------------------------------
# Directives of forms for attributes.
#
# Each one takes the context of the table row and its own arguments;
# `hloscope.mlir.text.form_language` explains how forms are read. Source: MLIR's generated parsers.


_MOST: Final = 1 << 13


def read_dims(parser: AsmParser) -> tuple[int, ...]:
    """Return the integers in the text `[1, 2]`."""

    def dim() -> int:
        value = parser.try_integer()
        if value is None:
            if not parser.try_token("]"):
                parser.report("expected integer value")  # MLIR reports the missing bracket, too
                parser.token("]")
            parser.fail("expected integer value")
        if value >= 1 << 63:
            parser.fail("integer value too large")
        return value

    parser.token("[")
    return tuple(parser.items(dim, "]"))


def dims_text(dims: Sequence[int]) -> str:
    """Return integers as the text `[1, 2]`."""
    return f"[{', '.join(map(str, dims))}]"


def i64_array(values: Sequence[int]) -> DenseArrayAttr:
    """Return the attribute `array<i64: …>` with these values."""
    return DenseArrayAttr(I64, tuple(values))


def small_integers(literal: DenseAttr) -> tuple[int, ...] | None:
    """Return the elements of a short literal of 64-bit integers; `None` for other literals.

    >>> small_integers(DenseAttr("7", TensorType(I64, (2, 1))))
    (7, 7)
    """
    match literal.type:
        case TensorType(element, sizes) if element in (I64, INDEX) and None not in sizes:
            count = literal.type.num_elements
        case _:
            return None
    if count > _MOST or not count:
        return () if not count else None
    try:
        found = elements(literal)
    except VerifyError:
        return None
    raw = bytes(found.raw) * count if found.splat else found.raw
    return struct.unpack(f"<{count}q", raw)


def dims(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<dims name>`, an attribute `array<i64: 1, 2>`.

    Its text is `[1, 2]`.

    `arguments` are the words after `dims`.
    """
    return attribute_part(
        Need(arguments[0], DenseArrayAttr, of=I64),
        lambda parser: i64_array(read_dims(parser)),
        lambda printer, array: printer.write(dims_text(array.values)),
    )


def _integer(type: ElementType) -> Directive:
    """Return the directive for an integer attribute whose values have the type `type`."""
    bits = type.bits

    def read(parser: AsmParser) -> Attribute:
        value = parser.try_integer()
        if value is None:
            found = parser.attribute(type)
            if not isinstance(found, IntegerAttr):
                parser.fail("invalid kind of attribute specified")
            return found
        if not -(1 << bits - 1) <= value < 1 << bits:
            parser.fail("integer constant out of range for attribute")
        return IntegerAttr(value - (1 << bits) if value >> bits - 1 == 1 else value, type)

    return lambda context, arguments: attribute_part(
        Need(arguments[0], IntegerAttr, of=type),
        read,
        lambda printer, integer: printer.write(str(integer.value)),
    )


def boolean(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<bool name>`: `true` or `false`.

    `arguments` are the words after `bool`.
    """

    def read(parser: AsmParser) -> Attribute:
        found = parser.attribute(I1)
        if isinstance(found, IntegerAttr):
            found = BoolAttr(found.value != 0)
        if not isinstance(found, BoolAttr):
            parser.fail("invalid kind of attribute specified")
        return found

    return attribute_part(
        Need(arguments[0], BoolAttr), read, lambda printer, found: printer.attribute(found)
    )


def string(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<string name>`: `"…"`.

    `arguments` are the words after `string`.
    """

    def read(parser: AsmParser) -> Attribute:
        at = parser.at
        if not parser.peek().startswith('"'):
            parser.attribute(NONE)
            parser.fail("invalid kind of attribute specified", at)
        return StringAttr(parser.string())

    return attribute_part(
        Need(arguments[0], StringAttr), read, lambda printer, text: printer.string(text.value)
    )


def symbol(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<symbol name>`, a string attribute `"name"`.

    Its text is `@name`.

    `arguments` are the words after `symbol`.
    """
    return attribute_part(
        Need(arguments[0], StringAttr),
        lambda parser: StringAttr.of(parser.symbol().root),
        lambda printer, name: printer.symbol(name.text),
    )


def number(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<float name>`: a number of type `f64`.

    `arguments` are the words after `float`.
    """

    def read(parser: AsmParser) -> Attribute:
        found = parser.attribute(F64)
        if not isinstance(found, FloatAttr):
            parser.fail("invalid kind of attribute specified")
        return found

    return attribute_part(
        Need(arguments[0], FloatAttr, of=F64),
        read,
        lambda printer, found: printer.attribute(found, type=False),
    )


def enum(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<enum mnemonic name>`, an enum attribute.

    Its text is the value of `#stablehlo<mnemonic VALUE>`. Without `name`, the attribute is named
    like the mnemonic.

    `arguments` are the words after `enum`.
    """
    mnemonic = arguments[0]
    return attribute_part(
        Need(arguments[-1], EnumAttr, of=mnemonic),
        lambda parser: read_value_or_attribute(parser, "stablehlo", mnemonic),
        lambda printer, found: printer.write(found.value),
    )


def value(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<value name operand>` or `<value name result>`.

    Its text is a literal with its type, as in `constant 1 : i32`, stored as property `name`. The
    type becomes that of the op's operand or result.

    `arguments` are the words after `value`; facts in `context` are updated.
    """
    name, role = arguments
    if role == "result":
        context.outputs += 1

    def read(reading: FormState) -> None:
        at = reading.parser.at
        found = reading.parser.attribute()
        type = literal_type(found)
        if type is None:
            reading.parser.fail("invalid kind of attribute specified", at)
        reading.state.properties[name] = found
        (reading.types if role == "operand" else reading.state.types).append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.attribute(op.properties[name])

    def fits(op: Operation) -> bool:
        found = op.properties.get(name)
        values = op.operands if role == "operand" else op.results
        return found is not None and literal_type(found) == values[0].type

    return Part(read, write, (Need(name, object),), fits)


DIRECTIVES: Final[dict[str, Directive]] = {
    "dims": dims,
    "i64": _integer(I64),
    "i32": _integer(I32),
    "index": _integer(INDEX),
    "bool": boolean,
    "string": string,
    "symbol": symbol,
    "float": number,
    "enum": enum,
    "value": value,
}
"""Directives for attributes, by name."""


# --------------------------------------------------------------------------------------------------
# Forms of constants and branches, which table rows cannot express.
#
# Source: `parseConstantOp` and `printConstantOp` of `Base.cpp`; MLIR's `cf` dialect.


def literal_type(attribute: Attribute) -> Type | None:
    """Return the type of a number or of a tensor's elements; `None` for other attributes."""
    match attribute:
        case BoolAttr():
            return I1
        case DenseAttr(_, type) | IntegerAttr(_, type) | FloatAttr(_, type):
            return type
        case VerbatimAttr(text) if " : " in text:
            return parse_type(text.rpartition(" : ")[2])
        case _:
            return None


def read_constant(parser: OpAsmParser, state: State) -> None:
    """Read `{…} dense<…> : t` into `state`, or the generic form if the result has another type u.

    The generic form is `() <{value = dense<…> : t}> {…} : () -> u`.
    """
    if parser.try_token("("):
        parser.token(")")
        if parser.try_token("<"):
            properties = parser.attribute()
            if isinstance(properties, DictAttr):
                state.properties.update(properties.entries)
            parser.token(">")
        parser.dictionary(state)
        for token in (":", "(", ")", "->"):
            parser.token(token)
        state.types.append(parser.type())
        return
    parser.dictionary(state)
    at = parser.at
    value = parser.attribute()
    type = literal_type(value)
    if type is None:
        parser.fail("invalid kind of attribute specified", at)
    state.properties["value"] = value
    state.types.append(type)


def write_constant(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_constant` reads."""
    value = op.properties.get("value")
    if value is None or len(op.results) != 1 or op.operands:
        raise UnfitError(f"{op.name} has no value, or not one result")
    if literal_type(value) != op.results[0].type:
        printer.generic(op)
        return
    printer.dictionary(op, ("value",))
    printer.write(" ")
    printer.attribute(value)


# ------------------------------------------------------------------------------------- branches


def _read_target(parser: OpAsmParser, state: State) -> tuple[list[Use], list[Type]]:
    """Read a successor of a branch, `^a` or `^a(%x, %y : t, u)`, and add it to `state`.

    Return its operands and their types.
    """
    uses: list[Use] = []
    types: list[Type] = []
    state.successors.append(parser.successor())
    if parser.try_token("("):
        uses = parser.uses()
        parser.token(":")
        types = parser.type_list()
        parser.token(")")
    state.successor_operands.append(len(uses))
    return uses, types


def _write_target(
    printer: AsmPrinter, op: Operation, index: int, values: tuple[Value, ...]
) -> None:
    """Write a successor of `op` and its operands, `^a(%x : t)`.

    `index` is that of the successor, `values` has its operands.
    """
    printer.successor(op.successors[index])
    if values:
        printer.write("(")
        printer.typed(values)
        printer.write(")")


def read_branch(parser: OpAsmParser, state: State) -> None:
    """Read `^a(%x : t)` into `state`."""
    at = parser.at
    uses, types = _read_target(parser, state)
    parser.dictionary(state)
    resolve(parser, state, uses, types, at)


def write_branch(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_branch` reads."""
    if len(op.successors) != 1:
        raise UnfitError(f"{op.name} has {len(op.successors)} successors")
    printer.write(" ")
    _write_target(printer, op, 0, op.operands)
    printer.dictionary(op)


def read_conditional_branch(parser: OpAsmParser, state: State) -> None:
    """Read `%c, ^a(%x : t), ^b` into `state`."""
    at = parser.at
    uses: list[Use] = [parser.use()]
    types: list[Type] = [I1]
    counts = [1]
    for _ in range(2):
        parser.token(",")
        more = _read_target(parser, state)
        uses, types = uses + more[0], types + more[1]
        counts.append(len(more[0]))
    parser.dictionary(state)
    resolve(parser, state, uses, types, at)
    state.properties[_SEGMENTS] = DenseArrayAttr(I32, tuple(counts))


_SEGMENTS: Final = "operandSegmentSizes"


def write_conditional_branch(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_conditional_branch` reads."""
    sizes = op.properties.get(_SEGMENTS)
    if not (
        isinstance(sizes, DenseArrayAttr)
        and len(sizes.values) == 3
        and sizes.values[0] == 1
        and sum(sizes.values) == len(op.operands)
        and len(op.successors) == 2
    ):
        raise UnfitError(f"{op.name} does not say the operands of its successors")
    middle = 1 + sizes.values[1]
    printer.write(" ", op.operands[0], ", ")
    _write_target(printer, op, 0, op.operands[1:middle])
    printer.write(", ")
    _write_target(printer, op, 1, op.operands[middle:])
    printer.dictionary(op, (_SEGMENTS,))


FORMS: Final = {
    "constant": Form(read_constant, write_constant),
    "br": Form(read_branch, write_branch),
    "cond_br": Form(read_conditional_branch, write_conditional_branch),
}
"""Pretty forms of constants and branches, by the name that the tables use."""
