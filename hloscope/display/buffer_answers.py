"""Sentences about the buffers of a program: peak, fit, donation, padding, copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hloscope.cost.buffers import (
    Buffer,
    Donation,
    DonationOffer,
    ForcedCopy,
    LiveBuffer,
    ProgramMemory,
    Recomputation,
    Transient,
    Value,
    cheapest_order,
    lower_without,
    padding_causes,
    second_highest,
)
from hloscope.display.buffers import buffer_origin
from hloscope.display.grouped import place_text, share_text
from hloscope.display.provenance import provenance_of, training_pass
from hloscope.hlo_parser import index_text, print_type
from hloscope.ir import Bytes, Module, TensorType, array_bytes, size_text
from hloscope.support.devices import Device

# --------------------------------------------------------------------------------------------------
# Sentences about the buffers of a program: peak, fit, donation, padding, copies.


MOST_ROWS: Final = 3
"""Maximum number of rows of each answer, that is, of the text on one kind of saving."""
LEAST_SHARE: Final = 0.001
"""Minimum share of the peak that an entry must have to get a row."""
COURSE: Final = 48
"""Number of characters of the line that shows the live bytes over the schedule."""
_KINDS: Final = (
    ("parameter", "parameters"), ("output", "outputs"), ("temporary", "temporaries"),
    ("constant", "constants"),
)  # fmt: skip


class MemoryStep(NamedTuple):
    """A change that lowers the memory of a program.

    Attributes:
        saved: Bytes that it saves, at most.
        text: The change in words.
    """

    saved: int
    text: str


def _place(value: Value, buffer: Buffer, module: Module) -> str:
    return place_text(buffer_origin(buffer, value, module))


def _at(place: str) -> str:
    return f" ({place})" if place else ""


# ----------------------------------------------------------------------------------------- peak


def peak_lines(memory: ProgramMemory) -> list[str]:
    """Return lines with the bounds L and E, and the peak.

    The peak has its instruction, source line and live bytes. A row of blocks shows the live bytes
    over the schedule.
    """
    lines = [
        f"at least {size_text(memory.lower)} live at once; XLA holds about "
        f"{size_text(memory.estimate)}"
    ]
    lines.append(f"peak: {moment_text(memory, memory.peak)}")
    course = sparkline(memory.device.least, COURSE)
    lines.append(f"live: {course}| from first to last moment, █ is {size_text(memory.lower)}")
    for line in memory.spaces.values():
        if line.space:
            lines.append(
                f"memory space {line.space}: at least {size_text(line.lower)} live at once, at "
                f"moment {line.peak:,}"
            )
    return lines


def assigned_text(memory: ProgramMemory, assigned: int) -> str:
    """Return a sentence that compares the bytes that XLA assigned with the bounds L and E.

    Args:
        memory: The memory of the program, which has both bounds.
        assigned: Bytes that the dump's buffer assignment states.
    """
    says = f"XLA assigned {size_text(assigned)}"
    if memory.lower > assigned:
        return (
            f"{says}, less than the computed minimum: a result shares an operand's memory by a "
            "rule that hloscope does not know; please report it"
        )
    if memory.estimate:
        says += f", {assigned / memory.estimate:.4g} of the estimate"
    return f"{says} (its dump says)"


def moment_text(memory: ProgramMemory, moment: int) -> str:
    """Return a text with a moment, its instruction and source line, and live bytes by kind."""
    schedule = memory.schedule
    if moment < schedule.end:
        ins = schedule.instructions[moment]
        place = place_text(provenance_of(ins, memory.module))
        what = f"moment {moment:,} of {schedule.end:,}, `{ins.name}`{_at(place)}"
    else:
        what = f"the end, after moment {schedule.end - 1:,}"
    sums = {kind: 0 for kind, _ in _KINDS}
    for row in memory.live(moment):
        sums[row.buffer.kind] += row.buffer.bytes
    ordered = sorted(_KINDS, key=lambda kind: -sums[kind[0]])
    parts = [f"{name} {size_text(sums[kind])}" for kind, name in ordered if sums[kind]]
    return f"{what}: {', '.join(parts) or 'nothing'}"


def remat_text(rows: Sequence[LiveBuffer]) -> str:
    """Return a text with the number of buffers whose values XLA recomputes; empty for none."""
    count = sum([".remat" in row.value.instruction.name for row in rows])
    return f"{count:,} of {len(rows):,} buffers are rematerialised by XLA" if count else ""


def fit_text(memory: ProgramMemory, device: Device) -> str:
    """Return a sentence that compares a device's memory size with the bounds L and E."""
    if not device.memory_bytes:
        return f"{device.name}: the size of its memory is not known"
    room = f"{device.name} has {size_text(device.memory_bytes)}"
    lower, estimate = size_text(memory.lower), size_text(memory.estimate)
    if memory.lower > device.memory_bytes:
        return f"cannot fit: at least {lower} are live at once, {room}"
    if memory.estimate > device.memory_bytes:
        return f"does not fit as XLA assigns memory: it will ask for about {estimate}, {room}"
    share = share_text(memory.estimate / device.memory_bytes)
    return f"may fit: XLA will ask for about {estimate}, {room} ({share}); no promise"


# ------------------------------------------------------------------------------- the compiler's


def compiler_lines(memory: ProgramMemory) -> list[str]:
    """Return lines on why XLA allocates more than is live.

    Reasons are outputs that are allocated before they are written, and separate allocations.
    """
    if memory.estimate <= memory.lower:
        return []
    gap = size_text(memory.estimate - memory.lower)
    lines = [f"XLA holds about {gap} more than is live at once"]
    peak = memory.peak
    idle = {b: b.bytes for b in memory.buffers.buffers if b.kind == "output" and not b.space}
    for buffer, owner in [(b, b) for b in idle] + [*memory.device.reused.items()]:
        if owner in idle and buffer.lives_at(peak):
            idle[owner] -= buffer.bytes
    if waiting := sum(idle.values()):
        lines.append(
            f"  {size_text(waiting)}: outputs that are allocated all the time and not in use at "
            "the peak"
        )
    reused = set(memory.device.reused.items())
    shared = [
        pair
        for pairs in memory.device.placed.values()
        for pair in pairs
        if max(len(one.values) for one in pair) > 1
        and pair[0].kind != "parameter"
        and pair not in reused
        and pair[::-1] not in reused
    ]
    shared.sort(key=lambda pair: -pair[0].bytes)
    for result, operand in shared[:MOST_ROWS]:
        lines.append(
            f"  {size_text(result.bytes)}: `{result.values[0].name}` could share the memory of "
            f"`{operand.values[0].name}`; XLA gives it its own"
        )
    return lines


# ------------------------------------------------------------------------------------- donation


def donation_lines(
    memory: ProgramMemory, donations: Sequence[Donation], offers: Sequence[DonationOffer]
) -> list[str]:
    """Return lines about donated parameters: used, copied and unused ones, and possible ones.

    Args:
        memory: The memory of the program.
        donations: The status of each parameter's donation.
        offers: Parameters whose donation would save memory.
    """
    lines = []
    taken = [one for one in donations if one.status == "taken" and one.copied_by is None]
    if taken:
        held = size_text(sum([one.buffer.bytes for one in taken]))
        first = taken[0]
        output = "" if first.output is None else f" by result {index_text(first.output)}"
        lines.append(
            f"donation worked for {len(taken):,} of {len(donations):,} parameters, {held}: "
            f"`{first.parameter.name}` is taken{output}"
        )
    for one in [d for d in donations if d.copied_by is not None][:MOST_ROWS]:
        assert one.copied_by is not None
        lines.append(
            f"donated, and saves nothing: the result is made elsewhere while "
            f"`{one.parameter.name}` is read, and `{one.copied_by.name}` copies it there, "
            f"{size_text(one.buffer.bytes)}"
        )
    for one in [d for d in donations if d.status == "offered"][:MOST_ROWS]:
        why = (
            "a result of its type begins before it is read for the last time"
            if one.has_output
            else "no result left has its type and layout"
        )
        lines.append(
            f"donated but unused: `{one.parameter.name}` {print_type(one.parameter.type)}, "
            f"{size_text(one.buffer.bytes)}: {why}"
        )
    if offers:
        step = donation_step(memory, offers)
        assert step is not None
        lines.append(step.text)
    return lines


def donation_step(memory: ProgramMemory, offers: Sequence[DonationOffer]) -> MemoryStep | None:
    """Return the change that donates all parameters whose memory a result can use.

    `offers` are these parameters; `None` if there are none.
    """
    if not offers:
        return None
    saved = sum([one.bytes for one in offers])
    ordered = sorted(offers, key=lambda one: -one.bytes)
    first = ordered[0]
    names = ", ".join(f"`{one.parameter.name}`" for one in ordered[:MOST_ROWS])
    names += f" and {len(ordered) - MOST_ROWS:,} more" if len(ordered) > MOST_ROWS else ""
    return MemoryStep(
        saved,
        f"donate {names}: XLA would hold {size_text(saved)} less; result "
        f"{index_text(first.output)} begins at {first.result.first:,}, `{first.parameter.name}` is "
        f"read until {first.last_read:,}",
    )


# -------------------------------------------------------------------------------------- padding


class PaddedType(NamedTuple):
    """The arrays of one padded type that are live at a moment.

    Attributes:
        type: The type.
        number: Number of arrays.
        size: Bytes of one array.
        best: The type with the order of dimensions that takes the fewest bytes; `None` if this type
            is the best.
        saved: Bytes that this order saves for all arrays.
        place: Source line of the first array.
    """

    type: TensorType
    number: int
    size: Bytes
    best: TensorType | None
    saved: int
    place: str


def padded_types(memory: ProgramMemory, rows: Sequence[LiveBuffer]) -> list[PaddedType]:
    """Return the types of padded buffers, the one with the most padding first.

    Args:
        memory: The memory of the program.
        rows: The buffers that are live at a moment.
    """
    groups: dict[TensorType, list[LiveBuffer]] = {}
    for row in rows:
        if isinstance(row.value.type, TensorType) and row.buffer.size.wasted:
            groups.setdefault(row.value.type, []).append(row)
    found = []
    for type, some in groups.items():
        best, size = cheapest_order(type), some[0].buffer.size
        least = array_bytes(best) if best is not None else None
        saved = (size.padded - least.padded) * len(some) if least is not None else 0
        place = _place(some[0].value, some[0].buffer, memory.module)
        found.append(PaddedType(type, len(some), size, best, saved, place))
    return sorted(found, key=lambda one: -one.size.wasted * one.number)


def padding_lines(memory: ProgramMemory, padded: Sequence[PaddedType]) -> list[str]:
    """Return lines about padding at the peak, with the best dimension order of the worst types.

    `padded` are the padded types at the peak, the one with the most padding first. Without any the
    list is empty.
    """
    total = sum([one.size.wasted * one.number for one in padded])
    if not total:
        return []
    lines = [
        f"padding takes {size_text(total)} of the peak ({share_text(total / memory.lower)})"
        if memory.lower
        else f"padding takes {size_text(total)}"
    ]
    for one in padded[:MOST_ROWS]:
        causes = ", ".join(padding_causes(one.type))
        times = f"{one.number:,} × " if one.number > 1 else ""
        lines.append(
            f"  {times}{print_type(one.type)}{_at(one.place)} takes {size_text(one.size.padded)} "
            f"for {size_text(one.size.unpadded)} ({one.size.ratio:.4g}x): {causes}"
        )
        if one.best is not None:
            lines.append(f"    {print_type(one.best)} would take {size_text(one.saved)} less")
    return lines


def padding_step(padded: Sequence[PaddedType]) -> MemoryStep | None:
    """Return the change that reorders the dimensions of the type for which this saves most.

    `None` if no order is better. `padded` are the padded types.
    """
    best = max(padded, key=lambda one: one.saved, default=None)
    if best is None or best.best is None:
        return None
    return MemoryStep(
        best.saved,
        f"reorder the dimensions of {print_type(best.type)}{_at(best.place)}: "
        f"{print_type(best.best)} takes {size_text(best.saved)} less",
    )


# --------------------------------------------------------------------------------------- copies


def copy_lines(memory: ProgramMemory, copies: Sequence[ForcedCopy]) -> list[str]:
    """Return a line for each of the first `MOST_ROWS` copies that a loop or update forces.

    It names the readers of the original.
    """
    return [f"copy: {_copy_text(one, memory.module)}" for one in copies[:MOST_ROWS]]


def _copy_text(one: ForcedCopy, module: Module) -> str:
    place = _at(_place(one.copy, one.buffer, module))
    says = (
        f"`{one.copy.name}`{place} holds `{one.original.name}` twice, "
        f"{size_text(one.buffer.bytes)}: `{one.forced_by.name}` writes in its place"
    )
    if one.reader is not None:
        return f"{says}, and `{one.reader.name}` reads the old value later"
    if one.keeps_parameter:
        return f"{says}, and the caller keeps it; donated, it needs no copy"
    return f"{says}; nothing reads the old value later"


def copy_step(memory: ProgramMemory, copies: Sequence[ForcedCopy]) -> MemoryStep | None:
    """Return the change that donates a parameter, so that its copy becomes unnecessary.

    It is the first of `copies` that exists to keep a parameter for the caller; `None` without one.
    `copies` are the forced copies, largest first.
    """
    forced = [one for one in copies if one.keeps_parameter]
    if not forced:
        return None
    return MemoryStep(forced[0].buffer.bytes, f"donate: {_copy_text(forced[0], memory.module)}")


# ------------------------------------------------------------------------------------ recompute


class RecomputedLine(NamedTuple):
    """Values of one source line that are live but not used around the peak.

    Attributes:
        place: The source line, or the name of the value if the line is unknown.
        rows: The values.
        bytes: Bytes of all values.
        lower: The bound L, in bytes, if all these values are recomputed.
    """

    place: str
    rows: tuple[Recomputation, ...]
    bytes: int
    lower: int


def recomputed_lines(memory: ProgramMemory, rows: Sequence[Recomputation]) -> list[RecomputedLine]:
    """Return values that are live but not used around the peak, by source line.

    The line with the largest bytes × moments comes first. `rows` are the values.
    """
    groups: dict[str, list[Recomputation]] = {}
    for row in rows:
        place = buffer_origin(row.buffer, row.value, memory.module).place or row.value.name
        groups.setdefault(place, []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -sum([row.worth for row in item[1]]))
    return [
        RecomputedLine(
            place.rpartition("/")[2],
            tuple(some),
            sum([row.buffer.bytes for row in some]),
            lower_without(memory, some),
        )
        for place, some in ordered[: 2 * MOST_ROWS]
    ]


def recompute_lines(memory: ProgramMemory, groups: Sequence[RecomputedLine]) -> list[str]:
    """Return lines about values that are live but not used at the peak.

    The last line states the next highest moment. Values that lower the peak by less than
    `LEAST_SHARE` are left out.

    Args:
        memory: The memory of the program.
        groups: The values by source line.
    """
    least = LEAST_SHARE * memory.lower
    worth = [one for one in groups if memory.lower - one.lower > least]
    lines = [_recompute_text(one, memory) for one in worth[:MOST_ROWS]]
    if lines:
        moment, count = second_highest(memory)
        if moment == memory.peak:
            return lines
        lines.append(
            f"  the next highest moment, {moment:,}, has {size_text(count)}: values that "
            "live only at the peak save at most the difference"
        )
    return lines


def _recompute_text(one: RecomputedLine, memory: ProgramMemory) -> str:
    count = len(one.rows)
    first = max(one.rows, key=lambda row: row.worth)
    what = f"{count:,} values" if count > 1 else f"`{first.value.name}`"
    cheap = sum([row.is_cheap for row in one.rows])
    cost = "" if not cheap else "; cheap" if cheap == count else f"; {cheap:,} of them cheap"
    saved = size_text(memory.lower - one.lower)
    return (
        f"recompute {one.place}: {what}, {size_text(one.bytes)}, unused from "
        f"{first.last.moment:,} to {first.next.moment:,}{_pass_text(one, memory.module)}; the "
        f"peak would be {size_text(one.lower)}, saves at most {saved}{cost}"
    )


def _pass_text(line: RecomputedLine, module: Module) -> str:
    """Return words about values that JAX keeps from the forward to the backward pass.

    Empty if not all values of the line are such. `module` is their program.
    """

    def is_kept(row: Recomputation) -> bool:
        last = provenance_of(row.last.instruction, module).op_name
        following = provenance_of(row.next.instruction, module).op_name
        return training_pass(last) != "backward" == training_pass(following)

    if all(map(is_kept, line.rows)):
        return ", kept from the forward to the backward pass (jax.checkpoint)"
    return ""


def recompute_step(memory: ProgramMemory, lines: Sequence[RecomputedLine]) -> MemoryStep | None:
    """Return the change that recomputes the values of the line that lowers the peak most.

    `None` if none lowers it.
    """
    best = min(lines, key=lambda one: one.lower, default=None)
    if best is None or best.lower >= memory.lower:
        return None
    return MemoryStep(memory.lower - best.lower, _recompute_text(best, memory))


# ----------------------------------------------------------------------------------- transients


def transient_lines(memory: ProgramMemory, transients: Sequence[Transient]) -> list[str]:
    """Return lines about copies, converted arrays and scratch at the peak that live briefly.

    Equal ones (`transients` of one type) share a line. Those below `LEAST_SHARE` of the peak are
    left out.
    """
    groups: dict[tuple[str, str], list[Transient]] = {}
    for one in transients:
        if one.buffer.bytes >= LEAST_SHARE * memory.lower:
            groups.setdefault((one.why, print_type(one.value.type)), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: -sum([t.buffer.bytes for t in item[1]]))
    lines = []
    for (why, type), some in ordered[:MOST_ROWS]:
        times = f"{len(some):,} × " if len(some) > 1 else ""
        names = some[0].value.name
        place = _at(_place(some[0].value, some[0].buffer, memory.module))
        lines.append(
            f"transient at the peak: {times}{size_text(some[0].buffer.bytes)} {why} {type}, "
            f"`{names}`{place}, not needed after the next instruction"
        )
    return lines


# -------------------------------------------------------------------------------- no schedule


def unscheduled_lines(memory: ProgramMemory) -> Iterator[str]:
    """Yield lines about a program without a schedule: parameters, outputs, the largest arrays."""
    sums = memory.sums
    yield f"no moments: {memory.reason}"
    yield f"parameters {size_text(sums.parameters)}, outputs {size_text(sums.outputs)}"
    yield "largest arrays:"
    for _, ins, count in sums.largest:
        place = _at(place_text(provenance_of(ins, memory.module)))
        yield f"  {size_text(count)}  {ins.name}{place}"


def first_step(steps: Sequence[MemoryStep | None], memory: ProgramMemory) -> str:
    """Return a sentence about the change of `steps` that saves most, or that none was found.

    A change that saves less than `LEAST_SHARE` of the peak is ignored.
    """
    known = [one for one in steps if one is not None and one.saved >= LEAST_SHARE * memory.lower]
    if not known:
        return "to do: nothing was found that lowers the peak without a change of the algorithm"
    return f"to do: {max(known, key=lambda one: one.saved).text}"


# --------------------------------------------------------------------------------------------------
# A series of numbers as one line of block characters.


_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""Characters for 0 to 8 eighths of the largest number; any number above 0 is visible."""


def sparkline(values: Sequence[int], width: int) -> str:
    """Return non-negative numbers as a line of blocks of eight heights.

    Args:
        values: The numbers.
        width: Maximum number of blocks. If there are more numbers, neighbours share a block, which
            shows the largest of them.

    >>> sparkline([0, 1, 50, 100, 60, 10, 0, 0], 4)
    '▁█▅ '
    """
    highest = max(values, default=0)
    if not highest:
        return " " * min(len(values), width)
    parts = pairwise(part_starts(len(values), width))
    return "".join([_BLOCKS[-(-8 * max(values[a:b]) // highest)] for a, b in parts])


def part_starts(count: int, width: int) -> list[int]:
    """Split `count` positions into at most `width` almost equally long parts.

    Return the starts of the parts, and the end of the last one.

    >>> part_starts(10, 4)
    [0, 2, 5, 7, 10]
    """
    parts = min(count, width)
    return [count * k // parts for k in range(parts + 1)] if parts else []
