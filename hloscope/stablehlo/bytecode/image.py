"""Sections of an MLIR bytecode file: their tables, resources, and the file's producer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec import Struct, field

from hloscope.errors import HloscopeError, UnknownNameError, UnsupportedError
from hloscope.ir import TensorType, Type, VectorType
from hloscope.mlir import (
    StringAttr,
    VerbatimAttr,
    attribute_text,
    parse_type,
    plain_name,
    type_text,
)
from hloscope.stablehlo.bytecode.fields import BytecodeError, Cursor, varint
from hloscope.stablehlo.bytecode.types import Encoding
from hloscope.stablehlo.vhlo import CURRENT, Version, version_of, version_text
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Resources of `dense_resource<name>` attributes: data apart from the ops, in text and bytecode.
#
# A text ends with `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`: four bytes of
# alignment, then the data. Bytecode has names and sizes in one section, data in another.
#
# Source: MLIR's documentation "MLIR Bytecode Format"; `BytecodeWriter.cpp`.


BLOB: Final = 0
PADDING: Final = b"\xcb"
MOST_TEXT: Final = 1 << 28
"""Maximum size in bytes of the data of all resources in a printed text.

Each byte is printed as two digits.
"""


class Resource(NamedTuple):
    """The data of one resource: bytes in a file that attributes refer to by name.

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
    """Read the resources of all dialects, in the order of their numbers.

    Args:
        offsets: The section with names and sizes of resources.
        data: The section with their data.
        dialects: Names of the dialects, by number.
        strings: Strings of the file, by number.
    """
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
    """Skip resources that do not belong to a dialect, in the sections `offsets` and `data`."""
    for _ in range(offsets.count(3)):
        offsets.varint()
        data.part(offsets.varint())
        offsets.byte()


def _blob(part: Cursor) -> tuple[int, int, int]:
    """Read the header of a blob from a part of the data section.

    Return alignment, offset and size in bytes.
    """
    alignment, size = part.varint(), part.varint()
    if not alignment or alignment & (alignment - 1) or alignment > 1 << 31:
        part.fail(f"alignment {alignment:,} is not a power of two")
    if size > part.end - part.at:
        part.fail(f"{size:,} bytes are needed where {part.end - part.at:,} are left")
    return alignment, part.end - size, size


def write_resources(
    dialect: int, names: Iterable[tuple[int, str]], values: dict[str, tuple[int, bytes]]
) -> tuple[bytes, bytes, int]:
    """Return the offset and data sections of a dialect's resources, and the data's alignment.

    Args:
        dialect: Number of the dialect.
        names: Each name with the number of its string.
        values: Alignment in bytes and data, by name; resources that are missing here have no data.
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
    """Return the section `{-# … #-}` that ends an MLIR text, with the resources that have data.

    The text is empty if none has. `data` are the bytes of the file.

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
    """Does an attribute refer to a resource, as `dense_resource<name>` does?"""
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


RESOURCE_ENCODINGS: Final[dict[str, Encoding]] = {"resource": Encoding(_make, _fields)}
"""Encoding of attributes that refer to resources, by the name that the tables use for it."""


def padded(at: int, alignment: int) -> Iterator[bytes]:
    """Yield the encoded alignment of a section's data, then the padding up to the data.

    `at` is the offset in the file after the section's size, `alignment` is in bytes.
    """
    head = varint(alignment)
    yield head
    yield PADDING * (-(at + len(head)) % alignment)


# --------------------------------------------------------------------------------------------------
# Sections of a file of MLIR bytecode, and their tables.
#
# Source: MLIR's documentation "MLIR Bytecode Format"; `BytecodeReader.cpp`.


MAGIC: Final = b"ML\xefR"
NEWEST: Final = 6
"""The newest version of MLIR bytecode that is supported."""

STRINGS, DIALECTS, ENTRIES, OFFSETS, IR, RESOURCES, RESOURCE_OFFSETS, VERSIONS, PROPERTIES = range(
    9
)
SECTIONS: Final = (
    *("String", "Dialect", "AttrType", "AttrTypeOffset", "IR", "Resource", "ResourceOffset"),
    *("DialectVersions", "Properties"),
)
"""Name of each section; its index is the number of the section in a file."""
_REQUIRED: Final = (STRINGS, DIALECTS, ENTRIES, OFFSETS, IR)


class Span(NamedTuple):
    """The bytes of a section in the file: offset of the first one, and their number."""

    at: int
    size: int


class OpName(NamedTuple):
    """The name of an op, and whether the dialect had registered it when the file was written."""

    name: str
    registered: bool


class Entry(NamedTuple):
    """The bytes of an attribute or type: its dialect, offset and size in the file.

    `coded`: whether it begins with a code of its dialect; otherwise it is text.
    """

    dialect: str
    at: int
    size: int
    coded: bool


class Image(Struct):
    """A bytecode file with its tables; the ops are not decoded.

    Attributes:
        data: Bytes of the file.
        name: Name of the file in messages.
        version: The version of bytecode.
        producer: The producer that the file names.
        sections: Offset and size of each section, by its number.
        strings: The strings.
        dialects: Names of the dialects.
        versions: Encoded versions of the dialects that have one.
        ops: Names of the ops.
        entries: Offset and size of each attribute, then of each type.
        attributes: Number of entries that are attributes.
        properties: Offsets of the properties of ops.
        resources: Data that attributes refer to by name.
    """

    data: bytes
    name: str
    version: int = 0
    producer: str = ""
    sections: dict[int, Span] = field(default_factory=dict)
    strings: list[bytes] = field(default_factory=list)
    dialects: list[str] = field(default_factory=list)
    versions: dict[str, bytes] = field(default_factory=dict)
    ops: list[OpName] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    attributes: int = 0
    properties: list[Span] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)

    def cursor(self, section: int) -> Cursor:
        """Return a cursor at the beginning of the section of this number."""
        at, size = self.sections[section]
        return Cursor(self.data, at, at + size, SECTIONS[section], self.name)

    def string(self, number: int, cursor: Cursor) -> bytes:
        """Return the string of a number; an error has the position of `cursor`."""
        if number >= len(self.strings):
            cursor.fail(f"string {number:,} of {len(self.strings):,}")
        return self.strings[number]

    def text(self, number: int, cursor: Cursor) -> str:
        """Return the string of a number, decoded as UTF-8.

        An error has the position of `cursor`.
        """
        return self.string(number, cursor).decode("utf-8", "surrogateescape")


def is_bytecode(data: bytes) -> bool:
    """Do the data begin with the magic number of MLIR bytecode?"""
    return data.startswith(MAGIC)


def read_image(data: bytes, name: str = "<bytes>") -> Image:
    """Return a bytecode file with its tables; the ops are not decoded.

    `data` are the bytes of the file, `name` is its name in messages.

    Raises:
        BytecodeError: The file is damaged.
    """
    image = Image(data, name)
    cursor = Cursor(data, 0, len(data), "header", name)
    if not is_bytecode(data):
        cursor.fail("no MLIR bytecode")
    image.version, image.producer = _header(cursor)
    if image.version > NEWEST:
        cursor.fail(f"bytecode version {image.version} is newer than the current version {NEWEST}")
    while cursor.at < cursor.end:
        _section(cursor, image)
    for number in _REQUIRED:
        if number not in image.sections:
            cursor.fail(f"there is no section {SECTIONS[number]}")
    if (RESOURCES in image.sections) != (RESOURCE_OFFSETS in image.sections):
        cursor.fail("one of the sections Resource and ResourceOffset is missing")
    if image.version >= 5 and PROPERTIES not in image.sections:
        cursor.fail(f"there is no section {SECTIONS[PROPERTIES]}")
    # Each table refers to those read before it: dialects to strings, entries to dialects.
    _strings(image)
    _dialects(image)
    _entries(image)
    _properties(image)
    _resources(image)
    return image


def producer_of(data: bytes) -> tuple[int, str]:
    """Return the bytecode version and the name of the producer in the header of a file.

    The rest of the file may be damaged. The version is 0 and the name empty if the header is
    damaged.
    """
    try:
        return _header(Cursor(data, 0, len(data), "header", "")) if is_bytecode(data) else (0, "")
    except BytecodeError:
        return 0, ""


def _header(cursor: Cursor) -> tuple[int, str]:
    cursor.at = len(MAGIC)
    version = cursor.varint()
    end = cursor.data.find(b"\0", cursor.at)
    if end < 0:
        cursor.fail("malformed null-terminated string, no null character found")
    producer = cursor.data[cursor.at : end].decode("utf-8", "surrogateescape")
    cursor.at = end + 1
    return version, producer


def section_header(cursor: Cursor) -> tuple[int, int]:
    """Read the header and the padding of a section.

    Return the section's number and its size in bytes.
    """
    at = cursor.at
    number = cursor.byte()
    size = cursor.varint()
    if number & 0x80:
        alignment = cursor.varint()
        if not alignment or alignment & (alignment - 1) or alignment > 1 << 32:
            cursor.fail(f"alignment {alignment:,} is not a power of two", at)
        padding = -cursor.at % alignment
        found = cursor.part(padding)
        if any(byte != 0xCB for byte in cursor.data[found.at : found.end]):
            cursor.fail("padding is not 0xCB", found.at)
    if number & 0x7F >= len(SECTIONS):
        cursor.fail(f"invalid section ID: {number & 0x7F}", at)
    return number & 0x7F, size


def _section(cursor: Cursor, image: Image) -> None:
    at = cursor.at
    number, size = section_header(cursor)
    if number in image.sections or number == VERSIONS:
        cursor.fail(f"section {SECTIONS[number]} is there twice", at)
    start = cursor.at
    cursor.section = SECTIONS[number]
    cursor.part(size)
    cursor.section = "header"
    image.sections[number] = Span(start, size)


def _strings(image: Image) -> None:
    cursor = image.cursor(STRINGS)
    sizes = [cursor.varint() for _ in range(cursor.count())]
    end = cursor.end
    # Strings are stored in the reverse order of their sizes, so they are read from the end.
    found = []
    for size in sizes:
        if not 0 < size <= end - cursor.at or image.data[end - 1]:
            cursor.fail(f"a string of {size:,} bytes has no end", end)
        found.append(bytes(image.data[end - size : end - 1]))
        end -= size
    if end != cursor.at:
        cursor.fail(f"{end - cursor.at:,} bytes are left over", end)
    image.strings = found[::-1]


def _dialects(image: Image) -> None:
    cursor = image.cursor(DIALECTS)
    for _ in range(cursor.count()):
        number = cursor.varint()
        versioned = image.version >= 1 and number & 1
        name = image.text(number >> 1 if image.version >= 1 else number, cursor)
        image.dialects.append(name)
        if versioned:
            section, size = section_header(cursor)
            if section != VERSIONS:
                cursor.fail("the version of a dialect is not a DialectVersions section")
            part = cursor.part(size)
            image.versions[name] = bytes(image.data[part.at : part.end])
    count = cursor.count() if image.version >= 4 else None
    while cursor.at < cursor.end:
        dialect = _dialect(image, cursor)
        for _ in range(cursor.count()):
            number = cursor.varint()
            registered = True
            if image.version >= 5:
                number, registered = number >> 1, bool(number & 1)
            image.ops.append(OpName(f"{dialect}.{image.text(number, cursor)}", registered))
    if count is not None and count != len(image.ops):
        cursor.fail(f"{len(image.ops):,} names of ops where {count:,} are said to be")


def _dialect(image: Image, cursor: Cursor) -> str:
    number = cursor.varint()
    if number >= len(image.dialects):
        cursor.fail(f"dialect {number:,} is meant, there are {len(image.dialects):,}")
    return image.dialects[number]


def _entries(image: Image) -> None:
    cursor = image.cursor(OFFSETS)
    at, size = image.sections[ENTRIES]
    end = at + size
    counts = cursor.count(), cursor.count()
    # The sizes of entries add up to their section, so each entry's offset is the sum of the sizes
    # before it, and any disagreement is an error.
    image.attributes = counts[0]
    for total in (counts[0], sum(counts)):
        while len(image.entries) < total:
            dialect = _dialect(image, cursor)
            count = cursor.count()
            if not count or len(image.entries) + count > total:
                cursor.fail(f"a group of {count:,} attributes or types does not fit")
            for _ in range(count):
                number = cursor.varint()
                if number >> 1 > end - at:
                    cursor.fail(f"an attribute or type of {number >> 1:,} bytes ends too late")
                image.entries.append(Entry(dialect, at, number >> 1, bool(number & 1)))
                at += number >> 1
    cursor.finish()
    if at != end:
        cursor.fail(f"{end - at:,} bytes of attributes and types belong to none")


def _properties(image: Image) -> None:
    if PROPERTIES not in image.sections:
        return
    cursor = image.cursor(PROPERTIES)
    for _ in range(cursor.count()):
        part = cursor.part(cursor.varint())
        image.properties.append(Span(part.at, part.end - part.at))
    cursor.finish()


def _resources(image: Image) -> None:
    if RESOURCE_OFFSETS in image.sections:
        offsets, data = image.cursor(RESOURCE_OFFSETS), image.cursor(RESOURCES)
        image.resources = read_resources(offsets, data, image.dialects, image.strings)


def entry_cursor(image: Image, entry: Entry) -> Cursor:
    """Return a cursor over the bytes of an entry, an attribute or type, of a bytecode file."""
    return Cursor(image.data, entry.at, entry.at + entry.size, SECTIONS[ENTRIES], image.name)


# --------------------------------------------------------------------------------------------------
# The producer of a bytecode file, and notes about it in error messages.


PRODUCER: Final = "StableHLO_v"


def version_in(producer: str) -> Version | None:
    """Return the StableHLO version in the name of a file's producer; `None` if it has none.

    >>> version_in("StableHLO_v1.10.0"), version_in("MLIR23.0.0git")
    ((1, 10, 0), None)
    """
    try:
        return version_of(producer.removeprefix(PRODUCER)) if PRODUCER in producer else None
    except UnknownNameError:
        return None


def is_of_the_future(producer: str) -> bool:
    """Is the StableHLO version in the name of a file's producer newer than the newest known one?

    >>> is_of_the_future("StableHLO_v2.0.0"), is_of_the_future("StableHLO_v1.0.0")
    (True, False)
    """
    version = version_in(producer)
    return version is not None and (*version[:2], 0) > CURRENT


@contextmanager
def producer_noted(data: bytes, *, always: bool = False) -> Iterator[None]:
    """In this context, errors about a file of a version newer than the known ones get a note.

    The note has the producer of the file, and the newest known version.

    Args:
        data: The file.
        always: Add the note to files of known versions, too.

    Source: the note of `BytecodeReader.cpp`, "in bytecode version 6 produced by: …".
    """
    try:
        yield
    except HloscopeError as error:
        version, producer = producer_of(data)
        if producer and (always or is_of_the_future(producer)):
            error.said = (
                f"{error.message}\n  note: in bytecode version {version} produced by: {producer};"
                f" the newest version known here is {version_text(CURRENT)}"
            )
        raise
