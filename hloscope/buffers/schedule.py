"""The schedule of a program: one sequence of the instructions of all computations that run.

The text of a scheduled module lists instructions in the order of the schedule.  The computations
that an instruction runs come before it, each once: the callee of a `call`, the branches of a
`conditional` in order, the condition and then the body of a `while`, and the computation that an
`async-start` wraps.  Computations of fusions, reductions, sorts and similar ops are part of their
instruction and have no moments.

Source: XLA `HloLiveRange::FlattenSchedule`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from hloscope.cost import is_scheduled
from hloscope.errors import UnsupportedError
from hloscope.ir import Body, Computation, Instruction, Module, TupleType
from hloscope.ops import (
    AllGather,
    AllReduce,
    AsyncStart,
    Call,
    Case,
    CollectivePermute,
    Parameter,
    While,
)

_RUNS: Final = (Call, Case, While, AsyncStart)
"""Ops that run the computations they call instruction by instruction."""
OWN_STARTS: Final = (AllReduce, AllGather, CollectivePermute)
"""Ops whose `-start` is an XLA opcode; for other ops it abbreviates an `async-start` that calls a
computation with the op alone."""


class NoMomentsError(UnsupportedError):
    """The text does not determine live ranges; the message states the reason."""


class Schedule(Struct, frozen=True):
    """Instructions in the order in which they run.

    Attributes:
        instructions: The instruction of each moment.
        computations: The computation of each moment.
        spans: First moment of each computation, and the moment after its last.
        callers: The instruction that runs each computation, and the number of the computation
            among those that it runs.  The entry has none.
        runs: The computations that each instruction runs, in order; a `while` has its condition
            first.
    """

    instructions: tuple[Instruction, ...]
    computations: tuple[Computation, ...]
    spans: dict[Computation, tuple[int, int]]
    callers: dict[Computation, tuple[Instruction, int]]
    runs: dict[Instruction, tuple[Computation, ...]]

    @property
    def end(self) -> int:
        """The moment after the last instruction."""
        return len(self.instructions)


def schedule_of(module: Module) -> Schedule:
    """The order in which the instructions of a module run.

    Raises:
        NoMomentsError: The module has no schedule, or two instructions run one computation.
    """
    if not is_scheduled(module):
        raise NoMomentsError("the program has no schedule (no `is_scheduled=true` in its header)")
    runs: dict[Instruction, tuple[Computation, ...]] = {}
    callers: dict[Computation, tuple[Instruction, int]] = {}
    starts: dict[Computation, int] = {}
    spans: dict[Computation, tuple[int, int]] = {}
    instructions: list[Instruction] = []
    computations: list[Computation] = []

    def begin(computation: Computation) -> tuple[Computation, Iterator[Instruction]]:
        starts[computation] = len(instructions)
        return computation, iter(computation.instructions)

    stack = [begin(module.entry)]  # computations that have begun, and what is left of each
    waiting: list[Instruction | None] = [None]  # the instruction whose computations run first
    while stack:
        computation, rest = stack[-1]
        ins = waiting[-1] or next(rest, None)
        waiting[-1] = None
        # The computation is complete: its span ends, and the caller, which waited for it, is next.
        if ins is None:
            spans[computation] = starts[computation], len(instructions)
            stack.pop()
            waiting.pop()
            continue
        if ins not in runs and isinstance(ins.op, _RUNS):
            runs[ins] = _computations_run(ins)
            for number, callee in enumerate(runs[ins]):
                _refuse_second_caller(callee, ins, callers, module)
                callers[callee] = ins, number
        # An instruction gets its moment when all computations that it runs have theirs.
        following = next((c for c in runs.get(ins, ()) if c not in starts), None)
        if following is not None:
            waiting[-1] = ins
            stack.append(begin(following))
            waiting.append(None)
            continue
        instructions.append(ins)
        computations.append(computation)
    return Schedule(tuple(instructions), tuple(computations), spans, callers, runs)


def _refuse_second_caller(
    callee: Computation,
    ins: Instruction,
    callers: dict[Computation, tuple[Instruction, int]],
    module: Module,
) -> None:
    """Refuse a computation that another instruction runs as well.

    XLA gives each caller its own copy before it assigns memory (`FlattenCallGraph`), so dumps of
    compiled programs have one caller for each computation.
    """
    other = callers.get(callee)
    if other is not None or callee is module.entry:
        first = f"`{other[0].name}`" if other is not None else "the program"
        raise NoMomentsError(
            f"`{callee.name}` is run by {first} and `{ins.name}`; XLA copies a computation for "
            "each caller before it assigns memory, this text was printed before",
            span=ins.span,
        )


def _computations_run(ins: Instruction) -> tuple[Computation, ...]:
    """The computations that an instruction runs; for a short asynchronous form, one is created."""
    op = ins.op
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return ins.calls
    if isinstance(op.wrapped, OWN_STARTS):
        return ()  # an op of its own; `calls` are its reducer
    parameters = tuple(
        [
            Instruction(f"{ins.name} parameter {k}", operand.type, Parameter(k), span=ins.span)
            for k, operand in enumerate(ins.operands)
        ]
    )
    elements = ins.type.elements if isinstance(ins.type, TupleType) else ()
    made = elements[1] if len(elements) > 1 else ins.type
    root = Instruction(
        f"{ins.name} wrapped", made, op.wrapped, parameters, ins.calls, ins.extras, span=ins.span
    )
    body = Body((*parameters, root), parameters, root)
    return (Computation(f"{ins.name} wrapped computation", body, span=ins.span),)
