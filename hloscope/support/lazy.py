"""Modules and regular expressions that are created at their first use.

A query about HLO needs neither numpy nor isl, and to load them takes longer than the result.
There are three ways to load late: a package whose names are loaded at first use (`doors.door`), a
module (`lazy`) and a regular expression (`pattern`).  A file that may need a heavy module has at
its top:

    if TYPE_CHECKING:
        import sympy
    else:
        sympy = lazy("sympy")

A package with lazy names is imported plainly: `from hloscope import mlir` loads no module of it.

`pattern` replaces `re.compile` for the same reason: to compile all expressions that might be needed
takes longer than to parse a short program.

Properties of the types and ops of a program are computed once for each object: `once_for_each`.
Tens of thousands of instructions share some hundred of these objects, which are compared by
identity.
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

    Names are stored here at their first use, because loops use numpy's names in every step. Threads
    that use a name at once both import the module, which Python does only once.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._path), name)
        self.__dict__[name] = value
        return value


def lazy(path: str) -> Any:
    """Return an object that represents a module, which is imported at its first use.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return LazyModule(path)


class LazyPattern:
    """A regular expression that is compiled at its first use."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled expression, and store it in this object."""
        value = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use.

    `flags` are those of `re.compile`.

    >>> number = pattern("[0-9]+")
    >>> number.sub("N", "s32[16]")
    'sN[N]'
    """
    return LazyPattern(text, flags)  # type: ignore[return-value]


def once_for_each(function: Callable[[T], R]) -> Callable[[T], R]:
    """Return a function that caches the results of `function` by the identity of its argument.

    The cache keeps the arguments alive.

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
            # The entry holds the object: otherwise its identity could be reused by another object.
            found = known[id(value)] = value, function(value)
        return found[1]

    return answer
