"""Goes on after an error, to find the others: what can't be read is left out.

An operation is left out up to the next line that looks like one; whoever uses its results is
believed.
"""

from __future__ import annotations

import re
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.lazy import pattern
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.ir import Operation
from hloscope.mlir.text.lexer import NAME, STRING, TextError
from hloscope.mlir.text.parser_lines import LineParser
from hloscope.source import Source

MOST_ERRORS: Final = 100
"""Reading stops for good after so many."""

_RESULT: Final = pattern(rf"%({NAME})(?::\d+)?\s*(?:,\s*)?", re.ASCII)
_STEP: Final = pattern(
    rf"\n[ \t]*(?=%{NAME}(?::\d+)?\s*[=,]|\"[\w$.]+\"\s*\(|[a-z_]\w*\.[a-z_][\w.]*(?:[\s(@]|$)"
    rf"|(?:return|call|func|module)\b|[#!]{NAME}\s*=)|{STRING}|//[^\n]*|[{{}}]|\Z",
    re.ASCII | re.MULTILINE,
)


class NoMoreErrors(Exception):  # noqa: N818 - a signal, not an error of the input
    """No more errors are wanted, or there is no more text."""


class RecoveringParser(LineParser):
    """Reads on after an error if `errors` is there to take it."""

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
        """Read an operation; `None` if it is wrong and was left out."""
        if self.errors is None:
            return self.operation()
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
        """Keep an error for the caller."""
        if self.errors is None:
            raise error
        self.errors += error.diagnostics
        if len(self.errors) >= MOST_ERRORS:
            raise NoMoreErrors

    def skip(self, first: int, at: int) -> None:
        """Go to the operation after the one that begins at `first` and is wrong at `at`."""
        result = _RESULT.match(self.text, first)
        while result is not None:
            self.unread.add(result[1])
            result = _RESULT.match(self.text, result.end())
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
