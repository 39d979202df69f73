"""Kinds of the fields of attributes and types in bytecode: their readers and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    resolve: Callable[[Table, Any], Any] | None
    parts: Callable[[Any], Iterator[tuple[Any, bool]]] | None
    write: Callable[[Any, Numbers], bytes]


def _one(cursor: Cursor, refs: list[int]) -> int:
    number = cursor.varint()
    refs.append(number)
    return number


def _many(cursor: Cursor, refs: list[int]) -> list[int]:
    numbers = [cursor.varint() for _ in range(cursor.count())]
    refs += numbers
    return numbers


def _one_type(cursor: Cursor, refs: list[int]) -> int:
    number = cursor.varint()
    refs.append(~number)
    return number


def _many_types(cursor: Cursor, refs: list[int]) -> list[int]:
    numbers = [cursor.varint() for _ in range(cursor.count())]
    refs += [~number for number in numbers]
    return numbers


def _optional(cursor: Cursor, refs: list[int]) -> int | None:
    at = cursor.at
    number = cursor.varint()
    if not number:
        return None
    if not number & 1:
        cursor.fail("an optional attribute that is neither there nor missing", at)
    refs.append(number >> 1)
    return number >> 1


def _flagged(cursor: Cursor, refs: list[int]) -> int | None:
    at = cursor.at
    flag = cursor.varint()
    if flag > 1:
        cursor.fail(f"{flag} where 0 or 1 is needed", at)
    return _one(cursor, refs) if flag else None


def _pairs(cursor: Cursor, refs: list[int]) -> list[tuple[int, int]]:
    return [(_one(cursor, refs), _one(cursor, refs)) for _ in range(cursor.count(2))]


def _attribute(table: Table, number: int | None) -> Any:
    return None if number is None else table.attribute(number)


def _number_list(read: Callable[[Cursor], int]) -> Callable[[Cursor, list[int]], Any]:
    return lambda cursor, _: tuple([read(cursor) for _ in range(cursor.count())])


def _written(write: Callable[[int], bytes]) -> Callable[[tuple[int, ...], Numbers], bytes]:
    return lambda values, _: varint(len(values)) + b"".join(map(write, values))


def _f64(cursor: Cursor, _: object = None) -> int:
    return cursor.svarint() & _MASK


def _write_f64(bits: int, _: object = None) -> bytes:
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


KINDS: Final[dict[str, Kind]] = {
    "varint": Kind(lambda c, _: c.varint(), None, None, lambda v, _: varint(v)),
    "svarint": Kind(lambda c, _: c.svarint(), None, None, lambda v, _: svarint(v)),
    "byte": Kind(lambda c, _: c.byte(), None, None, lambda v, _: bytes([v])),
    "varints": Kind(_number_list(Cursor.varint), None, None, _written(varint)),
    "svarints": Kind(_number_list(Cursor.svarint), None, None, _written(svarint)),
    "bytes": Kind(_number_list(Cursor.byte), None, None, _written(lambda v: bytes([v]))),
    "f64": Kind(_f64, None, None, _write_f64),
    "f64s": Kind(_number_list(_f64), None, None, _written(_write_f64)),
    "bits": Kind(lambda c, _: None, None, None, lambda v, _: write_bits(*v)),
    "string": Kind(
        lambda c, _: c.varint(),
        lambda t, n: t.string(n),
        None,
        lambda v, numbers: varint(numbers.string(v)),
    ),
    "resource": Kind(
        lambda c, _: c.varint(),
        lambda t, n: t.resource(n),
        None,
        lambda v, numbers: varint(numbers.resource(v)),
    ),
    "blob": Kind(lambda c, _: c.blob(), None, None, lambda v, _: blob(v)),
    "attr": Kind(
        _one,
        _attribute,
        lambda v: iter(((v, False),)),
        lambda v, numbers: varint(numbers.attribute(v)),
    ),
    "attrs": Kind(
        _many,
        lambda t, ns: tuple([t.attribute(n) for n in ns]),
        lambda vs: iter([(v, False) for v in vs]),
        lambda vs, numbers: varint(len(vs)) + b"".join([varint(numbers.attribute(v)) for v in vs]),
    ),
    "pairs": Kind(
        _pairs,
        lambda t, ns: tuple([(t.attribute(k), t.attribute(v)) for k, v in ns]),
        lambda vs: iter([(v, False) for pair in vs for v in pair]),
        lambda vs, numbers: (
            varint(len(vs)) + b"".join([varint(numbers.attribute(v)) for pair in vs for v in pair])
        ),
    ),
    "attr?": Kind(
        _optional,
        _attribute,
        lambda v: iter(() if v is None else ((v, False),)),
        lambda v, numbers: b"\1" if v is None else varint(numbers.attribute(v) << 1 | 1),
    ),
    "flagged_byte": Kind(
        lambda c, refs: _one(c, refs) if c.byte() else None,
        _attribute,
        lambda v: iter(() if v is None else ((v, False),)),
        lambda v, numbers: b"\0" if v is None else b"\1" + varint(numbers.attribute(v)),
    ),
    "flagged": Kind(
        _flagged,
        _attribute,
        lambda v: iter(() if v is None else ((v, False),)),
        lambda v, numbers: b"\1" if v is None else b"\3" + varint(numbers.attribute(v)),
    ),
    "loc": Kind(
        _one,
        lambda t, n: t.location(n),
        lambda v: iter(((v, False),)),
        lambda v, numbers: varint(numbers.attribute(v)),
    ),
    "locs": Kind(
        _many,
        lambda t, ns: tuple([t.location(n) for n in ns]),
        lambda vs: iter([(v, False) for v in vs]),
        lambda vs, numbers: varint(len(vs)) + b"".join([varint(numbers.attribute(v)) for v in vs]),
    ),
    "type": Kind(
        _one_type,
        lambda t, n: t.type(n),
        lambda v: iter(((v, True),)),
        lambda v, numbers: varint(numbers.type(v)),
    ),
    "types": Kind(
        _many_types,
        lambda t, ns: tuple([t.type(n) for n in ns]),
        lambda vs: iter([(v, True) for v in vs]),
        lambda vs, numbers: varint(len(vs)) + b"".join([varint(numbers.type(v)) for v in vs]),
    ),
}
"""Kinds of fields, by the names that the rows of the tables use for them."""
