"""Common parts of the encodings of attributes, types and locations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.mlir import StringAttr

DYNAMIC: Final = -(1 << 63)
"""The integer of a dynamic size or of an unknown bound."""

Fields: TypeAlias = Sequence[Any]


class Way(NamedTuple):
    """An encoding: `make` returns a value from its fields, `fields` returns the fields of a value.

    Both have a further first argument: the second word of the table row, or the row's name.
    """

    make: Callable[..., Any]
    fields: Callable[[str, Any], Fields]


def text_of(value: object) -> str:
    """Return the text of a string attribute.

    Raises:
        ValueError: `value` is not a string attribute.
    """
    if not isinstance(value, StringAttr):
        raise ValueError("a string attribute is needed")
    return value.text


def only(type: Any) -> Way:
    """Return the encoding of a value without fields."""
    return Way(lambda _: type, lambda _, value: ())


def wrap(cls: Any, field: str) -> Way:
    """Return the encoding of a class with one field."""
    return Way(lambda _, value: cls(value), lambda _, value: (getattr(value, field),))
