"""Parser of MLIR text to a syntax tree.

>>> module = parse_mlir('%0 = "x.y"() : () -> tensor<2xf32>')
>>> module.regions[0].block.operations
(<x.y of 0 operands>,)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import Final, TypeVar

from hloscope.errors import Diagnostic, ParseError
from hloscope.ir import Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Attribute, Block, Operation, Region, SourceModule
from hloscope.mlir.text.lexer import NAME, STRING, TextError
from hloscope.mlir.text.parser_lines import LineParser
from hloscope.mlir.text.parser_ops import OperationParser
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_long_numbers
from hloscope.support.source import Source

MOST_ERRORS: Final = 100
"""Maximum number of errors, after which parsing stops."""

_RESULT: Final = pattern(rf"%({NAME})(?::\d+)?\s*(?:,\s*)?", re.ASCII)
_STEP: Final = pattern(
    rf"\n[ \t]*(?=%{NAME}(?::\d+)?\s*[=,]|\"[\w$.]+\"\s*\(|[a-z_]\w*\.[a-z_][\w.]*(?:[\s(@]|$)"
    rf"|(?:return|call|func|module)\b|[#!]{NAME}\s*=)|{STRING}|//[^\n]*|[{{}}]|\Z",
    re.ASCII | re.MULTILINE,
)


class NoMoreErrors(Exception):  # noqa: N818 - a signal, not an error of the input
    """Parsing stops: there are enough errors, or the text ends."""


class RecoveringParser(LineParser):
    """Parser that continues after an error, if `errors` collects them."""

    __slots__ = ("errors",)

    def __init__(
        self,
        source: Source,
        dialects: Dialects,
        allow_unregistered: bool,
        errors: list[Diagnostic] | None,
    ) -> None:
        super().__init__(source, dialects, allow_unregistered)
        self.errors = errors

    def next_operation(self) -> Operation | None:
        """Read an operation; `None` if it is invalid and was skipped."""
        if self.errors is None:
            return self.operation()
        # The parser's state before the operation is restored after an error, so that names and
        # nesting of the half-read operation do not count.
        first = self.start
        scope, forward, size = self.scope, self.forward, len(self.scope)
        blocks, undefined = self.blocks, self.undefined_blocks
        default, depth, op = self.default_dialect, self.depth, self.op
        level = self.level
        try:
            return self.operation()
        except TextError as error:
            self.take(error)
            self.scope, self.forward = scope, forward
            self.blocks, self.undefined_blocks = blocks, undefined
            self.default_dialect, self.depth, self.op = default, depth, op
            self.level = level
            self.leave(size)
            at = error.span.start if error.span is not None else first
            self.skip(first, at)
            if not self.text[self.start :].strip():
                raise NoMoreErrors from None  # only what was left open could still be missed
            return None

    def take(self, error: TextError) -> None:
        """Collect an error."""
        if self.errors is None:
            raise error
        self.errors += error.diagnostics
        if len(self.errors) >= MOST_ERRORS:
            raise NoMoreErrors

    def skip(self, first: int, at: int) -> None:
        """Move to the operation after the one at `first`, which has an error at `at`."""
        # Names of the skipped op's results are recorded, so that their uses are no further errors.
        result = _RESULT.match(self.text, first)
        while result is not None:
            self.unread.add(result[1])
            result = _RESULT.match(self.text, result.end())
        # The next operation begins at a line end outside of all braces that this one opened.
        opened = 0
        for found in _STEP.finditer(self.text, first):
            sign = found[0]
            if sign == "{":
                opened += 1
            elif sign == "}":
                if opened == 0:
                    break
                opened -= 1
            elif sign == "" or (sign[0] == "\n" and opened == 0 and found.end() > at):
                break
        self.move(found.start())


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
"""Three levels of keys with values, as in the resource section at the end of a text."""
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
        notes: Collects notes about text that is read in another meaning.

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
    parser = _ModuleParser(source, dialects, allow_unregistered, errors)
    module = parser.read()
    if notes is not None:
        notes += parser.notes()
    return module


def parse_attribute(text: str, *, dialects: Dialects = _NO_DIALECTS) -> Attribute:
    """Parse an attribute.

    >>> parse_attribute("[1, true]").elements[1]
    BoolAttr(value=True)

    Raises:
        ParseError: The text is not an attribute.
    """
    return _whole("<attribute>", text, dialects, OperationParser.attribute)


def parse_type(text: str, *, dialects: Dialects = _NO_DIALECTS) -> Type:
    """Parse a type.

    >>> parse_type("tensor<2x?xui8>").sizes
    (2, None)

    Raises:
        ParseError: The text is not a type.
    """
    return _whole("<type>", text, dialects, OperationParser.type)


def _whole(name: str, text: str, dialects: Dialects, read: Callable[[OperationParser], T]) -> T:
    """Return the result of `read`, which must take the whole text."""
    source = Source(name, text)
    refuse_long_numbers(source)
    parser = OperationParser(source, dialects)
    found = read(parser)
    if parser.kind != "end":
        parser.wrong("expected the end of the text")
    return found


class _ModuleParser(RecoveringParser):
    """Parser of a whole text."""

    __slots__ = ()

    def read(self) -> SourceModule:
        operations: list[Operation] = []
        try:
            with self._names_of("builtin.module"):
                self._top_level(operations)
            self._check_names()
        except NoMoreErrors:
            pass
        if len(operations) == 1 and operations[0].name == "builtin.module":
            module = self._as_source_module(operations[0])
        else:
            block = Block((), tuple(operations))
            module = SourceModule("builtin.module", regions=(Region((block,)),), source=self.source)
        module.resources = self.resources.text
        return module

    def notes(self) -> list[Diagnostic]:
        """Return notes about text that is read in another meaning."""
        remarks = sorted(self.remarks.items(), key=itemgetter(1))
        return [
            Diagnostic(message, self._span(at, None), severity="note") for message, at in remarks
        ]

    def _check_names(self) -> None:
        """Check that all values and locations that the text uses are defined."""
        missing = [
            *(
                (f"use of undeclared SSA value name{hint}", at)
                for at, hint in sorted(self.undeclared)
            ),
            *(
                ("operation location alias was never defined", at)
                for label, at in self.named_locations.items()
                if label not in self.locations.texts
            ),
        ]
        if missing:
            found = [Diagnostic(message, self._span(at, None)) for message, at in missing]
            span = self._span(missing[0][1], None)
            self.take(TextError(missing[0][0], span=span, later=tuple(found[1:])))

    def _as_source_module(self, operation: Operation) -> SourceModule:
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

    def _top_level(self, operations: list[Operation]) -> None:
        while self.kind != "end":
            first = self.start
            try:
                if self.kind in ("hash", "type"):
                    self.alias_definition()
                elif self.tok == "{-#":
                    self._read_resources()
                else:
                    operation = self.next_operation()
                    if operation is not None:
                        operations.append(operation)
                    elif self.start == first or self.tok == "}":
                        self.next()
            except TextError as error:
                self.take(error)
                self.skip(first, error.span.start if error.span is not None else first)
                if self.start == first or self.tok == "}":
                    self.next()

    def _read_resources(self) -> None:
        found = _RESOURCES.match(self.text, self.start)
        if found is None:
            self.fail_plainly("expected '#-}' to end file metadata", self.start, self.end)
        text = found[0]
        if "//" in text:
            text = _COMMENT.sub(lambda comment: comment[1] or "", text)
        if _METADATA.fullmatch(text) is None:
            self.fail_plainly("file metadata is malformed", self.start, self.end)
        self.resources.text = text
        self.move(found.end())
