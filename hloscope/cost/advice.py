"""Advice: changes of a program that are proved to save bytes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hloscope.ir import Computation, Instruction


class AdviceKind(StrEnum):
    """Kinds of changes."""

    CANCELS = "movement that cancels"
    DUPLICATE = "duplicate movement"
    INVARIANT = "loop-invariant movement"
    TILE = "tile"
    PADDING = "padding"
    DONATION = "donation"


class Level(StrEnum):
    """Levels of memory at which the bytes of an advice count."""

    MOVED = "read and written"
    """Bytes that kernels read and write at least."""
    TRANSFERRED = "transferred by L2"
    """Bytes of the transactions of all threads and tiles."""
    HELD = "held"
    """Bytes of memory: of padding those of all arrays, of donations those of arguments and
    results."""


class Advice(Struct, frozen=True):
    """A change of a program, proved to save bytes.

    Attributes:
        kind: Kind of the change.
        text: The change and its savings, in words.
        bytes_saved: Bytes saved in one run of the program, at least.
        whole: All bytes of this level in one run of the program.
        level: Level of memory at which the bytes count.
        instruction: The instruction to change; the one that saves most if there are several.
        computation: The computation of the instruction.
        members: All instructions to change, the one that saves most first.
        runs: Total number of runs of the members.
        command: The command that shows the proof.
    """

    kind: AdviceKind
    text: str
    bytes_saved: int
    whole: int
    level: Level
    instruction: Instruction
    computation: Computation
    members: tuple[Instruction, ...]
    runs: int
    command: str

    @property
    def share(self) -> float:
        """Return the saved share of the program's bytes of this level; 0 if it has none."""
        return self.bytes_saved / self.whole if self.whole else 0.0
