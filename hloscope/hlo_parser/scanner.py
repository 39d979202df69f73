"""Lexical structure of HLO text: names, comments, brackets, ends of values and types.

All functions take the whole text and absolute offsets, so that every error has its position. None
of them recurses, so nesting may be deep.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.source import Source, Span

NAME: Final = r"[A-Za-z0-9_.-]+"
"""Names of instructions, computations and modules, without `%`."""

SPACE: Final = r"(?:\s+|//[^\n]*|/\*.*?\*/)*+"
"""White space and comments; for expressions with `re.DOTALL`."""

_SPACE: Final = pattern(SPACE, re.DOTALL)
_SMALL: Final = r'(?:\{[^{}()\[\]"/]*+\}|\[[^{}()\[\]"/]*+\])'
"""A group without nested groups, such as both of `f32[2,3]{1,0}`."""
_GROUP: Final = pattern(_SMALL)
_STRUCTURE: Final = pattern(
    rf'(?:{_SMALL}(?:[^{{}}()\[\]"/]|/\*index=\d++\*/)*+)++'  # many groups, one after the other
    r'|"(?:[^"\\]|\\.)*"'  # strings and comments hide brackets
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
    r'("(?:[^"\\]|\\.)*"|/\*\w+=\d+\*/)|//[^\n]*|/\*.*?\*/',  # XLA's own numbering is kept
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
    """Raise a `ParseError` about `[start, end)` of a source or text; by default one character."""
    source = Source("<text>", where) if isinstance(where, str) else where
    stop = start + 1 if end is None else end
    size = len(source.text)
    raise ParseError(message, span=Span(source, min(start, size), max(start, min(stop, size))))


def refuse_elided(source: Source, at: int) -> None:
    """Raise an error if the text at `at` is `...`, which replaces omitted lines.

    Raises:
        ParseError: The text at `at` is `...`.
    """
    elided = _ELIDED.match(source.text, at)
    if elided is not None:
        message = f"`{elided[1]}` stands for lines that were left out: the program is not complete"
        fail(message, source, *elided.span(1))


def found(text: str, at: int) -> str:
    """Return the word or character at `at`, shortened for a message."""
    if at >= len(text):
        return "the end of the text"
    word = re.compile(r"[\w.%-]{1,40}").match(text, at)
    shown = word.group() if word else text[at]
    return "the end of the line" if shown in "\r\n" else f"`{shown}`"


def skip(text: str, at: int) -> int:
    r"""Return the offset of the first character from `at` that is not a space or in a comment.

    >>> skip("  /* a */ // b\n c", 0)
    16
    """
    space = _SPACE.match(text, at)
    return space.end() if space else at


def without_comments(text: str) -> str:
    """Return `text` with comments blanked; every other character keeps its offset.

    XLA's numbers (`/*index=5*/`, `/*i0=1*/`) are kept, so that they are printed again.

    >>> without_comments('f32[2], /* a */ /*index=1*/ "/*"')
    'f32[2],         /*index=1*/ "/*"'
    """
    if "//" not in text and text.count("/*") == len(_NUMBERED.findall(text)):
        return text
    return _COMMENT.sub(lambda m: m.group() if m.group(1) else " " * len(m.group()), text)


def closing(source: Source, at: int) -> int:
    """Return the offset after the bracket that closes the one at `at`.

    >>> closing(Source("", '({")"} /* ) */ ) + 1'), 0)
    16

    Raises:
        ParseError: The bracket is never closed, or another kind of bracket closes it.
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
    fail(f"`{text[open_[-1]]}` is never closed: the text ends in line {lines}", source, open_[-1])


def _mismatch(source: Source, opened: int, at: int) -> NoReturn:
    text = source.text
    line, _ = source.line_col(opened)
    want = _CLOSING[text[opened]]
    message = f"expected `{want}` to close the `{text[opened]}` opened in line {line}"
    fail(f"{message}, found `{text[at]}`", source, at)


def value_end(source: Source, at: int) -> int:
    """Return the end of the attribute value at `at`: a comma, a closing bracket, or a space.

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
    """Return the end of the type at `at`; `at` itself if no type begins there.

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
