"""Source text positions.  Lines and columns are 1-based; spans are half-open character ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hloscope.visible import visible


@dataclass(frozen=True, slots=True)
class Source:
    """One input text and the name shown for it in messages (`<stdin>`, a path)."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `[start, end)` of one source."""

    source: Source
    start: int
    end: int

    @property
    def line_col(self) -> tuple[int, int]:
        """Line and column of the first character, both counted from 1."""
        text = self.source.text
        line_start = text.rfind("\n", 0, self.start) + 1
        return text.count("\n", 0, self.start) + 1, self.start - line_start + 1

    def render(self, context: int = 160) -> str:
        """Return the source line, every character visible, and a caret line; tabs stay aligned.

        A line longer than `context` characters is cut around the caret, so that a 90 kB line of
        a dump does not fill the screen.
        """
        text = self.source.text
        line_start = text.rfind("\n", 0, self.start) + 1
        line_end = text.find("\n", self.start)
        line = text[line_start : len(text) if line_end < 0 else line_end].rstrip("\r")
        at = self.start - line_start
        width = max(1, min(self.end - self.start, len(line) - at))
        if len(line) > context:
            lo = max(0, min(at - context // 3, len(line) - context))
            hi = lo + context
            head, tail = "…" * (lo > 0), "…" * (hi < len(line))
            line, at = head + line[lo:hi] + tail, at - lo + len(head)
            width = max(1, min(width, len(line) - at))
        before, marked = visible(line[:at]), visible(line[at : at + width])
        pad = re.sub(r"[^\t]", " ", before)
        return f"{before}{marked}{visible(line[at + width :])}\n{pad}{'^' * max(1, len(marked))}"
