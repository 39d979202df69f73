"""Readers of the pretty forms of modules, functions, calls and returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from hloscope.ir import FunctionType, Type
from hloscope.mlir.definitions import Suggestion
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
    Block,
    DictAttr,
    Operation,
    Region,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    Value,
)
from hloscope.mlir.text.asm import (
    Argument,
    AsmPrinter,
    OpAsmParser,
    Read,
    State,
    UnfitError,
    Use,
    Write,
)
from hloscope.mlir.text.form_language import resolve

# --------------------------------------------------------------------------------------------------
# Readers of the pretty forms of modules, functions, calls and returns.
#
# Source: MLIR's Builtin and Func dialects.


_EMPTY: Final = DictAttr(())


def _read_module(parser: OpAsmParser, state: State) -> None:
    name = parser.try_symbol()
    if name is not None:
        state.properties["sym_name"] = _name(name)
    parser.attributes_with_keyword(state)
    region = parser.region()
    state.regions.append(region if region.blocks else Region((Block(),)))


def _name(symbol: SymbolAttr) -> StringAttr:
    return StringAttr.of(symbol.root)


def _read_function(parser: OpAsmParser, state: State) -> None:
    visibility = parser.try_keyword("public", "private", "nested")
    symbol = parser.try_symbol()
    if symbol is None:
        parser.fail("expected valid '@'-identifier for symbol name")
    state.properties["sym_name"] = _name(symbol)
    arguments, inputs, argument_attributes = _arguments(parser)
    results, result_attributes = _results(parser)
    if visibility is not None:
        state.properties["sym_visibility"] = StringAttr(visibility.encode())
    type = FunctionType(tuple(inputs), tuple(results))
    state.properties["function_type"] = TypeAttr(type)
    parser.attributes_with_keyword(state)
    for name, attributes in (
        ("arg_attrs", argument_attributes),
        ("res_attrs", result_attributes),
    ):
        if any(entries is not _EMPTY for entries in attributes):
            state.properties[name] = ArrayAttr(tuple(attributes))
    at = parser.at
    if parser.peek() != "{":
        state.regions.append(Region())
        return
    if inputs and not arguments:
        parser.fail("expected '%' names of the arguments of a function with a body", at)
    region = parser.region(arguments)
    if not region.blocks:
        parser.fail("expected non-empty function body", at)
    state.regions.append(region)


def _arguments(parser: OpAsmParser) -> tuple[list[Argument], list[Type], list[Attribute]]:
    """Read arguments `(%a: t {…} loc(…), …)`, or `(t {…}, …)` in a declaration.

    Return the arguments, their types and their attributes.
    """
    arguments: list[Argument] = []
    types: list[Type] = []
    attributes: list[Attribute] = []
    parser.token("(")
    while not (parser.peek() == ")" and not types):
        if len(arguments) == len(types):
            plain = parser.plain_arguments()
            arguments += plain
            types += [argument.type for argument in plain]
            attributes += [_EMPTY] * len(plain)
        use = parser.try_use()
        if use is None and arguments:
            parser.fail("expected SSA identifier")
        if use is not None:
            if types and not arguments:
                parser.fail("expected type instead of SSA identifier", use.at)
            parser.token(":")
        type = parser.type()
        types.append(type)
        attributes.append(_entries(parser))
        location = parser.location()
        if use is not None:
            arguments.append(Argument(use.name, type, use.at, location))
        if not parser.try_token(","):
            break
    parser.token(")")
    return arguments, types, attributes


def _entries(parser: OpAsmParser) -> Attribute:
    if parser.peek() != "{":
        return _EMPTY
    entries = parser.attribute()
    return entries if entries != _EMPTY else _EMPTY


def _results(parser: OpAsmParser) -> tuple[list[Type], list[Attribute]]:
    """Read optional results, `-> t` or `-> (t {…}, …)`; return their types and attributes."""
    if not parser.try_token("->"):
        return [], []
    if parser.peek() != "(":
        return [parser.type()], [_EMPTY]
    types: list[Type] = []
    attributes: list[Attribute] = []
    parser.token("(")
    while not (parser.peek() == ")" and not types):
        for type, entries in parser.plain_results():
            types.append(type)
            attributes.append(entries or _EMPTY)
        types.append(parser.type())
        attributes.append(_entries(parser))
        if not parser.try_token(","):
            break
    parser.token(")")
    return types, attributes


def _read_return(parser: OpAsmParser, state: State) -> None:
    parser.dictionary(state)
    _read_typed(parser, state)


def _read_typed(parser: OpAsmParser, state: State) -> None:
    """Read operands with their types, `%a, %b : t, u`, into `state`; there may be none."""
    at = parser.at
    uses = parser.uses()
    if uses:
        parser.token(":")
        resolve(parser, state, uses, parser.type_list(), at)


def _read_call(parser: OpAsmParser, state: State) -> None:
    state.properties["callee"] = parser.symbol()
    _read_called(parser, state)


def _read_indirect(parser: OpAsmParser, state: State) -> None:
    _read_called(parser, state, parser.use())


def _read_called(parser: OpAsmParser, state: State, callee: Use | None = None) -> None:
    """Read `(%a) {…} : (t) -> t` of a call into `state`.

    `callee` is the use of the function value of an indirect call; `None` for a direct call.
    """
    at = parser.at
    parser.token("(")
    uses = parser.uses()
    parser.token(")")
    parser.dictionary(state)
    parser.token(":")
    type = parser.function_type()
    if callee is not None:
        parser.resolve(callee, type, state)
    resolve(parser, state, uses, type.inputs, at)
    state.types += type.results


def _read_constant(parser: OpAsmParser, state: State) -> None:
    parser.dictionary(state)
    state.properties["value"] = parser.symbol()
    parser.token(":")
    state.types.append(parser.type())


def _read_cast(parser: OpAsmParser, state: State) -> None:
    _read_typed(parser, state)
    parser.keyword("to")
    state.types += parser.type_list()
    parser.dictionary(state)


CORE: Final[dict[str, Read]] = {
    "builtin.module": _read_module,
    "builtin.unrealized_conversion_cast": _read_cast,
    "func.func": _read_function,
    "func.return": _read_return,
    "func.call": _read_call,
    "func.call_indirect": _read_indirect,
    "func.constant": _read_constant,
}
"""Functions that read pretty forms, by the op's full name."""

CORE_OPS: Final[dict[str, frozenset[str]]] = {
    "builtin.module": frozenset({"sym_name", "sym_visibility"}),
    "builtin.unrealized_conversion_cast": frozenset(),
    "func.func": frozenset(
        {"sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs", "no_inline"}
    ),
    "func.return": frozenset(),
    "func.call": frozenset({"callee", "arg_attrs", "res_attrs", "no_inline"}),
    "func.call_indirect": frozenset({"arg_attrs", "res_attrs"}),
    "func.constant": frozenset({"value"}),
}
"""Names of the inherent attributes of each op, by the op's full name."""


# --------------------------------------------------------------------------------------------------
# Pretty forms of modules and functions, to write. Source: MLIR `builtin` and `func` dialects.


INSIDE: Final = {"builtin.module": "builtin", "func.func": "func"}
"""The dialect whose prefix is omitted in the regions of an op."""

SUGGESTIONS: Final = {"func.constant": Suggestion(results=lambda op: ("f",))}
"""Functions that suggest names of values, by the op's full name."""

_SIGNATURE: Final = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")


def write_module(printer: AsmPrinter, op: Operation) -> None:
    """Write `module @name attributes {…} {…}`."""
    (body,) = op.regions if len(op.regions) == 1 else _unfit(op)
    name = op.get("sym_name")
    if isinstance(name, StringAttr):
        printer.write(" ")
        printer.symbol(name.text)
    printer.dictionary(op, ("sym_name",), keyword=True)
    printer.write(" ")
    printer.region(body, arguments=False)


def write_function(printer: AsmPrinter, op: Operation) -> None:
    """Write `func.func private @name(%a: t) -> t attributes {…} {…}`."""
    name, signature = op.get("sym_name"), op.get("function_type")
    if (
        not isinstance(name, StringAttr)
        or not isinstance(signature, TypeAttr)
        or not isinstance(signature.type, FunctionType)
        or len(op.regions) != 1
    ):
        _unfit(op)
    inputs, results = signature.type.inputs, signature.type.results
    blocks = op.regions[0].blocks
    if blocks and len(blocks[0].arguments) != len(inputs):
        _unfit(op)
    visibility = op.get("sym_visibility")
    printer.write(f" {visibility.text} " if isinstance(visibility, StringAttr) else " ")
    printer.symbol(name.text)
    printer.write("(")
    of_inputs = _dictionaries(op, "arg_attrs", len(inputs))
    if blocks:
        for i, argument in enumerate(blocks[0].arguments):
            printer.write(", " if i else "")
            printer.argument(argument, of_inputs[i])
    else:
        _write_types(printer, inputs, of_inputs)
    printer.write(")")
    _write_results(printer, results, _dictionaries(op, "res_attrs", len(results)))
    printer.dictionary(op, _SIGNATURE, keyword=True)
    if blocks:
        printer.write(" ")
        printer.region(op.regions[0], arguments=False)


def _write_results(
    printer: AsmPrinter, results: tuple[Type, ...], attributes: list[DictAttr]
) -> None:
    """Write the results of a function, ` -> t` or ` -> (t {…}, …)`; nothing if there are none.

    `attributes` has the dictionary of each result.
    """
    if not results:
        return
    printer.write(" -> ")
    single = len(results) == 1 and not isinstance(results[0], FunctionType)
    if single and not attributes[0].entries:
        printer.type(results[0])
        return
    printer.write("(")
    _write_types(printer, results, attributes)
    printer.write(")")


def _write_types(printer: AsmPrinter, types: tuple[Type, ...], attributes: list[DictAttr]) -> None:
    for i, (type_, dictionary) in enumerate(zip(types, attributes, strict=True)):
        printer.write(", " if i else "")
        printer.type(type_)
        if dictionary.entries:
            printer.write(" ")
            printer.attribute(dictionary)


def _dictionaries(op: Operation, name: str, count: int) -> list[DictAttr]:
    """Return the dictionary of attributes of each of `count` arguments or results.

    `name` is the op's attribute that lists them; dictionaries are empty if the op lacks it.
    """
    found: Attribute | None = op.get(name)
    entries = found.elements if isinstance(found, ArrayAttr) else ()
    if len(entries) != count:
        return [DictAttr(())] * count
    return [entry if isinstance(entry, DictAttr) else DictAttr(()) for entry in entries]


def write_return(printer: AsmPrinter, op: Operation) -> None:
    """Write `return %a, %b : t, t`."""
    printer.dictionary(op)
    if op.operands:
        printer.write(" ")
        printer.typed(op.operands)


def write_call(printer: AsmPrinter, op: Operation) -> None:
    """Write `call @f(%a) : (t) -> t`."""
    callee = op.get("callee")
    if not isinstance(callee, SymbolAttr):
        _unfit(op)
    printer.write(" ")
    printer.attribute(callee)
    _write_called(printer, op, op.operands)


def write_indirect_call(printer: AsmPrinter, op: Operation) -> None:
    """Write `call_indirect %f(%a) : (t) -> t`."""
    if not op.operands:
        _unfit(op)
    printer.write(" ", op.operands[0])
    _write_called(printer, op, op.operands[1:])


def _write_called(printer: AsmPrinter, op: Operation, arguments: Sequence[Value]) -> None:
    printer.write("(")
    printer.values(arguments)
    printer.write(")")
    printer.dictionary(op, ("callee",))
    printer.write(" : ")
    printer.function_type(arguments, op.results)


def write_constant(printer: AsmPrinter, op: Operation) -> None:
    """Write `constant @f : (t) -> t`."""
    value = op.get("value")
    if not isinstance(value, SymbolAttr) or len(op.results) != 1:
        _unfit(op)
    printer.dictionary(op, ("value",))
    printer.write(" ")
    printer.attribute(value)
    printer.write(" : ")
    printer.type(op.result.type)


def write_cast(printer: AsmPrinter, op: Operation) -> None:
    """Write `unrealized_conversion_cast %a : t to t`."""
    if op.operands:
        printer.write(" ")
        printer.typed(op.operands)
    printer.write(" to ")
    printer.types(op.results)
    printer.dictionary(op)


def _unfit(op: Operation) -> NoReturn:
    raise UnfitError(f"`{op.name}` lacks what its pretty form says")


WRITERS: Final[dict[str, Write]] = {
    "builtin.module": write_module,
    "builtin.unrealized_conversion_cast": write_cast,
    "func.func": write_function,
    "func.return": write_return,
    "func.call": write_call,
    "func.call_indirect": write_indirect_call,
    "func.constant": write_constant,
}
"""Function that writes each op's pretty form after its name, by the op's full name."""


def reread_function(op: Operation) -> None:
    """Remove a function's lists of arguments' or results' attributes that are all empty.

    The pretty form omits them.
    """
    for name in ("arg_attrs", "res_attrs"):
        given = op.properties.get(name)
        if isinstance(given, ArrayAttr) and all(entries == _EMPTY for entries in given.elements):
            op.properties = {key: op.properties[key] for key in op.properties if key != name}


REREAD: Final = {"func.func": reread_function}
"""Functions that change an op as printing and reading it would, by the op's full name.

See `Form.reread`.
"""
