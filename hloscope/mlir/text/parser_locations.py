"""Reads `loc(…)`: the text is kept and only looked at.

Source: MLIR language reference, "Location attributes".
"""

from __future__ import annotations

from typing import Final

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.locations import LazyLoc, LocationTable, check_location
from hloscope.mlir.text.parser_types import TypeParser
from hloscope.source import Source

_NAME: Final = pattern(r"#[\w$.-]+")
_COMMON: Final = pattern(r"loc\((#loc\d*|unknown)\)")


class LocationParser(TypeParser):
    """Reads locations.

    Attributes:
        locations: Locations by their names.
        named_locations: Names of locations the text uses, where it does so first.
    """

    __slots__ = ("_lazy", "locations", "named_locations")

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, dialects, at)
        self.locations: Final = LocationTable()
        self.named_locations: Final[dict[str, int]] = {}
        self._lazy: dict[str, LazyLoc] = {}

    def location(self) -> LazyLoc | None:
        """Read `loc(…)` if it is there."""
        if self.tok != "loc":
            return None
        found = _COMMON.match(self.text, self.start)
        if found is not None:
            at = self.start
            self.move(found.end())
            return self.lazy(found[1], at)
        self.next()
        if self.tok != "(":
            self.wrong("expected '(' in location")
        start, at = self.end, self.start
        end = self.closing()
        if end < 0:
            self.move(self.end)
            self._raise("expected ')' in location", self._span(None, None))
        self.move(end)
        return self.lazy(self.text[start : end - 1].strip(), at)

    def lazy(self, text: str, at: int) -> LazyLoc:
        """The location with this text, one object for each text."""
        known = self._lazy.get(text)
        if known is None:
            self._check_location(text, at)
            known = self._lazy[text] = LazyLoc(text, self.locations)
            if _NAME.fullmatch(text):
                self.named_locations.setdefault(text, at)
        return known

    def _check_location(self, text: str, at: int) -> None:
        try:
            check_location(text)
        except ParseError as error:
            self.fail_plainly(error.message, at)
