"""How often an element of a program's result reads each element of its parameters.

Counts flow from the result to the parameters, instruction by instruction, by the maps of single
instructions; no map is composed.  A read is a path, as an execution that adds up marks counts.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

import numpy as np
from numpy.typing import NDArray

from hloscope.affine import Dim, Range, Runtime, Var, evaluate_array, variables
from hloscope.indexing import IndexingMap
from hloscope.indexing.analysis import output_to_input
from hloscope.indexing.rules.registry import leaves, sizes
from hloscope.ir.graph import Computation, Instruction
from hloscope.ops.control import GetTupleElement, Tuple
from tests.fusion.truth import Point, Values

Numbers = NDArray[np.int64]
Place = tuple[Instruction, int]
"""An instruction and a leaf of its value."""


class Counts:
    """Counts of one computation, with the integers it was run with."""

    def __init__(self, computation: Computation, values: Values) -> None:
        self._computation, self._values = computation, values
        self._arrays: dict[Instruction, Numbers] = {}

    def of(self, output: int, at: Point) -> dict[int, dict[Point, int]]:
        """For each parameter: the elements read and how often."""
        counts: dict[Place, Numbers] = {}
        start = self._zeros(self._computation.root, output)
        start[at] = 1
        counts[self._computation.root, output] = start
        for ins in reversed(self._computation.instructions):
            for leaf in range(len(leaves(ins.type))):
                found = counts.get((ins, leaf))
                if found is not None and found.any():
                    self._back(ins, leaf, found, counts)
        read: dict[int, dict[Point, int]] = defaultdict(dict)
        for k, parameter in enumerate(self._computation.parameters):
            found = counts.get((parameter, 0))
            for p in [] if found is None else np.argwhere(found).tolist():
                read[k][tuple(p)] = int(counts[parameter, 0][tuple(p)])
        return read

    def _zeros(self, ins: Instruction, leaf: int) -> Numbers:
        return np.zeros(sizes(leaves(ins.type)[leaf]), dtype=np.int64)

    def _back(
        self, ins: Instruction, leaf: int, found: Numbers, counts: dict[Place, Numbers]
    ) -> None:
        """Hand the counts of an instruction's value on to its operands."""
        if isinstance(ins.op, Tuple):
            self._add(counts, (ins.operands[leaf], 0), found)
            return
        if isinstance(ins.op, GetTupleElement):
            self._add(counts, (ins.operands[0], ins.op.index), found)
            return
        for operand, accesses in zip(ins.operands, output_to_input(ins, leaf), strict=True):
            for access in accesses:
                assert access.map is not None
                handed = self._zeros(operand, access.leaf)
                self._through(access.map, found, handed)
                self._add(counts, (operand, access.leaf), handed)

    def _add(self, counts: dict[Place, Numbers], place: Place, more: Numbers) -> None:
        counts[place] = counts[place] + more if place in counts else more

    def _through(self, m: IndexingMap, found: Numbers, handed: Numbers) -> None:
        """Add the counts of all elements to those that the map takes them to."""
        if m.is_known_empty:
            return
        elements = np.argwhere(found)
        weights = found[tuple(elements.T)] if found.ndim else found.reshape(1)
        spans = [v.interval for v in m.ranges]
        widths = [i.hi - i.lo + 1 for i in spans]
        steps = np.indices(widths, dtype=np.int64).reshape(len(widths), prod(widths))
        at: dict[Var, Numbers] = {Dim(i): elements[:, i, None] for i in range(found.ndim)}
        at |= {Range(i): (steps[i] + s.lo)[None, :] for i, s in enumerate(spans)}
        shape = (len(weights), prod(widths))
        self._read(m, at, shape)
        holds = np.ones(shape, dtype=bool)
        for e, interval in (*m.box.items(), *m.constraints):
            value = evaluate_array(e, at)
            holds &= (interval.lo <= value) & (value <= interval.hi)
        where = tuple(np.broadcast_to(evaluate_array(e, at), shape)[holds] for e in m.results)
        repeated = np.broadcast_to(weights[:, None], shape)[holds]
        if where:
            np.add.at(handed, where, repeated)
        else:
            handed += repeated.sum()

    def _read(self, m: IndexingMap, at: dict[Var, Numbers], shape: tuple[int, int]) -> None:
        """Give the runtime variables their values, clamped to their bounds."""
        left = list(range(len(m.runtime)))
        while left:
            i = next(i for i in left if variables(*m.runtime[i].index) <= at.keys())
            left.remove(i)
            variable = m.runtime[i]
            assert variable.origin is not None
            array = self._array(variable.origin)
            index = [np.broadcast_to(evaluate_array(e, at), shape) for e in variable.index]
            clipped = [np.clip(x, 0, n - 1) for x, n in zip(index, array.shape, strict=True)]
            value = array[tuple(clipped)] if index else np.broadcast_to(array, shape)
            at[Runtime(i)] = np.clip(value, variable.values.lo, variable.values.hi)

    def _array(self, ins: Instruction) -> Numbers:
        if ins not in self._arrays:
            shape = sizes(ins.type)
            found = [self._values.at(ins, p) for p in np.ndindex(*shape)]
            self._arrays[ins] = np.array(found, dtype=np.int64).reshape(shape)
        return self._arrays[ins]
