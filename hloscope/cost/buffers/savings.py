"""Changes that lower a program's memory: donation, recomputation, fewer copies, less padding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate, permutations
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.cost.buffers.model import Buffer, Buffers, Value
from hloscope.cost.buffers.program import ProgramMemory
from hloscope.cost.buffers.reuse import ReuseCandidate, fused_users, is_same_storage, may_share
from hloscope.hlo_parser import BUFFER_DONOR, INPUT_OUTPUT_ALIAS, ShapeIndex, aliasing_in
from hloscope.ir import Instruction, TensorType, array_bytes
from hloscope.ops import (
    ELEMENTWISE,
    AllGather,
    AsyncStart,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Call,
    Collective,
    Convert,
    Convolution,
    CustomCall,
    Domain,
    Dot,
    DotGeneral,
    Fft,
    Fusion,
    GetTupleElement,
    Parameter,
    RaggedDot,
    Reduce,
    ReduceWindow,
    Rng,
    RngBitGenerator,
    ScaledDot,
    Sort,
    Transpose,
    Tuple,
    While,
)

# --------------------------------------------------------------------------------------------------
# Donation: the parameters whose memory results take, and others whose memory they could take.
#
# A result may take the memory of a parameter of the same type and layout that is not read after the
# result begins.  JAX pairs donated parameters and results by type, before XLA schedules: where a
# parameter is read later, XLA copies it, and the donation saves nothing.
#
# Source: XLA `HloInputOutputAliasConfig`, `HloBufferDonorConfig`; JAX `donate_argnums`.


DonationStatus: TypeAlias = Literal["taken", "offered", "kept"]
"""`taken`: a result takes its memory; `offered`: donated, but no result takes it; `kept`: not
donated."""


class Donation(Struct, frozen=True):
    """A parameter of the entry, or an array in one, with the status of its donation.

    Attributes:
        parameter: The parameter's value.
        buffer: Its buffer.
        status: See `DonationStatus`.
        output: Shape index of the result that takes its memory; `None` if none does.
        has_output: Does a result of its type and layout exist that takes no other parameter's
            memory?
        copied_by: The copy that writes the result to the parameter's memory at the end, because the
            parameter is read while the result is computed; `None` without one.
    """

    parameter: Value
    buffer: Buffer
    status: DonationStatus
    output: ShapeIndex | None
    has_output: bool
    copied_by: Instruction | None = None


class DonationOffer(Struct, frozen=True):
    """A parameter whose memory a result could take, if the caller donated it.

    Attributes:
        parameter: The parameter's value.
        output: Shape index of the result in the root.
        result: The buffer of the result.
        last_read: The moment of the parameter's last read or write.
        bytes: Bytes that are allocated twice without the donation.
    """

    parameter: Value
    output: ShapeIndex
    result: Buffer
    last_read: int
    bytes: int


class Donations:
    """Finds which parameters of a program are donated, and which further ones could be."""

    def __init__(self, memory: ProgramMemory, uses: Uses) -> None:
        """Store a program with a schedule, and the uses of its buffers."""
        self._memory: Final = memory
        self._uses: Final = uses
        self._buffers: Final[Buffers] = memory.buffers

    def parameters(self) -> list[Donation]:
        """Return each array of the entry's parameters, with the status of its donation."""
        module = self._memory.module
        taken = {
            (one.taken, one.inside): one.output
            for one in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS)
        }
        offered = {(one.taken, one.inside) for one in aliasing_in(module.extras, BUFFER_DONOR)}
        free = [value for _, value, _ in self._free_outputs()]
        found = []
        for value, buffer in self._argument_buffers():
            assert isinstance(value.instruction.op, Parameter)
            key = value.instruction.op.number, value.index
            status: DonationStatus = "offered" if key in offered else "kept"
            if key in taken:
                status = "taken"
            has_output = any(is_same_storage(value.type, other.type) for other in free)
            output = taken.get(key)
            copied_by = None if output is None else self._copy_to(output)
            found.append(Donation(value, buffer, status, output, has_output, copied_by))
        return found

    def _copy_to(self, output: ShapeIndex) -> Instruction | None:
        """Return the copy that writes the result at a shape index; `None` without one."""
        position = self._buffers.positions.at(self._memory.module.entry.root, output)
        writer = None if position is None else self._buffers.value(position).instruction
        return writer if writer is not None and isinstance(writer.op, ELEMENTWISE["copy"]) else None

    def offers(self) -> list[DonationOffer]:
        """Return parameters that are not donated, with results that could take their memory.

        Each result is used once, in order. The last read of the parameter is before the result
        starts, or by the instruction that writes the result element by element.
        """
        # Only parameters of the result's type and layout can be taken: JAX pairs them by type as
        # well.
        waiting: dict[TensorType, list[tuple[Value, int]]] = defaultdict(list)
        for donation in self.parameters():
            type = donation.parameter.type
            if donation.status == "kept" and isinstance(type, TensorType):
                last = self._uses.last_read(donation.buffer)
                waiting[type].append((donation.parameter, last))
        found = []
        for output, value, buffer in self._free_outputs():
            for type, some in waiting.items():
                if not is_same_storage(type, value.type):
                    continue
                taken = next((one for one in some if self._is_free(one, buffer)), None)
                if taken is not None:
                    some.remove(taken)
                    found.append(DonationOffer(taken[0], output, buffer, taken[1], buffer.bytes))
                    break
        return found

    def _argument_buffers(self) -> list[tuple[Value, Buffer]]:
        """Return the arrays of the entry's parameters with their buffers, in order."""
        positions, found = self._buffers.positions, []
        for parameter in self._memory.module.entry.parameters:
            for p in positions.within(parameter):
                if isinstance(positions.type(p), TensorType):
                    found.append((self._buffers.value(p), self._buffers.at(p)))
        return found

    def _free_outputs(self) -> list[tuple[ShapeIndex, Value, Buffer]]:
        """Return the results that take no parameter's memory, each buffer once.

        An entry has the shape index, the value and the buffer.
        """
        positions, root = self._buffers.positions, self._memory.module.entry.root
        found: dict[Buffer, tuple[ShapeIndex, Value, Buffer]] = {}
        for p in positions.within(root):
            buffer = self._buffers.at(p)
            if buffer.kind == "output" and isinstance(positions.type(p), TensorType):
                found.setdefault(buffer, (positions.index(p), self._buffers.value(p), buffer))
        return [*found.values()]

    def _is_free(self, given: tuple[Value, int], result: Buffer) -> bool:
        """Is a parameter's memory free when a result starts?

        Args:
            given: The parameter, and the moment of its last use: an instruction's number in the
                schedule.
            result: The buffer of the result.
        """
        parameter, last = given
        if last != result.first:
            return last < result.first
        # The last read is by the instruction that starts the result: it must be one that reads each
        # element before it writes it.
        first = result.values[0]
        writer = first.instruction
        positions, value = self._buffers.positions, self._buffers.flow.value
        given_at = positions.at(parameter.instruction, parameter.index)
        read = [k for k, o in enumerate(writer.operands) if value[positions.first[o]] == given_at]
        if len(read) != 1:
            return False
        candidate = ReuseCandidate(
            writer, read[0], (), first.index, parameter.type, first.type, fused_users(writer)
        )
        return may_share(candidate, self._memory.target.kind)


# --------------------------------------------------------------------------------------------------
# Reads and writes of buffers: their moments and instructions.


_HANDS_ON: Final = (GetTupleElement, Tuple, Domain)
"""Ops that read no array, only the tables of tuples."""


class Use(NamedTuple):
    """An instruction that reads or writes a buffer.

    Attributes:
        moment: The moment of the instruction.
        instruction: The instruction.
        is_write: Does it write a value to the buffer?
    """

    moment: int
    instruction: Instruction
    is_write: bool


class Uses:
    """Computes the uses of all buffers of a program."""

    def __init__(self, buffers: Buffers) -> None:
        """Store the buffers; their uses are computed at the first query."""
        self._buffers: Final = buffers

    @cached_property  # one pass over the schedule; each buffer is looked up in it
    def _all(self) -> dict[Buffer, list[Use]]:
        buffers = self._buffers
        positions, value = buffers.positions, buffers.flow.value
        found: dict[Buffer, list[Use]] = defaultdict(list)
        for moment, ins in enumerate(buffers.schedule.instructions):
            if not isinstance(ins.op, (*_HANDS_ON, Call)):
                for buffer in self._read_by(ins):
                    found[buffer].append(Use(moment, ins, False))
            if not isinstance(ins.op, Parameter):
                written = [buffers.at(p) for p in positions.within(ins) if value[p] == p]
                for buffer in dict.fromkeys(written):
                    found[buffer].append(Use(moment, ins, True))
        return found

    def _read_by(self, ins: Instruction) -> dict[Buffer, None]:
        """Return the buffers that an instruction reads.

        A copy of a tuple reads only the tuple's table.
        """
        buffers = self._buffers
        table_only = isinstance(ins.op, ELEMENTWISE["copy"])
        read: dict[Buffer, None] = {}
        for operand in dict.fromkeys(ins.operands):
            places = buffers.positions.within(operand)
            for position in places[:1] if table_only else places:
                read[buffers.at(position)] = None
        return read

    def of(self, buffer: Buffer) -> list[Use]:
        """Return the uses of a buffer, in the order in which they run."""
        return self._all.get(buffer, [])

    def around(self, buffer: Buffer, moment: int) -> tuple[Use | None, Use | None]:
        """Return a buffer's last use at or before a moment, and its first use after the moment.

        Either may be `None`. A moment is the number of an instruction in the schedule.
        """
        before: Use | None = None
        for use in self.of(buffer):
            if use.moment > moment:
                return before, use
            before = use
        return before, None

    def last_read(self, buffer: Buffer) -> int:
        """Return the moment of a buffer's last use, an instruction's number; -1 without uses."""
        uses = self.of(buffer)
        return uses[-1].moment if uses else -1


# --------------------------------------------------------------------------------------------------
# Values that are live but unused around the peak, and the peak if they were recomputed.


_COSTLY: Final = (
    Collective, Convolution, CustomCall, Dot, DotGeneral, Fft, RaggedDot, Reduce, ReduceWindow, Rng,
    RngBitGenerator, ScaledDot, Sort, While,
)  # fmt: skip
"""Ops that need more than one pass over their operands, or must not run twice."""


class Recomputation(Struct, frozen=True):
    """A temporary that is live but not used around a moment, which recomputation would free.

    A moment is the number of an instruction in the schedule.

    Attributes:
        buffer: Its buffer.
        value: The value in the buffer at that moment.
        last: The last use before the moment.
        next: The first use after the moment.
        end: The moment from which the value is needed again.  A value that a loop reads piece by
            piece can be recomputed piece by piece, so it is never needed as a whole again.
        is_cheap: Is it computed by element-wise ops from operands that are live at the next use?
    """

    buffer: Buffer
    value: Value
    last: Use
    next: Use
    end: int
    is_cheap: bool

    @property
    def worth(self) -> int:
        """Return the buffer's bytes times the number of moments between the two uses.

        Recomputations are sorted by this number.
        """
        return self.buffer.bytes * (self.next.moment - self.last.moment)


def recomputations(memory: ProgramMemory, uses: Uses, moment: int) -> list[Recomputation]:
    """Return the temporaries that are live but not used around a moment, largest worth first.

    Args:
        memory: A program with a schedule.
        uses: The uses of its buffers.
        moment: A moment, usually the peak.
    """
    found = []
    for row in memory.live(moment):
        buffer, value = row.buffer, row.value
        if buffer.kind != "temporary" or not buffer.bytes:
            continue
        last, following = uses.around(buffer, moment)
        if last is None or following is None or last.moment >= moment:
            continue
        is_state = any(isinstance(value.instruction.op, While) for value in buffer.values)
        end = buffer.last + 1 if is_state else following.moment
        cheap = _is_cheap(memory, value.instruction, following)
        found.append(Recomputation(buffer, value, last, following, end, cheap))
    return sorted(found, key=lambda one: (-one.worth, one.value.start))


def lower_without(memory: ProgramMemory, rows: Iterable[Recomputation]) -> int:
    """Return the most bytes live at one moment if values are recomputed before their next use.

    The bytes are those of the default memory space; without recomputation they are `memory.lower`.

    Args:
        memory: A program with a schedule.
        rows: The values, all of which are recomputed. The buffer of each is free from after `last`
            to before `end`.
    """
    changes = [0] * (len(memory.device.least) + 2)
    for row in rows:
        changes[row.last.moment + 1] -= row.buffer.bytes
        changes[row.end] += row.buffer.bytes
    return max([a + b for a, b in zip(memory.device.least, accumulate(changes), strict=False)])


def _is_cheap(memory: ProgramMemory, ins: Instruction, following: Use) -> bool:
    """Do element-wise ops compute a value from operands that are live at the value's next use?

    Args:
        memory: A program with a schedule.
        ins: The instruction that computes the value.
        following: The next use of the value.
    """
    inner = [one for callee in ins.calls for one in callee] if isinstance(ins.op, Fusion) else [ins]
    if any(isinstance(one.op, _COSTLY) for one in inner):
        return False
    buffers = memory.buffers
    return all(
        buffers.at(buffers.positions.first[operand]).lives_at(following.moment)
        for operand in ins.operands
    )


def second_highest(memory: ProgramMemory) -> tuple[int, int]:
    """Return where the live bytes are highest outside of the peak and its slopes.

    The result is the moment, an instruction's number in the schedule, and the bytes. No change at
    the peak alone brings the program below these bytes. A slope ends where the bytes rise again.
    """
    least, peak = memory.device.least, memory.peak
    left = peak
    while left > 0 and least[left - 1] <= least[left]:
        left -= 1
    right = peak
    while right + 1 < len(least) and least[right + 1] <= least[right]:
        right += 1
    rest = [*range(left), *range(right + 1, len(least))]
    best = max(rest, key=lambda t: least[t], default=peak)
    return best, least[best] if rest else 0


# --------------------------------------------------------------------------------------------------
# Copies that XLA makes because a loop or an update would overwrite a value that is still needed.
#
# A `while`, a dynamic-update-slice or a scatter writes to the memory of its operand. If the operand
# is needed later, or belongs to the caller, XLA copies it first.
#
# Source: XLA `CopyInsertion`.


_COPY = ELEMENTWISE["copy"]


class ForcedCopy(Struct, frozen=True):
    """A copy of an array that is then overwritten in place.

    Attributes:
        copy: The value that the copy writes.
        buffer: The buffer of the copy.
        original: The value that is copied.
        source: The buffer of the original.
        forced_by: The loop or update that writes to the copy's memory.
        reader: The last instruction that reads the original after the copy; `None` if none does,
            so that only the caller of the program needs it.
    """

    copy: Value
    buffer: Buffer
    original: Value
    source: Buffer
    forced_by: Instruction
    reader: Instruction | None

    @property
    def keeps_parameter(self) -> bool:
        """Is the original a parameter that is not donated, and that nothing reads afterwards?"""
        return self.reader is None and self.source.kind == "parameter"


def forced_copies(buffers: Buffers, uses: Uses) -> list[ForcedCopy]:
    """Return the copies that loops and in-place updates force, largest first."""
    positions, found = buffers.positions, []
    for moment, ins in enumerate(buffers.schedule.instructions):
        if not isinstance(ins.op, _COPY) or not isinstance(ins.type, TensorType):
            continue
        own, original = positions.first[ins], positions.first[ins.operands[0]]
        buffer, source = buffers.at(own), buffers.at(original)
        # A copy is forced if its buffer is written again by another instruction, and the original
        # has a different buffer.
        forced_by = _overwritten_by(buffer, ins)
        if forced_by is None or buffer is source:
            continue
        later = [use for use in uses.of(source) if use.moment > moment and not use.is_write]
        reader = later[-1].instruction if later else None
        found.append(
            ForcedCopy(
                buffers.value(own), buffer, buffers.value(original), source, forced_by, reader
            )
        )
    return sorted(found, key=lambda one: -one.buffer.bytes)


def _overwritten_by(buffer: Buffer, copy: Instruction) -> Instruction | None:
    """Return an instruction that, besides a copy itself, writes to the copy's buffer.

    A loop is preferred, else it is the first such instruction. Other copies and parameters do not
    count. `None` if there is none.

    Args:
        buffer: The buffer of the copy.
        copy: The copy.
    """
    others = [v.instruction for v in buffer.values if v.instruction is not copy]
    others = [ins for ins in others if not isinstance(ins.op, _COPY)]
    loops = [ins for ins in others if isinstance(ins.op, While)]
    return next(iter([*loops, *[ins for ins in others if ins.operands]]), None)


# --------------------------------------------------------------------------------------------------
# Padding of arrays: dimensions that tiles pad, and the order of dimensions with least padding.


_MOST_PERMUTED: Final = 6
"""Maximum rank for which all orders of dimensions are tried, which are 720."""


def padding_causes(type: TensorType) -> list[str]:
    """Return texts about the dimensions that the first tile pads, and about widened elements."""
    layout, causes = type.layout, []
    if layout is None:
        return []
    if layout.element_bits > max(8, type.element.bits):
        causes.append(f"elements of {layout.element_bits} bits")
    tile = layout.tiles[0] if layout.tiles else ()
    if any(t <= 0 for t in tile):
        return [*causes, "a tile that joins dimensions"]
    for place, t in enumerate(reversed(tile)):
        if place >= type.rank:
            if t > 1:
                causes.append(f"a missing dimension counts as {t}")
            continue
        dimension = layout.minor_to_major[place]
        have = type.shape[dimension]
        if padded := -have % t:
            causes.append(f"dimension {dimension} of size {have} takes {have + padded}")
    return causes


def cheapest_order(type: TensorType) -> TensorType | None:
    """Return the type with the order of dimensions that takes the fewest bytes with the same tiles.

    Of equally cheap orders, the one closest to the present order is returned. `None` if no order
    takes fewer bytes, the rank is above 6, or there are no tiles.

    >>> from hloscope.hlo_parser import parse_type, print_type
    >>> best = cheapest_order(parse_type("s32[8388608,8,4]{2,1,0:T(8,128)}"))
    >>> print_type(best)
    's32[8388608,8,4]{0,1,2:T(8,128)}'
    """
    layout = type.layout
    found = array_bytes(type)
    if layout is None or not layout.tiles or type.rank > _MOST_PERMUTED or found is None:
        return None
    present = layout.minor_to_major
    if len(present) != type.rank:
        return None

    def cost(order: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        other = replace(type, layout=replace(layout, minor_to_major=order))
        size = array_bytes(other)
        assert size is not None
        changed = sum(a != b for a, b in zip(order, present, strict=True))
        return size.padded, changed, order

    best = min(map(cost, permutations(range(type.rank))))
    if best[0] >= found.padded:
        return None
    return replace(type, layout=replace(layout, minor_to_major=best[2]))


# --------------------------------------------------------------------------------------------------
# Values that are live for a moment only: copies, converted arrays, gathered shards, scratch.


_MOVES: Final = (
    (ELEMENTWISE["copy"], "copy"),
    (Transpose, "transpose"),
    (Convert, "convert"),
    (BroadcastInDim, "broadcast"),
    (Broadcast, "broadcast"),
    (AllGather, "gathered"),
)


class Transient(NamedTuple):
    """A buffer that is live for one or two instructions.

    Attributes:
        buffer: The buffer.
        value: The value in it.
        why: `copy`, `transpose`, `convert`, `broadcast`, `gathered` or `scratch`.
    """

    buffer: Buffer
    value: Value
    why: str


def transients(memory: ProgramMemory, moment: int) -> list[Transient]:
    """Return the temporaries live at a moment that are not needed after the next moment.

    Only those that have a `transient_kind` are listed, largest first. A moment is the number of an
    instruction in the schedule.
    """
    found = []
    for row in memory.live(moment):
        buffer, value = row.buffer, row.value
        why = transient_kind(value)
        if buffer.kind == "temporary" and why and value.end <= moment + 1:
            found.append(Transient(buffer, value, why))
    return found


def transient_kind(value: Value) -> str:
    """Return the kind of a transient value, as in `Transient.why`; empty for other values.

    A fusion counts by its root, before bitcasts. Scratch is bytes that a library call returns in
    addition to its result.
    """
    ins = value.instruction
    if isinstance(ins.op, AsyncStart):
        is_gathered = isinstance(ins.op.wrapped, AllGather) and value.index[:1] == (1,)
        return "gathered" if is_gathered else ""
    if isinstance(ins.op, CustomCall):
        is_bytes = isinstance(value.type, TensorType) and value.type.element.name in ("u8", "s8")
        return "scratch" if value.index and value.index != (0,) and is_bytes else ""
    if isinstance(ins.op, Fusion) and ins.calls:
        ins = ins.calls[0].root
        while isinstance(ins.op, Bitcast):
            ins = ins.operands[0]
    return next((name for op, name in _MOVES if isinstance(ins.op, op)), "")
