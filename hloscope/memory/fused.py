"""Instructions of one kernel, and its input accesses grouped by load instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from hloscope.fusion import INSIDE, AccessInterner, AccessTraversal, Analysis, Flow, composed
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.ops import Fusion, GetTupleElement, Parameter, Tuple
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# The instructions of one kernel: a fusion, a computation, or an instruction alone.


T = TypeVar("T")
Edge = dict[tuple[int, int], Accesses]
"""Accesses of a kernel's inputs, by (operand number, number of the tensor in it)."""


InstructionReads: TypeAlias = Callable[[Instruction, int], Iterable[Flow]]
"""Function that returns the accesses of operands by one array of an instruction's result.

Its arguments are the instruction and the number of the array.
"""


class Fused:
    """Instructions that one kernel computes, with the arrays that it reads and writes.

    Attributes:
        name: Name of the fusion, instruction or computation.
        instruction: The fusion or instruction; `None` for a computation.
        inside: Instructions in order of definition.
        edge: The values read: parameters of the fused computation, or operands of the instruction.
        operands: The caller's operand for each value of `edge`.
        roots: The values written; a tuple counts as its elements.
    """

    def __init__(
        self,
        name: str,
        inside: tuple[Instruction, ...],
        edge: tuple[Instruction, ...],
        root: Instruction,
        instruction: Instruction | None = None,
    ) -> None:
        self.name: Final = name
        self.instruction: Final = instruction
        self.inside: Final = inside
        self.edge: Final = edge
        self.operands: Final = edge if instruction is None else instruction.operands
        self.roots: Final = roots_of(root)
        self._position: Final = {ins: at for at, ins in enumerate(inside)}
        self._number: Final = first_places(edge)

    @classmethod
    def of_instruction(cls, ins: Instruction) -> Fused:
        """Return the instructions of a fusion, or any other instruction as a kernel of its own."""
        if isinstance(ins.op, Fusion) and len(ins.calls) == 1:
            return cls.of_computation(ins.calls[0], ins)
        return cls(ins.name, (ins,), ins.operands, ins, ins)

    @classmethod
    def of_computation(cls, computation: Computation, fusion: Instruction | None = None) -> Fused:
        """Return the instructions of a computation as one kernel that reads its parameters.

        Args:
            computation: The computation.
            fusion: The fusion that calls it; `None` for a computation on its own.
        """
        inside = [i for i in computation.instructions if not isinstance(i.op, Parameter)]
        edge = computation.parameters
        if fusion is not None and len(fusion.operands) != len(edge):
            edge = edge[: len(fusion.operands)]
        name = computation.name if fusion is None else fusion.name
        return cls(name, tuple(inside), edge, computation.root, fusion)

    def contains(self, ins: Instruction) -> bool:
        """Is `ins` computed by this kernel?"""
        return ins in self._position

    # The search for a hero asks at each step.
    @cached_property
    def users(self) -> Mapping[Instruction, tuple[Instruction, ...]]:
        """Return the instructions of the kernel that read each value."""
        found: dict[Instruction, list[Instruction]] = {}
        for ins in self.inside:
            for operand in dict.fromkeys(ins.operands):
                found.setdefault(operand, []).append(ins)
        return {value: tuple(users) for value, users in found.items()}

    @property
    def tensors(self) -> tuple[TensorType, ...]:
        """Return the types of all arrays that the kernel reads."""
        return tuple([v.type for v in self.edge if isinstance(v.type, TensorType)])

    def outputs(self, analysis: Analysis) -> list[tuple[int, Instruction, int, TensorType]]:
        """Return every array that the kernel writes.

        Each entry has the number of the root, the root, the number of the tensor in it, and its
        type.
        """
        return [
            (k, root, leaf, type)
            for k, root in enumerate(self.roots)
            for leaf, type in enumerate(analysis.tensors(root.type))
            if isinstance(type, TensorType)
        ]

    def reads(
        self,
        analysis: Analysis,
        value: Instruction,
        leaf: int,
        ends: frozenset[Instruction] = frozenset(),
        of_instruction: InstructionReads | None = None,
    ) -> Edge:
        """Return the accesses of the kernel's inputs that an element of a value needs.

        Args:
            analysis: Indexing analysis of the program.
            value: The value that is computed.
            leaf: Number of its leaf.
            ends: Values whose operands are not followed.
            of_instruction: Returns the operand accesses of an instruction's leaf; by default
                `analysis.reads`.
        """
        place = analysis.leaf_of(value.type, leaf)
        if place is None:
            return {}
        walk = AccessTraversal(analysis.interner, analysis.leaves)
        walk.begin(value, place)
        walk.to_producers(self._positions(value, ends), of_instruction or analysis.reads)
        arrays = self._arrays_at_edge(analysis, walk.found)
        return {at: tuple(accesses) for at, accesses in arrays}

    def loads(
        self,
        analysis: Analysis,
        value: Instruction,
        leaf: int,
        ends: frozenset[Instruction] = frozenset(),
        of_instruction: InstructionReads | None = None,
    ) -> dict[tuple[int, int], tuple[Load, ...]] | None:
        """Return the loads of each input array that an element of a value needs.

        Keys are (operand number, tensor number). Accesses of different loads stay separate, while
        `reads` merges them. `None` if an array has more than `MOST_LOADS` loads, or if a called
        computation reads an operand through several accesses.

        Args:
            analysis: Indexing analysis of the program.
            value: The value that is computed.
            leaf: Number of the tensor in the flattened value.
            ends: Values whose operands are not followed.
            of_instruction: Returns the operand accesses of an instruction's leaf; by default
                `analysis.reads`.
        """
        place = analysis.leaf_of(value.type, leaf)
        if place is None:
            return {}
        start = analysis.interner.identity(analysis.leaves(value.type)[place])
        positions = self._positions(value, ends)
        reads = of_instruction or analysis.reads
        found = loads_of(value, place, start, analysis.interner, positions, reads)
        if found is None:
            return None
        return dict(self._arrays_at_edge(analysis, found))

    def _positions(
        self, value: Instruction, ends: frozenset[Instruction]
    ) -> Callable[[Instruction], int | None]:
        """Return a function from an instruction to its position in order of definition.

        It returns `None` for inputs of the kernel, and for `ends` other than `value`.
        """

        def position(ins: Instruction) -> int | None:
            return None if ins in ends and ins is not value else self._position.get(ins)

        return position

    def _arrays_at_edge(
        self, analysis: Analysis, found: Mapping[Instruction, Mapping[int, T]]
    ) -> Iterator[tuple[tuple[int, int], T]]:
        """Yield, for each input array of the kernel in `found`, its numbers and its entry.

        The numbers are those of the operand and of the tensor in it. Only the entries of `found`
        are visited, since an output may read one of thousands of operands.

        Args:
            analysis: Indexing analysis of the program.
            found: For each value, entries by number of the tensor in it.
        """
        handed_in = [source for source in found if source in self._number]
        for source in sorted(handed_in, key=self._number.__getitem__):
            for part, of_part in sorted(found[source].items(), key=itemgetter(0)):
                tensor = analysis.tensor_of(source.type, part)
                if tensor is None or not of_part:
                    continue
                if isinstance(analysis.tensors(source.type)[tensor], TensorType):
                    yield (self._number[source], tensor), of_part


def roots_of(root: Instruction) -> tuple[Instruction, ...]:
    """Return the root, or the elements of a root that is a tuple; nested tuples are flattened."""
    every = nested([root], lambda ins: ins.operands if isinstance(ins.op, Tuple) else ())
    return tuple([ins for ins in every if not isinstance(ins.op, Tuple)])


def first_places(values: Iterable[Instruction]) -> dict[Instruction, int]:
    """Return the distinct values in order, each with the position where it first occurs."""
    found: dict[Instruction, int] = {}
    for k, value in enumerate(values):
        found.setdefault(value, k)
    return found


def behind_tuples(ins: Instruction) -> Instruction:
    """Return the producer behind a chain of `get-tuple-element`; any other value unchanged."""
    while isinstance(ins.op, GetTupleElement):
        ins = ins.operands[0]
    return ins


def unknown(reason: str) -> Accesses:
    """Return one access with no known map, for the given reason."""
    return (Access.unknown(reason),)


# --------------------------------------------------------------------------------------------------
# Loads: group the accesses of an array by the instruction that loads them.
#
# Accesses do not name their instructions. Two accesses of one element under different conditions
# are one load if an instruction has several pieces (a pad's value lies on several sides, the rest
# of an updated array lies around the update). They are two loads if two instructions read them.


MOST_LOADS: Final = 64
"""Maximum number of loads of one value that stay separate; beyond it `loads_of` gives up."""

Load: TypeAlias = tuple[Access, ...]
"""The accesses of one load instruction; equal accesses are one object, so `is` compares them."""
Loads: TypeAlias = dict[frozenset[int], Load]
"""Distinct loads of one array of a value, by the set of the `id`s of a load's accesses."""


def loads_of(
    value: Instruction,
    leaf: int,
    start: Access,
    interner: AccessInterner,
    position: Callable[[Instruction], int | None],
    reads: Callable[[Instruction, int], Iterable[Flow]],
) -> dict[Instruction, dict[int, tuple[Load, ...]]] | None:
    """Return the loads of each input value that an element of a value needs.

    Equal loads along several paths are one load.

    Args:
        value: The value that is computed.
        leaf: Number of the tensor in the flattened value.
        start: Access from the element to itself.
        interner: Interns and composes accesses.
        position: Position of an instruction in order of definition; `None` for input values.
        reads: Returns the operand accesses of a leaf of an instruction.

    Returns:
        For each input value the loads of each leaf. `None` if a leaf has more than `MOST_LOADS`, or
        if a called computation reads an operand through several accesses.
    """
    found: dict[Instruction, dict[int, Loads]] = {}
    heap: list[tuple[int, Instruction]] = []

    def add(ins: Instruction, leaf: int, load: Load) -> bool:
        """Record that the load `load` needs array `leaf` of the value of `ins`.

        Return `False` if the array then has more than `MOST_LOADS` different loads.
        """
        if ins not in found and (at := position(ins)) is not None:
            # Last definitions first: when a value is taken from the heap, all of its users inside
            # have been handled, so its loads are complete.
            heappush(heap, (-at, ins))
        every = found.setdefault(ins, {}).setdefault(leaf, {})
        every.setdefault(frozenset(map(id, load)), load)
        return len(every) <= MOST_LOADS

    add(value, leaf, (start,))
    while heap:
        _, ins = heappop(heap)
        for leaf, loads in found[ins].items():
            for operand, source, further in reads(ins, leaf):
                if further is not None and len(further) > 1 and isinstance(ins.op, INSIDE):
                    return None  # the accesses do not say which called instructions load them
                target = ins.operands[operand] if isinstance(operand, int) else operand
                for load in loads.values():
                    inner = load if further is None else composed(interner, load, further)
                    once = tuple({id(access): access for access in inner}.values())
                    if once and not add(target, source, once):
                        return None
    return {
        ins: {leaf: tuple(loads.values()) for leaf, loads in leaves.items()}
        for ins, leaves in found.items()
    }
