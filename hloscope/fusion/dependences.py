"""What one instruction reads and writes: its flows, each found once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import hloscope.fusion.loops  # noqa: F401  (fills structure.READS)
from hloscope import indexing
from hloscope.fusion.access_interner import Pool, normal
from hloscope.fusion.body_dependences import Source, dependence_of, in_every_application, varying
from hloscope.fusion.flat_tuples import Leaves
from hloscope.fusion.sizes import OUT_OF_STEP, Sizes
from hloscope.fusion.structural_ids import Blueprints
from hloscope.fusion.structure import READS, WRITES, unknown_flows
from hloscope.fusion.traversal import Flow, Users
from hloscope.fusion.type_check import Doubts, Refusal
from hloscope.indexing import (
    Access,
    Accesses,
    Bodies,
    Dependence,
    DeviceCounts,
    Direction,
    by_convention,
    input_to_output,
    instances,
    lookup,
    merge_runtime,
    output_to_input,
)
from hloscope.ir import (
    WIDE,
    Computation,
    Instruction,
    TensorType,
    TupleType,
    Type,
    captured,
    value_types,
)
from hloscope.lazy import lazy
from hloscope.ops import (
    AllReduce,
    Call,
    CollectiveReduce,
    Composite,
    CustomCall,
    Fusion,
    GetTupleElement,
    Map,
    Reduce,
    ReduceScatter,
    ReduceWindow,
    Scan,
    Tuple,
)

if TYPE_CHECKING:
    import hloscope.fusion.values as values
else:
    values = lazy("hloscope.fusion.values")

Convention: TypeAlias = Literal["structural", "xla"]
"""What the outputs of reductions read: what their bodies use, or, as in XLA, everything."""
INSIDE: Final = (Fusion, Call, Composite)
"""Ops whose runtime variables are named as inside the computation they call."""
_OF_TYPES: Final = (Tuple, GetTupleElement)
"""Ops of any types whose maps follow from these."""
BY_CONVENTION: Final = Reduce, ReduceWindow, Map, Scan, AllReduce, CollectiveReduce, ReduceScatter
"""Ops of which XLA's convention speaks."""


class Flows(ABC):
    """The flows of instructions: what a leaf of a value reads, and where one of an operand goes.

    What whole computations read and reach is for who derives from it to say.
    """

    def __init__(
        self,
        *,
        has_regions: bool,
        convention: Convention,
        refuse: Refusal,
        counts: DeviceCounts,
    ) -> None:
        self.has_regions: Final = has_regions
        self.counts: Final = counts
        self.convention: Final = convention
        self.doubts: Final = Doubts(refuse)
        self._leaves = Leaves()
        self.leaves, self.offset = self._leaves.of, self._leaves.offset
        self.starts = self._leaves.starts
        self.tensors = self._leaves.tensor_types
        self.leaf_of, self.tensor_of = self._leaves.leaf, self._leaves.tensor
        self._shared: dict[tuple[object, ...], tuple[Flow, ...]] = {}
        """Dependences of instructions by direction, op, types and structure of the bodies."""
        self._dependence: dict[int, Dependence] = {}
        self.sources: Final[dict[tuple[Computation, int], Source]] = {}

    # What only walks need begins with the first walk: most questions about one op go nowhere.

    @cached_property
    def pool(self) -> Pool:
        """Every access on the way, once."""
        return Pool()

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes(self.pool, self._leaves)

    @cached_property
    def blueprints(self) -> Blueprints:
        """The structure of the program's computations, each looked at once."""
        return Blueprints()

    # -------------------------------------------------------------------- of whole computations

    @abstractmethod
    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """What a leaf of the root reads: flows whose operands are parameter numbers."""

    @abstractmethod
    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Which leaves of the root a leaf of a parameter reaches."""

    @abstractmethod
    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """`summary` as seen by the caller: parameter `k` is its operand `first + k`."""

    @abstractmethod
    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """`spread` as seen by the caller: parameter `k` is its operand `first + k`."""

    # ------------------------------------------------------------------------- what is the same

    def alike(self, ins: Instruction) -> tuple[object, ...] | None:
        """Instructions for which this is equal have equal answers, both ways; `None` is no key.

        What runtime variables are read from stands in the same places, where answers have any.
        """
        if isinstance(ins.op, _OF_TYPES):
            return ins.op, value_types(ins)
        if isinstance(ins.op, CustomCall) and not ins.calls:  # what it is may stand in its config
            config = tuple([extra for extra in ins.extras if extra[0] != "metadata"])
            return ins.op, value_types(ins), config
        if isinstance(ins.op, INSIDE) and len(ins.calls) == 1 and not self.captured(ins):
            number = self.blueprints.number(ins.calls[0])
            return type(ins.op), number, value_types(ins)
        if not is_plain(ins):
            return None
        keys = tuple([self._key(ins, direction, 0) for direction in Direction])
        return None if None in keys else keys

    def in_step(self, ins: Instruction) -> bool:
        """Have the values handed to a computation and back the same leaves inside and outside?"""
        return self._sizes.in_step(ins)

    def users(self, order: Sequence[Instruction]) -> Users:
        """Who of these instructions, definitions before uses, reads what."""
        return Users(order, self.captured, self._part)

    def _part(self, ins: Instruction) -> range | None:
        """The leaves that an instruction takes out of a tuple; `None` where it does not."""
        op = ins.op
        if not isinstance(op, GetTupleElement):
            return None
        whole = ins.operands[0].type
        if not isinstance(whole, TupleType) or op.index >= len(whole.elements):
            return None  # the program is not valid
        first = self.offset(whole, op.index)
        return range(first, first + len(self.leaves(ins.type)))

    def _explicit(self, accesses: Accesses | None, type: Type, leaf: int) -> Accesses:
        return (self.pool.identity(self.leaves(type)[leaf]),) if accesses is None else accesses

    # ---------------------------------------------------------------- what is read, and reached

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """What a leaf of an instruction's value reads of its operands."""
        if not ins.operands and not ins.calls:
            return ()
        entry = READS.get(type(ins.op))
        if entry is not None:
            self.doubts.settle(ins)
            if not self._sizes.in_step(ins):
                return unknown_flows(self, ins, OUT_OF_STEP)
            return entry(self, ins, ins.op, leaf)
        key = self._key(ins, Direction.OUTPUT_TO_INPUT, leaf)
        if key is not None and (shared := self._shared.get(key)) is not None:
            return shared
        self.doubts.settle(ins)
        if leaf > 0 and self._sizes.concern(ins):
            tensor, dimension = part = self._sizes.part(ins.type, leaf)
            if dimension is not None:
                return tuple(self._sizes.of_size(ins, part))
            leaf = tensor
            key = self._key(ins, Direction.OUTPUT_TO_INPUT, leaf)
        flows = self._ruled(ins, leaf, key)
        return (*flows, *self._read_inside(ins, leaf)) if ins.calls else flows

    def places(self, ins: Instruction, leaf: int) -> list[tuple[int | Instruction, int]]:
        """The operands, and the leaves of them, that a leaf of an instruction's value may read.

        Of a wide op with a rule these are all: what each of them reaches is the rule's to say, and
        maps to thousands of operands are not made for the sake of their numbers.
        """
        if len(ins.operands) > WIDE and type(ins.op) not in READS and not ins.calls:  # noqa: SIM102
            if not self._sizes.concern(ins):
                tensors = self._leaves.tensors
                return [(k, j) for k, v in enumerate(ins.operands) for j in tensors(v.type)]
        return [(flow.operand, flow.leaf) for flow in self.reads(ins, leaf)]

    def captured(self, ins: Instruction) -> tuple[Instruction, ...]:
        """The values that the regions of an instruction read without being handed them."""
        if not ins.calls or not self.has_regions:
            return ()
        return captured(ins)

    def bodies(self, ins: Instruction) -> Bodies:
        """What the computations do that an instruction calls, as its rules are to see it."""
        found = tuple([self.dependence(callee) for callee in ins.calls])
        is_conventional = self.convention == "xla" and isinstance(ins.op, BY_CONVENTION)
        return by_convention(ins, found) if is_conventional else found

    def dependence(self, callee: Computation) -> Dependence:
        """What each result of a computation depends on."""
        number = self.blueprints.number(callee)
        known = self._dependence.get(number)
        if known is None:
            known = self._dependence[number] = dependence_of(callee, self, self.summary)
        return known

    def _read_inside(self, ins: Instruction, output: int) -> Iterator[Flow]:
        """What the bodies of an op that has a rule read without being handed it."""
        outside = self.captured(ins)
        if not outside:
            return
        for instance in instances(ins, output, self.bodies):
            callee = ins.calls[instance.call]
            for flow in self.summary(callee, instance.result):
                if not isinstance(flow.operand, int):
                    there = self._explicit(flow.accesses, flow.operand.type, flow.leaf)
                    yield Flow(
                        flow.operand,
                        flow.leaf,
                        self._in_instances(instance.accesses, there, outside),
                    )

    def _in_instances(
        self,
        instances: Accesses,
        accesses: Accesses,
        outside: tuple[Instruction, ...],
    ) -> Accesses:
        """What all applications of a body read of a value that one of them reads."""

        def is_varying(origin: Instruction) -> bool:
            return varying(outside, origin)

        found = []
        for access in accesses:
            further = self.pool.keep(in_every_application(access, is_varying))
            for first in instances:
                both = self.pool.compose(self.pool.keep(first), further)
                if both is not None:
                    found.append(both)
        return self.pool.keep_all(found)

    def _reached_from(self, ins: Instruction, value: Instruction, leaf: int) -> Iterable[Flow]:
        """Where a leaf of a value goes that regions read: the inverse of what is read of it."""
        for k in range(len(self.leaves(ins.type))):
            for flow in self.reads(ins, k):
                if flow.operand is value and flow.leaf == leaf:
                    there = self._explicit(flow.accesses, value.type, leaf)
                    accesses = [a if a.map is None else indexing.inverted(a) for a in there]
                    yield Flow(value, k, self.pool.keep_all(accesses))

    def writes(self, ins: Instruction, operand: int | Instruction, leaf: int) -> Iterable[Flow]:
        """Where a leaf of an operand goes."""
        if not isinstance(operand, int):
            return self._reached_from(ins, operand, leaf)
        entry = WRITES.get(type(ins.op))
        if entry is not None:
            self.doubts.settle(ins)
            if not self._sizes.in_step(ins):
                unknown = (self.pool.keep(Access.unknown(OUT_OF_STEP)),)
                return [Flow(operand, k, unknown) for k in range(len(self.leaves(ins.type)))]
            return entry(self, ins, ins.op, operand, leaf)
        key = self._key(ins, Direction.INPUT_TO_OUTPUT, operand, leaf)
        if key is not None and (found := self._shared.get(key)) is not None:
            return found
        self.doubts.settle(ins)
        answer = input_to_output(ins, operand, reader=self.bodies, counts=self.counts)
        if self._sizes.concern(ins):
            return self._sized_writes(ins, operand, leaf, answer)
        flows = self._written_by(ins, operand, leaf, answer)
        if key is not None:
            self._shared[key] = flows
        return flows

    def _key(
        self, ins: Instruction, direction: Direction, number: int, leaf: int = 0
    ) -> tuple[object, ...] | None:
        """The key under which equal instructions share their flows; `None` if they do not share."""
        entry = lookup(direction, type(ins.op))
        if entry is None or not entry.is_shared:
            return None
        if self.captured(ins):
            return None
        bodies = tuple([self.blueprints.number(callee) for callee in ins.calls])
        return direction, ins.op, number, leaf, value_types(ins), bodies

    def _sized_writes(
        self, ins: Instruction, operand: int, leaf: int, answer: tuple[Accesses, ...]
    ) -> Iterator[Flow]:
        """Where a leaf of an operand goes, sizes included."""
        tensor = self.tensor_of(ins.operands[operand].type, leaf)
        if tensor is not None:
            yield from self._written_by(ins, operand, tensor, answer)
        for k in range(len(self.leaves(ins.type))):
            tensor, dimension = part = self._sizes.part(ins.type, k)
            if dimension is not None:
                flows = self._sizes.of_size(ins, part)
            else:
                read = output_to_input(ins, tensor, reader=self.bodies, counts=self.counts)
                flows = self._sizes.of_elements(ins, tensor, read)
            yield from self._sizes.reached(operand, leaf, k, flows)

    def _written_by(
        self, ins: Instruction, operand: int, tensor: int, answer: tuple[Accesses, ...]
    ) -> tuple[Flow, ...]:
        """Which elements of the value a tensor of an operand reaches, by the rule's answer."""
        flows = []
        for k, accesses in enumerate(answer):
            if not accesses:
                continue
            mine = [self._folded(ins, a) for a in accesses if a.leaf == tensor or a.map is None]
            kept = self.pool.keep_all(mine)
            if kept:
                is_plain = self.pool.is_identity(kept, ins.operands[operand].type)
                same = is_plain and self._is_same(ins, ins.operands[operand].type)
                target = self.leaf_of(ins.type, k)
                if target is not None:
                    flows.append(Flow(operand, target, None if same else kept))
        return tuple(flows)

    def _ruled(
        self, ins: Instruction, output: int, key: tuple[object, ...] | None
    ) -> tuple[Flow, ...]:
        """A rule's answer for a tensor of the value as flows, by operand and leaf."""
        concerned = self._sizes.concern(ins)
        answer = output_to_input(ins, output, reader=self.bodies, counts=self.counts)
        flows: list[Flow] = []
        for k, accesses in compress(enumerate(answer), answer):  # most of many are not read
            flows += self._of_operand(ins, k, tuple([self._folded(ins, a) for a in accesses]))
        if concerned:
            return (*flows, *self._sizes.of_elements(ins, output, answer))
        found = tuple(flows)
        if key is not None:
            self._shared[key] = found
        return found

    def _of_operand(self, ins: Instruction, k: int, accesses: Accesses) -> list[Flow]:
        """A rule's accesses of an operand as flows, by leaf."""
        operand = ins.operands[k].type
        leaves = self.leaves(operand)
        if len(leaves) == 1:
            kept = self.pool.keep_all(accesses)
            if self.pool.is_identity(kept, leaves[0]) and self._is_same(ins, leaves[0]):
                return [Flow(k, 0, None)]
            return [Flow(k, 0, kept)] if kept else []
        flows = []
        for tensor, leaf in enumerate(self._leaves.tensors(operand)):
            mine = [a for a in accesses if a.leaf == tensor or a.map is None]
            if kept := self.pool.keep_all(mine):
                flows.append(Flow(k, leaf, kept))
        return flows

    def _is_same(self, ins: Instruction, type: Type) -> bool:
        """Has the value of the instruction the sizes of this type?"""
        return not isinstance(ins.type, TupleType) and (
            self.pool.identity(ins.type) is self.pool.identity(type)
        )

    def _folded(self, ins: Instruction, access: Access) -> Access:
        if access.map is None or not access.map.runtime:
            return access
        both = indexing.joined(access)
        map = merge_runtime(values.fold_runtime(both, lambda i: output_to_input(i, 0)))
        if map is both:
            return access
        return indexing.parted(access, normal(map), len(access.map.results), access.via)


def is_plain(ins: Instruction) -> bool:
    """Is it an op with a rule, of tensors whose sizes are known?"""
    return type(ins.op) not in READS and all(
        [isinstance(v.type, TensorType) and None not in v.type.sizes for v in (ins, *ins.operands)]
    )
