"""Sections of a file of MLIR bytecode, and their tables.

Source: MLIR's documentation "MLIR Bytecode Format"; `BytecodeReader.cpp`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from hloscope.bytecode.cursor import BytecodeError, Cursor
from hloscope.bytecode.resources import Resource, read_resources

MAGIC: Final = b"ML\xefR"
NEWEST: Final = 6
"""The newest supported version of bytecode."""

STRINGS, DIALECTS, ENTRIES, OFFSETS, IR, RESOURCES, RESOURCE_OFFSETS, VERSIONS, PROPERTIES = range(
    9
)
SECTIONS: Final = (
    *("String", "Dialect", "AttrType", "AttrTypeOffset", "IR", "Resource", "ResourceOffset"),
    *("DialectVersions", "Properties"),
)
"""Names of the sections, indexed by number."""
_REQUIRED: Final = (STRINGS, DIALECTS, ENTRIES, OFFSETS, IR)


class Span(NamedTuple):
    """Position of a section: offset of its first byte, and size."""

    at: int
    size: int


class OpName(NamedTuple):
    """The name of an op, and whether its writer had registered it."""

    name: str
    registered: bool


class Entry(NamedTuple):
    """Position of an attribute or type: its dialect, offset, size, and whether it has a code.

    An entry without a code is text.
    """

    dialect: str
    at: int
    size: int
    coded: bool


class Image(Struct):
    """A bytecode file with its tables.

    Attributes:
        data: Bytes of the file.
        name: Name of the file in messages.
        version: The version of bytecode.
        producer: The producer that the file names.
        sections: Position of each section, by its number.
        strings: The strings.
        dialects: Names of the dialects.
        versions: Encoded versions of the dialects that have one.
        ops: Names of the ops.
        entries: Positions of attributes, then of types.
        attributes: Number of entries that are attributes.
        properties: Positions of the properties of ops.
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
        """Return a cursor at the beginning of a section."""
        at, size = self.sections[section]
        return Cursor(self.data, at, at + size, SECTIONS[section], self.name)

    def string(self, number: int, cursor: Cursor) -> bytes:
        """Return a string by its number; errors name the cursor's position."""
        if number >= len(self.strings):
            cursor.fail(f"string {number:,} of {len(self.strings):,}")
        return self.strings[number]

    def text(self, number: int, cursor: Cursor) -> str:
        """Return a string by its number, decoded as UTF-8; errors name the cursor's position."""
        return self.string(number, cursor).decode("utf-8", "surrogateescape")


def is_bytecode(data: bytes) -> bool:
    """Does a file begin with the magic number of MLIR bytecode?"""
    return data.startswith(MAGIC)


def read_image(data: bytes, name: str = "<bytes>") -> Image:
    """Read the tables of a bytecode file.

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
    """Return the bytecode version and the producer of a file that may be damaged after them.

    The producer is empty if the header is damaged.
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
    """Read the header of a section, with its padding; return the section's number and size."""
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
    """Return a cursor over an attribute or a type."""
    return Cursor(image.data, entry.at, entry.at + entry.size, SECTIONS[ENTRIES], image.name)


__all__ = ["BytecodeError", "Image", "is_bytecode", "read_image"]
