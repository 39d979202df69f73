"""Whether an array is held by nobody else, so that it may be written to.

An evaluation knows when it reads a value for the last time, but not who else has it: the caller
whose argument it is, a constant, a tuple, a view of its memory.  Each of these holds a reference,
a view to the array whose memory it shows; so Python's count of references is the exact answer.
Where there is none that can be relied on, no array is ever alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from hloscope.arrays import np


def _no_count(_: object) -> int:
    return -1


def _counts_references() -> bool:
    """Is there one count for all threads, which every reference is part of?"""
    is_cpython = sys.implementation.name == "cpython"
    return is_cpython and getattr(sys, "_is_gil_enabled", lambda: True)()


_references: Final[Callable[[object], int]] = sys.getrefcount if _counts_references() else _no_count


def _alone() -> int:
    """The count of what only a list holds, or one that nothing has."""
    held: list[object] = [bytearray(1)]
    count = _references(held[0])
    other = held[0]
    return count if _references(held[0]) == count + 1 and other is held[0] else -2


_ALONE: Final = _alone()


def is_alone(held: list[Any], place: int) -> bool:
    """Is what the list holds at a place an array of its own memory that nothing else refers to?

    >>> held = [np.zeros(3)]
    >>> is_alone(held, 0)
    True
    >>> view = held[0][1:]
    >>> is_alone(held, 0)
    False
    """
    if _references(held[place]) != _ALONE or type(held[place]) is not np.ndarray:
        return False
    flags = held[place].flags
    return bool(flags.owndata and flags.writeable)
