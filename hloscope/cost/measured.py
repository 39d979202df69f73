"""The measured time of an instruction, with its modelled cost."""

from __future__ import annotations

from msgspec import Struct

from hloscope.cost.model import KernelCost
from hloscope.ir import Computation, Instruction


class MeasuredCost(Struct, frozen=True):
    """The measured time of an instruction, and its cost if it is a kernel.

    Attributes:
        instruction: The instruction that the profile's events belong to.
        computation: The computation of the instruction.
        runs: Number of recorded runs.
        time: Picoseconds of all runs, without the time of other instructions that run inside.
        events: Number of events of it in the profile.
        kernel: Its modelled cost; `None` if the model has no kernel for it, as for a loop.
    """

    instruction: Instruction
    computation: Computation
    runs: int
    time: int
    events: int
    kernel: KernelCost | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return no notes: runs are counted, not assumed."""
        return ()

    @property
    def bound(self) -> int:
        """Return the least time of all runs, in picoseconds; 0 if it is unknown."""
        return 0 if self.kernel is None else self.kernel.bound * self.runs

    @property
    def lost(self) -> int:
        """Time above the bound, in picoseconds; 0 where caches made it faster than the bound."""
        return max(self.time - self.bound, 0)

    @property
    def bytes(self) -> int:
        """Return the bytes that all runs must read and write."""
        return 0 if self.kernel is None else self.kernel.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Return the operations of all runs."""
        return 0 if self.kernel is None else self.kernel.footprint.flops * self.runs
