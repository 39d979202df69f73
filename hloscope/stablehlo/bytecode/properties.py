"""Attributes of ops in bytecode: inherent ones are properties, the others a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hloscope.errors import UnsupportedError
from hloscope.mlir import I32, NO_ATTRIBUTES, Attribute, DenseArrayAttr, DictAttr
from hloscope.mlir.dialects import DEFINITIONS, DIALECTS
from hloscope.stablehlo.bytecode.entries import Entries
from hloscope.stablehlo.bytecode.fields import Cursor, varint
from hloscope.stablehlo.bytecode.image import PROPERTIES, SECTIONS, Image
from hloscope.stablehlo.vhlo import attributes_of

# --------------------------------------------------------------------------------------------------
# Attributes of ops in bytecode: properties for inherent ones, a dictionary for the others.


APPENDED: Final = frozenset({"reduction_op"})
"""Attributes that later versions of a dialect have after an op's other attributes.

They are written only if the op has them, so that older readers accept an op without them.
"""
UNKNOWN_FUTURE: Final = "{}"
"""Pattern of the name of an attribute in the properties of an unknown op: `{}` is its index.

The file has no names of properties.
"""


class Inherent(NamedTuple):
    """The name of an inherent attribute, and whether an op may omit it."""

    name: str
    optional: bool


def inherent(op: str, separate_sizes: bool = False) -> tuple[Inherent, ...] | None:
    """Return the inherent attributes of an op in the order of bytecode; `None` for an unknown op.

    >>> [one.name for one in inherent("builtin.module")]
    ['sym_name', 'sym_visibility']

    Args:
        op: Name of the op.
        separate_sizes: Omit the sizes of operand and result groups, which bytecode from version 6
            on stores separately.
    """
    names = attributes_of(op)
    if names is not None:
        return tuple([Inherent(name, False) for name in names])
    definition = DEFINITIONS.get(op)
    if definition is None:
        return None
    slots = [slot for slot in definition.attributes if slot.name not in NAMES]
    found = [Inherent(slot.name, slot.optional) for slot in slots]
    if not separate_sizes:
        found += [Inherent(name, False) for name, _ in GROUPS.get(op, ())]
    return tuple(sorted(found))


def registered(op: str) -> bool:
    """Does an op name belong to a known dialect?

    >>> registered("vhlo.add_v1"), registered("mine.add")
    (True, False)
    """
    dialect = op.partition(".")[0]
    return dialect == "vhlo" or dialect in DIALECTS.named


class Properties:
    """Reads the attributes of ops, given the properties and entries of a file."""

    def __init__(self, image: Image, entries: Entries) -> None:
        self.image, self.entries = image, entries
        # Ops share properties; each is decoded once for each op name.
        self._known: dict[tuple[int, str], Mapping[str, Attribute]] = {}

    def dictionary(self, value: object, at: int, cursor: Cursor) -> Mapping[str, Attribute]:
        """Return the entries of a dictionary attribute, by name.

        Args:
            value: The attribute; an error is raised if it is no dictionary.
            at: Offset that errors state.
            cursor: Cursor that raises errors.
        """
        if not isinstance(value, DictAttr):
            cursor.fail("the attributes of an op are not a dictionary", at)
        return dict(value.entries)

    def read(
        self, number: int, op: str, registered: bool, caller_cursor: Cursor
    ) -> Mapping[str, Attribute]:
        """Return the attributes in the properties of this number, for an op of the name `op`.

        `registered`: whether the file has the op as registered. Errors have the position of
        `caller_cursor`.
        """
        known = self._known.get((number, op))
        if known is not None:
            return known
        if number >= len(self.image.properties):
            caller_cursor.fail(f"properties {number:,} of {len(self.image.properties):,}")
        at, size = self.image.properties[number]
        cursor = Cursor(self.image.data, at, at + size, SECTIONS[PROPERTIES], self.image.name)
        self.entries.set_cursor(cursor)
        found = self._read(op, registered, cursor)
        cursor.finish()
        self.entries.set_cursor(caller_cursor)
        self._known[number, op] = found
        return found

    def _read(self, op: str, registered: bool, cursor: Cursor) -> Mapping[str, Attribute]:
        if not registered:
            return self.dictionary(self.entries.attribute(cursor.varint()), cursor.at, cursor)
        separate_sizes = self.image.version >= NATIVE
        slots = inherent(op, separate_sizes)
        found: dict[str, Attribute] = {}
        if slots is None:
            if not op.startswith("vhlo."):
                raise UnsupportedError(f"{op} has properties, of which nothing is known")
            # An op of a later VHLO version: its attributes are known by number only.
            while cursor.at < cursor.end:
                name = UNKNOWN_FUTURE.format(len(found))
                found[name] = self.entries.attribute(cursor.varint())
            return found
        for name, optional in slots:
            # Optional attributes have a flag in the lowest bit; appended ones may be absent at the
            # end.
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
        if separate_sizes:
            for name, groups in GROUPS.get(op, ()):
                found[name] = unpacked(cursor, groups)
        return found

    def divided(
        self, op: str, attributes: Mapping[str, Attribute]
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Split the attributes of an op into inherent and discardable ones.

        Bytecode before version 5 has both in one dictionary.
        """
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


# --------------------------------------------------------------------------------------------------
# Numbers of operands or results in each group of an op.
#
# Before version 6 of bytecode they are an attribute like others. From version 6 they follow the
# properties, as a list that may omit zeros.
#
# Source: MLIR's `BytecodeImplementation.h` (`writeSparseArray`) and `OpDefinitionsGen.cpp`.


OPERANDS, RESULTS = "operandSegmentSizes", "resultSegmentSizes"
NAMES: Final = (OPERANDS, RESULTS)
NATIVE: Final = 6
"""The first bytecode version that stores the sizes of operand and result groups separately."""

_ROWS: Final = """
    bufferization.alloc_tensor 3
    cf.cond_br 3
    cf.switch 3
    chlo.scan 2 2
    memref.alloc 2
    memref.alloca 2
    memref.reinterpret_cast 4
    memref.subview 4
    scf.forall 4
    scf.parallel 4
    tensor.extract_slice 4
    tensor.insert_slice 5
    tensor.pad 3
    tensor.parallel_insert_slice 5
"""
"""Ops with operand or result groups: op, number of operand groups, number of result groups.

Source: the definitions of the dialects.
"""

GROUPS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    op: tuple(zip(NAMES, map(int, counts), strict=False))
    for op, *counts in map(str.split, _ROWS.strip().splitlines())
}
"""For each op name, the attributes that have its group sizes, each with the number of groups."""

_DENSE_BEYOND: Final = 256
_MOST_PACKED: Final = 8
"""Maximum bits of a group's index that is packed into one integer with the group's size."""


def sizes_of(value: Attribute | None, groups: int) -> tuple[int, ...]:
    """Return the group sizes in an attribute, one for each of `groups` groups.

    Raises:
        ValueError: The attribute is not a list of `groups` sizes.
    """
    if not isinstance(value, DenseArrayAttr) or len(value.values) != groups:
        raise ValueError(f"the sizes of {groups} groups are needed")
    if any(not 0 <= size < 1 << 31 for size in value.values):
        raise ValueError("a group has a size below 0")
    return value.values


def packed(sizes: Sequence[int]) -> bytes:
    """Encode the sizes of operand or result groups, as bytecode does from version 6.

    >>> packed((1, 1, 0)).hex(), packed((0, 2, 0)).hex(), packed((0, 0)).hex()
    ('0d030301', '07030b', '03')
    """
    # MLIR writes only nonzero sizes, each with its position in the low bits, unless most are
    # nonzero or a position is too large.
    there = [(at, size) for at, size in enumerate(sizes) if size]
    last = there[-1][0] if there else 0
    if last > _DENSE_BEYOND or len(there) > len(sizes) // 2:
        return varint(len(sizes) << 1) + b"".join(map(varint, sizes))
    out = varint(len(there) << 1 | 1)
    if there:
        bits = last.bit_length()
        out += varint(bits) + b"".join([varint(size << bits | at) for at, size in there])
    return out


def unpacked(cursor: Cursor, groups: int) -> DenseArrayAttr:
    """Read group sizes that `packed` encoded from a cursor.

    Return them as the attribute that texts have. `groups` is the number of groups.
    """
    at = cursor.at
    head = cursor.varint()
    count = head >> 1
    if count > groups:
        cursor.fail(f"sizes of {count:,} groups where there are {groups}", at)
    sizes = [0] * groups
    if not head & 1:
        sizes[:count] = [cursor.varint() for _ in range(count)]
    elif count:
        bits = cursor.varint()
        if bits > _MOST_PACKED:
            cursor.fail(f"a position of {bits:,} bits", at)
        for _ in range(count):
            number = cursor.varint()
            position = number & ((1 << bits) - 1)
            if position >= groups:
                cursor.fail(f"group {position} of {groups}", at)
            sizes[position] = number >> bits
    if any(size >= 1 << 31 for size in sizes):
        cursor.fail("a group is too large", at)
    return DenseArrayAttr(I32, tuple(sizes))
