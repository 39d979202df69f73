"""Numbers of operands or results in each group of an op.

Before version 6 of bytecode they are an attribute like others. From version 6 they follow the
properties, as a list that may omit zeros.

Source: MLIR's `BytecodeImplementation.h` (`writeSparseArray`) and `OpDefinitionsGen.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.bytecode.cursor import Cursor, varint
from hloscope.mlir import I32, Attribute, DenseArrayAttr

OPERANDS, RESULTS = "operandSegmentSizes", "resultSegmentSizes"
NAMES: Final = (OPERANDS, RESULTS)
NATIVE: Final = 6
"""The first bytecode version that stores them apart from the attributes."""

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
"""Ops, with their numbers of operand groups and result groups.

Source: the definitions of the dialects.

"""

GROUPS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    op: tuple(zip(NAMES, map(int, counts), strict=False))
    for op, *counts in map(str.split, _ROWS.strip().splitlines())
}
"""The group lists of an op, by its name: the attribute and its number of groups."""

_DENSE_BEYOND: Final = 256
_MOST_PACKED: Final = 8
"""Maximum bits of a position that is packed with its number."""


def sizes_of(value: Attribute | None, groups: int) -> tuple[int, ...]:
    """Return the group sizes of an attribute.

    Raises:
        ValueError: The attribute is not a list of `groups` sizes.
    """
    if not isinstance(value, DenseArrayAttr) or len(value.values) != groups:
        raise ValueError(f"the sizes of {groups} groups are needed")
    if any(not 0 <= size < 1 << 31 for size in value.values):
        raise ValueError("a group has a size below 0")
    return value.values


def packed(sizes: Sequence[int]) -> bytes:
    """Encode group sizes as bytecode does from version 6.

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
    """Read group sizes, the inverse of `packed`, as the attribute that texts have."""
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
