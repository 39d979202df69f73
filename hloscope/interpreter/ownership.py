"""Test for arrays that nothing else refers to, whose memory may be overwritten.

The evaluation knows when it reads a value for the last time, but not what else refers to it: a
caller's argument, a constant, a tuple, a view.  Each of them holds a Python reference, and a view
refers to its base array, so the reference count answers exactly.  On interpreters without a
reliable count, no array is ever reused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from hloscope.arrays import np


def _no_count(_: object) -> int:
    return -1


def _counts_references() -> bool:
    """Does the interpreter count every reference of every thread in one number?"""
    is_cpython = sys.implementation.name == "cpython"
    return is_cpython and getattr(sys, "_is_gil_enabled", lambda: True)()


_references: Final[Callable[[object], int]] = sys.getrefcount if _counts_references() else _no_count


def _alone() -> int:
    """Reference count of an object that only a list holds; -2 where counts are unreliable."""
    held: list[object] = [bytearray(1)]
    count = _references(held[0])
    other = held[0]
    # A second reference must raise the count by exactly one, otherwise counts mean nothing here.
    return count if _references(held[0]) == count + 1 and other is held[0] else -2


_ALONE: Final = _alone()


def is_alone(held: list[Any], place: int) -> bool:
    """Is `held[place]` an array with its own writable memory that only the list refers to?

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
