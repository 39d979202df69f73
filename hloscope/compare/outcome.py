"""What runs of two programs show: a first difference, or that none was found."""

from __future__ import annotations

from msgspec import Struct

from hloscope.interpreter import Difference, Value
from hloscope.ir import Type


class ValueDifference(Struct, frozen=True, eq=False):
    """The first run in which two programs return different values.

    Attributes:
        run: Number of the run, from 0; its arguments are made from this number alone.
        output: Which tensor of the results.
        device: Replica and partition that return it; `None` on a single device.
        difference: The element that is furthest off, its value in the first program (`found`) and
            in the second (`expected`).
        inputs: The arguments, each with its name and type: those of the whole program, or of that
            device.
    """

    run: int
    output: int
    device: tuple[int, int] | None
    difference: Difference
    inputs: tuple[tuple[str, Type, Value], ...]


class ValueRuns(Struct, frozen=True, eq=False):
    """Runs of two programs on the same arguments.

    Attributes:
        runs: How many runs of both there were.
        replicas: Replicas, and `partitions` partitions of each.
        divided: The program, "A" or "B", that is partitioned, while the other one is whole and
            its arguments are cut by their shardings; empty if both run alike.
        difference: The first difference; `None` if none was found.
        types: What differs between the types, so that nothing is run; else empty.
        reason: Why a run is not possible, or ended the comparison; else empty.
    """

    runs: int = 0
    replicas: int = 1
    partitions: int = 1
    divided: str = ""
    difference: ValueDifference | None = None
    types: str = ""
    reason: str = ""
