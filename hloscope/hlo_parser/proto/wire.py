"""Protobuf's wire format: bytes → messages whose fields the schema names.

Everything is bounded: nesting, the number of fields, and lengths, which end within their message.
Source: protobuf docs "Encoding".
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.proto.schema import FIELDS, IGNORED, MESSAGES, Field

MOST_FIELDS: Final = 1 << 23
"""Fields and numbers of lists in one file."""
_MOST_DEPTH: Final = 100
_WIRES: Final = {"double": 1, "float": 5, "string": 2, "bytes": 2}
_VARINTS: Final = ("int32", "int64", "uint32", "uint64", "bool", "enum")
_DEFAULTS: Final[dict[str, Any]] = {"string": "", "bytes": b"", "float": 0.0, "double": 0.0}


class File:
    """Bytes, what messages call them, and how much may still be read."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.left = name, data, MOST_FIELDS

    def fail(self, message: str, at: int, what: str) -> NoReturn:
        """Raise a `ParseError` about a message at an offset."""
        raise ParseError(f"{self.name}: {message} at byte {at}: {what}")

    def count(self, number: int, message: str, at: int) -> None:
        """Refuse files of too many fields."""
        self.left -= number
        if self.left < 0:
            self.fail(message, at, f"more than {MOST_FIELDS:,} fields")

    def varint(self, at: int, end: int, message: str) -> tuple[int, int]:
        """Return the number at an offset, and where it ends."""
        value = 0
        for number in range(10):
            if at + number >= end:
                self.fail(message, at, "the bytes end within a number")
            byte = self.data[at + number]
            value |= (byte & 127) << 7 * number
            if byte < 128:
                return value & (1 << 64) - 1, at + number + 1
        self.fail(message, at, "a number of more than ten bytes")


class Message:
    """One message: values of its fields, and where in the file it and they start."""

    __slots__ = ("_values", "at", "file", "name")

    def __init__(self, file: File, name: str, start: int, end: int, depth: int = 0) -> None:
        self.file, self.name, self.at = file, name, start
        self._values: dict[str, tuple[list[Any], int]] = {}
        if depth > _MOST_DEPTH:
            file.fail(name, start, f"messages nested more than {_MOST_DEPTH} deep")
        fields, ignored, at = MESSAGES[name], IGNORED.get(name, ()), start
        while at < end:
            begin = at
            file.count(1, name, at)
            tag, at = file.varint(at, end, name)
            number, wire = tag >> 3, tag & 7
            at, stop = self._extent(at, end, number, wire)
            field = fields.get(number)
            if field is not None:
                self._read(field, wire, begin, at, stop, depth)
            elif ignored is not None and number not in ignored:
                where = f"{file.name}: {name} at byte {begin}"
                raise UnsupportedError(f"{where}: field {number} is not known")
            at = stop

    def __getitem__(self, name: str) -> Any:
        """The value of a field, its default where it is not given; a list where it is repeated."""
        field = FIELDS[self.name][name]
        known = self._values.get(name)
        if field.repeated:
            return known[0] if known else []
        if known:
            return known[0][-1]
        if field.kind in MESSAGES:
            return Message(self.file, field.kind, 0, 0)
        return _DEFAULTS.get(field.kind, 0)

    def __contains__(self, name: str) -> bool:
        """Is the field given?"""
        return name in self._values

    def where(self, name: str) -> int:
        """Return the offset of the last value of a field, of the message where it is not given."""
        known = self._values.get(name)
        return known[1] if known else self.at

    def fail(self, name: str, what: str) -> NoReturn:
        """Raise a `ParseError` about a field."""
        self.file.fail(f"{self.name}.{name}", self.where(name), what)

    def refuse(self, name: str, what: str) -> NoReturn:
        """Raise an `UnsupportedError` about a field."""
        where = f"{self.file.name}: {self.name}.{name} at byte {self.where(name)}"
        raise UnsupportedError(f"{where}: {what}")

    def word(self, name: str, words: dict[int, str]) -> str:
        """Return the word for the number of an enumeration.

        Raises:
            UnsupportedError: It has none.
        """
        word = words.get(self[name])
        if word is None:
            self.refuse(name, f"value {self[name]} is not known")
        return word

    def _extent(self, at: int, end: int, number: int, wire: int) -> tuple[int, int]:
        """Where the value begins and ends."""
        file, name = self.file, self.name
        if number == 0:
            file.fail(name, at, "field 0 does not exist")
        match wire:
            case 0:
                return at, file.varint(at, end, name)[1]
            case 1 | 5:
                size = 8 if wire == 1 else 4
            case 2:
                size, at = file.varint(at, end, name)
            case _:
                file.fail(name, at, f"field {number} has wire type {wire}, which is not read")
        if size > end - at:
            what = f"field {number} is {size:,} bytes long, {end - at:,} are left"
            file.fail(name, at, what)
        return at, at + size

    def _read(self, field: Field, wire: int, begin: int, at: int, stop: int, depth: int) -> None:
        file, kind = self.file, field.kind
        values, _ = self._values.get(field.name, ([], 0))
        expected = 0 if kind in _VARINTS else _WIRES.get(kind, 2)
        if wire == 2 != expected and field.repeated:
            self._packed(values, kind, expected, at, stop)
        elif wire != expected:
            what = f"wire type {wire} where {expected} is expected"
            file.fail(f"{self.name}.{field.name}", begin, what)
        elif kind in MESSAGES:
            values.append(Message(file, kind, at, stop, depth + 1))
        elif kind == "string":
            values.append(file.data[at:stop].decode("utf-8", "surrogateescape"))
        elif kind == "bytes":
            values.append(file.data[at:stop])
        else:
            self._packed(values, kind, expected, at, stop)
        self._values[field.name] = values, begin

    def _packed(self, values: list[Any], kind: str, wire: int, at: int, stop: int) -> None:
        file = self.file
        if wire:
            size, code = (8, "d") if wire == 1 else (4, "f")
            count, rest = divmod(stop - at, size)
            if rest:
                file.fail(self.name, at, f"a list of {kind} of {stop - at:,} bytes")
            file.count(count, self.name, at)
            values += struct.unpack_from(f"<{count}{code}", file.data, at)
            return
        while at < stop:
            file.count(1, self.name, at)
            value, at = file.varint(at, stop, self.name)
            if kind[0] != "u" and value >> 63:
                value -= 1 << 64
            values.append(bool(value) if kind == "bool" else value)
