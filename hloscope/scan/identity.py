"""Identity of kernels by structure, the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b

import numpy as np

from hloscope.compare import Structure
from hloscope.ir import Instruction, Op
from hloscope.ops import Constant


def encoded(value: object) -> bytes:
    """A value as bytes: equal values have equal ones, and others others.

    `repr` would not do: types of many elements, for one, are abbreviated in it.

    Raises:
        TypeError: It is made of what is not known here.

    >>> encoded((1, "a")) == encoded((1, "a")), encoded((1, ("a",))) == encoded(((1,), "a"))
    (True, False)
    >>> encoded(frozenset("abc")) == encoded(frozenset("cba"))
    True
    """
    parts: list[bytes] = []
    left: list[object] = [value]
    while left:
        one = left.pop()
        inside, text = _taken_apart(one)
        parts.append(b"%s %d %d:%s" % (type(one).__name__.encode(), len(inside), len(text), text))
        left += reversed(inside)
    return b"".join(parts)


def _taken_apart(one: object) -> tuple[list[object], bytes]:
    """The values that a value is made of, and what it is apart from them."""
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
    if isinstance(one, Op):
        return [one.name, *(getattr(one, name) for name in type(one).fields)], b""
    if hasattr(one, "written"):  # kept as it stands in the program: literals, groups of devices
        return [one.written, getattr(one, "type", None)], b""
    if is_dataclass(one) and not isinstance(one, type):
        return [getattr(one, field.name) for field in fields(one) if field.compare], b""
    raise TypeError(f"a value of {type(one).__name__} has no digest")


class Digests(Structure):
    """Digests of instructions and computations: equal ones mean equal structure.

    As in comparisons of programs, names, the order of instructions, metadata and places do not
    count; types with their layouts, attributes, configurations and constants do.
    """

    def number(self, key: object) -> int:
        """The digest of something, of 128 bits."""
        return int.from_bytes(blake2b(encoded(key), digest_size=16).digest())

    def of_kernel(self, ins: Instruction) -> str:
        """The digest of an instruction, what it calls, and of the types and constants it reads.

        Raises:
            TypeError: Something in it has no digest.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> texts = ["ENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }",
        ...          "ENTRY f { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"]
        >>> len({Digests().of_kernel(parse_hlo(text).entry.root) for text in texts})
        1
        """
        for callee in ins.calls:
            self.of(callee)
        operands = [
            (self._once(value.type), self.label(value) if isinstance(value.op, Constant) else 0)
            for value in ins.operands
        ]
        same = [ins.operands.index(value) for value in ins.operands]
        key = ("kernel", self.label(ins), self.called(ins), tuple(operands), tuple(same))
        return f"{self.number(key):032x}"
