"""Restoration of line breaks in texts that have lost them.

HLO joined into one line is valid, but the fast path reads lines. So blanks before instructions,
tables and computations are replaced by line breaks. The program and all offsets are unchanged, and
positions are reported in the given text.
"""

from __future__ import annotations

import re
from typing import Final

from hloscope.hlo_parser.scanner import NAME
from hloscope.lazy import pattern
from hloscope.source import Source

_LONG: Final = 1 << 16
"""Minimum length of a text that is laid out, in characters; shorter texts are read unchanged."""
_IN_A_LINE: Final = 8
"""Minimum number of instructions in each line of a text that is laid out."""
_FIRST: Final = pattern(rf"\{{\s*(?:ROOT )?(%?){NAME} = ")
"""The first instruction of a body, with the mark before names."""
_TABLES: Final = r'F(?:ile(?:Names|Locations)|unctionNames)\b|StackFrames\b|\d+ ["{]'
"""Tables of files, functions and stack frames, and their rows."""
_PARTS: Final = {
    mark: pattern(
        r'("[^"\\]*+(?:\\.[^"\\]*+)*+"|/\*.*?\*/)'  # a string or a comment, which is left alone
        r'|("|/[/*])'  # one without end, or one that a line end would end
        r"|(?<![,=])(?<!ROOT)[ \t]([ \t]*+)"
        rf"(?={mark}{NAME} = |ROOT {mark}{NAME} = "  # an instruction
        rf"|\}}[ \t]*(?:\Z|(?:ENTRY )?{mark}{NAME} [({{]|, execution_thread=)"  # a body's end
        rf"|{_TABLES})"
        rf'|(?<=[}}"])[ \t]([ \t]*+)(?=(?:ENTRY )?{mark}{NAME} [({{])',  # a computation
        re.DOTALL,
    )
    for mark in ("", "%")
}
"""Blanks that may become a line break, and strings and comments to skip, by the mark of names."""


class _UnsafeLineBreak(Exception):  # noqa: N818  (never leaves this file)
    """The text has something that a line break could change."""


def in_lines(source: Source) -> Source:
    r"""Return the source, laid out in lines if it is long and has few of them.

    >>> joined = "a { " + " ".join(f"x{k} = s32[] constant({k})" for k in range(5000)) + " }"
    >>> found = in_lines(Source("joined", joined))
    >>> found.text.count("\n"), len(found.text) == len(joined), found.line_col(4096)
    (5001, True, (1, 4097))
    """
    text = source.text
    if len(text) < _LONG or text.count("\n") * _IN_A_LINE > text.count(" = "):
        return source
    first = _FIRST.search(text)
    if first is None:
        return source
    try:
        return Source(source.name, _PARTS[first[1]].sub(_laid_out, text), text)
    except _UnsafeLineBreak:
        return source


def _laid_out(part: re.Match[str]) -> str:
    skipped, unsafe, blanks, others = part.groups()
    if unsafe:
        raise _UnsafeLineBreak
    return skipped or f"\n{blanks or others or ''}"
