"""Computations that run by themselves, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hloscope.cost.kernels import bodies_with_kernels, kernels_in
from hloscope.cost.trip_counts import known_trip_count, trip_count
from hloscope.ir import Computation, Instruction, Module, inside_out
from hloscope.ops import Case, While

UNKNOWN_TRIPS: Final = "how often it runs is not known: counted once"
ONE_BRANCH: Final = "one of several branches runs: each is counted once"


class Place(NamedTuple):
    """A computation whose instructions are kernels: no part of one, as what fusions call is.

    Attributes:
        computation: The computation.
        times: How often it runs.
        notes: What was assumed about that.
    """

    computation: Computation
    times: int
    notes: tuple[str, ...]

    @property
    def kernels(self) -> list[Instruction]:
        """What moves something, and is not made of the kernels of what it calls."""
        return kernels_in(self.computation)


def running(module: Module) -> Iterator[Place]:
    """The computations that run by themselves, callers first."""
    times: dict[Computation, int] = {module.entry: 1}
    notes: dict[Computation, dict[str, None]] = {module.entry: {}}
    for computation in reversed(list(inside_out(module.entry, {}))):
        if computation not in times:
            continue  # it is part of a kernel
        here, said = times[computation], notes[computation]
        yield Place(computation, here, tuple(said))
        for ins in computation.instructions:
            for callee in bodies_with_kernels(ins):
                times[callee] = times.get(callee, 0) + here * _times(ins)
                more = dict.fromkeys([*said, *_said(ins)])
                notes.setdefault(callee, {}).update(more)


def _times(ins: Instruction) -> int:
    return max(trip_count(ins), 0) if isinstance(ins.op, While) else 1


def _said(ins: Instruction) -> tuple[str, ...]:
    if isinstance(ins.op, While):
        known = known_trip_count(ins) is not None
        return () if known else (f"`{ins.name}`: {UNKNOWN_TRIPS}",)
    return (f"`{ins.name}`: {ONE_BRANCH}",) if isinstance(ins.op, Case) else ()
