"""The entries of a bytecode file (attributes, types and locations), decoded on first use.

Entries refer to each other by their number in the file. So a damaged file may contain a cycle, deep
nesting, or a small entry that expands to an astronomical number of parts. Entries are read with an
explicit stack, and each has its nesting depth and its number of parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.ir import Type
from hloscope.mlir import Attribute, Location, StructAttr, VerbatimAttr, parse_attribute, parse_type
from hloscope.mlir.dialects import DIALECTS, sdy_text
from hloscope.stablehlo.bytecode.encodings import ATTRIBUTES, ENCODINGS, LOCATIONS, TEXT, TYPES
from hloscope.stablehlo.bytecode.fields import KINDS, BytecodeError, Cursor, read_bits
from hloscope.stablehlo.bytecode.image import Image, entry_cursor
from hloscope.stablehlo.vhlo import ATTRIBUTES as VHLO_ATTRIBUTES, TYPES as VHLO_TYPES, CodeRow
from hloscope.support.limits import MOST_NESTING

MOST_PARTS: Final = 1 << 16
"""Maximum number of attributes and types inside one entry, each counted at every use."""
_MOST_DEEP_LOCATION: Final = 190

CODES: Final = {
    **{(dialect, False, row.code): row for dialect, rows in ATTRIBUTES.items() for row in rows},
    **{(dialect, True, row.code): row for dialect, rows in TYPES.items() for row in rows},
    **{("vhlo", False, row.code): row for row in VHLO_ATTRIBUTES},
    **{("vhlo", True, row.code): row for row in VHLO_TYPES},
}
"""Row of the encoding, by (dialect, whether it is a type, code in the file)."""

NOT_READ: Final = {
    ("builtin", False, 19): "tensors of strings",
    ("builtin", False, 20): "sparse tensors",
    ("builtin", False, 21): "distinct attributes",
}
"""Valid entries that are not supported, in words, by (dialect, whether it is a type, code)."""

_MOST_WRITTEN, _TIMES = 1 << 26, 64
"""Limits of the expanded size of all entries in bytes: a constant, and a factor of the file size.

Programs of compilers are far below them. A long string that every op repeats exceeds them.
"""

_UNREAD: Final = object()


class _Scanned:
    """An entry with the values of its fields.

    The entries with the numbers `refs` may still be unread.
    """

    __slots__ = ("cursor", "fields", "refs", "row")

    def __init__(self, row: CodeRow, fields: list[Any], refs: list[int], cursor: Cursor) -> None:
        self.row, self.fields, self.refs, self.cursor = row, fields, refs, cursor


class Entries:
    """The attributes, types and locations of a file, by their number."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.values: list[Any] = [_UNREAD] * len(image.entries)
        self._weights: dict[int, tuple[int, int]] = {}
        self._scanned: dict[int, _Scanned] = {}
        self._sizes: dict[int, int] = {}
        self._left = _MOST_WRITTEN + _TIMES * len(image.data)
        self._cursor: Cursor | None = None
        self._inside_sdy = False
        # Decoded types with their sizes, and locations: every op asks for some, by few numbers.
        self._types: dict[int, tuple[Type, int]] = {}
        self._locations: dict[int, Location] = {}

    # ---------------------------------------------------------------------------- by number

    def attribute(self, number: int) -> Attribute:
        """Return the attribute of this number.

        Raises:
            BytecodeError: The number is too large, or the attribute is a location.
        """
        found = self._attribute(number)
        if isinstance(found, StructAttr) and found.dialect == "sdy" and not self._inside_sdy:
            try:
                return VerbatimAttr(sdy_text(found))
            except (ValueError, TypeError, AttributeError) as error:
                self._fail(f"{found.name}: {error}")
        if isinstance(found, LOCATIONS):
            self._fail(f"attribute {number:,} is a location where none may be")
        self._spend(number)
        return found  # type: ignore[no-any-return]

    def location(self, number: int) -> Location:
        """Return the location of this number.

        Raises:
            BytecodeError: The entry of this number is not a location.
        """
        known = self._locations.get(number)
        if known is not None:
            return known
        found = self._attribute(number)
        if not isinstance(found, LOCATIONS):
            self._fail(f"attribute {number:,} is not a location")
        self._locations[number] = found
        return found  # type: ignore[no-any-return]

    def types(self, numbers: Iterable[int]) -> list[Type]:
        """Return the types of these numbers, in the same order.

        Raises:
            BytecodeError: A number is too large.
        """
        known = self._types
        found = []
        for number in numbers:
            pair = known.get(number)
            if pair is None:
                one = self.type(number)
                known[number] = one, self._sizes.get(number + self.image.attributes, 8)
            else:
                one, size = pair
                # A use of a known type counts as much as the first one: the limit is on expanded
                # size.
                self._left -= size
            found.append(one)
        if self._left < 0:
            self._spend(0)
        return found

    def type(self, number: int) -> Type:
        """Return the type of this number.

        Raises:
            BytecodeError: The number is too large.
        """
        if not 0 <= number < len(self.values) - self.image.attributes:
            self._fail(f"type {number:,} of {len(self.values) - self.image.attributes:,}")
        number += self.image.attributes
        found = self._read(number)
        self._spend(number)
        return found  # type: ignore[no-any-return]

    def _spend(self, number: int) -> None:
        """Subtract the expanded size of an entry, in bytes, from what remains of the file's limit.

        `number` is the number of the entry.

        Raises:
            BytecodeError: The limit is exceeded.
        """
        self._left -= self._sizes.get(number, 8)
        if self._left < 0:
            self._fail("the attributes and types of its ops are too many, written out")

    def string(self, number: int) -> bytes:
        """Return the string of this number."""
        assert self._cursor is not None
        return self.image.string(number, self._cursor)

    def resource(self, number: int) -> str:
        """Return the name of the resource of this number."""
        found = self.image.resources
        if number >= len(found):
            self._fail(f"resource {number:,} of {len(found):,}")
        return found[number].name

    def _attribute(self, number: int) -> Any:
        if not 0 <= number < self.image.attributes:
            self._fail(f"attribute {number:,} of {self.image.attributes:,}")
        return self._read(number)

    def set_cursor(self, cursor: Cursor) -> None:
        """Set the cursor of the section that uses entries, whose position later errors have."""
        self._cursor = cursor

    def _fail(self, message: str) -> None:
        cursor = self._cursor or Cursor(b"", 0, 0, "AttrType", self.image.name)
        cursor.fail(message)

    # ------------------------------------------------------------------------------ reading

    def _read(self, number: int) -> Any:
        found = self.values[number]
        if found is not _UNREAD:
            return found
        asking = self._cursor
        # Depth first, in place of recursion: an entry stays on the stack until all that it refers
        # to is decoded. An entry on the stack that is referred to again contains itself.
        stack = [number]
        while stack:
            top = stack[-1]
            if self.values[top] is not _UNREAD:
                stack.pop()
                continue
            scanned = self._scanned.get(top)
            if scanned is None:
                scanned = self._scan(top)
                missing = [ref for ref in scanned.refs if self.values[ref] is _UNREAD]
                if missing:
                    if any(ref in self._scanned for ref in missing):
                        scanned.cursor.fail("an attribute or type is a part of itself")
                    stack += missing
                    continue
            self._finish(top, scanned)
        self._cursor = asking
        return self.values[number]

    def _scan(self, number: int) -> _Scanned:
        image = self.image
        entry = image.entries[number]
        cursor = entry_cursor(image, entry)
        is_type = number >= image.attributes
        if not entry.coded:
            found = _Scanned(TEXT, [_text_of(cursor), is_type], [], cursor)
            self._scanned[number] = found
            return found
        code = cursor.varint()
        row = CODES.get((entry.dialect, is_type, code))
        if row is None:
            kind = "type" if is_type else "attribute"
            if (entry.dialect, is_type, code) in NOT_READ:
                what = NOT_READ[entry.dialect, is_type, code]
                raise UnsupportedError(f"the file has {what}, which are not read")
            cursor.fail(f"unknown {entry.dialect} {kind} code: {code}", entry.at)
        refs: list[int] = []
        # The first step only collects the numbers of other entries; a negative one is the
        # complement of a type's number. They are checked before any of them is used as an index.
        fields = [KINDS[kind].read(cursor, refs) for _, kind in row.fields]
        types = len(image.entries) - image.attributes
        numbers = []
        for ref in refs:
            if ref >= image.attributes or ~ref >= types:
                what = f"attribute {ref:,}" if ref >= 0 else f"type {~ref:,}"
                cursor.fail(f"{what} is not there")
            numbers.append(ref if ref >= 0 else ~ref + image.attributes)
        found = self._scanned[number] = _Scanned(row, fields, numbers, cursor)
        return found

    def _finish(self, number: int, scanned: _Scanned) -> None:
        # Its expanded size is checked before the value is created: a small damaged entry could
        # otherwise fill the memory.
        self._weigh(number, scanned)
        row, cursor = scanned.row, scanned.cursor
        self._cursor = cursor
        self._inside_sdy = row.value[0] == "sdy"
        values: list[Any] = []
        try:
            if row is TEXT:
                text, is_type = scanned.fields
                parse = parse_type if is_type else parse_attribute
                self.values[number] = parse(text, dialects=DIALECTS)
                return
            for (_, kind), raw in zip(row.fields, scanned.fields, strict=True):
                # The width of these bits depends on the field before, the type, which is resolved
                # by now.
                if kind == "bits":
                    values.append(read_bits(cursor, values[-1]))
                else:
                    values.append(KINDS[kind].resolve(self, raw))
            cursor.finish()
            self.values[number] = ENCODINGS[row.value[0]].make(row.argument, *values)
        # Errors of the text parser or of a constructor have no position in the file; they get the
        # entry's.
        except BytecodeError:
            raise
        except HloscopeError as error:
            cursor.fail(f"{row.name}: {error.message}")
        except (ValueError, TypeError, AttributeError) as error:
            cursor.fail(f"{row.name}: {error}")
        finally:
            self._inside_sdy = False
            self._scanned.pop(number, None)

    def _weigh(self, number: int, scanned: _Scanned) -> None:
        depth, parts = 0, 1 + len(scanned.refs)
        for ref in scanned.refs:
            # Depth and parts follow from those of the parts, so shared entries are not expanded.
            deep, many = self._weights.get(ref, (1, 1))
            depth, parts = max(depth, deep), parts + many
        most = _MOST_DEEP_LOCATION if scanned.row.name.endswith("Loc") else MOST_NESTING
        if depth >= most:
            scanned.cursor.fail(f"nesting is deeper than {most}")
        if parts > max(MOST_PARTS, 4 * len(scanned.refs)):
            scanned.cursor.fail(f"an attribute or type stands for more than {MOST_PARTS:,} others")
        if scanned.refs:
            self._weights[number] = depth + 1, parts
        entry = self.image.entries[number]
        size = entry.size + sum([self._sizes.get(ref, 8) for ref in scanned.refs])
        if scanned.row.value[0] == "string":
            size += len(self.image.string(scanned.fields[0], scanned.cursor))
        self._sizes[number] = size


def _text_of(cursor: Cursor) -> str:
    raw = bytes(cursor.data[cursor.at : cursor.end])
    if not raw.endswith(b"\0") or b"\0" in raw[:-1]:
        cursor.fail("malformed null-terminated string, no null character found")
    return raw[:-1].decode("utf-8", "surrogateescape")
