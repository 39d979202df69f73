"""Traversal steps that compute the dependences of called bodies by following single elements."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import Any, Final

from hloscope.arrays import Ints, np
from hloscope.fusion import BY_CONVENTION, READS, RECURSIVE, Convention, StructureIds, source_in
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
"""Number of draws of the values read at run time."""
ELEMENTS: Final = 16
"""Maximum number of elements of a result that are followed."""


class StepsThroughBodies(Steps):
    """Dependences of single instructions; a body need not use all its parameters."""

    def __init__(
        self, convention: Convention = "structural", counts: DeviceCounts = UNKNOWN_COUNTS
    ) -> None:
        super().__init__(counts)
        self._convention: Final = convention
        self._structure_ids = StructureIds()
        # Asked once for every instruction that calls a body; a body is sampled once per structure.
        self._known: dict[int, Dependence] = {}
        self._open: set[int] = set()

    def bodies(self, ins: Instruction) -> Bodies:
        """Return the dependences of the computations that an instruction calls."""
        found = tuple([self._dependence(callee) for callee in ins.calls])
        is_conventional = self._convention == "xla" and isinstance(ins.op, BY_CONVENTION)
        return by_convention(ins, found) if is_conventional else found

    def _dependence(self, callee: Computation) -> Dependence:
        """Return the dependences of a body's results, those of inner bodies computed first.

        Raises:
            UndecidedError: The body calls itself.
        """
        number = self._structure_ids.number(callee)
        if number not in self._known:
            if number in self._open:
                raise UndecidedError(RECURSIVE)
            self._open.add(number)
            try:
                for inner in _bodies(callee):
                    with suppress(UndecidedError):  # its result may not be needed
                        self._dependence(inner)
                self._known[number] = self._followed(callee)
            finally:
                self._open.discard(number)
        return self._known[number]

    def _followed(self, callee: Computation) -> Dependence:
        """Compute the dependences of each root leaf on the parameters' leaves by samples.

        Up to `ELEMENTS` elements of each leaf are followed `TRIALS` times.
        """
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
            # Reads of any trial count, because a value read at run time may decide what is used. A
            # read is sure only if every trial shows it.
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
        """Return the parameters' elements that some elements of a root leaf depend on."""
        follower = Touching(Values(seed))
        walker = Walker(self, follower)
        return walker.parameters(callee.root, leaf, follower.start(points), callee)


def _bodies(computation: Computation) -> list[Computation]:
    """Return the bodies of ops in a computation and in its callees, inner ones first."""
    inner = list(inside_out(computation, ()))
    called = {c for top in inner for ins in top if type(ins.op) not in READS for c in ins.calls}
    return [c for c in inner if c in called and c is not computation]


def _elements(shape: tuple[int, ...]) -> Ints:
    """Return up to `ELEMENTS` evenly spaced indices of a tensor; all of a small one.

    Shape `[n, rank]`.
    """
    total = prod(shape)
    flat = np.unique(np.linspace(0, max(total - 1, 0), min(total, ELEMENTS)).astype(np.int64))
    index = unravel(flat, shape)
    return np.stack(index, axis=1) if shape else np.zeros((total, 0), np.int64)


def _is_sure(trials: list[Reached[Any]]) -> bool:
    """Did all trials reach elements, with exact and known maps?"""
    return len(trials) == TRIALS and all(
        reached.elements is not None and not reached.unknown and not reached.over
        for reached in trials
    )


def _is_aligned(trials: list[Reached[Any]], points: Ints) -> bool:
    """Did all trials reach exactly the element at the same index?"""
    start = Touching(Values()).start(points)
    rows = next(iter(start.values()))
    return all(
        reached.elements is not None
        and reached.elements.keys() == start.keys()
        and all(np.array_equal(found, rows) for found in reached.elements.values())
        for reached in trials
    )
