"""Encodings of locations in bytecode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.bytecode.ways import Way, text_of
from hloscope.mlir import (
    UNKNOWN,
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    NameLoc,
    StringAttr,
    attribute_text,
    parse_attribute,
)

LOCATIONS: Final = (type(UNKNOWN), FileLoc, NameLoc, CallSiteLoc, FusedLoc)
"""Supported classes of locations."""


def _range(_: str, file: object, numbers: Sequence[int]) -> FileLoc:
    name = text_of(file)
    if len(numbers) > 4:
        raise ValueError("a place has at most four numbers")
    line, column = [*numbers[:2], 0, 0][:2]
    if len(numbers) < 3:
        return FileLoc(name, line, column, line, column)
    return FileLoc(name, line, column, line if len(numbers) == 3 else numbers[2], numbers[-1])


def _range_fields(_: str, value: FileLoc) -> Sequence[Any]:
    """Return the file name and the numbers of a range, as few as MLIR writes.

    If a range starts in column 0 and ends on the same line, its end is not written.
    """
    line, column, end = value.line, value.column, value.end_column
    if value.end_line != line:
        numbers: tuple[int, ...] = (line, column, value.end_line, end)
    elif column == 0:
        numbers = () if line == end == 0 else (line,)
    else:
        numbers = (line, column) if column == end else (line, column, end)
    return StringAttr.of(value.file), numbers


LOCATION_WAYS: Final[dict[str, Way]] = {
    "unknown": Way(lambda _: UNKNOWN, lambda _, value: ()),
    "call_site": Way(
        lambda _, callee, caller: CallSiteLoc(callee, caller),
        lambda _, value: (value.callee, value.caller),
    ),
    "file": Way(
        lambda _, file, line, column: FileLoc(text_of(file), line, column),
        lambda _, value: (StringAttr.of(value.file), value.line, value.column),
    ),
    "file_range": Way(_range, _range_fields),
    "fused": Way(lambda _, parts: FusedLoc(parts), lambda _, value: (value.locations,)),
    "fused_metadata": Way(
        lambda _, parts, metadata: FusedLoc(parts, attribute_text(metadata)),
        lambda _, value: (value.locations, parse_attribute(value.metadata)),
    ),
    "name": Way(
        lambda _, name, child: NameLoc(text_of(name), child),
        lambda _, value: (StringAttr.of(value.name), value.child),
    ),
}
"""Encodings of locations by the name that table rows give them."""
