"""Rules about sizes: peak memory, padding, and bytes that collectives send."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hloscope.checks.rule import (
    Finding,
    Parameter,
    Rule,
    Subject,
    arrays_of,
    number,
    one_of,
    share,
    size,
)
from hloscope.cost.buffers import (
    LiveBuffer,
    ProgramMemory,
    cheapest_order,
    padding_causes,
    transients,
)
from hloscope.display import share_text
from hloscope.errors import did_you_mean
from hloscope.fusion import size_in_bytes
from hloscope.hlo_parser import print_type
from hloscope.ir import Bytes, Computation, Instruction, Module, TensorType, array_bytes, size_text
from hloscope.ops import (
    COLLECTIVE_KINDS,
    AddDependency,
    AsyncStart,
    AsyncUpdate,
    Bitcast,
    Call,
    Case,
    CopyStart,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Parameter as Argument,
    Return,
    Tuple,
    While,
)

# --------------------------------------------------------------------------------------------------
# A rule about peak memory: its limit, and the shares of padding and transient buffers.


def _memory(
    subject: Subject,
    max_bytes: int,
    baseline_bytes: int,
    max_growth: float,
    of: str,
    max_padding: float,
    max_transient: float,
) -> Iterator[Finding]:
    memory = ProgramMemory(subject.module)
    grown = int(baseline_bytes * (1 + max_growth))
    limits = [(max_bytes, ""), (grown, f" ({size_text(baseline_bytes)} before)")]
    limits = [(limit, before) for limit, before in limits if limit]
    if memory.reason:
        if limits:
            yield from _without_moments(subject, memory, min(limits)[0])
        return
    count = memory.estimate if of == "held" else memory.lower
    for limit, before in limits:
        if count > limit:
            says = (
                f"XLA holds about {size_text(count)}"
                if of == "held"
                else (f"at least {size_text(count)} are live at once")
            )
            yield _at_peak(subject, memory, f"{says}, at most {size_text(limit)}{before}", count)
    rows = memory.live(memory.peak)
    padding = sum([row.buffer.size.wasted for row in rows])
    yield from _share(subject, memory, rows, padding, max_padding, "padding")
    moment = sum([one.buffer.bytes for one in transients(memory, memory.peak)])
    yield from _share(
        subject, memory, rows, moment, max_transient, "copies and scratch of one instruction"
    )


def _without_moments(subject: Subject, memory: ProgramMemory, limit: int) -> Iterator[Finding]:
    """Yield findings about a program without a schedule; parameters and outputs are always live.

    If they are within the limit, HLO without a schedule is still reported, since its peak may be
    above it. StableHLO never has a schedule, so it is not reported.

    Args:
        subject: The program.
        memory: Its memory.
        limit: Maximum number of bytes.
    """
    entry = subject.module.entry
    sums = memory.sums
    held = sums.parameters + sums.outputs
    if held > limit:
        message = f"parameters and outputs alone take {size_text(held)}, at most {size_text(limit)}"
        yield subject.finding("memory", entry, entry.root, message, held)
    elif not subject.module.has_tree:
        message = f"the peak is not known, {memory.reason}"
        yield subject.finding("memory", entry, entry.root, message, held)


def _at_peak(subject: Subject, memory: ProgramMemory, message: str, value: int) -> Finding:
    """Return a finding at the instruction of the peak; at the root if the peak is the end.

    Args:
        subject: The program.
        memory: Its memory.
        message: The message of the finding.
        value: Amount of the violation.
    """
    schedule, moment = memory.schedule, memory.peak
    if moment == schedule.end:
        return subject.finding(
            "memory", subject.module.entry, subject.module.entry.root, message, value
        )
    ins, computation = schedule.instructions[moment], schedule.computations[moment]
    return subject.finding("memory", computation, ins, message, value)


def _share(
    subject: Subject,
    memory: ProgramMemory,
    rows: list[LiveBuffer],
    count: int,
    most: float,
    what: str,
) -> Iterator[Finding]:
    """Yield a finding if `count` bytes are more than the share `most` of the peak.

    Args:
        subject: The program.
        memory: Its memory.
        rows: The buffers at the peak.
        count: Bytes of the buffers that the rule is about.
        most: Maximum share, from 0 to 1.
        what: These buffers as the subject of the message.
    """
    whole = sum([row.buffer.bytes for row in rows])
    if count > most * whole:
        message = (
            f"{what} take {size_text(count)} of the peak of {size_text(whole)} "
            f"({share_text(count / whole)}), at most {share_text(most)}"
        )
        yield _at_peak(subject, memory, message.replace("padding take ", "padding takes "), count)


MEMORY: Final = Rule(
    "memory",
    "The peak of a scheduled program is within a budget; little of it is padding or transient.",
    {
        "max-bytes": Parameter(0, "Most bytes of the program on one device; 0: no limit.", size),
        "baseline-bytes": Parameter(0, "Bytes of an earlier version; 0: no baseline.", size),
        "max-growth": Parameter(0.0, "Allowed growth, as a share of the baseline.", share),
        "of": Parameter(
            "held", "`held`: what XLA holds, about; `live`: the least at once.",
            one_of("held", "live"),
        ),
        "max-padding": Parameter(1.0, "Share of the peak that tiles leave empty.", share),
        "max-transient": Parameter(
            1.0, "Share of the peak that copies and scratch of one instruction take.", share
        ),
    },
    _memory,
)  # fmt: skip


# --------------------------------------------------------------------------------------------------
# A rule about padding: memory that tiles of layouts leave empty.


_COUNTED_ELSEWHERE: Final = (
    AddDependency, AsyncStart, AsyncUpdate, Bitcast, Call, Case, CopyStart, Domain, GetTupleElement,
    OptimizationBarrier, Return, Tuple, While,
)  # fmt: skip
"""Ops whose arrays are counted at another op.

That is an operand, the root of a called computation, or the `done` of an op that they start.
"""


class PaddedArrays(NamedTuple):
    """Arrays of a program that have padding.

    Attributes:
        groups: For each type, the instructions that produce such arrays, with their computations.
        sizes: Bytes of one array of each type.
        total: Bytes of all arrays of the program, with padding.
    """

    groups: dict[TensorType, list[tuple[Computation, Instruction]]]
    sizes: dict[TensorType, Bytes]
    total: int


def padded_arrays(
    module: Module, places: Iterable[tuple[Computation, Instruction]]
) -> PaddedArrays:
    """Return the arrays of a module that have padding.

    Args:
        module: The module.
        places: The instructions that run, with their computations.
    """
    groups: dict[TensorType, list[tuple[Computation, Instruction]]] = defaultdict(list)
    total = 0
    sizes: dict[TensorType, Bytes] = {}
    every = list(places)
    starts = [ins for _, ins in every if isinstance(ins.op, AsyncStart)]
    returned = {called.root for ins in starts for called in ins.calls}  # counts at the `done`
    for computation, ins in every:
        if isinstance(ins.op, _COUNTED_ELSEWHERE) or ins in returned:
            continue
        if isinstance(ins.op, Argument) and computation is not module.entry:
            continue  # the caller's array
        for type in arrays_of(ins.type):
            known = sizes.get(type) or array_bytes(type)
            if known is None:
                continue
            sizes[type] = known
            total += known.padded
            if known.wasted:
                groups[type].append((computation, ins))
    return PaddedArrays(groups, sizes, total)


def _padding(subject: Subject, min_wasted: int, top: int) -> Iterator[Finding]:
    groups, sizes, total = padded_arrays(subject.module, subject.places())
    rows = [(sizes[type].wasted * len(places), type, places) for type, places in groups.items()]
    rows.sort(key=lambda row: -row[0])  # stable: equal amounts stay in program order
    for wasted, type, places in [row for row in rows if row[0] >= max(min_wasted, 1)][:top]:
        found = subject.finding("padding", *places[0], _message(type, sizes[type], places), wasted)
        # An error from 10 % of the bytes of all arrays on, a warning from 1 % on.
        severe = "error" if 10 * wasted >= total else "warning" if 100 * wasted >= total else "note"
        yield replace(found, severity=severe)


def _message(type: TensorType, found: Bytes, places: list[tuple[Computation, Instruction]]) -> str:
    """Return the text of a finding about arrays with padding.

    Args:
        type: Type of the arrays.
        found: Bytes of one array, with and without padding.
        places: The instructions that produce such arrays, with their computations.
    """
    says = f"{print_type(type)} takes {size_text(found.padded)} for {size_text(found.unpadded)}"
    says += f" ({found.ratio:.4g}x)"
    if causes := padding_causes(type):
        says += f": {', '.join(causes)}"
    if len(places) > 1:
        whole = size_text(found.wasted * len(places))
        says += f"; {len(places)} such arrays, {whole} of padding in all"
    best = cheapest_order(type)
    if best is not None:
        size = array_bytes(best)
        assert size is not None
        saved = size_text(found.padded - size.padded)
        says += f"; {print_type(best)} takes {size_text(size.padded)}, {saved} less"
    return says


PADDING: Final = Rule(
    "padding",
    "No arrays whose tiles leave much memory empty; severity by the share of all array bytes.",
    {
        "min-wasted": Parameter(1 << 20, "Types of arrays with less padding are allowed.", size),
        "top": Parameter(20, "Most types that are reported, largest padding first.", number),
    },
    _padding,
)


# --------------------------------------------------------------------------------------------------
# The rule about collectives: kinds, numbers and sizes.
#
# A collective counts once in every form: as an op, as `<op>-start` with `<op>-done`, or inside the
# computation or region that an asynchronous op calls.


class CollectiveUse(Struct, frozen=True):
    """A collective of a program.

    Attributes:
        kind: The opcode in HLO.
        bytes: Bytes of its operands on one device.
        is_async: Do later instructions run at the same time?
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
    """Yield findings about the number and the sizes of collectives.

    Args:
        subject: The program.
        max_bytes: Maximum bytes of one collective.
        max_total_bytes: Maximum bytes of all collectives.
        unnamed: `refused` if kinds that `others` lacks are not allowed.
        others: Required number of collectives, by opcode.
    """
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
    subject: Subject, kind: str, collectives: list[CollectiveUse], wanted: int
) -> Iterator[Finding]:
    """Yield a finding for each collective beyond the wanted number, or one if there are too few.

    Args:
        subject: The program.
        kind: Opcode of the collectives.
        collectives: All collectives of this kind, in program order.
        wanted: The number that is required.
    """
    for k, use in enumerate(collectives[wanted:], wanted + 1):
        limit = "none" if wanted == 0 else f"{wanted}"
        yield _at(subject, use, f"{kind} number {k}, expected {limit}", k - wanted)
    if len(collectives) < wanted:
        message = f"{len(collectives)} {kind}, expected {wanted}"
        yield Finding("collectives", message, subject.file, value=wanted - len(collectives))


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
