"""Numbers, strings and blobs of MLIR bytecode, read from bytes that may say anything.

Source: MLIR's documentation "MLIR Bytecode Format".
"""

from __future__ import annotations

from typing import Final, NoReturn

from hloscope.errors import ParseError, UnsupportedError

MOST_KEPT: Final = 4096
"""Bytes of a blob that is copied; a longer one stays a view of the file."""


class BytecodeError(ParseError):
    """Bytecode is damaged, or says what no bytecode says.

    Attributes:
        offset: The byte of the file at which reading failed.
        section: The section it belongs to, or `header`.
    """

    def __init__(self, message: str, name: str = "", offset: int = 0, section: str = "") -> None:
        super().__init__(message)
        self.file, self.offset, self.section = name, offset, section

    def __str__(self) -> str:
        where = f"byte {self.offset:,}, {self.section}"
        return f"{self.file}: {where}: error: {self.message}"


class Cursor:
    """Reads one section, or a part of one.

    Attributes:
        data: The file.
        at: The next byte.
        end: The byte after the last.
        section: What messages call the section.
        name: What messages call the file.
    """

    __slots__ = ("at", "data", "end", "name", "section")

    def __init__(self, data: bytes, at: int, end: int, section: str, name: str) -> None:
        self.data, self.at, self.end = data, at, end
        self.section, self.name = section, name

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise `BytecodeError` at this byte."""
        raise BytecodeError(message, self.name, self.at if at is None else at, self.section)

    def part(self, size: int, section: str = "") -> Cursor:
        """A cursor of the next bytes, which are passed over."""
        if size > self.end - self.at:
            self.fail(f"{size:,} bytes are needed where {self.end - self.at:,} are left")
        found = Cursor(self.data, self.at, self.at + size, section or self.section, self.name)
        self.at += size
        return found

    def byte(self) -> int:
        """One byte."""
        if self.at >= self.end:
            self.fail("the section ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """An unsigned number of at most 64 bits; zeros at the end of a byte tell how many follow.

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
        size = (first & -first).bit_length() if first else 9
        if at + size > self.end:
            self.fail(f"a number of {size} bytes where {self.end - at} are left")
        self.at = at + size
        if not first:
            return int.from_bytes(self.data[at + 1 : at + 9], "little")
        return int.from_bytes(self.data[at : at + size], "little") >> size

    def varints(self, count: int) -> list[int]:
        """So many unsigned numbers, most of which take one byte or two."""
        data, at, last = self.data, self.at, self.end - 1
        found: list[int] = []
        append = found.append
        for _ in range(count):
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
        """A signed number: its sign is the lowest bit."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def count(self, least: int = 1) -> int:
        """How many things follow, each of which has at least so many bytes."""
        at = self.at
        value = self.varint()
        if value * least > self.end - self.at:
            self.fail(f"a list of {value:,} where {self.end - self.at:,} bytes are left", at)
        return value

    def blob(self) -> bytes | memoryview:
        """Bytes after their number; many are a view of the file."""
        size = self.count()
        at, self.at = self.at, self.at + size
        if size > MOST_KEPT:
            return memoryview(self.data)[at : at + size]
        return bytes(self.data[at : at + size])

    def finish(self) -> None:
        """Check that nothing is left."""
        if self.at != self.end:
            self.fail(f"{self.end - self.at:,} bytes are left over")


_SHORT: Final = tuple(
    bytes([value << 1 | 1]) if value < 128 else (value << 2 | 2).to_bytes(2, "little")
    for value in range(1024)
)
"""The numbers that are written most often."""


def varint(value: int) -> bytes:
    """An unsigned number in as few bytes as it takes.

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
    """A signed number of 64 bits.

    Raises:
        UnsupportedError: It has more.

    >>> svarint(-1).hex()
    '03'
    """
    if not -1 << 63 <= value < 1 << 63:
        raise UnsupportedError(f"bytecode has numbers of 64 bits, this one has more: {value}")
    return varint(((value << 1) ^ (value >> 63)) & ((1 << 64) - 1))


def blob(data: bytes | memoryview) -> bytes:
    """Bytes after their number."""
    return varint(len(data)) + data
