"""Footprints: bytes that kernels read and write at least, and where a program's bytes go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hloscope.cost.flops import Flops
from hloscope.cost.runs import running
from hloscope.devices import Device
from hloscope.errors import HloscopeError
from hloscope.fusion import ALIASES, Analysis, leaf_types
from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction, Module, TensorType
from hloscope.lazy import dataclass
from hloscope.memory import (
    Fused,
    Kernel,
    Reads,
    Touched,
    XlaKernels,
    data_bytes,
    element_count,
    first_places,
    is_array,
    output_names,
    touched_by,
    whole,
)


@dataclass(frozen=True, slots=True)
class ArrayFootprint:
    """The part of an operand or output that a kernel touches.

    Attributes:
        number: Of the operand or output.
        leaf: Which array of an operand that is a tuple.
        name: The operand's name; of an output the root's.
        type: Of the array.
        touched: What of it is touched.
    """

    number: int
    leaf: int
    name: str
    type: TensorType
    touched: Touched

    @property
    def size(self) -> int:
        """Bytes of the whole array."""
        return data_bytes(self.type)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a kernel reads and writes at least, each byte once.

    Attributes:
        name: Of the fusion or instruction.
        reads: By operand.
        writes: By output.
        flops: Arithmetic; see `hloscope ls --sort flops`.
        notes: What was assumed.
    """

    name: str
    reads: tuple[ArrayFootprint, ...]
    writes: tuple[ArrayFootprint, ...]
    flops: int
    notes: tuple[str, ...] = ()

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum([a.touched.bytes for a in self.reads])

    @property
    def written(self) -> int:
        """Bytes written."""
        return sum([a.touched.bytes for a in self.writes])

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def reuse(self) -> float:
        """How often an element that is read is needed, on average; scalars do not count."""
        arrays = [a.touched for a in self.reads if a.type.rank]
        elements = sum([touched.elements for touched in arrays])
        return sum([touched.reads for touched in arrays]) / elements if elements else 0.0

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def is_exact(self) -> bool:
        """Is all of it exact?  Else the bytes are the most that they can be."""
        return all(a.touched.is_exact for a in self.reads + self.writes)


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel of a program, and how often it runs.

    Attributes:
        instruction: The fusion or instruction.
        computation: Where it stands.
        footprint: Of one run.
        times: How often it runs.
        notes: What was assumed about that.
    """

    instruction: Instruction
    computation: Computation
    footprint: Footprint
    times: int
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all runs."""
        return self.footprint.bytes * self.times


class Footprints:
    """Footprints of the kernels of one program; equal ones are computed once."""

    def __init__(
        self, analysis: Analysis, device: Device, kernels: XlaKernels | None = None
    ) -> None:
        """Take an analysis and a device, and their kernels where somebody has made some already."""
        self._analysis: Final = analysis
        self._kernels: Final = kernels or XlaKernels(analysis, device)
        self._flops: Final = Flops(analysis.blueprints.number)
        self._known: dict[object, Footprint] = {}

    def of_instruction(self, ins: Instruction) -> Footprint:
        """The footprint of a fusion, or of an instruction as a kernel of its own.

        What is not made by XLA's emitters is taken to read its operands whole.
        """
        known = self.of_equal(ins)
        return known if known.name == ins.name else self._renamed(known, ins)

    def of_equal(self, ins: Instruction) -> Footprint:
        """The footprint of an equal kernel: the names in it may be that one's."""
        flops = self._flops.of(ins).flops
        if isinstance(ins.op, ALIASES):
            return Footprint(ins.name, (), (), flops, ("moves nothing",))
        key = self._kernels.key(ins)
        known = self._known.get((key, flops)) if key is not None else None
        if known is None:
            try:
                fused, _, kernel = self._kernels.of(ins, key)
            except HloscopeError:
                return self._whole(ins, flops)
            known = self._of(fused, kernel, flops)
            if key is not None:
                self._known[key, flops] = known
        return known

    def _renamed(self, known: Footprint, ins: Instruction) -> Footprint:
        names = [operand.name for operand in ins.operands]
        written = output_names(ins, self._analysis)
        reads = [replace(a, name=names[a.number]) for a in known.reads]
        writes = [replace(a, name=written[a.number]) for a in known.writes]
        return replace(known, name=ins.name, reads=tuple(reads), writes=tuple(writes))

    def _of(self, fused: Fused, kernel: Kernel, flops: int) -> Footprint:
        reads = [
            self._read(
                fused, k, leaf, [a.map for _, a in readings], [a.reason for _, a in readings]
            )
            for (k, leaf), readings in Reads(self._analysis, fused, kernel).by_array.items()
            if readings
        ]
        writes = tuple(self._writes(fused, kernel))
        return Footprint(fused.name, tuple(reads), writes, flops, kernel.notes)

    def _read(
        self, fused: Fused, number: int, leaf: int, maps: list[object], reasons: list[str]
    ) -> ArrayFootprint:
        type = self._analysis.tensors(fused.edge[number].type)[leaf]
        assert isinstance(type, TensorType)
        name = fused.operands[number].name
        known = [m for m in maps if isinstance(m, IndexingMap)]
        if len(known) < len(maps) or not is_array(type):
            touched = _all_of(type, is_exact=False)
        else:
            touched = touched_by(known, type)
            if any(reasons):
                touched = replace(touched, is_exact=False)
        return ArrayFootprint(number, leaf, name, type, touched)

    def _writes(self, fused: Fused, kernel: Kernel) -> Iterator[ArrayFootprint]:
        for number, (_, root, leaf, type) in enumerate(fused.outputs(self._analysis)):
            maps = kernel.outputs[number] if number < len(kernel.outputs) else None
            touched = _all_of(type, is_exact=True)
            if maps is not None and any(map.runtime for map in maps):
                touched = touched_by([*maps], type)
            yield ArrayFootprint(number, leaf, root.name, type, touched)

    def _whole(self, ins: Instruction, flops: int) -> Footprint:
        """Operands and results read and written whole."""
        reads = [
            ArrayFootprint(k, leaf, operand.name, type, _all_of(type, is_exact=False))
            for operand, k in first_places(ins.operands).items()
            for leaf, type in enumerate(leaf_types(operand.type))
            if isinstance(type, TensorType)
        ]
        writes = [
            ArrayFootprint(leaf, leaf, ins.name, type, _all_of(type, is_exact=True))
            for leaf, type in enumerate(leaf_types(ins.type))
            if isinstance(type, TensorType)
        ]
        note = "not made by XLA's emitters: operands are taken to be read whole"
        return Footprint(ins.name, tuple(reads), tuple(writes), flops, (note,))

    # ---------------------------------------------------------------------------------- program

    def of_module(self, module: Module) -> list[Run]:
        """Every kernel that runs when the program runs, bodies of loops as often as they run."""
        return [
            Run(ins, place.computation, self.of_instruction(ins), place.times, place.notes)
            for place in running(module)
            for ins in place.kernels
        ]


def _all_of(type: TensorType, *, is_exact: bool) -> Touched:
    if not is_array(type):
        return Touched(is_exact=False)
    return whole(type, element_count(type), is_exact=is_exact)
