"""Comparison of what the outputs of two programs read, reduced to the instructions that differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from time import process_time
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import OutOfTimeError
from hloscope.fusion import (
    Analysis,
    Flow,
    Leaf,
    ParameterReads,
    StructureIds,
    counterparts,
    origins_of,
    renamed_value,
    with_origins,
)
from hloscope.indexing import Accesses, IndexingMap, Precision, prove_equal
from hloscope.ir import CalledValue, Computation, Instruction, captured, captures
from hloscope.ops import Call, Fusion, GetTupleElement, Parameter, Tuple
from hloscope.proof.allowance import SECONDS_EQUAL, Allowance, Isolated
from hloscope.proof.participants import Header, Participants, is_among_devices
from hloscope.simplifier import BUDGET, PROVED, CounterExample, Proof, UndecidedError, Verdict
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# Comparison of the relations of two programs, reduced to the instructions that differ.
#
# Values of both programs are numbered by structure; equal numbers mean equal graphs.  Two values
# are also equal if they read the same elements of pairwise equal operands.  So a change of one
# instruction needs a proof about that instruction only.  Differences that remain are composed down
# to values of equal structure, which are in both programs.


Pair: TypeAlias = tuple[Leaf, Leaf]

FEW_STEPS: Final = BUDGET // 100
"""Number of isl's steps that are taken in this process: a tenth of a second at most."""


class Compared(Struct, frozen=True):
    """One comparison: a text that says what was compared, and its proof."""

    what: str
    proof: Proof


class Unlike(Struct, frozen=True):
    """Two values that may read different elements; `example` describes an index that shows it."""

    pair: Pair
    example: str = ""

    def __str__(self) -> str:
        names = " and ".join(dict.fromkeys(f"`{value.name}`" for value, _ in self.pair))
        return f"{names} reads {self.example}" if self.example else f"{names} may read differently"


def compare(
    a: Computation,
    b: Computation,
    *,
    seconds: float = SECONDS_EQUAL,
    headers: Sequence[Header] = ((), ()),
) -> Iterator[Compared]:
    """Compare the elements of the parameters that the outputs of two computations read.

    Args:
        a: The first computation.
        b: The second one, with as many parameters.
        seconds: Limit of the processor time; comparisons beyond it are undecided.
        headers: Attributes of the two modules: device counts and meshes.

    Yields:
        One comparison for each output, or for each parameter of an output that may differ.
    """
    participants = Participants([[a], [b]], headers)
    if participants.reason:
        yield Compared("devices", _undecided(participants.reason))
        return
    comparison = _Comparison(a, b, Allowance(SECONDS_EQUAL, total=seconds), participants)
    analysis = comparison.analysis
    outputs, others = len(analysis.tensors(a.root.type)), len(analysis.tensors(b.root.type))
    if outputs != others:
        said = f"{outputs} outputs, and {others}"
        yield Compared("outputs", Proof(Verdict.REFUTED, reason=said))
        return
    yield from comparison.outputs(outputs)


class _Comparison:
    """The comparison of two computations, with stored results for pairs of their values.

    `_sides` are the two computations; a pair has one leaf of a value of each.
    """

    def __init__(
        self,
        a: Computation,
        b: Computation,
        allowance: Allowance,
        participants: Participants,
    ) -> None:
        self.analysis: Final = Analysis()
        self._participants: Final = participants
        self._sides: Final = a, b
        self._allowance: Final = allowance
        until = process_time() + allowance.left()
        numbering = Numbering()
        self._structure_id: Final = numbering.structure_id
        self._number: Final[dict[Instruction, int]] = numbering.of(a) | numbering.of(b)
        shared = set(map(self._number.__getitem__, a)) & set(map(self._number.__getitem__, b))
        self._common: Final = frozenset(i for i in (*a, *b) if self._number[i] in shared)
        self._same: Final[dict[tuple[tuple[int, ...], tuple[int, ...]], Proof]] = {}
        self._reads: Final = [self._reading(side, self._common, until) for side in self._sides]
        self._whole: Final = [self._reading(side, frozenset(), until) for side in self._sides]

    def _reading(
        self, side: Computation, ends: frozenset[Instruction], until: float
    ) -> ParameterReads:
        """Return what the values of `side` read of its parameters and of the values `ends`.

        `until` is the processor time, as by `cpu_seconds`, at which the analysis stops.
        """
        return ParameterReads(self.analysis, side, ends, until)

    def outputs(self, count: int) -> Iterator[Compared]:
        """Yield one comparison for each output, or one for each parameter if an output may differ.

        `count` is the number of outputs.
        """
        pairs = [self._output(number) for number in range(count)]
        unlike = self._explore(pair for pair in pairs if pair is not None)
        for number, pair in enumerate(pairs):
            here = f"output {number}"
            if pair is None:
                yield Compared(here, _undecided("it is a tensor in one program only"))
            elif pair not in unlike:
                yield Compared(here, PROVED)
            else:
                yield from self._composed(here, number, unlike[pair])

    def _output(self, number: int) -> Pair | None:
        """Return the tensors of both roots that are output number `number`.

        `None` if one of the roots has no such output.
        """
        a, b = (side.root for side in self._sides)
        one, other = self.analysis.leaf_of(a.type, number), self.analysis.leaf_of(b.type, number)
        return None if one is None or other is None else ((a, one), (b, other))

    def _composed(self, here: str, output: int, unlike: Unlike) -> Iterator[Compared]:
        """Yield the comparisons of what one output reads of each parameter.

        Args:
            here: Text that names the output.
            output: Number of the output.
            unlike: The difference of two producers of the output, for the reason if time runs out.
        """
        try:
            a, b = self._parameters_read(*[(side.root, output) for side in self._sides])
        except OutOfTimeError:
            said = f"{unlike}, and what follows takes too long to compose"
            yield Compared(here, _undecided(said))
            return
        # Parameters with the same number correspond; one that only one program reads is compared
        # with nothing.
        for number, tensor in sorted(a.keys() | b.keys()):
            what = f"{here}, parameter {number}" + (f"{{{tensor}}}" if tensor else "")
            mine, theirs = a.get((number, tensor), ()), b.get((number, tensor), ())
            yield Compared(what, self._same_reads(mine, theirs))

    def _explore(self, pairs: Iterable[Pair]) -> dict[Pair, Unlike]:
        """Return the pairs that may read different elements, each with the causing difference.

        The search goes from `pairs` to the operands. Pairs whose operands are pairwise equal need
        no own proof; a difference of two operands counts for all their users.
        """
        stack = list(pairs)
        above: dict[Pair, list[Pair]] = {pair: [] for pair in stack}
        unlike: dict[Pair, Unlike] = {}
        while stack:
            top = stack.pop()
            # Equal numbers mean equal graphs: nothing below can differ.
            (a, leaf), (b, other) = top
            if leaf == other and self._number[a] == self._number[b]:
                continue
            below = self._operands(top)
            if below is None and (difference := self._difference(top)) is not None:
                unlike[top] = difference
            for pair in below or ():
                if pair not in above:
                    above[pair] = []
                    stack.append(pair)
                above[pair].append(top)
        # A pair with an unequal pair of operands may differ, so a difference spreads to all users.
        stack = list(unlike)
        while stack:
            pair = stack.pop()
            for user in above[pair]:
                if user not in unlike:
                    unlike[user] = unlike[pair]
                    stack.append(user)
        return unlike

    def _operands(self, pair: Pair) -> list[Pair] | None:
        """Return the pairs of operands of two values that both read in the same way.

        `None` if the two instructions may read different elements of them.
        """
        (a, _), (b, _) = pair
        flows = [tuple(self.analysis.reads(*value)) for value in pair]
        if len(flows[0]) != len(flows[1]) or not flows[0]:
            return None
        found: list[Pair] = []
        for one, two in zip(*flows, strict=True):
            if not isinstance(one.operand, int) or not isinstance(two.operand, int):
                return None
            if not self._have_equal_maps(a, one, b, two):
                return None
            found.append(((a.operands[one.operand], one.leaf), (b.operands[two.operand], two.leaf)))
        return found

    def _have_equal_maps(self, a: Instruction, one: Flow, b: Instruction, two: Flow) -> bool:
        """Do the maps of two dependences certainly lead to the same elements?

        `one` is a dependence of instruction `a`, `two` of `b`. Values that the maps read at run
        time have to be equal, too.
        """
        if one.accesses is None or two.accesses is None:
            return one.accesses is two.accesses
        mine = self._participants.canonical(one.accesses, 0)
        theirs = self._participants.canonical(two.accesses, 1)
        if mine == theirs and _is_certain(mine):
            return True
        if any(x.precision is not Precision.EXACT for x in mine):
            return False
        # The origins are paired in order of occurrence; the accesses must be equal after renaming.
        origins, others = origins_of(mine), origins_of(theirs)
        if len(origins) != len(others):
            return False
        new = dict(zip(others, origins, strict=True))
        return all(self._is_same_value(a, x, b, y) for y, x in new.items()) and (
            mine == tuple(with_origins(access, new) for access in theirs)
        )

    def _is_same_value(
        self, a: Instruction, x: Instruction, b: Instruction, y: Instruction
    ) -> bool:
        """Are `x` and `y` the same value?

        They are operands of `a` and `b`, or inside their called computations.
        """
        if x in self._number or y in self._number:
            return self._number.get(x) == self._number.get(y)
        if not isinstance(a.op, CALLING) or not isinstance(b.op, CALLING):
            return False
        if isinstance(x, CalledValue) and isinstance(y, CalledValue) and (x.call, y.call) == (a, b):
            x, y = x.value, y.value
        # Inside calls of equal structure, the values at the same position are equal if the
        # parameters they depend on have equal operands.
        mine, theirs = a.calls[0], b.calls[0]
        if self._structure_id(mine) != self._structure_id(theirs):
            return False
        if renamed_value(x, counterparts(mine, theirs)) is not y:
            return False
        return all(
            self._number[a.operands[k]] == self._number[b.operands[k]]
            for k in _parameters_of(_holder(mine, x.call if isinstance(x, CalledValue) else x))
        )

    def _difference(self, pair: Pair) -> Unlike | None:
        """Return how two values differ; `None` if they surely read the same parameter elements.

        If no index that shows the difference is known, it is `Unlike(pair)` without an example.
        """
        outputs = [self.analysis.tensor_of(value.type, leaf) for value, leaf in pair]
        if self._allowance.is_spent or outputs[0] is None or outputs[1] is None:
            return Unlike(pair)
        one, other = (
            (value, output)
            for (value, _), output in zip(pair, outputs, strict=True)
            if output is not None
        )
        said: str | None = ""
        with suppress(OutOfTimeError):
            said = self._difference_text(one, other)
            if said is None or self._reads_same_parameters(one, other):
                return None
        return Unlike(pair, said or "")

    def _difference_text(self, one: Leaf, other: Leaf) -> str | None:
        """Return a text of how two tensors differ in the elements that they read.

        `one` and `other` are tensors of the two programs. The text names a value and an index; it
        is empty if no index is known. `None` if both tensors certainly read the same elements.
        """
        if not all(
            _is_certain(flow.accesses or ())
            for value, tensor in (one, other)
            for flow in self.analysis.reads(value, self.analysis.leaf_of(value.type, tensor) or 0)
        ):
            return ""
        a, b = (
            reads.of(value, output)
            for reads, (value, output) in zip(self._reads, (one, other), strict=True)
        )
        if not all(_is_certain(found) for found in (*a.values(), *b.values())):
            return ""
        # Values with equal structural numbers count as one value, whatever their names are.
        names = {self._place(end): end[0].name for end in (*b, *a)}
        mine, theirs = (
            {self._place(end): accesses for end, accesses in ends.items()} for ends in (a, b)
        )
        for place, name in names.items():
            proof = same(mine.get(place, ()), theirs.get(place, ()), self._participants)
            if proof.verdict is Verdict.REFUTED and proof.counter_example is not None:
                return f"`{name}` differently: {proof.counter_example}"
            if not proof.is_proved:
                return ""
        return None

    def _reads_same_parameters(self, one: Leaf, other: Leaf) -> bool:
        """Do two tensors surely read the same parameter elements, although along different paths?

        `one` is a tensor of the first program, `other` of the second. Example: sums over an array
        and over its reverse.  Then the instructions that use them need no comparison.
        """
        a, b = self._parameters_read(one, other)
        return all(self._same_reads(a.get(k, ()), b.get(k, ())).is_proved for k in a.keys() | b)

    def _parameters_read(self, *tensors: Leaf) -> list[dict[tuple[int, int], Accesses]]:
        """Return, for one tensor of each program, its accesses to parameters.

        Keys are the numbers of the parameter, and of the tensor in it.
        """
        return [
            _by_parameter(reads.of(*tensor))
            for reads, tensor in zip(self._whole, tensors, strict=True)
        ]

    def _same_reads(self, mine: Accesses, theirs: Accesses) -> Proof:
        """Prove or refute that accesses of both programs have the same elements.

        `mine` are accesses of the first program, `theirs` of the second. Equal values count as one
        value that the maps read at run time.
        """
        key = (tuple(map(id, mine)), tuple(map(id, theirs)))  # interned accesses
        if key not in self._same:
            if origins_of(mine) or origins_of(theirs):
                new = self._representatives
                mine, theirs = (
                    tuple([with_origins(access, new) for access in accesses])
                    for accesses in (mine, theirs)
                )
            self._same[key] = same_of_origins(mine, theirs, self._participants)
        return self._same[key]

    # Cached: `_same_reads` needs it for every pair with runtime variables; it is one pass over
    # both programs.
    @cached_property
    def _representatives(self) -> dict[Instruction, Instruction]:
        """For each value of both programs, the first value that surely equals it.

        Values inside equal calls are included; `renamed_value` distinguishes the calls.
        """
        first: dict[int, Instruction] = {}
        found: dict[Instruction, Instruction] = {}
        for ins, number in self._number.items():
            found[ins] = other = first.setdefault(number, ins)
            if ins is not other and isinstance(ins.op, CALLING):
                for mine, theirs in zip(ins.calls, other.calls, strict=True):
                    found |= counterparts(mine, theirs)
        return found

    def _place(self, end: Leaf) -> tuple[int, int]:
        """Return a key of a leaf: leaves of equal values in both programs have equal keys."""
        return self._number[end[0]], end[1]


def _by_parameter(ends: Mapping[Leaf, Accesses]) -> dict[tuple[int, int], Accesses]:
    """Return the accesses to parameters among `ends`, by parameter number and leaf number."""
    return {
        (value.op.number, tensor): found
        for (value, tensor), found in ends.items()
        if isinstance(value.op, Parameter)
    }


def _holder(computation: Computation, value: Instruction) -> Instruction:
    """Return the instruction of a computation that is the value, or whose callees contain it."""
    for ins in computation:
        inside = reached(ins.calls, lambda computation: computation.callees)
        if ins is value or any(value in inner.instructions for inner in inside):
            return ins
    return value


def _parameters_of(value: Instruction) -> set[int]:
    """Return the numbers of the parameters on which a value depends."""
    read = reached([value], lambda ins: (*ins.operands, *captured(ins)))
    return {ins.op.number for ins in read if isinstance(ins.op, Parameter)}


def _is_certain(accesses: Accesses) -> bool:
    """Are all maps of `accesses` exact, and independent of values read at run time?"""
    return not origins_of(accesses) and all(x.precision is Precision.EXACT for x in accesses)


def _undecided(reason: str) -> Proof:
    return Proof(Verdict.UNDECIDED, reason=reason)


def same(a: Accesses, b: Accesses, participants: Participants) -> Proof:
    """Prove or refute that two unions of accesses are equal; undecided unless all are exact.

    `participants` compares accesses to other devices.
    """
    inexact = next((x for x in (*a, *b) if x.precision is not Precision.EXACT), None)
    if inexact is not None:
        return _undecided(f"{inexact.precision}: {inexact.reason}")
    if is_among_devices((*a, *b)):
        return participants.same(a, b)
    return same_maps([x.map for x in a if x.map], [x.map for x in b if x.map])


def same_maps(
    a: Sequence[IndexingMap], b: Sequence[IndexingMap], *, seconds: float = SECONDS_EQUAL
) -> Proof:
    """Prove or refute that two unions of maps are equal.

    A few steps of isl, enough for nearly all maps, are taken in this process. More steps are taken
    in a child process that can be killed: with nested divisions a single step of isl may take
    milliseconds.

    Args:
        a: Maps of the first union.
        b: Maps of the second union.
        seconds: Limit of the child's processor time; the result is undecided beyond it.
    """
    if any(m.runtime for m in (*a, *b)):
        # A counter-example with runtime variables has tables, which JSON from a child lacks.
        return prove_equal(a, b)
    found = prove_equal(a, b, budget=FEW_STEPS)
    if found.verdict is not Verdict.UNDECIDED:
        return found
    apart = Isolated([lambda: _as_json(prove_equal(a, b))])
    try:
        verdict, reason, example = apart.ask(0, seconds)
    except UndecidedError as error:
        return _undecided(str(error))
    finally:
        apart.stop()
    if example is not None:
        dims, results, only_in = example
        example = CounterExample(tuple(dims), tuple(results), only_in=only_in)
    return Proof(Verdict(verdict), example, reason)


def _as_json(proof: Proof) -> tuple[str, str, tuple[Sequence[int], Sequence[int], int] | None]:
    """Return a proof about maps without runtime variables as JSON data.

    It has the verdict, the reason and the counter-example.
    """
    example = proof.counter_example
    found = None if example is None else (example.dims, example.results, example.only_in)
    return str(proof.verdict), proof.reason, found


def same_of_origins(a: Accesses, b: Accesses, participants: Participants) -> Proof:
    """Prove or refute that two unions of accesses are equal; values may have other names in both.

    Different values that the maps read at run time may be equal. So a refutation counts only if all
    values that only one union reads are parameters, which are independent; else the result is
    undecided.
    """
    found = same(a, b, participants)
    if found.verdict is not Verdict.REFUTED:
        return found
    apart = [o for o in origins_of(a).keys() ^ origins_of(b).keys()]
    if all(isinstance(o.op, Parameter) for o in apart):
        return found
    names = ", ".join(sorted({f"`{o.name}`" for o in apart if not isinstance(o.op, Parameter)}))
    return _undecided(f"what is read depends on {names}, which both may know by other names")


# --------------------------------------------------------------------------------------------------
# Structural numbers of values: equal numbers mean equal graphs, and so equal values.


CALLING: Final = (Call, Fusion)
"""Ops whose value is that of the root of their called computation."""


class Numbering:
    """Numbers of the values of several computations: equal numbers mean equal structure.

    An element of a tuple is numbered by its own inputs, independent of the other elements. So a
    change of one result of a function leaves the numbers of its other results unchanged.
    """

    def __init__(self) -> None:
        self._structure_ids = StructureIds()
        self._table: dict[object, int] = {}
        self._used: dict[int, tuple[int, ...]] = {}
        self.structure_id: Final = self._structure_ids.number

    def of(self, side: Computation) -> dict[Instruction, int]:
        """Return the number of each instruction of a computation."""
        known: dict[Instruction, int] = {}
        for ins in side:
            if isinstance(ins.op, GetTupleElement):
                whole, index = ins.operands[0], ins.op.index
                # An element of a tuple is the operand itself.
                if isinstance(whole.op, Tuple) and whole in known:
                    known[ins] = known[whole.operands[index]]
                    continue
                made_of = self._operands_of_element(whole, index)
                if made_of is not None:
                    key = self._key(whole, made_of, known)
                    known[ins] = self._table.setdefault((index, key), len(self._table))
                    continue
            key = self._key(ins, ins.operands, known)
            known[ins] = self._table.setdefault(key, len(self._table))
        return known

    def _key(
        self,
        ins: Instruction,
        operands: tuple[Instruction, ...],
        known: dict[Instruction, int],
    ) -> tuple[object, ...]:
        """Return a key of an instruction that reads `operands`; equal keys mean equal structure.

        `known` has the numbers of operands; an operand without a number stands for itself.
        """
        number = self._structure_ids
        return (
            number.op_of(ins),
            number.type_number(ins.type),
            *[known.get(operand, operand) for operand in operands],
            None,
            *[number.number(callee) for callee in ins.calls],
        )

    def _operands_of_element(self, ins: Instruction, index: int) -> tuple[Instruction, ...] | None:
        """Return the operands of a call on which element `index` of the returned tuple depends.

        `None` if the instruction is no such call, or the operands are not known.
        """
        if not isinstance(ins.op, CALLING) or len(ins.calls) != 1 or captured(ins):
            return None
        callee = ins.calls[0]
        if not isinstance(callee.root.op, Tuple):
            return None
        number = self._structure_ids.number(callee)
        if number not in self._used:
            self._used[number] = _used_parameters(callee)
        used = self._used[number][index]
        if used.bit_length() > len(ins.operands):
            return None
        return tuple([operand for k, operand in enumerate(ins.operands) if used >> k & 1])


def _used_parameters(callee: Computation) -> tuple[int, ...]:
    """Return, for each operand of the root, a bit mask of the parameters on which it depends."""
    used: dict[Instruction, int] = {}
    for ins in callee:
        bits = 1 << ins.op.number if isinstance(ins.op, Parameter) else 0
        for operand in ins.operands:
            bits |= used.get(operand, 0)
        for inner in ins.calls:
            for value in captures(inner):
                bits |= used.get(value, 0)
        used[ins] = bits
    return tuple([used[operand] for operand in callee.root.operands])
