"""Readers of the pretty forms of modules, functions, calls and returns.

Source: MLIR's Builtin and Func dialects.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import FunctionType, Type
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
    Block,
    DictAttr,
    Region,
    StringAttr,
    SymbolAttr,
    TypeAttr,
)
from hloscope.mlir.text.asm import Argument, OpAsmParser, Read, State, Use

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
    at = parser.at
    uses = parser.uses()
    if not uses:
        return
    parser.token(":")
    types = parser.type_list()
    if len(types) != len(uses):
        parser.fail(_count(len(uses), len(types)), at)
    for use, type in zip(uses, types, strict=True):
        parser.resolve(use, type, state)


def _read_call(parser: OpAsmParser, state: State) -> None:
    state.properties["callee"] = parser.symbol()
    _read_called(parser, state)


def _read_indirect(parser: OpAsmParser, state: State) -> None:
    _read_called(parser, state, parser.use())


def _read_called(parser: OpAsmParser, state: State, callee: Use | None = None) -> None:
    at = parser.at
    parser.token("(")
    uses = parser.uses()
    parser.token(")")
    parser.dictionary(state)
    parser.token(":")
    type = parser.function_type()
    if len(uses) != len(type.inputs):
        parser.fail(_count(len(uses), len(type.inputs)), at)
    if callee is not None:
        parser.resolve(callee, type, state)
    for use, input_type in zip(uses, type.inputs, strict=True):
        parser.resolve(use, input_type, state)
    state.types += type.results


def _count(uses: int, types: int) -> str:
    return f"number of operands and types do not match: got {uses} operands and {types} types"


def _read_constant(parser: OpAsmParser, state: State) -> None:
    parser.dictionary(state)
    state.properties["value"] = parser.symbol()
    parser.token(":")
    state.types.append(parser.type())


def _read_cast(parser: OpAsmParser, state: State) -> None:
    at = parser.at
    uses = parser.uses()
    types: list[Type] = []
    if uses:
        parser.token(":")
        types = parser.type_list()
        if len(uses) != len(types):
            parser.fail(_count(len(uses), len(types)), at)
        for use, type in zip(uses, types, strict=True):
            parser.resolve(use, type, state)
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
