"""Reader of large JSON texts item by item, so that one event at a time is a Python object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from hloscope.errors import ParseError
from hloscope.lazy import pattern

_SPACE: Final = pattern(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


class Json:
    """A JSON text with a current position."""

    def __init__(self, data: bytes, source: str) -> None:
        self.source, self._at = source, 0
        try:
            self._text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            what = f"found a byte that is not UTF-8, expected JSON, at byte {error.start}"
            raise ParseError(f"{source}: {what}") from None

    def fail(self, what: str) -> NoReturn:
        """Raise a `ParseError` at the current position."""
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise ParseError(f"{self.source}:{line}:{column}: {what}")

    def peek(self) -> str:
        """Return the next character that is not a space; empty at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def take(self, expected: str) -> None:
        """Advance past a character."""
        if self.peek() != expected:
            self.fail(f"found {self._shown()}, expected `{expected}`")
        self._at += 1

    def _shown(self) -> str:
        piece = self._text[self._at : self._at + 20]
        return f"`{piece}`" if piece else "the end of the file: it is cut"

    def value(self) -> Any:
        """Return the value at the current position, and advance past it."""
        self.peek()
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            self._at = error.pos
            self.fail(f"found {self._shown()}: {error.msg}")
        except (RecursionError, ValueError) as error:
            self.fail(f"a value is too deep or too long: {type(error).__name__}")
        return value

    def items(self) -> Iterator[Any]:
        """Yield the values of the list at the current position."""
        self.take("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self.peek() == "]":
                self._at += 1
                return
            self.take(",")

    def walk(self, key_path: tuple[str, ...], take: Callable[[str], bool]) -> None:
        """Read the object at the current position. `take` reads a key's value or returns `False`.

        Args:
            key_path: Keys of the objects around, for the paths given to `take`.
            take: Called with the path of keys joined by dots.
        """
        self.take("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                self.fail(f"found {self._shown()}, expected a key")
            path = (*key_path, self.value())
            self.take(":")
            if not take(".".join(map(str, path))):
                self.value()
            if self.peek() == "}":
                self._at += 1
                return
            self.take(",")
