"""The rule about collectives: kinds, numbers and sizes.

A collective counts once in every form: as an op, as `<op>-start` with `<op>-done`, or inside the
computation or region that an asynchronous op calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, number, one_of, size
from hloscope.checks.subject import Subject
from hloscope.errors import did_you_mean
from hloscope.fusion import size_in_bytes
from hloscope.ir import Computation, Instruction, size_text
from hloscope.ops import (
    COLLECTIVE_KINDS,
    AsyncStart,
)


class CollectiveUse(Struct, frozen=True):
    """A collective of a program.

    Attributes:
        kind: The opcode in HLO.
        bytes: Bytes of its operands on one device.
        is_async: Does it run while later instructions do?
        instruction: The op, or the op that starts it.
        computation: The computation of the instruction.
    """

    kind: str
    bytes: int
    is_async: bool
    instruction: Instruction
    computation: Computation


def collectives_of(subject: Subject) -> Iterator[CollectiveUse]:
    """Yield every collective of a program once, in program order."""
    # An asynchronous op in the generic form calls a computation that holds the collective: there it
    # counts, as asynchronous.
    started = {
        callee
        for _, ins in subject.places(everywhere=True)
        if isinstance(ins.op, AsyncStart)
        for callee in ins.calls
        if ins.op.wrapped is None
    }
    for computation, ins in subject.places(everywhere=True):
        wrapped = ins.op.wrapped if isinstance(ins.op, AsyncStart) else None
        op = ins.op if wrapped is None else wrapped
        kind = COLLECTIVE_KINDS.get(type(op))
        if kind is not None:
            count = sum(size_in_bytes(operand.type) for operand in ins.operands)
            is_async = wrapped is not None or computation in started
            yield CollectiveUse(kind, count, is_async, ins, computation)


def _collectives(
    subject: Subject, max_bytes: int, max_total_bytes: int, unnamed: str, others: Mapping[str, Any]
) -> Iterator[Finding]:
    uses = defaultdict[str, list[CollectiveUse]](list)
    for use in collectives_of(subject):
        uses[use.kind].append(use)
    for kind, wanted in others.items():
        yield from _counted(subject, kind, uses.get(kind, []), wanted)
    if unnamed == "refused":
        for kind in uses.keys() - others.keys():
            yield from _counted(subject, kind, uses[kind], 0)
    every = [use for found in uses.values() for use in found]
    for use in every:
        if use.bytes > max_bytes:
            message = f"{use.kind} of {size_text(use.bytes)}, at most {size_text(max_bytes)}"
            yield _at(subject, use, message, use.bytes)
    total = sum(use.bytes for use in every)
    if total > max_total_bytes:
        message = f"collectives of {size_text(total)}, at most {size_text(max_total_bytes)} in all"
        yield Finding("collectives", message, subject.file, value=total)


def _counted(
    subject: Subject, kind: str, found: list[CollectiveUse], wanted: int
) -> Iterator[Finding]:
    """Yield a finding for each collective beyond the wanted number, or one if there are too few."""
    for k, use in enumerate(found[wanted:], wanted + 1):
        limit = "none" if wanted == 0 else f"{wanted}"
        yield _at(subject, use, f"{kind} number {k}, expected {limit}", k - wanted)
    if len(found) < wanted:
        message = f"{len(found)} {kind}, expected {wanted}"
        yield Finding("collectives", message, subject.file, value=wanted - len(found))


def _at(subject: Subject, use: CollectiveUse, message: str, value: float) -> Finding:
    return subject.finding("collectives", use.computation, use.instruction, message, value)


def unknown_kinds(names: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each name that is not a kind of collective."""
    known = sorted(set(COLLECTIVE_KINDS.values()))
    for name in names:
        if name not in known:
            yield f"no collective is called `{name}`{did_you_mean(name, known)}"


NO_LIMIT: Final = 1 << 62

COLLECTIVES: Final = Rule(
    "collectives",
    "As many collectives of each kind as expected, `all-reduce = 2`, none too large.",
    {
        "max-bytes": Parameter(NO_LIMIT, "Most bytes of one collective, on one device.", size),
        "max-total-bytes": Parameter(NO_LIMIT, "Most bytes of all of them, on one device.", size),
        "unnamed": Parameter(
            "refused",
            "Kinds that are not named: `refused` or `allowed`.",
            one_of("refused", "allowed"),
        ),
        "*": Parameter(0, "How many there are of a kind, such as `all-gather`.", number),
    },
    _collectives,
)
