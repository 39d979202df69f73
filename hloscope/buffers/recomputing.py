"""Values that stand unused around the peak, and what the peak would be if they were recomputed."""

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
"""Ops that take more than one pass over their operands, or may not run twice."""


class Recomputation(Struct, frozen=True):
    """A value that stands unused from before a moment until after it.

    Attributes:
        buffer: Its buffer.
        value: The value that it holds then.
        last: The last use before the stretch.
        next: The first use after it.
        end: The moment from which on the value is needed again.  What a loop reads piece by piece
            can be computed anew piece by piece: it is not needed as a whole any more.
        lower_without: Bytes that are live at once, at least, if the value is computed anew.
        is_cheap: Is it made by element-wise ops of operands that live at the next use anyway?
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
        """Bytes times moments of the stretch, by which rows are sorted."""
        return self.buffer.bytes * (self.next.moment - self.last.moment)


def recomputations(memory: ProgramMemory, uses: Uses, moment: int) -> list[Recomputation]:
    """Temporaries that stand unused at a moment, those that save most first.

    Args:
        memory: A program with moments.
        uses: The uses of its buffers.
        moment: A moment; the peak is the one that counts.
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
        # Outside of the stretch the bytes stay.  Where the peak is outside, they are `lower`.
        inside = memory.lower - buffer.bytes
        end = following.moment if not _is_carried(buffer) else buffer.last + 1
        without = max(before[last.moment], (after[end] if end < len(after) else 0), inside)
        cheap = _is_cheap(memory, value.instruction, following)
        found.append(Recomputation(buffer, value, last, following, end, without, cheap))
    return sorted(found, key=lambda one: (-one.worth, one.value.start))


def lower_without(memory: ProgramMemory, rows: Iterable[Recomputation]) -> int:
    """Bytes that are live at once, at least, if values are computed anew for their next use."""
    changes = [0] * (len(memory.device.least) + 2)
    for row in rows:
        changes[row.last.moment + 1] -= row.buffer.bytes
        changes[row.end] += row.buffer.bytes
    return max([a + b for a, b in zip(memory.device.least, accumulate(changes), strict=False)])


def _is_carried(buffer: Buffer) -> bool:
    """Does a loop carry the buffer?"""
    return any(isinstance(value.instruction.op, While) for value in buffer.values)


def _is_cheap(memory: ProgramMemory, ins: Instruction, following: Use) -> bool:
    """Do only element-wise ops make a value, of operands that live at its next use?"""
    inner = [one for callee in ins.calls for one in callee] if isinstance(ins.op, Fusion) else [ins]
    if any(isinstance(one.op, _COSTLY) for one in inner):
        return False
    buffers = memory.buffers
    return all(
        buffers.at(buffers.positions.first[operand]).lives_at(following.moment)
        for operand in ins.operands
    )


def second_highest(memory: ProgramMemory) -> tuple[int, int]:
    """The highest moment that is no neighbour of the peak on the same plateau or slope, and bytes.

    No change at the peak alone brings the program below it.  Slopes end where the bytes rise again.
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
