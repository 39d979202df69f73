"""Values that occur often, stored once: a table of the different ones, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from hloscope.visible import visible


class Shared:
    """The different values of a column; each is written when it is first met.

    >>> types = Shared(str.upper)
    >>> [types.number(t) for t in ("f32", "s8", "f32")], types.values
    ([0, 1, 0], ['F32', 'S8'])
    """

    def __init__(self, write: Callable[[Any], Any] = lambda value: value) -> None:
        """Take how a value is written."""
        self._same: Final[dict[int, tuple[Hashable, int]]] = {}
        self.values: Final[list[Any]] = []
        self._write: Final = write
        self._numbers: Final[dict[Hashable, int]] = {}

    def number(self, value: Hashable) -> int:
        """The place of a value in `values`."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(self._write(value))
        return known

    def number_of_same(self, value: Hashable) -> int:
        """The same; an object that comes again is known by identity, without comparing values."""
        known = self._same.get(id(value))
        if known is None:
            known = self._same[id(value)] = value, self.number(value)  # which keeps it alive
        return known[1]


def readable(told: Any) -> Any:
    """What a schema of JSON holds (its depth is the schema's), with every string made visible."""
    match told:
        case str():
            return visible(told)
        case Mapping():
            return {key: readable(value) for key, value in told.items()}
        case list() | tuple():
            return [readable(value) for value in told]
    return told
