"""Locations of operations, as in MLIR's `loc(…)`.

A reader stores the text as a `LazyLoc`; `resolve_location` parses it on demand.

Source: MLIR language reference, "Location attributes".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from hloscope.errors import ParseError
from hloscope.mlir.text.lexer import plain_name
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_ALIASED, Nested


class UnknownLoc(Struct, frozen=True):
    """The location `loc(unknown)`; ops without a location have it, too."""


class FileLoc(Struct, frozen=True):
    """A position `"file":line:column`, or a range with `to end_line:end_column`."""

    file: str
    line: int
    column: int
    end_line: int = -1
    end_column: int = -1


class NameLoc(Nested, Struct, frozen=True):
    """A location with a name, `"name"(child)`."""

    name: str
    child: Location = UnknownLoc()


class CallSiteLoc(Nested, Struct, frozen=True):
    """A call site, `callsite(callee at caller)`."""

    callee: Location
    caller: Location


class FusedLoc(Nested, Struct, frozen=True):
    """The location `fused<metadata>[a, b]`; `metadata` is text, or empty."""

    locations: tuple[Location, ...]
    metadata: str = ""


class LocationTable(Struct):
    """Named locations (`#loc1 = loc(…)`) of one text.

    `texts` has the text of each name, `known` the parsed locations, `lengths` the length of each
    text with all aliases expanded.
    """

    texts: dict[str, str] = field(default_factory=dict)
    known: dict[str, Location] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)


class LazyLoc(Struct, frozen=True):
    """An unparsed location: the text in `loc(…)`, an alias or a location.

    `resolve_location` parses it; `table` has the aliases.
    """

    text: str
    table: LocationTable | None = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not LazyLoc:
            return NotImplemented
        return self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"LazyLoc({self.text!r})"


Location: TypeAlias = UnknownLoc | FileLoc | NameLoc | CallSiteLoc | FusedLoc | LazyLoc

UNKNOWN: Final = UnknownLoc()

_STRING: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN: Final = pattern(
    rf"\s*(?:(?P<string>{_STRING})|(?P<alias>#[\w$.-]+)|(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)"
    r"|(?P<sign>[()\[\],:<>?]))"
)
_ANGLE: Final = pattern(rf"{_STRING}|->|[<>]")
_ALIAS: Final = pattern(rf"{_STRING}|#[\w$.-]+|<")
_PLACE: Final = r"\d{1,9}"
_FILE: Final = rf":{_PLACE}:{_PLACE}(?: to (?:{_PLACE})?:{_PLACE})?"
_COMMON: Final = pattern(
    rf"#[\w$.-]+|unknown|{_STRING}(?:{_FILE}|\(#[\w$.-]+\))?"
    r"|callsite\(#[\w$.-]+ at #[\w$.-]+\)|fused\[#[\w$.-]+(?:, #[\w$.-]+)*\]"
)
_MOST_NESTING: Final = 200
_LINE_LIMIT: Final = 1 << 32
"""Exclusive upper limit of line and column numbers."""


def resolve_location(location: Location) -> Location:
    """Return the location with all of its text parsed, nested locations included.

    >>> resolve_location(LazyLoc('"f"("a.py":1:2)'))
    NameLoc(name='f', child=FileLoc(file='a.py', line=1, column=2, end_line=-1, end_column=-1))

    Raises:
        ParseError: The text is not a location, or uses an undefined alias.
    """
    if not isinstance(location, LazyLoc):
        return location
    table = location.table or LocationTable()
    text = location.text.strip()
    if text.startswith("#") and text in table.known:
        return table.known[text]
    _define(text, table)
    return _Reader(text, table.known).read()


def check_location(text: str) -> None:
    """Raise an error unless a text is a location; every alias in it counts as defined.

    Raises:
        ParseError: The text is not a location.
    """
    if _COMMON.fullmatch(text) is None:
        _Reader(text, dict.fromkeys(_aliases(text), UNKNOWN)).read()


def _define(text: str, table: LocationTable) -> None:
    """Parse every alias in a location's text, nested ones first, and store it in `table.known`."""
    waiting = _aliases(text)
    open_names: set[str] = set()
    # Depth first: an alias stays on the list until all aliases that it uses are parsed. If it is
    # reached again before that, it is defined by itself.
    while waiting:
        name = waiting[-1]
        if name in table.known:
            waiting.pop()
            continue
        if name not in table.texts:
            raise ParseError(f"location alias `{name}` was never defined")
        text = table.texts[name]
        named = _aliases(text)
        missing = [n for n in named if n not in table.known]
        if name in open_names and missing:
            raise ParseError(f"location alias `{name}` refers to itself")
        open_names.add(name)
        if missing:
            waiting += missing
        else:
            waiting.pop()
            # Aliases can nest so that a short text expands beyond memory, so expanded lengths are
            # computed before a location is made.
            length = len(text) + sum(table.lengths.get(n, 0) for n in named)
            if length > MOST_ALIASED:
                raise ParseError(
                    f"location alias `{name}` stands for more than {MOST_ALIASED:,} characters"
                )
            table.lengths[name] = length
            table.known[name] = _Reader(text, table.known).read()


def location_names(text: str) -> Iterator[re.Match[str]]:
    """Yield matches of aliases `#name` in a location's text, except inside `fused<metadata>`."""
    at = 0
    while found := _ALIAS.search(text, at):
        at = found.end()
        if found[0] == "<":
            at = _closing(text, at)
        elif found[0][0] == "#":
            yield found


def _aliases(text: str) -> list[str]:
    return [found[0] for found in location_names(text)]


class _Reader:
    """Parser of one location's text, whose aliases have already been parsed."""

    def __init__(self, text: str, known: Mapping[str, Location]) -> None:
        self.text = text
        self.known = known
        self.at = 0
        self.depth = 0
        self.kind = self.token = ""
        self.start = 0
        self.next()

    def next(self) -> str:
        token = self.token
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            self.kind, self.token, self.start = "end", "", len(self.text)
            return token
        self.kind = found.lastgroup or ""
        self.token = found[self.kind]
        self.start, self.at = found.start(self.kind), found.end()
        return token

    def accept(self, token: str) -> bool:
        if self.token != token or self.kind == "string":
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ParseError(f"expected '{token}' in location")

    def number(self) -> int:
        found = int(self.next()[:20]) if self.kind == "number" else _LINE_LIMIT
        if found >= _LINE_LIMIT:
            raise ParseError("expected integer line or column number in location")
        return found

    def read(self) -> Location:
        location = self.location()
        if self.kind != "end":
            raise ParseError("expected ')' in location")
        return location

    def location(self) -> Location:
        self.depth += 1
        if self.depth > _MOST_NESTING:
            raise ParseError(f"nesting is deeper than {_MOST_NESTING} in a location")
        location = self._location()
        self.depth -= 1
        return location

    def _location(self) -> Location:
        if self.kind == "string":
            return self._named()
        if self.kind == "alias" and self.token in self.known:
            return self.known[self.next()]
        word = self.next()
        match word:
            case "unknown" | "?":
                return UNKNOWN
            case "callsite":
                self.expect("(")
                callee = self.location()
                self.expect("at")
                caller = self.location()
                self.expect(")")
                return CallSiteLoc(callee, caller)
            case "fused":
                return self._fused()
        raise ParseError("expected location instance")

    def _named(self) -> Location:
        name = plain_name(self.next())
        if self.accept("("):
            child = self.location()
            self.expect(")")
            return NameLoc(name, child)
        if not self.accept(":"):
            return NameLoc(name)
        line = self.number()
        self.expect(":")
        column = self.number()
        if not self.accept("to"):
            return FileLoc(name, line, column)
        last = self.number() if self.kind == "number" else line
        self.expect(":")
        return FileLoc(name, line, column, last, self.number())

    def _fused(self) -> Location:
        metadata = ""
        if self.token == "<":
            start, self.at = self.at, _closing(self.text, self.at)
            metadata = self.text[start : self.at - 1].strip()
            self.next()
        self.expect("[")
        parts: list[Location] = []
        while not self.accept("]"):
            if parts:
                self.expect(",")
            parts.append(self.location())
        return FusedLoc(tuple(parts), metadata)


def _closing(text: str, at: int) -> int:
    """Return the offset after the `>` that closes the `<` directly before offset `at`."""
    depth = 1
    for found in _ANGLE.finditer(text, at):
        depth += {"<": 1, ">": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
    raise ParseError("expected '>' in location")
