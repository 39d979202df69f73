"""Comparison of two runs: the first instruction whose value differs between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import read_metadata
from hloscope.interpreter import (
    PRINT,
    PROBE,
    Array,
    Difference,
    EvaluationError,
    Value,
    World,
    evaluate,
)
from hloscope.ir import Computation, Instruction, TensorType, Type
from hloscope.ops import Call, Composite, Constant, CustomCall, Fusion, Iota, Return, Rng, Tuple
from hloscope.proof.arrays import leaves, restored
from hloscope.proof.pairing import STRUCTURE, paired, reachable, without_layouts
from hloscope.support.lazy import pattern
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# Comparison of two runs: the first instruction whose value differs.
#
# Values of paired instructions are compared while the inspected program runs.  Instructions of one
# program only are skipped.


Compare = Callable[[Array, Array], Difference | None]


class Finding(Struct):
    """The first instruction whose value differs, and numbers of what was compared.

    Attributes:
        instruction: The instruction whose value differs; `None` if none does.
        difference: The difference of the two values.
        partner: The instruction of the other program that it was compared with.
        part: Number of the array that differs, if the value has several.
        evaluation: Number of the evaluation of the instruction, from 1.
        operands: The instruction's operands with their values; `None` for values that are not
            known.
        instructions: Number of instructions compared.
        values: Number of values of these that were compared.
        of: Number of instructions of the program that could be compared if each had a partner; 0 if
            not counted.
        by_source: Number of compared instructions that were matched by `op_name`, source, shape.
        unlike: Number of these that differ although the results do not: such instructions are other
            steps of the same source line.
        left_out: Number of values that were not recorded for lack of memory.
    """

    instruction: Instruction | None = None
    difference: Difference | None = None
    partner: Instruction | None = None
    part: int = 0
    evaluation: int = 0
    operands: list[tuple[Instruction, Value | None]] = field(default_factory=list)
    instructions: int = 0
    values: int = 0
    of: int = 0
    by_source: int = 0
    unlike: int = 0
    left_out: int = 0


class _Found(BaseException):
    """Ends an evaluation at the first difference; raised by a callback."""


def by_name(entry: Computation) -> dict[str, Instruction]:
    """Return the instructions by name; those of other computations as `computation/name`."""
    found = {}
    for computation in reachable(entry):
        for ins in computation:
            plain = computation is entry
            found[ins.name if plain else f"{computation.name}/{ins.name}"] = ins
    return found


# ---------------------------------------------------------------------------------- comparing


class ValueRecord:
    """The recorded values of some instructions, one value for each evaluation."""

    def __init__(self, wanted: Iterator[Instruction], most_bytes: int) -> None:
        self.values: Final[dict[Instruction, list[Value | None]]] = {ins: [] for ins in wanted}
        self.left = most_bytes
        self.left_out = 0

    def watch(self, ins: Instruction, value: Value) -> None:
        """Record the value of an instruction, if it is requested.

        `None` is recorded instead if the memory limit is exceeded.
        """
        values = self.values.get(ins)
        if values is None:
            return
        size = sum(array.nbytes for array, _ in leaves(value, ins.type))
        if size > self.left:
            self.left_out += 1
            values.append(None)
        else:
            self.left -= size
            values.append(value)


def compare_programs(
    mine: Computation,
    theirs: Computation,
    arguments: Sequence[Any],
    compare: Compare,
    world: World,
    other: World,
) -> Finding:
    """Find the first instruction of `mine` whose value differs from its partner's in `theirs`.

    Partners compute the same from the parameters, or correspond by position. Other instructions are
    matched by source: `op_name`, source line and shape. Such an instruction must equal one of the
    matched ones. If it equals none, they may be other steps of that line, so it is reported only if
    the results differ, too.

    Args:
        mine: The inspected program.
        theirs: The reference program.
        arguments: Arguments of both programs.
        compare: Returns the difference of two arrays, or `None`.
        world: Evaluation context of the inspected program.
        other: Evaluation context of the reference.

    Raises:
        EvaluationError: One of the programs cannot be evaluated.
    """
    pairs = {a: b for a, b in paired(mine, theirs).items() if not isinstance(a.op, STRUCTURE)}
    likely = by_source(mine, theirs, pairs)
    wanted = [*pairs.values(), *[y for group in likely.values() for y in group]]
    kept = ValueRecord(iter(wanted), other.max_bytes)
    # The reference runs first and records; then the inspected program is compared as it runs.
    expected = evaluate(theirs, arguments, replace(other, watch=kept.watch))
    known = {a: kept.values[b] for a, b in pairs.items()}
    choices = {a: [v for b in group for v in kept.values[b]] for a, group in likely.items()}
    finding, found, first = _compared(mine, arguments, known, compare, world, choices)
    finding.left_out = kept.left_out
    computations = reachable(mine)
    finding.of = sum(not isinstance(ins.op, STRUCTURE) for c in computations for ins in c)
    at = finding.instruction
    if at is None:
        at = _compare_results(finding, mine, found, theirs, expected, compare)
        if at is not None and first is not None:
            finding = _earlier(finding, first)
            at = first.instruction
            assert at is not None
            finding.operands = _operands(mine, arguments, at, finding, world)
    if at is not None:
        finding.partner = pairs.get(at) or next(iter(likely.get(at, ())), None)
    return finding


def _earlier(finding: Finding, first: Finding) -> Finding:
    """Set the difference of `finding` to that of `first`, which is earlier; return `finding`."""
    finding.instruction, finding.difference = first.instruction, first.difference
    finding.part, finding.evaluation = first.part, first.evaluation
    return finding


def compare_values(
    mine: Computation,
    values: Mapping[str, Array],
    arguments: Sequence[Any],
    compare: Compare,
    world: World,
) -> Finding:
    """Find the first instruction of `mine` whose value differs from the expected one.

    Args:
        mine: The inspected program.
        values: Expected arrays by instruction name.
        arguments: Arguments of the program.
        compare: Returns the difference of two arrays, or `None`.
        world: Evaluation context of the program.

    Raises:
        EvaluationError: No instruction has one of the names, or the program cannot be evaluated.
    """
    names = by_name(mine)
    known: dict[Instruction, list[Value | None]] = {}
    for name, array in values.items():
        ins = names.get(name.removeprefix("%"))
        if ins is not None and isinstance(ins.type, TensorType):
            known[ins] = [restored(array, ins.type)]
    if not known:
        some = ", ".join(list(values)[:3])
        raise EvaluationError(f"no instruction has a name of the values given ({some}, …)")
    finding = _compared(mine, arguments, known, compare, world, {})[0]
    finding.of = sum(isinstance(ins.type, TensorType) for ins in names.values())
    return finding


def _compared(
    mine: Computation,
    arguments: Sequence[Any],
    known: Mapping[Instruction, list[Value | None]],
    compare: Compare,
    world: World,
    choices: Mapping[Instruction, list[Value | None]],
) -> tuple[Finding, tuple[Value, ...], Finding | None]:
    """Run a program, and compare the values of its instructions with expected ones.

    Args:
        mine: The program.
        arguments: Arguments of the program.
        known: Expected values of instructions, one for each evaluation.
        compare: Returns the difference of two arrays, or `None`.
        world: Evaluation context of the program.
        choices: Several possible values of some instructions; if none of them is equal, the run
            continues.

    Returns:
        The finding, the results of the program, and a finding of the first instruction whose value
        equals none of its choices.
    """
    comparison = _Comparison(known, choices, compare)
    finding = comparison.finding
    try:
        results = evaluate(mine, arguments, replace(world, watch=comparison.watch))
    except _Found:
        assert finding.instruction is not None
        finding.operands = _operands(mine, arguments, finding.instruction, finding, world)
        results = ()
    return finding, results, comparison.first


class _Comparison:
    """The comparison of the values of a running program with expected ones, as in `_compared`.

    Attributes:
        finding: What was compared, and the first instruction whose value differs.
        first: The first instruction whose value equals none of its choices; `None` if there is
            none.
    """

    def __init__(
        self,
        known: Mapping[Instruction, list[Value | None]],
        choices: Mapping[Instruction, list[Value | None]],
        compare: Compare,
    ) -> None:
        self._known, self._choices, self._compare = known, choices, compare
        self._times: defaultdict[Instruction, int] = defaultdict(int)
        self.finding = Finding()
        self.first: Finding | None = None

    def watch(self, ins: Instruction, value: Value) -> None:
        """Compare the value of an instruction with the expected one.

        Raises:
            _Found: They differ.
        """
        expected, finding = self._known.get(ins), self.finding
        if expected is None:
            if ins in self._choices:
                self._choose(ins, value)
            return
        self._times[ins] = time = self._times[ins] + 1
        # The reference evaluated it less often, or its value was not recorded: nothing to compare
        # with.
        if time > len(expected) or expected[time - 1] is None:
            return
        finding.instructions += time == 1
        finding.values += 1
        found = _first_differing_array(value, expected[time - 1], ins, self._compare)
        if found is not None:
            finding.instruction, finding.part, finding.difference = ins, *found
            finding.evaluation = time
            raise _Found

    def _choose(self, ins: Instruction, value: Value) -> None:
        """Compare a value with its choices; record the first instruction that equals none."""
        finding = self.finding
        found = [
            _first_differing_array(value, one, ins, self._compare)
            for one in self._choices[ins]
            if one is not None
        ]
        if not found:
            return
        finding.instructions += 1
        finding.by_source += 1
        finding.values += 1
        if all(each is not None for each in found):
            finding.unlike += 1
            if self.first is None and found[0] is not None:
                part, difference = found[0]
                self.first = Finding(ins, difference, part=part, evaluation=1)


def _first_differing_array(
    value: Value, right: Any, ins: Instruction, compare: Compare
) -> tuple[int, Difference] | None:
    """Return the number of the first array of a value that differs, and the difference.

    `None` if all arrays are equal.

    Args:
        value: The value, an array or a tuple.
        right: The expected value.
        ins: The instruction that computes the value.
        compare: Returns the difference of two arrays, or `None`.
    """
    pairs = zip(leaves(value, ins.type), leaves(right, ins.type), strict=True)
    for part, ((a, _), (b, _)) in enumerate(pairs):
        difference = _difference(a, b, compare)
        if difference is not None:
            return part, difference
    return None


def _difference(a: Array, b: Array, compare: Compare) -> Difference | None:
    """Return the difference of two arrays, by shape and then by elements; `None` if equal."""
    if a.shape != b.shape:
        return Difference(a.size, a.size, (), list(a.shape), list(b.shape), "the shape")
    return compare(a, b)


def _operands(
    mine: Computation, arguments: Sequence[Any], ins: Instruction, finding: Finding, world: World
) -> list[tuple[Instruction, Value | None]]:
    """Return the operands of `ins` with their values at the evaluation that `finding` names.

    The program `mine` is run again up to there. `None` stands for a value that is not known.
    """
    sources = [_source(operand, mine) for operand in ins.operands]
    latest: dict[Instruction, Value | None] = dict.fromkeys(sources)
    for parameter, value in zip(mine.body.parameters, arguments, strict=True):
        if parameter in latest:
            latest[parameter] = value
    left = finding.evaluation

    def watch(at: Instruction, value: Value) -> None:
        """Record the values of operands; raise `_Found` at the evaluation that differed."""
        nonlocal left
        if at in latest:
            latest[at] = value
        if at is ins:
            left -= 1
            if not left:
                raise _Found

    # The second run must not print or probe again.
    quiet = {**world.extra, PRINT: lambda _: None}
    quiet.pop(PROBE, None)
    with suppress(_Found, EvaluationError):
        evaluate(mine, arguments, replace(world, watch=watch, steps=0, extra=quiet))
    return list(zip(ins.operands, [latest[source] for source in sources], strict=True))


def _source(value: Instruction, entry: Computation) -> Instruction:
    """Return the operand that a parameter stands for, if its computation is called exactly once.

    If the operand is such a parameter, too, that is repeated. Other values are returned unchanged.
    """
    callers: dict[Instruction, list[Instruction]] = {}
    for computation in reachable(entry):
        for ins in computation:
            if isinstance(ins.op, Call | Fusion | Composite):
                for callee in ins.calls:
                    for parameter, operand in zip(
                        callee.body.parameters, ins.operands, strict=False
                    ):
                        callers.setdefault(parameter, []).append(operand)
    while len(callers.get(value, ())) == 1:
        (value,) = callers[value]
    return value


def _compare_results(
    finding: Finding,
    mine: Computation,
    found: tuple[Value, ...],
    theirs: Computation,
    expected: tuple[Value, ...],
    compare: Compare,
) -> Instruction | None:
    """Compare the results of two programs, and record the first difference in `finding`.

    Return the instruction that computes the first result that differs; `None` if all are equal.

    Args:
        finding: The finding; changed.
        mine: The first program.
        found: Its results.
        theirs: The second program.
        expected: Its results.
        compare: Returns the difference of two arrays, or `None`.

    Raises:
        EvaluationError: The programs return different numbers of arrays.
    """
    a = [leaf for v, t in zip(found, mine.results, strict=True) for leaf in leaves(v, t)]
    b = [leaf for v, t in zip(expected, theirs.results, strict=True) for leaf in leaves(v, t)]
    if len(a) != len(b):
        raise EvaluationError(f"one program returns {len(a)} arrays, the other {len(b)}")
    for part, ((x, _), (y, _)) in enumerate(zip(a, b, strict=True)):
        finding.values += 1
        difference = _difference(x, y, compare)
        if difference is not None:
            finding.instruction, finding.part = _returned(mine.root, part)
            finding.difference, finding.evaluation = difference, 1
            return finding.instruction
    return None


def _returned(root: Instruction, part: int) -> tuple[Instruction, int]:
    """Return the instruction that computes result `part`, and the number of the array in its value.

    It is the root itself if the root's operands are not all arrays.
    """
    values = root.operands if isinstance(root.op, Return | Tuple) else ()
    if part < len(values) and all(isinstance(value.type, TensorType) for value in values):
        return values[part], 0
    return root, part


# --------------------------------------------------------------------------------------------------
# Correspondence of instructions of two compilation stages by their source location.
#
# Passes rename, fuse and reorder instructions, but keep the `op_name` and source line of the
# instruction that computes a final value.


Key: TypeAlias = "tuple[object, ...]"

_SILENT: Final = (Constant, *STRUCTURE)
"""Ops whose values say nothing about a source line: constants, parameters and tuples."""
_NUMBER: Final = pattern(r"(?:[._](?:\d+|clone|remat))+$")
_NOT_IN_NAMES: Final = pattern(r"\W")


def by_source(
    mine: Computation, theirs: Computation, paired: Mapping[Instruction, Instruction]
) -> dict[Instruction, list[Instruction]]:
    """Return the instructions of `theirs` from the same source, by instructions of `mine`.

    Only instructions without partner in `paired` are listed. Two instructions have the same source
    if `op_name`, file, line, element type and sizes are equal. If one program has no `op_name`s,
    instruction names replace their last parts: `add.12` for `jit(f)/add`. Only instructions that
    run once and depend on arguments count: passes move constants to places where other constants
    have their names.
    """
    once = [*_run_once(mine)], [*_run_once(theirs)]
    # Both programs need `op_name`s; else the keys of the two sides would have different forms.
    uses_op_name = all(any(_origin(ins) is not None for c in side for ins in c) for side in once)
    right: defaultdict[Key, list[Instruction]] = defaultdict(list)
    for computation in once[1]:
        for y in _computed(computation):
            key = _key(y, uses_op_name)
            if key is not None:
                right[key].append(y)
    found: dict[Instruction, list[Instruction]] = {}
    for computation in once[0]:
        for x in _computed(computation):
            key = None if x in paired else _key(x, uses_op_name)
            if key is not None and key in right:
                found[x] = right[key]
    return found


def _run_once(entry: Computation) -> Iterator[Computation]:
    """Yield the computations that are evaluated exactly once when the entry runs."""
    sites: defaultdict[Computation, list[Instruction]] = defaultdict(list)
    for computation in reachable(entry):
        for ins in computation:
            for callee in ins.calls:
                sites[callee].append(ins)

    def called_once(computation: Computation) -> Iterator[Computation]:
        for ins in computation:
            if isinstance(ins.op, Call | Composite | Fusion):
                yield from (callee for callee in ins.calls if len(sites[callee]) == 1)

    yield from reached([entry], called_once)


def _computed(computation: Computation) -> Iterator[Instruction]:
    """Yield the instructions that depend on more than constants, operands first."""
    constant: set[Instruction] = set()
    for ins in computation:
        is_written = isinstance(ins.op, Constant | Iota | Fusion) or bool(ins.operands)
        may_vary = isinstance(ins.op, CustomCall | Rng)
        if is_written and not may_vary and constant.issuperset(ins.operands):
            constant.add(ins)
        else:
            yield ins


def _key(ins: Instruction, uses_op_name: bool) -> Key | None:
    """Return a key of the source location and type of an instruction.

    If `uses_op_name` is true, the key has the `op_name`, else the instruction's name. `None` if
    there is no location.
    """
    if isinstance(ins.op, _SILENT) or not isinstance(ins.type, TensorType):
        return None
    origin = _origin(ins)
    if uses_op_name:
        return None if origin is None else (*origin, without_layouts(ins.type))
    if origin is None:
        return _NUMBER.sub("", ins.name), without_layouts(ins.type)
    return _NOT_IN_NAMES.sub("_", origin[0].rpartition("/")[2]), without_layouts(ins.type)


def _origin(ins: Instruction) -> tuple[str, str, int] | None:
    """Return `op_name`, file and line of an HLO instruction; `None` if the text has none."""
    text = dict(ins.extras).get("metadata")
    if text is None:
        return None
    try:
        found = read_metadata(text)
    except HloscopeError:
        return None
    return (found.op_name, found.source_file, found.source_line) if found.op_name else None


# --------------------------------------------------------------------------------------------------
# Outcome of runs of two programs: a first difference, or none found.


class ValueDifference(Struct, frozen=True, eq=False):
    """The first run in which two programs return different values.

    Attributes:
        run: Number of the run, from 0, on which alone its arguments depend.
        output: Number of the tensor in the results.
        device: Replica and partition that return the value; `None` on a single device.
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
    """Results of runs of two programs on the same arguments.

    Attributes:
        runs: Number of runs of both programs.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        divided: The partitioned program, "A" or "B", if the other one runs on one device and its
            arguments are divided by their shardings; else empty.
        difference: The first difference; `None` if none was found.
        types: Difference of the types, if that is why nothing was run; else empty.
        reason: Text that says why a run was not possible; else empty.
    """

    runs: int = 0
    replicas: int = 1
    partitions: int = 1
    divided: str = ""
    difference: ValueDifference | None = None
    types: str = ""
    reason: str = ""
