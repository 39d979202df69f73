"""The measured time of an instruction beside its cost."""

from __future__ import annotations

from msgspec import Struct

from hloscope.cost.model import KernelCost
from hloscope.ir import Computation, Instruction


class MeasuredCost(Struct, frozen=True):
    """The measured time of an instruction, and its cost if it is a kernel.

    Attributes:
        instruction: The instruction that the profile's events belong to.
        computation: The computation of the instruction.
        runs: How often it ran while it was recorded.
        time: Picoseconds of all runs, without the time of other instructions that run inside.
        events: Events that the profile holds of it.
        kernel: Its cost; `None` where the model has no kernel for it, as of a loop.
    """

    instruction: Instruction
    computation: Computation
    runs: int
    time: int
    events: int
    kernel: KernelCost | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: runs are counted, not assumed."""
        return ()

    @property
    def bound(self) -> int:
        """Least time of all runs, in picoseconds; 0 if it is not known."""
        return 0 if self.kernel is None else self.kernel.bound * self.runs

    @property
    def lost(self) -> int:
        """Time above the bound, in picoseconds; 0 where caches made it faster than the bound."""
        return max(self.time - self.bound, 0)

    @property
    def bytes(self) -> int:
        """Bytes that all runs read and write at least."""
        return 0 if self.kernel is None else self.kernel.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Operations of all runs."""
        return 0 if self.kernel is None else self.kernel.footprint.flops * self.runs
