"""Checks of communication: starts and their dones, channels, and the devices of collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from hloscope.errors import Diagnostic, HloscopeError
from hloscope.ir import Computation, Instruction, Module, Op, TupleType, Type, users
from hloscope.ops import (
    NO_GROUPS,
    AllGather,
    AllReduce,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Collective,
    CollectivePermute,
    CopyDone,
    CopyStart,
    Recv,
    RecvDone,
    Send,
    SendDone,
    Tuple,
)
from hloscope.verifier.hlo.rules import equal_up_to_precision, same, text_of
from hloscope.verifier.hlo.types import opcode

# --------------------------------------------------------------------------------------------------
# Asynchronous ops: each start has one done, of the same kind and type.


_STARTS_OF: Final = {
    CopyDone: (CopyStart,),
    SendDone: (Send,),
    RecvDone: (Recv,),
    AsyncUpdate: (AsyncStart, AsyncUpdate),
    AsyncDone: (AsyncStart, AsyncUpdate),
}
"""Ops that may define the operand of an update or done op, by the class of the update or done."""

_USERS_OF: Final[dict[type, tuple[type, ...]]] = {
    AsyncStart: (AsyncUpdate, AsyncDone),
    AsyncUpdate: (AsyncUpdate, AsyncDone),
    CopyStart: (CopyDone,),
    Send: (SendDone, Tuple),
    Recv: (RecvDone, Tuple),
}
"""Ops that may be the only user of a start, by the start's class.

Loops pass sends and recvs in tuples.
"""

_THREAD: Final = "async_execution_thread"

_CONVERTING: Final = (AllGather, AllReduce, CollectivePermute)
"""Starts whose done is an opcode of its own, and may declare another float precision."""

_PASSED_ON: Final = ("parameter", "get_tuple_element", "tuple", "while", "optimization_barrier")
"""Ops by which a loop passes the result of a send or recv to the next iteration."""

_MOST_STEPS: Final = 10_000
"""Maximum number of `async-update` ops between an `async-done` and its start."""


def check_pairs(computation: Computation) -> Iterator[Diagnostic]:
    """Yield an error for each start not ended by exactly one done, and dones without start."""
    uses = None
    for ins in computation:
        starts = _STARTS_OF.get(type(ins.op))
        if starts is not None:
            yield from _check_end(ins, starts)
        needed = _USERS_OF.get(type(ins.op))
        if needed is None or _may_stay_open(ins, computation):
            continue
        # Most computations start nothing: users are collected at the first start.
        uses = users(computation) if uses is None else uses
        yield from _check_start(ins, uses.get(ins, ()), needed)


def _may_stay_open(ins: Instruction, computation: Computation) -> bool:
    """May a start lack a done in XLA?

    An `all-gather-start` may, and so may a send or recv that is the root of an asynchronous
    computation.
    """
    if isinstance(ins.op, Send | Recv):
        return ins is computation.root
    return isinstance(ins.op, AsyncStart) and isinstance(ins.op.wrapped, AllGather)


def _check_end(ins: Instruction, starts: tuple[type, ...]) -> Iterator[Diagnostic]:
    """Yield errors of an update or done op: of its operand, its start and its types.

    `starts` has the classes of ops that may define its operand.
    """
    if not ins.operands:
        return
    operand = ins.operands[0]
    if not isinstance(operand.op, starts):
        # A send or recv may end in a later iteration, with its start behind a tuple of the loop.
        passed_on = operand.op.name in _PASSED_ON and isinstance(ins.op, SendDone | RecvDone)
        if not passed_on:
            needed = " or ".join(f"`{cls.name}`" for cls in starts if hasattr(cls, "name"))
            message = f"the operand of `{opcode(ins)}` is `{opcode(operand)}`, needs {needed}"
            yield Diagnostic(message, ins.span)
        return
    if not isinstance(ins.op, AsyncDone | AsyncUpdate):
        return
    start = _start_of(operand)
    yield from _check_names(ins, start)
    started_op, ended = _started_opcode(start), ins.op.wrapped_name
    if started_op and ended and started_op != ended:
        message = f"`{opcode(ins)}` ends `{start.name}`, which is a `{started_op}-start`"
        yield Diagnostic(message, ins.span)
    elif isinstance(ins.op, AsyncDone):
        result = _result_type(operand, start)
        if result is not None and not _type_comparison(start)(result, ins.type):
            message = f"`async-done` is declared {text_of(ins.type)}, its start makes"
            yield Diagnostic(f"{message} {text_of(result)}", ins.span)
        return
    added, lacking = len(ins.operands) - 1, _missing_operands(start)
    if added > lacking:
        message = f"`{opcode(ins)}` adds {added} operands, `{start.name}` lacks {lacking}"
        yield Diagnostic(message, ins.span)
    if not same(operand.type, ins.type):
        message = f"`async-update` is declared {text_of(ins.type)}, its operand is"
        yield Diagnostic(f"{message} {text_of(operand.type)}", ins.span)


def _check_names(ins: Instruction, start: Instruction) -> Iterator[Diagnostic]:
    """Yield an error if an update or done names another thread or computation than `start`."""
    have, want = (dict(getattr(i.op, "settings", ())).get(_THREAD) for i in (ins, start))
    if have is not None and have.strip('"') != (want or "main").strip('"'):
        yield Diagnostic(f"{_THREAD} is {have}, that of `{start.name}` {want or 'main'}", ins.span)
    if ins.calls and ins.calls != start.calls:
        message = f"`{opcode(ins)}` names {ins.calls[0].name}, `{start.name}` calls another"
        yield Diagnostic(message, ins.span)


def _type_comparison(start: Instruction) -> Callable[[Type, Type], bool]:
    """Return the function that compares the result types of a start and its done.

    It returns whether they agree; for some ops the float precision may differ.
    """
    wrapped = start.op.wrapped if isinstance(start.op, AsyncStart) else None
    return equal_up_to_precision if isinstance(wrapped, _CONVERTING) else same


def _missing_operands(start: Instruction) -> int:
    """Return how many operands of the called computation a start lacks; updates must add them."""
    return len(start.calls[0].parameters) - len(start.operands) if start.calls else 0


def _start_of(ins: Instruction) -> Instruction:
    """Return the start op that an `async-update` or `async-done` belongs to."""
    for _ in range(_MOST_STEPS):
        if not isinstance(ins.op, AsyncUpdate) or not ins.operands:
            break
        ins = ins.operands[0]
    return ins


def _started_opcode(start: Instruction) -> str:
    """Return the opcode of the op that a start wraps, or of the root of its called computation."""
    match start.op:
        case AsyncStart(wrapped=None) if start.calls:
            return opcode(start.calls[0].root)
        case AsyncStart(wrapped=op) if op is not None:
            return opcode(start).removesuffix("-start")
        case _:
            return ""


def _result_type(operand: Instruction, start: Instruction) -> Type | None:
    """Return the type of the final result that a start or update declares; `None` without one.

    `operand` is the start or update, `start` the start. The type of `all-reduce-start` is that of
    the result. The type of any other start is a tuple (operands, result, …).
    """
    if isinstance(start.op, AsyncStart) and isinstance(start.op.wrapped, AllReduce):
        return operand.type
    match operand.type:
        case TupleType((_, result, *_)) if result != TupleType(()):
            return result
        case _:
            return None


def _check_start(
    ins: Instruction, readers: tuple[Instruction, ...], needed: tuple[type, ...]
) -> Iterator[Diagnostic]:
    """Yield an error unless a start has exactly one user, whose class is one of `needed`.

    `readers` are its users.

    Source: XLA `hlo_verifier.cc` (`VerifyAsynchronousInstructionPairs`, `VerifySingleUser`).
    """
    ends = [r for r in readers if isinstance(r.op, needed)]
    if len(ends) == len(readers) == 1:
        return
    if len(ends) > 1:
        names = ", ".join(r.name for r in ends)
        yield Diagnostic(f"`{ins.name}` is ended {len(ends)} times, by {names}", ins.span)
        return
    end = f"`{opcode(ins).removesuffix('-start').removesuffix('-update')}-done`"
    if not readers:
        message = f"`{ins.name}` begins `{opcode(ins)}`, which nothing ends: it needs one {end}"
    else:
        other = next(r for r in readers if r not in ends)
        message = f"`{ins.name}` is read by `{opcode(other)}` {other.name}, needs {end} only"
    yield Diagnostic(message, ins.span)


# --------------------------------------------------------------------------------------------------
# Devices of collectives, and channels of sends and recvs.


_MOST_DEVICES: Final = 1 << 31


def module_devices(module: Module) -> tuple[int | None, list[Diagnostic]]:
    """Return the number of devices, replicas × partitions, and the errors of both counts.

    The number is `None` if the header has neither count, or an invalid one.
    """
    extras, counts, wrong = dict(module.extras), [1, 1], []
    for i, name in enumerate(("replica_count", "num_partitions")):
        text = extras.get(name)
        if text is None:
            continue
        if not text.isdecimal() or len(text) > _DIGITS or not 0 < int(text) <= _MOST_DEVICES:
            message = f"{name}={text}: expected a number from 1 to {_MOST_DEVICES:,}"
            wrong.append(Diagnostic(message, module.entry.span))
        else:
            counts[i] = int(text)
    is_declared = not wrong and extras.keys() & {"replica_count", "num_partitions"}
    return (counts[0] * counts[1] if is_declared else None), wrong


_DIGITS: Final = 10
"""Number of decimal digits of `_MOST_DEVICES`; a count with more digits is too large."""


def _inner(op: Op) -> Op:
    return op.wrapped if isinstance(op, AsyncStart) and op.wrapped is not None else op


def check_groups(ins: Instruction, devices: int | None) -> Iterator[Diagnostic]:
    """Yield an error for each device that is in two groups of a collective or does not exist.

    Args:
        ins: Any instruction.
        devices: Number of devices of the module; `None` if unknown.
    """
    op = _inner(ins.op)
    if isinstance(op, CollectivePermute):
        if len(ins.operands) > 1:
            return  # pairs of several permutations, consecutive in one list
        yield from _check_pairs(ins, op.pairs, devices)
    elif isinstance(op, Collective) and op.replica_groups != NO_GROUPS:
        try:
            groups = op.replica_groups.rows
        except HloscopeError as error:
            yield Diagnostic(error.message, ins.span)
            return
        members = [member for group in groups for member in group]
        yield from _members(ins, members, devices, f"{op.name}_c4", "replica groups")
        if not all(groups):
            yield Diagnostic("a replica group is empty", ins.span)


def _check_pairs(
    ins: Instruction, pairs: tuple[tuple[int, int], ...], devices: int | None
) -> Iterator[Diagnostic]:
    for side, rule, what in (
        (0, "collective_permute_c2", "sources"),
        (1, "collective_permute_c3", "targets"),
    ):
        yield from _members(ins, [pair[side] for pair in pairs], devices, rule, what)


def _members(
    ins: Instruction, members: list[int], devices: int | None, rule: str, what: str
) -> Iterator[Diagnostic]:
    """Yield an error if a device is listed twice or does not exist.

    Args:
        ins: The collective.
        members: The listed devices.
        devices: Number of devices; `None` if unknown.
        rule: Violated constraint.
        what: What the devices are, for the message.
    """
    twice = [m for m, n in Counter(members).items() if n > 1]
    if twice:
        yield Diagnostic(f"device {twice[0]} is among the {what} twice", ins.span, rule)
    wrong = [m for m in members if m < 0 or (devices is not None and m >= devices)]
    if wrong:
        limit = "" if devices is None else f", there are {devices}"
        yield Diagnostic(f"the {what} name device {wrong[0]}{limit}", ins.span, rule)


def check_channels(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each `send-done` or `recv-done` whose channel differs from its start's."""
    for computation in module:
        for ins in computation:
            op = ins.op
            if isinstance(op, SendDone | RecvDone) and ins.operands:
                start = ins.operands[0].op
                if isinstance(start, Send | Recv) and start.channel_id != op.channel_id:
                    have, want = (_channel(x.channel_id) for x in (op, start))
                    message = f"it has {have}, `{ins.operands[0].name}` {want}"
                    yield Diagnostic(message, ins.span)


def _channel(number: int | None) -> str:
    return "no channel" if number is None else f"channel {number}"
