"""Footprints: the distinct bytes that kernels must read and write, and their operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.cost.bounds import Work, total
from hloscope.cost.trip_counts import known_trip_count, trip_count
from hloscope.cost.work_rules import LoopRuns, Runs, rule_of
from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, leaf_types
from hloscope.indexing import Access, IndexingMap
from hloscope.ir import Computation, Instruction, TensorType, TupleType, Type, callees_first
from hloscope.memory import (
    CUSTOM,
    HOST,
    SLICES,
    TRITON,
    XLA,
    Fused,
    Kernel,
    KernelKind,
    Reading,
    Reads,
    Touched,
    XlaKernels,
    data_bytes,
    element_count,
    first_places,
    is_array,
    is_scratch,
    kind_of,
    made_once,
    output_names,
    sliced,
    synchronous,
    touched_by,
    whole,
)
from hloscope.ops import (
    AsyncStart,
    Bitcast,
    CollectiveBroadcast,
    CollectivePermute,
    CustomCall,
    DynamicUpdateSlice,
    Fusion,
    Outfeed,
    Parameter,
    RaggedAllToAll,
    Recv,
    Scatter,
    Send,
    While,
)
from hloscope.support.devices import Device

# --------------------------------------------------------------------------------------------------
# Footprints: the fewest bytes that kernels must read and write.


MOVES_NOTHING: Final = "moves nothing"
NOT_KNOWN: Final = "what it does is not known: operands count as read whole, at most"
ITS_KERNELS: Final = "its kernels are those of what it calls: operands count as read whole, at most"
_MAY_SEND_LESS: Final = (CollectiveBroadcast, CollectivePermute, RaggedAllToAll)
"""Collectives in which a device may send nothing, or only part of its operand."""


class ArrayFootprint(Struct, frozen=True):
    """The part of an operand or output that a kernel accesses.

    Attributes:
        number: Number of the operand or output.
        leaf: Number of the array in an operand that is a tuple.
        name: Name of the operand; for an output, name of the root.
        type: Type of the array.
        touched: Distinct elements, bytes and sectors that are accessed.
    """

    number: int
    leaf: int
    name: str
    type: TensorType
    touched: Touched

    @property
    def size(self) -> int:
        """Return the bytes of the whole array."""
        return data_bytes(self.type)


class Footprint(Struct, frozen=True):
    """The distinct bytes that a kernel must read and write, and its operations.

    Attributes:
        name: Name of the fusion or instruction.
        reads: The arrays that are read, in order of operands.
        writes: The arrays that are written, in order of outputs.
        work: Operations by unit; see docs/cost_rules.md.
        notes: Assumptions of the figures.
        kind: Maker of the kernel.
    """

    name: str
    reads: tuple[ArrayFootprint, ...]
    writes: tuple[ArrayFootprint, ...]
    work: Work
    notes: tuple[str, ...] = ()
    kind: KernelKind = KernelKind(XLA)

    @property
    def read(self) -> int:
        """Return the distinct bytes that the kernel reads."""
        return sum([a.touched.bytes for a in self.reads])

    @property
    def written(self) -> int:
        """Return the distinct bytes that the kernel writes."""
        return sum([a.touched.bytes for a in self.writes])

    @property
    def bytes(self) -> int:
        """Return the distinct bytes that the kernel reads, plus those that it writes."""
        return self.read + self.written

    @property
    def reuse(self) -> float:
        """Return how often, on average, the kernel uses an element that it reads.

        Scalars do not count. The result is 0 if only scalars are read.
        """
        arrays = [a.touched for a in self.reads if a.type.rank]
        elements = sum([touched.elements for touched in arrays])
        return sum([touched.reads for touched in arrays]) / elements if elements else 0.0

    @property
    def flops(self) -> int:
        """Return the operations of matrix and vector units, without transcendentals or converts."""
        return self.work.flops

    @property
    def intensity(self) -> float:
        """Return the operations per byte of the footprint; 0 without bytes."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def is_exact(self) -> bool:
        """Are all bytes exact? Otherwise they are upper bounds."""
        return all(a.touched.is_exact for a in self.reads + self.writes)


class Footprints:
    """Footprints of the kernels of one program. Equal kernels are computed once."""

    def __init__(
        self, analysis: Analysis, device: Device, kernels: XlaKernels | None = None
    ) -> None:
        """Create the footprints for a program on a device.

        Args:
            analysis: Indexing analysis of the program.
            device: The device.
            kernels: Models of the program's kernels, if they exist already.
        """
        self._analysis: Final = analysis
        self._kernels: Final = kernels or XlaKernels(analysis, device)
        self._flops: Final = Flops(analysis.structure_ids.number)
        self._known: dict[object, Footprint] = {}

    def of_instruction(self, ins: Instruction) -> Footprint:
        """Return the footprint of a fusion, or of an instruction as a separate kernel.

        Kernels that XLA's emitters do not make are assumed to read whole operands.
        """
        known = self.of_equal(ins)
        if known.name == ins.name:
            return known
        names, written = [o.name for o in ins.operands], output_names(ins, self._analysis)
        reads = [replace(a, name=names[a.number]) for a in known.reads]
        writes = [replace(a, name=written[a.number]) for a in known.writes]
        return replace(known, name=ins.name, reads=tuple(reads), writes=tuple(writes))

    def of_equal(self, ins: Instruction) -> Footprint:
        """Return the footprint of a kernel that equals that of `ins` except for names."""
        work = self._flops.of(ins)
        kind = kind_of(ins)
        if not kind.is_kernel and not ins.calls:
            return Footprint(ins.name, (), (), work, (MOVES_NOTHING,), kind)
        begun = synchronous(ins)
        # The work is part of the key: trip counts inside a kernel do not follow from its structure.
        key = self._kernels.key(begun)
        full = None if key is None else (key, work)
        return made_once(self._known, full, lambda: self._found(begun, kind, key, work))

    def _found(
        self, ins: Instruction, kind: KernelKind, key: tuple[object, ...] | None, work: Work
    ) -> Footprint:
        if kind.reads_all:
            return self._whole(ins, kind, work)
        if kind.maker == HOST:
            return self._whole(ins, kind, work, note=f"runs on the host: {NOT_KNOWN}")
        if not kind.is_kernel:
            return self._whole(ins, kind, work, note=ITS_KERNELS)
        is_custom = isinstance(ins.op, CustomCall)
        if kind.maker in (CUSTOM, TRITON) and not isinstance(ins.op, Fusion):
            note = f"a custom call, `{kind.name}`: {NOT_KNOWN}" if is_custom else NOT_KNOWN
            return self._whole(ins, kind, work, note=note)
        try:
            if kind.maker in (XLA, TRITON) and isinstance(ins.op, Fusion | InPlace):
                fused, _, kernel = self._kernels.of(ins, key)
            else:
                fused = Fused.of_instruction(ins)
                kernel = self._by_values(fused, kind)
        except HloscopeError:  # its message names one of several equal kernels
            return self._whole(ins, kind, work, note=NOT_KNOWN)
        return self._of(fused, kernel, work, kind)

    def _by_values(self, fused: Fused, kind: KernelKind) -> Kernel:
        """Return a kernel without thread maps: only the values that it computes are stated."""
        if kind.maker == SLICES:
            return sliced(fused, self._analysis)
        readings = [
            Reading(root, leaf, IndexingMap.identity(type.shape))
            for _, root, leaf, type in fused.outputs(self._analysis)
            if is_array(type) and not is_scratch(root, leaf)
        ]
        notes = () if kind.maker == XLA else (f"made by: {kind}",)
        return Kernel(kind.maker, None, (), tuple(readings), notes=notes)

    def _of(self, fused: Fused, kernel: Kernel, work: Work, kind: KernelKind) -> Footprint:
        found = Reads(self._analysis, fused, kernel).by_array
        reads = [
            self._read(fused, k, leaf, [access for _, access in readings])
            for (k, leaf), readings in found.items()
            if readings
        ]
        writes = tuple(self._writes(fused, kernel))
        reads += self._combined(fused, kernel, {array.number for array in reads})
        reads.sort(key=lambda array: (array.number, array.leaf))
        # A custom kernel may skip what the fused instructions would read.
        if kind.maker == CUSTOM:
            reads, writes = [*map(_at_most, reads)], tuple(map(_at_most, writes))
        return Footprint(fused.name, tuple(reads), writes, work, kernel.notes, kind)

    def _combined(self, fused: Fused, kernel: Kernel, read: set[int]) -> Iterator[ArrayFootprint]:
        """Yield footprints of the old elements that a scatter reads to combine them with updates.

        They are upper bounds: two updates may hit one element, and an update with indices out of
        bounds hits none.

        Args:
            fused: Instructions of the kernel.
            kernel: The kernel; nothing is yielded if it is not a scatter.
            read: Numbers of the operands that are counted already.
        """
        hero = kernel.heroes[0] if kernel.emitter == "scatter" else None
        if hero is None or not _combines(hero):
            return
        for k in range(len(hero.operands) // 2):
            target = hero.operands[k]
            while isinstance(target.op, Bitcast) and fused.contains(target):
                target = target.operands[0]
            number = next((n for n, value in enumerate(fused.edge) if value is target), None)
            type = target.type
            if number is None or number in read or not isinstance(type, TensorType):
                continue
            touched = replace(self._scattered(kernel, k, type), is_exact=False)
            yield ArrayFootprint(number, 0, fused.operands[number].name, type, touched)

    def _scattered(self, kernel: Kernel, number: int, type: TensorType) -> Touched:
        """Return an upper bound of a scatter's writes to one array: an element per update.

        Args:
            kernel: The kernel of the scatter.
            number: Number of the output.
            type: Type of the array.
        """
        hero = kernel.heroes[0]
        maps = kernel.outputs[number] if number < len(kernel.outputs) else None
        target, update = hero.operands[number], hero.operands[len(hero.operands) // 2 + 1 + number]
        if maps is not None and isinstance(target.type, TensorType):
            return touched_by([*maps], target.type)
        everything = whole(type, is_exact=False)
        if (
            not is_array(type)
            or not isinstance(update.type, TensorType)
            or not is_array(update.type)
        ):
            return everything
        count = min(element_count(update.type), everything.elements)
        size = min(data_bytes(update.type), everything.bytes)
        return Touched(count, size, min(count, everything.sectors), count, is_exact=False)

    def _read(
        self, fused: Fused, number: int, leaf: int, accesses: Sequence[Access]
    ) -> ArrayFootprint:
        type = self._analysis.tensors(fused.edge[number].type)[leaf]
        assert isinstance(type, TensorType)
        name = fused.operands[number].name
        known = [access.map for access in accesses if access.map is not None]
        if len(known) < len(accesses) or not is_array(type):
            touched = whole(type, is_exact=False)
        else:
            touched = touched_by(known, type)
            if any(access.reason for access in accesses):
                # An access that is an over-approximation makes the footprint an upper bound.
                touched = replace(touched, is_exact=False)
        return ArrayFootprint(number, leaf, name, type, touched)

    def _writes(self, fused: Fused, kernel: Kernel) -> Iterator[ArrayFootprint]:
        for number, (_, root, leaf, type) in enumerate(fused.outputs(self._analysis)):
            if is_scratch(root, leaf):
                continue
            maps = kernel.outputs[number] if number < len(kernel.outputs) else None
            touched = whole(type)
            if maps is not None and any(map.runtime for map in maps):
                touched = touched_by([*maps], type)
            elif kernel.emitter == "scatter" and maps is None:
                touched = self._scattered(kernel, number, type)
            yield ArrayFootprint(number, leaf, root.name, type, touched)

    def _whole(
        self, ins: Instruction, kind: KernelKind, work: Work, *, note: str = ""
    ) -> Footprint:
        """Return a footprint of all elements of the operands and results.

        The bytes are upper bounds if a note is given.

        Args:
            ins: The instruction.
            kind: Kind of its kernel.
            work: Its operations.
            note: Why the bytes are not exact.
        """
        is_exact = not note and not isinstance(ins.op, _MAY_SEND_LESS)
        reads = [
            ArrayFootprint(k, leaf, operand.name, type, whole(type, is_exact=is_exact))
            for operand, k in first_places(ins.operands).items()
            for leaf, type in enumerate(leaf_types(operand.type))
            if isinstance(type, TensorType)
        ]
        writes = [
            ArrayFootprint(leaf, leaf, ins.name, type, whole(type, is_exact=not note))
            for leaf, type in enumerate(leaf_types(_written(ins)))
            if isinstance(type, TensorType) and not is_scratch(ins, leaf)
        ]
        notes = (note,) if note else (f"made by: {kind}",)
        return Footprint(ins.name, tuple(reads), tuple(writes), work, notes, kind)


InPlace: Final = DynamicUpdateSlice | Scatter
"""Ops whose result overwrites the memory of operand 0, also in a kernel of their own."""


def _written(ins: Instruction) -> Type:
    """Return the type of the arrays that an instruction writes.

    It is an empty tuple for sends and outfeeds, and the data alone for a `recv` of HLO.
    """
    if isinstance(ins.op, Send | Outfeed):
        return TupleType(())
    elements = ins.type.elements if isinstance(ins.type, TupleType) else ()
    return elements[0] if isinstance(ins.op, Recv) and len(elements) == 3 else ins.type


def _combines(scatter: Instruction) -> bool:
    """Does a scatter read the old elements? It does unless its body returns the update."""
    if len(scatter.calls) != 1:
        return True
    root = scatter.calls[0].root
    results = root.operands if root.op.name in ("tuple", "return") else (root,)
    first = len(results)
    return not all(
        isinstance(result.op, Parameter) and result.op.number >= first for result in results
    )


def _at_most(array: ArrayFootprint) -> ArrayFootprint:
    return replace(array, touched=replace(array.touched, is_exact=False))


# --------------------------------------------------------------------------------------------------
# Work of instructions: operations by unit, with those of called computations.


_RECURSION: Final = Work(at_least=("recursion",))
"""Work of a function's call of itself: unknown, at least 0."""


def loop_runs(ins: Instruction) -> LoopRuns:
    """Return how often a loop's condition and body run, by its trip count."""
    trips = max(trip_count(ins), 0)
    return LoopRuns(trips + 1, trips, known_trip_count(ins) is not None)


class Flops:
    """Computes the work of instructions; the work of each computation is counted once.

    If equal structures have equal numbers, computations of equal structure are counted once, where
    the structure determines their work.
    """

    def __init__(
        self, structure: Callable[[Computation], int] | None = None, runs: Runs = loop_runs
    ) -> None:
        """Create a counter of work.

        Args:
            structure: Returns the number of a computation's structure, as `StructureIds.number`
                does; `None` for no sharing.
            runs: Returns how often a loop's condition and body run.
        """
        self._structure: Final = structure
        self._runs: Final = runs
        self._known: dict[Computation, Work] = {}
        self._by_structure: dict[int, Work] = {}
        self._follows: dict[Computation, bool] = {}

    def of(self, ins: Instruction) -> Work:
        """Return the work of an instruction, with that of the computations it calls.

        A recursive call is not counted: its depth is unknown.
        """
        for callee in ins.calls:
            for inner in callees_first(callee, self._known):
                self._known[inner] = self._of_computation(inner)
        return self.count(ins, tuple([self._known.get(callee, _RECURSION) for callee in ins.calls]))

    def count(self, ins: Instruction, called: tuple[Work, ...]) -> Work:
        """Return the work of an instruction, given the work of its callees in order.

        It is unknown for an instruction that the verifier refuses, as it may lack operands.
        """
        try:
            return rule_of(ins.op).work(ins, ins.op, called, self._runs)
        except (AttributeError, IndexError, TypeError, ValueError):
            return Work(unknown=(ins.op.name,))

    def _of_computation(self, computation: Computation) -> Work:
        """Return the work of a computation; the work of all that it calls must be known already."""
        number = None if self._structure is None else self._structure(computation)
        # Reducers and fused computations recur under many names.
        known = None if number is None else self._by_structure.get(number)
        if known is None:
            get = self._known.get
            known = total([
                (self.count(ins, tuple([get(callee, _RECURSION) for callee in ins.calls])), 1)
                for ins in computation
            ])  # fmt: skip
            if number is not None:
                # Trip counts are values, which the structure does not determine.
                for inner in callees_first(computation, self._follows):
                    self._follows[inner] = not any(
                        [isinstance(ins.op, While | CustomCall | AsyncStart) for ins in inner]
                    ) and all([self._follows.get(callee, False) for callee in inner.callees])
                if self._follows[computation]:
                    self._by_structure[number] = known
        return known
