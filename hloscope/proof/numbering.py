"""Structural numbers of values: equal numbers mean equal graphs, and so equal values."""

from __future__ import annotations

from typing import Final

from hloscope.fusion import StructureIds
from hloscope.ir import Computation, Instruction, captured, captures
from hloscope.ops import Call, Fusion, GetTupleElement, Parameter, Tuple

CALLING: Final = (Call, Fusion)
"""Ops whose value is the root of their called computation."""


class Numbering:
    """Structural numbers of the values of several computations.

    An element of a tuple is numbered by its own inputs, independent of the other elements.  So a
    change of one result of a function leaves the numbers of its other results unchanged.
    """

    def __init__(self) -> None:
        self._structure_ids = StructureIds()
        self._table: dict[object, int] = {}
        self._used: dict[int, tuple[int, ...]] = {}
        self.structure_id: Final = self._structure_ids.number

    def of(self, side: Computation) -> dict[Instruction, int]:
        """Return the number of each instruction of a computation."""
        known: dict[Instruction, int] = {}
        for ins in side:
            if isinstance(ins.op, GetTupleElement):
                whole, index = ins.operands[0], ins.op.index
                # An element of a tuple is the operand itself.
                if isinstance(whole.op, Tuple) and whole in known:
                    known[ins] = known[whole.operands[index]]
                    continue
                made_of = self._made_of(whole, index)
                if made_of is not None:
                    key = self._key(whole, made_of, known)
                    known[ins] = self._table.setdefault((index, key), len(self._table))
                    continue
            key = self._key(ins, ins.operands, known)
            known[ins] = self._table.setdefault(key, len(self._table))
        return known

    def _key(
        self,
        ins: Instruction,
        operands: tuple[Instruction, ...],
        known: dict[Instruction, int],
    ) -> tuple[object, ...]:
        """Return the key of an instruction with the given operands."""
        number = self._structure_ids
        return (
            number.op_of(ins),
            number.type_number(ins.type),
            *[known.get(operand, operand) for operand in operands],
            None,
            *[number.number(callee) for callee in ins.calls],
        )

    def _made_of(self, ins: Instruction, index: int) -> tuple[Instruction, ...] | None:
        """Return the operands that element `index` of a called tuple depends on.

        `None` if they are not known.
        """
        if not isinstance(ins.op, CALLING) or len(ins.calls) != 1 or captured(ins):
            return None
        callee = ins.calls[0]
        if not isinstance(callee.root.op, Tuple):
            return None
        number = self._structure_ids.number(callee)
        if number not in self._used:
            self._used[number] = _used_parameters(callee)
        used = self._used[number][index]
        if used.bit_length() > len(ins.operands):
            return None
        return tuple([operand for k, operand in enumerate(ins.operands) if used >> k & 1])


def _used_parameters(callee: Computation) -> tuple[int, ...]:
    """Return, for each operand of the root, a bit mask of the parameters it depends on."""
    used: dict[Instruction, int] = {}
    for ins in callee:
        bits = 1 << ins.op.number if isinstance(ins.op, Parameter) else 0
        for operand in ins.operands:
            bits |= used.get(operand, 0)
        for inner in ins.calls:
            for value in captures(inner):
                bits |= used.get(value, 0)
        used[ins] = bits
    return tuple([used[operand] for operand in callee.root.operands])
