"""Comparison of maps, instructions and programs, their differences, and proofs of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from hloscope.api.indexing import Indexing
from hloscope.api.invalid import check
from hloscope.api.program import Program
from hloscope.api.sources import Readable
from hloscope.api.views import ComputationView, InstructionView
from hloscope.display import Answer, Shown, differences_json, differences_text
from hloscope.errors import UnknownNameError
from hloscope.fusion import Convention, StructureIds, counterparts, leaf_types, with_origins
from hloscope.indexing import IndexingMap, counts_of, major_to_minor
from hloscope.ir import Computation, Instruction, Module, TensorType, TupleType, Type
from hloscope.proof import (
    SECONDS_ALL,
    SECONDS_EQUAL,
    Check,
    Compared,
    Differences,
    Header,
    Outcome,
    Participants,
    Prover,
    compare,
    differences_of_programs,
    same_maps,
    same_of_origins,
    write_evidence,
)
from hloscope.simplifier import Proof, Verdict
from hloscope.support.source import visible

# --------------------------------------------------------------------------------------------------
# Equality of maps, instructions and programs: proved, or refuted by an index.


Comparable: TypeAlias = IndexingMap | InstructionView | ComputationView | Program
"""Objects that can be compared with an object of the same type."""


def _comparable(
    given: Comparable | Readable,
) -> IndexingMap | InstructionView | ComputationView:
    """Return a map, instruction or computation unchanged; else the entry of the given program."""
    if isinstance(given, IndexingMap | InstructionView | ComputationView):
        return given
    return Program.of(given).entry


def comparisons(
    a: Comparable | Readable, b: Comparable | Readable, *, seconds: float = SECONDS_EQUAL
) -> Iterator[Compared]:
    """Prove, part by part, that two maps, instructions or programs access the same elements.

    Types of parameters, operands and results must be equal, except for layouts. Computed values are
    not compared; `value_runs` compares them.

    Args:
        a: A map, an instruction, a computation, a program, or a source that `read` takes. For a
            computation or program the maps from outputs to parameters are compared.
        b: The object to compare `a` with.
        seconds: Maximum processor time for programs or maps; comparisons that take longer are
            undecided.

    Raises:
        TypeError: `a` and `b` have different kinds.
        HloscopeError: A source cannot be read.

    >>> a, b = map(IndexingMap.parse, ["(d0) -> (d0 * 2 / 2), domain: d0 in [0, 9]",
    ...                                "(d0) -> (d0), domain: d0 in [0, 9]"])
    >>> [str(compared.proof.verdict) for compared in comparisons(a, b)]
    ['proved']
    """
    a, b = _comparable(a), _comparable(b)
    match a, b:
        case IndexingMap(), IndexingMap():
            yield Compared("the maps", same_maps([a], [b], seconds=seconds))
        case InstructionView(), InstructionView():
            wrong = [*_operand_types(a.ir.operands, b.ir.operands, "operand")]
            wrong += _types("output", a.ir.type, b.ir.type)
            yield from wrong or _answers(a.indexing(None), b.indexing(None), _headers(a, b))
        case ComputationView(), ComputationView():
            yield from _compared(a, b, seconds)
        case _:
            raise TypeError("A and B are two maps, two instructions or two programs")


def movements(
    a: Comparable | Readable,
    b: Comparable | Readable,
    *,
    by_name: bool = False,
    seconds: float = SECONDS_EQUAL,
) -> Iterator[Compared]:
    """Prove, part by part, that two maps, instructions or programs move the same data.

    For instructions and programs, each output address is compared by the parameter addresses that
    its element is computed from. Shapes may differ, layouts count.

    Args:
        a: A map, an instruction, a computation or program, whose root is compared, or a source that
            `read` takes.
        b: The object to compare `a` with. If one is an instruction and one a program, the program's
            root counts.
        by_name: Pair parameters by name instead of by number.
        seconds: Maximum processor time for programs; comparisons that take longer are undecided.

    Raises:
        TypeError: One is a map, the other is not.
        UnknownNameError: `by_name` is set, and the parameters have different names.
        HloscopeError: A source cannot be read.

    >>> text = "ENTRY e { p = f32[4,8] parameter(0) ROOT r = SHAPE reshape(p) }"
    >>> a, b = (text.replace("SHAPE", s) for s in ("f32[32]", "f32[2,16]"))
    >>> [str(compared.proof.verdict) for compared in movements(a, b)]
    ['proved']
    """
    a, b = _comparable(a), _comparable(b)
    if isinstance(a, IndexingMap) or isinstance(b, IndexingMap):
        yield from comparisons(a, b)
        return
    if (
        not by_name
        and not isinstance(a, InstructionView)
        and not isinstance(b, InstructionView)
        # With equal sizes and layouts an index and an address correspond, so the comparison of
        # indices decides, which is cheaper and compares callees structurally.
        and _have_equal_addresses(a.ir, b.ir)
    ):
        yield from _compared(a, b, seconds)
        return
    left, right = (x if isinstance(x, InstructionView) else x.root for x in (a, b))
    order = _by_name(left, right) if by_name else None
    yield from _moved(left, right, order, seconds)


def _moved(
    a: InstructionView, b: InstructionView, order: Sequence[int] | None, seconds: float
) -> Iterator[Compared]:
    """Compare the data movement of each output; outputs are undecided when time is up.

    Args:
        a: The first instruction.
        b: The second instruction.
        order: For each parameter of `a` the number of the parameter of `b`; `None` for equal
            numbers.
        seconds: Maximum processor time.
    """
    if len(a.outputs) != len(b.outputs):
        yield _different("outputs", f"{len(a.outputs)} outputs, and {len(b.outputs)}")
        return
    end = process_time() + seconds
    for k in range(len(a.outputs)):
        if process_time() > end:
            proof = Proof(Verdict.UNDECIDED, reason=f"more than {seconds:g} s of processor time")
            yield Compared(f"output {k}", proof)
            continue
        one, other = (x.to_parameters(k, linear=True) for x in (a, b))
        yield from _answers(one, other, _headers(a, b), order)


def _headers(*views: ComputationView | InstructionView) -> list[Header]:
    """Return the module attributes of the program of each view."""
    return [view.program.module.extras for view in views]


def _compared(a: ComputationView, b: ComputationView, seconds: float) -> Iterator[Compared]:
    """Compare the accesses of two computations, output by output.

    If types of parameters or outputs differ, only these differences are yielded. `seconds` is the
    maximum processor time.
    """
    one, other = a.ir, b.ir
    wrong = [*_operand_types(one.parameters, other.parameters, "parameter")]
    wrong += _types("output", one.root.type, other.root.type)
    if wrong:
        yield from wrong
        return
    yield from compare(one, other, seconds=seconds, headers=_headers(a, b))


def _operand_types(
    a: Sequence[Instruction], b: Sequence[Instruction], what: str
) -> Iterator[Compared]:
    """Yield a refutation for each difference between the types of parameters or operands.

    Args:
        a: The parameters or operands of the first program.
        b: Those of the second program.
        what: `parameter` or `operand`, for the message.
    """
    if len(a) != len(b):
        yield _different(f"{what}s", f"{len(a)} {what}s, and {len(b)}")
        return
    for k, (mine, theirs) in enumerate(zip(a, b, strict=True)):
        yield from _types(f"{what} {k}", mine.type, theirs.type)


def _types(what: str, a: Type, b: Type) -> Iterator[Compared]:
    """Yield a refutation for each difference between the types `a` and `b`, ignoring layouts.

    `what` names the value in the message.
    """
    ours, theirs = leaf_types(a), leaf_types(b)
    if len(ours) != len(theirs):
        said = "outputs" if what == "output" else "tensors"
        here = "outputs" if what == "output" else what
        yield _different(here, f"{len(ours)} {said}, and {len(theirs)}")
        return
    for k, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if without_layouts(mine) != without_layouts(other):
            here = f"output {k}" if what == "output" else what + (f"{{{k}}}" if k else "")
            yield _different(here, f"type {_type_text(mine)}, and {_type_text(other)}")


def without_layouts(type: Type) -> Type:
    """Return a type without layouts, also inside tuples."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(without_layouts, type.elements)))
    return replace(type, layout=None) if isinstance(type, TensorType) else type


def _type_text(type: Type) -> str:
    encoding = type.encoding if isinstance(type, TensorType) else ""
    return str(type) + (f" with encoding {encoding}" if encoding else "")


def _have_equal_addresses(a: Computation, b: Computation) -> bool:
    """Do equal indices have equal addresses in two computations?

    They do if all parameters and outputs have equal static sizes and layouts.
    """
    ours, theirs = ([*x.parameters, x.root] for x in (a, b))
    return len(ours) == len(theirs) and all(
        _placing(mine.type) == _placing(other.type)
        for mine, other in zip(ours, theirs, strict=True)
    )


def _placing(type: Type) -> object:
    leaves = leaf_types(type)
    if any(not isinstance(t, TensorType) or not t.is_static for t in leaves):
        return object()  # equal to nothing
    return [
        (t.sizes, major_to_minor(t), t.layout.tiles if t.layout else ())
        for t in leaves
        if isinstance(t, TensorType)
    ]


def _by_name(a: InstructionView, b: InstructionView) -> list[int]:
    """Return, for each parameter of `a`, the number of the parameter of `b` with the same name.

    Raises:
        UnknownNameError: The names differ, or a name is repeated.
    """
    ours, theirs = ([p.name for p in x.computation.ir.parameters] for x in (a, b))
    if sorted(ours) != sorted(theirs) or len(set(ours)) < len(ours):
        both = ", ".join(ours[:4]) or "none", ", ".join(theirs[:4]) or "none"
        raise UnknownNameError(f"parameters have not the same names: {both[0]}; and {both[1]}")
    return [theirs.index(name) for name in ours]


def _answers(
    a: Indexing, b: Indexing, headers: Sequence[Header], order: Sequence[int] | None = None
) -> Iterator[Compared]:
    """Compare two indexing results: each output with each operand.

    Args:
        a: The first result.
        b: The second result.
        headers: The module attributes of both programs, which decide the devices of collectives.
        order: `order[k]` is the operand of `b` that belongs to operand `k` of `a`; by default `k`.
    """
    sides = [
        tuple(x.answer.instruction.calls)
        if x.answer.computation is None
        else (x.answer.computation,)
        for x in (a, b)
    ]
    itself = [(x.answer.instruction,) if x.answer.computation is None else () for x in (a, b)]
    # Collectives read other devices: the two sides can be compared only if their device groups are
    # known.
    participants = Participants(sides, headers, itself)
    if participants.reason:
        proof = Proof(Verdict.UNDECIDED, reason=participants.reason)
        yield Compared("devices", proof)
        return
    outputs, others = a.answer.outputs, b.answer.outputs
    if len(outputs) != len(others):
        yield _different("outputs", f"{len(outputs)} outputs, and {len(others)}")
        return
    known = _counterparts(a.answer, b.answer, order)
    for one, other in zip(outputs, others, strict=True):
        # The checks go from the coarse to the fine: the first difference is the reported one, and
        # each later step may rely on what the earlier ones found equal.
        sizes = a.answer.sizes(one.type), b.answer.sizes(other.type)
        if sizes[0] != sizes[1]:
            said = " and ".join(str(list(size)) for size in sizes)
            yield _different(f"output {one.number}", f"sizes {said}")
            continue
        elements = [x.type.element for x in (one, other) if isinstance(x.type, TensorType)]
        if len(elements) == 2 and elements[0] != elements[1]:
            said = f"elements {elements[0]} and {elements[1]}"
            yield _different(f"output {one.number}", said)
            continue
        if len(one.operands) != len(other.operands):
            said = f"{len(one.operands)} {a.answer.what}s, and {len(other.operands)}"
            yield _different(f"output {one.number}", said)
            continue
        # A tensor that either side reads is compared: one without accesses must be unread on both
        # sides.
        mine = {(o.number, x.leaf): None for o in one.touched for x in o.accesses}
        ours = (
            range(len(other.operands)) if order is None else [*map(order.index, range(len(order)))]
        )
        theirs = {(ours[o.number], x.leaf): None for o in other.touched for x in o.accesses}
        for number, leaf in sorted({**mine, **theirs}):
            what = f"output {one.number}, {a.answer.what} {number}" + (
                f"{{{leaf}}}" if leaf else ""
            )
            there = number if order is None else order[number]
            types = [
                leaf_types(answer.operands[k].type)[leaf]
                for answer, k in ((one, number), (other, there))
            ]
            elements = [t.element for t in types if isinstance(t, TensorType)]
            if len(elements) == 2 and elements[0] != elements[1]:
                yield _different(what, f"elements {elements[0]} and {elements[1]}")
                continue
            left, right = (
                tuple([x for x in answer.operands[k].accesses if x.leaf == leaf])
                for answer, k in ((one, number), (other, there))
            )
            right = tuple([with_origins(access, known) for access in right])
            yield Compared(what, same_of_origins(left, right, participants))


def _counterparts(
    a: Answer, b: Answer, order: Sequence[int] | None = None
) -> dict[Instruction, Instruction]:
    """Map the operands or parameters of `b` to those of `a` with the same number.

    A pair is left out if one instruction would have two partners. In calls of structurally equal
    computations every instruction is mapped. `order[k]` is the operand of `b` for operand `k` of
    `a`.
    """
    ours, theirs = (
        x.instruction.operands if x.computation is None else x.computation.parameters
        for x in (a, b)
    )
    if order is not None:
        theirs = tuple([theirs[k] for k in order])
    pairs = {*zip(theirs, ours, strict=False)}
    calls = [x.instruction.calls if x.computation is None else (x.computation,) for x in (a, b)]
    number = StructureIds().number
    for mine, other in zip(*calls, strict=False):
        if order is not None:
            continue
        pairs |= {*zip(other.parameters, mine.parameters, strict=False)}
        if number(mine) == number(other):
            pairs |= {*counterparts(other, mine).items()}
    # A pair is kept only if both of its members occur in no other pair.
    count: Counter[object] = Counter([y for y, _ in pairs])
    count.update(("other", x) for _, x in pairs)
    return {y: x for y, x in pairs if count[y] == count["other", x] == 1}


def _different(what: str, reason: str) -> Compared:
    return Compared(what, Proof(Verdict.REFUTED, reason=reason))


def verdict_of(found: list[Compared]) -> Verdict:
    """Return the verdict on the whole of what was compared part by part.

    It is refuted if a part is refuted, else undecided if a part is undecided, else proved.
    """
    verdicts = {c.proof.verdict for c in found}
    for verdict in (Verdict.REFUTED, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.PROVED


# --------------------------------------------------------------------------------------------------
# Structural differences between two programs.


DIFF_SCHEMA: Final = "hloscope.diff/1"
MOST_CHANGES: Final = 100
"""Maximum number of changes that the text of a result lists."""


class Comparison(Shown, Differences, frozen=True):
    """Structural differences between two programs; its text is that of `hloscope diff`."""

    def to_json(self) -> dict[str, Any]:
        """Return an object of schema `hloscope.diff/1`."""
        return {"schema": DIFF_SCHEMA, **differences_json(self)}

    def __str__(self) -> str:
        return visible("\n".join(differences_text(self, most=MOST_CHANGES)))


def diff(a: Program | Module | Readable, b: Program | Module | Readable) -> Comparison:
    """Return the structural differences between two programs in HLO or StableHLO.

    Names, the order of instructions, metadata and source positions are ignored. Types with layouts,
    attributes, shardings, configurations and values of constants are compared.

    Args:
        a: A program, or a source that `read` takes: a path, text, bytes, an open file, a jax
            object.
        b: The program to compare `a` with.

    Raises:
        HloscopeError: A source cannot be read.

    >>> a = "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }"
    >>> b = "ENTRY g { x = f32[2] parameter(0) ROOT y = f32[2] tan(x) }"
    >>> diff(a, b).none
    True
    """
    found = differences_of_programs(Program.of(a).module, Program.of(b).module)
    return Comparison(*[getattr(found, field) for field in Differences.__struct_fields__])


# --------------------------------------------------------------------------------------------------
# Proofs of all results about a program: their time limits, and counts of their outcomes.


SECONDS: Final = 1.0
"""Default seconds of processor time for all proofs of a program with at most `FEW` instructions."""
FEW: Final = 800
SECONDS_EACH: Final = 0.02
"""Seconds of processor time that each further instruction adds."""
SECONDS_MOST: Final = 60.0
"""Maximum seconds of processor time for all proofs, unless the caller sets a limit."""


def prover_of(
    program: Program,
    seconds: float | None,
    *,
    convention: Convention,
    seed: int,
    by_execution: bool,
) -> Prover:
    """Return a prover for the results about a program.

    Args:
        program: The program.
        seconds: Limit of processor time for all proofs. By default it grows with the number of
            instructions.
        convention: Which operand elements count as read; see `Program.by_convention`.
        seed: Seed of the sampled elements.
        by_execution: Also execute instructions to check their maps.

    Raises:
        VerifyError: The program is invalid, so its maps have no meaning.
    """
    check(program.module)
    more = max(0, sum(1 for _ in program) - FEW)
    total = min(SECONDS + SECONDS_EACH * more, SECONDS_MOST) if seconds is None else seconds
    of_isl = min(total, SECONDS_ALL) if seconds is None else total
    return Prover(
        seed=seed,
        seconds_of_isl=of_isl,
        total=total,
        by_execution=by_execution,
        convention=convention,
        stated=counts_of(program.module),
    )


class Tally:
    """Number of proofs by outcome, with a message for each refuted map."""

    def __init__(self, evidence_dir: str | None = None) -> None:
        """Start with no proofs.

        `evidence_dir` is the folder for counterexamples. Each is written as a program with its
        inputs; with `None` no counterexample is written.
        """
        self._folder = evidence_dir
        self._runs: Counter[str] = Counter()
        self._counts: Counter[Outcome] = Counter()

    def add(self, found: Indexing) -> Iterator[str]:
        """Count the proofs of a result; yield a message for each refuted map."""
        for output in found.answer.outputs:
            together = output.proved_together
            if together is not None:
                self._counts[together[0].outcome] += together[1]
                self._count_runs(*together)
            for operand in (*output.touched, *output.checked_untouched):
                if operand.check is None:
                    continue
                self._counts[operand.check.outcome] += 1
                self._count_runs(operand.check)
                if operand.check.is_refuted:
                    where = f"{found.answer.instruction.name}, output {output.number}"
                    what = f"{found.answer.what} {operand.number} ({operand.name})"
                    yield f"{where}, {what}: the maps are wrong: {operand.check.disagreement}"
                    name = f"{found.answer.instruction.name}.{output.number}.{operand.number}"
                    yield from self._write(operand.check, name)

    def _count_runs(self, check: Check, count: int = 1) -> None:
        executed = check.executed
        if executed is None:
            return
        if executed.reason:
            self._runs["not executed"] += count
            return
        self._runs["executed"] += count
        self._runs["of them on small instances"] += count * bool(executed.shapes)

    def _write(self, check: Check, name: str) -> Iterator[str]:
        violation = check.executed.violation if check.executed is not None else None
        if self._folder is not None and violation is not None:
            paths = write_evidence(violation, self._folder, name)
            yield f"written: {', '.join(map(str, paths))}"

    @property
    def summary(self) -> str:
        """Return the number of proofs by outcome, as text."""
        counts = [f"{self._counts[o]} {o}" for o in Outcome if self._counts[o]]
        runs = [f"{number} {what}" for what, number in self._runs.items() if number]
        every = ", ".join([*counts, *runs]) or "none"
        return f"verified {self._counts.total()} operands: {every}"

    @property
    def lacks_time(self) -> bool:
        """Is a proof undecided, or an instruction not executed, possibly for lack of time?"""
        return bool(self._counts[Outcome.UNDECIDED] or self._runs["not executed"])

    @property
    def is_refuted(self) -> bool:
        """Is at least one map refuted?"""
        return bool(self._counts[Outcome.REFUTED])

    @property
    def is_undecided(self) -> bool:
        """Is at least one map undecided?"""
        return bool(self._counts[Outcome.UNDECIDED])
