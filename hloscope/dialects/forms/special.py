"""Forms of constants and branches, which rows cannot express.

Source: `parseConstantOp` and `printConstantOp` of `Base.cpp`; MLIR's `cf` dialect.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import Type
from hloscope.mlir import (
    I1,
    I32,
    AsmParser,
    AsmPrinter,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    FloatAttr,
    Form,
    IntegerAttr,
    Operation,
    Reading,
    State,
    UnfitError,
    Use,
    Value,
    VerbatimAttr,
    parse_type,
)


def literal_type(attribute: Attribute) -> Type | None:
    """Return the type of a number or of the elements of a tensor; `None` for other attributes."""
    match attribute:
        case BoolAttr():
            return I1
        case DenseAttr(_, type) | IntegerAttr(_, type) | FloatAttr(_, type):
            return type
        case VerbatimAttr(text) if " : " in text:
            return parse_type(text.rpartition(" : ")[2])
        case _:
            return None


def read_constant(parser: AsmParser, state: State) -> None:
    """Read `{…} dense<…> : t`, or, if the result has another type u, the generic form.

    The latter is `() <{value = dense<…> : t}> {…} : () -> u`.
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
    """Write the form that `read_constant` reads."""
    value = op.properties.get("value")
    if value is None or len(op.results) != 1 or op.operands:
        raise UnfitError(f"{op.name} has no value, or not one result")
    if literal_type(value) != op.results[0].type:
        printer.generic(op)
        return
    if op.attributes or len(op.properties) > 1:
        printer.dictionary(op, ("value",))
    printer.write(" ")
    printer.attribute(value)


# ------------------------------------------------------------------------------------- branches


def _read_target(parser: AsmParser, state: State) -> tuple[list[Use], list[Type]]:
    """Read a successor, `^a` or `^a(%x, %y : t, u)`."""
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
    """Write successor number `index` with its operands."""
    printer.successor(op.successors[index])
    if values:
        printer.write("(")
        printer.values(values)
        printer.write(" : ")
        printer.types([value.type for value in values])
        printer.write(")")


def read_branch(parser: AsmParser, state: State) -> None:
    """Read `^a(%x : t)`."""
    at = parser.at
    uses, types = _read_target(parser, state)
    parser.dictionary(state)
    Reading(parser, state, uses, types).finish(at)


def write_branch(printer: AsmPrinter, op: Operation) -> None:
    """Write the form that `read_branch` reads."""
    if len(op.successors) != 1:
        raise UnfitError(f"{op.name} has {len(op.successors)} successors")
    printer.write(" ")
    _write_target(printer, op, 0, op.operands)
    printer.dictionary(op)


def read_conditional_branch(parser: AsmParser, state: State) -> None:
    """Read `%c, ^a(%x : t), ^b`."""
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
    Reading(parser, state, uses, types).finish(at)
    state.properties[_SEGMENTS] = DenseArrayAttr(I32, tuple(counts))


_SEGMENTS: Final = "operandSegmentSizes"


def write_conditional_branch(printer: AsmPrinter, op: Operation) -> None:
    """Write the form that `read_conditional_branch` reads."""
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
    printer.write(" ")
    printer.value(op.operands[0])
    printer.write(", ")
    _write_target(printer, op, 0, op.operands[1:middle])
    printer.write(", ")
    _write_target(printer, op, 1, op.operands[middle:])
    printer.dictionary(op, (_SEGMENTS,))


FORMS: Final = {
    "constant": Form(read_constant, write_constant),
    "br": Form(read_branch, write_branch),
    "cond_br": Form(read_conditional_branch, write_conditional_branch),
}
"""Forms of these ops."""
