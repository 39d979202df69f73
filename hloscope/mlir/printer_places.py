"""Where ops and arguments come from: as the source says it, else where they stand in the source.

Source: MLIR `Parser.cpp` (`getEncodedSourceLocation`); columns count bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from hloscope.mlir.ir import Block, Operation, Value
from hloscope.mlir.locations import UNKNOWN, FileLoc, Location, resolve_location
from hloscope.source import Source


class Places:
    """Locations of ops and arguments; remembers where the lines of a source begin."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._lines: list[int] = []

    def of_op(self, op: Operation) -> Location:
        """What it says, else the position of its name."""
        if op.location is not UNKNOWN or op.source is None:
            return resolve_location(op.location)
        if op.start == op.end:  # a module that nobody wrote
            return FileLoc(op.source.name, 0, 0)
        return self._place(op.source, op.start)

    def of_argument(self, argument: Value) -> Location:
        """What it says, else the position of its name."""
        source = _source_of(argument)
        if argument.location is not UNKNOWN or source is None or argument.at < 0:
            return resolve_location(argument.location)
        return self._place(source, argument.at)

    def _place(self, source: Source, at: int) -> FileLoc:
        if self._source is not source:
            self._source = source
            self._lines = [0, *(found.end() for found in re.finditer("\n", source.text))]
        line = bisect_right(self._lines, at)
        before = source.text[self._lines[line - 1] : at]
        return FileLoc(source.name, line, len(before.encode("utf-8", "surrogateescape")) + 1)


def _source_of(argument: Value) -> Source | None:
    block = argument.owner
    region = block.parent if isinstance(block, Block) else None
    return region.parent.source if region is not None and region.parent is not None else None
