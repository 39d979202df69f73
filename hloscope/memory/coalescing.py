"""Coalescing of each operand and output of a kernel: XLA's two verdicts and the counted traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from hloscope.errors import TooLargeError
from hloscope.fusion import Analysis
from hloscope.indexing import Access, IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.answers import (
    ArrayUse,
    Coalescing,
    TileUse,
    TileUses,
    Touch,
    bank_use,
    operand_tile,
    tile_use,
    tile_uses,
)
from hloscope.memory.choice import Choice
from hloscope.memory.emitting import (
    BLOCK_LEVEL,
    XlaKernels,
    kernel_of,
    made_once,
    output_names,
)
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import PLAIN, Address, Addresses, Kernel, Launch, Reading
from hloscope.memory.kinds import synchronous
from hloscope.memory.levels import Levels, Measured, together
from hloscope.memory.reads import Place, Reads
from hloscope.memory.stated import StatedKernels
from hloscope.memory.storage import is_array
from hloscope.memory.thread_maps import ThreadLayout, kernel_by
from hloscope.memory.touched import touched_by, whole
from hloscope.memory.verdicts import by_heuristic, by_map
from hloscope.support.devices import Device
from hloscope.tiling import chosen_tiles

if TYPE_CHECKING:
    from hloscope.memory.dumps import DumpedModule


class Memory:
    """Coalescing analysis of one program's kernels on one device. Equal kernels share one result.

    Attributes:
        analysis: The indexing analysis of the program.
        device: The device that the kernels run on.
        threads: Threads of a block in a loop kernel; `None` if the user gives no number.
        blocks: Blocks of the grid; `None` if the user gives no number.
        vector: Elements that a thread computes; `None` if the user gives no number.
        thread_map: Map from threads to elements of the output, or layout of a tile, that replaces
            the emitter's.
        tile: Tile sizes of block-level fusions, in place of those of their backend configs.
        verdicts_only: Compute XLA's own verdicts only.
        stated: Facts about the kernels in the program's dump folder; `None` without a folder.
    """

    def __init__(
        self,
        analysis: Analysis,
        device: Device,
        *,
        threads: int | None = None,
        blocks: int | None = None,
        vector: int | None = None,
        thread_map: IndexingMap | ThreadLayout | None = None,
        tile: tuple[int, ...] | None = None,
        verdicts_only: bool = False,
        dump: DumpedModule | None = None,
    ) -> None:
        self.analysis: Final = analysis
        self.device: Final = device
        self._options: Final = {"threads": threads, "blocks": blocks, "vector": vector}
        self._thread_map: Final = thread_map
        self._tile: Final = tile
        self._verdicts_only: Final = verdicts_only
        self.kernels: Final = XlaKernels(analysis, device)
        self._answers: dict[object, Coalescing] = {}
        self._addresses: Final = Addresses(analysis)
        self._levels: Final = Levels(device)
        self._verdict: dict[tuple[IndexingMap, TensorType], bool] = {}
        self.stated: Final = None if dump is None else StatedKernels(dump, device, self.counted)

    def of_instruction(self, ins: Instruction) -> Coalescing:
        """Return the coalescing of a fusion, or of an instruction with its own kernel.

        Raises:
        UnsupportedError: The instruction has no kernel of XLA's own emitters.
        """
        answer = self.of_equal(ins)
        if answer.name != ins.name:
            names, written = [o.name for o in ins.operands], output_names(ins, self.analysis)
            operands = [replace(a, name=names[a.number]) for a in answer.operands]
            outputs = [replace(a, name=written[a.number]) for a in answer.outputs]
            answer = replace(
                answer, name=ins.name, operands=tuple(operands), outputs=tuple(outputs)
            )
        # The user may give the launch, thread map or tiles, or ask for XLA's verdicts only.
        is_given = self._thread_map is not None or self._tile is not None
        if self.stated is None or is_given or any(self._options.values()) or self._verdicts_only:
            return answer
        return self.stated.completed(ins, self._under_stated_launch(ins, answer))

    def _under_stated_launch(self, ins: Instruction, answer: Coalescing) -> Coalescing:
        """Return the result for the launch that the dump folder states.

        Return `answer` if the folder states none, or if the modelled emitter cannot produce that
        launch.

        Args:
            ins: The fusion or instruction.
            answer: The result for the launch that the model computes.
        """
        assert self.stated is not None
        stated, model = self.stated.launch(ins), answer.kernel.launch
        if stated is None or model is None or stated == model:
            return answer
        fused = Fused.of_instruction(synchronous(ins))
        choice = Choice(
            fused, self.device, self.analysis, threads=stated.block_size, blocks=prod(stated.blocks)
        )
        kernel = kernel_of(choice)
        # An emitter may ignore the requested launch: its maps then do not describe the real kernel.
        if kernel.launch != stated:
            return answer
        found = f"XLA launches {stated}, the model says {model}"
        return replace(self.of_kernel(fused, choice, kernel), findings=(found,))

    def counted(self, map: IndexingMap, bits: int, launch: Launch, vector: int) -> Touch:
        """Return one access by threads to elements of `bits` bits, with its traffic.

        Args:
            map: Map from threads (x, y, z), blocks (x, y, z) and loops to the element's address, in
                elements.
            bits: Bits of an element.
            launch: Blocks and threads.
            vector: Consecutive elements that a thread accesses at once.
        """
        return self._levels.counted(map, bits, launch, vector)

    def of_equal(self, ins: Instruction) -> Coalescing:
        """Return the coalescing of a kernel that equals the kernel of `ins` except for names.

        Names in the result may be those of the equal kernel.

        Raises:
        UnsupportedError: The instruction has no kernel of XLA's own emitters.
        """
        ins = synchronous(ins)
        key = self.kernels.key(ins)
        return made_once(self._answers, key, lambda: self._of(ins, key))

    def _of(self, ins: Instruction, key: tuple[object, ...] | None) -> Coalescing:
        if self._thread_map is None and not any(self._options.values()):  # they are above 0
            return self.of_kernel(*self.kernels.of(ins, key))
        fused, given = Fused.of_instruction(ins), self._thread_map
        choice = Choice(fused, self.device, self.analysis, **self._options)
        kernel = kernel_of(choice) if given is None else kernel_by(choice, given)
        return self.of_kernel(fused, choice, kernel)

    def of_kernel(self, fused: Fused, choice: Choice, kernel: Kernel) -> Coalescing:
        """Return the coalescing of a kernel that XLA generates or a thread map defines."""
        subject = fused.instruction or fused.roots[0]
        emitter = choice.emitter if kernel.emitter != BLOCK_LEVEL else BLOCK_LEVEL
        heuristic = by_heuristic(emitter, subject, None, self.device)
        reads = Reads(self.analysis, fused, kernel)
        uses = self._tile_uses(fused, kernel)
        operands = [self._operand(place, fused, kernel, reads, uses) for place in reads.by_array]
        outputs = self._outputs(fused, kernel, uses)
        shared = () if self._verdicts_only or kernel.launch is None else kernel.shared
        banks = tuple([bank_use(access, kernel.launch, self.device) for access in shared])
        return Coalescing(
            fused.name, kernel, self.device, heuristic, tuple(operands), tuple(outputs), banks,
            kernel.notes,
        )  # fmt: skip

    # -------------------------------------------------------------------------------- operands

    def _operand(
        self, place: Place, fused: Fused, kernel: Kernel, reads: Reads, uses: TileUses | None
    ) -> ArrayUse:
        number, leaf = place
        readings = reads.by_array[place]
        type = self.analysis.tensors(fused.edge[number].type)[leaf]
        assert isinstance(type, TensorType)
        name = fused.operands[number].name
        logical = dict.fromkeys([a.map for _, a in readings if a.map is not None])
        # Atomics also read the elements that they update, so these belong to the footprint.
        old = [reading.map.compose(a.map) for reading, a in reads.old(place) if a.map is not None]
        logical |= dict.fromkeys(old)
        reasons = dict.fromkeys([a.reason for _, a in readings if a.reason])
        is_unknown = any(a.map is None for _, a in readings) or not is_array(type)
        touched = whole(type, is_exact=False) if is_unknown else touched_by([*logical], type)
        if kernel.launch is None or not is_array(type):
            tile = self._tile_of(fused, place, [a for _, a in readings], type, uses)
            return ArrayUse(
                number, leaf, name, type, (), None, touched, None, "; ".join(reasons), tile
            )
        verdict: bool | None = None
        measured = Measured()
        try:
            verdict = self._by_maps(readings, type)
            loops = dict.fromkeys([_loop(*one) for one in reads.loaded(place)]) or {0: None}
            measured = together([self._read(loop, place, type, kernel, reads) for loop in loops])
        except TooLargeError as error:
            measured = Measured(reason=error.message)
        if measured.reason:
            reasons[measured.reason] = None
        return ArrayUse(
            number, leaf, name, type, measured.touches, None if is_unknown else measured.traffic,
            touched, verdict, "; ".join(reasons),
            emitted=None if is_unknown else measured.emitted, change=measured.change,
        )  # fmt: skip

    def _by_maps(self, readings: Sequence[tuple[Reading, Access]], type: TensorType) -> bool:
        if type.rank == 0:
            return True
        for reading, access in readings:
            if not reading.is_hero:
                continue
            # XLA calls an access that it has no map for uncoalesced.
            if access.map is None:
                return False
            map = self._addresses.of_hero(reading, access, type)
            if map is None:
                continue
            key = map, type
            # Operands of a loop kernel mostly have the same map and type.
            known = self._verdict.get(key)
            if known is None:
                known = self._verdict[key] = by_map(map, type)
            if not known:
                return False
        return True

    def _read(
        self, loop: int, place: Place, type: TensorType, kernel: Kernel, reads: Reads
    ) -> Measured:
        """Return the loads of one array in one loop of the kernel, with their traffic.

        Args:
            loop: Number of the loop; 0 for loads outside of all numbered loops.
            place: Numbers of the operand and of its array.
            type: Type of the array.
            kernel: The kernel.
            reads: Accesses of the kernel's inputs.
        """

        def addresses(reading: Reading, accesses: Iterable[Access]) -> list[Address]:
            here = [access for access in accesses if _loop(reading, access) == loop]
            found = [self._addresses.read(reading, access, type) for access in here]
            return [address for address in found if address is not None]

        def loads() -> list[list[Address]] | None:
            found = reads.loads(place)
            return None if found is None else [addresses(*load) for load in found]

        every = [a for reading, access in reads.loaded(place) for a in addresses(reading, [access])]
        if self._verdicts_only:
            return _without_traffic(every)
        return self._levels.read(every, type, kernel, loads, reads.predicate(place))

    # ----------------------------------------------------------------------------------- tiles

    def _tile_uses(self, fused: Fused, kernel: Kernel) -> TileUses | None:
        """Return the tile use of a block-level fusion's arrays; `None` for other kernels."""
        ins = fused.instruction
        if kernel.launch is not None or ins is None or self._verdicts_only:
            return None
        return tile_uses(ins, self._tile, self.device)

    def _tiles(self, fused: Fused) -> list[tuple[int, ...]]:
        """Return the tile sizes of each output of a block-level fusion.

        The result is empty if they are unknown, or if only verdicts are requested.
        """
        if self._verdicts_only:
            return []
        if self._tile is not None:
            return [self._tile] * max(len(fused.outputs(self.analysis)), 1)
        chosen = None if fused.instruction is None else chosen_tiles(fused.instruction)
        return [] if chosen is None else [*chosen.outputs]

    def _tile_of(
        self,
        fused: Fused,
        place: Place,
        accesses: Sequence[Access],
        type: TensorType,
        uses: TileUses | None,
    ) -> TileUse | None:
        """Return the use of memory transactions by the tiles of one operand of a kernel.

        Of several tiles, the one with the lowest utilisation counts. `None` if the tiles are
        unknown.

        Args:
            fused: Instructions of the kernel.
            place: Numbers of the operand and of its array.
            accesses: Accesses from elements of the outputs to the array.
            type: Type of the array.
            uses: Results by XLA's symbolic tiles, which are preferred; `None` without them.
        """
        if not is_array(type) or type.rank == 0:
            return None
        if uses is not None and place in uses.operands:
            return uses.operands[place]
        tiles = self._tiles(fused)
        found: list[TileUse] = []
        for access in accesses:
            fits = [t for t in tiles if access.map and len(t) == len(access.map.dims)]
            if not fits:
                return None
            use = operand_tile(access, fits[0], type, self.device)
            if use is None:
                return None
            found.append(use)
        return min(found, key=lambda use: use.utilisation, default=None)

    # --------------------------------------------------------------------------------- outputs

    def _outputs(self, fused: Fused, kernel: Kernel, uses: TileUses | None) -> list[ArrayUse]:
        found = []
        for number, (_, root, leaf, type) in enumerate(fused.outputs(self.analysis)):
            maps = kernel.outputs[number] if number < len(kernel.outputs) else None
            if maps is None or kernel.launch is None or not is_array(type):
                is_block_level = kernel.launch is None
                reason = "" if is_block_level else "where it is written is not known"
                if not is_array(type):
                    reason = "its sizes are not known"
                touched = whole(type, is_exact=is_block_level)
                tile = self._output_tile(fused, kernel, number, type, uses)
                found.append(
                    ArrayUse(
                        number, leaf, root.name, type, (), None, touched, None, reason, tile, True
                    )
                )
                continue
            try:
                stores = kernel.stores.get(number, PLAIN)
                placed = [self._addresses.written(map, type, stores) for map in maps]
                if self._verdicts_only:
                    measured = _without_traffic(placed)
                else:
                    measured = self._levels.written(placed, type, kernel, stores)
            except TooLargeError as error:
                measured = Measured(reason=error.message)
            # Without run-time indices a kernel writes each element of its output.
            is_data = any(map.runtime for map in maps)
            touched = touched_by([*maps], type) if is_data else whole(type)
            found.append(
                ArrayUse(
                    number, leaf, root.name, type, measured.touches, measured.traffic, touched,
                    None, measured.reason, is_output=True, emitted=measured.emitted,
                    change=measured.change,
                )
            )  # fmt: skip
        return found

    def _output_tile(
        self,
        fused: Fused,
        kernel: Kernel,
        number: int,
        type: TensorType,
        uses: TileUses | None,
    ) -> TileUse | None:
        """Return the tile use of an output of a block-level fusion; `None` if it is unknown."""
        if kernel.launch is not None or not is_array(type):
            return None
        if uses is not None and number in uses.outputs:
            return uses.outputs[number]
        tiles = self._tiles(fused)
        if number >= len(tiles) or len(tiles[number]) != type.rank or not type.rank:
            return None
        return tile_use(type, tiles[number], [1] * type.rank, self.device.transaction)


def _loop(reading: Reading, access: Access) -> int:
    """Return the number of the loop that contains an access; 0 if no loop variable occurs in it."""
    return reading.loop if access.map is not None and access.map.ranges else 0


def _without_traffic(addresses: Iterable[Address]) -> Measured:
    """Return accesses whose traffic is not counted, for queries about XLA's verdicts only.

    `addresses` are the accesses as XLA emits them.
    """
    maps = dict.fromkeys([address.map for address in addresses])
    return Measured(tuple([Touch((map,), None, None) for map in maps]))
