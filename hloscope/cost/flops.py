"""Work of instructions: operations by unit, with those of called computations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.cost.trip_counts import known_trip_count, trip_count
from hloscope.cost.work import Work, total
from hloscope.cost.work_rules import LoopRuns, Runs, rule_of
from hloscope.ir import Computation, Instruction, inside_out
from hloscope.ops import AsyncStart, CustomCall, While

_RECURSION: Final = Work(at_least=("recursion",))
"""Work of a call of a function to itself."""


def loop_runs(ins: Instruction) -> LoopRuns:
    """Return the runs of a loop's condition and body, by its trip count."""
    trips = max(trip_count(ins), 0)
    return LoopRuns(trips + 1, trips, known_trip_count(ins) is not None)


class Flops:
    """Work of instructions. Each computation is counted once.

    With structure numbers, computations of equal structure are counted once if the structure
    determines their work.
    """

    def __init__(
        self, structure: Callable[[Computation], int] | None = None, runs: Runs = loop_runs
    ) -> None:
        """Create a counter of work.

        Args:
            structure: Returns the id of a computation's structure, as `StructureIds.number` does.
            runs: Returns the runs of a loop's condition and body.
        """
        self._structure: Final = structure
        self._runs: Final = runs
        self._known: dict[Computation, Work] = {}
        self._by_structure: dict[int, Work] = {}
        self._follows: dict[Computation, bool] = {}

    def of(self, ins: Instruction) -> Work:
        """Return the work of an instruction, with that of the computations it calls.

        A recursive call is not counted: its depth is unknown.
        """
        for callee in ins.calls:
            for inner in inside_out(callee, self._known):
                self._known[inner] = self._of_computation(inner)
        return self.count(ins, tuple([self._known.get(callee, _RECURSION) for callee in ins.calls]))

    def count(self, ins: Instruction, called: tuple[Work, ...]) -> Work:
        """Return the work of an instruction, given the work of its callees.

        It is unknown for an instruction that the verifier refuses, as it may lack operands.
        """
        try:
            return rule_of(ins.op).work(ins, ins.op, called, self._runs)
        except (AttributeError, IndexError, TypeError, ValueError):
            return Work(unknown=(ins.op.name,))

    def _of_computation(self, computation: Computation) -> Work:
        """Return the work of a computation whose callees are known."""
        number = None if self._structure is None else self._structure(computation)
        # Reducers and fused computations recur under many names.
        known = None if number is None else self._by_structure.get(number)
        if known is None:
            get = self._known.get
            known = total([
                (self.count(ins, tuple([get(callee, _RECURSION) for callee in ins.calls])), 1)
                for ins in computation
            ])  # fmt: skip
            if number is not None and self._follows_from_structure(computation):
                self._by_structure[number] = known
        return known

    def _follows_from_structure(self, computation: Computation) -> bool:
        """Do ops and types alone determine the work? They do not determine a trip count."""
        for inner in inside_out(computation, self._follows):
            self._follows[inner] = not any(
                [isinstance(ins.op, While | CustomCall | AsyncStart) for ins in inner]
            ) and all([self._follows.get(callee, False) for callee in inner.callees])
        return self._follows[computation]
