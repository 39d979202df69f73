"""Tokens of PTX texts: names, numbers and marks."""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple, NoReturn

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.ptx.syntax import Immediate
from hloscope.source import Source, Span

_TOKEN: Final = pattern(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]{1,32}U?|0[bB][01]{1,128}U?|\d{1,39}U?)
    |(?P<name>[%$A-Za-z_.](?:[\w$.]|::)*|%)
    |(?P<string>"[^"\n]*")
    |(?P<mark>[{}()\[\],;:@!|+\-<>=])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token: `kind` is `name`, `int`, `float`, `string`, `mark` or `end`."""

    kind: str
    text: str
    at: int


class Cursor:
    """Tokens of one text, with the position of the next one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = list(self._tokens())
        self.at = 0

    def _tokens(self) -> list[Token]:
        found, at, text = [], 0, self.source.text
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ParseError(
                    f"unexpected character `{text[at]}`", span=Span(self.source, at, at + 1)
                )
            if match.lastgroup != "space":
                found.append(Token(str(match.lastgroup), match[0], at))
            at = match.end()
        found.append(Token("end", "end of file", at))
        return found

    @property
    def next(self) -> Token:
        """Return the next token."""
        return self.tokens[self.at]

    def take(self) -> Token:
        """Return the next token and advance; the end of the file is not passed."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def span(self, token: Token) -> Span:
        """Return the location of a token."""
        return Span(self.source, token.at, token.at + max(1, len(token.text)))

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise an error at a token, by default at the next one."""
        raise ParseError(message, span=self.span(token or self.next))

    def accept(self, text: str) -> bool:
        """Advance if the next token is `text`. Return whether it was."""
        if self.next.text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Advance past the token `text`.

        Raises:
            ParseError: The next token is another one.
        """
        if not self.accept(text):
            self.fail(f"expected `{text}`, found `{self.next.text}`")

    def name(self, what: str) -> str:
        """Return the next token, which must be a name; `what` describes it in the message."""
        if self.next.kind != "name":
            self.fail(f"expected {what}, found `{self.next.text}`")
        return self.take().text

    def integer(self) -> int:
        """Return the next integer, with its signs."""
        negative = False
        while self.next.text in ("+", "-"):  # `[%rd1+-4]`
            negative ^= self.take().text == "-"
        if self.next.kind != "int":
            self.fail(f"expected an integer, found `{self.next.text}`")
        token = self.take()
        try:
            value = _integer(token.text)
        except ValueError:
            self.fail(f"`{token.text}` is not an integer", token)
        return -value if negative else value

    def skip_line(self) -> None:
        """Skip the rest of the line of the last token."""
        text = self.source.text
        end = text.find("\n", self.tokens[self.at - 1].at)
        while self.next.kind != "end" and (end < 0 or self.next.at < end):
            self.at += 1

    def skip_block(self) -> None:
        """Skip from `{` to the matching `}`."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("expected `}`, found the end of the file", token)
            depth += {"{": 1, "}": -1}.get(token.text, 0)


def _integer(text: str) -> int:
    digits = text.rstrip("U")
    is_octal = digits[:1] == "0" and digits[1:].isdigit()
    return int(digits, 8 if is_octal else 0)


def parse_float(text: str) -> Immediate:
    """Return the constant of a float's text."""
    if text[1:2] in ("f", "F"):
        return Immediate(int(text[2:], 16), "f32")
    if text[1:2] in ("d", "D"):
        return Immediate(int(text[2:], 16), "f64")
    return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
