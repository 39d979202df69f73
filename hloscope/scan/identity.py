"""Structural digests of kernels, equal in every process and on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Final

import numpy as np
from msgspec import Struct

from hloscope.compare import Structure
from hloscope.fusion import leaf_types
from hloscope.indexing import Direction, lookup
from hloscope.ir import Computation, Instruction, Op, TensorType, TupleType, captures
from hloscope.ops import Constant, Fusion

_PLAIN: Final = frozenset({int, str, type(None)})
_OF_LABEL: Final = 4
"""Parts of the key of a label; the last part has the attributes that are kept as text."""


def encoded(value: object) -> bytes:
    """Encode a value as bytes; equal values have equal encodings, different values different ones.

    `repr` does not suffice: it abbreviates types of many elements, for example.

    Raises:
        TypeError: It has a part of an unknown class.

    >>> encoded((1, "a")) == encoded((1, "a")), encoded((1, ("a",))) == encoded(((1,), "a"))
    (True, False)
    >>> encoded(frozenset("abc")) == encoded(frozenset("cba"))
    True
    """
    parts: list[bytes] = []
    left: list[object] = [value]
    while left:
        one = left.pop()
        inside, text = _split(one)
        # The class and both lengths come first, so no concatenation of other values has the same
        # bytes.
        parts.append(b"%s %d %d:%s" % (type(one).__name__.encode(), len(inside), len(text), text))
        left += reversed(inside)
    return b"".join(parts)


def _split(one: object) -> tuple[list[object], bytes]:
    """Split a value into the values that it contains, and the text of the rest."""
    if isinstance(one, Enum):
        return [], one.name.encode()
    if one is None or isinstance(one, bool | int | float | complex):
        return [], repr(one).encode()
    if isinstance(one, str):
        return [], one.encode("utf-8", "surrogatepass")
    if isinstance(one, bytes):
        return [], one
    if isinstance(one, tuple | list):
        return list(one), b""
    if isinstance(one, frozenset | set):
        return [sorted(map(encoded, one))], b""
    if isinstance(one, Mapping):
        return [sorted((encoded(key), encoded(value)) for key, value in one.items())], b""
    if isinstance(one, np.ndarray):
        return [one.dtype.str, one.dtype.name, one.shape], one.tobytes()
    if hasattr(one, "written"):  # values with their text: literals, groups of devices
        return [one.written, getattr(one, "type", None)], b""
    if isinstance(one, Struct):
        return _values(one), b""
    raise TypeError(f"a value of {type(one).__name__} has no digest")


def _values(one: Struct) -> list[object]:
    """The values of the fields; for an op, also its name."""
    if isinstance(one, TupleType):
        return [one.elements]  # its other fields follow from them
    values = [getattr(one, name) for name in one.__struct_fields__]
    return [one.name, *values] if isinstance(one, Op) else values


class Digests(Structure):
    """Digests of instructions and computations: equal digests mean equal structure.

    As in comparisons of programs, names, the order of instructions, metadata and source positions
    do not count; types with their layouts, attributes, configurations and constants do.
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Computation, Mapping[Instruction, int]] = {}
        self._known: dict[object, int] = {}

    def number(self, key: object) -> int:
        """The 128-bit digest of a key, as an integer."""
        if not _is_plain(key):
            return int.from_bytes(blake2b(encoded(key), digest_size=16).digest())
        known = self._known.get(key)
        if known is None:
            digest = blake2b(encoded(key), digest_size=16).digest()
            known = self._known[key] = int.from_bytes(digest)
        return known

    def of_kernel(self, ins: Instruction, computation: Computation | None = None) -> str:
        """The digest of an instruction, of what it calls, and of the types and constants it reads.

        If maps may depend on values, as those of a slice on its start, the digest covers everything
        that the values are computed from.

        Args:
            ins: The instruction.
            computation: The computation of the instruction.

        Raises:
            TypeError: A part of it has no digest, or its computation is needed and not given.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> texts = ["ENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }",
        ...          "ENTRY f { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"]
        >>> len({Digests().of_kernel(parse_hlo(text).entry.root) for text in texts})
        1
        """
        for callee in ins.calls:
            self.of(callee)
        is_value_read = _reads_values(ins)
        values = ins.operands
        types = [self.type(value.type) for value in values]
        known = [self._value(value, computation, is_value_read) for value in values]
        places = {value: place for place, value in reversed(list(enumerate(values)))}
        # Two operands of one value differ from two equal values: the positions of first use tell
        # them apart.
        same = [places[value] for value in values]
        parts = (*self.called(ins), None, *types, None, *known, None, *same)
        key = ("kernel", self.label(ins), *parts)
        return f"{self.number(key):032x}"

    def _value(self, value: Instruction, computation: Computation | None, is_read: bool) -> int:
        """The digest of an operand's value: of its literal, or of what an index comes from.

        It is 0 if maps cannot depend on the value.
        """
        if isinstance(value.op, Constant):
            return self.label(value)
        if not is_read or not _is_index(value):
            return 0
        found = {} if computation is None else self._values_of(computation)
        if value not in found:
            raise TypeError(f"where the value of `{value.name}` is from is not known")
        return found[value]

    def _values_of(self, computation: Computation) -> Mapping[Instruction, int]:
        """Digests of a computation's values with everything they are computed from.

        Empty if the computation reads values from outside.
        """
        known = self._values.get(computation)
        if known is None:
            try:
                known = {} if captures(computation) else self.down(computation)
            except TypeError:
                known = {}
            self._values[computation] = known
        return known


def _is_plain(key: object) -> bool:
    """Does the key have only strings, integers and `None`, so that equal keys have equal encodings?

    `True == 1` and `0.0 == -0.0`, but they have different encodings.
    """
    if type(key) is not tuple:
        return False
    if key[:1] == ("label",) and len(key) == _OF_LABEL:
        key, extras = key[:-1], key[-1]
        return _PLAIN.issuperset(map(type, key)) and all(
            [type(word) is str for pair in extras for word in pair]
        )
    return _PLAIN.issuperset(map(type, key))


def _reads_values(ins: Instruction) -> bool:
    """May maps of the instruction depend on more than its op, types and called computations?"""
    if isinstance(ins.op, Fusion):
        return False  # its runtime variables are values inside, in terms of its parameters
    entries = [lookup(direction, type(ins.op)) for direction in Direction]
    is_ruled = all(entry is not None and entry.is_shared for entry in entries)
    return not is_ruled or any(map(_is_dynamic, (ins, *ins.operands)))


def _is_index(value: Instruction) -> bool:
    """Can the value, or a part of it, be an index, or have a dynamic size?"""
    kinds = [leaf.element.kind for leaf in leaf_types(value.type) if isinstance(leaf, TensorType)]
    return _is_dynamic(value) or any(kind in ("pred", "signed", "unsigned") for kind in kinds)


def _is_dynamic(value: Instruction) -> bool:
    leaves = leaf_types(value.type)
    return any(isinstance(leaf, TensorType) and not leaf.is_static for leaf in leaves)
