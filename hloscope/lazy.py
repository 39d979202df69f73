"""Modules and regular expressions that are made when they are first used.

A question about HLO needs no MLIR, no interpreter, no verifier and no proofs, and to load them
would take longer than the answer.  Whoever may need them says so at its top:

    if TYPE_CHECKING:
        from hloscope import interpreter
    else:
        interpreter = lazy("hloscope.interpreter")

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

__all__ = ["lazy", "library", "once_for_each", "pattern"]

T = TypeVar("T")
R = TypeVar("R")


class _LazyModule:
    """A module that is imported at the first access to one of its names."""

    __slots__ = ("_module", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        module = self._module
        if module is None:
            module = self._module = import_module(self._path)
        return getattr(module, name)


def lazy(path: str) -> Any:
    """The module at this path; it is imported when something of it is first used.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return _LazyModule(path)


class _LazyLibrary:
    """A library of others that is imported at the first access; keeps what was asked of it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._path), name)
        self.__dict__[name] = value
        return value


def library(path: str) -> Any:
    """Like `lazy`, for libraries: nobody changes their names, so each is looked up once.

    >>> decimal = library("decimal")
    >>> decimal.Decimal is decimal.Decimal
    True
    """
    return _LazyLibrary(path)


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
