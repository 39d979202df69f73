"""Ops that lead through other computations: calls, fusions, branches, asynchronous pairs.

`READS` says, for one leaf of an instruction's value, which leaves of its operands it comes from,
`WRITES`, for one leaf of an operand, which leaves of the value it reaches.  Other ops have rules in
`hloscope.indexing.rules`; tuples and their elements are here as well, because a walk through tuples
of a thousand tensors asks for one leaf at a time (a test compares both).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from hloscope.fusion.access_interner import Pool
from hloscope.fusion.body_dependences import Source
from hloscope.fusion.structural_ids import has_runtime, with_origins
from hloscope.fusion.traversal import Flow
from hloscope.indexing import Access
from hloscope.ir import Computation, Instruction, Op, TupleType, Type, compatible
from hloscope.ops import (
    BARE_STARTS,
    AllReduce,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Composite,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Result,
    Return,
    Tuple,
)


class Context(Protocol):
    """What the entries may ask for; `analysis.Analysis` is it."""

    @property
    def pool(self) -> Pool:
        """Keeps and composes accesses."""

    @property
    def sources(self) -> dict[tuple[Computation, int], Source]:
        """What leaves of roots are as they are, found so far."""

    def leaves(self, type: Type) -> tuple[Type, ...]:
        """Types of the leaves of a type."""

    def offset(self, type: Type, index: int) -> int:
        """Number of the first leaf of an element of a tuple."""

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """The first leaf of each operand among the leaves of all operands, and their number."""

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """What a leaf of an instruction's value reads of its operands."""

    def writes(self, ins: Instruction, operand: int, leaf: int) -> Iterable[Flow]:
        """Where a leaf of an operand goes."""

    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """What a leaf of the root reads; operand `first + k` is handed in as parameter `k`."""

    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Which leaves of the root a leaf of a parameter reaches."""

    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """What a leaf of the root reads, runtime variables named inside the computation."""

    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Which leaves a parameter reaches, runtime variables named inside the computation."""


O = TypeVar("O", bound=Op)  # noqa: E741
Reads: TypeAlias = Callable[[Context, Instruction, O, int], Iterable[Flow]]
Writes: TypeAlias = Callable[[Context, Instruction, O, int, int], Iterable[Flow]]
READS: Final[dict[type[Op], Reads[Any]]] = {}
WRITES: Final[dict[type[Op], Writes[Any]]] = {}


def reads(*classes: type[O]) -> Callable[[Reads[O]], Reads[O]]:
    """Register what a leaf of the value of these ops comes from."""

    def register(entry: Reads[O]) -> Reads[O]:
        READS.update(dict.fromkeys(classes, entry))
        return entry

    return register


def writes(*classes: type[O]) -> Callable[[Writes[O]], Writes[O]]:
    """Register where a leaf of an operand of these ops goes."""

    def register(entry: Writes[O]) -> Writes[O]:
        WRITES.update(dict.fromkeys(classes, entry))
        return entry

    return register


# --------------------------------------------------------------------------- tuples and the like


@reads(Tuple, OptimizationBarrier, Return)
def _(at: Context, ins: Instruction, op: Op, leaf: int) -> Iterator[Flow]:
    starts = at.starts(ins)
    if leaf < starts[-1]:
        k = bisect_right(starts, leaf) - 1
        yield Flow(k, leaf - starts[k], None)


@writes(Tuple, OptimizationBarrier, Return)
def _(at: Context, ins: Instruction, op: Op, operand: int, leaf: int) -> Iterator[Flow]:
    yield Flow(operand, at.starts(ins)[operand] + leaf, None)


@reads(GetTupleElement, Result)
def _(at: Context, ins: Instruction, op: GetTupleElement, leaf: int) -> Iterator[Flow]:
    yield Flow(0, at.offset(ins.operands[0].type, op.index) + leaf, None)


@writes(GetTupleElement, Result)
def _(
    at: Context, ins: Instruction, op: GetTupleElement, operand: int, leaf: int
) -> Iterator[Flow]:
    first = at.offset(ins.operands[0].type, op.index)
    if first <= leaf < first + len(at.leaves(ins.type)):
        yield Flow(0, leaf - first, None)


# --------------------------------------------------------------------- calls, fusions, branches


@reads(Fusion, Call, Composite)
def _(at: Context, ins: Instruction, op: Op, leaf: int) -> Iterable[Flow]:
    return at.called(ins.calls[0], leaf, ins)


@writes(Fusion, Call, Composite)
def _(at: Context, ins: Instruction, op: Op, operand: int, leaf: int) -> Iterable[Flow]:
    return at.calling(ins.calls[0], operand, leaf, ins)


@reads(Case)
def _(at: Context, ins: Instruction, op: Case, leaf: int) -> Iterator[Flow]:
    """The condition, and what each branch would read: as in `select`, any may be taken."""
    yield Flow(0, 0, (at.pool.whole(at.leaves(ins.type)[leaf], ins.operands[0].type),))
    for k, branch in enumerate(ins.calls):
        yield from at.called(branch, leaf, ins, k + 1)


@writes(Case)
def _(at: Context, ins: Instruction, op: Case, operand: int, leaf: int) -> Iterator[Flow]:
    if operand > 0:
        yield from at.calling(ins.calls[operand - 1], 0, leaf, ins, operand)
        return
    for k, type in enumerate(at.leaves(ins.type)):
        yield Flow(0, k, (at.pool.whole(ins.operands[0].type, type),))


# -------------------------------------------------------------------------- asynchronous pairs


LATE: Final = "an operand is handed in after the start"
NO_RESULT: Final = "its operand has no such result"


def unknown_flows(at: Context, ins: Instruction, reason: str) -> Iterator[Flow]:
    """Nothing is known about any operand."""
    unknown = at.pool.keep(Access.unknown(reason))
    for k, operand in enumerate(ins.operands):
        for leaf in range(len(at.leaves(operand.type))):
            yield Flow(k, leaf, (unknown,))


def _begun(start: Instruction) -> tuple[Type, bool]:
    """The type of the result inside an asynchronous value, and is it all of the value?

    The value is (operands, result, contexts …), except for all-reduce, where it is the result.
    """
    op, type = start.op, start.type
    wrapped = op.wrapped if isinstance(op, AsyncStart) else None
    if isinstance(wrapped, AllReduce) or not isinstance(type, TupleType):
        return type, True
    return type.elements[1] if len(type.elements) > 1 else TupleType(()), False


def _inner(start: Instruction) -> Instruction | None:
    """The operation itself, as if it were not asynchronous; `None` if it calls a computation."""
    op = start.op
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return None
    return Instruction(start.name, _begun(start)[0], op.wrapped, start.operands, start.calls)


@reads(AsyncStart)
def _(at: Context, ins: Instruction, op: AsyncStart, leaf: int) -> Iterable[Flow]:
    result, is_all = _begun(ins)
    before = 0 if is_all else at.offset(ins.type, 1)
    if leaf < before:
        return READS[Tuple](at, ins, op, leaf)
    if leaf - before >= len(at.leaves(result)):
        return ()  # a context
    inner = _inner(ins)
    if inner is None:
        return at.called(ins.calls[0], leaf - before, ins)
    return _named(at, at.reads(inner, leaf - before), inner, ins)


@writes(AsyncStart)
def _(at: Context, ins: Instruction, op: AsyncStart, operand: int, leaf: int) -> Iterator[Flow]:
    result, is_all = _begun(ins)
    before = 0 if is_all else at.offset(ins.type, 1)
    count = len(at.leaves(result))  # none where the result is not there before it is done
    yield from [flow for flow in WRITES[Tuple](at, ins, op, operand, leaf) if flow.leaf < before]
    inner = _inner(ins)
    if inner is None:
        flows: Iterable[Flow] = at.calling(ins.calls[0], operand, leaf, ins)
    else:
        flows = _named(at, at.writes(inner, operand, leaf), inner, ins)
    for flow in flows:
        if flow.leaf < count:
            yield flow._replace(leaf=before + flow.leaf)


def _named(
    at: Context, flows: Iterable[Flow], inner: Instruction, start: Instruction
) -> Iterator[Flow]:
    """The flows of an operation, with its start for the collective that it is."""
    for flow in flows:
        if flow.accesses is not None and has_runtime(flow.accesses):
            accesses = [at.pool.keep(with_origins(a, {inner: start})) for a in flow.accesses]
            flow = flow._replace(accesses=tuple(accesses))
        yield flow


def _finished(at: Context, done: Instruction) -> range:
    """Leaves of the asynchronous value that are the result's; none if it has another result."""
    assert isinstance(done.op, AsyncDone)
    begun = done.operands[0].type
    if done.op.wrapped_name in BARE_STARTS or not isinstance(begun, TupleType):
        result, first = begun, 0
    else:
        result = begun.elements[1] if len(begun.elements) > 1 else TupleType(())
        first = at.offset(begun, 1)
    mine, theirs = at.leaves(done.type), at.leaves(result)
    if len(mine) > len(theirs) or not all(map(compatible, mine, theirs)):
        return range(0)
    return range(first, first + len(mine))


@reads(AsyncDone)
def _(at: Context, ins: Instruction, op: AsyncDone, leaf: int) -> Iterator[Flow]:
    finished = _finished(at, ins)
    if finished:
        yield Flow(0, finished[leaf], None)
    else:
        yield from unknown_flows(at, ins, NO_RESULT)


@reads(AsyncUpdate)
def _(at: Context, ins: Instruction, op: AsyncUpdate, leaf: int) -> Iterator[Flow]:
    """The same value; operands handed in late are added to those of the start."""
    mine, before = _operand_leaves(at, ins), _operand_leaves(at, ins.operands[0])
    source = leaf if leaf < before else leaf - mine + before
    if before <= leaf < mine or source >= len(at.leaves(ins.operands[0].type)):
        yield from unknown_flows(at, ins, LATE)
        return
    yield Flow(0, source, None)
    for k in range(1, len(ins.operands)):
        yield Flow(k, 0, (at.pool.keep(Access.unknown(LATE)),))


@writes(AsyncUpdate)
def _(at: Context, ins: Instruction, op: AsyncUpdate, operand: int, leaf: int) -> Iterator[Flow]:
    mine, before = _operand_leaves(at, ins), _operand_leaves(at, ins.operands[0])
    count = len(at.leaves(ins.type))
    target = leaf if leaf < before else leaf - before + mine
    if operand == 0 and target < count:
        yield Flow(0, target, None)
        return
    unknown = at.pool.keep(Access.unknown(LATE))
    for k in range(count):
        yield Flow(operand, k, (unknown,))


def _operand_leaves(at: Context, value: Instruction) -> int:
    """How many leaves of an asynchronous value are those of its operands."""
    return at.offset(value.type, 1) if isinstance(value.type, TupleType) else 0


@writes(AsyncDone)
def _(at: Context, ins: Instruction, op: AsyncDone, operand: int, leaf: int) -> Iterator[Flow]:
    finished = _finished(at, ins)
    if leaf in finished:
        yield Flow(0, leaf - finished.start, None)
    elif not finished:
        unknown = (at.pool.keep(Access.unknown(NO_RESULT)),)
        yield from [Flow(0, k, unknown) for k in range(len(at.leaves(ins.type)))]
