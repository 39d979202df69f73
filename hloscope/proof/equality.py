"""Do two programs read the same?  Asked part by part, so that only what differs is asked in full.

Values of both programs are numbered by structure; equal numbers mean equal graphs.  Two values are
also alike if they read the same elements of operands that are alike, in turn: so a change of one
instruction is a question about that instruction.  What is left is composed down to values of equal
structure.
"""

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
    counterparts,
    origins_of,
    renamed_value,
    with_origins,
)
from hloscope.indexing import Accesses, IndexingMap, Precision, prove_equal
from hloscope.ir import CalledValue, Computation, Instruction, captured
from hloscope.ops import Parameter
from hloscope.proof.allowance import SECONDS_EQUAL, Allowance
from hloscope.proof.isolated import Isolated
from hloscope.proof.numbering import CALLING, Numbering
from hloscope.proof.participants import Header, Participants, is_among_devices
from hloscope.simplifier import BUDGET, PROVED, CounterExample, Proof, UndecidedError, Verdict
from hloscope.walks import reached

Pair: TypeAlias = tuple[Leaf, Leaf]

FEW_STEPS: Final = BUDGET // 100
"""Steps of isl that are taken without another process: a tenth of a second at most."""


class Compared(Struct, frozen=True):
    """One comparison: what was compared, and what came of it."""

    what: str
    proof: Proof


class Unlike(Struct, frozen=True):
    """Two values that may read differently: what is said of it, an index that tells if known."""

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
    """What each output of two computations with equally many parameters reads of them.

    Args:
        a: One of them.
        b: The other one.
        seconds: Processor time for all; what would take longer is undecided.
        headers: Attributes of the module of each: device counts and meshes.
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
    """Two computations, and what is known of pairs of their values."""

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
        self._blueprint: Final = numbering.blueprint
        self._number: Final[dict[Instruction, int]] = numbering.of(a) | numbering.of(b)
        shared = set(map(self._number.__getitem__, a)) & set(map(self._number.__getitem__, b))
        self._common: Final = frozenset(i for i in (*a, *b) if self._number[i] in shared)
        self._same: Final[dict[tuple[tuple[int, ...], tuple[int, ...]], Proof]] = {}
        self._reads: Final = [self._reading(side, self._common, until) for side in self._sides]
        self._whole: Final = [self._reading(side, frozenset(), until) for side in self._sides]

    def _reading(
        self, side: Computation, ends: frozenset[Instruction], until: float
    ) -> ParameterReads:
        return ParameterReads(self.analysis, side, ends, until)

    def outputs(self, count: int) -> Iterator[Compared]:
        """Each output of both, as one comparison or as one for each parameter."""
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
        a, b = (side.root for side in self._sides)
        one, other = self.analysis.leaf_of(a.type, number), self.analysis.leaf_of(b.type, number)
        return None if one is None or other is None else ((a, one), (b, other))

    def _composed(self, here: str, output: int, unlike: Unlike) -> Iterator[Compared]:
        """What an output of both reads of each parameter."""
        try:
            a, b = self._parameters_read(*[(side.root, output) for side in self._sides])
        except OutOfTimeError:
            said = f"{unlike}, and what follows takes too long to compose"
            yield Compared(here, _undecided(said))
            return
        for number, tensor in sorted(a.keys() | b.keys()):
            what = f"{here}, parameter {number}" + (f"{{{tensor}}}" if tensor else "")
            mine, theirs = a.get((number, tensor), ()), b.get((number, tensor), ())
            yield Compared(what, self._same_reads(mine, theirs))

    def _explore(self, pairs: Iterable[Pair]) -> dict[Pair, Unlike]:
        """All pairs not known to be alike, each with one below that may read differently."""
        stack = list(pairs)
        above: dict[Pair, list[Pair]] = {pair: [] for pair in stack}
        unlike: dict[Pair, Unlike] = {}
        while stack:
            top = stack.pop()
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
        stack = list(unlike)
        while stack:
            pair = stack.pop()
            for user in above[pair]:
                if user not in unlike:
                    unlike[user] = unlike[pair]
                    stack.append(user)
        return unlike

    def _operands(self, pair: Pair) -> list[Pair] | None:
        """The pairs of operands that the values read alike; `None` if they read differently."""
        (a, _), (b, _) = pair
        flows = [tuple(self.analysis.reads(*value)) for value in pair]
        if len(flows[0]) != len(flows[1]) or not flows[0]:
            return None
        found: list[Pair] = []
        for one, two in zip(*flows, strict=True):
            if not isinstance(one.operand, int) or not isinstance(two.operand, int):
                return None
            if not self._is_alike(a, one, b, two):
                return None
            found.append(((a.operands[one.operand], one.leaf), (b.operands[two.operand], two.leaf)))
        return found

    def _is_alike(self, a: Instruction, one: Flow, b: Instruction, two: Flow) -> bool:
        """Are the elements surely the same, read by the same values where these decide?"""
        if one.accesses is None or two.accesses is None:
            return one.accesses is two.accesses
        mine = self._participants.canonical(one.accesses, 0)
        theirs = self._participants.canonical(two.accesses, 1)
        if mine == theirs and _is_certain(mine):
            return True
        if any(x.precision is not Precision.EXACT for x in mine):
            return False
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
        """Is `x`, beside or inside `a`, the same value as `y` beside or inside `b`?"""
        if x in self._number or y in self._number:
            return self._number.get(x) == self._number.get(y)
        if not isinstance(a.op, CALLING) or not isinstance(b.op, CALLING):
            return False
        if isinstance(x, CalledValue) and isinstance(y, CalledValue) and (x.call, y.call) == (a, b):
            x, y = x.value, y.value
        mine, theirs = a.calls[0], b.calls[0]
        if self._blueprint(mine) != self._blueprint(theirs):
            return False
        if renamed_value(x, counterparts(mine, theirs)) is not y:
            return False
        return all(
            self._number[a.operands[k]] == self._number[b.operands[k]]
            for k in _parameters_of(_holder(mine, x.call if isinstance(x, CalledValue) else x))
        )

    def _difference(self, pair: Pair) -> Unlike | None:
        """`None` if two values surely read the same of the parameters."""
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
            said = self._told_apart(one, other)
            if said is None or self._reads_same_parameters(one, other):
                return None
        return Unlike(pair, said or "")

    def _told_apart(self, one: Leaf, other: Leaf) -> str | None:
        """`None` if two tensors surely read the same of the values that both programs have.

        Else of what something else is read, and an index that tells; empty if none is known.
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
        """Do two tensors surely read the same, although on other ways?

        As two sums over what one of them has reversed do: what follows them need not be composed.
        """
        a, b = self._parameters_read(one, other)
        return all(self._same_reads(a.get(k, ()), b.get(k, ())).is_proved for k in a.keys() | b)

    def _parameters_read(self, *tensors: Leaf) -> list[dict[tuple[int, int], Accesses]]:
        """What a tensor of each side reads of the parameters, by their numbers."""
        return [
            _by_parameter(reads.of(*tensor))
            for reads, tensor in zip(self._whole, tensors, strict=True)
        ]

    def _same_reads(self, mine: Accesses, theirs: Accesses) -> Proof:
        """Do accesses of both sides touch the same, where equal values are the same origins?"""
        key = (tuple(map(id, mine)), tuple(map(id, theirs)))  # a pool has each access once
        if key not in self._same:
            if origins_of(mine) or origins_of(theirs):
                new = self._representatives
                mine, theirs = (
                    tuple([with_origins(access, new) for access in accesses])
                    for accesses in (mine, theirs)
                )
            self._same[key] = same_of_origins(mine, theirs, self._participants)
        return self._same[key]

    @cached_property
    def _representatives(self) -> dict[Instruction, Instruction]:
        """For each value the first one that is surely equal: what is read at run time is too.

        Values inside of equal calls are among them: `renamed_value` keeps calls apart.
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
        """Equal for a tensor of equal values of both programs."""
        return self._number[end[0]], end[1]


def _by_parameter(ends: Mapping[Leaf, Accesses]) -> dict[tuple[int, int], Accesses]:
    return {
        (value.op.number, tensor): found
        for (value, tensor), found in ends.items()
        if isinstance(value.op, Parameter)
    }


def _holder(computation: Computation, value: Instruction) -> Instruction:
    """The value itself, or the instruction of the computation that calls what it is in."""
    for ins in computation:
        inside = reached(ins.calls, lambda computation: computation.callees)
        if ins is value or any(value in inner.instructions for inner in inside):
            return ins
    return value


def _parameters_of(value: Instruction) -> set[int]:
    """The numbers of the parameters that a value of a computation depends on."""
    read = reached([value], lambda ins: (*ins.operands, *captured(ins)))
    return {ins.op.number for ins in read if isinstance(ins.op, Parameter)}


def _is_certain(accesses: Accesses) -> bool:
    """Are the elements known, whatever the values are?"""
    return not origins_of(accesses) and all(x.precision is Precision.EXACT for x in accesses)


def _undecided(reason: str) -> Proof:
    return Proof(Verdict.UNDECIDED, reason=reason)


def same(a: Accesses, b: Accesses, participants: Participants) -> Proof:
    """Do two sets of accesses touch the same?  Only exact ones can be proved to."""
    inexact = next((x for x in (*a, *b) if x.precision is not Precision.EXACT), None)
    if inexact is not None:
        return _undecided(f"{inexact.precision}: {inexact.reason}")
    if is_among_devices((*a, *b)):
        return participants.same(a, b)
    return same_maps([x.map for x in a if x.map], [x.map for x in b if x.map])


def same_maps(
    a: Sequence[IndexingMap], b: Sequence[IndexingMap], *, seconds: float = SECONDS_EQUAL
) -> Proof:
    """Do two unions of maps touch the same?  Undecided where that takes longer than `seconds`.

    isl is asked here as long as few steps are enough, which is nearly always, and then in a process
    of its own: it counts its steps, but where divisions are nested one takes a millisecond.

    Args:
        a: The maps of one side.
        b: Those of the other one.
        seconds: Processor time of isl.
    """
    if any(m.runtime for m in (*a, *b)):
        return prove_equal(a, b)  # a counter-example has tables, which the process could not send
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
    """A proof about maps without run-time values, as JSON can say it."""
    example = proof.counter_example
    found = None if example is None else (example.dims, example.results, example.only_in)
    return str(proof.verdict), proof.reason, found


def same_of_origins(a: Accesses, b: Accesses, participants: Participants) -> Proof:
    """Do two sets of accesses touch the same, where other origins may have equal values?

    Only values that surely have nothing to do with each other tell them apart: parameters.
    """
    found = same(a, b, participants)
    if found.verdict is not Verdict.REFUTED:
        return found
    apart = [o for o in origins_of(a).keys() ^ origins_of(b).keys()]
    if all(isinstance(o.op, Parameter) for o in apart):
        return found
    names = ", ".join(sorted({f"`{o.name}`" for o in apart if not isinstance(o.op, Parameter)}))
    return _undecided(f"what is read depends on {names}, which both may know by other names")
