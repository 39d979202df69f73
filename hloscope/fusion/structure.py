"""Dependences of ops that pass values through computations or tuples.

These are calls, fusions, branches, asynchronous pairs and tuples.  `READS` gives the operand leaves
that one leaf of the value depends on.  `WRITES` gives the leaves of the value that depend on one
operand leaf.  Other ops have rules in `hloscope.indexing.rules`.  Tuples are here as well because a
traversal queries tuples of a thousand tensors one leaf at a time (a test compares both).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from hloscope.fusion.structural_ids import Results, has_runtime, with_origins
from hloscope.fusion.traversal import AccessInterner, Flow
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
    """Interface of an analysis that this module needs; `analysis.Analysis` implements it."""

    @property
    def interner(self) -> AccessInterner:
        """The table that interns accesses and memoizes compositions."""

    @property
    def results(self) -> Results:
        """The memoized results."""

    def leaves(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the leaves of a type."""

    def offset(self, type: Type, index: int) -> int:
        """Return the number of the first leaf of element `index` of a tuple."""

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """Return the position of each operand's first leaf among the leaves of all operands.

        The leaves of all operands are concatenated. The last item is the number of all leaves.
        """

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """Return the dependences of leaf `leaf` of the value of `ins` on its operands.

        `Flow.leaf` is a leaf of operand `Flow.operand`; the accesses are maps from the value to it.
        """

    def writes(self, ins: Instruction, operand: int, leaf: int) -> Iterable[Flow]:
        """Return the dependences of all leaves of the value of `ins` on one operand leaf.

        The operand leaf is leaf `leaf` of operand number `operand`. `Flow.leaf` is a leaf of the
        value that depends on it; the accesses are maps from the operand leaf to that leaf.
        """

    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of a root leaf of `callee` on operands of the caller `ins`.

        Parameter `k` of `callee` is operand `first + k` of `ins`.
        """

    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of the root leaves of `callee` on one leaf of a parameter.

        They are returned as dependences of the caller `ins`: parameter `k` of `callee` is operand
        `first + k` of `ins`.
        """

    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of leaf `leaf` of the root of `callee` on its parameters.

        Runtime variables are read from instructions of the computation.
        """

    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of all leaves of the root of `callee` on one leaf of a parameter.

        The leaf has number `leaf` in parameter number `parameter`. Runtime variables are read from
        instructions of the computation.
        """


O = TypeVar("O", bound=Op)  # noqa: E741
Reads: TypeAlias = Callable[[Context, Instruction, O, int], Iterable[Flow]]
Writes: TypeAlias = Callable[[Context, Instruction, O, int, int], Iterable[Flow]]
READS: Final[dict[type[Op], Reads[Any]]] = {}
WRITES: Final[dict[type[Op], Writes[Any]]] = {}


def reads(*classes: type[O]) -> Callable[[Reads[O]], Reads[O]]:
    """Return a decorator that registers a function of `READS` for these ops.

    The function returns the operand leaves that one leaf of the value depends on.
    """

    def register(entry: Reads[O]) -> Reads[O]:
        READS.update(dict.fromkeys(classes, entry))
        return entry

    return register


def writes(*classes: type[O]) -> Callable[[Writes[O]], Writes[O]]:
    """Return a decorator that registers a function of `WRITES` for these ops.

    The function returns the leaves of the value that depend on one operand leaf.
    """

    def register(entry: Writes[O]) -> Writes[O]:
        WRITES.update(dict.fromkeys(classes, entry))
        return entry

    return register


# --------------------------------------------------------------------------- tuples and the like


def operand_leaf(at: Context, ins: Instruction, leaf: int) -> tuple[int, int] | None:
    """Return the operand number, and the leaf in the operand, of one of all operands' leaves.

    `leaf` is its number in the concatenated leaves of all operands. The result is `None` if there
    are fewer leaves.
    """
    starts = at.starts(ins)
    if leaf >= starts[-1]:
        return None
    k = bisect_right(starts, leaf) - 1
    return k, leaf - starts[k]


@reads(Tuple, OptimizationBarrier, Return)
def tuple_reads(at: Context, ins: Instruction, op: Op, leaf: int) -> Iterator[Flow]:
    """Yield the operand leaf that leaf `leaf` equals: one of the operands' leaves in sequence."""
    if (part := operand_leaf(at, ins, leaf)) is not None:
        yield Flow(*part, None)


@writes(Tuple, OptimizationBarrier, Return)
def tuple_writes(at: Context, ins: Instruction, op: Op, operand: int, leaf: int) -> Iterator[Flow]:
    """Yield the leaf of the value that equals leaf `leaf` of operand number `operand`."""
    yield Flow(operand, at.starts(ins)[operand] + leaf, None)


@reads(GetTupleElement, Result)
def element_reads(at: Context, ins: Instruction, op: GetTupleElement, leaf: int) -> Iterator[Flow]:
    """Yield the leaf of the tuple that leaf `leaf` of the selected element equals."""
    yield Flow(0, at.offset(ins.operands[0].type, op.index) + leaf, None)


@writes(GetTupleElement, Result)
def element_writes(
    at: Context, ins: Instruction, op: GetTupleElement, operand: int, leaf: int
) -> Iterator[Flow]:
    """Yield the leaf of the value that equals leaf `leaf` of the tuple.

    There is none if the leaf is in another element than the selected one.
    """
    first = at.offset(ins.operands[0].type, op.index)
    if first <= leaf < first + len(at.leaves(ins.type)):
        yield Flow(0, leaf - first, None)


# --------------------------------------------------------------------- calls, fusions, branches


@reads(Fusion, Call, Composite)
def call_reads(at: Context, ins: Instruction, op: Op, leaf: int) -> Iterable[Flow]:
    """Return the dependences of leaf `leaf` of a call's value on the call's operands.

    The value of a call is the root of the called computation.
    """
    return at.called(ins.calls[0], leaf, ins)


@writes(Fusion, Call, Composite)
def call_writes(at: Context, ins: Instruction, op: Op, operand: int, leaf: int) -> Iterable[Flow]:
    """Return the dependences of a call's value on leaf `leaf` of operand number `operand`.

    The operand is the parameter of the called computation with the same number.
    """
    return at.calling(ins.calls[0], operand, leaf, ins)


@reads(Case)
def case_reads(at: Context, ins: Instruction, op: Case, leaf: int) -> Iterator[Flow]:
    """Yield the dependences of leaf `leaf` of a conditional on its condition and operands."""
    yield Flow(0, 0, (at.interner.every_element(at.leaves(ins.type)[leaf], ins.operands[0].type),))
    for k, branch in enumerate(ins.calls):
        yield from at.called(branch, leaf, ins, k + 1)


@writes(Case)
def case_writes(at: Context, ins: Instruction, op: Case, operand: int, leaf: int) -> Iterator[Flow]:
    """Yield the dependences of a conditional's value on leaf `leaf` of operand number `operand`.

    All elements depend on operand 0, the condition. The operand of a branch is used as that branch
    uses its parameter.
    """
    if operand > 0:
        yield from at.calling(ins.calls[operand - 1], 0, leaf, ins, operand)
        return
    for k, type in enumerate(at.leaves(ins.type)):
        yield Flow(0, k, (at.interner.every_element(ins.operands[0].type, type),))


# -------------------------------------------------------------------------- asynchronous pairs


LATE: Final = "an operand is handed in after the start"
NO_RESULT: Final = "its operand has no such result"


def unknown_flows(at: Context, ins: Instruction, reason: str) -> Iterator[Flow]:
    """Yield an unknown access to every leaf of every operand, for this reason."""
    unknown = at.interner.intern(Access.unknown(reason))
    for k, operand in enumerate(ins.operands):
        for leaf in range(len(at.leaves(operand.type))):
            yield Flow(k, leaf, (unknown,))


def unknown_writes(at: Context, ins: Instruction, operand: int, reason: str) -> list[Flow]:
    """Return an unknown access from an operand to every leaf of the value, for this reason."""
    unknown = at.interner.intern(Access.unknown(reason))
    return [Flow(operand, k, (unknown,)) for k in range(len(at.leaves(ins.type)))]


def _result_of_start(start: Instruction) -> tuple[Type, bool]:
    """Return the type of an asynchronous start's result, and whether it is the whole value.

    The value is (operands, result, contexts …); for all-reduce it is the result alone.
    """
    op, type = start.op, start.type
    wrapped = op.wrapped if isinstance(op, AsyncStart) else None
    if isinstance(wrapped, AllReduce) or not isinstance(type, TupleType):
        return type, True
    return type.elements[1] if len(type.elements) > 1 else TupleType(()), False


def _wrapped(start: Instruction) -> Instruction | None:
    """Return the operation that an asynchronous start runs, as an instruction.

    The result is `None` if it calls a computation.
    """
    op = start.op
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return None
    return Instruction(
        start.name, _result_of_start(start)[0], op.wrapped, start.operands, start.calls
    )


@reads(AsyncStart)
def start_reads(at: Context, ins: Instruction, op: AsyncStart, leaf: int) -> Iterable[Flow]:
    """Return the dependences of a leaf of an asynchronous start on its operands.

    The value is (operands, result, contexts …). The result depends on the operands as in the
    operation itself. Contexts depend on no tensor.
    """
    result, is_all = _result_of_start(ins)
    before = 0 if is_all else at.offset(ins.type, 1)
    if leaf < before:
        return READS[Tuple](at, ins, op, leaf)
    if leaf - before >= len(at.leaves(result)):
        return ()  # a context
    inner = _wrapped(ins)
    if inner is None:
        return at.called(ins.calls[0], leaf - before, ins)
    return _with_start_as_collective(at, at.reads(inner, leaf - before), inner, ins)


@writes(AsyncStart)
def start_writes(
    at: Context, ins: Instruction, op: AsyncStart, operand: int, leaf: int
) -> Iterator[Flow]:
    """Yield the leaves of an asynchronous start that depend on an operand leaf.

    These are the copy of the operand in the value, and leaves of the result as in the operation
    itself.
    """
    result, is_all = _result_of_start(ins)
    before = 0 if is_all else at.offset(ins.type, 1)
    count = len(at.leaves(result))  # 0 if the value of the start does not contain the result
    yield from [flow for flow in WRITES[Tuple](at, ins, op, operand, leaf) if flow.leaf < before]
    inner = _wrapped(ins)
    if inner is None:
        flows: Iterable[Flow] = at.calling(ins.calls[0], operand, leaf, ins)
    else:
        flows = _with_start_as_collective(at, at.writes(inner, operand, leaf), inner, ins)
    for flow in flows:
        if flow.leaf < count:
            yield flow._replace(leaf=before + flow.leaf)


def _with_start_as_collective(
    at: Context, flows: Iterable[Flow], inner: Instruction, start: Instruction
) -> Iterator[Flow]:
    """Yield the dependences `flows` with `start` as their collective, instead of `inner`.

    `inner` is the operation that the asynchronous start `start` runs.
    """
    for flow in flows:
        if flow.accesses is not None and has_runtime(flow.accesses):
            accesses = [at.interner.intern(with_origins(a, {inner: start})) for a in flow.accesses]
            flow = flow._replace(accesses=tuple(accesses))
        yield flow


def _result_leaves(at: Context, done: Instruction) -> range:
    """Return the numbers of the leaves of an asynchronous value that its `done` returns.

    The range is empty if the result has other types than the `done`.
    """
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
def done_reads(at: Context, ins: Instruction, op: AsyncDone, leaf: int) -> Iterator[Flow]:
    """Yield the leaf of the asynchronous value that leaf `leaf` of its `done` equals.

    All dependences are unknown if the asynchronous value has no result of these types.
    """
    finished = _result_leaves(at, ins)
    if finished:
        yield Flow(0, finished[leaf], None)
    else:
        yield from unknown_flows(at, ins, NO_RESULT)


@reads(AsyncUpdate)
def update_reads(at: Context, ins: Instruction, op: AsyncUpdate, leaf: int) -> Iterator[Flow]:
    """Yield the dependences of a leaf of an asynchronous update.

    The value is that of operand 0. Later operands are added to the operands of the start, so what
    depends on them is unknown.
    """
    mine, before = _operand_leaves(at, ins), _operand_leaves(at, ins.operands[0])
    source = leaf if leaf < before else leaf - mine + before
    if before <= leaf < mine or source >= len(at.leaves(ins.operands[0].type)):
        yield from unknown_flows(at, ins, LATE)
        return
    yield Flow(0, source, None)
    for k in range(1, len(ins.operands)):
        yield Flow(k, 0, (at.interner.intern(Access.unknown(LATE)),))


@writes(AsyncUpdate)
def update_writes(
    at: Context, ins: Instruction, op: AsyncUpdate, operand: int, leaf: int
) -> Iterator[Flow]:
    """Yield the dependences of an asynchronous update's leaves on an operand leaf.

    The value is that of operand 0. What depends on later operands is unknown.
    """
    mine, before = _operand_leaves(at, ins), _operand_leaves(at, ins.operands[0])
    count = len(at.leaves(ins.type))
    target = leaf if leaf < before else leaf - before + mine
    if operand == 0 and target < count:
        yield Flow(0, target, None)
        return
    yield from unknown_writes(at, ins, operand, LATE)


def _operand_leaves(at: Context, value: Instruction) -> int:
    """Return the number of leaves of an asynchronous value that belong to its operands."""
    return at.offset(value.type, 1) if isinstance(value.type, TupleType) else 0


@writes(AsyncDone)
def done_writes(
    at: Context, ins: Instruction, op: AsyncDone, operand: int, leaf: int
) -> Iterator[Flow]:
    """Yield the leaf of a `done` that equals a leaf of its operand, the asynchronous value.

    Leaves that are not the result, such as contexts, yield nothing. All dependences are unknown if
    the asynchronous value has no result of these types.
    """
    finished = _result_leaves(at, ins)
    if leaf in finished:
        yield Flow(0, leaf - finished.start, None)
    elif not finished:
        yield from unknown_writes(at, ins, 0, NO_RESULT)
