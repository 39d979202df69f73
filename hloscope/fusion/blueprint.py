"""Computations numbered by structure, so that 80 equal layers are analysed once."""

from __future__ import annotations

from typing import Final, TypeVar

from hloscope.ir import Computation, Instruction, TensorType, Type, inside_out
from hloscope.ops import Constant

_T = TypeVar("_T")


class Numbering:
    """Numbers values by equality, asking for their hash once per object."""

    def __init__(self) -> None:
        self._by_value: dict[object, int] = {}
        self.known: Final[dict[int, tuple[object, int]]] = {}
        """Values and their numbers, by identity."""

    def __call__(self, value: object) -> int:
        """Number of `value`; equal values have equal numbers."""
        known = self.known.get(id(value))
        if known is None:
            number = self._by_value.setdefault(value, len(self._by_value))
            known = self.known[id(value)] = (value, number)
        return known[1]


class Blueprints:
    """Gives every computation a number; equal numbers mean equal structure.

    Structure is what indexing can depend on: ops, types with layouts, wiring, called computations.
    Names, metadata, spans and the values of floating-point constants are no part of it.
    """

    def __init__(self) -> None:
        self.op_number = Numbering()
        self.type_number = Numbering()
        self._numbers: dict[object, int] = {}
        self._of: dict[Computation, int] = {}

    def op_of(self, ins: Instruction) -> int:
        """Number of the instruction's op; floating-point constants share one."""
        if type(ins.op) is Constant and not _is_integer(ins.type):
            return -1
        return self.op_number(ins.op)

    def number(self, computation: Computation) -> int:
        """Number of the computation's structure."""
        known = self._of.get(computation)
        if known is None:
            for inner in inside_out(computation, self._of):
                known = self._numbers.setdefault(self._key(inner), len(self._numbers))
                self._of[inner] = known
            known = self._of[computation]
        return known

    def _key(self, computation: Computation) -> object:
        position: dict[Instruction, int] = {}
        row: list[object] = []
        add = row.append
        ops, types = self.op_number.known, self.type_number.known
        for at, ins in enumerate(computation.instructions):
            position[ins] = at
            op = ops.get(id(ins.op))
            add(self.op_of(ins) if op is None or type(ins.op) is Constant else op[1])
            of_type = types.get(id(ins.type))
            add(self.type_number(ins.type) if of_type is None else of_type[1])
            for value in ins.operands:
                add(position.get(value, value))  # a region may read outer values
            for callee in ins.calls:
                number = self._of.get(callee)
                add(callee if number is None else ~number)  # itself: it calls this computation
            add(None)
        add(position[computation.root])
        return tuple(row)


def _is_integer(type: Type) -> bool:
    return isinstance(type, TensorType) and type.element.kind in ("pred", "signed", "unsigned")
