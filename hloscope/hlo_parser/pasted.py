"""HLO copied from a log, mail, issue or terminal: removal of the text around each line.

Lines keep their numbers; columns are those of the remaining text.
"""

from __future__ import annotations

import re
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser.scanner import NAME
from hloscope.hlo_parser.sniff import is_another
from hloscope.lazy import pattern
from hloscope.source import Source, Span

_ESCAPE: Final = pattern(r"\x1b(?:\[[0-9;]*[mK]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
"""A colour, an erased line or a terminal title. Source: ECMA-48, sections 5.3 and 5.4."""
_ENTITIES: Final = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#34;": '"', "&#39;": "'"}
_ENTITY: Final = pattern("|".join(map(re.escape, (*_ENTITIES, "&amp;"))))
_TYPE: Final = r"(?:[a-z]\w*\[|\(|token\[)"
_HEADER: Final = rf"(?:ENTRY +)?%?{NAME} (?:\([^\n]*\) -> [^\n]+ )?\{{"
_START: Final = pattern(
    rf"^[ \t]*+(?:HloModule [%\w]|{_HEADER}[ \t\r]*$|ENTRY\b|(?:ROOT )?%?{NAME} = {_TYPE})",
    re.MULTILINE,
)
"""The beginning of a line of HLO with which a pasted program may begin."""
_PLAIN_START: Final = pattern(
    rf"(?:HloModule\b|(?:ENTRY\s+)?%?{NAME}\s*(?:\([^\n]*\)\s*->[^\n]*)?\{{|ENTRY\b"
    rf"|(?:ROOT\s+)?%?{NAME}\s*=|\(*(?:[a-z]\w*\[|\(\)))"
)
_BLANK: Final = pattern(r"(?:\s+|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_PREFIXED: Final = pattern(
    rf"^(?P<prefix>[^\n]{{0,400}}?(?:[^\w.%\n] ?|[ \t]))(?:HloModule [%\w]|ENTRY %?{NAME} [({{])",
    re.MULTILINE,
)
_PREFIXED_LINE: Final = pattern(
    rf"^(?P<prefix>[^\n=]{{0,400}}?[\]>|:)] ?) *(?:{_HEADER}|(?:ROOT )?%?{NAME} = {_TYPE})",
    re.MULTILINE,
)
_LOG: Final = pattern(
    r"(?:[IWEF]\d{4} \d\d:\d\d:[\d.]+ +\d+ [^\]\n]+:\d+\]"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+: [IWEF] [^\]\n]+:\d+\])"
)
"""Prefixes of lines in logs of absl and TensorFlow."""
_FENCE: Final = pattern(r"^[ \t]*(?:```|~~~)[^\n`]*$\n?", re.MULTILINE)
_CLOSED: Final = pattern(r"^[ \t]*\}[ \t\r]*(?://[^\n]*|, execution_thread=[^\n]*)?$", re.MULTILINE)
_NUMBERS: Final = pattern(r"\d+")
_LONGEST_PREFIX: Final = 400


def unpasted(source: Source) -> tuple[Source, tuple[Diagnostic, ...]]:
    r"""Return the HLO in a pasted text, and a note for each kind of removed text.

    The source itself is returned if it begins as HLO does and has no escapes of a terminal or HTML.

    >>> found, notes = unpasted(Source("mail", "> HloModule m\n> ENTRY e {\n> }"))
    >>> found.text, [note.message for note in notes]
    ('HloModule m\nENTRY e {\n}', ['read without what stands before each line: `> `'])
    """
    text = source.text
    notes: list[tuple[int, str]] = []  # line, counted from 0, and message
    if "\x1b" in text and _ESCAPE.search(text):
        notes.append((_line(text, text.index("\x1b")), "read without the colours of a terminal"))
        text = _ESCAPE.sub("", text)
    at = text.find("-&gt;")
    if at >= 0:
        notes.append((_line(text, at), "read with the entities of HTML (`&gt;`) as characters"))
        text = _ENTITY.sub(lambda entity: _ENTITIES.get(entity[0], "&"), text)
    blank = _BLANK.match(text)
    begin = blank.end() if blank is not None else 0
    if begin < len(text) and not (_PLAIN_START.match(text, begin) or is_another(text, begin)):
        text = _without_surroundings(text, notes)
    if not notes:
        return source, ()
    cleaned = Source(source.name, text)
    starts = [(source.line_start(line), words) for line, words in notes]
    given = [Diagnostic(w, Span(source, at, at + 1), severity="note") for at, w in starts]
    return cleaned, tuple(given)


def _line(text: str, at: int) -> int:
    """Return the line of a character, counted from 0.

    Removed text leaves the number of lines unchanged.
    """
    return text.count("\n", 0, at)


def _without_surroundings(text: str, notes: list[tuple[int, str]]) -> str:
    """Return the text without line prefixes and without text around the program.

    Each removal adds to `notes`.
    """
    prefix = _prefix(text)
    if prefix is not None:
        at, shown, before = prefix
        notes.append((_line(text, at), f"read without what stands before each line: `{shown}`"))
        text = _without_prefix(text, before)
    fences = [*_FENCE.finditer(text)]
    if fences:
        text = _fenced(text, fences)
    # Text around the program becomes empty lines, so that all line numbers stay valid.
    first = _START.search(text)
    if first is None:
        return text
    begin = first.start()
    if fences or text[:begin].strip():
        notes.append(
            (_line(text, begin), "the program begins here; other text around it is not read")
        )
    text = _blanked(text[:begin]) + text[begin:]
    ends = [closed.end() for closed in _CLOSED.finditer(text, begin)]
    if ends and not _START.search(text, ends[-1]):
        text = text[: ends[-1]] + _blanked(text[ends[-1] :])
    return text


def _blanked(text: str) -> str:
    return "\n" * text.count("\n")


def _prefix(text: str) -> tuple[int, str, re.Pattern[str]] | None:
    """Return the prefix of the lines of HLO: offset, text for a note, and pattern.

    Numbers in a prefix, such as times and process ids, may differ from line to line. `None` if
    there is no prefix.
    """
    found = _PREFIXED.search(text) or _PREFIXED_LINE.search(text)
    if found is None or not found["prefix"].strip() or len(found["prefix"]) > _LONGEST_PREFIX:
        return None
    shown = found["prefix"].rstrip(" ") + " "
    # Numbers in the prefix become `\d+`; everything else must repeat exactly.
    parts = map(re.escape, _NUMBERS.split(found["prefix"].rstrip()))
    alike = r"\d+".join(parts)
    same = re.compile(rf"[ \t]*{alike} ?", re.ASCII)
    # A prefix must repeat: `the dump: HloModule m` is only a sentence before a program.
    lines = text[found.start() :].split("\n", 3)[:3]
    if len(lines) > 1 and not any(same.match(line) for line in lines[1:]):
        return None
    return found.start(), shown, same


def _without_prefix(text: str, prefix: re.Pattern[str]) -> str:
    """Return the lines without their prefix; lines of other log writers become empty."""
    lines = []
    for line in text.split("\n"):
        found = prefix.match(line)
        if found is not None:
            lines.append(line[found.end() :])
        else:
            lines.append("" if _LOG.match(line.lstrip()) else line)
    return "\n".join(lines)


def _fenced(text: str, fences: list[re.Match[str]]) -> str:
    """Return the fenced blocks that contain HLO; other text becomes empty lines."""
    kept, at = [], 0
    ends = [fence.start() for fence in fences[1::2]]
    if len(ends) < (len(fences) + 1) // 2:
        ends.append(len(text))
    for opening, end in zip(fences[::2], ends, strict=True):
        block = text[opening.end() : end]
        if _START.search(block):
            kept.append(_blanked(text[at : opening.end()]) + block)
            at = end
    return "".join([*kept, _blanked(text[at:])]) if kept else text
