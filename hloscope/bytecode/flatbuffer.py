"""FlatBuffers, as far as `jax.export` writes them: tables, strings, vectors.

Source: FlatBuffers' "FlatBuffer Internals".
"""

from __future__ import annotations

from typing import Final

from hloscope.bytecode.cursor import BytecodeError

_MOST: Final = 1 << 16
"""Maximum number of elements in a vector of tables or strings."""


class Table:
    """A table; each field has a slot number and may be missing."""

    __slots__ = ("_at", "_data", "_name", "_vtable")

    def __init__(self, data: bytes, at: int, name: str) -> None:
        self._data, self._at, self._name = data, at, name
        self._vtable = at - self._signed(at)
        if self._number(self._vtable, 2) < 4:
            self._fail(self._vtable, "a table has no fields")

    def _fail(self, at: int, message: str) -> None:
        raise BytecodeError(message, self._name, max(at, 0), "FlatBuffer")

    def _number(self, at: int, size: int) -> int:
        if not 0 <= at <= len(self._data) - size:
            self._fail(at, f"{size} bytes are needed beyond the end of the file")
        return int.from_bytes(self._data[at : at + size], "little")

    def _signed(self, at: int) -> int:
        value = self._number(at, 4)
        return value - (1 << 32) if value >> 31 else value

    def _field(self, slot: int) -> int:
        """Return the offset of the field with a slot number (4, 6, …); 0 if it is missing."""
        if slot + 2 > self._number(self._vtable, 2):
            return 0
        offset = self._number(self._vtable + slot, 2)
        return self._at + offset if offset else 0

    def _target(self, at: int) -> int:
        return at + self._number(at, 4)

    def number(self, slot: int, size: int, default: int = 0) -> int:
        """Return an unsigned integer of `size` bytes; `default` if it is missing."""
        at = self._field(slot)
        return self._number(at, size) if at else default

    def vector(self, slot: int) -> bytes | None:
        """Return a vector of bytes; `None` if it is missing."""
        at = self._field(slot)
        return self._bytes(self._target(at)) if at else None

    def _bytes(self, at: int) -> bytes:
        size = self._number(at, 4)
        if size > len(self._data) - at - 4:
            self._fail(at, f"a vector of {size:,} bytes is too long")
        return self._data[at + 4 : at + 4 + size]

    def string(self, slot: int) -> str:
        """Return a string; empty if it is missing."""
        return (self.vector(slot) or b"").decode("utf-8", "surrogateescape")

    def _elements(self, slot: int) -> range:
        at = self._field(slot)
        if not at:
            return range(0)
        start = self._target(at)
        count = self._number(start, 4)
        if count > min(_MOST, (len(self._data) - start) // 4):
            self._fail(start, f"a vector of {count:,} elements is too long")
        return range(start + 4, start + 4 + 4 * count, 4)

    def strings(self, slot: int) -> list[str]:
        """Return a vector of strings; empty if it is missing."""
        found = [self._bytes(self._target(at)) for at in self._elements(slot)]
        return [one.decode("utf-8", "surrogateescape") for one in found]

    def tables(self, slot: int) -> list[Table]:
        """Return a vector of tables; empty if it is missing."""
        return [Table(self._data, self._target(at), self._name) for at in self._elements(slot)]

    def table(self, slot: int) -> Table | None:
        """Return a nested table; `None` if it is missing."""
        at = self._field(slot)
        return Table(self._data, self._target(at), self._name) if at else None


def root(data: bytes, name: str) -> Table:
    """Return the root table of a file."""
    if len(data) < 8:
        raise BytecodeError("the file is too short", name, 0, "FlatBuffer")
    return Table(data, int.from_bytes(data[:4], "little"), name)
