"""Forms of MLIR's structured control flow, `scf`.

Source: the definitions and printers of MLIR's dialect `scf`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import (
    I1,
    INDEX,
    Argument,
    AsmPrinter,
    Form,
    OpAsmParser,
    Operation,
    Region,
    State,
    UnfitError,
    Use,
    resolve,
)
from hloscope.mlir.dialects.forms.regions import (
    one_block,
    with_terminator,
    write_assignments,
    write_results,
)

_YIELD: Final = "scf.yield"


def _read_assignments(parser: OpAsmParser) -> tuple[list[Use], list[Use]]:
    """Read `(%x = %a, %y = %b)`; return the names and the uses of their initial values."""
    names: list[Use] = []

    def assignment() -> Use:
        names.append(parser.use())
        parser.token("=")
        return parser.use()

    parser.token("(")
    return names, parser.items(assignment, ")")


def _read_results(parser: OpAsmParser, state: State) -> None:
    """Read the result types after `->`, `t` or `(t, u)`, into `state`."""
    if parser.try_token("("):
        state.types += parser.items(parser.type, ")")
    else:
        state.types.append(parser.type())


def read_for(parser: OpAsmParser, state: State) -> None:
    """Read `%i = %a to %b step %c iter_args(%x = %y) -> (t) : i32 {…}` into `state`."""
    at = parser.at
    counter = parser.use()
    parser.token("=")
    bounds = [parser.use()]
    for word in ("to", "step"):
        parser.keyword(word)
        bounds.append(parser.use())
    names: list[Use] = []
    values: list[Use] = []
    if parser.try_keyword("iter_args"):
        names, values = _read_assignments(parser)
        parser.token("->")
        _read_results(parser, state)
    type = parser.type() if parser.try_token(":") else INDEX
    if len(names) != len(state.types):
        parser.fail("mismatch in number of loop-carried values and defined values", at)
    resolve(parser, state, [*bounds, *values], [type, type, type, *state.types], at)
    carried = (Argument(x.name, t, x.at) for x, t in zip(names, state.types, strict=True))
    region = parser.region([Argument(counter.name, type, counter.at), *carried])
    state.regions.append(with_terminator(region, _YIELD))
    parser.dictionary(state)


def write_for(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_for` reads."""
    (block,) = one_block(op, 1)
    operands, arguments = op.operands, block.arguments
    carried = op.operand_types[3:]
    if (
        len(operands) < 3
        or len({value.type for value in (*operands[:3], *arguments[:1])}) != 1
        or [value.type for value in arguments[1:]] != carried
        or op.result_types != carried
    ):
        raise UnfitError(f"{op.name} has operands, arguments and results that do not match")
    low, high, step = operands[:3]
    printer.write(" ", arguments[0], " = ", low, " to ", high, " step ", step)
    if carried:
        printer.write(" iter_args")
        write_assignments(printer, arguments[1:], operands[3:])
        write_results(printer, op)
    if low.type != INDEX:
        printer.write("  : ")  # MLIR prints two spaces here
        printer.type(low.type)
    printer.write(" ")
    printer.region(op.regions[0], arguments=False, terminator=bool(carried))
    printer.dictionary(op)


def read_if(parser: OpAsmParser, state: State) -> None:
    """Read `%c -> (t) {…} else {…}` into `state`."""
    at = parser.at
    condition = parser.use()
    if parser.try_token("->"):
        _read_results(parser, state)
    resolve(parser, state, [condition], [I1], at)
    state.regions.append(with_terminator(parser.region(), _YIELD))
    otherwise = parser.try_keyword("else")
    state.regions.append(with_terminator(parser.region(), _YIELD) if otherwise else Region())
    parser.dictionary(state)


def write_if(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_if` reads."""
    if len(op.regions) != 2 or op.operand_types != [I1]:
        raise UnfitError(f"{op.name} has {len(op.regions)} regions")
    printer.write(" ", op.operands[0])
    write_results(printer, op)
    printer.write(" ")
    true, false = op.regions
    printer.region(true, arguments=False, terminator=bool(op.results))
    if false.blocks:
        printer.write(" else ")
        printer.region(false, arguments=False, terminator=bool(op.results))
    printer.dictionary(op)


def read_while(parser: OpAsmParser, state: State) -> None:
    """Read `(%x = %a) : (t) -> u {…} do {…} attributes {…}` into `state`."""
    at = parser.at
    names: list[Use] = []
    values: list[Use] = []
    if parser.peek() == "(":
        names, values = _read_assignments(parser)
    parser.token(":")
    type = parser.function_type()
    state.types += type.results
    if len(type.inputs) != len(names):
        parser.fail(f"expected as many input types as operands (expected {len(names)})", at)
    resolve(parser, state, values, type.inputs, at)
    given = [Argument(x.name, t, x.at) for x, t in zip(names, type.inputs, strict=True)]
    state.regions.append(parser.region(given))
    parser.keyword("do")
    state.regions.append(parser.region())
    parser.attributes_with_keyword(state)


def write_while(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_while` reads."""
    before, _ = one_block(op, 2)
    if [x.type for x in before.arguments] != op.operand_types:
        raise UnfitError(f"the arguments of {op.name} do not fit its operands")
    if op.operands:
        printer.write(" ")
        write_assignments(printer, before.arguments, op.operands)
    printer.write(" : ")
    printer.function_type(op.operands, op.results)
    printer.write(" ")
    printer.region(op.regions[0], arguments=False)
    printer.write(" do ")
    printer.region(op.regions[1])
    printer.dictionary(op, keyword=True)


def read_condition(parser: OpAsmParser, state: State) -> None:
    """Read `(%c) %a, %b : t, u` into `state`."""
    at = parser.at
    parser.token("(")
    condition = parser.use()
    parser.token(")")
    parser.dictionary(state)
    uses = parser.uses()
    types = []
    if uses:
        parser.token(":")
        types = parser.type_list()
    resolve(parser, state, [condition, *uses], [I1, *types], at)


def write_condition(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_condition` reads."""
    if not op.operands or op.operands[0].type != I1:
        raise UnfitError(f"{op.name} has no condition")
    condition, *values = op.operands
    printer.write("(", condition, ")")
    printer.dictionary(op)
    if values:
        printer.write(" ")
        printer.typed(values)


FORMS: Final = {
    "scf.for": Form(read_for, write_for),
    "scf.if": Form(read_if, write_if),
    "scf.while": Form(read_while, write_while),
    "scf.condition": Form(read_condition, write_condition),
}
"""Pretty forms of `scf`, by the op's full name."""
