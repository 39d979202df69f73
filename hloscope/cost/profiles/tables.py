"""Large CSV and JSON files of profilers, read row by row and item by item."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import Any, Final, NoReturn

from hloscope.cost.profiles.events import Size, sizes_of
from hloscope.errors import ParseError
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# CSV files of profilers: lines before the header, columns by name, units in names.


_UNIT: Final = pattern(r"\s*[(\[](?P<unit>[^)\]]*)[)\]]\s*$")
_PICOSECONDS: Final = {
    "ps": 1, "ns": 10**3, "nsec": 10**3, "us": 10**6, "usec": 10**6, "µs": 10**6,
    "ms": 10**9, "msec": 10**9, "s": 10**12, "sec": 10**12,
}  # fmt: skip
_BYTES: Final = {"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_HEAD: Final = 200
"""Maximum number of lines that are searched for a header."""


def column(text: str) -> tuple[str, str]:
    """Return a column's name in lower case without spaces and `_`, and its unit in brackets.

    >>> column("Start (ns)"), column("Kernel_Name"), column("Reg/Trd")
    (('start', 'ns'), ('kernelname', ''), ('reg/trd', ''))
    """
    found = _UNIT.search(text)
    name = text[: found.start()] if found else text
    unit = found["unit"].strip().lower() if found else ""
    return name.strip().lower().replace(" ", "").replace("_", ""), unit


class Table:
    """The rows of a CSV text. Cells are selected by column name.

    Attributes:
        source: Name of the file in messages.
        columns: Position of each column, by name.
    """

    def __init__(self, text: str, source: str, needed: tuple[frozenset[str], ...]) -> None:
        """Find the header: the first line that has all columns of one of the sets in `needed`.

        Raises:
            ParseError: No line is such a header.
        """
        self.source = source
        self.columns: dict[str, int] = {}
        self._units: dict[str, str] = {}
        self._rows = csv.reader(StringIO(text, newline=""))
        self.header_line = 0
        for _ in range(_HEAD):
            row = self._next()
            if row is None:
                break
            found = [column(cell) for cell in row]
            names = {name for name, _ in found}
            if any(need <= names for need in needed):
                for at, (name, unit) in enumerate(found):
                    self.columns.setdefault(name, at)
                    self._units.setdefault(name, unit)
                self.header_line = self._rows.line_num
                return
        wanted = " or ".join([", ".join(sorted(need)) for need in needed])
        raise ParseError(f"{source}: found no header, expected a line with the columns {wanted}")

    def _next(self) -> list[str] | None:
        try:
            return next(self._rows, None)
        except csv.Error as error:
            raise ParseError(f"{self.source}:{self._rows.line_num}: {error}") from None

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def fail(self, what: str) -> NoReturn:
        """Raise a `ParseError` with the message `what`, at the line that was read last."""
        raise ParseError(f"{self.source}:{self._rows.line_num}: {what}")

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows after the header, without empty lines.

        Raises:
            ParseError: A row has fewer cells than the header.
        """
        width = len(self.columns)
        while (row := self._next()) is not None:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) < width:
                self.fail(f"found {len(row)} cells, expected {width}: the file may be cut")
            yield row

    def text(self, row: list[str], *names: str) -> str:
        """Return the cell of a row in the first of the columns `names` that exists.

        The result is empty if none exists.
        """
        for name in names:
            at = self.columns.get(name)
            if at is not None and at < len(row):
                return row[at].strip()
        return ""

    def picoseconds(self, row: list[str], *names: str) -> int:
        """Return the cell in the first of the columns `names` that exists, in picoseconds.

        The unit is that of the column's title, or nanoseconds.

        Raises:
            ParseError: The cell is not a number, or the unit is unknown.
        """
        name = next((n for n in names if n in self.columns), names[0])
        unit = self._units.get(name, "") or "ns"
        factor = _PICOSECONDS.get(unit)
        if factor is None:
            self.fail(f"column `{name}` has the unit `{unit}`, expected one of ns, us, ms, s")
        cell = self.text(row, name)
        value = number(cell)
        if value is None:
            self.fail(f"found `{cell[:40]}` in column `{name}`, expected a number")
        return round(value * factor)

    def integer(self, row: list[str], *names: str) -> int | None:
        """Return the cell in the first of the columns `names` that exists, as an integer.

        `None` if it is not an integer.
        """
        value = number(self.text(row, *names))
        return int(value) if value is not None and value == value.to_integral_value() else None

    def bytes(self, row: list[str], *names: str) -> int | None:
        """Return the first number of a row in the columns `names`, in order, as bytes.

        The unit is that of the column's title. `None` if no cell has a number.
        """
        for name in names:
            value, unit = number(self.text(row, name)), self._units.get(name, "")
            if value is not None:
                return round(value * _BYTES.get(unit or "b", 1))
        return None

    def size(self, row: list[str], *names: str) -> Size | None:
        """Return the integers in three columns of a row; `None` if one is missing."""
        return sizes_of([self.integer(row, name) for name in names])


def number(text: str) -> Decimal | None:
    """Return the decimal number in a text; `None` for other texts.

    Numbers with thousands separators are not accepted.

    >>> number("1.5"), number("-"), number("1e999999999")
    (Decimal('1.5'), None, None)
    """
    if len(text) > 40:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 30 else None


# --------------------------------------------------------------------------------------------------
# Reader of large JSON texts item by item, so that one event at a time is a Python object.


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
        """Raise a `ParseError` with the message `what`, at the current position."""
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise ParseError(f"{self.source}:{line}:{column}: {what}")

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def take(self, expected: str) -> None:
        """Advance past the given character.

        Raises:
            ParseError: Another character comes next.
        """
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
        """Read the object at the current position, calling `take` for each key.

        Args:
            key_path: Keys of the objects around this one, for the paths that `take` gets.
            take: Called with the path of a key, joined by dots. It reads the value, or returns
                `False` to skip it.
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
