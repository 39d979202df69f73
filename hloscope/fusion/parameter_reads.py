"""Accesses of a computation's values to its parameters, each computed once and shared.

A traversal from every instruction to the parameters would repeat the compositions along shared
paths for each start.  Here the accesses of a value are those of its operands, composed with one
instruction.  Queries about many values share all results below them, and the accesses to many
parameters are stored in tables with shared subtrees.
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
"""A value and the number of one of its tensors; inside this module, of one of its leaves."""
Ends: TypeAlias = Mapping[Leaf, Accesses]
"""Accesses by the parameter, or other value, at which they end."""

MANY: Final = 2
"""Number of accesses to one tensor above which contained ones are removed."""
LOOKS: Final = 64
"""Number of steps between two reads of the clock, which may take longer than a step."""
MOST_KEPT: Final = 300_000
"""Maximum number of memoized table parts and joins; if exceeded, all are discarded."""


class ParameterReads:
    """Accesses of the values of one computation to its parameters; all results are memoized."""

    def __init__(
        self,
        analysis: Analysis,
        computation: Computation,
        ends: Container[Instruction] = (),
        until: float = inf,
    ) -> None:
        """Start without results.

        Args:
            analysis: Gives the dependences of single instructions.
            computation: The computation whose parameters are read.
            ends: Further values at which accesses end.
            until: Limit of `process_time`, in seconds; past it `OutOfTimeError` is raised.
        """
        self._ends, self._until = ends, until
        self._analysis = analysis
        self._inside = analysis.positions(computation)
        self._forget()

    def _forget(self) -> None:
        self._tables = Tables(self._join, _is_plain, self._through)
        self._known: dict[Leaf, Table | None] = {}
        self._tensors: list[Leaf | None] = []

    def of(self, ins: Instruction, output: int) -> Ends:
        """Return the accesses from tensor number `output` of the value of `ins` to parameters.

        They are grouped by the tensor at which they end. It is in a parameter of the computation,
        in a value outside of it, or in one of the `ends` given to the constructor. Accesses are
        composed through fusions, calls and loops and never end at values inside of these.

        Raises:
            OutOfTimeError: The time limit is over.
        """
        leaf = self._analysis.leaf_of(ins.type, output)
        if leaf is None:
            return {}
        items = [*self._tables.items(self._of(ins, leaf))]
        ends = self._tensors
        return {end: some.accesses for number, some in items if (end := ends[number]) is not None}

    def _of(self, ins: Instruction, leaf: int) -> Table | None:
        """Return the table of the accesses of one leaf of a value."""
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
            # Postorder with an explicit stack: a value's table is joined when those of all its
            # operands are known. Chains are deeper than Python's recursion limit.
            missing = [target for flow in flows if (target := _target(top[0], flow)) not in known]
            if missing:
                stack += missing
                continue
            tables = [(flow.accesses, known[_target(top[0], flow)]) for flow in flows]
            known[top] = self._tables.joined(tables)
            del waiting[top]
        return known[ins, leaf]

    def _is_end(self, ins: Instruction) -> bool:
        """Is the value a parameter, one of the given ends, or outside the computation?"""
        return isinstance(ins.op, Parameter) or ins in self._ends or ins not in self._inside

    def _itself(self, end: Leaf) -> Node:
        """Return the table of an end, which has the identity access to it under a new number."""
        number = len(self._tensors)
        tensor = self._analysis.tensor_of(end[0].type, end[1])
        self._tensors.append(None if tensor is None else (end[0], tensor))  # a size has no tensor
        type = self._analysis.leaves(end[0].type)[end[1]]
        return self._tables.single(number, type, (self._analysis.interner.identity(type),))

    def _through(self, first: Accesses, then: Accesses) -> Accesses:
        """Return the compositions of two sets of plain accesses."""
        return tuple(composed(self._analysis.interner, first, then))

    def _join(self, type: Type, parts: Sequence[tuple[Accesses | None, Accesses]]) -> Accesses:
        """Return the union of the compositions of pairs of accesses that lead to one end.

        Contained accesses are removed if there are more than `MANY`, or any has constraints.
        """
        interner = self._analysis.interner
        found: AccessSet = {}
        for first, further in parts:
            reached = further if first is None else composed(interner, first, further)
            if reached:
                found = with_accesses(interner, found, reached, type)
        every = tuple(found)
        if len(every) <= 1 or (len(every) <= MANY and not any(map(_has_conditions, every))):
            return every
        return tuple(without_contained(every, type))


def _is_plain(accesses: Accesses) -> bool:
    """Is there just one access, exact, whose results are functions of dimensions without divisions?

    Such functions can be composed in any order with the same normal form.
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
    """Does the access have constraints or runtime variables?"""
    return access.map is not None and bool(access.map.constraints or access.map.runtime)


def _target(ins: Instruction, flow: Flow) -> Leaf:
    """Return the value and leaf that a dependence of `ins` leads to."""
    operand = flow.operand
    return (ins.operands[operand] if isinstance(operand, int) else operand, flow.leaf)
