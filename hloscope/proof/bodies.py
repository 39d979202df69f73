"""Steps that know what bodies depend on, by following single elements through these."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import Any, Final

from hloscope.arrays import Ints, np
from hloscope.fusion import BY_CONVENTION, READS, RECURSIVE, Blueprints, Convention, source_in
from hloscope.indexing import (
    UNKNOWN_COUNTS,
    Bodies,
    Dependence,
    DeviceCounts,
    by_convention,
    sizes,
    unravel,
)
from hloscope.ir import Computation, Instruction, inside_out
from hloscope.proof.graph import Reached, Steps, Walker
from hloscope.proof.points import Touching
from hloscope.proof.reads import Values
from hloscope.simplifier import UndecidedError

TRIALS: Final = 3
"""Values read at run time are drawn so many times."""
ELEMENTS: Final = 16
"""Elements of a result that are followed."""


class StepsThroughBodies(Steps):
    """What one instruction reads, where the bodies it calls may ignore what they are given."""

    def __init__(
        self, convention: Convention = "structural", counts: DeviceCounts = UNKNOWN_COUNTS
    ) -> None:
        super().__init__(counts)
        self._convention: Final = convention
        self._blueprints = Blueprints()
        self._known: dict[int, Dependence] = {}
        self._open: set[int] = set()

    def bodies(self, ins: Instruction) -> Bodies:
        """What the computations do that an instruction calls."""
        found = tuple([self._dependence(callee) for callee in ins.calls])
        is_conventional = self._convention == "xla" and isinstance(ins.op, BY_CONVENTION)
        return by_convention(ins, found) if is_conventional else found

    def _dependence(self, callee: Computation) -> Dependence:
        """What a body does; those of operations in it are looked at before it."""
        number = self._blueprints.number(callee)
        if number not in self._known:
            if number in self._open:
                raise UndecidedError(RECURSIVE)
            self._open.add(number)
            try:
                for inner in _bodies(callee):
                    with suppress(UndecidedError):  # perhaps nothing comes from there
                        self._dependence(inner)
                self._known[number] = self._followed(callee)
            finally:
                self._open.discard(number)
        return self._known[number]

    def _followed(self, callee: Computation) -> Dependence:
        """What is reached of the parameters from each leaf of the root."""
        first = [0]
        for parameter in callee.parameters:
            first.append(first[-1] + len(self.leaves(parameter.type)))
        reads, sure, aligned, unchanged = [], [], [], []
        for leaf, type in enumerate(self.leaves(callee.root.type)):
            points = _elements(sizes(type))
            trials = [self._reached(callee, leaf, points, seed) for seed in range(TRIALS)]
            found: dict[int, list[Reached[Any]]] = {}
            for trial in trials:
                for (number, i), reached in trial.items():
                    found.setdefault(first[number] + i, []).append(reached)
            reads.append(frozenset(found))
            sure.append(frozenset(k for k, some in found.items() if _is_sure(some)))
            aligned.append(frozenset(k for k, some in found.items() if _is_aligned(some, points)))
            source, inner = source_in(self, callee, leaf)
            is_parameter = source in callee.parameters
            at = first[callee.parameters.index(source)] + inner if is_parameter else -1
            unchanged.append(at)
        return Dependence(tuple(reads), tuple(sure), tuple(aligned), tuple(unchanged))

    def _reached(
        self, callee: Computation, leaf: int, points: Ints, seed: int
    ) -> dict[tuple[int, int], Reached[Any]]:
        follower = Touching(Values(seed))
        walker = Walker(self, follower)
        return walker.parameters(callee.root, leaf, follower.start(points), callee)


def _bodies(computation: Computation) -> list[Computation]:
    """Bodies of operations in it and in what it calls, inner ones first."""
    inner = list(inside_out(computation, ()))
    called = {c for top in inner for ins in top if type(ins.op) not in READS for c in ins.calls}
    return [c for c in inner if c in called and c is not computation]


def _elements(shape: tuple[int, ...]) -> Ints:
    """Some indices of a tensor: all of a small one."""
    total = prod(shape)
    flat = np.unique(np.linspace(0, max(total - 1, 0), min(total, ELEMENTS)).astype(np.int64))
    index = unravel(flat, shape)
    return np.stack(index, axis=1) if shape else np.zeros((total, 0), np.int64)


def _is_sure(trials: list[Reached[Any]]) -> bool:
    """Is something reached whatever is drawn?"""
    return len(trials) == TRIALS and all(
        reached.elements is not None and not reached.unknown and not reached.over
        for reached in trials
    )


def _is_aligned(trials: list[Reached[Any]], points: Ints) -> bool:
    """Does each element reach itself and no other?"""
    start = Touching(Values()).start(points)
    rows = next(iter(start.values()))
    return all(
        reached.elements is not None
        and reached.elements.keys() == start.keys()
        and all(np.array_equal(found, rows) for found in reached.elements.values())
        for reached in trials
    )
