"""Parser of MLIR text to a syntax tree.

>>> module = parse_mlir('%0 = "x.y"() : () -> tensor<2xf32>')
>>> module.regions[0].block.operations
(<x.y of 0 operands>,)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final, TypeVar

from hloscope.errors import Diagnostic, ParseError
from hloscope.ir import Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Attribute, Block, Operation, Region, SourceModule
from hloscope.mlir.text.lexer import Lexer, NoMoreErrors, TextError
from hloscope.mlir.text.parser_attributes import AttributeParser
from hloscope.mlir.text.parser_operations import OperationParser
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_long_numbers
from hloscope.support.source import Source

T = TypeVar("T")

_RESOURCES: Final = pattern(
    r"\{-#(?:[^#\"/]|#(?!-\})|\"(?:[^\"\\]|\\.)*+\"|//[^\n]*+|/(?!/))*+#-\}"
)
_COMMENT: Final = pattern(r"(\"(?:[^\"\\]|\\.)*+\")|\s*//[^\n]*")
_KEY: Final = r'\s*+(?:[A-Za-z_][\w$.]*+|"(?:[^"\\]|\\.)*+")\s*+:\s*+'
_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*+"|\w++)\s*+'


def _listed(item: str) -> str:
    return rf"(?:{item}(?:,{item})*+)?+"


def _braced(item: str) -> str:
    return rf"{_KEY}\{{{_listed(item)}\s*+\}}\s*+"


_METADATA: Final = pattern(r"\{-#" + _listed(_braced(_braced(_KEY + _VALUE))) + r"\s*+#-\}")
"""Pattern of a resource section `{-# … #-}`, which has three levels of keys with values."""
_NO_DIALECTS: Final = Dialects()


def parse_mlir(
    text: str,
    name: str = "<text>",
    *,
    dialects: Dialects = _NO_DIALECTS,
    allow_unregistered: bool = True,
    errors: list[Diagnostic] | None = None,
    notes: list[Diagnostic] | None = None,
) -> SourceModule:
    """Parse a text as a `builtin.module`; top-level ops are wrapped in a module.

    For a dialect without pretty forms, ops must be in generic form, and attributes and types are
    kept as text.

    Args:
        text: The text.
        name: Name of the text in messages.
        dialects: The dialects; `func` and `builtin` are always known.
        allow_unregistered: Are ops of unknown dialects allowed?
        errors: Collects errors, after which parsing continues; without it the first error is
            raised.
        notes: Collects notes about text that MLIR would read differently.

    Raises:
        ParseError: The text is invalid.
    """
    source = Source(name, text)
    try:
        refuse_long_numbers(source)
    except ParseError as error:
        if errors is None:
            raise
        errors.append(Diagnostic(error.message, error.span))
        source = Source(name, "")
    parser = _ModuleParser(
        OperationParser(source, dialects, allow_unregistered=allow_unregistered, errors=errors)
    )
    module = parser.read()
    if notes is not None:
        notes += parser.notes()
    return module


def parse_attribute(text: str, *, dialects: Dialects = _NO_DIALECTS) -> Attribute:
    """Parse the text of an attribute.

    `dialects` are the known dialects; attributes of others are kept as text.

    >>> parse_attribute("[1, true]").elements[1]
    BoolAttr(value=True)

    Raises:
        ParseError: The text is not an attribute.
    """
    return _read_all("<attribute>", text, dialects, AttributeParser.attribute)


def parse_type(text: str, *, dialects: Dialects = _NO_DIALECTS) -> Type:
    """Parse the text of a type.

    `dialects` are the known dialects; types of others are kept as text.

    >>> parse_type("tensor<2x?xui8>").sizes
    (2, None)

    Raises:
        ParseError: The text is not a type.
    """
    return _read_all("<type>", text, dialects, AttributeParser.type)


def _read_all(name: str, text: str, dialects: Dialects, read: Callable[[AttributeParser], T]) -> T:
    """Return the result of `read`, which must read the text to its end.

    Args:
        name: Kind of the text, for errors.
        text: The text.
        dialects: The known dialects.
        read: Reads an attribute or type from a parser.
    """
    source = Source(name, text)
    refuse_long_numbers(source)
    lexer = Lexer(source)
    found = read(AttributeParser(lexer, dialects))
    if lexer.kind != "end":
        lexer.wrong("expected the end of the text")
    return found


class _ModuleParser:
    """Parser of the text of a module."""

    __slots__ = ("_lexer", "_parser")

    def __init__(self, parser: OperationParser) -> None:
        self._parser: Final = parser
        self._lexer: Final = parser.lexer

    def read(self) -> SourceModule:
        operations: list[Operation] = []
        try:
            with self._parser.names_of("builtin.module"):
                self._top_level(operations)
            self._check_names()
        except NoMoreErrors:
            pass
        source = self._lexer.source
        if len(operations) == 1 and operations[0].name == "builtin.module":
            module = _source_module(operations[0])
        else:
            block = Block((), tuple(operations))
            module = SourceModule("builtin.module", regions=(Region((block,)),), source=source)
        module.resources = self._parser.attributes.resources.text
        return module

    def notes(self) -> list[Diagnostic]:
        """Return notes about text that MLIR would read differently."""
        remarks = sorted(self._parser.remarks.items(), key=itemgetter(1))
        return [
            Diagnostic(message, self._lexer.span(at), severity="note") for message, at in remarks
        ]

    def _check_names(self) -> None:
        """Report an error for each value or location that the text uses but does not define."""
        aliases = self._parser.attributes.aliases
        missing = [
            *(
                (f"use of undeclared SSA value name{hint}", at)
                for at, hint in sorted(self._parser.scope.undeclared)
            ),
            *(
                ("operation location alias was never defined", at)
                for label, at in aliases.named_locations.items()
                if label not in aliases.locations.texts
            ),
        ]
        if missing:
            (message, at), *more = missing
            later = tuple(Diagnostic(message, self._lexer.span(at)) for message, at in more)
            self._lexer.take(TextError(message, span=self._lexer.span(at), later=later))

    def _top_level(self, operations: list[Operation]) -> None:
        lexer, attributes = self._lexer, self._parser.attributes
        while lexer.kind != "end":
            first = lexer.start
            try:
                if lexer.kind in ("hash", "type"):
                    attributes.aliases.define(attributes.type, attributes.attribute)
                elif lexer.tok == "{-#":
                    self._read_resources()
                else:
                    operation = self._parser.next_operation()
                    if operation is not None:
                        operations.append(operation)
                    elif lexer.start == first or lexer.tok == "}":
                        lexer.next()
            except TextError as error:
                lexer.take(error)
                attributes.aliases.depth = 0
                lexer.skip_operation(first, error)
                if lexer.start == first or lexer.tok == "}":
                    lexer.next()

    def _read_resources(self) -> None:
        lexer = self._lexer
        found = _RESOURCES.match(lexer.text, lexer.start)
        if found is None:
            lexer.fail_plainly("expected '#-}' to end file metadata")
        text = found[0]
        if "//" in text:
            text = _COMMENT.sub(lambda comment: comment[1] or "", text)
        if _METADATA.fullmatch(text) is None:
            lexer.fail_plainly("file metadata is malformed")
        self._parser.attributes.resources.text = text
        lexer.move(found.end())


def _source_module(operation: Operation) -> SourceModule:
    return SourceModule(
        operation.name,
        operation.operands,
        operation.results,
        operation.properties,
        operation.attributes,
        operation.regions,
        (),
        (),
        operation.location,
        operation.source,
        operation.start,
        operation.end,
    )
