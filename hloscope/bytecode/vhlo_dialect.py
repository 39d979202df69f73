"""VHLO as a dialect for the MLIR parser and printer."""

from __future__ import annotations

from typing import Any, Final

from hloscope.bytecode.vhlo_parsing import SpellingError, enum_of, parse_spelled
from hloscope.dialects import DIALECTS
from hloscope.ir import FunctionType, Type
from hloscope.lazy import pattern
from hloscope.mlir import (
    AsmParser,
    AsmPrinter,
    Attribute,
    Dialect,
    Dialects,
    Form,
    Operation,
    State,
    StringAttr,
    Suggestion,
    TypeAttr,
    UnfitError,
    VerbatimAttr,
    parse_mlir,
    unquoted,
)
from hloscope.vhlo import OPS

_FUNCTION: Final = "vhlo.func_v1"
_STRING: Final = "#vhlo.string_v1<"
_SIGNATURE: Final = "#vhlo.type_v1<!vhlo.func_v1<"


def _read(parser: AsmParser, head: str) -> Any:
    at = parser.mnemonic_at
    body = parser.bracketed() if parser.peek() == "<" else ""
    try:
        return parse_spelled(head + body)
    except ValueError as error:
        parser.fail(str(error), at)


def _read_type(parser: AsmParser, mnemonic: str) -> Type | None:
    found = _read(parser, f"!vhlo.{mnemonic}")
    return found  # type: ignore[no-any-return]


def _read_attribute(parser: AsmParser, mnemonic: str) -> Attribute | None:
    """Read `#vhlo.name<…>`, or `name VALUE` of `#vhlo<name VALUE>`."""
    if parser.peek() == "<":
        return _read(parser, f"#vhlo.{mnemonic}")  # type: ignore[no-any-return]
    at = parser.mnemonic_at
    try:
        return enum_of(mnemonic, parser.keyword())  # type: ignore[no-any-return]
    except SpellingError as error:
        parser.fail(str(error), at)


def _read_function(parser: AsmParser, state: State) -> None:
    symbol = parser.symbol()
    state.properties["sym_name"] = StringAttr.of(symbol.root)
    arguments = parser.arguments(types=True)
    parser.token("->")
    parser.token("(")
    results = [] if parser.peek() == ")" else parser.type_list()
    parser.token(")")
    type = FunctionType(tuple(argument.type for argument in arguments), tuple(results))
    state.properties["function_type"] = TypeAttr(type)
    state.regions.append(parser.region(arguments))
    parser.dictionary(state)


def _write_function(printer: AsmPrinter, op: Operation) -> None:
    """Print `@name(%arg0: t) -> (t) {…} {…}`; attributes are already in VHLO's spelling."""
    name, signature = op.get("sym_name"), op.get("function_type")
    if (
        not isinstance(name, VerbatimAttr)
        or not isinstance(signature, VerbatimAttr)
        or not signature.text.startswith(_SIGNATURE)
        or len(op.regions) != 1
    ):
        raise UnfitError("a function of VHLO lacks what its pretty form says")
    printer.write(" ")
    printer.symbol(unquoted(name.text[len(_STRING) : -1]).decode("utf-8", "surrogateescape"))
    printer.write("(")
    blocks = op.regions[0].blocks
    for i, argument in enumerate(blocks[0].arguments if blocks else ()):
        printer.write(", " if i else "")
        printer.argument(argument)
    results = signature.text[len(_SIGNATURE) : -2].rpartition(" -> ")[2]
    printer.write(f") -> ({'' if results == '()' else results}) ")
    printer.region(op.regions[0], arguments=False)
    printer.dictionary(op, ("sym_name", "function_type"))


def _suggestion(names: tuple[str, ...]) -> Suggestion:
    return Suggestion(results=lambda op: names)


_VHLO: Final = Dialect(
    "vhlo",
    ops={f"vhlo.{name}": frozenset(row.attributes) for name, row in OPS.items()},
    forms={_FUNCTION: Form(_read_function, _write_function)},
    read_type=_read_type,
    read_attribute=_read_attribute,
    suggestions={
        f"vhlo.{name}": _suggestion(row.results)
        for name, row in OPS.items()
        if len(row.results) > 1
    },
)

VHLO_DIALECTS: Final = Dialects([*DIALECTS.named.values(), _VHLO])
"""All dialects, and VHLO."""

_LOOK: Final = pattern(r'(?m)^\s*(?:%\S.*= )?(?:vhlo\.func_v1 |"vhlo\.\w+_v\d+"\()')


def is_vhlo_text(text: str) -> bool:
    """Does a text have ops of VHLO?

    >>> is_vhlo_text('"vhlo.return_v1"() : () -> ()'), is_vhlo_text("// vhlo.func_v1")
    (True, False)
    """
    return "vhlo." in text and _LOOK.search(text) is not None


def parse_vhlo(text: str, name: str = "<string>") -> Operation:
    """Parse a text in VHLO.

    Raises:
        ParseError: The text is not valid VHLO.
    """
    return parse_mlir(text, name, dialects=VHLO_DIALECTS)
