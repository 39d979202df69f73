"""Values that are live but unused around the peak, and the peak if they were recomputed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from msgspec import Struct

from hloscope.buffers.model import Buffer, Value
from hloscope.buffers.program import ProgramMemory
from hloscope.buffers.uses import Use, Uses
from hloscope.ir import Instruction
from hloscope.ops import (
    Collective,
    Convolution,
    CustomCall,
    Dot,
    DotGeneral,
    Fft,
    Fusion,
    RaggedDot,
    Reduce,
    ReduceWindow,
    Rng,
    RngBitGenerator,
    ScaledDot,
    Sort,
    While,
)

_COSTLY: Final = (
    Collective, Convolution, CustomCall, Dot, DotGeneral, Fft, RaggedDot, Reduce, ReduceWindow, Rng,
    RngBitGenerator, ScaledDot, Sort, While,
)  # fmt: skip
"""Ops that need more than one pass over their operands, or must not run twice."""


class Recomputation(Struct, frozen=True):
    """A value that is live but unused from before a moment until after it.

    Attributes:
        buffer: Its buffer.
        value: The value that it holds then.
        last: The last use before the unused stretch.
        next: The first use after it.
        end: The moment from which the value is needed again.  A value that a loop reads piece by
            piece can be recomputed piece by piece, so it is never needed as a whole again.
        lower_without: The bound L if the value is recomputed, in bytes.
        is_cheap: Is it computed by element-wise ops from operands that are live at the next use?
    """

    buffer: Buffer
    value: Value
    last: Use
    next: Use
    end: int
    lower_without: int
    is_cheap: bool

    @property
    def worth(self) -> int:
        """Bytes times moments of the unused stretch, by which rows are sorted."""
        return self.buffer.bytes * (self.next.moment - self.last.moment)


def recomputations(memory: ProgramMemory, uses: Uses, moment: int) -> list[Recomputation]:
    """Temporaries that are live but unused at a moment, largest worth first.

    Args:
        memory: A program with a schedule.
        uses: The uses of its buffers.
        moment: A moment, usually the peak.
    """
    least = memory.device.least
    before = [*accumulate(least, max)]
    after = [*accumulate(reversed(least), max)][::-1]
    found = []
    for buffer, value in [(row.buffer, row.value) for row in memory.live(moment)]:
        if buffer.kind != "temporary" or not buffer.bytes:
            continue
        last, following = uses.around(buffer, moment)
        if last is None or following is None or last.moment >= moment:
            continue
        # Outside of the stretch nothing changes: `before` and `after` are the running maxima there.
        # Inside, at most `lower` minus the buffer is live.
        inside = memory.lower - buffer.bytes
        end = following.moment if not _is_carried(buffer) else buffer.last + 1
        without = max(before[last.moment], (after[end] if end < len(after) else 0), inside)
        cheap = _is_cheap(memory, value.instruction, following)
        found.append(Recomputation(buffer, value, last, following, end, without, cheap))
    return sorted(found, key=lambda one: (-one.worth, one.value.start))


def lower_without(memory: ProgramMemory, rows: Iterable[Recomputation]) -> int:
    """The bound L if all the given values are recomputed for their next use, in bytes."""
    changes = [0] * (len(memory.device.least) + 2)
    for row in rows:
        changes[row.last.moment + 1] -= row.buffer.bytes
        changes[row.end] += row.buffer.bytes
    return max([a + b for a, b in zip(memory.device.least, accumulate(changes), strict=False)])


def _is_carried(buffer: Buffer) -> bool:
    """Does a loop carry the buffer?"""
    return any(isinstance(value.instruction.op, While) for value in buffer.values)


def _is_cheap(memory: ProgramMemory, ins: Instruction, following: Use) -> bool:
    """Is the value computed by element-wise ops from operands that are live at its next use?"""
    inner = [one for callee in ins.calls for one in callee] if isinstance(ins.op, Fusion) else [ins]
    if any(isinstance(one.op, _COSTLY) for one in inner):
        return False
    buffers = memory.buffers
    return all(
        buffers.at(buffers.positions.first[operand]).lives_at(following.moment)
        for operand in ins.operands
    )


def second_highest(memory: ProgramMemory) -> tuple[int, int]:
    """The moment and bytes of the highest point outside of the peak's plateau and slopes.

    No change at the peak alone brings the program below these bytes. A slope ends where the bytes
    rise again.
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
