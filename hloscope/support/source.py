"""Source text: positions in it, and escapes for characters that would control a terminal."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hloscope.support.lazy import lazy, pattern

if TYPE_CHECKING:
    import html
else:
    html = lazy("html")


# --------------------------------------------------------------------------------------------------
# Source text positions.  Lines and columns are 1-based; spans are half-open character ranges.


class Source(Struct, frozen=True, dict=True):
    """An input text, and its name in messages (`<stdin>`, a path).

    Attributes:
        name: The name.
        text: The text that is parsed.
        given: The original text, if `text` has other line ends; else `None`.
    """

    name: str
    text: str
    given: str | None = None

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @property
    def shown(self) -> str:
        """Return the text whose lines are counted and printed: the original one."""
        return self.text if self.given is None else self.given

    def line_start(self, line: int) -> int:
        r"""Return the offset of the first character of a line; both count from 0.

        >>> Source("a", "x\ny\n").line_start(1)
        2
        """
        return self._starts[line]

    @cached_property
    def _starts(self) -> list[int]:
        """Return the offset of the first character of each line.

        It is cached, because every span of a text asks for its line.
        """
        *lines, _ = self.shown.split("\n")
        return list(accumulate([len(line) + 1 for line in lines], initial=0))

    def line_col(self, at: int) -> tuple[int, int]:
        r"""Return line and column of an offset, both counted from 1.

        >>> Source("a", "x\ny\n").line_col(2)
        (2, 1)
        """
        starts = self._starts
        line = bisect_right(starts, at)
        return line, at - starts[line - 1] + 1

    def line(self, at: int) -> int:
        """Return the line of an offset, counted from 1."""
        return bisect_right(self._starts, at)


class Span(Struct, frozen=True):
    """Characters `[start, end)` of one source."""

    source: Source
    start: int
    end: int

    @property
    def line_col(self) -> tuple[int, int]:
        """Return line and column of the first character, both counted from 1."""
        return self.source.line_col(self.start)

    @property
    def line(self) -> int:
        """Return the line of the first character, counted from 1."""
        return self.source.line(self.start)

    def render(self, context: int = 160) -> str:
        """Return the source line and a line with carets below the span.

        Every character is made visible, and tabs stay aligned. A line longer than `context`
        characters is cut around the caret, so that a 90 kB line of a dump does not fill the screen.
        """
        text = self.source.shown
        line_start = text.rfind("\n", 0, self.start) + 1
        line_end = text.find("\n", self.start)
        line = text[line_start : len(text) if line_end < 0 else line_end].rstrip("\r")
        at = self.start - line_start
        width = max(1, min(self.end - self.start, len(line) - at))
        if len(line) > context:
            # The window starts a third before the caret, and is moved back at the end of the line.
            lo = max(0, min(at - context // 3, len(line) - context))
            hi = lo + context
            head, tail = "…" * (lo > 0), "…" * (hi < len(line))
            line, at = head + line[lo:hi] + tail, at - lo + len(head)
            width = max(1, min(width, len(line) - at))
        before, marked = visible(line[:at]), visible(line[at : at + width])
        pad = re.sub(r"[^\t]", " ", before)
        return f"{before}{marked}{visible(line[at + width :])}\n{pad}{'^' * max(1, len(marked))}"


# --------------------------------------------------------------------------------------------------
# Escapes for characters that would control a terminal or a page.
#
# Names, metadata, locations and lines of a program are data.  No character of them may move a
# cursor, ring a bell, change the writing direction or end a line where the program does not, and
# none may be invisible.


_COMMANDS: Final = pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks and embeddings of direction
    "\u2028\u2029\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # separators, marks, tags: unseen
    "\xad\u034f\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f"  # of no width: names look equal
    "\ud800-\udfff]"  # halves of a pair, which no encoding has
)


def visible(text: str) -> str:
    r"""Return the text with control and invisible characters escaped.

    Tabs and line feeds are kept.

    >>> print(visible("add\x1b[2Jx\ud800\u202e"))
    add\x1b[2Jx\ud800\u202e
    """
    if text.isascii() and text.isprintable():
        return text
    return _COMMANDS.sub(_escaped, text)


def in_page(text: str) -> str:
    r"""Escape a text for HTML and SVG, as an element's content or a quoted attribute.

    >>> print(in_page('<b onload="x">\x07'))
    &lt;b onload=&quot;x&quot;&gt;\x07
    """
    return html.escape(visible(text))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
