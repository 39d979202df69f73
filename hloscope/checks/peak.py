"""A rule about peak memory: its limit, and the shares of padding and transient buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.buffers import LiveBuffer, ProgramMemory, transients
from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, one_of, share, size
from hloscope.checks.subject import Subject
from hloscope.display import share_text
from hloscope.ir import size_text


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
    """Findings without a schedule: parameters and outputs are always held.

    If they are within the limit, HLO without a schedule is still reported, since its peak may be
    above it. StableHLO never has a schedule, so it is not.
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
    """A finding at the instruction of the peak; at the root if the peak is the program's end."""
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
    """Yield a finding if `count` bytes are more than a share of the peak."""
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
