"""Two programs executed on the same arguments, to find a difference of their results.

Runs can show a difference but prove no equality: for equal programs the result is the number of
runs without a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any, Final

import numpy as np
from msgspec import Struct

from hloscope.api.equality import without_layouts
from hloscope.api.program import Program
from hloscope.api.running import Compare, RunOptions, world_of
from hloscope.api.sources import Readable
from hloscope.api.views import ComputationView
from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.interpreter import (
    Array,
    Difference,
    EvaluationError,
    Value,
    check_grid,
    run_grid,
)
from hloscope.ir import TensorType, Type
from hloscope.proof import (
    SECONDS_EQUAL,
    WHOLE,
    Cut,
    ValueDifference,
    ValueRuns,
    argument_bytes,
    cuts_of,
    edge_arguments,
    fitting_counts,
    header_counts,
    header_cuts,
    leaves,
    limits_of,
)
from hloscope.support.limits import MAX_BYTES

RUNS: Final = 64
"""Default maximum number of runs of the two programs."""


def value_runs(
    a: Program | ComputationView | Readable,
    b: Program | ComputationView | Readable,
    *,
    runs: int = RUNS,
    seconds: float = SECONDS_EQUAL,
    replicas: int | None = None,
    partitions: int | None = None,
    tolerance: float = 1e-4,
    ulps: int | None = None,
) -> ValueRuns:
    """Run two programs on the same arguments until their results differ.

    The arguments are distinct numbers, start indices inside and outside the clamped range, and edge
    values of the types. The shards of one argument are cut from one array, so an unpartitioned
    program can be compared with a partitioned one.

    Args:
        a: A program, a computation of one, or a source that `read` takes.
        b: The program to compare `a` with.
        runs: Maximum number of runs.
        seconds: Processor time after which no further run begins.
        replicas: Number of replicas. The default is the number that a module header states, else
            the number that the groups of collectives name, else 1.
        partitions: Number of partitions of each replica; the default is found like that of
            `replicas`.
        tolerance: Largest allowed difference of floats; relative for values above 1.
        ulps: Largest allowed difference in units in the last place; replaces `tolerance`.

    Raises:
        EvaluationError: There are too many processes.
        HloscopeError: A source cannot be read.

    >>> text = "ENTRY e { p = s32[4] parameter(0) ROOT r = s32[4] OP(p, p) }"
    >>> add, subtract = (text.replace("OP", op) for op in ("add", "subtract"))
    >>> value_runs(add, add).runs, value_runs(add, subtract).difference.run
    (64, 0)
    """
    a, b = (x if isinstance(x, ComputationView) else Program.of(x).entry for x in (a, b))
    counts = [header_counts(x.program.module.extras) for x in (a, b)]
    # One header with more than one process suffices: an unpartitioned program states one process,
    # whatever it is compared with.
    stated = next((c for c in counts if c is not None and c.total > 1), None)
    if stated is None and replicas is None and partitions is None:
        stated = fitting_counts([x.ir for x in (a, b)])
    replicas = replicas or (stated.replicas if stated else 1)
    partitions = partitions or (stated.partitions if stated else 1)
    check_grid(replicas, partitions)
    compare = RunOptions(tolerance=tolerance, ulps=ulps).difference
    try:
        pair = _paired(a, b, replicas, partitions)
    except (UnsupportedError, EvaluationError) as error:
        return ValueRuns(0, replicas, partitions, reason=error.message)
    if isinstance(pair, str):
        return ValueRuns(0, replicas, partitions, types=pair)
    if not any(isinstance(type_, TensorType) for type_ in _tensors(pair.types)):
        runs = 1  # without tensor arguments every run is the same
    done, reason = 0, ""
    end = process_time() + seconds
    for run in range(runs):
        # The first run has no time limit: a result about no runs would be useless.
        if done and process_time() > end:
            break
        try:
            found = pair.first_difference(run, compare)
        except HloscopeError as error:
            reason = error.message
            break
        done += 1
        if found is not None:
            return ValueRuns(done, replicas, partitions, pair.divided, found)
    return ValueRuns(done, replicas, partitions, pair.divided, reason=reason)


def _tensors(types: Sequence[Type]) -> list[Type]:
    return [leaf for type_ in types for leaf in leaf_types(type_)]


class _Pair(Struct, frozen=True, eq=False):
    """Two programs that can be run on the same arguments.

    Attributes:
        sides: The two programs.
        types: Types of the generated arguments: those of the unpartitioned program if there is one.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        cuts: How each argument is divided among partitions; `None` if each partition gets a
            different value.
        results: How the results of the unpartitioned program are divided; empty without such a
            program.
        divided: The partitioned side, "A" or "B"; empty if both sides run on the same processes.
    """

    sides: tuple[ComputationView, ComputationView]
    types: tuple[Type, ...]
    replicas: int
    partitions: int
    cuts: tuple[Cut | None, ...]
    results: tuple[Cut, ...] = ()
    divided: str = ""

    def first_difference(self, run: int, compare: Compare) -> ValueDifference | None:
        """Run each program once; return the first difference of their results, or `None`.

        Args:
            run: Number of the run, which seeds the arguments.
            compare: Function that compares two arrays.

        Raises:
            HloscopeError: A program cannot be run.
        """
        needed = argument_bytes(self.types) * self.replicas * self.partitions
        if needed > MAX_BYTES:
            raise EvaluationError(f"arguments of {needed:,} bytes, more than {MAX_BYTES:,}")
        limits = limits_of([side.ir for side in self.sides])
        # One set of arguments for each replica; partitions of a replica get pieces of it.
        whole = [
            edge_arguments(self.types, limits, run, r * self.partitions)
            for r in range(self.replicas)
        ]
        parts = [
            self._parts(whole[r], limits, run, r * self.partitions + p)
            for r in range(self.replicas)
            for p in range(self.partitions)
        ]
        returned = []
        for number, side in enumerate(self.sides):
            # The unpartitioned side runs once per replica, on the whole arguments.
            alone = self.divided == "AB"[1 - number]
            arguments = whole if alone else parts
            returned.append(self._run(side, arguments, 1 if alone else self.partitions))
        return self._compared(run, returned, whole, parts, compare)

    def _parts(
        self, whole: Sequence[Value], limits: Sequence[int], run: int, device: int
    ) -> list[Any]:
        """Return the arguments of one device, cut from those of its replica.

        Args:
            whole: Arguments of the replica, before they are divided among partitions.
            limits: Integers near which start indices are clamped.
            run: Number of the run.
            device: Number of the device: replica × partitions + partition.
        """
        own: Sequence[Value] = whole
        partition = device % self.partitions
        if partition and None in self.cuts:
            own = edge_arguments(self.types, limits, run, device)
        found: list[Any] = []
        for k, cut in enumerate(self.cuts):
            if cut is None:
                found.append(own[k])
            elif cut.counts:
                found.append(cut.filled(np.asarray(whole[k]), partition))
            else:
                found.append(whole[k])
        return found

    def _run(
        self, side: ComputationView, arguments: Sequence[Sequence[Value]], partitions: int
    ) -> list[list[Array]]:
        """Run one program; return the tensors that each process returns.

        Args:
            side: The program.
            arguments: The arguments of each process.
            partitions: Number of partitions of each replica.
        """
        world = world_of(side.program.module, RunOptions(), say=lambda _: None)
        rows = [[side.ir] * partitions] * self.replicas
        return [
            [
                np.asarray(array)
                for value, type_ in zip(own, side.ir.results, strict=True)
                for array, _ in leaves(value, type_)
            ]
            for own in run_grid(rows, arguments, world)
        ]

    def _compared(
        self,
        run: int,
        returned: Sequence[list[list[Array]]],
        whole: Sequence[list[Value]],
        parts: Sequence[list[Any]],
        compare: Compare,
    ) -> ValueDifference | None:
        """Return the first difference between corresponding tensors; `None` if there is none.

        Args:
            run: Number of the run.
            returned: For each side, the tensors that each process returned.
            whole: Arguments of each replica.
            parts: Arguments of each device.
            compare: Function that compares two arrays.
        """
        for device in range(self.replicas * self.partitions):
            replica, partition = divmod(device, self.partitions)
            for output, (a, b) in enumerate(self._outputs(returned, replica, partition)):
                found = _difference(a, b, compare)
                if found is None:
                    continue
                given = whole[replica] if self.divided else parts[device]
                side = self.sides[self.divided == "A"]
                names = [parameter.name for parameter in side.ir.parameters]
                return ValueDifference(
                    run,
                    output,
                    (replica, partition) if len(parts) > 1 else None,
                    found,
                    tuple(zip(names, self.types, given, strict=True)),
                )
        return None

    def _outputs(
        self, returned: Sequence[list[list[Array]]], replica: int, partition: int
    ) -> Iterator[tuple[Array, Array]]:
        """Yield pairs of corresponding tensors that one device returned.

        A tensor of an unpartitioned program is cut to the device's part. Padding at the end of a
        shard is left out.

        Args:
            returned: For each side, the tensors that each process returned.
            replica: Number of the device's replica.
            partition: Number of the device's partition.
        """
        device = replica * self.partitions + partition
        if not self.divided:
            yield from zip(returned[0][device], returned[1][device], strict=True)
            return
        for output, cut in enumerate(self.results):
            both = []
            for number in range(2):
                if self.divided == "AB"[number]:
                    both.append(returned[number][device][output])
                else:
                    both.append(cut.part(returned[number][replica][output], partition))
            sizes = tuple(min(n, m) for n, m in zip(both[0].shape, both[1].shape, strict=True))
            valid = tuple(slice(0, n) for n in sizes)  # a shard may end with padding
            yield both[0][valid], both[1][valid]


def _difference(a: Array, b: Array, compare: Compare) -> Difference | None:
    """Return the difference of two arrays: of their shapes, else what `compare` returns."""
    if a.shape != b.shape:
        return Difference(a.size, a.size, (), list(a.shape), list(b.shape), "the shape")
    return compare(a, b)


def _paired(a: ComputationView, b: ComputationView, replicas: int, partitions: int) -> _Pair | str:
    """Return how two programs run on the same arguments.

    If their types do not permit it, return a text that states how the types differ.

    Args:
        a: The first program.
        b: The second program.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.

    Raises:
        UnsupportedError: A sharding has an unsupported kind.
    """
    entries = a.ir, b.ir
    arguments = [[*map(without_layouts, entry.arguments)] for entry in entries]
    results = [[*map(without_layouts, _tensors(entry.results))] for entry in entries]
    if arguments[0] == arguments[1] and results[0] == results[1]:
        # Equal types: the two run on the same processes with the same arguments.
        cuts = _replicated((a, b), len(arguments[0]), partitions)
        return _Pair((a, b), tuple(arguments[0]), replicas, partitions, cuts)
    if partitions > 1:
        # Different types: one may be the other cut by its shardings, in either order.
        for number, side in enumerate((a, b)):
            found = _cut(side, (b, a)[number], partitions)
            if found is not None:
                name = "AB"[1 - number]
                types = tuple(arguments[number])
                return _Pair((a, b), types, replicas, partitions, *found, name)
    return _type_difference(arguments, results)


def _type_difference(arguments: list[list[Type]], results: list[list[Type]]) -> str:
    for what, (one, other) in (("parameter", arguments), ("output", results)):
        if len(one) != len(other):
            return f"{len(one)} {what}s, and {len(other)}"
        for k, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine != theirs:
                return f"{what} {k}: type {mine}, and {theirs}"
    return ""


def _replicated(
    sides: Sequence[ComputationView], count: int, partitions: int
) -> tuple[Cut | None, ...]:
    """Return, for each parameter, `WHOLE` if all partitions get the same value, else `None`.

    A value is the same if one of the programs states a sharding that does not cut it.

    Args:
        sides: The two programs, which run on the same processes.
        count: Number of parameters.
        partitions: Number of partitions of each replica.
    """
    found: list[Cut | None] = [None] * count
    if partitions == 1:
        return (WHOLE,) * count
    for side in sides:
        for stated in (
            cuts_of(side.program.module, side.ir, partitions)[0],
            header_cuts(side.program.module, partitions)[0],
        ):
            if len(stated) == count:
                found = [
                    WHOLE if cut is not None and not cut.is_cut else known
                    for cut, known in zip(stated, found, strict=True)
                ]
    return tuple(found)


def _cut(
    undivided: ComputationView, other: ComputationView, partitions: int
) -> tuple[tuple[Cut | None, ...], tuple[Cut, ...]] | None:
    """Return the cuts that turn an unpartitioned program's types into those of a partitioned one.

    The first tuple is for arguments, the second for results. `None` if no cuts do.

    Args:
        undivided: The unpartitioned program.
        other: The partitioned program.
        partitions: Number of partitions.
    """
    entry, local = undivided.ir, other.ir
    given, returned = cuts_of(undivided.program.module, entry, partitions)
    stated, results = header_cuts(other.program.module, partitions)
    pairs = (
        (given, stated, [*entry.arguments], [*local.arguments]),
        (returned, results, _tensors(entry.results), _tensors(local.results)),
    )
    found: list[tuple[Cut, ...]] = []
    for own, theirs, types, parts in pairs:
        if len(types) != len(parts):
            return None
        cuts = []
        for k, (type_, part) in enumerate(zip(types, parts, strict=True)):
            # The unpartitioned program may state shardings on its values; the partitioned one may
            # keep them in its header.
            candidates = [own[k] if k < len(own) else None, theirs[k] if k < len(theirs) else None]
            cut = next((c for c in candidates if c is not None), WHOLE)
            if not isinstance(type_, TensorType):
                if cut.is_cut or type_ != part:
                    return None
            elif without_layouts(cut.local(type_)) != without_layouts(part):
                return None
            cuts.append(cut)
        found.append(tuple(cuts))
    return found[0], found[1]
