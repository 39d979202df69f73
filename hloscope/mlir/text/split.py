"""Splitting of a text at `// -----`, as MLIR's tools do on request."""

from __future__ import annotations

from typing import Final

MARKER: Final = "// -----"


def split_input(text: str) -> list[tuple[int, str]]:
    r"""Return the pieces of a text between markers `// -----`, each with its first line's number.

    Lines count from 1. A piece begins directly after the marker, so the rest of the marker's line
    belongs to it.

    >>> split_input("a\n// -----\nb\n")
    [(1, 'a\n'), (2, '\nb\n')]
    """
    pieces, line = [], 1
    for piece in text.split(MARKER):
        pieces.append((line, piece))
        line += piece.count("\n")
    return pieces
