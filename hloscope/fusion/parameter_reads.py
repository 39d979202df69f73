"""What values read of the parameters of their computation, each found once and shared.

A walk from every instruction to the parameters would compose the maps of the same path anew for
each start.  Here what a value reads is what its operands read, seen through one instruction;
questions about many values of a computation share everything below them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import inf
from time import process_time
from typing import Final, TypeAlias

from hloscope.errors import OutOfTimeError
from hloscope.fusion.analysis import Analysis
from hloscope.fusion.pool import AccessSet
from hloscope.fusion.walk import Flow, composed, with_accesses
from hloscope.fusion.widen import without_contained
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, Type
from hloscope.ops import Parameter

Leaf: TypeAlias = tuple[Instruction, int]
"""A value and one of its tensors, on the way one of its leaves."""
Ends: TypeAlias = Mapping[Leaf, Accesses]
"""What is read of parameters and of values from outside."""

MANY: Final = 2
"""Of more accesses of one tensor, those that are inside others are left out."""
MOST_KEPT: Final = 2_000_000
"""Pairs of a value and what it reads that are remembered; beyond that all is forgotten."""


class ParameterReads:
    """What the values of one computation read of its parameters."""

    def __init__(
        self,
        analysis: Analysis,
        computation: Computation,
        ends: Container[Instruction] = (),
        until: float = inf,
    ) -> None:
        """Start with nothing known.

        Args:
            analysis: Tells what one instruction reads.
            computation: The one whose parameters are read.
            ends: Further values that are not looked behind.
            until: When `process_time` is past this, `OutOfTimeError` is raised.
        """
        self._ends, self._until = ends, until
        self._analysis = analysis
        self._inside = analysis.positions(computation)
        self._known: dict[Leaf, Ends] = {}
        self._kept = 0

    def of(self, ins: Instruction, output: int) -> Ends:
        """What one tensor of a value reads; through fusions, calls and loops, not into them."""
        leaf, tensor_of = self._analysis.leaf_of(ins.type, output), self._analysis.tensor_of
        if leaf is None:
            return {}
        return {
            (end, tensor): accesses
            for (end, part), accesses in self._of(ins, leaf).items()
            if (tensor := tensor_of(end.type, part)) is not None  # else a size, no element
        }

    def _of(self, ins: Instruction, leaf: int) -> Ends:
        """What one leaf of a value reads."""
        known = self._known
        if self._kept > MOST_KEPT:
            known.clear()
            self._kept = 0
        waiting: dict[Leaf, list[Flow]] = {}
        stack: list[Leaf] = [(ins, leaf)]
        while stack:
            if process_time() > self._until:
                raise OutOfTimeError(f"what `{ins.name}` reads of the parameters takes too long")
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            flows = waiting.get(top)
            if flows is None:
                if self._is_end(top[0]):
                    identity = self._analysis.pool.identity(self._type(top))
                    known[top] = {top: (identity,)}
                    continue
                flows = waiting[top] = list(self._analysis.reads(*top))
            missing = [target for flow in flows if (target := _target(top[0], flow)) not in known]
            if missing:
                stack += missing
                continue
            known[top] = self._joined(top[0], flows)
            self._kept += len(known[top])
            del waiting[top]
        return known[ins, leaf]

    def _is_end(self, ins: Instruction) -> bool:
        return isinstance(ins.op, Parameter) or ins in self._ends or ins not in self._inside

    def _type(self, leaf: Leaf) -> Type:
        return self._analysis.leaves(leaf[0].type)[leaf[1]]

    def _joined(self, ins: Instruction, flows: list[Flow]) -> Ends:
        """What is read through the flows of one instruction."""
        known, pool = self._known, self._analysis.pool
        if len(flows) == 1 and flows[0].accesses is None:
            return known[_target(ins, flows[0])]
        sets: dict[Leaf, AccessSet] = {}
        for flow in flows:
            for end, accesses in known[_target(ins, flow)].items():
                reached = (
                    accesses if flow.accesses is None else composed(pool, flow.accesses, accesses)
                )
                if reached:
                    sets[end] = with_accesses(pool, sets.get(end, {}), reached, self._type(end))
        return {end: self._fewer(end, accesses) for end, accesses in sets.items()}

    def _fewer(self, end: Leaf, accesses: AccessSet) -> Accesses:
        """The accesses; of many, or under conditions, those that others contain are left out."""
        found = tuple(accesses.values())
        if len(found) <= 1 or (len(found) <= MANY and not any(map(_has_conditions, found))):
            return found
        return tuple(without_contained(found, self._type(end)))


def _has_conditions(access: Access) -> bool:
    return access.map is not None and bool(access.map.constraints or access.map.runtime)


def _target(ins: Instruction, flow: Flow) -> Leaf:
    operand = flow.operand
    return (ins.operands[operand] if isinstance(operand, int) else operand, flow.leaf)
