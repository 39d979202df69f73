"""One model of a program's cost: every kernel with its bytes, flops, waste and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from hloscope.cost.footprints import Footprint, Footprints
from hloscope.cost.runs import Place, running
from hloscope.devices import Device
from hloscope.errors import HloscopeError, VerifyError
from hloscope.ir import Computation, Instruction, Module
from hloscope.lazy import dataclass
from hloscope.memory import ArrayUse, Coalescing, Memory, kind_of


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The cost of one kernel of a program.

    Attributes:
        instruction: The fusion or instruction that the kernel computes.
        computation: The computation that the instruction belongs to.
        footprint: Bytes read and written at least, and flops, of one run.
        coalescing: What its warps transfer; `None` where no thread map is known.
        reason: Why no thread map is known.
        runs: How often it counts as run in one run of the program; of a conditional's branches
            only the one that moves most bytes counts.
        fewest_runs: How often it runs at least.
        most_runs: How often it runs at most; `None` if that is not known.
        notes: What was assumed about that.
    """

    instruction: Instruction
    computation: Computation
    footprint: Footprint
    coalescing: Coalescing | None
    reason: str
    runs: int
    fewest_runs: int
    most_runs: int | None
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
        """Who makes the kernel: an emitter of XLA's, Triton or a library."""
        if self.coalescing is not None:
            return self.coalescing.kernel.emitter
        return str(kind_of(self.instruction))

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
    def notes(self) -> tuple[str, ...]:
        """What was assumed about how often the kernel runs."""
        return self.kernel.notes

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


def program_cost(
    module: Module,
    memory: Memory,
    only: Iterable[tuple[Computation, Instruction]] | None = None,
    *,
    transfers: bool = True,
) -> ProgramCost:
    """The cost of every kernel that runs when a program runs, or of some instructions.

    Args:
        module: The program.
        memory: The model of what threads transfer, with the device.
        only: The instructions with their computations; one in a computation that does not run
            by itself counts as run once.
        transfers: Count what threads transfer, too; else bytes and flops only.

    Raises:
        VerifyError: An instruction is invalid.
    """
    places = {place.computation: place for place in running(module)}
    chosen = only
    if chosen is None:
        chosen = [(place.computation, ins) for place in places.values() for ins in place.kernels]
    footprints = Footprints(memory.analysis, memory.device, memory.kernels)
    kernels = []
    for computation, ins in chosen:
        coalescing, reason = None, ""
        try:
            coalescing = memory.of_instruction(ins) if transfers else None
        except VerifyError:
            raise
        except HloscopeError as error:
            reason = error.message
        place = places.get(computation) or Place(computation, 1, (), 1, 1)
        footprint = footprints.of_instruction(ins)
        kernels.append(
            KernelCost(
                ins, computation, footprint, coalescing, reason,
                place.times, place.low, place.high, place.notes,
            )
        )  # fmt: skip
    return ProgramCost(module, memory.device, _with_one_branch(kernels, places))


def _with_one_branch(
    kernels: list[KernelCost], places: Mapping[Computation, Place]
) -> list[KernelCost]:
    """The kernels; of each conditional only those of the branch that moves most bytes have runs.

    One branch runs, so the sum over all of them is more than any run of the program needs.
    """
    runs = {kernel.computation: kernel.runs for kernel in kernels}
    each: dict[Computation, int] = dict.fromkeys(runs, 0)
    for kernel in kernels:
        each[kernel.computation] += kernel.footprint.bytes
    around = {c: places[c].branches for c in runs if c in places and places[c].branches}
    # Conditionals inside of branches are decided first: the outer ones count what they chose.
    for depth in reversed(range(max(map(len, around.values()), default=0))):
        totals: dict[Instruction, dict[int, int]] = {}
        for computation, branches in around.items():
            if depth < len(branches):
                conditional, number = branches[depth]
                by_number = totals.setdefault(conditional, {})
                bytes_ = each[computation] * runs[computation]
                by_number[number] = by_number.get(number, 0) + bytes_
        largest = {case: max(found, key=found.__getitem__) for case, found in totals.items()}
        for computation, branches in around.items():
            if depth < len(branches) and largest[branches[depth][0]] != branches[depth][1]:
                runs[computation] = 0
    return [
        kernel
        if kernel.runs == runs[kernel.computation]
        else replace(kernel, runs=runs[kernel.computation])
        for kernel in kernels
    ]
