"""Coalescing of a kernel, operand by operand and output by output: three verdicts side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, Blueprints
from hloscope.indexing import Access, IndexingMap, address_map
from hloscope.ir import Instruction, TensorType
from hloscope.lazy import dataclass
from hloscope.memory.banks import BankUse, bank_use
from hloscope.memory.choice import Choice
from hloscope.memory.counting import BUDGET, traffic_of
from hloscope.memory.devices import AS_OF, Device
from hloscope.memory.emitting import BLOCK_LEVEL, config_of, kernel_of
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import Kernel, Launch, Reading
from hloscope.memory.requests import Requests, requests_of
from hloscope.memory.spoil import Spoiler, spoiler_of
from hloscope.memory.storage import element_count, is_array, storage_bits
from hloscope.memory.touched import Touched, touched_by, whole
from hloscope.memory.traffic import Traffic, together
from hloscope.memory.verdicts import by_heuristic, by_map

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Touch:
    """One way in which the threads touch an array.

    Attributes:
        map: From threads to addresses, in elements.
        traffic: What its requests move; `None` if only XLA's verdicts were asked for.
        spoiler: What spoils its worst request.
    """

    map: IndexingMap
    traffic: Traffic | None
    spoiler: Spoiler | None


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How an array is read or written.

    Attributes:
        number: Of the operand or output.
        leaf: Which array of an operand that is a tuple.
        name: The operand's name; of an output the root's.
        type: Of the array.
        touches: The ways in which it is touched; none if it is not.
        traffic: What is moved; `None` if nobody knows, or nobody asked.
        touched: The part that is touched at all.
        by_map: XLA's map verdict; `None` of outputs, which it does not judge.
        reason: Why it is not exact, or not known.
    """

    number: int
    leaf: int
    name: str
    type: TensorType
    touches: tuple[Touch, ...]
    traffic: Traffic | None
    touched: Touched
    by_map: bool | None
    reason: str = ""

    @property
    def spoiler(self) -> Spoiler | None:
        """What spoils the worst of it."""
        found = [t for t in self.touches if t.spoiler and t.traffic]
        return max(found, key=_wasted).spoiler if found else None

    @property
    def precision(self) -> str:
        """`exact`, `sampled`, `bounds` or `unknown`."""
        return self.traffic.precision if self.traffic is not None else UNKNOWN


def _wasted(touch: Touch) -> int:
    return touch.traffic.wasted if touch.traffic else 0


@dataclass(frozen=True, slots=True)
class Coalescing:
    """The answer for one kernel.

    Attributes:
        name: Of the fusion.
        kernel: How it is made.
        device: Where.
        by_heuristic: XLA's heuristic, one verdict for all that is read.
        operands: What is read.
        outputs: What is written.
        banks: Conflicts in shared memory.
        notes: What was assumed.
    """

    name: str
    kernel: Kernel
    device: Device
    by_heuristic: bool
    operands: tuple[ArrayUse, ...]
    outputs: tuple[ArrayUse, ...]
    banks: tuple[BankUse, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[ArrayUse, ...]:
        """Operands and outputs."""
        return self.operands + self.outputs

    @property
    def model(self) -> str:
        """The model that the answer was computed under."""
        launch = f", {self.kernel.launch}" if self.kernel.launch else ""
        unroll = f", {self.kernel.unroll} elements a thread" if self.kernel.unroll > 1 else ""
        return f"{self.device.name}: {self.kernel.emitter}{launch}{unroll} (rules of {AS_OF})"

    @property
    def wasted(self) -> int:
        """Bytes moved that nobody asked for."""
        return sum([a.traffic.wasted for a in self.arrays if a.traffic is not None])

    @property
    def utilisation(self) -> float:
        """Share of the bytes moved that was asked for, over all arrays."""
        known = [a.traffic for a in self.arrays if a.traffic is not None]
        moved = sum([t.moved for t in known])
        return sum([t.asked for t in known]) / moved if moved else 1.0

    @property
    def lowest(self) -> float:
        """The lowest utilisation of an array that moves something."""
        known = [a.traffic.utilisation for a in self.arrays if a.traffic and a.traffic.requests]
        return min(known, default=1.0)


class Memory:
    """Answers about the kernels of one program; equal ones are computed once.

    Attributes:
        analysis: What values read of others.
        device: Where the kernels run.
        threads: Threads of a block of a loop, where the user says so.
        blocks: Blocks of the grid, where the user says so.
        vector: Elements of a thread, where the user says so.
        verdicts_only: Leave out what is not XLA's own verdict.
    """

    def __init__(
        self,
        analysis: Analysis,
        device: Device,
        *,
        threads: int | None = None,
        blocks: int | None = None,
        vector: int | None = None,
        verdicts_only: bool = False,
        budget: int = BUDGET,
    ) -> None:
        self.analysis: Final = analysis
        self.device: Final = device
        self._options: Final = {"threads": threads, "blocks": blocks, "vector": vector}
        self._verdicts_only: Final = verdicts_only
        self._budget: Final = budget
        self._blueprints: Final = Blueprints()
        self._answers: dict[object, Coalescing | HloscopeError] = {}
        self._traffic: dict[tuple[object, ...], tuple[Requests, Traffic]] = {}
        self._touched: dict[tuple[object, ...], Touched] = {}
        self._verdict: dict[tuple[IndexingMap, TensorType], bool] = {}

    def of_instruction(self, ins: Instruction) -> Coalescing:
        """The answer for a fusion, or for an instruction compiled alone.

        Raises:
            UnsupportedError: It has no kernel of XLA's own emitters.
        """
        key = self._key(ins)
        known = self._answers.get(key) if key is not None else None
        if known is None:
            try:
                known = self._of(Fused.of_instruction(ins))
            except HloscopeError as error:
                known = error
            if key is not None:
                self._answers[key] = known
        if isinstance(known, HloscopeError):
            if key is not None and ins.name not in known.message:
                return self._of(Fused.of_instruction(ins))
            raise known
        return known if known.name == ins.name else self._renamed(known, ins)

    def _key(self, ins: Instruction) -> object | None:
        """Equal for instructions with equal answers; `None` where that is not known."""
        if len(ins.calls) != 1 or len(ins.operands) != len(ins.calls[0].parameters):
            return None
        kind = str(config_of(ins).get("kind", ""))
        if kind:
            return None
        return self._blueprints.number(ins.calls[0]), self._blueprints.op_number(ins.op)

    def _renamed(self, known: Coalescing, ins: Instruction) -> Coalescing:
        names = [operand.name for operand in ins.operands]
        operands = [replace(a, name=names[a.number]) for a in known.operands]
        return replace(known, name=ins.name, operands=tuple(operands))

    def _of(self, fused: Fused) -> Coalescing:
        choice = Choice(fused, self.device, self.analysis, **self._options)
        kernel = kernel_of(choice)
        return self.of_kernel(fused, choice, kernel)

    def of_kernel(self, fused: Fused, choice: Choice, kernel: Kernel) -> Coalescing:
        """The answer for a kernel, XLA's or one of the user's."""
        subject = fused.instruction or fused.roots[0]
        emitter = choice.emitter if kernel.emitter != BLOCK_LEVEL else BLOCK_LEVEL
        heuristic = by_heuristic(emitter, subject, None, self.device)
        reads = _reads_of(self.analysis, fused, kernel)
        operands = [
            self._operand(k, leaf, fused, kernel, readings) for (k, leaf), readings in reads.items()
        ]
        outputs = self._outputs(fused, kernel)
        banks = (
            ()
            if self._verdicts_only
            else tuple(
                [
                    bank_use(shared, kernel.launch, self.device)
                    for shared in kernel.shared
                    if kernel.launch is not None
                ]
            )
        )
        return Coalescing(
            fused.name, kernel, self.device, heuristic, tuple(operands), tuple(outputs), banks,
            kernel.notes,
        )  # fmt: skip

    # -------------------------------------------------------------------------------- operands

    def _operand(
        self,
        number: int,
        leaf: int,
        fused: Fused,
        kernel: Kernel,
        readings: Sequence[tuple[Reading, Access]],
    ) -> ArrayUse:
        type = self.analysis.tensors(fused.edge[number].type)[leaf]
        assert isinstance(type, TensorType)
        name = fused.operands[number].name
        logical = dict.fromkeys([a.map for _, a in readings if a.map is not None])
        reasons = dict.fromkeys([a.reason for _, a in readings if a.reason])
        is_unknown = any(a.map is None for _, a in readings) or not is_array(type)
        touched = self._touched_of([*logical], type, is_unknown=is_unknown)
        if kernel.launch is None or not is_array(type):
            return ArrayUse(number, leaf, name, type, (), None, touched, None, _joined(reasons))
        by_thread = self._addresses(readings, type)
        verdict = self._by_maps(readings, type)
        touches = [self._touch(map, type, kernel.launch) for map, _ in by_thread.items()]
        traffic = None
        if not is_unknown and not self._verdicts_only:
            traffic = together([t.traffic for t in touches if t.traffic is not None])
        return ArrayUse(
            number, leaf, name, type, tuple(touches), traffic, touched, verdict, _joined(reasons)
        )

    def _addresses(
        self, readings: Sequence[tuple[Reading, Access]], type: TensorType
    ) -> dict[IndexingMap, bool]:
        """From threads to addresses, each way once; is it what XLA looks at?"""
        found: dict[IndexingMap, bool] = {}
        for reading, access in readings:
            map = self._address(reading, access, type)
            if map is not None:
                found[map] = found.get(map, False) or reading.is_hero
        return found

    def _address(self, reading: Reading, access: Access, type: TensorType) -> IndexingMap | None:
        if access.map is None:
            return None
        pool = self.analysis.pool
        both = pool.compose(pool.keep(Access(reading.map)), pool.keep(access))
        if both is None or both.map is None:
            return None
        placed = pool.compose(both, pool.keep(Access(address_map(type))))
        return None if placed is None else placed.map

    def _by_maps(self, readings: Sequence[tuple[Reading, Access]], type: TensorType) -> bool:
        if type.rank == 0:
            return True
        for reading, access in readings:
            if not reading.is_hero:
                continue
            if access.map is None:
                return False
            map = self._address(reading, access, type)
            if map is None:
                continue
            key = map, type
            known = self._verdict.get(key)
            if known is None:
                known = self._verdict[key] = by_map(map, type)
            if not known:
                return False
        return True

    def _touch(self, map: IndexingMap, type: TensorType, launch: Launch) -> Touch:
        if self._verdicts_only:
            return Touch(map, None, None)
        bits = storage_bits(type)
        key = map, bits, launch
        known = self._traffic.get(key)
        if known is None:
            requests = requests_of(
                map, bits, launch, self.device.warp, self.device.vector_bits // 8
            )
            known = self._traffic[key] = requests, traffic_of(requests, self._budget)
        requests, traffic = known
        spoiler = spoiler_of(requests, traffic.worst) if traffic.worst is not None else None
        return Touch(map, traffic, spoiler)

    def _touched_of(
        self, maps: list[IndexingMap], type: TensorType, *, is_unknown: bool
    ) -> Touched:
        if is_unknown:
            count = element_count(type) if is_array(type) else 0
            return whole(type, count, is_exact=False) if count else Touched(is_exact=False)
        key = (*maps, type)
        known = self._touched.get(key)
        if known is None:
            known = self._touched[key] = touched_by(maps, type)
        return known

    # --------------------------------------------------------------------------------- outputs

    def _outputs(self, fused: Fused, kernel: Kernel) -> list[ArrayUse]:
        found = []
        places = kernel.outputs or (None,) * len(fused.outputs(self.analysis))
        outputs = fused.outputs(self.analysis)
        for number, (_, root, leaf, type) in enumerate(outputs):
            maps = places[number] if number < len(places) else None
            if maps is None or kernel.launch is None or not is_array(type):
                count = element_count(type) if is_array(type) else 0
                touched = whole(type, count, is_exact=kernel.launch is None)
                reason = "" if kernel.launch is None else "where it is written is not known"
                found.append(
                    ArrayUse(number, leaf, root.name, type, (), None, touched, None, reason)
                )
                continue
            address = address_map(type)
            by_thread = [map.compose(address).simplify().remove_unused_symbols() for map in maps]
            touches = [self._touch(map, type, kernel.launch) for map in by_thread]
            parts = [t.traffic for t in touches if t.traffic is not None]
            traffic = None if self._verdicts_only else together(parts)
            is_part = any(map.runtime for map in maps)
            touched = (
                self._touched_of([*maps], type, is_unknown=False)
                if is_part
                else whole(type, element_count(type))
            )
            found.append(
                ArrayUse(number, leaf, root.name, type, tuple(touches), traffic, touched, None)
            )
        return found


def _joined(reasons: dict[str, None]) -> str:
    return "; ".join(reasons)


def _reads_of(
    analysis: Analysis, fused: Fused, kernel: Kernel
) -> dict[tuple[int, int], list[tuple[Reading, Access]]]:
    """For each array at the edge: how each reading reaches it."""
    from_heroes = frozenset(kernel.heroes) if kernel.emitter != "loop" else frozenset()
    readings = kernel.readings
    if kernel.launch is None:
        readings = tuple(
            [
                Reading(root, leaf, IndexingMap.identity(type.shape))
                for _, root, leaf, type in fused.outputs(analysis)
                if is_array(type)
            ]
        )
    found: dict[tuple[int, int], list[tuple[Reading, Access]]] = {}
    for reading in readings:
        ends = frozenset() if reading.is_hero else from_heroes
        for place, accesses in fused.reads(analysis, reading.value, reading.leaf, ends).items():
            found.setdefault(place, []).extend((reading, access) for access in accesses)
    for k, value in enumerate(fused.edge):
        for leaf, type in enumerate(analysis.tensors(value.type)):
            if isinstance(type, TensorType):
                found.setdefault((k, leaf), [])
    return dict(sorted(found.items()))
