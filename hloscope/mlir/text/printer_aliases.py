"""Aliases of locations, attributes and types: their numbers and positions.

The number of an alias is known only after printing, since aliases inside it come first. Until then
a mark represents the alias in the text.

Source: MLIR `AsmPrinter.cpp` (`AliasInitializer`, `AliasState`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hloscope.mlir.locations import (
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    LazyLoc,
    Location,
    NameLoc,
    UnknownLoc,
    resolve_location,
)
from hloscope.mlir.text.escape import quoted
from hloscope.support.lazy import pattern

_MARK: Final = pattern("\ud800(\\d+)\ud801")
"""Marks are between characters that text from files cannot have."""


def _mark(index: int) -> str:
    return f"\ud800{index}\ud801"


class _Alias:
    """An alias; `text` is the text that it abbreviates, with marks in place of aliases."""

    __slots__ = ("depth", "later", "name", "parts", "text")

    def __init__(self, name: str, text: str, parts: list[_Alias]) -> None:
        self.name = name
        self.text = text
        self.parts = parts
        self.depth: int = 1 + max((part.depth for part in parts), default=0)
        self.later = True  # may be defined below the module


class Aliases:
    """The aliases that a printed module uses; until `finished`, marks represent them."""

    def __init__(self) -> None:
        self._all: list[_Alias] = []
        self._by_text: dict[tuple[str, str], int] = {}
        # By `id`, asked for each op: ops of one source line share a location.
        self._by_location: dict[int, tuple[Location, int]] = {}

    def mark(self, name: str, text: str, *, later: bool = False) -> str:
        """Return a mark, which represents an alias in the text until `finished` replaces it.

        Equal names and texts have the same mark.

        Args:
            name: Name of the alias without its number, with `#` or `!`.
            text: The attribute or type that the alias abbreviates; it may contain marks.
            later: May the alias be defined below the module? Otherwise it is defined above.
        """
        return _mark(self._index(name, text, later=later))

    def location(self, location: Location, *, later: bool = True) -> str:
        """Return the mark that represents the alias of a location in the text.

        If `later` is false, the alias is defined above the module, otherwise it may be below.
        """
        known = self._by_location.get(id(location))
        index = self._location(location) if known is None else known[1]
        if not later:
            self._not_later(self._all[index])
        return _mark(index)

    def location_text(self, location: Location) -> str:
        """Return a location's text with marks inside; its aliases are defined above the module."""
        self.location(location, later=False)
        return self._all[self._by_location[id(location)][1]].text

    def finished(self, text: str) -> str:
        """Return the text of a module with aliases in place of marks, and with their definitions.

        Definitions are above the module, or below it if `later` was true at each use.
        """
        if not self._all:
            return text
        # MLIR numbers aliases by depth, so that one is defined after those inside it, then types
        # before attributes, then by name. The sort is stable: ties are in the order of first use.
        order = sorted(
            range(len(self._all)),
            key=lambda i: (self._all[i].depth, self._all[i].name[0] == "#", self._all[i].name),
        )
        names = [""] * len(self._all)
        count: Counter[str] = Counter()
        for i in order:
            name = self._all[i].name
            names[i] = f"{name}{count[name] or ''}"
            count[name] += 1
        above: list[str] = []
        below: list[str] = []
        for i in order:
            alias = self._all[i]
            written = f"loc({alias.text})" if alias.name == "#loc" else alias.text
            (below if alias.later else above).append(f"{names[i]} = {written}\n")
        whole = "".join([*above, text, *below])
        return _MARK.sub(lambda found: names[int(found[1])], whole)

    def _index(self, name: str, text: str, *, later: bool) -> int:
        index = self._by_text.setdefault((name, text), len(self._all))
        if index == len(self._all):
            parts = [self._all[int(found)] for found in dict.fromkeys(_MARK.findall(text))]
            self._all.append(_Alias(name, text, parts))
        if not later:
            self._not_later(self._all[index])
        return index

    def _not_later(self, alias: _Alias) -> None:
        stack = [alias]
        # An alias above the module may use only aliases above it, so those inside follow it.
        while stack:
            alias = stack.pop()
            if alias.later:
                alias.later = False
                stack += alias.parts

    def _location(self, location: Location) -> int:
        """Return the index of a new location; locations inside it come first."""
        stack = [location]
        while stack:
            top = stack[-1]
            missing = [part for part in _parts(top) if id(part) not in self._by_location]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if id(top) not in self._by_location:
                index = self._index("#loc", self._written(top), later=True)
                self._by_location[id(top)] = top, index
        return self._by_location[id(location)][1]

    def _written(self, location: Location) -> str:
        marks = [_mark(self._by_location[id(part)][1]) for part in _parts(location)]
        return _location_text(location, marks)


class NoAliases(Aliases):
    """Writes everything in full, without aliases."""

    def mark(self, name: str, text: str, *, later: bool = False) -> str:
        """Return `text` itself."""
        return text

    def location(self, location: Location, *, later: bool = True) -> str:
        """Return the location as text."""
        return location_text(location)

    def location_text(self, location: Location) -> str:
        """Return the location as text."""
        return location_text(location)


def location_text(location: Location) -> str:
    """Return the text inside `loc(…)`, with nothing abbreviated.

    >>> location_text(NameLoc("add", FileLoc("a.py", 1, 2)))
    '"add"("a.py":1:2)'
    """
    texts: dict[int, str] = {}
    location = resolve_location(location)
    stack = [location]
    while stack:
        parts = _parts(stack[-1])
        missing = [part for part in parts if id(part) not in texts]
        if missing:
            stack += missing
        else:
            top = stack.pop()
            texts[id(top)] = _location_text(top, [texts[id(part)] for part in parts])
    return texts[id(location)]


def _parts(location: Location) -> tuple[Location, ...]:
    """Return the locations directly inside a location."""
    match location:
        case NameLoc(_, child):
            return () if isinstance(child, UnknownLoc) else (child,)
        case CallSiteLoc(callee, caller):
            return callee, caller
        case FusedLoc(locations):
            return locations
        case LazyLoc():
            raise AssertionError("locations are resolved before they are printed")
        case _:
            return ()


def _location_text(location: Location, parts: list[str]) -> str:
    match location:
        case FileLoc(file, line, column, end_line, end_column):
            text = f"{quoted(file)}:{line}:{column}"
            if end_column < 0 or (end_line, end_column) == (line, column):
                return text
            if end_line in (-1, line):
                return f"{text} to :{end_column}"
            return f"{text} to {end_line}:{end_column}"
        case NameLoc(name):
            return quoted(name) + (f"({parts[0]})" if parts else "")
        case CallSiteLoc():
            return f"callsite({parts[0]} at {parts[1]})"
        case FusedLoc(_, metadata):
            return f"fused{f'<{metadata}>' if metadata else ''}[{', '.join(parts)}]"
        case _:
            return "unknown"
