"""A course of figures as one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""Eighths of the highest figure, rounded up: what is not nothing is seen."""


def sparkline(values: Sequence[int], width: int) -> str:
    """Figures that are not negative as blocks of eight heights, each the highest of its part.

    Args:
        values: The figures.
        width: Blocks at most; of more figures, neighbours share one.

    >>> sparkline([0, 1, 50, 100, 60, 10, 0, 0], 4)
    '▁█▅ '
    """
    highest = max(values, default=0)
    if not highest:
        return " " * min(len(values), width)
    parts = pairwise(part_starts(len(values), width))
    return "".join([_BLOCKS[-(-8 * max(values[a:b]) // highest)] for a, b in parts])


def part_starts(count: int, width: int) -> list[int]:
    """Return the starts of almost equally long parts of a sequence, and the end of the last.

    >>> part_starts(10, 4)
    [0, 2, 5, 7, 10]
    """
    parts = min(count, width)
    return [count * k // parts for k in range(parts + 1)] if parts else []
