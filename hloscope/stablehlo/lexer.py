"""Tokens of MLIR text: one compiled regular expression, moved over the text on demand."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import ParseError
from hloscope.source import Source, Span

BLANK: Final = r"(?:\s|//[^\n]*)*"
_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN: Final = re.compile(
    BLANK
    + r"(?:(?P<value>%[\w$.-]+(?:\#\d+)?)"
    + rf"|(?P<symbol>@(?:[\w$.-]+|{_STRING})(?:::@(?:[\w$.-]+|{_STRING}))*)"
    + r"|(?P<word>[A-Za-z_][\w$.]*)"
    + r"|(?P<alias>[#!][A-Za-z_$.][\w$.-]*)"
    + r"|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))"
    + rf"|(?P<string>{_STRING})"
    + r"|(?P<block>\^[\w$.-]+)"
    + r"|(?P<sign>->|::|>=|<=|==|\S)"
    + r"|(?P<end>\Z))"
)
_BRACE: Final = re.compile(rf"{_STRING}|//[^\n]*|[{{}}]")
CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Lexer:
    """The current token of a text, and the way to the next.

    Attributes:
        kind: `value`, `symbol`, `word`, `alias`, `number`, `string`, `block`, `sign` or `end`.
        token: The text of the current token.
        start: Where it begins.
        end: Where it ends.
        before: Where the token before it ended.
    """

    __slots__ = ("before", "end", "kind", "source", "start", "text", "token")

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source: Final = source
        self.text: Final = source.text
        self.before = self.end = at
        self.move(at)

    def move(self, at: int) -> None:
        """Make the first token at or after `at` the current one."""
        self.before = at
        found = _TOKEN.match(self.text, at)
        assert found is not None
        self.kind = found.lastgroup or ""
        self.start, self.end = found.span(self.kind)
        self.token = self.text[self.start : self.end]

    def next(self) -> str:
        """Go to the next token; returns the one left behind."""
        token = self.token
        self.move(self.end)
        return token

    def accept(self, token: str) -> bool:
        """Skip the token if it is the current one."""
        if self.token != token:
            return False
        self.move(self.end)
        return True

    def expect(self, token: str) -> None:
        """Skip the token, which has to be the current one."""
        if not self.accept(token):
            self.expected(f"`{token}`")

    def take(self, kind: str, what: str) -> str:
        """Skip a token of a kind and return it."""
        if self.kind != kind:
            self.expected(what)
        return self.next()

    def after(self) -> str:
        """The first character after the current token and blanks."""
        found = _TOKEN.match(self.text, self.end)
        assert found is not None
        return found[found.lastgroup or ""][:1]

    def is_first_on_line(self) -> bool:
        """Does the current token begin a line?"""
        return "\n" in self.text[self.before : self.start] or self.before == 0

    def balanced(self) -> str:
        """Skip a token, or a whole group if it opens one; returns its text."""
        start = self.start
        closers: list[tuple[str, int]] = []
        while True:
            token = self.token
            if self.kind == "end":
                at = closers[-1][1] if closers else self.start
                message = f"`{self.text[at]}` is never closed" if closers else "unexpected end"
                fail(message, self.source, at, at + 1)
            if self.kind == "sign":
                if token in CLOSERS:
                    closers.append((CLOSERS[token], self.start))
                elif token in (")", "]", "}", ">"):
                    if not closers or closers[-1][0] != token:
                        wanted = closers[-1][0] if closers else "a value"
                        self.expected(f"`{wanted}`")
                    closers.pop()
            end = self.end
            self.move(end)
            if not closers:
                return self.text[start:end]

    def expected(self, what: str) -> NoReturn:
        """Raise a `ParseError` at the current token."""
        found = "the end of the text" if self.kind == "end" else f"`{shown(self.token)}`"
        fail(f"expected {what}, found {found}", self.source, self.start, self.end)


def fail(message: str, source: Source, start: int, end: int) -> NoReturn:
    """Raise a `ParseError` about `[start, end)`."""
    raise ParseError(message, span=Span(source, start, max(end, start + 1)))


def shown(text: str) -> str:
    """A text short enough for a message."""
    return text if len(text) <= 40 else text[:39] + "…"


def block_end(source: Source, at: int) -> int:
    """Where the `{` at `at` is closed: the position after its `}`."""
    depth = 0
    for found in _BRACE.finditer(source.text, at):
        sign = found[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return found.end()
    return fail("`{` is never closed", source, at, at + 1)
