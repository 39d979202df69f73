"""The memory of a program: its buffers, the live bytes at every moment, and two bounds."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from msgspec import Struct

from hloscope.cost import Target, target_of
from hloscope.cost.buffers.model import Buffer, Buffers, Value, space_of, value_bytes
from hloscope.cost.buffers.schedule import NoMomentsError, Schedule, schedule_of
from hloscope.cost.buffers.timeline import Timeline, holds_table, timelines
from hloscope.fusion import leaf_types
from hloscope.ir import Computation, Instruction, Module, TensorType, Type
from hloscope.ops import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Bitcast,
    Call,
    Case,
    CopyDone,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Return,
    Tuple,
    While,
)
from hloscope.support.walks import nearest_first

MOST_VALUES: Final = 10
"""Maximum number of arrays listed for a program without a schedule, largest first."""
SPACE_NAMES: Final = {
    ("gpu", 1): "collective memory",
    ("tpu", 1): "VMEM",
    ("gpu", 5): "host memory",
    ("tpu", 5): "host memory",
    ("cpu", 5): "host memory",
}
"""Names of memory spaces other than 0, by backend and number.

Source: XLA `Layout::kHostMemorySpace` (5), `kGenericFastMemorySpace` (1), XLA:GPU
`MemorySpaceColor`.
"""
_SIGNED_64: Final = (1 << 63) - 1


class Sums(Struct, frozen=True):
    """Bytes of a program that need no schedule.

    Attributes:
        parameters: Bytes of the entry's parameters.
        outputs: Bytes of the entry's results.
        largest: Computation, instruction and bytes of the largest arrays, largest first.
    """

    parameters: int
    outputs: int
    largest: tuple[tuple[Computation, Instruction, int], ...]


class LiveBuffer(Struct, frozen=True):
    """A buffer at a moment. It has the attributes of `CostRow`, so that tables can list it.

    Attributes:
        buffer: The buffer.
        value: The value in the buffer at that moment.
        runs: Always 1; rows about kernels have the number of runs here.
        notes: Always empty.
    """

    buffer: Buffer
    value: Value
    runs: int = 1
    notes: tuple[str, ...] = ()

    @property
    def instruction(self) -> Instruction:
        """Return the instruction that writes the value."""
        return self.value.instruction

    @property
    def computation(self) -> Computation:
        """Return the computation of the instruction that writes the value."""
        return self.value.computation


class ProgramMemory:
    """The memory of a program over its schedule.

    Attributes:
        module: The program.
        target: The backend that it was compiled for.
        reason: Why live ranges are unknown; empty if they are known.
    """

    def __init__(self, module: Module) -> None:
        """Store a program; its buffers are computed at the first access."""
        self.module: Final = module
        self.target: Final[Target] = target_of(module)
        self.reason: str = ""
        self._schedule: Schedule | None = None
        try:
            self._schedule = schedule_of(module)
        except NoMomentsError as error:
            self.reason = error.message

    @cached_property  # the dataflow of the whole program; every figure reads it
    def buffers(self) -> Buffers:
        """Return the buffers of all values.

        Raises:
            NoMomentsError: The program has no schedule; see `reason`.
        """
        if self._schedule is None:
            raise NoMomentsError(self.reason)
        return Buffers(self.module, self._schedule)

    @property
    def schedule(self) -> Schedule:
        """Return the schedule: the instructions in the order in which they run.

        Raises:
            NoMomentsError: The program has no schedule; see `reason`.
        """
        return self.buffers.schedule

    @cached_property  # every figure of a moment reads the timelines
    def spaces(self) -> dict[int, Timeline]:
        """Return the live bytes at every moment, for each memory space by number."""
        return timelines(self.buffers, self.target.kind)

    @property
    def device(self) -> Timeline:
        """Return the live bytes at every moment in the default memory space."""
        return self.spaces[0]

    @property
    def lower(self) -> int:
        """Return L: the largest number of bytes live at one moment, in the default memory space.

        No buffer assignment takes fewer bytes.
        """
        return self.device.lower

    @property
    def estimate(self) -> int:
        """Return E: the estimate of the bytes that XLA allocates in the default memory space."""
        return self.device.estimate

    @property
    def peak(self) -> int:
        """Return the first moment with the most live bytes in the default memory space.

        A moment is the number of an instruction in the schedule.
        """
        return self.device.peak

    def live(self, moment: int, space: int = 0) -> list[LiveBuffer]:
        """Return the buffers live at a moment with the values in them, largest first.

        A result that takes the memory of an operand at that moment is left out, because the operand
        counts.

        Args:
            moment: Number of an instruction in the schedule.
            space: Number of the memory space.
        """
        placed = {result for result, _ in self.spaces[space].placed.get(moment, ())}
        here = [
            buffer
            for buffer in self.buffers.buffers
            if buffer.space == space and buffer not in placed and buffer.lives_at(moment)
        ]
        here.sort(key=lambda buffer: -buffer.bytes)
        return [LiveBuffer(buffer, buffer.owner(moment)) for buffer in here]

    def held(self) -> list[LiveBuffer]:
        """Return the buffers that XLA allocates in the default memory space.

        Their bytes add up to the estimate. They are parameters, outputs, constants, the tables of
        tuples, and the temporaries at the moment when these take most. Temporaries in the
        allocation of an output or of a donated parameter are left out, because that buffer counts.
        """
        line = self.device
        busiest, found = line.temporary_peak, []
        root = self.module.entry.root
        for buffer in self.buffers.buffers:
            if buffer.space:
                continue
            if buffer.kind in ("parameter", "constant"):
                found.append(LiveBuffer(buffer, buffer.values[0]))
            elif buffer.kind == "output":
                shown = [value for value in buffer.values if value.instruction is root]
                found.append(LiveBuffer(buffer, (shown or buffer.values)[-1]))
            elif buffer not in line.reused and (
                holds_table(buffer)
                or (buffer.lives_at(busiest) and buffer not in line.temporary_placed)
            ):
                found.append(LiveBuffer(buffer, buffer.owner(busiest)))
        return found

    @property
    def sums(self) -> Sums:
        """Return the bytes of parameters, results and largest arrays, without a schedule."""
        entry = self.module.entry
        outputs = entry.results
        parameters = sum([_bytes_of(parameter.type) for parameter in entry.parameters])
        found = [
            (computation, ins, largest)
            for computation in _run_one_by_one(self.module)
            for ins in computation.instructions
            if not isinstance(ins.op, _WITHOUT_OWN_ARRAYS)
            and (largest := max(map(_array_bytes, leaf_types(ins.type)), default=0))
        ]
        found.sort(key=lambda row: -row[2])
        return Sums(parameters, sum(map(_bytes_of, outputs)), tuple(found[:MOST_VALUES]))

    @property
    def notes(self) -> list[str]:
        """Return assumptions of the figures, and what the figures leave out."""
        found = []
        if self.reason:
            return [f"no moments are known: {self.reason}"]
        buffers = self.buffers.buffers
        unknown = [b for b in buffers if not b.is_known]
        if unknown:
            names = ", ".join(b.values[0].name for b in unknown[:3])
            found.append(
                f"{len(unknown):,} buffers have a size without a bound and count 0 bytes: {names}"
            )
        if any(buffer.bytes > _SIGNED_64 for buffer in buffers):
            found.append("a buffer has more than 2^63 bytes: XLA's sizes are signed 64-bit numbers")
        for space in filter(None, self.spaces):
            name = SPACE_NAMES.get((self.target.kind, space))
            if name is None:
                apart = "is counted apart; what it is on this backend is not known"
            else:
                apart = f"({name}) is counted apart"
            found.append(f"memory space {space} {apart}")
        mixed = [b for b in buffers if len({space_of(v.type) for v in b.values}) > 1]
        if mixed:
            found.append(
                f"{len(mixed):,} buffers hold values of several memory spaces and count in the "
                f"space with the largest number: {mixed[0].values[0].name}"
            )
        if self.target.kind not in ("gpu", "cpu"):
            found.append(
                f"which results {self.target.kind} puts in the memory of operands beyond XLA's "
                "common rules is not known: the least may be too high by those"
            )
        return found


_WITHOUT_OWN_ARRAYS: Final = (
    AddDependency, AsyncDone, AsyncStart, AsyncUpdate, Bitcast, Call, Case, CopyDone, Domain,
    GetTupleElement, OptimizationBarrier, Parameter, Return, Tuple, While,
)  # fmt: skip
"""Ops whose result arrays are those of operands, callers, or called computations."""


def _run_one_by_one(module: Module) -> list[Computation]:
    """Return the computations whose instructions run one by one and not in one kernel.

    They are found from the entry on, through the calls.
    """
    runs = (Call, Case, While, AsyncStart)

    def onward(computation: Computation) -> list[Computation]:
        return [c for ins in computation if isinstance(ins.op, runs) for c in ins.calls]

    return [*nearest_first([module.entry], onward)]


def _bytes_of(type: Type) -> int:
    return sum(map(_array_bytes, leaf_types(type)))


def _array_bytes(type: Type) -> int:
    found = value_bytes(type) if isinstance(type, TensorType) else None
    return found.padded + found.metadata if found is not None else 0
