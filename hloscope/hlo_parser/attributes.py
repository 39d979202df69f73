"""Splitting of attribute lists of instructions, headers and nested groups; errors with offsets.

The meaning of attributes does not matter here: a value ends at the first comma outside of brackets
and strings. Offsets count from the start of the given text; `moved` converts them to offsets in the
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hloscope.errors import ParseError
from hloscope.hlo_parser.scanner import fail
from hloscope.lazy import pattern
from hloscope.source import Source, Span

Attribute = tuple[str, str, int]
"""Name, text of the value, offset of the name."""

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _nested(depth: int) -> str:
    """Return a pattern of `{…}` with at most `depth` further levels of braces.

    Brackets in strings do not count.
    """
    inner = f"|{_nested(depth - 1)}" if depth else ""
    return rf'\{{[^"{{}}/]*+(?:(?:{_STRING}{inner})[^"{{}}/]*+)*+\}}'


_NAME: Final = pattern(r"[\s,]*([A-Za-z_][\w.-]*)\s*=\s*")
_COMMON, _NESTED = [
    pattern(
        r"[\s,]*([A-Za-z_][\w.-]*)\s*=\s*"
        rf"({_nested(depth)}|{_STRING}|[^\s,{{}}()\[\]\"/]+)(?=\s*(?:,|$))",
        re.DOTALL,
    )
    for depth in (0, 5)
]
"""Patterns of a flat attribute and of a nested one; the second is slow to compile."""
_STRUCTURE: Final = pattern(
    rf"{_STRING}|/\*.*?\*/"
    r'|[{}()\[\],"]',
    re.DOTALL,
)
_SPACE: Final = pattern(r"(?:\s+|/\*.*?\*/)*", re.DOTALL)
_CLOSES: Final = {"}": "{", ")": "(", "]": "["}


def moved(error: ParseError, source: Source, base: int) -> ParseError:
    """Return `error`, raised about a part of `source` that starts at `base`, placed in `source`."""
    span = error.span
    placed = (
        Span(source, base, base)
        if span is None
        else Span(source, base + span.start, base + span.end)
    )
    return type(error)(error.message, span=placed, rule=error.rule)


def part_end(text: str, start: int, *, stop_at_comma: bool = True) -> int:
    """Return the end of the value at `start`: a comma outside of brackets, or the end of the text.

    Without `stop_at_comma`, the end is that of the bracket that opens first.

    >>> part_end('{1, "}"}, b=2', 0)
    8

    Raises:
        ParseError: A bracket or string is not closed, or closes nothing.
    """
    # A stack of open brackets with their offsets: a comma separates values only if it is empty.
    open_: list[tuple[str, int]] = []
    for found in _STRUCTURE.finditer(text, start):
        mark = found.group()
        if mark == ",":
            if not open_ and stop_at_comma:
                return found.start()
        elif mark in "{([":
            open_.append((mark, found.start()))
        elif mark in _CLOSES:
            if not open_:
                if stop_at_comma:
                    fail(f"`{mark}` closes nothing", text, found.start())
                return found.start()
            opening, at = open_.pop()
            if opening != _CLOSES[mark]:
                fail(f"`{mark}` closes `{opening}` at offset {at}", text, found.start())
            if not open_ and not stop_at_comma:
                return found.end()
        elif mark == '"':
            fail("string is not closed", text, found.start())
    if open_:
        opening, at = open_[-1]
        fail(f"`{opening}` is not closed", text, at)
    return len(text)


def split_attributes(text: str) -> list[Attribute]:
    """Return `(name, value, offset of the name)` for each entry of a list `a=1, b={2, 3}`.

    A leading comma is allowed, so that the text after an operand list can be given unchanged.

    >>> split_attributes(', dimensions={0,1}, to_apply=add')
    [('dimensions', '{0,1}', 2), ('to_apply', 'add', 20)]

    Raises:
        ParseError: Something is not `name=value`, or a bracket is not closed.
    """
    attributes: list[Attribute] = []
    at, end = 0, len(text)
    while at < end:
        # Nearly every attribute matches one of two patterns, with the same meaning as the general
        # case below.
        common = _COMMON.match(text, at) or _NESTED.match(text, at)
        if common is not None:
            attributes.append((common[1], common[2], common.start(1)))
            at = common.end()
            continue
        name = _NAME.match(text, at)
        if name is None:
            rest = text[at:].strip(", \t\r\n")
            if not rest:
                break
            start = text.index(rest[0], at)
            fail(f"expected `name=value`, found `{shortened(rest)}`", text, start, end)
        start = name.end()
        at = part_end(text, start)
        value = text[start:at].rstrip()
        if not value:
            fail(f"attribute `{name.group(1)}` has no value", text, name.start(1), name.end(1))
        if name[1] == "device_ids" and attributes and attributes[-1][1].startswith("mesh["):
            group, mesh, begin = attributes.pop()  # the comma is part of a replica group
            attributes.append((group, f"{mesh}, device_ids={value}", begin))
        else:
            attributes.append((name[1], value, name.start(1)))
    return attributes


def split_list(text: str, start: int = 0, end: int | None = None) -> list[tuple[str, int]]:
    """Return the comma-separated parts of `text[start:end]` with their offsets; `""` has none.

    Comments before a part are skipped.

    >>> split_list('{0,1}, /*index=1*/{2,3}')
    [('{0,1}', 0), ('{2,3}', 18)]
    """
    text = text[: len(text) if end is None else end]
    parts: list[tuple[str, int]] = []
    at = start
    while at < len(text):
        stop = part_end(text, at)
        space = _SPACE.match(text, at, stop)
        start = space.end() if space else at
        parts.append((text[start:stop].rstrip(), start))
        at = stop + 1
    if len(parts) == 1 and not parts[0][0]:
        return []
    return parts


def inside(text: str, opening: str = "{", closing: str = "}") -> str:
    """Return the text between the outer brackets of `text`.

    Raises:
        ParseError: `text` is not in these brackets.
    """
    if not (text.startswith(opening) and text.endswith(closing) and len(text) >= 2):
        fail(f"expected `{opening}…{closing}`, found `{shortened(text)}`", text, 0, len(text))
    return text[1:-1]


def shortened(text: str, limit: int = 40) -> str:
    """Return `text` cut to `limit` characters for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def near(name: str, known: Iterable[str], most: int = 2) -> str | None:
    """Return the nearest known name within edit distance `most` of `name`; `None` if there is none.

    >>> near("dimension", ["dimensions", "to_apply"])
    'dimensions'
    """
    allowed = min(most, (len(name) - 1) // 2)
    alike = [other for other in known if abs(len(other) - len(name)) <= allowed]
    best = min(((distance(name, other), other) for other in alike), default=(allowed + 1, ""))
    return best[1] if best[0] <= allowed else None


def distance(a: str, b: str) -> int:
    """Return the number of insertions, deletions and replacements that turn `a` into `b`."""
    # Levenshtein distance by dynamic programming: `row[j]` is the distance of `a[:i]` and `b[:j]`.
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]
