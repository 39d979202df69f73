"""Devices of collectives, and channels of sends and recvs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic, HloscopeError
from hloscope.ir import Instruction, Module, Op
from hloscope.ops import (
    NO_GROUPS,
    AsyncStart,
    Collective,
    CollectivePermute,
    Recv,
    RecvDone,
    Send,
    SendDone,
)

_MOST_DEVICES: Final = 1 << 31


def module_devices(module: Module) -> tuple[int | None, list[Diagnostic]]:
    """Return replicas × partitions, `None` unless the header has them, and errors of the header."""
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
"""Number of digits of `_MOST_DEVICES`."""


def _inner(op: Op) -> Op:
    return op.wrapped if isinstance(op, AsyncStart) and op.wrapped is not None else op


def check_groups(ins: Instruction, devices: int | None) -> Iterator[Diagnostic]:
    """Yield errors unless each device is in one group at most, and exists.

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
    twice = [m for m, n in Counter(members).items() if n > 1]
    if twice:
        yield Diagnostic(f"device {twice[0]} is among the {what} twice", ins.span, rule)
    wrong = [m for m in members if m < 0 or (devices is not None and m >= devices)]
    if wrong:
        limit = "" if devices is None else f", there are {devices}"
        yield Diagnostic(f"the {what} name device {wrong[0]}{limit}", ins.span, rule)


def check_channels(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each `send-done` or `recv-done` on another channel than its start."""
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
