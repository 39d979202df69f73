"""A series of numbers as one line of block characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""Eighths of the highest number, rounded up: a number above 0 is visible."""


def sparkline(values: Sequence[int], width: int) -> str:
    """Non-negative numbers as blocks of eight heights; each block shows the highest of its part.

    Args:
        values: The numbers.
        width: Most blocks; if there are more numbers, neighbours share one.

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
