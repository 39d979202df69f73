"""Columns of repeated values: a table of the distinct values, and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from hloscope.visible import visible

_DIGITS: Final = "0123456789"
_MOST_DIGITS: Final = 9


_AS_IT_IS: Final = json.JSONEncoder(separators=(",", ":"))
_SORTED: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class Written(str):
    """A text that is already JSON."""

    __slots__ = ()


def written(value: Any, *, sort_keys: bool = False) -> Written:
    """Encode a value as JSON without spaces.

    >>> written({"b": [1, 2], "a": None})
    '{"b":[1,2],"a":null}'
    """
    return Written((_SORTED if sort_keys else _AS_IT_IS).encode(value))


def written_object(members: Mapping[str, Any]) -> Written:
    """Encode an object as JSON; `Written` members are inserted unchanged.

    >>> written_object({"b": numbers([1, 2]), "a": [None]})
    '{"b":[1,2],"a":[null]}'
    """
    texts = [
        f"{written(name)}:{value if isinstance(value, Written) else written(value)}"
        for name, value in members.items()
    ]
    return Written(f"{{{','.join(texts)}}}")


def numbers(value: int | Sequence[Any] | None) -> Written:
    """Encode integers, `None` or lists of them as JSON, by `str`, which is faster than `json`."""
    return Written(str(value).replace(" ", "").replace("None", "null"))


class Shared:
    """The distinct values of a column; each is encoded when it first occurs.

    >>> types = Shared(str.upper)
    >>> [types.number(t) for t in ("f32", "s8", "f32")], types.values
    ([0, 1, 0], ['F32', 'S8'])
    """

    def __init__(self, write: Callable[[Any], Any] = lambda value: value) -> None:
        """Take the function that encodes a value."""
        self._same: Final[dict[int, tuple[Hashable, int]]] = {}
        self.values: Final[list[Any]] = []
        self._write: Final = write
        self._numbers: Final[dict[Hashable, int]] = {}

    def number(self, value: Hashable) -> int:
        """The position of a value in `values`."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(self._write(value))
        return known

    def number_of_same(self, value: Hashable) -> int:
        """The position of a value; a known object is found by identity, without comparison."""
        known = self._same.get(id(value))
        if known is None:
            known = self._same[id(value)] = value, self.number(value)  # which keeps it alive
        return known[1]


def in_sequence(names: Iterable[str]) -> list[str | int]:
    """Compress names: a name that continues a count is replaced by the number of its stem.

    A name is a stem and a number; `add.8` continues the count of the stem `add.` if the latest name
    of that stem ended in 7. Stems are numbered in the order in which their first names occur.

    >>> in_sequence(["arg0", "arg1", "sum", "arg2", "x.08", "x.9", "arg5", "arg6"])
    ['arg0', 0, 'sum', 0, 'x.08', 'x.9', 'arg5', 0]
    """
    stems: dict[str, list[int]] = {}  # number of the stem, and its latest count
    found: list[str | int] = []
    for name in names:
        stem = name.rstrip(_DIGITS)
        digits = name[len(stem) :]
        if not _is_plain(digits):
            found.append(name)
            continue
        at = int(digits)
        known = stems.get(stem)
        if known is None:
            stems[stem] = [len(stems), at]
            found.append(name)
            continue
        found.append(known[0] if at == known[1] + 1 else name)
        known[1] = at
    return found


def out_of_sequence(told: Iterable[str | int]) -> list[str]:
    """Restore the names that `in_sequence` compressed, as the page's script does.

    >>> out_of_sequence(["arg0", 0, "x.08", "x.9", 1])
    ['arg0', 'arg1', 'x.08', 'x.9', 'x.10']
    """
    stems: dict[str, int] = {}
    texts: list[str] = []
    ends: list[int] = []
    found = []
    for name in told:
        if isinstance(name, int):
            ends[name] += 1
            name = f"{texts[name]}{ends[name]}"
        else:
            stem = name.rstrip(_DIGITS)
            if _is_plain(name[len(stem) :]):
                k = stems.setdefault(stem, len(stems))
                if k == len(texts):
                    texts.append(stem)
                    ends.append(0)
                ends[k] = int(name[len(stem) :])
        found.append(name)
    return found


def _is_plain(digits: str) -> bool:
    return 0 < len(digits) <= _MOST_DIGITS and (digits[0] != "0" or len(digits) == 1)


def readable(told: Any) -> Any:
    """Escape every string in a JSON value with `visible`.

    The recursion is as deep as the value, whose depth its schema bounds.
    """
    match told:
        case str():
            return visible(told)
        case Mapping():
            return {key: readable(value) for key, value in told.items()}
        case list() | tuple():
            return [readable(value) for value in told]
    return told
