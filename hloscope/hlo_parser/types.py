"""Conversion between HLO type text and types: `f32[8,<=16]{1,0:T(8,128)S(1)}`, `token[]`, tuples.

Types are cached by their text, so that equal texts give the same object.

Source: XLA docs "Shapes and layout", "Tiled layout".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from hloscope.hlo_parser.scanner import fail, near, part_end, shortened
from hloscope.ir import (
    ELEMENT_TYPES,
    BufferType,
    Dims,
    Layout,
    OpaqueType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_NESTING

_ARRAY: Final = pattern(r"([a-zA-Z]\w*)\s*\[([^\[\]{}]*)\]")
_LAYOUT: Final = pattern(r"\s*(\{(?:[^{}]|\{[^{}]*\})*\})")
_SPACE: Final = pattern(r"(?:\s++|/\*.*?\*/)*+", re.DOTALL)
_PAREN: Final = pattern(r"[()]")
_GROUP: Final = pattern(r"\(([^()]*)\)")
_LAYOUT_PART: Final = pattern(r"([A-Z#*]+)(?=\()")

_T = TypeVar("_T")
_DEEPEST_BRIEF: Final = 16
_BRIEF_IN_ALL: Final = 4
"""Maximum number of types in a short text, nested tuples included, per unit of `most`."""

# Cached, as each instruction needs it; equal texts give one object, so comparisons are by identity
# first.
_CACHE: Final[dict[str, Type]] = {}
_MOST: Final = 1 << 12
"""Maximum entries of the cache; a full cache is emptied.  11 MB of HLO have 400 types."""
_MOST_DIGITS: Final = 40
_TOKEN: Final = TokenType()
_OPAQUE: Final = OpaqueType()
COMBINED: Final = -1
"""Tile size of a dimension that is combined with the next more minor one, written `*`."""


def parse_type(text: str) -> Type:
    """Return the type of a text.

    >>> parse_type("f32[2,3]{1,0}").layout
    Layout(minor_to_major=(1, 0), tiles=(), memory_space=0, element_bits=0, extras=())

    Raises:
        ParseError: The text is not a type; the error has the offset in it.
    """
    found = _CACHE.get(text)
    if found is None:
        found, end = read_type(text, _skip(text, 0))
        end = _skip(text, end)
        if end != len(text):
            fail(f"expected the end of the type, found `{shortened(text[end:])}`", text, end)
        if len(_CACHE) >= _MOST:
            _CACHE.clear()
        _CACHE[text] = found
    return found


def read_type(text: str, start: int, depth: int = 1) -> tuple[Type, int]:
    """Return the type that begins at offset `start` of `text`, and its end.

    A tuple that begins there is nested `depth` deep.

    >>> read_type("(f32[], (s8[2])) tuple(a, b)", 0)[1]
    16
    """
    if not text.startswith("(", start):
        return _read_leaf(text, start)
    if depth > MOST_NESTING:
        fail(f"tuple types are nested more than {MOST_NESTING} deep", text, start, start + 1)
    elements: list[Type] = []
    at = _skip(text, start + 1)
    while not text.startswith(")", at):
        if at >= len(text):
            fail("tuple type is not closed", text, start)
        element, at = read_type(text, at, depth + 1)
        elements.append(element)
        at = _skip(text, at)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif at < len(text) and text[at] != ")":
            fail(f"expected `,` or `)`, found `{shortened(text[at:])}`", text, at)
    return TupleType(tuple(elements)), at + 1


def type_end(text: str, start: int) -> int:
    """Return the end of the type that begins at offset `start`, without reading the type.

    >>> type_end("(f32[2]{0:T(8)}, s8[]) tuple(a, b)", 0)
    22
    """
    if text.startswith("(", start):
        depth = 0
        for mark in _PAREN.finditer(text, start):
            depth += 1 if mark.group() == "(" else -1
            if not depth:
                return mark.end()
        fail("tuple type is not closed", text, start)
    if text.startswith("b(", start):
        return part_end(text, start + 1, stop_at_comma=False)
    array = _ARRAY.match(text, start)
    if array is None:
        fail(f"expected a type, found `{shortened(text[start:])}`", text, start)
    layout = _LAYOUT.match(text, array.end())
    return layout.end() if layout else array.end()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _read_leaf(text: str, start: int) -> tuple[Type, int]:
    if text.startswith("b(", start):
        inner, end = _read_leaf(text, start + 2)
        if not isinstance(inner, TensorType):
            fail("a buffer holds an array", text, start + 2, end)
        if not text.startswith(")", end):
            fail("expected `)` after the buffer's type", text, min(end, len(text)))
        return BufferType(inner), end + 1
    array = _ARRAY.match(text, start)
    if array is None:
        fail(f"expected a type, found `{shortened(text[start:])}`", text, start)
    layout = _LAYOUT.match(text, array.end())
    end = layout.end() if layout else array.end()
    # The leaves of tuples have their own entries in the cache, since tuples of a program share
    # them.
    key = text[start:end]
    found = _CACHE.get(key)
    if found is None:
        found = _CACHE[key] = _leaf(text, array, layout)
    return found, end


def _leaf(text: str, array: re.Match[str], layout: re.Match[str] | None) -> Type:
    name = array.group(1)
    element = ELEMENT_TYPES.get(name) or ELEMENT_TYPES.get(name.lower())
    if element is None:
        if name in ("token", "opaque"):
            if array.group(2).strip():
                fail(f"`{name}` has no dimensions", text, array.start(2), array.end(2))
            return _TOKEN if name == "token" else _OPAQUE
        hint = near(name, [*ELEMENT_TYPES, "token", "opaque"])
        also = f"; did you mean `{hint}`?" if hint else ""
        fail(f"unknown element type `{name}`{also}", text, array.start(1), array.end(1))
    sizes, bounds = _read_sizes(text, array)
    written = read_layout(layout.group(1), len(sizes)) if layout else None
    if written is not None and not sizes and written == Layout(()):
        written = None  # `f32[]{}` is `f32[]`
    return TensorType(element, sizes, written, bounds)


def _read_sizes(
    text: str, array: re.Match[str]
) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    inner = array.group(2)
    if not inner.strip():
        return (), ()
    if len(inner) > _MOST_DIGITS and max(map(len, inner.split(","))) > _MOST_DIGITS:
        fail("a size has too many digits", text, array.start(2), array.end(2))
    if inner.isdecimal():  # the common case, rank 1
        return (int(inner),), ()
    sizes: list[int | None] = []
    bounds: list[int | None] = []
    at = array.start(2)
    for part in inner.split(","):
        size = part.strip()
        if size.isdecimal():
            sizes.append(int(size))
            bounds.append(None)
        elif size == "?":
            sizes.append(None)
            bounds.append(None)
        elif size.startswith("<=") and size[2:].strip().isdecimal():
            sizes.append(None)
            bounds.append(int(size[2:]))
        else:
            fail(f"expected a size, found `{size}`", text, at, at + max(1, len(part)))
        at += len(part) + 1
    return tuple(sizes), tuple(bounds) if None in sizes else ()


def read_layout(text: str, rank: int | None = None) -> Layout:
    """Return the layout of a text `{minor_to_major:parts}`; `rank` is that of the array, if known.

    >>> read_layout("{1,0:T(8,128)(2,1)S(1)}").tiles
    ((8, 128), (2, 1))

    Raises:
        ParseError: The order is not a permutation of `rank` dimensions, or a part is invalid.
    """
    order, _, rest = text[1:-1].partition(":")
    at = 1 + len(order) + 1
    minor_to_major = _read_ints(text, order, 1)
    if sorted(minor_to_major) != list(range(len(minor_to_major))) or (
        rank is not None and len(minor_to_major) not in (rank, 0)
    ):
        want = len(minor_to_major) if rank is None else rank
        fail(f"layout is not a permutation of {want} dimensions", text, 1, 1 + len(order))
    if not rest:
        return Layout(minor_to_major)
    tiles: list[Dims] = []
    memory_space = element_bits = 0
    extras: list[str] = []
    end = len(text) - 1
    while at < end:
        part = _LAYOUT_PART.match(text, at)
        if part is None:
            fail(f"unknown part of a layout: `{shortened(text[at:end])}`", text, at, end)
        kind, at = part.group(1), part.end()
        if kind == "T":
            while (tile := _GROUP.match(text, at)) is not None:
                tiles.append(_read_ints(text, tile.group(1), at + 1))
                at = tile.end()
        elif kind in ("S", "E"):
            stop = part_end(text, at, stop_at_comma=False)
            numbers = _read_ints(text, text[at + 1 : stop - 1], at + 1) or (0,)
            if len(numbers) != 1:
                fail(f"`{kind}` of a layout has one number, found {len(numbers)}", text, at, stop)
            (number,) = numbers
            if kind == "S":
                memory_space = number
            else:
                element_bits = number
            at = stop
        else:
            while text.startswith("(", at):
                at = part_end(text, at, stop_at_comma=False)
            extras.append(text[part.start() : at])
    return Layout(minor_to_major, tuple(tiles), memory_space, element_bits, tuple(extras))


def _read_ints(text: str, part: str, at: int) -> Dims:
    """Return the integers in `part`, which is at offset `at` of `text`; `*` is `COMBINED`."""
    if not part.strip():
        return ()
    values: list[int] = []
    for number in part.split(","):
        stripped = number.strip()
        if stripped == "*":
            values.append(COMBINED)
        elif stripped.isdecimal():
            values.append(int(stripped))
        else:
            fail(f"expected a number, found `{stripped}`", text, at, at + max(1, len(number)))
        at += len(number) + 1
    return tuple(values)


def spell(value: object, form: str = "") -> str:
    """Return the text of a type without its layout; for other values, `str(value)`.

    `form` is ignored.

    >>> spell(parse_type("f32[2]{0}"))
    'f32[2]'
    """
    return print_type(value, layout=False) if isinstance(value, Type) else str(value)


def print_type(type_: Type, *, layout: bool = True) -> str:
    """Return the text of a type as XLA writes it, with or without layouts.

    >>> print_type(parse_type("(f32[2, 3]{1, 0}, token[])"))
    '(f32[2,3]{1,0}, token[])'
    """
    match type_:
        case TensorType():
            return print_array(type_, layout)
        case TupleType(elements):
            return f"({joined([print_type(element, layout=layout) for element in elements])})"
        case BufferType(element):
            return f"b({print_array(element, layout)})"
        case TokenType():
            return "token[]"
        case OpaqueType():
            return "opaque[]"
        case _:  # a type that only MLIR has
            return ""


def joined(parts: list[str]) -> str:
    """Return the texts of operands or elements, separated by commas; every fifth has its index."""
    if len(parts) <= 5:
        return ", ".join(parts)
    marked = (f"/*index={i}*/{part}" if i and i % 5 == 0 else part for i, part in enumerate(parts))
    return ", ".join(marked)


def print_array(type_: TensorType, layout: bool = True) -> str:
    """Return the text of an array type as XLA writes it, with its layout if `layout` is true."""
    if type_.bounds:
        sizes = ",".join(
            str(size) if size is not None else "?" if bound is None else f"<={bound}"
            for size, bound in zip(type_.sizes, type_.bounds, strict=True)
        )
    else:
        sizes = ",".join(map(str, type_.sizes))
    tail = print_layout(type_.layout) if layout and type_.layout is not None else ""
    return f"{type_.element.name}[{sizes}]{tail}"


def print_layout(layout: Layout) -> str:
    """Return the text of a layout, with its parts in XLA's order.

    >>> print_layout(Layout((1, 0), ((8, 128),), memory_space=1))
    '{1,0:T(8,128)S(1)}'
    """
    order = ",".join(map(str, layout.minor_to_major))
    extras = layout.extras
    parts = [part for part in extras if part.startswith("D(")]
    if layout.tiles:
        tiles = (",".join("*" if n == COMBINED else str(n) for n in t) for t in layout.tiles)
        parts.append("T" + "".join(f"({tile})" for tile in tiles))
    parts += [part for part in extras if part[0] in "L#*"]
    if layout.element_bits:
        parts.append(f"E({layout.element_bits})")
    if layout.memory_space:
        parts.append(f"S({layout.memory_space})")
    parts += [part for part in extras if part[0] not in "L#*" and not part.startswith("D(")]
    return f"{{{order}:{''.join(parts)}}}" if parts else f"{{{order}}}"


def brief_type(type_: Type, most: int = 8, *, layout: bool = False) -> str:
    """Return a short text of a type: of a long tuple some elements, and their number.

    Inner tuples are shortened too: once the text has its maximum of types, an inner tuple is `(…)`.

    Args:
        type_: The type.
        most: Maximum number of elements of a tuple that are written.
        layout: Write layouts.

    >>> brief_type(parse_type("(s32[], f32[2], f32[3], f32[4], f32[5], pred[])"), 4)
    '(s32[], f32[2], …, pred[]; 6 in all)'
    >>> pair = parse_type("(s8[], s8[])")
    >>> pairs = TupleType((TupleType((pair, pair)), TupleType((pair, pair))))
    >>> brief_type(TupleType((pairs, pairs)), 2)
    '((((s8[], s8[]), (s8[], s8[])), ((s8[], s8[]), (s8[], s8[]))), (…))'
    """
    return _Brief(most, layout).text(type_)


class _Brief:
    """Prints the short text of one type, in which at most a given number of types occurs."""

    def __init__(self, most: int, layout: bool) -> None:
        self._most, self._layout = most, layout
        self._left = _BRIEF_IN_ALL * most

    def text(self, type_: Type, depth: int = 0) -> str:
        """Return the short text of a type; `(…)` for a tuple once the maximum is reached.

        `depth` is the number of tuples around the type.
        """
        if not isinstance(type_, TupleType):
            self._left -= 1
            return print_type(type_, layout=self._layout)
        if depth > _DEEPEST_BRIEF or self._left <= 0:
            return "(…)"
        most = self._most
        elements = brief_list(type_.elements, lambda e: self.text(e, depth + 1), most)
        count = f"; {len(type_.elements)} in all" if len(type_.elements) > most else ""
        return f"({elements}{count})"


def brief_list(items: Sequence[_T], name: Callable[[_T], str], most: int = 8) -> str:
    """Return the names of the items, separated by commas, with `…` if there are more than `most`.

    Then only the first ones and the last one are included.
    """
    if len(items) <= most:
        return ", ".join(map(name, items))
    return ", ".join([*map(name, items[: most - 2]), "…", name(items[-1])])
