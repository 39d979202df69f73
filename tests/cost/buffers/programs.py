"""Small scheduled programs, and what tests ask of their buffers."""

from __future__ import annotations

from typing import Final

from hloscope.api import MemoryAnswer, read
from hloscope.cost.buffers import Buffer, ProgramMemory
from hloscope.hlo_parser import parse_hlo

GPU_MARK: Final = ', frontend_attributes={fingerprint_before_lhs="0"}'
"""What XLA:GPU writes into the header."""


def scheduled(body: str, *, header: str = "", before: str = "") -> str:
    """A scheduled module of an entry's lines and computations before it."""
    return f"HloModule m, is_scheduled=true{header}\n{before}\nENTRY e {{\n{body}\n}}\n"


def memory_of(text: str) -> ProgramMemory:
    """The memory of a module's text."""
    return ProgramMemory(parse_hlo(text))


def answer_of(text: str) -> MemoryAnswer:
    """What a program says of its memory."""
    return read(text).memory()


def names(buffer: Buffer) -> set[str]:
    """The names of the values of a buffer."""
    return {value.name for value in buffer.values}


def buffer_with(memory: ProgramMemory, name: str) -> Buffer:
    """The buffer that holds a value of some name."""
    (found,) = [b for b in memory.buffers.buffers if name in names(b)]
    return found


def values_of(memory: ProgramMemory) -> set[str]:
    """The names of all values."""
    return {name for buffer in memory.buffers.buffers for name in names(buffer)}


def placed(memory: ProgramMemory) -> set[tuple[str, str]]:
    """Results that stand in the memory of an operand, with these."""
    pairs = [pair for some in memory.device.placed.values() for pair in some]
    return {(result.values[0].name, operand.values[0].name) for result, operand in pairs}
