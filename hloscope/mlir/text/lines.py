"""Lines of a text without the names of values in them, many at once."""

from __future__ import annotations

from typing import Final

from hloscope.lazy import pattern

NAME: Final = pattern(
    r"%((?:[0-9]++|[A-Za-z_$.-][A-Za-z0-9_$.-]*+)(?:#[1-9][0-9]*+(?!\s*=))?+)"
    r"(?:#0(?!\s*=))?+"
)
"""A name without the number of a first result, which need not be written.

Where it is a result that is named, `%0#1 =`, the number is no part of it: no line is like that one.
"""
HOLE: Final = "\0"
"""Stands for a name."""
LONG: Final = 4000
"""No longer line is looked at."""
_MANY: Final = 1 << 16


class Lines:
    """Lines in a row, and the one that is to be read.

    Attributes:
        keys: The text of each line, `HOLE` for each name; the last one is empty.
        names: All names, without `%`.
        line: Number of the line that is to be read among these.
        number: Its number in the text; both are counted from 0.
        begin: Where it begins.
        place: Which of the names is its first one.
        end: Where the line after the last one begins.
    """

    __slots__ = ("_lengths", "begin", "end", "keys", "line", "names", "number", "place")

    def __init__(self) -> None:
        self.begin = self.end = self.line = self.number = self.place = 0
        self.keys: list[str] = []
        self.names: list[str] = []
        self._lengths: list[int] = []

    def reach(self, text: str, begin: int) -> bool:
        """Go to the line that begins there; `False` if no such line can be looked at."""
        if not self.begin <= begin < self.end:
            return self._cut(text, begin)
        while self.begin < begin:
            self.go_on(1, self.keys[self.line].count(HOLE))
        return True

    def go_on(self, lines: int, names: int) -> None:
        """Leave so many lines with so many names behind."""
        self.begin += self.length(lines)
        self.line += lines
        self.number += lines
        self.place += names

    def length(self, lines: int) -> int:
        """How many characters so many lines have, their ends included."""
        return sum(self._lengths[self.line : self.line + lines]) + lines

    def _cut(self, text: str, begin: int) -> bool:
        """Take the lines from here on."""
        end = text.find("\n", begin + _MANY, begin + _MANY + LONG)
        if end < 0:
            end = text.rfind("\n", begin, begin + _MANY)
        piece = text[begin:end] if end > begin else HOLE
        if HOLE in piece:
            self.end = 0
            return False
        back = begin < self.begin
        self.number = (
            text.count("\n", 0, begin)
            if back
            else (self.number + text.count("\n", self.begin, begin))
        )
        parts = NAME.split(piece)
        self.names = parts[1::2]
        self.keys = HOLE.join(parts[::2]).split("\n")
        self.keys.append("")
        self._lengths = list(map(len, piece.split("\n")))
        self.line = self.place = 0
        self.begin, self.end = begin, end + 1
        return True
