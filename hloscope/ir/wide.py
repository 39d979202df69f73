"""Facts of all operands of an instruction, where it has very many.

Each operand is asked about in turn, and what concerns all of them is found once, not each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from hloscope.ir.graph import Instruction

T = TypeVar("T")
WIDE: Final = 256
"""Of instructions with more operands what was found last is remembered."""


class of_last(Generic[T]):  # noqa: N801  # a decorator
    """A function of an instruction that remembers its last answer about a wide one.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = f32[1] parameter(0) ROOT t = (f32[1]) tuple(p) }")
    >>> of_last(lambda ins: len(ins.operands))(module.entry.root)
    1
    """

    def __init__(self, function: Callable[[Instruction], T]) -> None:
        self._function = function
        self._last: tuple[Instruction, T] | None = None

    def __call__(self, ins: Instruction) -> T:
        """The answer about an instruction."""
        if len(ins.operands) <= WIDE:
            return self._function(ins)
        last = self._last
        if last is None or last[0] is not ins:
            last = self._last = ins, self._function(ins)  # one assignment, for threads
        return last[1]


class Hashed:
    """What is the same of many operands, hashed once."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self._hash = hash(values)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Hashed) and self.values == other.values)

    def __hash__(self) -> int:
        return self._hash


def operand_types(ins: Instruction) -> tuple[Any, ...] | Hashed:
    """The types of the operands, as part of a key."""
    if len(ins.operands) <= WIDE:
        return tuple([operand.type for operand in ins.operands])
    return _types(ins)


def operand_type_ids(ins: Instruction) -> tuple[int, ...] | Hashed:
    """The identities of the types of the operands, as part of a key."""
    if len(ins.operands) <= WIDE:
        return tuple([id(operand.type) for operand in ins.operands])
    return _type_ids(ins)


@of_last
def _types(ins: Instruction) -> Hashed:
    return Hashed(tuple([operand.type for operand in ins.operands]))


@of_last
def _type_ids(ins: Instruction) -> Hashed:
    return Hashed(tuple([id(operand.type) for operand in ins.operands]))
