"""Modules and regular expressions that are made when they are first used.

A question about HLO needs neither numpy nor isl, and to load them takes longer than the answer.
There are three ways to load late: a package whose names are loaded on first use (`doors.door`), a
module (`lazy`) and a regular expression (`pattern`).  A file that may need a heavy module says so
at its top:

    if TYPE_CHECKING:
        import sympy
    else:
        sympy = lazy("sympy")

A package with a door is imported plainly: `from hloscope import mlir` loads nothing behind it.

In the same way `pattern` stands for `re.compile`: to compile the expressions of all that might be
needed takes longer than to read a short program.

What is asked of the types and ops of a program is answered when it is first asked of one:
`once_for_each`.  Tens of thousands of instructions share some hundred of them, the very same
objects, which are told apart by identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, AnyStr, TypeVar

__all__ = ["lazy", "once_for_each", "pattern"]

T = TypeVar("T")
R = TypeVar("R")


class LazyModule:
    """A module that is imported when one of its names is first used.

    Names are kept here once they were looked up: numpy's are used in every step of a loop.  Threads
    that look up the same name at once both import the module, of which Python makes one.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._path), name)
        self.__dict__[name] = value
        return value


def lazy(path: str) -> Any:
    """Return a stand-in for the module at this path, which is imported on first use.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return LazyModule(path)


class LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """What the compiled expression has of that name, found once."""
        value = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The regular expression, compiled when it is first used.

    >>> number = pattern("[0-9]+")
    >>> number.sub("N", "s32[16]")
    'sN[N]'
    """
    return LazyPattern(text, flags)  # type: ignore[return-value]


def once_for_each(function: Callable[[T], R]) -> Callable[[T], R]:
    """The function, which remembers its answers about objects, by identity, and these objects.

    >>> asked = []
    >>> say = once_for_each(lambda value: asked.append(value) or len(asked))
    >>> pair = (1, 2)
    >>> [say(pair), say(pair), say((3, 4)), asked]
    [1, 1, 2, [(1, 2), (3, 4)]]
    """
    known: dict[int, tuple[T, R]] = {}
    look_up = known.get

    def answer(value: T) -> R:
        found = look_up(id(value))
        if found is None:
            found = known[id(value)] = value, function(value)
        return found[1]

    return answer
