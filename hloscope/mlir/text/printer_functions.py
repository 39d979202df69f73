"""Pretty forms of modules and functions, to write. Source: MLIR `builtin` and `func` dialects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from hloscope.ir import FunctionType, Type
from hloscope.mlir.definitions import Suggestion
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
    DictAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    Value,
)
from hloscope.mlir.text.asm import AsmPrinter, UnfitError, Write

INSIDE: Final = {"builtin.module": "builtin", "func.func": "func"}
"""The dialect whose prefix is omitted in the regions of an op."""

SUGGESTIONS: Final = {"func.constant": Suggestion(results=lambda op: ("f",))}
"""Suggested names of values."""

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
    """Return the attributes of each argument or result; empty ones if the op has none."""
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
        printer.values(op.operands)
        printer.write(" : ")
        printer.types([value.type for value in op.operands])


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
    printer.write(" ")
    printer.value(op.operands[0])
    _write_called(printer, op, op.operands[1:])


def _write_called(printer: AsmPrinter, op: Operation, arguments: Sequence[Value]) -> None:
    printer.write("(")
    printer.values(arguments)
    printer.write(")")
    printer.dictionary(op, ("callee",))
    printer.write(" : ")
    printer.function_type([v.type for v in arguments], [v.type for v in op.results])


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
        printer.values(op.operands)
        printer.write(" : ")
        printer.types([value.type for value in op.operands])
    printer.write(" to ")
    printer.types([value.type for value in op.results])
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
"""Writers of each op's form after its name."""


def reread_function(op: Operation) -> None:
    """Remove attribute lists of arguments or results that are all empty, as the form omits them."""
    empty = [name for name in _GIVEN if _says_nothing(op.properties.get(name))]
    if empty:
        op.properties = {key: op.properties[key] for key in op.properties if key not in empty}


_GIVEN: Final = "arg_attrs", "res_attrs"


def _says_nothing(given: Attribute | None) -> bool:
    return isinstance(given, ArrayAttr) and all(
        isinstance(one, DictAttr) and not one.entries for one in given.elements
    )


REREAD: Final = {"func.func": reread_function}
"""Changes that reading the written form makes to an op, as `Form.reread`."""
