"""What values read of the parameters of their computation, each found once and shared.

A walk from every instruction to the parameters would compose the maps of the same path anew for
each start.  Here what a value reads is what its operands read, seen through one instruction;
questions about many values of a computation share everything below them, and what they read of
many parameters is kept in tables that share what is alike.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import inf
from time import process_time
from typing import Final, TypeAlias

from hloscope.affine import divisions
from hloscope.errors import OutOfTimeError
from hloscope.fusion.access_interner import AccessSet
from hloscope.fusion.access_tables import Node, Table, Tables
from hloscope.fusion.analysis import Analysis
from hloscope.fusion.overapproximate import without_contained
from hloscope.fusion.traversal import Flow, composed, with_accesses
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, Type
from hloscope.ops import Parameter

Leaf: TypeAlias = tuple[Instruction, int]
"""A value and one of its tensors, on the way one of its leaves."""
Ends: TypeAlias = Mapping[Leaf, Accesses]
"""What is read of parameters and of values from outside."""

MANY: Final = 2
"""Of more accesses of one tensor, those that are inside others are left out."""
LOOKS: Final = 64
"""The clock is read once in so many steps: reading it may take longer than one of them."""
MOST_KEPT: Final = 300_000
"""Parts of tables, and joins of them, that are remembered; beyond that all is forgotten."""


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
        self._forget()

    def _forget(self) -> None:
        self._tables = Tables(self._join, _is_plain, self._through)
        self._known: dict[Leaf, Table | None] = {}
        self._numbered: list[Leaf] = []
        self._tensors: list[Leaf | None] = []

    def of(self, ins: Instruction, output: int) -> Ends:
        """What one tensor of a value reads; through fusions, calls and loops, not into them."""
        leaf = self._analysis.leaf_of(ins.type, output)
        if leaf is None:
            return {}
        items = [*self._tables.items(self._of(ins, leaf))]
        ends = self._tensors
        return {end: some.accesses for number, some in items if (end := ends[number]) is not None}

    def _of(self, ins: Instruction, leaf: int) -> Table | None:
        """What one leaf of a value reads."""
        if self._tables.size > MOST_KEPT:
            self._forget()
        known = self._known
        waiting: dict[Leaf, list[Flow]] = {}
        stack: list[Leaf] = [(ins, leaf)]
        steps = 0
        while stack:
            if not steps % LOOKS and self._until < inf and process_time() > self._until:
                raise OutOfTimeError(f"what `{ins.name}` reads of the parameters takes too long")
            steps += 1
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            flows = waiting.get(top)
            if flows is None:
                if self._is_end(top[0]):
                    known[top] = self._itself(top)
                    continue
                flows = waiting[top] = list(self._analysis.reads(*top))
            missing = [target for flow in flows if (target := _target(top[0], flow)) not in known]
            if missing:
                stack += missing
                continue
            tables = [(flow.accesses, known[_target(top[0], flow)]) for flow in flows]
            known[top] = self._tables.joined(tables)
            del waiting[top]
        return known[ins, leaf]

    def _is_end(self, ins: Instruction) -> bool:
        return isinstance(ins.op, Parameter) or ins in self._ends or ins not in self._inside

    def _itself(self, end: Leaf) -> Node:
        """An end reads itself; it gets a number by which tables know it."""
        number = len(self._numbered)
        self._numbered.append(end)
        tensor = self._analysis.tensor_of(end[0].type, end[1])
        self._tensors.append(None if tensor is None else (end[0], tensor))  # else a size
        type = self._analysis.leaves(end[0].type)[end[1]]
        return self._tables.single(number, type, (self._analysis.pool.identity(type),))

    def _through(self, first: Accesses, then: Accesses) -> Accesses:
        """Plain accesses, one after the other."""
        return tuple(composed(self._analysis.pool, first, then))

    def _join(self, type: Type, parts: Sequence[tuple[Accesses | None, Accesses]]) -> Accesses:
        """What is read of an end through accesses, each followed by others.

        Of many, or under conditions, those that others contain are left out.
        """
        pool = self._analysis.pool
        found: AccessSet = {}
        for first, further in parts:
            reached = further if first is None else composed(pool, first, further)
            if reached:
                found = with_accesses(pool, found, reached, type)
        every = tuple(found.values())
        if len(every) <= 1 or (len(every) <= MANY and not any(map(_has_conditions, every))):
            return every
        return tuple(without_contained(every, type))


def _is_plain(accesses: Accesses) -> bool:
    """Is it one exact access, by a function of the index alone, without divisions?

    Such functions can be composed in any order: the result is the same, in the same form.
    """
    if len(accesses) != 1:
        return False
    (access,) = accesses
    where = access.map
    if where is None or access != Access(where):
        return False
    if where.ranges or where.runtime or where.constraints:
        return False
    return not any(map(divisions, where.results))


def _has_conditions(access: Access) -> bool:
    return access.map is not None and bool(access.map.constraints or access.map.runtime)


def _target(ins: Instruction, flow: Flow) -> Leaf:
    operand = flow.operand
    return (ins.operands[operand] if isinstance(operand, int) else operand, flow.leaf)
