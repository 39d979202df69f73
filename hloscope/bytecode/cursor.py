"""Checked reading of numbers, strings and blobs of MLIR bytecode.

Source: MLIR's documentation "MLIR Bytecode Format".
"""

from __future__ import annotations

from typing import Final, NoReturn

from hloscope.errors import ParseError, UnsupportedError

MOST_KEPT: Final = 4096
"""Size in bytes above which a blob is not copied, but a view of the file."""


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
    """A reader of one section, or of a part of one.

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
        """Raise `BytecodeError` at byte `at`, by default the next one."""
        raise BytecodeError(message, self.name, self.at if at is None else at, self.section)

    def part(self, size: int, section: str = "") -> Cursor:
        """Return a cursor over the next `size` bytes, and skip them."""
        if size > self.end - self.at:
            self.fail(f"{size:,} bytes are needed where {self.end - self.at:,} are left")
        found = Cursor(self.data, self.at, self.at + size, section or self.section, self.name)
        self.at += size
        return found

    def byte(self) -> int:
        """Read one byte."""
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
        """Read `count` unsigned integers, with a fast path for those of one or two bytes."""
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

        A length that cannot fit into the section fails here, before memory is allocated.
        """
        at = self.at
        value = self.varint()
        if value * least > self.end - self.at:
            self.fail(f"a list of {value:,} where {self.end - self.at:,} bytes are left", at)
        return value

    def blob(self) -> bytes | memoryview:
        """Read a blob after its size; a long one is a view of the file."""
        size = self.count()
        at, self.at = self.at, self.at + size
        if size > MOST_KEPT:
            return memoryview(self.data)[at : at + size]
        return bytes(self.data[at : at + size])

    def finish(self) -> None:
        """Check that no bytes are left."""
        if self.at != self.end:
            self.fail(f"{self.end - self.at:,} bytes are left over")


_SHORT: Final = tuple(
    bytes([value << 1 | 1]) if value < 128 else (value << 2 | 2).to_bytes(2, "little")
    for value in range(1024)
)
"""Encodings of the integers below 1024, which are written most often."""


def varint(value: int) -> bytes:
    """Encode an unsigned integer in the fewest bytes.

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
    """Encode a signed integer of 64 bits.

    Raises:
        UnsupportedError: The integer has more than 64 bits.

    >>> svarint(-1).hex()
    '03'
    """
    if not -1 << 63 <= value < 1 << 63:
        raise UnsupportedError(f"bytecode has numbers of 64 bits, this one has more: {value}")
    return varint(((value << 1) ^ (value >> 63)) & ((1 << 64) - 1))


def blob(data: bytes | memoryview) -> bytes:
    """Encode bytes after their number."""
    return varint(len(data)) + data
