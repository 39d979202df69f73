"""What decides on the emitter of a kernel: roots, heroes, element sizes, the device.

Source: XLA `xla/service/gpu/hlo_fusion_analysis.cc`, `gpu_fusible.cc`.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd, prod
from typing import Final

from hloscope.devices import Device
from hloscope.fusion import Analysis
from hloscope.indexing import IndexingMap, input_to_output, major_to_minor
from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import Fused, behind_tuples
from hloscope.memory.heroes import hero_of, is_tiled_transpose
from hloscope.memory.kernel import THREAD, Launch, loop_variable, split
from hloscope.memory.reductions import ReductionShape, is_reduction_hero
from hloscope.memory.storage import element_count, index_in, is_array, physical_sizes, same_memory
from hloscope.memory.transposes import TransposeShape
from hloscope.ops import Concatenate, DotGeneral, Reduce, ReduceWindow, Scatter, Sort

UNROLL: Final = 4
"""Elements of a thread of a loop, at most; see `Choice.unroll`."""
WIDE_UNROLL: Final = 8
"""The same where loads have 256 bits."""
LARGEST_WINDOW: Final = 8
MOST_CONCATENATED: Final = 10
MOST_CONCATENATE_HERO: Final = 4
WARPS_OF_LOOP: Final = 4
NO_BITS: Final = 1 << 31


class Choice:
    """One kernel to be: what its emitter is chosen by, and what all emitters share.

    Attributes:
        fused: What is computed.
        device: Where.
        analysis: What values read of others.
        roots: The values written, `get-tuple-element` looked through.
        heroes: The hero of each root.
        threads: Threads of a block of a loop, where the user says so.
        blocks: Blocks of the grid of a loop, where the user says so.
        unroll_asked: Elements of a thread, where the user says so.
    """

    def __init__(
        self,
        fused: Fused,
        device: Device,
        analysis: Analysis,
        *,
        threads: int | None = None,
        blocks: int | None = None,
        vector: int | None = None,
    ) -> None:
        self.fused: Final = fused
        self.device: Final = device
        self.analysis: Final = analysis
        self.roots: Final = fused.roots
        self.heroes: Final = tuple([hero_of(behind_tuples(root), fused) for root in fused.roots])
        self.threads: Final = threads
        self.blocks: Final = blocks
        self.unroll_asked: Final = vector

    # ------------------------------------------------------------------------- which emitter

    @cached_property
    def emitter(self) -> str:
        """The kind of emitter: `reduction`, `transpose`, `scatter`, `concatenate`, `loop`."""
        if self._is_reduction():
            return "reduction"
        if self._is_transpose():
            return "transpose"
        if len(self.roots) > 1:
            return "loop"
        if isinstance(self.roots[0].op, Scatter):
            return "scatter"
        hero = self.heroes[0]
        few = len(hero.operands) <= MOST_CONCATENATE_HERO
        return "concatenate" if isinstance(hero.op, Concatenate) and few else "loop"

    def is_reduction_root(self, number: int) -> bool:
        """Does a reduction emitter write this root?"""
        root = behind_tuples(self.roots[number])
        return is_reduction_hero(root, self.heroes[number], self.device)

    @cached_property
    def first_reduction(self) -> Instruction | None:
        """The hero that all reductions of the kernel must be like."""
        return next((hero for k, hero in enumerate(self.heroes) if self.is_reduction_root(k)), None)

    def _is_reduction(self) -> bool:
        first = self.first_reduction
        if first is None:
            return False
        shape, type = ReductionShape.of(first), first.operands[0].type
        assert isinstance(type, TensorType)
        for k, hero in enumerate(self.heroes):
            if self.is_reduction_root(k):
                if ReductionShape.of(hero) != shape:
                    return False
            elif self.elements(k) != element_count(type):
                return False
        return True

    @cached_property
    def transpose(self) -> TransposeShape | None:
        """The transpose that all transposed roots share, `None` if there is none such."""
        shapes = [TransposeShape.of(h) for h in self.heroes if is_tiled_transpose(h)]
        return shapes[0] if shapes and len(set(shapes)) == 1 else None

    def _is_transpose(self) -> bool:
        if self.transpose is None:
            return False
        source = next(h for h in self.heroes if is_tiled_transpose(h)).operands[0].type
        assert isinstance(source, TensorType)
        return all(
            is_tiled_transpose(hero) or (type is not None and same_memory(type, source))
            for hero, type in zip(self.heroes, map(self.array, range(len(self.roots))), strict=True)
        )

    # -------------------------------------------------------------------------------- figures

    def array(self, number: int) -> TensorType | None:
        """The type of the first array of a root."""
        return first_array(self.analysis, self.roots[number])

    def elements(self, number: int) -> int:
        """Elements of the first array of a root."""
        type = self.array(number)
        return 1 if type is None else element_count(type)

    @cached_property
    def input_bits(self) -> int:
        """Bits of the narrowest elements read; very many where nothing is read."""
        return min([type.element.bits for type in self.fused.tensors], default=NO_BITS)

    @cached_property
    def output_bits(self) -> int:
        """Bits of the narrowest elements written."""
        types = [type for *_, type in self.fused.outputs(self.analysis)]
        return min([type.element.bits for type in types], default=8)

    @cached_property
    def prevents_vectors(self) -> bool:
        """Would a thread with several elements need too many registers?"""
        return any(map(_prevents_vectors, self.fused.inside))

    def unroll(self, elements: int) -> int:
        """Elements that a thread of a loop over so many elements touches."""
        if self.unroll_asked is not None:
            return self.unroll_asked
        found = 1
        if elements >= self.device.threads and not self.prevents_vectors:
            found = gcd(elements, self._most_unrolled())
        if self.output_bits < 8 and found == 1:
            found = -(-8 // self.output_bits)
        return found

    def _most_unrolled(self) -> int:
        outputs = self.fused.outputs(self.analysis)
        is_reducing = any(isinstance(ins.op, Reduce) for ins in self.fused.inside)
        narrow = all(t.element.bits < self.device.vector_bits // 4 for *_, t in outputs)
        if self.device.is_wide and len(outputs) == 1 and narrow and not is_reducing:
            return WIDE_UNROLL
        return UNROLL

    def launch(self, elements: int, unroll: int) -> Launch:
        """Launch dimensions of a loop."""
        needed = -(-elements // unroll)
        threads = self.threads or max(min(WARPS_OF_LOOP * self.device.warp, needed), 1)
        return Launch.of(threads, self.blocks or max(-(-needed // threads), 1))

    def over_elements(self, type: TensorType, launch: Launch, unroll: int) -> IndexingMap:
        """From threads to elements of an array, one after another in memory order."""
        count, sizes = element_count(type), physical_sizes(type)
        each = launch.block_size * launch.blocks[0] * launch.blocks[1] * unroll
        rounds = max(-(-count // each), 1)
        linear = (launch.block * launch.block_size + THREAD) * unroll
        ranges = [rounds] if rounds > 1 else []
        if rounds > 1:
            linear = linear + loop_variable(0) * each
        if unroll > 1:
            linear = linear + loop_variable(len(ranges))
            ranges.append(unroll)
        order = major_to_minor(type)
        parts = split(linear, sizes)
        index = [parts[order.index(k)] for k in range(type.rank)]
        inside = [(linear, count)] if each * rounds != count else []
        return launch.map(ranges, index, inside).simplify(replace_points=False)


def first_array(analysis: Analysis, value: Instruction) -> TensorType | None:
    """The type of the first array of a value, if its sizes are known."""
    for type in analysis.tensors(value.type):
        if isinstance(type, TensorType):
            return type if is_array(type) else None
    return None


def in_memory_of(map: IndexingMap, here: TensorType, there: TensorType) -> IndexingMap | None:
    """The map to the element at the same place of another array; `None` if sizes do not agree."""
    if element_count(here) != element_count(there):
        return None
    if here.shape == there.shape and major_to_minor(here) == major_to_minor(there):
        return map
    parts = [map.results[k] for k in major_to_minor(here)]
    return map.with_(results=index_in(parts, physical_sizes(here), there)).simplify()


def written_by(ins: Instruction, operand: int, map: IndexingMap) -> tuple[IndexingMap, ...] | None:
    """Where the elements of an operand go, from threads on; `None` if nobody knows."""
    accesses = input_to_output(ins, operand)
    if not accesses or any(access.map is None for access in accesses[0]):
        return None
    maps = [a.map for a in accesses[0] if a.map is not None]
    return tuple([map.compose(further).simplify() for further in maps])


def _prevents_vectors(ins: Instruction) -> bool:
    match ins.op:
        case ReduceWindow(window=window):
            return prod(window.sizes) > LARGEST_WINDOW
        case Sort() | DotGeneral():
            return True
        case Concatenate():
            return len(ins.operands) > MOST_CONCATENATED
        case Reduce():
            return len(ins.operands) > 2
        case _:
            return ins.op.name == "dot"
