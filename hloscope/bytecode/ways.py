"""How values are made of fields and taken apart: what the ways of attributes and types share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.mlir import StringAttr

DYNAMIC: Final = -(1 << 63)
"""A size or bound that is not known, as a number."""

Fields: TypeAlias = Sequence[Any]


class Way(NamedTuple):
    """How a value is made of its fields, and taken apart."""

    make: Callable[..., Any]
    fields: Callable[[str, Any], Fields]


def text_of(value: object) -> str:
    """The text of a string attribute."""
    if not isinstance(value, StringAttr):
        raise ValueError("a string attribute is needed")
    return value.text


def only(type: Any) -> Way:
    """The way of a value that has no fields."""
    return Way(lambda _: type, lambda _, value: ())


def wrap(cls: Any, field: str) -> Way:
    """A class of one field."""
    return Way(lambda _, value: cls(value), lambda _, value: (getattr(value, field),))
