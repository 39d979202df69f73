"""Lexical structure of HLO text: names, comments, brackets, lists of attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from hloscope.errors import ParseError
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Lexical structure of HLO text: names, comments, brackets, ends of values and types.
#
# All functions take the whole text and absolute offsets, so that every error has its position. None
# of them recurses, so nesting may be deep.


NAME: Final = r"[A-Za-z0-9_.-]+"
"""Regular expression of a name of an instruction, computation or module, without `%`."""

SPACE: Final = r"(?:\s+|//[^\n]*|/\*.*?\*/)*+"
"""Regular expression of white space and comments; it needs the flag `re.DOTALL`."""

_SPACE: Final = pattern(SPACE, re.DOTALL)
_SMALL: Final = r'(?:\{[^{}()\[\]"/]*+\}|\[[^{}()\[\]"/]*+\])'
"""Regular expression of a group in brackets without nested groups: `[2,3]` or `{1,0}`."""
_GROUP: Final = pattern(_SMALL)
_STRUCTURE: Final = pattern(
    rf'(?:{_SMALL}(?:[^{{}}()\[\]"/]|/\*index=\d++\*/)*+)++'  # many groups in sequence
    r'|"(?:[^"\\]|\\.)*"'  # strings and comments, whose brackets do not count
    r"|//[^\n]*"
    r"|/\*.*?\*/"
    r'|[{}()\[\]"]',
    re.DOTALL,
)
_VALUE: Final = pattern(
    r'"(?:[^"\\]|\\.)*"'
    r"|//[^\n]*"
    r"|/\*.*?\*/"
    r'|[{}()\[\]",]|\s+',
    re.DOTALL,
)
_COMMENT: Final = pattern(
    r'("(?:[^"\\]|\\.)*"|/\*\w+=\d+\*/)|//[^\n]*|/\*.*?\*/',  # XLA's own numbering is not removed
    re.DOTALL,
)
_NUMBERED: Final = pattern(r"/\*\w+=\d+\*/")
_ELIDED: Final = pattern(r"[\[({<]?(\.{2,}|…)[\])}>]?[^\S\n]*(?:\n|\Z)")
_ARRAY: Final = pattern(r"(?:[A-Za-z]\w*)\s*\[")
_LAYOUT: Final = pattern(r"\{|\s+\{(?=\s*[\d:])")
_CONTINUES: Final = pattern(r"[{(<]|\[(?!\.\.|…)|T\(|device_ids\b|->|<=|unreduced\b|last_tile")
_LITERAL: Final = pattern(r"[({]|-?[\d.]|(?:true|false|-?nan|-?inf)\b")
_CLOSING: Final = {"{": "}", "(": ")", "[": "]"}


def fail(message: str, where: Source | str, start: int, end: int | None = None) -> NoReturn:
    """Raise a `ParseError` with a message about the text `[start, end)` of `where`.

    Without `end`, the error is about one character.
    """
    source = Source("<text>", where) if isinstance(where, str) else where
    stop = start + 1 if end is None else end
    size = len(source.text)
    raise ParseError(message, span=Span(source, min(start, size), max(start, min(stop, size))))


def refuse_elided(source: Source, at: int) -> None:
    """Raise an error if the source has `...` at offset `at`, which stands for omitted lines.

    Raises:
        ParseError: The text at `at` is `...`.
    """
    elided = _ELIDED.match(source.text, at)
    if elided is not None:
        message = f"`{elided[1]}` stands for lines that were left out: the program is not complete"
        fail(message, source, *elided.span(1))


def found(text: str, at: int) -> str:
    """Return the word or character of a text at offset `at`, shortened, for a message `found …`."""
    if at >= len(text):
        return "the end of the text"
    word = re.compile(r"[\w.%-]{1,40}").match(text, at)
    shown = word.group() if word else text[at]
    return "the end of the line" if shown in "\r\n" else f"`{shown}`"


def skip(text: str, at: int) -> int:
    r"""Return the offset of the first character from `at` on outside of spaces and comments.

    >>> skip("  /* a */ // b\n c", 0)
    16
    """
    space = _SPACE.match(text, at)
    return space.end() if space else at


def without_comments(text: str) -> str:
    """Return `text` with comments replaced by spaces; every other character keeps its offset.

    XLA's numbers (`/*index=5*/`, `/*i0=1*/`) are not replaced, so that they are printed again.

    >>> without_comments('f32[2], /* a */ /*index=1*/ "/*"')
    'f32[2],         /*index=1*/ "/*"'
    """
    if "//" not in text and text.count("/*") == len(_NUMBERED.findall(text)):
        return text
    return _COMMENT.sub(lambda m: m.group() if m.group(1) else " " * len(m.group()), text)


def closing(source: Source, at: int) -> int:
    """Return the offset after the bracket that closes the one at offset `at` of a source.

    Raises:
        ParseError: The bracket is not closed.

    >>> closing(Source("", '({")"} /* ) */ ) + 1'), 0)
    16
    """
    text = source.text
    small = _GROUP.match(text, at)
    if small is not None:
        return small.end()
    # The pattern takes flat groups, strings and comments as one token, so only brackets that nest
    # are on the stack.
    open_: list[int] = []
    for mark in _STRUCTURE.finditer(text, at):
        token = mark.group()
        first = token[0]
        if first in _CLOSING:
            if len(token) > 1:
                continue
            open_.append(mark.start())
        elif first in "})]":
            opened = open_.pop()
            if _CLOSING[text[opened]] != first:
                _mismatch(source, opened, mark.start())
            if not open_:
                return mark.end()
        elif token == '"':
            fail("the string is not closed", source, mark.start())
    shown = source.shown
    lines = shown.count("\n") + (not shown.endswith("\n"))
    fail(
        f"`{text[open_[-1]]}` is never closed: the text ends in line {lines}; is it cut?",
        source,
        open_[-1],
    )


def _mismatch(source: Source, opened: int, at: int) -> NoReturn:
    text = source.text
    line, _ = source.line_col(opened)
    want = _CLOSING[text[opened]]
    message = f"expected `{want}` to close the `{text[opened]}` opened in line {line}"
    fail(f"{message}, found `{text[at]}`", source, at)


def value_end(source: Source, at: int) -> int:
    """Return the end of the attribute value at offset `at`: a comma, a closing bracket or a space.

    After spaces a value continues only with a bracket or word that can continue one, as in
    `mesh['x'=2] {'x'}`, or with the value of a typed literal, as in `s32[] 1`.

    >>> value_end(Source("", "add, x=3"), 0), value_end(Source("", "{1, 2} ROOT"), 0)
    (3, 6)
    """
    text = source.text
    start = at
    while mark := _VALUE.search(text, at):
        at = mark.start()
        first = mark.group()[0]
        if first in _CLOSING:
            at = closing(source, at)
        elif first in ",})]":
            return at
        elif mark.group() == '"':
            fail("the string is not closed", source, at)
        elif first == '"':
            at = mark.end()
        else:
            after = skip(text, at)
            goes_on = _CONTINUES.match(text, after) or (
                text[at - 1] in "]}" and "\n" not in mark.group() and _LITERAL.match(text, after)
            )
            if at != start and not goes_on:
                return at
            at = after
    return len(text)


def type_end(source: Source, at: int) -> int:
    """Return the end of the type at offset `at`; `at` itself if no type begins there.

    >>> type_end(Source("", "(f32[2]{0:T(8)}, s8[]) tuple(a, b)"), 0)
    22
    >>> type_end(Source("", "tuple(a, b)"), 0)
    0
    """
    text = source.text
    if text.startswith("(", at):
        return closing(source, at)
    if text.startswith("b(", at):
        return closing(source, at + 1)
    array = _ARRAY.match(text, at)
    if array is None:
        return at
    end = closing(source, array.end() - 1)
    layout = _LAYOUT.match(text, end)
    return closing(source, layout.end() - 1) if layout else end


# --------------------------------------------------------------------------------------------------
# Splitting of attribute lists of instructions, headers and nested groups; errors with offsets.
#
# The meaning of attributes does not matter here: a value ends at the first comma outside of
# brackets and strings. Offsets count from the start of the given text; `error_in_source` converts
# them to offsets in the file.


Attribute = tuple[str, str, int]
"""An attribute: its name, the text of its value, and the offset of the name."""

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _nested(depth: int) -> str:
    """Return a regular expression of a group `{…}` that contains at most `depth` levels of groups.

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
"""Patterns of an attribute without and with nested braces; the second is slow to compile."""
_LIST_STRUCTURE: Final = pattern(
    rf"{_STRING}|/\*.*?\*/"
    r'|[{}()\[\],"]',
    re.DOTALL,
)
_SPACE_OR_COMMENT: Final = pattern(r"(?:\s+|/\*.*?\*/)*", re.DOTALL)
_CLOSES: Final = {"}": "{", ")": "(", "]": "["}


def error_in_source(error: ParseError, source: Source, base: int) -> ParseError:
    """Return `error`, which has an offset in a part of a text, with its position in `source`.

    The part begins at offset `base` of `source`.
    """
    span = error.span
    placed = (
        Span(source, base, base)
        if span is None
        else Span(source, base + span.start, base + span.end)
    )
    return type(error)(error.message, span=placed, rule=error.rule)


def part_end(text: str, start: int, *, stop_at_comma: bool = True) -> int:
    """Return the end of the value at `start`: a comma outside of brackets, or the end of the text.

    Without `stop_at_comma`, the value ends after the bracket that closes its first one.

    >>> part_end('{1, "}"}, b=2', 0)
    8

    Raises:
        ParseError: A bracket or string is not closed, or closes nothing.
    """
    # A stack of the open brackets' offsets: a comma separates values only if the stack is empty.
    open_: list[tuple[str, int]] = []
    for found in _LIST_STRUCTURE.finditer(text, start):
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
    """Return (name, value, offset of the name) for each entry of a list `a=1, b={2, 3}`.

    A leading comma is allowed, as in the text after an operand list.

    >>> split_attributes(', dimensions={0,1}, to_apply=add')
    [('dimensions', '{0,1}', 2), ('to_apply', 'add', 20)]

    Raises:
        ParseError: A part is not `name=value`, or a bracket is not closed.
    """
    attributes: list[Attribute] = []
    at, end = 0, len(text)
    while at < end:
        # Nearly every attribute matches one of two patterns, with the same result as the general
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
    """Return the comma-separated parts of `text[start:end]` with their offsets.

    An empty text has no parts. Comments before a part are skipped.

    >>> split_list('{0,1}, /*index=1*/{2,3}')
    [('{0,1}', 0), ('{2,3}', 18)]
    """
    text = text[: len(text) if end is None else end]
    parts: list[tuple[str, int]] = []
    at = start
    while at < len(text):
        stop = part_end(text, at)
        space = _SPACE_OR_COMMENT.match(text, at, stop)
        start = space.end() if space else at
        parts.append((text[start:stop].rstrip(), start))
        at = stop + 1
    if len(parts) == 1 and not parts[0][0]:
        return []
    return parts


def inside(text: str, opening: str = "{", closing: str = "}") -> str:
    """Return the text between the outer brackets of `text`, `opening` and `closing`.

    Raises:
        ParseError: `text` is not in these brackets.
    """
    if not (text.startswith(opening) and text.endswith(closing) and len(text) >= 2):
        fail(f"expected `{opening}…{closing}`, found `{shortened(text)}`", text, 0, len(text))
    return text[1:-1]


def shortened(text: str, limit: int = 40) -> str:
    """Return `text` cut to `limit` characters, for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def near(name: str, known: Iterable[str], most: int = 2) -> str | None:
    """Return the name in `known` with the least edit distance from `name`.

    `None` if it exceeds `most`.

    >>> near("dimension", ["dimensions", "to_apply"])
    'dimensions'
    """
    allowed = min(most, (len(name) - 1) // 2)
    alike = [other for other in known if abs(len(other) - len(name)) <= allowed]
    best = min(((distance(name, other), other) for other in alike), default=(allowed + 1, ""))
    return best[1] if best[0] <= allowed else None


def distance(a: str, b: str) -> int:
    """Return the least number of insertions, deletions and replacements that turn `a` into `b`."""
    # Levenshtein distance by dynamic programming: `row[j]` is the distance of `a[:i]` and `b[:j]`.
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]
