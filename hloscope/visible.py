"""Escapes for characters that would control a terminal or a page.

Names, metadata, locations and lines of a program are data.  No character of them may move a cursor,
ring a bell, change the writing direction or end a line where the program does not, and none may be
invisible.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hloscope.lazy import lazy, pattern

if TYPE_CHECKING:
    import html
else:
    html = lazy("html")

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
