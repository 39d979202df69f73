"""One program run on given arguments, alone or compared with another one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from hloscope.compare import (
    Finding,
    by_name,
    compare_programs,
    compare_values,
    leaves,
    load,
    named,
    restored,
    save,
)
from hloscope.display import finding_json, finding_text, result_json, result_text
from hloscope.errors import InputError
from hloscope.interpreter import (
    INFEED,
    OUTFEED,
    PRINT,
    PROBE,
    Array,
    Difference,
    EvaluationError,
    Value,
    World,
    check_grid,
    evaluate,
    run_grid,
    statistics,
    within,
    within_ulps,
)
from hloscope.ir import Computation, Instruction, Module, TensorType, Type
from hloscope.limits import MAX_BYTES, MOST_FLOPS, MOST_STEPS

Compare: TypeAlias = Callable[[Any, Any], Difference | None]
"""Returns the difference of two arrays; `None` if there is none that counts."""
Other: TypeAlias = Callable[[], tuple[Module, Computation]]
"""Returns another program and its computation to run."""


class RunOptions(Struct, frozen=True):
    """Options of a run.

    Attributes:
        infeed: Files of arrays that `infeed` takes, one after another.
        output: File the results are written to.
        values: File the values of all instructions are written to.
        expect: File the results are compared with.
        compare: File of values that those of instructions are compared with, by name.
        tolerance: Largest difference of floats; of those larger than 1 it is relative.
        ulps: Largest difference in units in the last place, instead of `tolerance`.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        max_steps: Most instructions to evaluate.
        max_flops: Most operations on elements: arithmetic, comparisons, reads and writes.
        max_bytes: Most bytes of one array.
        probe: Folder that `interpreter.probe` writes to.
    """

    infeed: Sequence[str] = ()
    output: str | None = None
    values: str | None = None
    expect: str | None = None
    compare: str | None = None
    tolerance: float = 1e-4
    ulps: int | None = None
    replicas: int = 1
    partitions: int = 1
    max_steps: int | None = MOST_STEPS
    max_flops: int | None = MOST_FLOPS
    max_bytes: int = MAX_BYTES
    probe: str | None = None

    @property
    def processes(self) -> int:
        """Number of processes that run the program."""
        return self.replicas * self.partitions

    @property
    def difference(self) -> Compare:
        """The comparison of two arrays, under the tolerance."""
        if self.ulps is not None:
            return partial(within_ulps, most=self.ulps)
        return partial(within, tolerance=self.tolerance, relative=True)


class Ran(Struct):
    """The outcome of one run of a program.

    Attributes:
        entry: Name of the computation.
        options: Options of the run.
        results: The results, process after process.
        types: The types of the results.
        seconds: Wall-clock seconds of the run.
        steps: Number of instructions that ran.
        outfeed: For each outfeed, a description of each array.
        differences: Differences from the expected results, if they were compared.
        finding: The first difference from another program, if it was compared with one.
    """

    entry: str
    options: RunOptions
    results: Sequence[Value] = ()
    types: Sequence[Type] = ()
    seconds: float = 0.0
    steps: int = 0
    outfeed: Sequence[Sequence[str]] = ()
    differences: Sequence[str] | None = None
    finding: Finding | None = None

    @property
    def is_right(self) -> bool:
        """Is everything as expected?"""
        if self.finding is not None:
            return self.finding.instruction is None and self.finding.values > 0
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """The outcome as an object of the list `programs` in schema `hloscope.run/1`."""
        head = {"entry": self.entry, "ok": self.is_right}
        if self.finding is not None:
            return {**head, "comparison": finding_json(self.finding)}
        compared: dict[str, Any] = {}
        if self.differences is not None:
            expected = {"file": self.options.expect, "results": len(self.types)}
            compared = {"differences": list(self.differences), "expected": expected}
        return {
            **head,
            "seconds": round(self.seconds, 6),
            "steps": self.steps,
            **compared,
            "outfeed": [list(given) for given in self.outfeed],
            "results": list(map(result_json, self.results, self.types)),
        }

    def text(self, *, dense: bool = False) -> Iterator[str]:
        """Yield the outcome as text, part by part; with `dense`, results as literals."""
        if self.finding is not None:
            yield from finding_text(self.finding)
            return
        options = self.options
        brief = bool(options.output or options.expect)
        each = len(self.types) // options.processes
        for i, (value, type_) in enumerate(zip(self.results, self.types, strict=True)):
            process = divmod(i // each, options.partitions)
            label = f"process {process}: " if options.processes > 1 else ""
            yield label + result_text(value, type_, brief=brief, dense=dense)
        for given in self.outfeed:
            yield f"outfeed: {', '.join(given)}"
        if self.differences is not None and not self.differences:
            how = "up to --ulps" if options.ulps is not None else "within --tolerance"
            arrays = len(named(self.results, self.types))
            many = f"{arrays} result{'s' * (arrays != 1)}"
            yield f"{many} compared with {options.expect}: no difference {how}"


def check_run(options: RunOptions) -> None:
    """Check the number of processes, and create the folder of probes.

    Raises:
        EvaluationError: There are too many processes.
        InputError: The folder cannot be made.
    """
    check_grid(options.replicas, options.partitions)
    if options.probe is not None:
        try:
            Path(options.probe).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {options.probe}: {error.strerror}") from None


def run_program(
    module: Module,
    entry: Computation,
    arguments: Sequence[Sequence[Value]],
    options: RunOptions,
    *,
    say: Callable[[str], None] = print,
    on_step: Callable[[int], None] | None = None,
    other: Other | None = None,
) -> Ran:
    """Run a program; write and compare results as the options require.

    Args:
        module: The program, which is valid.
        entry: The computation to run.
        arguments: The arguments of each process, or one list for all.
        options: The options.
        say: Called with each text that the program prints.
        on_step: Called once in a while with the number of steps.
        other: Returns a program to run as well, to find the first value that differs.

    Raises:
        EvaluationError: An assertion of the program fails, a limit is reached.
        InputError: A file cannot be read or written.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = s32[] parameter(0) ROOT n = s32[] negate(p) }")
    >>> entry = program.module.entry
    >>> list(run_program(program.module, entry, [[np.int32(3)]], RunOptions()).text())
    ['tensor<i32> {-3}']
    """
    world = _world(module, options, say, on_step)
    world.extra[INFEED] = deque(tuple(load(path).values()) for path in options.infeed)
    kept = _kept(entry, world, options.max_bytes) if options.values else {}
    ran = Ran(entry.name, options)
    if options.compare is not None:
        ran.finding = compare_values(
            entry, load(options.compare), arguments[0], options.difference, world
        )
        return ran
    if other is not None:
        their_module, theirs = other()
        silent = _world(their_module, options)
        # The other program repeats the prints and probes of the first: only one may show them.
        silent.extra = {PRINT: lambda _: None, PROBE: None}
        ran.finding = compare_programs(
            entry, theirs, arguments[0], options.difference, world, silent
        )
        return ran
    begin = time.perf_counter()
    found = _evaluated(entry, arguments, world, options)
    ran.seconds, ran.steps = time.perf_counter() - begin, world.steps
    ran.types = entry.results * options.processes
    ran.results = tuple([value for own in found for value in own])
    if options.output:
        save(options.output, named(ran.results, ran.types))
    if options.values:
        save(options.values, kept)
    if options.expect:
        ran.differences = _differences(ran, options.expect, options.difference)
    ran.outfeed = [
        [f"{np.asarray(a).dtype}{list(np.shape(a))}: {statistics(a)}" for a in given]
        for given in world.extra[OUTFEED]
    ]
    return ran


def _evaluated(
    entry: Computation, arguments: Sequence[Sequence[Value]], world: World, options: RunOptions
) -> Sequence[tuple[Value, ...]]:
    count = options.processes
    if count == 1:
        return [evaluate(entry, arguments[0], world)]
    rows = [[entry] * options.partitions] * options.replicas
    return run_grid(rows, [*arguments] * count if len(arguments) == 1 else arguments, world)


def _world(
    module: Module,
    options: RunOptions,
    say: Callable[[str], None] = print,
    on_step: Callable[[int], None] | None = None,
) -> World:
    return World(
        functions=module.computations,
        attributes=module.extras,
        spell=module.spell,
        max_steps=options.max_steps,
        max_flops=options.max_flops,
        max_bytes=options.max_bytes,
        on_step=on_step,
        extra={PRINT: say, PROBE: options.probe, OUTFEED: []},
    )


def _kept(entry: Computation, world: World, left: int) -> dict[str, Array]:
    """Return a dictionary that gets values by instruction name while the program runs."""
    names = {ins: name for name, ins in by_name(entry).items()}
    found: dict[str, Array] = {}

    def watch(ins: Instruction, value: Value) -> None:
        nonlocal left
        name = names.get(ins)
        if name is None or name in found or not isinstance(ins.type, TensorType):
            return
        array = np.asarray(value)
        left -= array.nbytes
        if left < 0:
            raise EvaluationError("the values are more than --max-bytes")
        found[name] = array

    world.watch = watch
    return found


def _differences(ran: Ran, path: str, compare: Compare) -> list[str]:
    """The differences of the results from the arrays of a file, in order."""
    expected = list(load(path).values())
    parts = zip(ran.results, ran.types, strict=True)
    found = [leaf for value, type_ in parts for leaf in leaves(value, type_)]
    if len(expected) != len(found):
        return [f"{len(found)} results, {path} has {len(expected)}"]
    differences = []
    for i, ((array, type_), stored) in enumerate(zip(found, expected, strict=True)):
        right = restored(stored, type_)
        if right.shape != array.shape or right.dtype != array.dtype:
            of = f"{right.dtype}{list(right.shape)}, found {array.dtype}{list(array.shape)}"
            differences.append(f"result {i}: expected {of}")
            continue
        difference = compare(array, right)
        if difference is not None:
            differences.append(f"result {i}: {difference}")
    return differences
