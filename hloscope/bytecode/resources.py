"""Resources of `dense_resource<name>` attributes: data apart from the ops, in text and bytecode.

A text ends with `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`: four bytes of alignment,
then the data. Bytecode has names and sizes in one section, data in another.

Source: MLIR's documentation "MLIR Bytecode Format"; `BytecodeWriter.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hloscope.bytecode.cursor import Cursor, varint
from hloscope.bytecode.ways import Way
from hloscope.errors import UnsupportedError
from hloscope.ir import TensorType, Type, VectorType
from hloscope.lazy import pattern
from hloscope.mlir import (
    StringAttr,
    VerbatimAttr,
    attribute_text,
    parse_type,
    plain_name,
    type_text,
)

BLOB: Final = 0
PADDING: Final = b"\xcb"
MOST_TEXT: Final = 1 << 28
"""Maximum size in bytes of data shown as text, with two digits for each byte."""


class Resource(NamedTuple):
    """One resource of a file.

    Attributes:
        dialect: Dialect that owns it.
        name: Name that attributes use.
        at: Offset of its data in the file.
        size: Size of the data in bytes; 0 if the file has none.
        alignment: Required alignment of the data in bytes.
    """

    dialect: str
    name: str
    at: int
    size: int
    alignment: int


# ---------------------------------------------------------------------------------- in bytecode


def read_resources(
    offsets: Cursor, data: Cursor, dialects: list[str], strings: list[bytes]
) -> list[Resource]:
    """Read the resources of dialects, in the order of their numbers."""
    for _ in range(offsets.count()):
        offsets.varint()
        _skip(offsets, data)
    found: list[Resource] = []
    while offsets.at < offsets.end:
        number = offsets.varint()
        if number >= len(dialects):
            offsets.fail(f"dialect {number:,} is meant, there are {len(dialects):,}")
        for _ in range(offsets.count(3)):
            key, size, kind = offsets.varint(), offsets.varint(), offsets.byte()
            if key >= len(strings):
                offsets.fail(f"string {key:,} is meant, there are {len(strings):,}")
            name = strings[key].decode("utf-8", "surrogateescape")
            part = data.part(size)
            alignment, at, length = _blob(part) if size and kind == BLOB else (1, part.at, 0)
            found.append(Resource(dialects[number], name, at, length, alignment))
    return found


def _skip(offsets: Cursor, data: Cursor) -> None:
    """Skip resources that belong to no dialect."""
    for _ in range(offsets.count(3)):
        offsets.varint()
        data.part(offsets.varint())
        offsets.byte()


def _blob(part: Cursor) -> tuple[int, int, int]:
    """Read alignment, offset and size of a blob."""
    alignment, size = part.varint(), part.varint()
    if not alignment or alignment & (alignment - 1) or alignment > 1 << 31:
        part.fail(f"alignment {alignment:,} is not a power of two")
    if size > part.end - part.at:
        part.fail(f"{size:,} bytes are needed where {part.end - part.at:,} are left")
    return alignment, part.end - size, size


def write_resources(
    dialect: int, names: Iterable[tuple[int, str]], values: dict[str, tuple[int, bytes]]
) -> tuple[bytes, bytes, int]:
    """Return both sections of the resources of a dialect, and the alignment of the second.

    Args:
        dialect: Number of the dialect.
        names: Each name with the number of its string.
        values: Alignment and data by name; other resources are written without data.
    """
    offsets, data, most = bytearray(), bytearray(), 1
    count = 0
    for number, name in names:
        start = len(data)
        alignment, blob = values.get(name, (0, b""))
        if name in values:
            data += varint(alignment) + varint(len(blob))
            # Data is padded relative to the section, so the section itself must have the largest
            # alignment of them all.
            if alignment > 1:
                data += PADDING * (-len(data) % alignment)
                most = max(most, alignment)
            data += blob
        offsets += varint(number) + varint(len(data) - start) + bytes([BLOB])
        count += 1
    head = varint(0) + (varint(dialect) + varint(count) if count else b"")
    return head + bytes(offsets), bytes(data), most


# -------------------------------------------------------------------------------------- in text

_NAME: Final = r'([A-Za-z_][\w$.]*|"(?:[^"\\]|\\.)*")'


def resource_text(data: bytes, resources: Iterable[Resource]) -> str:
    """Return the resource section at the end of a text; empty if no resource has data.

    Raises:
        UnsupportedError: The data exceeds `MOST_TEXT` bytes.
    """
    found = [one for one in resources if one.size]
    if sum(one.size for one in found) > MOST_TEXT:
        raise UnsupportedError(f"resources of more than {MOST_TEXT:,} bytes are not read")
    if not found:
        return ""
    groups: dict[str, list[str]] = {}
    for one in found:
        head = one.alignment.to_bytes(4, "little").hex().upper()
        blob = bytes(data[one.at : one.at + one.size]).hex().upper()
        groups.setdefault(one.dialect, []).append(f'      {_named(one.name)}: "0x{head}{blob}"')
    inside = []
    for dialect, lines in groups.items():
        entries = ",\n".join(lines)
        inside.append(f"    {dialect}: {{\n{entries}\n    }}")
    every = ",\n".join(inside)
    return f"{{-#\n  dialect_resources: {{\n{every}\n  }}\n#-}}"


def _named(name: str) -> str:
    if _BARE.fullmatch(name):
        return name
    return attribute_text(StringAttr.of(name))


_BARE: Final = pattern(r"[A-Za-z_][\w$.]*")


_USE: Final = pattern(rf"dense_resource<\s*{_NAME}\s*>\s*:\s*(.*)", re.DOTALL)


def is_resource(value: VerbatimAttr) -> bool:
    """Does an attribute refer to a resource?"""
    return value.text.startswith("dense_resource<")


def _make(_: str, type: object, name: str) -> VerbatimAttr:
    if not isinstance(type, TensorType | VectorType):
        raise ValueError("a shaped type is needed")
    return VerbatimAttr(f"dense_resource<{_named(name)}> : {type_text(type)}")


def _fields(_: str, value: VerbatimAttr) -> tuple[Type, str]:
    found = _USE.fullmatch(value.text)
    if found is None:
        raise UnsupportedError(f"`{value.text[:100]}` cannot be written as bytecode")
    return parse_type(found[2]), plain_name(found[1])


RESOURCE_WAYS: Final[dict[str, Way]] = {"resource": Way(_make, _fields)}
"""Encodings by the name that table rows give them."""


def padded(at: int, alignment: int) -> Iterator[bytes]:
    """Yield the alignment and padding of a section, given the offset after its size."""
    head = varint(alignment)
    yield head
    yield PADDING * (-(at + len(head)) % alignment)
