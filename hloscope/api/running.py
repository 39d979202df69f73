"""A program executed on arguments: literals, arrays from files, or random numbers."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from hloscope.api.files import bytes_of_file
from hloscope.display import finding_json, finding_text, result_json, result_text
from hloscope.errors import HloscopeError, InputError, UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.hlo_parser import is_proto, recorded_arguments
from hloscope.interpreter import (
    INFEED,
    OUTFEED,
    PRINT,
    PROBE,
    TOKEN,
    Array,
    Difference,
    EvaluationError,
    Value,
    World,
    as_value,
    byte_size,
    check_evaluable,
    check_grid,
    dtype_of,
    evaluate,
    run_grid,
    statistics,
    within,
    within_ulps,
)
from hloscope.ir import (
    Computation,
    ElementType,
    FutureType,
    Instruction,
    Module,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    VectorType,
)
from hloscope.mlir import ArrayAttr, DenseAttr, parse_attribute, spell, to_array, type_text
from hloscope.proof import (
    MOST_BYTES,
    Finding,
    arranged,
    by_name,
    compare_programs,
    compare_values,
    leaves,
    load,
    named,
    restored,
    save,
)
from hloscope.support.limits import MAX_BYTES, MOST_FLOPS, MOST_STEPS, WIDEST

# --------------------------------------------------------------------------------------------------
# One program run on given arguments, alone or compared with another one.


Compare: TypeAlias = Callable[[Any, Any], Difference | None]
"""Function that returns the difference of two arrays; `None` if it is within the tolerance."""
Other: TypeAlias = Callable[[], tuple[Module, Computation]]
"""Function that returns another program, and the computation of it to run."""


class RunOptions(Struct, frozen=True):
    """Options of a run.

    Attributes:
        infeed: Files of arrays that `infeed` takes, one after another.
        output: File to write the results to.
        values: File to write the values of all instructions to.
        expect: File of arrays to compare the results with.
        compare: File of arrays to compare the values of instructions with, by name.
        tolerance: Largest allowed difference of floats; relative for values above 1.
        ulps: Largest allowed difference in units in the last place; replaces `tolerance`.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        max_steps: Maximum number of instructions to evaluate.
        max_flops: Maximum number of operations on elements: arithmetic, comparisons, reads and
            writes.
        max_bytes: Maximum bytes of one array.
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
        """Return the number of processes that run the program."""
        return self.replicas * self.partitions

    @property
    def difference(self) -> Compare:
        """Return the function that compares two arrays under the tolerance."""
        if self.ulps is not None:
            return partial(within_ulps, most=self.ulps)
        return partial(within, tolerance=self.tolerance, relative=True)


class Ran(Struct):
    """The outcome of one run of a program.

    Attributes:
        entry: Name of the computation that ran.
        options: Options of the run.
        results: The results of process 0, then of process 1, and so on.
        types: The types of the results.
        seconds: Wall-clock seconds of the run.
        steps: Number of instructions that ran.
        outfeed: For each outfeed, a description of each array.
        differences: Differences from the expected results; `None` if they were not compared.
        finding: The first difference from another program; `None` if there was no other program.
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
        """Did the comparisons that the options ask for find no difference?"""
        if self.finding is not None:
            return self.finding.instruction is None and self.finding.values > 0
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as an element of the list `programs` in schema `hloscope.run/1`."""
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
        """Yield the outcome as text, part by part.

        With `dense`, results are written as literals.
        """
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
        InputError: The folder cannot be created.
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
        arguments: The arguments of each process, or one list for all processes.
        options: The options.
        say: Called with each text that the program prints.
        on_step: Called now and then with the number of evaluated instructions.
        other: Returns a second program, which also runs, to find the first value that differs.

    Raises:
        EvaluationError: An assertion of the program fails, or a limit is reached.
        InputError: A file cannot be read or written.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = s32[] parameter(0) ROOT n = s32[] negate(p) }")
    >>> entry = program.module.entry
    >>> list(run_program(program.module, entry, [[np.int32(3)]], RunOptions()).text())
    ['tensor<i32> {-3}']
    """
    world = world_of(module, options, say, on_step)
    world.extra[INFEED] = deque(tuple(load(path).values()) for path in options.infeed)
    kept = _value_collector(entry, world, options.max_bytes) if options.values else {}
    ran = Ran(entry.name, options)
    if options.compare is not None:
        ran.finding = compare_values(
            entry, load(options.compare), arguments[0], options.difference, world
        )
        return ran
    if other is not None:
        their_module, theirs = other()
        silent = world_of(their_module, options)
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
    """Run a computation on every process; return the results of each process, in order.

    Args:
        entry: The computation.
        arguments: The arguments of each process, or one list for all.
        world: State and limits of the run.
        options: The options, which have the number of processes.
    """
    count = options.processes
    if count == 1:
        return [evaluate(entry, arguments[0], world)]
    rows = [[entry] * options.partitions] * options.replicas
    return run_grid(rows, [*arguments] * count if len(arguments) == 1 else arguments, world)


def world_of(
    module: Module,
    options: RunOptions,
    say: Callable[[str], None] = print,
    on_step: Callable[[int], None] | None = None,
) -> World:
    """Return the state of a run, with the limits of the options.

    Args:
        module: The program.
        options: The options.
        say: Called with each text that the program prints.
        on_step: Called now and then with the number of evaluated instructions.
    """
    return World(
        functions=module.computations,
        attributes=module.extras,
        spell=module.spell,
        max_steps=options.max_steps,
        max_flops=options.max_flops,
        max_bytes=options.max_bytes,
        on_step=on_step,
        extra={PRINT: say, PROBE: options.probe, INFEED: deque(), OUTFEED: []},
    )


def _value_collector(entry: Computation, world: World, left: int) -> dict[str, Array]:
    """Return a dictionary that fills with values by instruction name while the program runs.

    Args:
        entry: The computation whose values are collected; each instruction has its first value.
        world: The state of the run.
        left: Maximum bytes of all values.
    """
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
    """Return texts about the differences between the results and the arrays of a file.

    Args:
        ran: The run.
        path: File of the expected arrays, in the order of the results.
        compare: Function that compares two arrays.
    """
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


# --------------------------------------------------------------------------------------------------
# The arguments a program is run on: literals, arrays from files, or random numbers.


_HEAD: Final = 1 << 12
"""Number of bytes from which a proto file is recognised."""
_SPARE: Final = 1 << 20
_LIKE: Final = "i.e. --args=[dense<1> : tensor<2xi32>, ...]"


class Given(Struct, frozen=True):
    """The source of arguments: at most one field is set. Without any, a program gets none.

    Attributes:
        literals: Text such as `[dense<1> : tensor<2xi32>, …]`.
        inputs: Files of arrays, `.npz` or `.npy`.
        random: Seed of random numbers.
        recorded: Arguments that the program's file itself records, as an `HloSnapshot` does.
    """

    literals: str | None = None
    inputs: Sequence[str] = ()
    random: int | None = None
    recorded: Sequence[Any] = ()


def arguments_of(
    entry: Computation, given: Given, *, processes: int = 1, max_bytes: int = MAX_BYTES
) -> list[list[Value]]:
    """Return the arguments of each process, or one list for all processes.

    Args:
        entry: The computation to run.
        given: The source of the arguments.
        processes: Number of processes.
        max_bytes: Maximum bytes of one random argument.

    Raises:
        EvaluationError: Number, types or sizes differ from what the entry takes.
        InputError: A file cannot be read.
        UnsupportedError: The entry takes an argument that is not a tensor, such as a plain `i32`.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { ROOT p = s32[2] parameter(0) }")
    >>> arguments_of(program.module.entry, Given("[dense<[1, 2]> : tensor<2xi32>]"))
    [[array([1, 2], dtype=int32)]]
    """
    types = entry.arguments
    for type_ in types:
        check_evaluable(type_)
        if isinstance(type_, ElementType | VectorType):
            raise UnsupportedError(f"arguments of type {type_text(type_)} cannot be given")
    if given.literals is not None:
        return [_checked(_literals(given.literals), types)]
    if given.inputs:
        return _from_files(given.inputs, entry, processes)
    if given.random is not None:
        return [_random_arguments(types, given.random, max_bytes)]
    return [_checked(given.recorded, types)]


def recorded_in(path: str) -> list[Any]:
    """Return the arguments that a file records with its program, as an `HloSnapshot` does.

    The list is empty for other files, and for standard input (`-`).

    Raises:
        ParseError: The file is damaged.
        UnsupportedError: An argument has an unsupported shape.
    """
    if path == "-" or not os.path.isfile(path):
        return []
    with open(path, "rb") as stream:
        if not is_proto(stream.read(_HEAD)):
            return []
    return recorded_arguments(bytes_of_file(path), path)


def _random_arguments(types: Sequence[Type], seed: int, max_bytes: int) -> list[Value]:
    """Return a random argument of each type; `max_bytes` limits each of them.

    Raises:
        EvaluationError: An argument is too large, or there is no memory for it.
    """
    for i, type_ in enumerate(types):
        if byte_size(type_) > max_bytes:
            raise EvaluationError(f"argument {i} needs {byte_size(type_):,} bytes")
    # The sizes were checked above: the generator would otherwise allocate without limit.
    generator = np.random.default_rng(seed)
    try:
        return [_random(type_, generator) for type_ in types]
    except MemoryError:
        needed = sum(map(byte_size, types))
        raise EvaluationError(f"no memory for arguments of {needed:,} bytes") from None


def _checked(values: Sequence[Any], types: Sequence[Type]) -> list[Value]:
    """Convert the given values to the parameters' types, and insert a token for each token type.

    Raises:
        EvaluationError: The number of values, or a type, does not fit.
    """
    rest = list(values)
    needed = [type_ for type_ in types if isinstance(type_, TensorType | TupleType)]
    if len(rest) != len(needed):
        wanted = ", ".join(map(type_text, needed)) or "none"
        raise EvaluationError(
            f"the program takes {len(needed)} argument{'s' * (len(needed) != 1)} ({wanted}), found"
            f" {len(rest)}: give them by --args, --input or --random"
        )
    made: list[Value] = []
    for i, type_ in enumerate(types):
        is_token = not isinstance(type_, TensorType | TupleType)
        made.append(TOKEN if is_token else as_value(rest.pop(0), type_, f"argument {i}"))
    return made


def _literals(text: str) -> list[Any]:
    """Return the arrays of the text `[dense<1> : tensor<2xi32>, …]`.

    Raises:
        EvaluationError: The text has another form.
    """
    try:
        attribute = parse_attribute(text)
    except HloscopeError:
        attribute = None
    if not isinstance(attribute, ArrayAttr):
        raise EvaluationError(f"expected array attribute string for args, {_LIKE}")
    found = []
    for element in attribute.elements:
        if not isinstance(element, DenseAttr):
            raise EvaluationError(f"expected dense elements attribute for args elements, {_LIKE}")
        try:
            found.append(to_array(element))
        except HloscopeError as error:
            raise EvaluationError(f"an argument is not an array: {error.message}") from None
    return found


def _from_files(paths: Sequence[str], entry: Computation, processes: int) -> list[list[Value]]:
    """Return the arguments of each process, or one list for all, from files.

    Args:
        paths: One `.npz` for each process, or one file for all of them, or files of one array each.
        entry: The computation whose parameters the arrays are for.
        processes: Number of processes.
    """
    types = entry.arguments
    names = [parameter.name for parameter in entry.body.parameters]
    counts = [_elements(type_) for type_ in types]
    # Elements may be stored in a wider type. The spare bytes let one array too many load, so that
    # `arranged` can report the count instead of a size limit.
    most = MOST_BYTES if None in counts else _SPARE + WIDEST * sum(filter(None, counts))
    loaded = [load(path, most_bytes=min(most, MOST_BYTES)) for path in paths]
    if processes > 1 and len(loaded) == processes:
        return [arranged(arrays, types, names, spell) for arrays in loaded]
    if len(loaded) == 1:
        return [arranged(loaded[0], types, names, spell)]
    one_by_one = [array for arrays in loaded for array in arrays.values()]
    return [arranged({str(i): array for i, array in enumerate(one_by_one)}, types, (), spell)]


def _elements(type_: Type) -> int | None:
    """Return an upper bound of the number of elements of a type; `None` if a size has no bound."""
    arrays = [leaf for leaf in leaf_types(type_) if isinstance(leaf, TensorType)]
    if any(None in array.most for array in arrays):
        return None
    return sum([array.num_elements for array in arrays])


def _random(type_: Type, generator: np.random.Generator) -> Value:
    """Return a random value: floats from a standard normal distribution, integers from 0 to 9."""
    if isinstance(type_, TupleType | FutureType):
        return tuple([_random(inner, generator) for inner in type_.elements])
    if not isinstance(type_, TensorType):
        return TOKEN
    shape = tuple(1 if n is None else n for n in type_.sizes)
    made = drawn(TensorType(type_.element, shape), generator, 10)
    value: Value = made if shape else made[()]
    return value


def drawn(type_: TensorType, generator: np.random.Generator, below: int) -> Array:
    """Return a random array of a type with known sizes.

    Floats have a normal distribution; integers are from 0 to `below - 1`.
    """
    element, shape = type_.element, type_.shape
    made: Any
    match "signed" if isinstance(element, QuantizedType) else element.kind:
        case "pred":
            made = generator.integers(0, 2, shape)
        case "signed" | "unsigned":
            made = generator.integers(0, min(below, 1 << (element.bits - 1)), shape)
        case "complex":
            parts = generator.standard_normal((2, *shape))
            made = parts[0] + 1j * parts[1]
        case _:
            made = generator.standard_normal(shape)
    return np.asarray(made).astype(dtype_of(element))
