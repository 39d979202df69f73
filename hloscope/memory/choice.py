"""Selection of a kernel's emitter by roots, heroes, element sizes and the device."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Final

from hloscope.affine import Range
from hloscope.fusion import Analysis
from hloscope.indexing import IndexingMap, input_to_output, major_to_minor
from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import Fused, behind_tuples
from hloscope.memory.kernel import THREAD, Launch, split
from hloscope.memory.storage import (
    ReductionShape,
    TransposeShape,
    array_of,
    element_count,
    index_in,
    is_array,
    is_reduction_hero,
    physical_sizes,
    same_memory,
)
from hloscope.ops import (
    Bitcast,
    Concatenate,
    DotGeneral,
    Elementwise,
    Reduce,
    ReduceWindow,
    Reshape,
    Scatter,
    Sort,
    Transpose,
)
from hloscope.support.devices import Device
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# Selection of a kernel's emitter by roots, heroes, element sizes and the device.
#
# Source: XLA `xla/service/gpu/hlo_fusion_analysis.cc`, `gpu_fusible.cc`.


UNROLL: Final = 4
"""Maximum number of elements that a thread of a loop kernel computes; see `Choice.unroll`."""
WIDE_UNROLL: Final = 8
"""`UNROLL` on devices whose loads can have 256 bits."""
LARGEST_WINDOW: Final = 8
MOST_CONCATENATED: Final = 10
MOST_CONCATENATE_HERO: Final = 4
WARPS_OF_LOOP: Final = 4
NO_BITS: Final = 1 << 31


class Choice:
    """A fusion on a device, with everything that decides its emitter.

    Attributes:
        fused: The instructions that the kernel computes.
        device: The device.
        analysis: The indexing analysis of the program.
        roots: The values that are written; for a `get-tuple-element`, the value behind it.
        heroes: The hero of each root; see `hero_of`.
        threads: Threads of a block of a loop kernel; `None` if the user gives no number.
        blocks: Blocks of the grid of a loop kernel; `None` if the user gives no number.
        unroll_asked: Elements that a thread computes; `None` if the user gives no number.
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

    @property
    def emitter(self) -> str:
        """Return the emitter: `reduction`, `transpose`, `scatter`, `concatenate` or `loop`."""
        # XLA tries the emitters in this order; the first that accepts all roots is taken.
        if self._is_reduction():
            return "reduction"
        if self._is_transpose():
            return "transpose"
        # Only reductions and transposes have emitters for several roots.
        if len(self.roots) > 1:
            return "loop"
        if isinstance(self.roots[0].op, Scatter):
            return "scatter"
        hero = self.heroes[0]
        few = len(hero.operands) <= MOST_CONCATENATE_HERO
        return "concatenate" if isinstance(hero.op, Concatenate) and few else "loop"

    def is_reduction_root(self, number: int) -> bool:
        """Does a reduction emitter write root `number`, counted from 0?"""
        root = behind_tuples(self.roots[number])
        return is_reduction_hero(root, self.heroes[number], self.device)

    @property
    def first_reduction(self) -> Instruction | None:
        """Return the hero of the first root that a reduction emitter writes; `None` without one.

        Heroes of other reduction roots must have the same shape.
        """
        return next((hero for k, hero in enumerate(self.heroes) if self.is_reduction_root(k)), None)

    def _is_reduction(self) -> bool:
        first = self.first_reduction
        if first is None:
            return False
        shape, type = ReductionShape.of(first), first.operands[0].type
        assert isinstance(type, TensorType)
        for k, hero in enumerate(self.heroes):
            if self.is_reduction_root(k):
                # All reductions share one thread map, so their shapes agree; other roots are
                # written on the way and must have one element for each element of the reduced
                # operand.
                if ReductionShape.of(hero) != shape:
                    return False
            elif self.elements(k) != element_count(type):
                return False
        return True

    @property
    def transpose(self) -> TransposeShape | None:
        """Return the transpose that all transposed heroes share.

        `None` if no hero is a tiled transpose, or if two of them differ.
        """
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
        """Return the type of the first array that root `number` writes, counted from 0.

        `None` if its sizes are unknown.
        """
        for type in self.analysis.tensors(self.roots[number].type):
            if isinstance(type, TensorType):
                return type if is_array(type) else None
        return None

    def elements(self, number: int) -> int:
        """Return the number of elements of the first array of root `number`; 1 if unknown."""
        type = self.array(number)
        return 1 if type is None else element_count(type)

    @property
    def input_bits(self) -> int:
        """Return the bits of the narrowest elements that the fusion reads.

        The result is `NO_BITS` if it reads nothing.
        """
        return min([type.element.bits for type in self.fused.tensors], default=NO_BITS)

    @property
    def output_bits(self) -> int:
        """Return the bits of the narrowest elements that the fusion writes; 8 if there are none."""
        types = [type for *_, type in self.fused.outputs(self.analysis)]
        return min([type.element.bits for type in types], default=8)

    @property
    def prevents_vectors(self) -> bool:
        """Does an instruction need so many registers that a thread gets one element only?"""
        return any(map(_prevents_vectors, self.fused.inside))

    def unroll(self, elements: int) -> int:
        """Return how many elements a thread of a loop over `elements` elements computes."""
        if self.unroll_asked is not None:
            return self.unroll_asked
        found = 1
        if elements >= self.device.threads and not self.prevents_vectors:
            found = gcd(elements, self._most_unrolled())
        # A thread must store whole bytes: two threads would race for the bits of one byte.
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
        """Return the grid and the blocks of a loop kernel over `elements` elements.

        Each thread computes `unroll` of them.
        """
        needed = -(-elements // unroll)
        threads = self.threads or max(min(WARPS_OF_LOOP * self.device.warp, needed), 1)
        return Launch.of(threads, self.blocks or max(-(-needed // threads), 1))

    def over_elements(self, type: TensorType, launch: Launch, unroll: int) -> IndexingMap:
        """Return the map from threads to the elements of an array, in memory order.

        Each thread has `unroll` consecutive elements. If the grid is too small, a loop runs over
        the rest.
        """
        count, sizes = element_count(type), physical_sizes(type)
        each = launch.block_size * launch.blocks[0] * launch.blocks[1] * unroll
        # A grid that is too small for the array, as a user may ask for, loops over it.
        rounds = max(-(-count // each), 1)
        linear = (launch.block * launch.block_size + THREAD) * unroll
        ranges = [rounds] if rounds > 1 else []
        if rounds > 1:
            linear = linear + Range(0) * each
        if unroll > 1:
            linear = linear + Range(len(ranges))
            ranges.append(unroll)
        order = major_to_minor(type)
        parts = split(linear, sizes)
        index = [parts[order.index(k)] for k in range(type.rank)]
        # The bounds check is needed only if the last round is not full.
        inside = [(linear, count)] if each * rounds != count else []
        return launch.map(ranges, index, inside).simplify(replace_points=False)


def in_memory_of(
    map: IndexingMap, array_type: TensorType, other_type: TensorType
) -> IndexingMap | None:
    """Return the map to the elements of another array at the same positions in memory.

    `None` if the arrays have different numbers of elements.

    Args:
        map: Map to indices of the array of type `array_type`.
        array_type: Type of the array that the map leads to.
        other_type: Type of the other array.
    """
    if element_count(array_type) != element_count(other_type):
        return None
    if array_type.shape == other_type.shape and major_to_minor(array_type) == major_to_minor(
        other_type
    ):
        return map
    parts = [map.results[k] for k in major_to_minor(array_type)]
    return map.with_(results=index_in(parts, physical_sizes(array_type), other_type)).simplify()


def written_by(ins: Instruction, operand: int, map: IndexingMap) -> tuple[IndexingMap, ...] | None:
    """Return maps from threads to the result elements that an operand's elements are written to.

    `None` if they are unknown.

    Args:
        ins: The instruction.
        operand: Number of the operand.
        map: Map from threads to elements of the operand.
    """
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
            return len(ins.operands) != 2
        case _:
            return ins.op.name == "dot"


# --------------------------------------------------------------------------------------------------
# Heroes: the instruction of each root that decides which emitter generates its kernel.
#
# Source: XLA `xla/service/gpu/ir_emission_utils.cc`, `FindNonTrivialHero`.


WIDE: Final = 3
"""Maximum number of operands of an op that lies between a root and its transpose or concatenation
hero.
"""


def hero_of(root: Instruction, fused: Fused) -> Instruction:
    """Return the hero of a root: a reduction, tiled transpose or concatenation, or the root itself.

    Only ops for which `is_intermediate` holds may lie between the hero and the root.
    """
    hero = root
    while is_intermediate(hero, 1) and fused.contains(hero.operands[0]):
        hero = hero.operands[0]
    for predicate in (is_tiled_transpose, lambda ins: isinstance(ins.op, Concatenate)):
        found = _searched(hero, fused, predicate)
        if found is not None:
            return found
    return hero if isinstance(hero.op, Reduce) else root


def is_tiled_transpose(ins: Instruction) -> bool:
    """Does the transpose emitter accept this instruction as a hero?"""
    shape = TransposeShape.of(ins)
    return shape is not None and shape.is_tiled


def is_intermediate(ins: Instruction, most_operands: int) -> bool:
    """May the instruction lie between a root and its hero?

    It must be element-wise, or a reshape or transpose that leaves all elements at their addresses,
    with at least one and at most `most_operands` operands.
    """
    if not 0 < len(ins.operands) <= most_operands:
        return False
    if ins.op.name == "copy":
        here, there = array_of(ins), array_of(ins.operands[0])
        if here is None or there is None:
            return False
        return major_to_minor(here) == major_to_minor(there)
    if isinstance(ins.op, Reshape | Transpose):
        return leaves_memory(ins)
    return isinstance(ins.op, Elementwise | Bitcast)


def leaves_memory(ins: Instruction) -> bool:
    """Does a reshape or transpose leave all elements at their addresses?"""
    here, there = array_of(ins), array_of(ins.operands[0])
    if here is None or there is None:
        return False
    if isinstance(ins.op, Transpose):
        # Dimensions of size 1 have no place in memory; only the order of the others counts.
        moved = [k for k in major_to_minor(here) if here.shape[k] != 1]
        place = {dimension: at for at, dimension in enumerate(major_to_minor(there))}
        places = [place[ins.op.permutation[k]] for k in moved]
        return places == sorted(places)
    are_row_major = all([physical_sizes(type) == type.shape for type in (here, there)])
    return same_memory(here, there) or are_row_major


def _searched(
    start: Instruction, fused: Fused, predicate: Callable[[Instruction], bool]
) -> Instruction | None:
    """Return the only producer that satisfies `predicate`, behind intermediate ops of the kernel.

    `None` if there is none or more than one. `start` itself is also tested.
    """
    hero = None
    todo, seen = [start], {start}
    while todo:
        ins = todo.pop(0)
        # Two candidates would need two different thread maps, so neither is the hero.
        if predicate(ins):
            if hero is not None:
                return None
            hero = ins
        if not is_intermediate(ins, WIDE):
            continue
        for operand in ins.operands:
            if fused.contains(operand) and operand not in seen:
                seen.add(operand)
                todo.append(operand)
    if hero is None:
        return None
    after = reached(fused.users.get(hero, ()), lambda ins: fused.users.get(ins, ()))
    is_simple = all(ins.op.name == "tuple" or is_intermediate(ins, WIDE) for ins in after)
    return hero if is_simple else None
