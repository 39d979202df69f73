"""Detection of MLIR text by its beginning, without loading other modules of MLIR."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from hloscope.errors import Diagnostic, ParseError
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Detection of MLIR text by its beginning, without loading other modules of MLIR.


BLANK: Final = r"(?:[ \t\r\n]++|//[^\n]*+)*+"
_MLIR: Final = pattern(
    BLANK + r'(?:"?builtin\.module\b|module\s*(?:@|\{|attributes\b)|"?func\.func\b'
    r'|"?(?:stablehlo|chlo|sdy)\.\w|%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+)*\s*=\s*"?[a-z_]+\.\w+"?'
    r"(?:\s+[%@\[{d#]|\()|[#!][A-Za-z_][\w$.-]*\s*=)"
)


def is_mlir(text: str) -> bool:
    """Does the text look like MLIR?

    >>> is_mlir("module @jit_f {}"), is_mlir("HloModule f")
    (True, False)
    """
    return _MLIR.match(text) is not None


# --------------------------------------------------------------------------------------------------
# Lexer of MLIR text: one regular expression, applied on demand.
#
# The lexer also collects errors, and finds the token at which parsing continues after one.


T = TypeVar("T")
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
"""Kinds of tokens: the names of the groups of the regular expression, by group number."""
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
_UNKNOWN_ESCAPE: Final = pattern(r'(?:[^\\]|\\(?:[0-9A-Fa-f]{2}|[nt"\\]))*+\\')
"""Pattern of the beginning of a string with an unknown escape, up to its backslash."""
_RESULT: Final = pattern(rf"%({NAME})(?::\d+)?\s*(?:,\s*)?", re.ASCII)
_STEP: Final = pattern(
    rf"\n[ \t]*(?=%{NAME}(?::\d+)?\s*[=,]|\"[\w$.]+\"\s*\(|[a-z_]\w*\.[a-z_][\w.]*(?:[\s(@]|$)"
    rf"|(?:return|call|func|module)\b|[#!]{NAME}\s*=)|{STRING}|//[^\n]*|[{{}}]|\Z",
    re.ASCII | re.MULTILINE,
)

MOST_ERRORS: Final = 100
"""Maximum number of errors; parsing stops when they are reached."""


class TextError(ParseError):
    """The error at which a parser stops, together with related errors and notes.

    Attributes:
        earlier: Errors to report before it.
        notes: Notes, such as the position of a definition.
        later: Errors to report after it.
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
        """All errors and notes, in the order in which they are reported."""
        return [
            *self.earlier,
            Diagnostic(self.message, self.span, "", "error", self.notes),
            *self.later,
        ]


class NoMoreErrors(Exception):  # noqa: N818 - a signal, not an error of the input
    """Raised to stop parsing: there are `MOST_ERRORS` errors, or the text ends."""


class Lexer:
    """The tokens of a text, one of which is current, and the errors of the text.

    Attributes:
        errors: Collected errors, after which parsing continues; `None` if the first error is
            raised.
        kind: `value`, `word`, `sign`, `number`, `symbol`, `hash`, `type`, `string`, `block`,
            `end`, or `bad`.
        tok: The text of the current token.
        start: Offset of the start of the current token.
        end: Offset of the end of the current token.
        before: Offset of the end of the previous token.
        op: The op whose pretty form is being read, if any.
    """

    __slots__ = (
        *("_earlier", "before", "end", "errors", "kind", "op", "source", "start", "text", "tok"),
    )

    def __init__(self, source: Source, errors: list[Diagnostic] | None = None) -> None:
        self.source: Final = source
        self.text: Final = source.text
        self.errors: Final = errors
        self.op = ""
        self._earlier: list[Diagnostic] = []
        self.before = self.end = 0
        self.move(0)

    def move(self, at: int) -> None:
        """Make the first token at or after offset `at` the current one."""
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
        """Return the text of the token after the current one, without moving."""
        found = _TOKEN.match(self.text, self.end)
        assert found is not None
        return found[found.lastgroup or ""]

    # ------------------------------------------------------------------------------- errors

    def report(self, message: str, at: int | None = None) -> None:
        """Record an error that is reported before the one at which the parser stops.

        It is at offset `at`, by default at the current token.
        """
        self._earlier.append(Diagnostic(self._prefixed(message), self.span(at, None)))

    def keep(self, error: ParseError) -> None:
        """Record an error that the parser caught; it is reported before the one that stops it."""
        if isinstance(error, TextError):
            self._earlier += error.diagnostics
        else:
            self._earlier.append(Diagnostic(error.message, error.span, error.rule))

    def fail(self, message: str, at: int | None = None, end: int | None = None) -> NoReturn:
        """Raise an error at offsets `[at, end)`, by default at the current token.

        While a pretty form is read, the message begins with the op's name.
        """
        if at is None and self.kind == "bad":
            self._bad()
        self.fail_plainly(self._prefixed(message), at, end)

    def wrong(self, message: str) -> NoReturn:
        """Raise an error about the current token.

        If the token begins a line, the position is the end of the previous token.
        """
        if self.kind == "bad":
            self._bad()
        if self.kind == "end" and self.text[:-1].rstrip(" \t")[-1:] not in ("", "\n", "\r"):
            self.fail_plainly(message, self.start - 1, self.start)
        if "\n" in self.text[self.before : self.start] and self.before:
            self.fail_plainly(message, self.before, self.before + 1)
        self.fail_plainly(message)

    def fail_plainly(
        self,
        message: str,
        at: int | None = None,
        end: int | None = None,
        notes: tuple[Diagnostic, ...] = (),
    ) -> NoReturn:
        """Raise an error at offsets `[at, end)`, by default at the current token.

        The message does not get the op's name. `notes` are reported with the error.
        """
        earlier, self._earlier = tuple(self._earlier), []
        raise TextError(message, span=self.span(at, end), earlier=earlier, notes=notes)

    def span(self, at: int | None = None, end: int | None = None) -> Span:
        """Return the span `[at, end)`; without `end`, it ends after the token at or after `at`."""
        if at is None:
            at, end = self.start, self.end
        elif end is None:
            found = _TOKEN.match(self.text, at)
            end = found.end() if found is not None else at
        return Span(self.source, at, max(at + 1, end or 0))

    def _prefixed(self, message: str) -> str:
        return f"custom op '{self.op}' {message}" if self.op else message

    def _bad(self) -> NoReturn:
        self.fail_plainly(_BAD.get(self.tok, "unexpected character"))

    def take(self, error: TextError) -> None:
        """Append an error to `errors` if errors are collected; otherwise raise it.

        Raises:
            NoMoreErrors: `MOST_ERRORS` errors are reached.
        """
        if self.errors is None:
            raise error
        self.errors.extend(error.diagnostics)
        if len(self.errors) >= MOST_ERRORS:
            raise NoMoreErrors

    def skip_operation(self, first: int, error: TextError) -> list[str]:
        """Move to the op after the one at `first`; return the names of the skipped op's results.

        Args:
            first: Offset of an op or of the definition of an alias.
            error: The error in that op.
        """
        names = []
        result = _RESULT.match(self.text, first)
        while result is not None:
            names.append(result[1])
            result = _RESULT.match(self.text, result.end())
        # The next operation begins after a line end outside of all braces that the skipped one
        # opens.
        at = error.span.start if error.span is not None else first
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
        return names

    # ------------------------------------------------------------------------------- tokens

    def try_token(self, token: str) -> bool:
        """Move past `token` if it is the current token; otherwise return false."""
        if self.tok != token:
            return False
        self.move(self.end)
        return True

    def expect(self, token: str, message: str = "") -> None:
        """Move past `token`, which must be the current token; otherwise raise an error.

        `message` is that of the error; by default it is `expected 'token'`.
        """
        if self.tok != token:
            self.wrong(message or f"expected '{token}'")
        self.move(self.end)

    def tokens(self, *tokens: str) -> None:
        """Read these words and punctuation marks, in this order."""
        for token in tokens:
            if token[0].isalpha():
                self.keyword(token)
            else:
                self.expect(token)

    def items(self, read: Callable[[], T], close: str = "", message: str = "") -> list[T]:
        """Read and return items that `read` reads, separated by commas.

        With `close`, the list may be empty, and the token `close` after it is read, too; `message`
        is the error if it is missing.
        """
        if close and self.try_token(close):
            return []
        found = [read()]
        while self.try_token(","):
            found.append(read())
        if close:
            self.expect(close, message)
        return found

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
            self.fail_plainly(message)
        return end

    def _closing(self) -> tuple[int, str]:
        """Return the offset after the closing bracket and an empty text.

        If no bracket closes it, return -1 and the text of the unclosed bracket.
        """
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
        """Return the bytes of the current token, which is a string or a quoted symbol."""
        token = self.tok[self.tok.index('"') :]
        if _UNKNOWN_ESCAPE.match(token):
            self.fail("unknown escape in string literal")
        return unquoted(token)

    # ----------------------------------------------------------- words, numbers and strings

    def peek(self) -> str:
        """Return the text of the current token."""
        return self.tok

    def try_keyword(self, *words: str) -> str | None:
        """Read one of these words, or any word if none is given; return it, or `None` if absent."""
        if self.kind != "word" or (words and self.tok not in words):
            return None
        return self.next()

    def keyword(self, *words: str) -> str:
        """Read and return one of these words, or any word if none is given."""
        found = self.try_keyword(*words)
        if found is None:
            if not words:
                self.fail("expected valid keyword")
            if len(words) == 1:
                self.fail(f"expected '{words[0]}'")
            self.fail(f"expected one of: {', '.join(f'`{word}`' for word in words)}")
        return found

    def integer(self) -> int:
        """Read and return a decimal integer with its sign."""
        at = self.start
        value = self.try_integer()
        if value is None:
            self.fail("expected integer value")
        if value >= 1 << 63:
            self.fail("integer value too large", at)
        return value

    def try_integer(self) -> int | None:
        """Read and return a decimal integer with its sign; `None` if none begins here."""
        if self.tok in ("true", "false"):
            return int(self.next() == "true")
        at, negative = self.start, self.tok == "-"
        if negative:
            self.next()
        elif self.kind != "number" or "." in self.tok:
            return None
        if self.kind != "number" or "." in self.tok:
            self.fail("expected integer value")
        token = self.tok
        value = int(token, 0 if token.startswith("0x") else 10) if len(token) < 40 else 1 << 100
        if not -(1 << 63) <= (-value if negative else value) < 1 << 64:
            self.fail("integer value too large", at)
        self.next()
        return -value if negative else value

    def floating(self) -> float:
        """Read and return a floating-point number with its sign."""
        negative = self.try_token("-")
        if self.kind == "number" and self.tok.isdecimal():
            self.fail("unexpected decimal integer literal for a floating point value")
        if self.kind != "number" or "." not in self.tok:
            self.fail("expected floating point literal")
        value = float(self.next())
        return -value if negative else value

    def string(self) -> bytes:
        """Read a string `"…"`, and return its bytes."""
        if self.kind != "string":
            self.fail("expected string")
        value = self.string_value()
        self.next()
        return value


# --------------------------------------------------------------------------------------------------
# Strings, names and symbols in MLIR's text.


_PLAIN: Final = pattern(r"[ !#-\[\]-~]*")
_BARE: Final = pattern(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ESCAPES: Final = {
    byte: chr(byte) if 32 <= byte < 127 and byte != 34 else f"\\{byte:02X}" for byte in range(256)
} | {92: "\\\\"}
_TO_ESCAPE: Final = pattern(rb'\\([\\"nt]|[0-9A-Fa-f]{2})')
_UNESCAPED: Final = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def quoted(value: bytes | str) -> str:
    r"""Return a string in quotes; characters that are not printable ASCII become `\XX`.

    >>> print(quoted('say "é"'))
    "say \22\C3\A9\22"
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    elif not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("latin-1")
    if _PLAIN.fullmatch(value):
        return f'"{value}"'
    return f'"{value.translate(_ESCAPES)}"'


def bare_or_quoted(name: str) -> str:
    """Return a name unchanged if it is an identifier, else in quotes.

    >>> bare_or_quoted("jax.result_info"), bare_or_quoted("a b")
    ('jax.result_info', '"a b"')
    """
    return name if _BARE.fullmatch(name) else quoted(name)


def symbol(name: str) -> str:
    """Return `@name`, with quotes if the name needs them.

    >>> print(symbol("main"), symbol("<lambda>"))
    @main @"<lambda>"
    """
    return f"@{bare_or_quoted(name)}"


def unquoted(text: str) -> bytes:
    r"""Return the bytes of a quoted string of MLIR's text.

    >>> unquoted(r'"a\22\C3\A9\n"').decode()
    'a"é\n'
    """
    inner = text[1:-1].encode("utf-8", "surrogateescape")
    if b"\\" not in inner:
        return inner
    return _TO_ESCAPE.sub(
        lambda found: _UNESCAPED.get(found[1]) or bytes.fromhex(found[1].decode()), inner
    )


def plain_name(name: str) -> str:
    """Return a name without its quotes and escapes; a name without quotes is returned unchanged."""
    return unquoted(name).decode("utf-8", "surrogateescape") if name[0] == '"' else name


# --------------------------------------------------------------------------------------------------
# Splitting of a text at `// -----`, as MLIR's tools do on request.


MARKER: Final = "// -----"


def split_input(text: str) -> list[tuple[int, str]]:
    r"""Return the pieces of a text between markers `// -----`, each with its first line's number.

    Lines count from 1. A piece begins directly after the marker, so the rest of the marker's line
    belongs to it.

    >>> split_input("a\n// -----\nb\n")
    [(1, 'a\n'), (2, '\nb\n')]
    """
    pieces, line = [], 1
    for piece in text.split(MARKER):
        pieces.append((line, piece))
        line += piece.count("\n")
    return pieces
