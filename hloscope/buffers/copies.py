"""Copies that XLA makes because a loop or an update would overwrite a value that is still needed.

A `while`, a dynamic-update-slice or a scatter writes to the memory of its operand. If the operand
is needed later, or belongs to the caller, XLA copies it first.

Source: XLA `CopyInsertion`.
"""

from __future__ import annotations

from msgspec import Struct

from hloscope.buffers.model import Buffer, Buffers, Value
from hloscope.buffers.uses import Uses
from hloscope.ir import Instruction, TensorType
from hloscope.ops import ELEMENTWISE, While

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
        """Is the original a parameter that is not donated?"""
        return self.reader is None and self.source.kind == "parameter"


def forced_copies(buffers: Buffers, uses: Uses) -> list[ForcedCopy]:
    """The copies that loops and updates force, largest first."""
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
    """The loop that writes to the copy's buffer, or else the first other instruction that does."""
    others = [v.instruction for v in buffer.values if v.instruction is not copy]
    others = [ins for ins in others if not isinstance(ins.op, _COPY)]
    loops = [ins for ins in others if isinstance(ins.op, While)]
    return next(iter([*loops, *[ins for ins in others if ins.operands]]), None)
