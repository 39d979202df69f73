"""The memory of a program: its buffers, the bytes in use at every moment, and both bounds."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from msgspec import Struct

from hloscope.buffers.allocation import holds_table
from hloscope.buffers.model import Buffer, Buffers, Value, space_of, value_bytes
from hloscope.buffers.schedule import NoMomentsError, Schedule, schedule_of
from hloscope.buffers.timeline import Timeline, timelines
from hloscope.cost import Target, target_of
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
from hloscope.walks import nearest_first

MOST_VALUES: Final = 10
"""Largest values that are listed of a program without a schedule."""
SPACE_NAMES: Final = {
    ("gpu", 1): "collective memory",
    ("tpu", 1): "VMEM",
    ("gpu", 5): "host memory",
    ("tpu", 5): "host memory",
    ("cpu", 5): "host memory",
}
"""What a memory space other than 0 is, by backend and number.

Source: XLA `Layout::kHostMemorySpace` (5), `kGenericFastMemorySpace` (1), XLA:GPU
`MemorySpaceColor`.
"""
_SIGNED_64: Final = (1 << 63) - 1


class Sums(Struct, frozen=True):
    """Bytes of a program whose values have no known moments.

    Attributes:
        parameters: Of the entry's parameters.
        outputs: Of what the entry returns.
        largest: The largest arrays that instructions write, the largest first.
    """

    parameters: int
    outputs: int
    largest: tuple[tuple[Computation, Instruction, int], ...]


class LiveBuffer(Struct, frozen=True):
    """A buffer at a moment, as a row of tables about instructions.

    Attributes:
        buffer: The buffer.
        value: The value that it holds.
        runs: 1.
        notes: None.
    """

    buffer: Buffer
    value: Value
    runs: int = 1
    notes: tuple[str, ...] = ()

    @property
    def instruction(self) -> Instruction:
        """The instruction that writes the value."""
        return self.value.instruction

    @property
    def computation(self) -> Computation:
        """Its computation."""
        return self.value.computation


class ProgramMemory:
    """What memory a program takes, and when.

    Attributes:
        module: The program.
        target: The backend that it was compiled for.
        reason: Why no moments are known; empty if they are.
    """

    def __init__(self, module: Module) -> None:
        """Take a program; buffers are found when they are asked for."""
        self.module: Final = module
        self.target: Final[Target] = target_of(module)
        self.reason: str = ""
        self._schedule: Schedule | None = None
        try:
            self._schedule = schedule_of(module)
        except NoMomentsError as error:
            self.reason = error.message

    @cached_property
    def buffers(self) -> Buffers:
        """The buffers of all values.

        Raises:
            NoMomentsError: No moments are known: `reason` says why.
        """
        if self._schedule is None:
            raise NoMomentsError(self.reason)
        return Buffers(self.module, self._schedule)

    @property
    def schedule(self) -> Schedule:
        """The instructions in the order in which they run.

        Raises:
            NoMomentsError: No moments are known: `reason` says why.
        """
        return self.buffers.schedule

    @cached_property
    def spaces(self) -> dict[int, Timeline]:
        """The bytes in use at every moment, by number of the memory space."""
        return timelines(self.buffers, self.target.kind)

    @property
    def device(self) -> Timeline:
        """The bytes in use in the default memory space, that of the device."""
        return self.spaces[0]

    @property
    def lower(self) -> int:
        """L: bytes of the device that are live at once, at least."""
        return self.device.lower

    @property
    def estimate(self) -> int:
        """E: bytes of the device that XLA will hold, about."""
        return self.device.estimate

    @property
    def peak(self) -> int:
        """The first moment at which most bytes of the device are live."""
        return self.device.peak

    def live(self, moment: int, space: int = 0) -> list[LiveBuffer]:
        """The buffers in use at a moment with the values that they hold, the largest first.

        Results that stand in the memory of an operand there are left out: the operand counts.
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
        """The buffers of the device that XLA holds, whose bytes add up to the estimate.

        Parameters, outputs and constants, the tables of tuples, and the temporaries in use when
        these take most.  Temporaries in the allocation of an output or of a donated parameter are
        left out: that buffer counts.
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

    @cached_property
    def sums(self) -> Sums:
        """Bytes of parameters, outputs and the largest arrays: known without moments, too."""
        entry = self.module.entry
        outputs = entry.results
        parameters = sum([_bytes_of(parameter.type) for parameter in entry.parameters])
        found = [
            (computation, ins, largest)
            for computation in _run_one_by_one(self.module)
            for ins in computation.instructions
            if not isinstance(ins.op, _SHOWS_OTHERS)
            and (largest := max(map(_array_bytes, leaf_types(ins.type)), default=0))
        ]
        found.sort(key=lambda row: -row[2])
        return Sums(parameters, sum(map(_bytes_of, outputs)), tuple(found[:MOST_VALUES]))

    @cached_property
    def notes(self) -> list[str]:
        """What the figures leave out or assume."""
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
        for space in self.spaces:
            if space:
                found.append(self._space_note(space))
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

    def _space_note(self, space: int) -> str:
        name = SPACE_NAMES.get((self.target.kind, space))
        if name is None:
            return f"memory space {space} is counted apart; what it is on this backend is not known"
        return f"memory space {space} ({name}) is counted apart"


_SHOWS_OTHERS: Final = (
    AddDependency, AsyncDone, AsyncStart, AsyncUpdate, Bitcast, Call, Case, CopyDone, Domain,
    GetTupleElement, OptimizationBarrier, Parameter, Return, Tuple, While,
)  # fmt: skip
"""Ops whose arrays are others': of operands, of parameters, or of what they run."""


def _run_one_by_one(module: Module) -> list[Computation]:
    """The computations whose instructions run by themselves."""
    runs = (Call, Case, While, AsyncStart)

    def onward(computation: Computation) -> list[Computation]:
        return [c for ins in computation if isinstance(ins.op, runs) for c in ins.calls]

    return [*nearest_first([module.entry], onward)]


def _bytes_of(type: Type) -> int:
    return sum(map(_array_bytes, leaf_types(type)))


def _array_bytes(type: Type) -> int:
    found = value_bytes(type) if isinstance(type, TensorType) else None
    return found.padded + found.metadata if found is not None else 0
