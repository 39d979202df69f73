"""Types and lists to be looked at: of very many entries some, and their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from hloscope.hlo_parser.types import print_type
from hloscope.ir import TupleType, Type

_T = TypeVar("_T")
_DEEPEST_BRIEF: Final = 16


def brief_type(type_: Type, most: int = 8, *, layout: bool = False) -> str:
    """A type to be looked at: of a tuple of more than `most` elements some, and their number.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> brief_type(parse_type("(s32[], f32[2], f32[3], f32[4], f32[5], pred[])"), 4)
    '(s32[], f32[2], …, pred[]; 6 in all)'
    """
    return _brief(type_, most, layout, 0)


def _brief(type_: Type, most: int, layout: bool, depth: int) -> str:
    if not isinstance(type_, TupleType):
        return print_type(type_, layout=layout)
    if depth > _DEEPEST_BRIEF:
        return "(…)"
    elements = brief_list(type_.elements, lambda e: _brief(e, most, layout, depth + 1), most)
    count = f"; {len(type_.elements)} in all" if len(type_.elements) > most else ""
    return f"({elements}{count})"


def brief_list(items: Sequence[_T], name: Callable[[_T], str], most: int = 8) -> str:
    """The names of the items; of more than `most`, the first ones and the last."""
    if len(items) <= most:
        return ", ".join(map(name, items))
    return ", ".join([*map(name, items[: most - 2]), "…", name(items[-1])])
