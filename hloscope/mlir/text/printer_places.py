"""Locations of ops and arguments: as given, else their position in the source.

Source: MLIR `Parser.cpp` (`getEncodedSourceLocation`); columns count bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from hloscope.mlir.ir import Block, Operation, Value
from hloscope.mlir.locations import UNKNOWN, FileLoc, Location, resolve_location
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

_SPACE: Final = pattern(r"(?:\s|//[^\n]*)*")


class Places:
    """Locations of ops and arguments, with the line starts of their source.

    Args:
        behind: Ops whose location MLIR sets after their name, not at it.
        given_only: Do not use the source position of an op without a location.
    """

    def __init__(self, behind: frozenset[str] = frozenset(), *, given_only: bool = False) -> None:
        self._behind = behind
        self._given_only = given_only
        self._source: Source | None = None
        self._lines: list[int] = []

    def of_op(self, op: Operation) -> Location:
        """Return the given location, else the position of the op's name or of its implying op."""
        if op.location is not UNKNOWN or self._given_only:
            return resolve_location(op.location)
        if op.source is None:
            around = _around(op.parent)
            return op.location if around is None else self.of_op(around)
        if op.start == op.end:  # an implied module
            return FileLoc(op.source.name, 0, 0)
        at = op.start
        if op.name in self._behind and op.source.text[at] != '"':
            at = _next(op.source.text, op.end)
        return self._place(op.source, at)

    def of_argument(self, argument: Value) -> Location:
        """Return the given location, else the position of the argument's name or of its op."""
        around = None if self._given_only else _around(argument.owner)
        if argument.location is not UNKNOWN or around is None:
            return resolve_location(argument.location)
        if argument.at < 0:
            return self.of_op(around)
        return self._place(around.source, argument.at)  # type: ignore[arg-type]

    def _place(self, source: Source, at: int) -> FileLoc:
        if self._source is not source:
            self._source = source
            self._lines = [0, *(found.end() for found in re.finditer("\n", source.text))]
        line = bisect_right(self._lines, at)
        before = source.text[self._lines[line - 1] : at]
        return FileLoc(source.name, line, len(before.encode("utf-8", "surrogateescape")) + 1)


def _around(block: object) -> Operation | None:
    """Return the op around a block, if it has a source."""
    region = block.parent if isinstance(block, Block) else None
    op = region.parent if region is not None else None
    return op if op is not None and op.source is not None else None


def _next(text: str, at: int) -> int:
    """Return the start of the next token."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
