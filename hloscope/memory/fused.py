"""What one kernel would compute: a fusion, a computation, or an instruction on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from hloscope.fusion import Analysis, Flow, Walk
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.memory.loads import Load, loads_of
from hloscope.ops import Fusion, GetTupleElement, Parameter, Tuple
from hloscope.walks import nested

T = TypeVar("T")
Edge = dict[tuple[int, int], Accesses]
"""By number of an operand and of its tensor: how its elements are touched."""


InstructionReads: TypeAlias = Callable[[Instruction, int], Iterable[Flow]]
"""What a leaf of an instruction reads of its operands."""


class Fused:
    """Instructions that one kernel computes, with what is handed to them and what they write.

    Attributes:
        name: Of the fusion, instruction or computation.
        instruction: The fusion or instruction, `None` of a computation.
        inside: Instructions in order of definition.
        edge: What is read: parameters of the fused computation, or operands of the instruction.
        operands: What stands outside for each of them.
        roots: The values written.  A tuple at the end is no value of its own.
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
        self._number: Final = {value: k for k, value in reversed(list(enumerate(edge)))}

    @classmethod
    def of_instruction(cls, ins: Instruction) -> Fused:
        """A fusion with what is in it; any other instruction as if it were fused alone."""
        if isinstance(ins.op, Fusion) and len(ins.calls) == 1:
            return cls.of_computation(ins.calls[0], ins)
        return cls(ins.name, (ins,), ins.operands, ins, ins)

    @classmethod
    def of_computation(cls, computation: Computation, fusion: Instruction | None = None) -> Fused:
        """A computation whose parameters are in memory."""
        inside = [i for i in computation.instructions if not isinstance(i.op, Parameter)]
        edge = computation.parameters
        if fusion is not None and len(fusion.operands) != len(edge):
            edge = edge[: len(fusion.operands)]
        name = computation.name if fusion is None else fusion.name
        return cls(name, tuple(inside), edge, computation.root, fusion)

    def contains(self, ins: Instruction) -> bool:
        """Is it computed here?"""
        return ins in self._position

    @cached_property
    def users(self) -> Mapping[Instruction, tuple[Instruction, ...]]:
        """The instructions inside that read each value."""
        found: dict[Instruction, list[Instruction]] = {}
        for ins in self.inside:
            for operand in dict.fromkeys(ins.operands):
                found.setdefault(operand, []).append(ins)
        return {value: tuple(users) for value, users in found.items()}

    @cached_property
    def tensors(self) -> tuple[TensorType, ...]:
        """Types of all arrays that are read at the edge."""
        types = [leaf for value in self.edge for leaf in _arrays(value)]
        return tuple(types)

    def outputs(self, analysis: Analysis) -> list[tuple[int, Instruction, int, TensorType]]:
        """Number of the root, the root, tensor of it, and type: for each array written."""
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
        """What an element of a value reads of everything at the edge.

        Operands, regions and calls are followed as `Analysis` does, or as `of_instruction` says of
        one instruction; not what is behind `ends`.
        """
        place = analysis.leaf_of(value.type, leaf)
        if place is None:
            return {}
        walk = Walk(analysis.interner, analysis.leaves)
        walk.begin(value, place)
        walk.to_producers(self._positions(value, ends), of_instruction or analysis.reads)
        arrays = self._arrays_at_edge(analysis, walk.found)
        return {at: tuple(accesses.values()) for at, accesses in arrays}

    def loads(
        self,
        analysis: Analysis,
        value: Instruction,
        leaf: int,
        ends: frozenset[Instruction] = frozenset(),
        of_instruction: InstructionReads | None = None,
    ) -> dict[tuple[int, int], tuple[Load, ...]] | None:
        """What `reads` says, told apart by the loads that it takes; `None`: there are too many."""
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
        """Places of instructions on the way from a value to the edge, or to where it ends."""

        def position(ins: Instruction) -> int | None:
            return None if ins in ends and ins is not value else self._position.get(ins)

        return position

    def _arrays_at_edge(
        self, analysis: Analysis, found: Mapping[Instruction, Mapping[int, T]]
    ) -> Iterator[tuple[tuple[int, int], T]]:
        """Operand and tensor of each array handed in of which something is found, and what.

        What is found is gone through, not the edge: of thousands of operands an output may read
        one.
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
    """The values that a root stands for: those of a tuple, nested ones too."""
    every = nested([root], lambda ins: ins.operands if isinstance(ins.op, Tuple) else ())
    return tuple([ins for ins in every if not isinstance(ins.op, Tuple)])


def behind_tuples(ins: Instruction) -> Instruction:
    """The value whose tensor a `get-tuple-element` names; others are themselves."""
    while isinstance(ins.op, GetTupleElement):
        ins = ins.operands[0]
    return ins


def unknown(reason: str) -> Accesses:
    """Nothing is known."""
    return (Access.unknown(reason),)


def _arrays(value: Instruction) -> list[TensorType]:
    from_leaves = [value.type] if isinstance(value.type, TensorType) else []
    return from_leaves
