"""Lexer of MLIR text: one regular expression, applied on demand."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import Diagnostic, ParseError
from hloscope.mlir.text.sniff import BLANK
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

STRING: Final = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'
NAME: Final = r"(?:\d+|[A-Za-z_$.-][\w$.-]*)"
_TOKEN: Final = pattern(
    BLANK
    + rf"(?:(?P<value>%{NAME}(?:\#\d+)?)"
    + r"|(?P<word>[A-Za-z_][\w$.]*)"
    + r"|(?P<sign>->|::|\{-\#|\#-\}|\.\.\.|[(){}\[\]<>,:=?*+|/-])"
    + r"|(?P<number>0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?)"
    + rf"|(?P<symbol>@(?:[A-Za-z_][\w$.]*|{STRING}))"
    + rf"|(?P<hash>\#{NAME})"
    + rf"|(?P<type>!{NAME})"
    + rf"|(?P<string>{STRING})"
    + rf"|(?P<block>\^{NAME})"
    + r"|(?P<end>\Z)"
    + r"|(?P<bad>[\s\S]))",
    re.ASCII,
)
_KINDS: Final = (
    *("", "value", "word", "sign", "number", "symbol"),
    *("hash", "type", "string", "block", "end", "bad"),
)
"""Names of a token's groups, by number."""
_BRACKET: Final = pattern(rf"{STRING}|//[^\n]*|->|>=|[<>()\[\]{{}}]|\Z", re.ASCII)
_BAD: Final = {
    '"': "expected '\"' in string literal",
    "@": "@ identifier expected to start with letter or '_'",
    "#": "invalid attribute name",
    "%": "invalid SSA name",
    "^": "invalid block name",
    "!": "invalid type identifier",
}
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ESCAPE: Final = pattern(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}


class TextError(ParseError):
    """The error at which a parser stops, with related ones.

    Attributes:
        earlier: Errors reported before it.
        notes: Notes, such as the place of a definition.
        later: Errors reported after it.
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span,
        earlier: tuple[Diagnostic, ...] = (),
        notes: tuple[Diagnostic, ...] = (),
        later: tuple[Diagnostic, ...] = (),
    ) -> None:
        super().__init__(message, span=span)
        self.earlier = earlier
        self.notes = notes
        self.later = later

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """All errors and notes in order."""
        return [
            *self.earlier,
            Diagnostic(self.message, self.span, "", "error", self.notes),
            *self.later,
        ]


class Lexer:
    """The current token of a text, and movement to the next.

    Attributes:
        kind: `value`, `word`, `sign`, `number`, `symbol`, `hash`, `type`, `string`, `block`,
            `end`, or `bad`.
        tok: The text of the current token.
        start: Start of the current token.
        end: End of the current token.
        before: End of the token before it.
        op: The op whose pretty form is being read, if any.
    """

    __slots__ = ("_earlier", "before", "end", "kind", "op", "source", "start", "text", "tok")

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source: Final = source
        self.text: Final = source.text
        self.op = ""
        self._earlier: list[Diagnostic] = []
        self.before = self.end = at
        self.move(at)

    @property
    def at(self) -> int:
        """Position of the current token."""
        return self.start

    def move(self, at: int) -> None:
        """Make the first token at or after `at` the current one."""
        self.before = at
        found = _TOKEN.match(self.text, at)
        assert found is not None
        number = found.lastindex or 0
        self.kind = _KINDS[number]
        self.start, self.end = found.span(number)
        self.tok = found[number]

    def next(self) -> str:
        """Move to the next token, and return the text of the previous one."""
        token = self.tok
        self.move(self.end)
        return token

    def after(self) -> str:
        """Return the token after the current one."""
        found = _TOKEN.match(self.text, self.end)
        assert found is not None
        return found[found.lastgroup or ""]

    # ------------------------------------------------------------------------------- errors

    def report(self, message: str, at: int | None = None) -> None:
        """Record an error that precedes the one at which the parser stops."""
        self._earlier.append(Diagnostic(self._prefixed(message), self._span(at, None)))

    def keep(self, error: ParseError) -> None:
        """Record an error that the parser caught; it precedes the error that stops the parser."""
        if isinstance(error, TextError):
            self._earlier += error.diagnostics
        else:
            self._earlier.append(Diagnostic(error.message, error.span, error.rule))

    def fail(self, message: str, at: int | None = None, end: int | None = None) -> NoReturn:
        """Raise an error at `at`, by default at the current token."""
        if at is None and self.kind == "bad":
            self._bad()
        self._raise(self._prefixed(message), self._span(at, end))

    def wrong(self, message: str) -> NoReturn:
        """Raise an error about the current token.

        If it begins a line, the error is at the end of what comes before it.
        """
        if self.kind == "bad":
            self._bad()
        if self.kind == "end" and self.text[:-1].rstrip(" \t")[-1:] not in ("", "\n", "\r"):
            self._raise(message, self._span(self.start - 1, self.start))
        if "\n" in self.text[self.before : self.start] and self.before:
            self._raise(message, self._span(self.before, self.before + 1))
        self._raise(message, self._span(None, None))

    def _prefixed(self, message: str) -> str:
        return f"custom op '{self.op}' {message}" if self.op else message

    def _span(self, at: int | None, end: int | None) -> Span:
        if at is None:
            at, end = self.start, self.end
        elif end is None:
            found = _TOKEN.match(self.text, at)
            end = found.end() if found is not None else at
        return Span(self.source, at, max(at + 1, end or 0))

    def _raise(self, message: str, span: Span) -> NoReturn:
        earlier, self._earlier = tuple(self._earlier), []
        raise TextError(message, span=span, earlier=earlier)

    def _bad(self) -> NoReturn:
        message = _BAD.get(self.tok, "unexpected character")
        self._raise(message, self._span(None, None))

    # ------------------------------------------------------------------------------- tokens

    def try_token(self, token: str) -> bool:
        """Skip punctuation or a word if it is the current token, else return false."""
        if self.tok != token:
            return False
        self.move(self.end)
        return True

    def expect(self, token: str, message: str = "") -> None:
        """Skip punctuation, which must be the current token."""
        if self.tok != token:
            self.wrong(message or f"expected '{token}'")
        self.move(self.end)

    def closing(self) -> int:
        """Return the offset after the bracket that closes the current token; -1 if none does."""
        return self._closing()[0]

    def balanced(self) -> int:
        """Return the offset after the bracket that closes the current token.

        Raises:
            ParseError: The bracket is never closed.
        """
        end, opened = self._closing()
        if end < 0:
            message = f"unbalanced '{opened}' character in pretty dialect name"
            self._raise(message, self._span(None, None))
        return end

    def _closing(self) -> tuple[int, str]:
        """Return the offset after the closing bracket, and the text of an unclosed one."""
        opened: list[str] = []
        for found in _BRACKET.finditer(self.text, self.start):
            sign = found[0]
            if sign in _CLOSERS:
                opened.append(sign)
            elif sign == "" or (sign in ")]}>" and _CLOSERS[opened[-1]] != sign):
                break
            elif sign in ")]}>":
                opened.pop()
                if not opened:
                    return found.end(), ""
        return -1, opened[-1]

    def string_value(self) -> bytes:
        """Return the value of the current token, a string or a symbol with quotes."""
        raw = self.tok[self.tok.index('"') + 1 : -1].encode("utf-8", "surrogateescape")
        return _ESCAPE.sub(self._unescape, raw) if b"\\" in raw else raw

    def _unescape(self, found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes.fromhex(found[1].decode())
        if found[2] not in _ESCAPED:
            self.fail("unknown escape in string literal")
        return _ESCAPED[found[2]]
