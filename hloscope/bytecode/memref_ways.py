"""Encodings of `memref<…>` types in bytecode.

A memref with the identity layout and no memory space is a `BufferType`. Every other one is text,
which is split here: the sizes with the element type, then an optional layout and an optional memory
space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.bytecode.type_ways import plain_element, shape_of, sizes_of
from hloscope.bytecode.ways import Fields, Way
from hloscope.errors import HloscopeError
from hloscope.ir import BufferType, DialectType, TensorType, UnrankedTensorType
from hloscope.lazy import pattern
from hloscope.mlir import (
    I64,
    Attribute,
    IntegerAttr,
    VerbatimAttr,
    attribute_text,
    parse_attribute,
    parse_type,
    type_text,
)

_SIGN: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|>=|[<\[({]|[>\])}]|,')
_LAYOUTS: Final = ("affine_map<", "strided<")


def identity(rank: int) -> str:
    """Return the identity layout of a memref, as text.

    >>> identity(2)
    'affine_map<(d0, d1) -> (d0, d1)>'
    """
    names = ", ".join([f"d{i}" for i in range(rank)])
    return f"affine_map<({names}) -> ({names})>"


def memref_way(text: str) -> str:
    """Return the name of the encoding of a type's text; empty if it is not a `memref`."""
    if not text.startswith("memref<"):
        return ""
    parts = _parts(text)
    unranked = parts[0].startswith("*")
    spaced = len(parts) > 1 and not parts[-1].startswith(_LAYOUTS)
    return f"{'unranked_' if unranked else ''}memref{'_in_space' if spaced else ''}"


def _parts(text: str) -> list[str]:
    """Split the parameters of a memref at its top-level commas."""
    inside = text.removeprefix("memref<").removesuffix(">")
    found, depth, start = [], 0, 0
    for sign in _SIGN.finditer(inside):
        if sign[0] == "," and not depth:
            found.append(inside[start : sign.start()].strip())
            start = sign.end()
        elif len(sign[0]) == 1:
            depth += (sign[0] in "<[({") - (sign[0] in ">])}")
    return [*found, inside[start:].strip()]


def _space(text: str) -> Attribute:
    value = parse_attribute(text)
    return IntegerAttr(value.value, I64) if isinstance(value, IntegerAttr) else value


def _space_text(value: Any) -> str:
    if isinstance(value, IntegerAttr) and value.type == I64:
        return str(value.value)
    return attribute_text(value)


def _made(shape: Sequence[int], element: object, layout: object, space: object = None) -> Any:
    tensor = TensorType(plain_element(element), sizes_of(shape))
    text = attribute_text(layout) if isinstance(layout, VerbatimAttr) else ""
    if not text.startswith(_LAYOUTS):
        raise ValueError("a layout is needed")
    usual = text == identity(len(shape))
    if usual and space is None:
        return BufferType(tensor)
    head = type_text(tensor).removeprefix("tensor<").removesuffix(">")
    more = [] if usual else [text]
    return _dialect_type(head, more if space is None else [*more, _space_text(space)])


def _dialect_type(head: str, more: Sequence[str]) -> DialectType:
    return DialectType(f"memref<{', '.join([head, *more])}>")


def _fields(_: str, value: BufferType | DialectType) -> Fields:
    """Return the memory space if there is one, then shape, element type and layout."""
    if isinstance(value, BufferType):
        tensor, rest = value.element, []
    else:
        head, *rest = _parts(value.text)
        try:
            found = parse_type(f"tensor<{head}>")
        except HloscopeError as error:
            raise ValueError(error.message) from None
        if not isinstance(found, TensorType):
            raise ValueError(f"`{value.text[:100]}` is not a bytecode type")
        tensor = found
    layouts = [text for text in rest if text.startswith(_LAYOUTS)]
    spaces = [_space(text) for text in rest if not text.startswith(_LAYOUTS)]
    layout = layouts[0] if layouts else identity(len(tensor.sizes))
    return [*spaces, shape_of(tensor.sizes), tensor.element, VerbatimAttr(layout)]


def _unranked(element: object, space: object = None) -> DialectType:
    head = type_text(UnrankedTensorType(plain_element(element)))
    head = head.removeprefix("tensor<").removesuffix(">")
    return _dialect_type(head, [] if space is None else [_space_text(space)])


def _unranked_fields(_: str, value: DialectType) -> Fields:
    head, *rest = _parts(value.text)
    found = parse_type(f"tensor<{head}>")
    if not isinstance(found, UnrankedTensorType):
        raise ValueError(f"`{value.text[:100]}` is not a bytecode type")
    return [*map(_space, rest), found.element]


MEMREF_WAYS: Final[dict[str, Way]] = {
    "memref": Way(lambda _, shape, element, layout: _made(shape, element, layout), _fields),
    "memref_in_space": Way(
        lambda _, space, shape, element, layout: _made(shape, element, layout, space), _fields
    ),
    "unranked_memref": Way(lambda _, element: _unranked(element), _unranked_fields),
    "unranked_memref_in_space": Way(
        lambda _, space, element: _unranked(element, space), _unranked_fields
    ),
}
"""Encodings by the name that table rows give them."""
