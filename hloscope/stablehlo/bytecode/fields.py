"""Kinds of the fields of attributes and types in bytecode: their readers and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from hloscope.errors import ParseError, UnsupportedError
from hloscope.ir import ElementType

# --------------------------------------------------------------------------------------------------
# Checked reading of numbers, strings and blobs of MLIR bytecode.
#
# Source: MLIR's documentation "MLIR Bytecode Format".


MOST_KEPT: Final = 4096
"""Maximum size in bytes of a blob that is copied; a longer one stays a view of the file."""


class BytecodeError(ParseError):
    """Bytecode is damaged or invalid.

    Attributes:
        offset: The byte of the file at which reading failed.
        section: Name of the section with that byte, or `header`.
    """

    def __init__(self, message: str, name: str = "", offset: int = 0, section: str = "") -> None:
        super().__init__(message)
        self.file, self.offset, self.section = name, offset, section

    def __str__(self) -> str:
        where = f"byte {self.offset:,}, {self.section}"
        return f"{self.file}: {where}: error: {self.message}"


class Cursor:
    """A reader of the bytes of one section, or of a part of one.

    Attributes:
        data: Bytes of the file.
        at: Offset of the next byte.
        end: Offset after the last byte.
        section: Name of the section in messages.
        name: Name of the file in messages.
    """

    __slots__ = ("at", "data", "end", "name", "section")

    def __init__(self, data: bytes, at: int, end: int, section: str, name: str) -> None:
        self.data, self.at, self.end = data, at, end
        self.section, self.name = section, name

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise a `BytecodeError` with a message about byte `at`, by default the next one."""
        raise BytecodeError(message, self.name, self.at if at is None else at, self.section)

    def part(self, size: int, section: str = "") -> Cursor:
        """Return a cursor over the next `size` bytes, and advance this cursor past them.

        `section` is the section's name in messages; by default this cursor's.
        """
        if size > self.end - self.at:
            self.fail(f"{size:,} bytes are needed where {self.end - self.at:,} are left")
        found = Cursor(self.data, self.at, self.at + size, section or self.section, self.name)
        self.at += size
        return found

    def byte(self) -> int:
        """Read one byte, as an integer."""
        if self.at >= self.end:
            self.fail("the section ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """Read an unsigned integer of at most 64 bits.

        The number of trailing zeros of the first byte is the number of bytes that follow.

        >>> Cursor(bytes([0x22, 0x03]), 0, 2, "IR", "f").varint()
        200
        """
        at = self.at
        if at >= self.end:
            self.fail("the section ends too early")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        # The lowest set bit of the first byte gives the size: bit `k` means `k + 1` bytes. A zero
        # byte is followed by eight bytes with the whole number.
        size = (first & -first).bit_length() if first else 9
        if at + size > self.end:
            self.fail(f"a number of {size} bytes where {self.end - at} are left")
        self.at = at + size
        if not first:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + size], "little") >> size

    def varints(self, count: int) -> list[int]:
        """Read `count` unsigned integers; those of one or two bytes are read fast."""
        data, at, last = self.data, self.at, self.end - 1
        found: list[int] = []
        append = found.append
        for _ in range(count):
            # Two bytes are left, so the short forms need no further check; all else is `varint`'s.
            if at < last:
                first = data[at]
                if first & 1:
                    append(first >> 1)
                    at += 1
                    continue
                if first & 2:
                    append((first | data[at + 1] << 8) >> 2)
                    at += 2
                    continue
            self.at = at
            append(self.varint())
            at = self.at
        self.at = at
        return found

    def svarint(self) -> int:
        """Read a signed integer; its lowest bit is the sign (zigzag)."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def count(self, least: int = 1) -> int:
        """Read the length of a list whose items take at least `least` bytes each.

        Raises:
            BytecodeError: The section is too short for a list of this length.
        """
        at = self.at
        value = self.varint()
        if value * least > self.end - self.at:
            self.fail(f"a list of {value:,} where {self.end - self.at:,} bytes are left", at)
        return value

    def blob(self) -> bytes | memoryview:
        """Read the size of a blob, then its bytes; a long one is a view of the file."""
        size = self.count()
        at, self.at = self.at, self.at + size
        if size > MOST_KEPT:
            return memoryview(self.data)[at : at + size]
        return bytes(self.data[at : at + size])

    def finish(self) -> None:
        """Check that all bytes were read.

        Raises:
            BytecodeError: Bytes are left.
        """
        if self.at != self.end:
            self.fail(f"{self.end - self.at:,} bytes are left over")


_SHORT: Final = tuple(
    bytes([value << 1 | 1]) if value < 128 else (value << 2 | 2).to_bytes(2, "little")
    for value in range(1024)
)
"""Encodings of the integers below 1024, indexed by the integer."""


def varint(value: int) -> bytes:
    """Encode an unsigned integer of up to 64 bits in the fewest bytes.

    >>> varint(200).hex(), varint((1 << 64) - 1).hex()
    ('2203', '00ffffffffffffffff')
    """
    if value < len(_SHORT):
        return _SHORT[value]
    size = -(-value.bit_length() // 7)
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return (((value << 1) | 1) << (size - 1)).to_bytes(size, "little")


def svarint(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits in zigzag form.

    Raises:
        UnsupportedError: The integer has more than 64 bits.

    >>> svarint(-1).hex()
    '03'
    """
    if not -1 << 63 <= value < 1 << 63:
        raise UnsupportedError(f"bytecode has numbers of 64 bits, this one has more: {value}")
    return varint((value << 1) ^ (value >> 63))


def blob(data: bytes | memoryview) -> bytes:
    """Encode bytes, with their number before them."""
    return varint(len(data)) + data


# --------------------------------------------------------------------------------------------------
# Kinds of fields of attributes and types in bytecode: their reading, resolution and writing.
#
# Reading has two steps, since an entry may refer to later ones by number: a field is first read as
# numbers, and resolved when the entries are known. A reference to a type is the complement of its
# number, so that one list holds references of both kinds.
#
# | kind | content |
# |---|---|
# | `varint` `svarint` `byte` | a number |
# | `varints` `svarints` | numbers after their count |
# | `f64` `f64s` | bits of `f64` as signed numbers |
# | `bits` | the bits of a number whose type is the field before |
# | `string` `blob` | a string of the table; bytes |
# | `resource` | the number of a resource, as its name |
# | `attr` `attrs` `pairs` | attributes; keys and values |
# | `attr?` `flagged` `flagged_byte` | an attribute that may be missing, after a bit or number |
# | `loc` `locs` | locations |
# | `type` `types` | types |


_MASK: Final = (1 << 64) - 1


class Table(Protocol):
    """Source of the entries and strings of a file, by number, for reading fields."""

    def attribute(self, number: int) -> Any:
        """Return the attribute of a number; raise a `BytecodeError` for a location."""

    def location(self, number: int) -> Any:
        """Return the location of a number."""

    def type(self, number: int) -> Any:
        """Return the type of a number."""

    def string(self, number: int) -> bytes:
        """Return the string of a number."""

    def resource(self, number: int) -> str:
        """Return the name of the resource of a number."""


class Numbers(Protocol):
    """Source of the numbers of entries and strings in a file, for writing fields."""

    def attribute(self, value: Any) -> int:
        """Return the number of an attribute or location."""

    def type(self, value: Any) -> int:
        """Return the number of a type."""

    def string(self, value: bytes) -> int:
        """Return the number of a string."""

    def resource(self, name: str) -> int:
        """Return the number of the resource of this name."""


class Kind(NamedTuple):
    """How one kind of field is read and written.

    Attributes:
        read: Reads a field from a cursor. The numbers of entries it refers to are added to the
            list.
        resolve: Returns the value of a field that was read, given the table of entries.
        parts: Attributes, locations or types in a value, in the order in which they are
            written, each with whether it is a type.
        write: Encodes a value, given the numbers of entries.
    """

    read: Callable[[Cursor, list[int]], Any]
    resolve: Callable[[Table, Any], Any]
    parts: Callable[[Any], Iterable[tuple[Any, bool]]]
    write: Callable[[Any, Numbers], bytes]


def _plain(read: Callable[[Cursor], Any], write: Callable[[Any], bytes]) -> Kind:
    """Return the kind of a field that refers to nothing."""
    return Kind(
        lambda cursor, _: read(cursor),
        lambda _, value: value,
        lambda _: (),
        lambda value, _: write(value),
    )


def _in_table(table: str) -> Kind:
    """Return the kind of a number in the table `string` or `resource`."""
    return _plain(Cursor.varint, varint)._replace(
        resolve=lambda tables, number: getattr(tables, table)(number),
        write=lambda value, numbers: varint(getattr(numbers, table)(value)),
    )


def _entry(table: str) -> Kind:
    """Return the kind of the number of an `attribute`, `location` or `type`."""
    is_type = table == "type"
    numbered = "type" if is_type else "attribute"  # locations are numbered with attributes

    def read(cursor: Cursor, refs: list[int]) -> int:
        number = cursor.varint()
        refs.append(~number if is_type else number)
        return number

    return Kind(
        read,
        lambda tables, number: getattr(tables, table)(number),
        lambda value: ((value, is_type),),
        lambda value, numbers: varint(getattr(numbers, numbered)(value)),
    )


def _list(one: Kind, least: int = 1) -> Kind:
    """Return the kind of a list: a count, then items of kind `one` of at least `least` bytes."""
    return Kind(
        lambda cursor, refs: tuple([one.read(cursor, refs) for _ in range(cursor.count(least))]),
        lambda tables, items: tuple([one.resolve(tables, item) for item in items]),
        lambda values: [part for value in values for part in one.parts(value)],
        lambda values, numbers: (
            varint(len(values)) + b"".join([one.write(value, numbers) for value in values])
        ),
    )


def _pair(one: Kind) -> Kind:
    """Return the kind of two items of kind `one`."""
    return Kind(
        lambda cursor, refs: (one.read(cursor, refs), one.read(cursor, refs)),
        lambda tables, pair: (one.resolve(tables, pair[0]), one.resolve(tables, pair[1])),
        lambda pair: (*one.parts(pair[0]), *one.parts(pair[1])),
        lambda pair, numbers: one.write(pair[0], numbers) + one.write(pair[1], numbers),
    )


def _optional(
    read: Callable[[Cursor, list[int]], int | None], write: Callable[[int], bytes], missing: bytes
) -> Kind:
    """Return the kind of an attribute that may be missing.

    Args:
        read: Reads the number of the attribute; it returns `None` if there is none.
        write: Encodes the number of the attribute.
        missing: Encoding of a missing attribute.
    """
    return Kind(
        read,
        lambda tables, number: None if number is None else tables.attribute(number),
        lambda value: () if value is None else ((value, False),),
        lambda value, numbers: missing if value is None else write(numbers.attribute(value)),
    )


_ATTRIBUTE: Final = _entry("attribute")


def _read_optional(cursor: Cursor, refs: list[int]) -> int | None:
    at = cursor.at
    number = cursor.varint()
    if not number:
        return None
    if not number & 1:
        cursor.fail("an optional attribute that is neither there nor missing", at)
    refs.append(number >> 1)
    return number >> 1


def _read_flagged(cursor: Cursor, refs: list[int]) -> int | None:
    at = cursor.at
    flag = cursor.varint()
    if flag > 1:
        cursor.fail(f"{flag} where 0 or 1 is needed", at)
    return _ATTRIBUTE.read(cursor, refs) if flag else None


def _read_flagged_byte(cursor: Cursor, refs: list[int]) -> int | None:
    return _ATTRIBUTE.read(cursor, refs) if cursor.byte() else None


def _f64(cursor: Cursor) -> int:
    return cursor.svarint() & _MASK


def _write_f64(bits: int) -> bytes:
    return svarint(bits - (1 << 64) if bits >> 63 else bits)


def read_bits(cursor: Cursor, type: object) -> int:
    """Read an integer or float of type `type` from a cursor.

    Return its bits as an unsigned integer.

    Raises:
        BytecodeError: The type is not a number type.
    """
    width = type.bits if isinstance(type, ElementType) else 0
    if width <= 0 or (isinstance(type, ElementType) and type.kind in ("complex", "quantized")):
        cursor.fail("a number of a type that has no numbers")
    # MLIR writes an `APInt` by width: a byte, a signed integer, or a list of 64-bit words.
    if width <= 8:
        return cursor.byte() & ((1 << width) - 1)
    if width <= 64:
        return cursor.svarint() & ((1 << width) - 1)
    words = [cursor.svarint() & _MASK for _ in range(cursor.count())]
    return sum(word << 64 * i for i, word in enumerate(words)) & ((1 << width) - 1)


def write_bits(bits: int, width: int) -> bytes:
    """Encode a number of `width` bits, given its bits.

    >>> write_bits(0xFFFFFFFF, 32) == svarint(0xFFFFFFFF)
    True
    """
    if width <= 8:
        return bytes([bits])
    if width <= 64:
        return _write_f64(bits)
    words: list[int] = []
    while bits or not words:
        words.append(bits & _MASK)
        bits >>= 64
    return varint(len(words)) + b"".join(map(_write_f64, words))


_VARINT: Final = _plain(Cursor.varint, varint)
_SVARINT: Final = _plain(Cursor.svarint, svarint)
_BYTE: Final = _plain(Cursor.byte, lambda value: bytes([value]))
_F64: Final = _plain(_f64, _write_f64)
_LOCATION, _TYPE = _entry("location"), _entry("type")

KINDS: Final[dict[str, Kind]] = {
    "varint": _VARINT,
    "svarint": _SVARINT,
    "byte": _BYTE,
    "varints": _list(_VARINT),
    "svarints": _list(_SVARINT),
    "bytes": _list(_BYTE),
    "f64": _F64,
    "f64s": _list(_F64),
    "bits": _plain(lambda _: None, lambda value: write_bits(*value)),
    "string": _in_table("string"),
    "resource": _in_table("resource"),
    "blob": _plain(Cursor.blob, blob),
    "attr": _ATTRIBUTE,
    "attrs": _list(_ATTRIBUTE),
    "pairs": _list(_pair(_ATTRIBUTE), least=2),
    "attr?": _optional(_read_optional, lambda number: varint(number << 1 | 1), b"\1"),
    "flagged_byte": _optional(_read_flagged_byte, lambda number: b"\1" + varint(number), b"\0"),
    "flagged": _optional(_read_flagged, lambda number: b"\3" + varint(number), b"\1"),
    "loc": _LOCATION,
    "locs": _list(_LOCATION),
    "type": _TYPE,
    "types": _list(_TYPE),
}
"""Kinds of fields, by the names that the rows of the tables use for them."""
