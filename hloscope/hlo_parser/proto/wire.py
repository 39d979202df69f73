"""Protobuf's wire format: messages decoded from bytes, with the field names of the schema.

A message finds the positions of its fields on the first access to one, and decodes a value on
access. So an unused field is never decoded. Nesting, number of fields and lengths are limited, and
lengths end within their message.

Source: protobuf docs "Encoding".
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.proto.schema import FIELDS, IGNORED, MESSAGES, Field
from hloscope.support.arrays import np
from hloscope.support.lazy import pattern

MOST_FIELDS: Final = 3 << 20
"""Maximum number of fields and listed numbers in one file, those of literals not counted."""
MOST_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of one file's literals that become text; values beyond are omitted."""
_MOST_DEPTH: Final = 100
_VARINT, _LENGTH = 0, 2
_SIZES: Final = {1: 8, 5: 4}
_KINDS: Final = {field.kind for fields in MESSAGES.values() for field in fields.values()}
_WIRE: Final = dict.fromkeys(_KINDS, _LENGTH) | {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool", "enum"), _VARINT),
    **{"double": 1, "float": 5},
}
"""Wire type of each kind of field, by the name of the kind."""
Extents: TypeAlias = "tuple[int, ...] | array[int]"
"""Start and end offset of each value of a field, alternating.

An array if there are several values.
"""
_ONE: Final = pattern(rb"[\x80-\xff]*+[\x00-\x7f]")
"""Pattern of one varint."""
_DEFAULTS: Final[dict[str, Any]] = {"string": "", "bytes": b"", "float": 0.0, "double": 0.0}


def _wires(field: Field) -> set[int]:
    """Return the wire types that a field may have: a list of numbers may be packed or not."""
    return {_WIRE[field.kind], *([_LENGTH] if field.repeated else [])}


def _tags(fields: dict[int, Field]) -> dict[int, tuple[str, int, bool]]:
    """Return the fields by the bytes of their tags: name, wire type, whether it is repeated."""
    tags: dict[int, tuple[str, int, bool]] = {}
    for number, field in fields.items():
        for wire in _wires(field):
            tag = number << 3 | wire
            written = tag if tag < 128 else tag & 127 | 128 | tag >> 7 << 8
            tags[written] = field.name, wire, field.repeated
    return tags


def tag_of(message: str, name: str) -> bytes:
    r"""Return the bytes of a field's tag, which come before its length or value.

    Args:
        message: Name of the message type.
        name: Name of the field.

    >>> tag_of("HloModuleProto", "name"), tag_of("OpMetadata", "scheduling_name")
    (b'\n', b'\x82\x01')
    """
    (tag,) = [tag for tag, field in _TAGS[message].items() if field[0] == name]
    return tag.to_bytes(1 + (tag > 127), "little")


_UNUSUAL: Final = "", -1, False
"""Entry for a tag that is not encoded in the fewest bytes, or of a field that is not read."""


def _default(field: Field) -> Any:
    return () if field.repeated else _DEFAULTS.get(field.kind, 0)


_TAGS: Final = {message: _tags(fields) for message, fields in MESSAGES.items()}
_ABSENT: Final = {
    message: {
        field.name: _default(field)
        for field in fields.values()
        if field.repeated or field.kind not in MESSAGES
    }
    for message, fields in MESSAGES.items()
}
"""Default values of absent fields, by message and field; an absent message is empty."""


class File:
    """The bytes of a file and its name in errors, how many fields may still be read, and caches."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.left = name, data, MOST_FIELDS
        self.elements = MOST_ELEMENTS
        self.types: dict[bytes, str] = {}
        """Texts of types by their bytes; a program has few types, each many times."""
        self.metadata: dict[bytes, str] = {}
        """Texts of metadata by the bytes of the metadata."""
        self.metadata_fields: dict[tuple[str, bytes | None], str] = {}
        """Texts of single fields of metadata, by the field's name and the value's bytes."""
        self.metadata_halves: dict[bytes, tuple[str, str]] = {}
        """Text of metadata before and after the scheduling name, by the bytes before that name."""

    def fail(self, message: str, at: int, what: str) -> NoReturn:
        """Raise a `ParseError` at offset `at` about a message of the type `message`.

        `what` says what is wrong.
        """
        raise ParseError(f"{self.name}: {message} at byte {at}: {what}")

    def count(self, number: int, message: str, at: int) -> None:
        """Subtract `number` fields from those that may still be read.

        Args:
            number: Number of fields or listed numbers that were found.
            message: Name of the message type, for the error.
            at: Offset of the message, for the error.

        Raises:
            ParseError: The file has more than `MOST_FIELDS`.
        """
        self.left -= number
        if self.left < 0:
            self.fail(message, at, f"more than {MOST_FIELDS:,} fields")

    def varint(self, at: int, end: int, message: str) -> tuple[int, int]:
        """Return the number in the varint at offset `at`, and the varint's end.

        Args:
            at: The offset.
            end: End of the bytes that may be read.
            message: Name of the message type, for errors.
        """
        value = shift = 0
        for byte in self.data[at : min(end, at + 10)]:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value & (1 << 64) - 1, at + shift // 7
        if end - at < 10:
            self.fail(message, at, "the bytes end within a number")
        self.fail(message, at, "a number of more than ten bytes")


class Message:
    """One message; a field's value is decoded when it is first read."""

    __slots__ = ("_depth", "_end", "_extents", "_values", "at", "file", "name")

    def __init__(self, file: File, name: str, start: int, end: int, depth: int = 0) -> None:
        self.file, self.name, self.at = file, name, start
        self._end, self._depth = end, depth
        self._extents: dict[str, Extents] | None = None
        self._values: dict[str, Any] | None = None
        if depth > _MOST_DEPTH:
            file.fail(name, start, f"messages nested more than {_MOST_DEPTH} deep")

    def __getitem__(self, name: str) -> Any:
        """Return the value of the field `name`, or its default if it is absent.

        The value is a tuple if the field is repeated.
        """
        values = self._values
        if values is None:
            values = self._values = {}
        elif name in values:
            return values[name]
        places = (self._extents or self._found()).get(name)
        if places is None:
            absent = _ABSENT[self.name]
            if name in absent:
                return absent[name]
            places = 0, 0
        field = FIELDS[self.name][name]
        if field.is_text:  # as most are
            value = self.file.data[places[-2] : places[-1]].decode("utf-8", "surrogateescape")
        else:
            value = self._value(field, places)
        values[name] = value
        return value

    @property
    def data(self) -> bytes:
        """The bytes of the message."""
        return self.file.data[self.at : self._end]

    @property
    def length(self) -> int:
        """The number of bytes of the message."""
        return self._end - self.at

    def values_except(self, names: frozenset[str]) -> tuple[Any, ...]:
        """Return the names of all fields but `names`, and the bytes of their values.

        The results for two messages are equal if and only if those fields are.
        """
        data, found = self.file.data, self._extents or self._found()
        try:
            values: list[Any] = [data[at:end] for k, (at, end) in found.items() if k not in names]
        except ValueError:  # a field has several
            values = [tuple(self.all_field_bytes(k)) for k in found if k not in names]
        return tuple(found), *values

    def field_bytes(self, name: str) -> bytes | None:
        """Return the bytes of the value of field `name`.

        `None` if the field is absent or has several values.
        """
        places = (self._extents or self._found()).get(name, _NONE)
        return self.file.data[places[0] : places[1]] if len(places) == 2 else None

    def without_end(self, size: int) -> Message:
        """Return a message that has the same bytes except for the last `size`."""
        return Message(self.file, self.name, self.at, self._end - size, self._depth)

    def all_field_bytes(self, name: str) -> list[bytes]:
        """Return the bytes of each value of the repeated field `name`."""
        places, data = (self._extents or self._found()).get(name, _NONE), self.file.data
        if len(places) == 2:  # as of most
            return [data[places[0] : places[1]]]
        return [data[at:stop] for at, stop in zip(places[::2], places[1::2], strict=True)]

    def varints(self, name: str) -> list[bytes]:
        """Return the bytes of each varint of the repeated field `name`."""
        pieces = self.all_field_bytes(name)
        if any([piece[-1:] > b"\x7f" for piece in pieces]):
            self[name]  # raises the error
        found: list[bytes] = _ONE.findall(b"".join(pieces))
        self.file.count(len(found), self.name, self.at)
        return found

    @property
    def present_fields(self) -> Iterable[str]:
        """Names of the fields that are present, ordered by their position in the file."""
        return self._extents or self._found()

    def __contains__(self, name: str) -> bool:
        """Is the field `name` present?"""
        return name in (self._extents or self._found())

    def is_set(self, name: str) -> bool:
        """Is the field `name` present, and its last value not empty?"""
        places = (self._extents or self._found()).get(name)
        return places is not None and places[-2] < places[-1]

    def lacks(self, names: frozenset[str]) -> bool:
        """Are all fields in `names` absent?"""
        return names.isdisjoint(self._extents or self._found())

    def each(self, name: str) -> Iterator[Message]:
        """Yield the messages in the repeated field `name`; they are not stored."""
        kind, places = FIELDS[self.name][name].kind, self._found().get(name, _NONE)
        for at, stop in zip(places[::2], places[1::2], strict=True):
            yield Message(self.file, kind, at, stop, self._depth + 1)

    def numbers(self, name: str) -> Any:
        """Return the numbers of the repeated field `name` as a one-dimensional numpy array."""
        kind = FIELDS[self.name][name].kind
        places, wire = self._found().get(name, _NONE), _WIRE[kind]
        data = np.frombuffer(self.file.data, np.uint8)
        if len(places) != 2:
            pieces = [data[at:stop] for at, stop in zip(places[::2], places[1::2], strict=True)]
            data = np.concatenate([data[:0], *pieces])
        else:
            data = data[places[0] : places[1]]
        if wire == _VARINT:
            return self._varints(name, kind, data)
        if len(data) % _SIZES[wire]:
            self.fail(name, f"a list of {kind} of {len(data):,} bytes")
        return data.view(f"<f{_SIZES[wire]}")

    def size(self, name: str) -> int:
        """Return the number of bytes of all values of the field `name`."""
        places = self._found().get(name, _NONE)
        return sum(places[1::2]) - sum(places[::2])

    def drop_values(self) -> None:
        """Drop the decoded values from memory; the next access decodes them again."""
        self._extents = self._values = None

    def offset_of(self, name: str) -> int:
        """Return the offset in the file of the last value of field `name`.

        If the field is absent, return the offset of the message.
        """
        places = self._found().get(name)
        return places[-2] if places else self.at

    def fail(self, name: str, message: str) -> NoReturn:
        """Raise a `ParseError` at the field `name`; `message` says what is wrong."""
        self.file.fail(f"{self.name}.{name}", self.offset_of(name), message)

    def refuse(self, name: str, message: str) -> NoReturn:
        """Raise an `UnsupportedError` about the field `name`; `message` says the reason."""
        where = f"{self.file.name}: {self.name}.{name} at byte {self.offset_of(name)}"
        raise UnsupportedError(f"{where}: {message}")

    def word(self, name: str, words: dict[int, str]) -> str:
        """Return the word in `words` for the number in the enum field `name`.

        Raises:
            UnsupportedError: The number is not in `words`.
        """
        word = words.get(self[name])
        if word is None:
            self.refuse(name, f"value {self[name]} is not known")
        return word

    def _found(self) -> dict[str, Extents]:
        """Return the offsets of the values of each field that is present."""
        if self._extents is None:
            self._extents = self._scan()
        return self._extents

    def _scan(self) -> dict[str, Extents]:
        file, at, end = self.file, self.at, self._end
        data, tags = file.data, _TAGS[self.name]
        found: dict[str, Extents] = {}
        # `left` counts the fields that the file may still have, so the limit needs no extra step.
        # The branches are ordered by frequency: short lengths, small numbers, lengths of two bytes,
        # long numbers. `_unusual` handles all other cases, and every error.
        for left in range(file.left, -1, -1):
            if at >= end:
                file.left = left
                return found
            begin = at
            tag = data[at]
            at += 1
            if tag > 127 and at < end:
                tag |= data[at] << 8
                at += 1
            key, wire, repeated = tags.get(tag, _UNUSUAL)
            size = data[at] if at < end else 128
            if size < 128 and wire == _LENGTH:
                at += 1
                stop = at + size
            elif size < 128 and wire == _VARINT:
                stop = at + 1
            elif wire == _LENGTH and at + 1 < end and data[at + 1] < 128:  # a length of two bytes
                stop = at + 2 + (size & 127 | data[at + 1] << 7)
                at += 2
            elif wire == _VARINT and (number := _ONE.match(data, at, min(end, at + 10))):
                stop = number.end()
            else:
                key, at, stop, repeated = self._unusual(begin)
            if stop > end:
                what = f"is {stop - at:,} bytes long, {end - at:,} are left"
                file.fail(self.name, at, f"field {self._tag(begin)[0] >> 3} {what}")
            if not key:
                pass
            # In protobuf the last value of a field counts, so only repeated fields store earlier
            # values.
            elif not repeated or (before := found.get(key)) is None:
                found[key] = at, stop
            else:
                if isinstance(before, tuple):
                    before = found[key] = array("q", before)
                before.extend((at, stop))
            at = stop
        file.fail(self.name, at, f"more than {MOST_FIELDS:,} fields")

    def _tag(self, at: int) -> tuple[int, int]:
        """Return number and wire type of the field at offset `at`, and the start of its value."""
        if self.file.data[at] < 128:
            return self.file.data[at], at + 1
        return self.file.varint(at, self._end, self.name)

    def _unusual(self, begin: int) -> tuple[str, int, int, bool]:
        """Return the field at offset `begin` in any valid encoding.

        The result has its name, start and end of the value, and whether the field is repeated. The
        name is empty if the field is not read.
        """
        tag, at = self._tag(begin)
        at, stop = self._extent(at, tag)
        if stop > self._end:
            return "", at, stop, False
        field = MESSAGES[self.name].get(tag >> 3)
        if field is None or tag & 7 not in _wires(field):
            self._check_ignorable(tag, begin)
            return "", at, stop, False
        return field.name, at, stop, field.repeated

    def _extent(self, at: int, tag: int) -> tuple[int, int]:
        """Return start and end of the value at offset `at` with the wire type of `tag`."""
        file, name, wire = self.file, self.name, tag & 7
        if not tag >> 3:
            file.fail(name, at, "field 0 does not exist")
        if wire == _VARINT:
            found = _ONE.match(file.data, at, min(self._end, at + 10))
            return at, found.end() if found else file.varint(at, self._end, name)[1]
        if wire == _LENGTH:
            size, at = file.varint(at, self._end, name)
            return at, at + size
        if wire not in _SIZES:
            file.fail(name, at, f"field {tag >> 3} has wire type {wire}, which is not read")
        return at, at + _SIZES[wire]

    def _check_ignorable(self, tag: int, begin: int) -> None:
        """Raise an error if a field with this tag may not be skipped: only fields in `IGNORED` may.

        `begin` is the offset of the tag.
        """
        file, name, number = self.file, self.name, tag >> 3
        field, ignored = MESSAGES[name].get(number), IGNORED.get(name, ())
        if field is not None:
            what = f"wire type {tag & 7} where {_WIRE[field.kind]} is expected"
            file.fail(f"{name}.{field.name}", begin, what)
        if not number:
            file.fail(name, begin, "field 0 does not exist")
        if ignored is not None and number not in ignored:
            where = f"{file.name}: {name} at byte {begin}"
            raise UnsupportedError(f"{where}: field {number} is not known")

    def _value(self, field: Field, places: Sequence[int]) -> Any:
        if not field.repeated and _WIRE[field.kind] == _VARINT:
            return self._number(field.kind, places[-2])
        if field.kind in MESSAGES:
            if field.repeated:
                return tuple(self.each(field.name))
            at, stop = places[-2:]
            return Message(self.file, field.kind, at, stop, self._depth + 1)
        if not field.repeated:
            return self._values_at(field.kind, *places[-2:])[-1]
        pairs = zip(places[::2], places[1::2], strict=True)
        return tuple([value for a, b in pairs for value in self._values_at(field.kind, a, b)])

    def _values_at(self, kind: str, at: int, stop: int) -> list[Any]:
        """Return the text, the bytes, or the packed numbers at `[at, stop)`, as a list.

        `kind` is the type of the field.
        """
        if _WIRE[kind] != _LENGTH:
            return self._numbers(kind, at, stop)
        value = self.file.data[at:stop]
        return [value.decode("utf-8", "surrogateescape") if kind == "string" else value]

    def _number(self, kind: str, at: int) -> int:
        """Return the number of type `kind` at offset `at`."""
        file = self.file
        file.count(1, self.name, at)
        value = file.data[at]
        if value > 127:
            value, _ = file.varint(at, self._end, self.name)
            if value >> 63 and kind[0] != "u":
                value -= 1 << 64
        return value if kind != "bool" else value > 0

    def _numbers(self, kind: str, at: int, stop: int) -> list[Any]:
        """Return the packed numbers of type `kind` at `[at, stop)`."""
        file, wire, data = self.file, _WIRE[kind], self.file.data
        if not wire and stop - at == 1 and data[at] < 128:  # as most are
            file.count(1, self.name, at)
            return [data[at] if kind != "bool" else data[at] > 0]
        if wire:
            size = _SIZES[wire]
            count, rest = divmod(stop - at, size)
            if rest:
                file.fail(self.name, at, f"a list of {kind} of {stop - at:,} bytes")
            file.count(count, self.name, at)
            return list(struct.unpack_from(f"<{count}{'d' if size == 8 else 'f'}", file.data, at))
        values = []
        while at < stop:
            value = data[at]
            if value < 128:
                at += 1
            else:
                value, at = file.varint(at, stop, self.name)
                if value >> 63 and kind[0] != "u":
                    value -= 1 << 64
            values.append(value)
        if kind == "bool":
            values = list(map(bool, values))
        file.count(len(values), self.name, at)
        return values

    def _varints(self, name: str, kind: str, data: Any) -> Any:
        """Return the packed varints in `data` as an array, with the values that `_numbers` returns.

        Args:
            name: Name of the field, for errors.
            kind: Type of the numbers.
            data: The bytes.
        """
        # The last byte of each varint is below 128, so all varints are found at once; then byte
        # `place` of all of them is added in one step.
        ends = np.flatnonzero(data < 128) + 1
        if len(data) and (not len(ends) or ends[-1] != len(data)):
            self.fail(name, "the bytes end within a number")
        starts = np.concatenate([ends[:1] * 0, ends[:-1]])
        sizes = ends - starts
        longest = int(sizes.max(initial=0))
        if longest > 10:
            self.fail(name, "a number of more than ten bytes")
        values = np.zeros(len(ends), np.uint64)
        for place in range(longest):
            there = sizes > place
            part = data[starts[there] + place].astype(np.uint64) & np.uint64(127)
            values[there] |= part << np.uint64(7 * place)
        if kind == "bool":
            return values != 0
        return values if kind[0] == "u" else values.view(np.int64)


_NONE: Final = ()
