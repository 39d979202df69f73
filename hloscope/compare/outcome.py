"""Outcome of runs of two programs: a first difference, or none found."""

from __future__ import annotations

from msgspec import Struct

from hloscope.interpreter import Difference, Value
from hloscope.ir import Type


class ValueDifference(Struct, frozen=True, eq=False):
    """The first run in which two programs return different values.

    Attributes:
        run: Number of the run, from 0; its arguments depend on this number alone.
        output: Number of the tensor in the results.
        device: Replica and partition that return it; `None` on a single device.
        difference: The element with the largest difference, its value in the first program
            (`found`) and in the second (`expected`).
        inputs: The arguments, each with its name and type: those of the whole program, or of
            that device.
    """

    run: int
    output: int
    device: tuple[int, int] | None
    difference: Difference
    inputs: tuple[tuple[str, Type, Value], ...]


class ValueRuns(Struct, frozen=True, eq=False):
    """Runs of two programs on the same arguments.

    Attributes:
        runs: Number of runs of both programs.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        divided: The partitioned program, "A" or "B", if the other one is whole and its arguments
            are divided by their shardings; else empty.
        difference: The first difference; `None` if none was found.
        types: Difference of the types, because of which nothing was run; else empty.
        reason: Why a run is not possible, or ended the comparison; else empty.
    """

    runs: int = 0
    replicas: int = 1
    partitions: int = 1
    divided: str = ""
    difference: ValueDifference | None = None
    types: str = ""
    reason: str = ""
