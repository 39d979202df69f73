"""Dynamic slices with equal starts: what one reads is told of the others.

What they read depends on where they start, so a rule does not share its answers, and looking for
starts that are known takes longer than the rule.  Of loops over layers most have the same shapes,
the same constants, and one start that nothing is known of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from hloscope.fusion.blueprint import with_origins
from hloscope.fusion.pool import Pool
from hloscope.fusion.walk import Flow
from hloscope.ir import WIDE, Instruction, operand_type_ids
from hloscope.lazy import lazy
from hloscope.ops import Constant, DynamicSlice, DynamicUpdateSlice

if TYPE_CHECKING:
    import hloscope.fusion.values as values
else:
    values = lazy("hloscope.fusion.values")

SLICES: Final = frozenset((DynamicSlice, DynamicUpdateSlice))
"""Ops whose rules see starts as values that are read, and nothing else of other instructions."""
Key: TypeAlias = tuple[object, ...]


class Starts:
    """What dynamic slices read, by what their rule and the search for known starts look at."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[Key, tuple[Instruction, tuple[Flow, ...]]] = {}

    def key(self, ins: Instruction) -> Key | None:
        """Instructions of equal keys read the same but for where starts are read from.

        Of each operand it says which constant it is, or, of those of which nothing is known, which
        of the operands are the same value; `None` where a start is computed from what is known.
        """
        operands = ins.operands
        if type(ins.op) not in SLICES or len(operands) > WIDE:
            return None
        seen: dict[Instruction, bool] = {}
        first: dict[Instruction, int] = {}
        which: list[int] = []
        for k, operand in enumerate(operands):
            which.append(first.setdefault(operand, k))
            if type(operand.op) is Constant:
                which.append(id(operand.op))
            elif values.may_be_known(operand, seen):
                return None
        return id(ins.op), id(ins.type), operand_type_ids(ins), tuple(which)

    def told(self, key: Key, ins: Instruction) -> tuple[Flow, ...] | None:
        """What an instruction reads, if it is known of one with the same key."""
        known = self._known.get(key)
        if known is None:
            return None
        other, flows = known
        new = dict(zip(other.operands, ins.operands, strict=True))
        told: list[Flow] = []
        for flow in flows:
            accesses = flow.accesses
            if accesses is not None:
                accesses = self._pool.keep_all([with_origins(a, new) for a in accesses])
            told.append(Flow(flow.operand, flow.leaf, accesses))
        return tuple(told)

    def remember(self, key: Key, ins: Instruction, flows: tuple[Flow, ...]) -> None:
        """Remember what an instruction reads, which keeps alive what the key names."""
        self._known[key] = ins, flows
