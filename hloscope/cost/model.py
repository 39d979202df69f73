"""One model of a program's cost: every kernel with its bytes, flops, waste and runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hloscope.cost.footprints import Footprint, Footprints
from hloscope.cost.runs import Place, running
from hloscope.devices import Device
from hloscope.errors import HloscopeError, VerifyError
from hloscope.fusion import Analysis
from hloscope.ir import Computation, Instruction, Module
from hloscope.lazy import dataclass
from hloscope.memory import ArrayUse, Coalescing, Memory


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The cost of one kernel of a program.

    Attributes:
        instruction: The fusion or instruction that the kernel computes.
        computation: The computation that the instruction belongs to.
        footprint: Bytes read and written at least, and flops, of one run.
        coalescing: What its warps transfer; `None` where no thread map is known.
        reason: Why no thread map is known.
        runs: How often it runs in one run of the program.
        notes: What was assumed about that.
    """

    instruction: Instruction
    computation: Computation
    footprint: Footprint
    coalescing: Coalescing | None
    reason: str
    runs: int
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes read and written at least, over all runs."""
        return self.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Floating-point operations of all runs."""
        return self.footprint.flops * self.runs

    @property
    def bound(self) -> int:
        """Least time of one run, in picoseconds."""
        return 0

    @property
    def maker(self) -> str:
        """Who makes the kernel."""
        return "" if self.coalescing is None else self.coalescing.kernel.emitter

    @property
    def limited_by(self) -> str:
        """What bounds the time."""
        return ""

    @property
    def wasted(self) -> int | None:
        """Bytes of sectors that no lane asked for, over all runs; `None` if not known."""
        if self.coalescing is None or any(a.is_unknown for a in self.coalescing.arrays):
            return None
        return self.coalescing.wasted * self.runs


@dataclass(frozen=True, slots=True)
class AccessCost:
    """The cost of one array of a kernel: what its accesses transfer.

    Attributes:
        kernel: The kernel.
        array: How its threads or tiles access the array.
    """

    kernel: KernelCost
    array: ArrayUse

    @property
    def instruction(self) -> Instruction:
        """The instruction of the kernel."""
        return self.kernel.instruction

    @property
    def computation(self) -> Computation:
        """The computation of the kernel."""
        return self.kernel.computation

    @property
    def runs(self) -> int:
        """How often the kernel runs."""
        return self.kernel.runs

    @property
    def moved(self) -> int:
        """Bytes of the sectors transferred, over all runs."""
        return self.array.traffic.moved * self.runs if self.array.traffic is not None else 0

    @property
    def wasted(self) -> int:
        """Bytes of sectors that no lane asked for, over all runs."""
        return self.array.traffic.wasted * self.runs if self.array.traffic is not None else 0


class ProgramCost:
    """The cost of kernels of a program on a device."""

    def __init__(self, module: Module, device: Device, kernels: Iterable[KernelCost]) -> None:
        """Take the program, the device and the kernels."""
        self.module: Final = module
        self.device: Final = device
        self.kernels: Final = tuple(kernels)

    @property
    def accesses(self) -> list[AccessCost]:
        """Every access of which the transfers are known."""
        return [
            AccessCost(kernel, array)
            for kernel in self.kernels
            if kernel.coalescing is not None
            for array in kernel.coalescing.arrays
            if array.traffic is not None
        ]

    def only(self, instructions: Iterable[Instruction]) -> ProgramCost:
        """The cost of those kernels that compute some instructions."""
        wanted = set(instructions)
        chosen = [kernel for kernel in self.kernels if kernel.instruction in wanted]
        return ProgramCost(self.module, self.device, chosen)


def program_cost(analysis: Analysis, module: Module, device: Device) -> ProgramCost:
    """The cost of every kernel that runs when a program runs."""
    memory = Memory(analysis, device)
    footprints = Footprints(analysis, device, memory.kernels)
    kernels = [
        _kernel_cost(ins, place, memory, footprints)
        for place in running(module)
        for ins in place.kernels
    ]
    return ProgramCost(module, device, kernels)


def _kernel_cost(
    ins: Instruction, place: Place, memory: Memory, footprints: Footprints
) -> KernelCost:
    coalescing, reason = None, ""
    try:
        coalescing = memory.of_equal(ins)
    except VerifyError:
        raise
    except HloscopeError as error:
        reason = error.message
    return KernelCost(
        ins,
        place.computation,
        footprints.of_equal(ins),
        coalescing,
        reason,
        place.times,
        place.notes,
    )
