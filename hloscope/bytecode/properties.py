"""Attributes of ops in bytecode: inherent ones as properties, the others as a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from hloscope.bytecode.cursor import Cursor
from hloscope.bytecode.entries import Entries
from hloscope.bytecode.image import PROPERTIES, SECTIONS, Image
from hloscope.bytecode.segments import GROUPS, NAMES, NATIVE, unpacked
from hloscope.dialects import DEFINITIONS, DIALECTS
from hloscope.errors import UnsupportedError
from hloscope.mlir import NO_ATTRIBUTES, Attribute, DictAttr
from hloscope.vhlo import attributes_of

APPENDED: Final = frozenset({"reduction_op"})
"""Attributes that a newer version of a dialect has after all others of an op.

They are written only where they are given, so that older readers take the op without them.
"""
UNKNOWN_FUTURE: Final = "{}"
"""Name of a property of an op that this version does not know: its number."""


class Inherent(NamedTuple):
    """An inherent attribute: its name, and may it be missing?"""

    name: str
    optional: bool


@cache
def inherent(op: str, native: bool = False) -> tuple[Inherent, ...] | None:
    """The inherent attributes of an op in the order in which bytecode has them.

    >>> [one.name for one in inherent("builtin.module")]
    ['sym_name', 'sym_visibility']

    Args:
        op: Its name.
        native: Without the sizes of groups, which stand elsewhere in a new version of bytecode.
    """
    names = attributes_of(op)
    if names is not None:
        return tuple([Inherent(name, False) for name in names])
    definition = DEFINITIONS.get(op)
    if definition is None:
        return None
    slots = [slot for slot in definition.attributes if slot.name not in NAMES]
    found = [Inherent(slot.name, slot.optional) for slot in slots]
    if not native:
        found += [Inherent(name, False) for name, _ in GROUPS.get(op, ())]
    return tuple(sorted(found))


@cache
def registered(op: str) -> bool:
    """Is an op, by its name, one of a dialect that is known?

    >>> registered("vhlo.add_v1"), registered("mine.add")
    (True, False)
    """
    dialect = op.partition(".")[0]
    return dialect == "vhlo" or dialect in DIALECTS.named


class Properties:
    """Reads the attributes of ops."""

    def __init__(self, image: Image, entries: Entries) -> None:
        self.image, self.entries = image, entries
        self._known: dict[tuple[int, str], Mapping[str, Attribute]] = {}

    def dictionary(self, value: object, at: int, cursor: Cursor) -> Mapping[str, Attribute]:
        """The attributes of a dictionary."""
        if not isinstance(value, DictAttr):
            cursor.fail("the attributes of an op are not a dictionary", at)
        return dict(value.entries)

    def read(
        self, number: int, op: str, registered: bool, asking: Cursor
    ) -> Mapping[str, Attribute]:
        """The properties of that number, which are those of an op."""
        known = self._known.get((number, op))
        if known is not None:
            return known
        if number >= len(self.image.properties):
            asking.fail(f"properties {number:,} of {len(self.image.properties):,}")
        at, size = self.image.properties[number]
        cursor = Cursor(self.image.data, at, at + size, SECTIONS[PROPERTIES], self.image.name)
        self.entries.asked_by(cursor)
        found = self._read(op, registered, cursor)
        cursor.finish()
        self.entries.asked_by(asking)
        self._known[number, op] = found
        return found

    def _read(self, op: str, registered: bool, cursor: Cursor) -> Mapping[str, Attribute]:
        if not registered:
            return self.dictionary(self.entries.attribute(cursor.varint()), cursor.at, cursor)
        native = self.image.version >= NATIVE
        slots = inherent(op, native)
        found: dict[str, Attribute] = {}
        if slots is None:
            if not op.startswith("vhlo."):
                raise UnsupportedError(f"{op} has properties, of which nothing is known")
            # Of an op of a version to come only the number of its attributes can be told.
            while cursor.at < cursor.end:
                name = UNKNOWN_FUTURE.format(len(found))
                found[name] = self.entries.attribute(cursor.varint())
            return found
        for name, optional in slots:
            if name in APPENDED and cursor.at == cursor.end:
                continue
            number = cursor.varint()
            if optional and not number:
                continue
            if optional:
                if not number & 1:
                    cursor.fail("an optional attribute that is neither there nor missing")
                number >>= 1
            found[name] = self.entries.attribute(number)
        if native:
            for name, groups in GROUPS.get(op, ()):
                found[name] = unpacked(cursor, groups)
        return found

    def divided(
        self, op: str, attributes: Mapping[str, Attribute]
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Inherent attributes and others of a dictionary that has both, before version 5."""
        slots = inherent(op)
        if not registered(op):
            return NO_ATTRIBUTES, attributes
        if slots is None:
            return attributes, NO_ATTRIBUTES
        names = {slot.name for slot in slots}
        own = {name: value for name, value in attributes.items() if name in names}
        if len(own) == len(attributes):
            return own, NO_ATTRIBUTES
        return own, {name: value for name, value in attributes.items() if name not in names}
