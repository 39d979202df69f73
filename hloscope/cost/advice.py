"""Advice: changes of a program that are proved to save bytes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hloscope.ir import Computation, Instruction


class AdviceKind(StrEnum):
    """What a change is about."""

    CANCELS = "movement that cancels"
    DUPLICATE = "duplicate movement"
    INVARIANT = "loop-invariant movement"
    TILE = "tile"
    PADDING = "padding"
    DONATION = "donation"


class Level(StrEnum):
    """What the bytes of an advice are."""

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
        kind: What is changed.
        text: The change, and what it saves.
        bytes_saved: In one run of the program, at least.
        whole: Bytes of that level in one run of the program.
        level: What the bytes are.
        instruction: The instruction to change; of several the one that saves most.
        computation: The computation that it belongs to.
        members: All instructions to change, that which saves most first.
        runs: How often these run together.
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
        """Share of the program's bytes of that level which is saved."""
        return self.bytes_saved / self.whole if self.whole else 0.0
