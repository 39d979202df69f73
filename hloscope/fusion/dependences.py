"""Dependences between an instruction's value and its operands, each computed once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import hloscope.fusion.loops  # noqa: F401  (fills structure.READS)
from hloscope import indexing
from hloscope.errors import UnsupportedError, VerifyError
from hloscope.fusion.body_dependences import dependence_of, in_every_application, varying
from hloscope.fusion.leaves import OUT_OF_STEP, Leaves, Sizes
from hloscope.fusion.structural_ids import Results, StructureIds
from hloscope.fusion.structure import READS, WRITES, unknown_flows, unknown_writes
from hloscope.fusion.traversal import AccessInterner, Flow, Users, normal
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
    IncompatibleTypesError,
    Instruction,
    TensorType,
    TupleType,
    Type,
    captured,
    value_types,
)
from hloscope.ops import (
    AllReduce,
    Call,
    CollectiveReduce,
    Composite,
    CopyStart,
    CustomCall,
    Fusion,
    GetTupleElement,
    Map,
    Reduce,
    ReduceScatter,
    ReduceWindow,
    Scan,
    Tuple,
    fused_twice,
)
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.fusion.values as values
else:
    values = lazy("hloscope.fusion.values")


# --------------------------------------------------------------------------------------------------
# Dependences between an instruction's value and its operands, each computed once.


Convention: TypeAlias = Literal["structural", "xla"]
"""Rule for the inputs that an output of a reduction reads.

"structural": those that its body uses. "xla": all inputs, as in XLA.
"""
INSIDE: Final = (Fusion, Call, Composite)
"""Ops whose runtime variables may be read from instructions of the computation they call."""
_OF_TYPES: Final = (Tuple, GetTupleElement)
"""Ops whose maps follow from their types alone."""
BY_CONVENTION: Final = Reduce, ReduceWindow, Map, Scan, AllReduce, CollectiveReduce, ReduceScatter
"""Ops whose reads differ between XLA's convention and the structural one."""


class Flows(ABC):
    """Dependences of single instructions on their operands, in both directions.

    Subclasses compute the dependences of whole computations.
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
        self.results: Final = Results()
        self.interner: Final = AccessInterner()
        self.structure_ids: Final = StructureIds()
        self.type_guard: Final = TypeGuard(refuse, self.results)
        self._leaves = Leaves(self.results)
        self._sizes = Sizes(self.interner, self._leaves, self.results)
        self.leaves, self.offset = self._leaves.of, self._leaves.offset
        self.starts = self._leaves.starts
        self.tensors = self._leaves.tensor_types
        self.leaf_of, self.tensor_of = self._leaves.leaf, self._leaves.tensor

    # -------------------------------------------------------------------- of whole computations

    @abstractmethod
    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of leaf `leaf` of the root of `callee` on its parameters.

        In the result, operands are parameter numbers. Runtime variables are read from instructions
        of the computation.
        """

    @abstractmethod
    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of all leaves of the root of `callee` on one leaf of a parameter.

        The leaf has number `leaf` in parameter number `parameter`.
        """

    @abstractmethod
    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of a leaf of the callee's root on operands of the caller `ins`.

        Parameter `k` of the callee is operand `first + k` of the caller. `leaf` is the number of
        the leaf.
        """

    @abstractmethod
    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of the callee's result leaves on an operand of the caller `ins`.

        Parameter `k` of the callee is operand `first + k` of the caller.

        Args:
            callee: The computation.
            parameter: Number of the parameter.
            leaf: Leaf of the parameter.
            ins: The caller.
            first: Number of the operand that is parameter 0.
        """

    # ------------------------------------------------------------------------- what is the same

    def key_of_maps(self, ins: Instruction) -> tuple[object, ...] | None:
        """Return a key that is equal for instructions with equal maps in both directions.

        The result is `None` if no key is known.  Origins of runtime variables correspond by
        position.
        """
        if isinstance(ins.op, _OF_TYPES):
            return ins.op, value_types(ins)
        if isinstance(ins.op, CustomCall) and not ins.calls:  # the config may decide its maps
            config = tuple([extra for extra in ins.extras if extra[0] != "metadata"])
            return ins.op, value_types(ins), config
        if isinstance(ins.op, INSIDE) and len(ins.calls) == 1 and not self.captured(ins):
            number = self.structure_ids.number(ins.calls[0])
            return type(ins.op), number, value_types(ins)
        if not is_plain(ins):
            return None
        keys = tuple([self._key(ins, direction, 0) for direction in Direction])
        return None if None in keys else keys

    def has_consistent_sizes(self, ins: Instruction) -> bool:
        """Do the types inside and outside of called computations have the same leaves?

        They differ if a size is static in one type of a value and dynamic in the other.
        """
        return self._sizes.are_consistent(ins)

    def users(self, order: Sequence[Instruction]) -> Users:
        """Return the users of each value; `order` lists definitions before uses."""
        return Users(order, self.captured, self._selected_leaves)

    def _selected_leaves(self, ins: Instruction) -> range | None:
        """Return the operand leaves that a `get-tuple-element` selects; `None` for other ops."""
        op = ins.op
        if not isinstance(op, GetTupleElement):
            return None
        whole = ins.operands[0].type
        if not isinstance(whole, TupleType) or op.index >= len(whole.elements):
            return None  # the program is not valid
        first = self.offset(whole, op.index)
        return range(first, first + len(self.leaves(ins.type)))

    def _explicit(self, accesses: Accesses | None, type: Type, leaf: int) -> Accesses:
        """Return the accesses; if they are `None`, return the identity access of a leaf.

        The leaf has number `leaf` in a value of type `type`.
        """
        return (self.interner.identity(self.leaves(type)[leaf]),) if accesses is None else accesses

    # ---------------------------------------------------------------- what is read, and reached

    def reads(self, ins: Instruction, leaf: int) -> Iterable[Flow]:
        """Return the dependences of a leaf of an instruction's value on its operands.

        Raises:
            VerifyError: The instruction's types disagree.
        """
        if not ins.operands and not ins.calls:
            return ()
        entry = READS.get(type(ins.op))
        if entry is not None:
            self.type_guard.check(ins)
            if not self._sizes.are_consistent(ins):
                return unknown_flows(self, ins, OUT_OF_STEP)
            return entry(self, ins, ins.op, leaf)
        key = self._key(ins, Direction.OUTPUT_TO_INPUT, leaf)
        # A shared result needs no type check: the key contains all types, and it was stored after
        # the check of an equal instruction.
        shared: tuple[Flow, ...] | None = None if key is None else self.results.get(key)
        if shared is not None:
            return shared
        self.type_guard.check(ins)
        if leaf > 0 and self._sizes.concern(ins):
            tensor, dimension = part = self._leaves.part(ins.type, leaf)
            if dimension is not None:
                return tuple(self._sizes.of_size(ins, part))
            leaf = tensor
            key = self._key(ins, Direction.OUTPUT_TO_INPUT, leaf)
        flows = self._ruled(ins, leaf, key)
        return (*flows, *self._read_inside(ins, leaf)) if ins.calls else flows

    def possible_reads(self, ins: Instruction, leaf: int) -> list[tuple[int | Instruction, int]]:
        """Return the (operand, leaf) pairs that a leaf of an instruction's value may read.

        For ops with many operands and a rule, all pairs are returned. `writes` decides which of
        them matter, and creating maps to thousands of operands only to list them would be slow.
        """
        if len(ins.operands) > WIDE and type(ins.op) not in READS and not ins.calls:  # noqa: SIM102
            if not self._sizes.concern(ins):
                tensors = self._leaves.tensors
                return [(k, j) for k, v in enumerate(ins.operands) for j in tensors(v.type)]
        return [(flow.operand, flow.leaf) for flow in self.reads(ins, leaf)]

    def captured(self, ins: Instruction) -> tuple[Instruction, ...]:
        """Return the values that the regions of an instruction read from outside."""
        if not ins.calls or not self.has_regions:
            return ()
        return captured(ins)

    def bodies(self, ins: Instruction) -> Bodies:
        """Return the dependences of each called computation, by the analysis's convention."""
        found = tuple([self.dependence(callee) for callee in ins.calls])
        is_conventional = self.convention == "xla" and isinstance(ins.op, BY_CONVENTION)
        return by_convention(ins, found) if is_conventional else found

    def dependence(self, callee: Computation) -> Dependence:
        """Return the dependences of each result of a computation on its parameters."""
        key = "body", self.structure_ids.number(callee)
        return self.results.once(key, lambda: dependence_of(callee, self, self.summary))

    def _read_inside(self, ins: Instruction, output: int) -> Iterator[Flow]:
        """Yield the dependences on values that the bodies of an op with a rule capture.

        They are those of output number `output`.
        """
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
        """Return the accesses from an op's output to a captured value, in all applications.

        Args:
            instances: Accesses from the op's output to the applications of the body.
            accesses: Accesses of one application of the body to the captured value.
            outside: All captured values.
        """

        def is_varying(origin: Instruction) -> bool:
            return varying(outside, origin)

        found = []
        for access in accesses:
            further = self.interner.intern(in_every_application(access, is_varying))
            for first in instances:
                both = self.interner.compose(self.interner.intern(first), further)
                if both is not None:
                    found.append(both)
        return self.interner.intern_all(found)

    def _reached_from(self, ins: Instruction, value: Instruction, leaf: int) -> Iterable[Flow]:
        """Yield the dependences of an instruction's leaves on a leaf of a captured value.

        They are the inverses of the accesses to that value.
        """
        for k in range(len(self.leaves(ins.type))):
            for flow in self.reads(ins, k):
                if flow.operand is value and flow.leaf == leaf:
                    there = self._explicit(flow.accesses, value.type, leaf)
                    accesses = [a if a.map is None else indexing.inverted(a) for a in there]
                    yield Flow(value, k, self.interner.intern_all(accesses))

    def writes(self, ins: Instruction, operand: int | Instruction, leaf: int) -> Iterable[Flow]:
        """Return the dependences of the value's leaves on leaf `leaf` of an operand.

        `operand` is a number, or a value that a region captures.

        Raises:
            VerifyError: The instruction's types disagree.
        """
        if not isinstance(operand, int):
            return self._reached_from(ins, operand, leaf)
        entry = WRITES.get(type(ins.op))
        if entry is not None:
            self.type_guard.check(ins)
            if not self._sizes.are_consistent(ins):
                return unknown_writes(self, ins, operand, OUT_OF_STEP)
            return entry(self, ins, ins.op, operand, leaf)
        key = self._key(ins, Direction.INPUT_TO_OUTPUT, operand, leaf)
        shared: tuple[Flow, ...] | None = None if key is None else self.results.get(key)
        if shared is not None:
            return shared
        self.type_guard.check(ins)
        answer = input_to_output(ins, operand, reader=self.bodies, counts=self.counts)
        # Not shared: the result is a generator of dependences with sizes, which are rare.
        if self._sizes.concern(ins):
            return self._sized_writes(ins, operand, leaf, answer)
        flows = self._written_by(ins, operand, leaf, answer)
        if key is not None:
            self.results[key] = flows
        return flows

    def _key(
        self, ins: Instruction, direction: Direction, number: int, leaf: int = 0
    ) -> tuple[object, ...] | None:
        """Return the key under which equal instructions share dependences.

        The key has the direction, and the number of the output (or operand) and its leaf. The
        result is `None` if the instruction cannot share them.
        """
        entry = lookup(direction, type(ins.op))
        if entry is None or not entry.is_shared:
            return None
        # Captured values are named by identity, so equal structure does not imply equal results.
        if self.captured(ins):
            return None
        bodies = tuple([self.structure_ids.number(callee) for callee in ins.calls])
        return direction, ins.op, number, leaf, value_types(ins), bodies

    def _sized_writes(
        self, ins: Instruction, operand: int, leaf: int, answer: tuple[Accesses, ...]
    ) -> Iterator[Flow]:
        """Yield the dependences of all leaves of the value of `ins` on one operand leaf.

        A leaf is a tensor or a run-time size of a tensor.

        Args:
            ins: The instruction.
            operand: Number of the operand.
            leaf: Number of the leaf in that operand.
            answer: For each output, the accesses from the operand to it, by the op's rule.
        """
        tensor = self.tensor_of(ins.operands[operand].type, leaf)
        if tensor is not None:
            yield from self._written_by(ins, operand, tensor, answer)
        # Rules give the elements' maps from the operand; sizes are known only from the output
        # side, so their dependences are computed there and inverted.
        for k in range(len(self.leaves(ins.type))):
            tensor, dimension = part = self._leaves.part(ins.type, k)
            if dimension is not None:
                flows = self._sizes.of_size(ins, part)
            else:
                read = output_to_input(ins, tensor, reader=self.bodies, counts=self.counts)
                flows = self._sizes.of_elements(ins, tensor, read)
            yield from self._sizes.inverse_of(operand, leaf, k, flows)

    def _written_by(
        self, ins: Instruction, operand: int, tensor: int, answer: tuple[Accesses, ...]
    ) -> tuple[Flow, ...]:
        """Return the dependences of each output on tensor number `tensor` of an operand.

        `answer` has, for each output, the accesses from the operand to it, by the op's rule.
        """
        flows = []
        for k, accesses in enumerate(answer):
            if not accesses:
                continue
            mine = [self._folded(ins, a) for a in accesses if a.leaf == tensor or a.map is None]
            kept = self.interner.intern_all(mine)
            if kept:
                same = self._is_unchanged(ins, kept, ins.operands[operand].type)
                target = self.leaf_of(ins.type, k)
                if target is not None:
                    flows.append(Flow(operand, target, None if same else kept))
        return tuple(flows)

    def _ruled(
        self, ins: Instruction, output: int, key: tuple[object, ...] | None
    ) -> tuple[Flow, ...]:
        """Return the dependences of tensor number `output` of the value, by the op's rule.

        They are stored under `key` unless it is `None`.
        """
        concerned = self._sizes.concern(ins)
        answer = output_to_input(ins, output, reader=self.bodies, counts=self.counts)
        flows: list[Flow] = []
        # Of many operands most are not read.
        for k, accesses in compress(enumerate(answer), answer):
            flows += self._of_operand(ins, k, tuple([self._folded(ins, a) for a in accesses]))
        if concerned:
            return (*flows, *self._sizes.of_elements(ins, output, answer))
        found = tuple(flows)
        if key is not None:
            self.results[key] = found
        return found

    def _of_operand(self, ins: Instruction, k: int, accesses: Accesses) -> list[Flow]:
        """Return the dependences on each leaf of operand `k`, given the op rule's accesses."""
        operand = ins.operands[k].type
        leaves = self.leaves(operand)
        # `None` marks an unchanged value, so that traversals share whole sets of accesses instead
        # of composing each with an identity.
        if len(leaves) == 1:
            kept = self.interner.intern_all(accesses)
            if self._is_unchanged(ins, kept, leaves[0]):
                return [Flow(k, 0, None)]
            return [Flow(k, 0, kept)] if kept else []
        flows = []
        for tensor, leaf in enumerate(self._leaves.tensors(operand)):
            mine = [a for a in accesses if a.leaf == tensor or a.map is None]
            if kept := self.interner.intern_all(mine):
                flows.append(Flow(k, leaf, kept))
        return flows

    def _is_unchanged(self, ins: Instruction, accesses: Accesses, type: Type) -> bool:
        """Are the accesses only the identity between the instruction's value and one of `type`?"""
        if len(accesses) != 1 or isinstance(ins.type, TupleType):
            return False
        return accesses[0] is self.interner.identity(ins.type) is self.interner.identity(type)

    def _folded(self, ins: Instruction, access: Access) -> Access:
        """Return the access with runtime variables of known value replaced by the value.

        Equal runtime variables are merged.
        """
        if access.map is None or not access.map.runtime:
            return access
        both = indexing.joined(access)
        map = merge_runtime(values.fold_runtime(both, lambda i: output_to_input(i, 0)))
        if map is both:
            return access
        return indexing.with_joined(access, normal(map), len(access.map.results), access.via)


def is_plain(ins: Instruction) -> bool:
    """Does the op have an indexing rule, and are its operands and value tensors of static sizes?"""
    return type(ins.op) not in READS and all(
        [isinstance(v.type, TensorType) and None not in v.type.sizes for v in (ins, *ins.operands)]
    )


# --------------------------------------------------------------------------------------------------
# Type checks of instructions before their maps are computed.
#
# Rules rely on the types of an instruction; wrong types would give maps without meaning.  To verify
# the whole program for one query would take too long, and so would the import of the verifier.  So
# each instruction on the way is checked with its op's own `verify`.  Only if that fails, the
# verifier decides, because a language may allow more.


Refusal: TypeAlias = Callable[[Instruction], None]
"""Function that raises `VerifyError` if an instruction is not valid, and else returns."""
_VERIFIER_ONLY: Final = (ReduceScatter, CopyStart)
"""Ops whose types only the verifier can check, not the op's own `verify`.

Their types depend on device groups or on HLO's rules.
"""


def accept_all(_: Instruction) -> None:
    """Accept every instruction; for programs that are valid or were verified before."""


class TypeGuard:
    """Checks types of instructions, each once."""

    def __init__(self, refuse: Refusal, results: Results) -> None:
        self._refuse: Final = refuse
        self._results: Final = results

    def check(self, ins: Instruction) -> None:
        """Check the types of an instruction, unless every instruction is accepted.

        Raises:
            VerifyError: The instruction is not valid.
        """
        if self._refuse is accept_all:
            return
        if type(ins.op) is Fusion:
            self._check_single_caller(ins)
            if _is_plain_fusion(ins):
                return
        key = "is valid", ins
        if key not in self._results:
            if is_doubtful(ins):
                self._refuse(ins)
            self._results[key] = True

    def _check_single_caller(self, fusion: Instruction) -> None:
        """Check that no two fusions call the computations that `fusion` calls, also indirectly.

        In a map a value of a computation stands for itself.  If two fusions shared a computation,
        two different values would be taken for one.

        Raises:
            VerifyError: Two fusions share a computation.
        """
        stack = [fusion]
        while stack:
            ins = stack.pop()
            owner = ins if type(ins.op) is Fusion else None
            for called in ins.calls:
                key = "fusion that calls", called
                is_new, first = key not in self._results, self._results.get(key)
                if first is not None and owner is not None and not _are_one(first, owner):
                    message = fused_twice(called.name, first.name, ins.name)
                    raise VerifyError(message, span=ins.span)
                self._results[key] = first or owner  # `None` if it has another caller
                if is_new:
                    stack += [inner for inner in called.instructions if inner.calls]


def _are_one(a: Instruction, b: Instruction) -> bool:
    """Are two instructions the same fusion or asynchronous start?

    An asynchronous start is rebuilt for each query, with the same name and operands.
    """
    return a is b or (a.name == b.name and a.operands == b.operands)


def _is_plain_fusion(ins: Instruction) -> bool:
    """Is the type of a fusion the same object as the type of the root of its computation?

    Operands are not compared with parameters: the verifier does that, and XLA's own tool accepts a
    mismatch.
    """
    return type(ins.op) is Fusion and len(ins.calls) == 1 and ins.calls[0].root.type is ins.type


def is_doubtful(ins: Instruction) -> bool:
    """May the types of an instruction disagree?

    The result is `True` whenever sizes are wrong, and may be so for other reasons.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[{}] negate(p) }}"
    >>> [is_doubtful(parse_hlo(text.format(n)).entry.root) for n in (4, 5)]
    [False, True]
    """
    if isinstance(ins.op, _VERIFIER_ONLY):
        return True
    results: list[tuple[Type, ...]] = [(ins.type,)]
    if isinstance(ins.type, TupleType):  # several results, or one that is a tuple
        results.append(ins.type.elements)
    return all(_is_refused(ins, some) for some in results)


def _is_refused(ins: Instruction, results: tuple[Type, ...]) -> bool:
    """Does the op's `verify` reject these result types for their sizes or structure?"""
    try:
        ins.op.verify(tuple([operand.type for operand in ins.operands]), results, ins.calls)
    except IncompatibleTypesError as error:
        return not _have_sizes_of(error.inferred, error.declared)
    except UnsupportedError:
        return False
    except VerifyError:
        return True
    except Exception:  # too few operands, or types of another kind: not valid
        return True
    return False


def _have_sizes_of(first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
    """Do two lists of types have equal sizes?

    Maps do not depend on element types.
    """
    # An explicit stack, because tuples may nest deeply.
    pairs = [(first, second)]
    while pairs:
        here, there = pairs.pop()
        if len(here) != len(there):
            return False
        for a, b in zip(here, there, strict=True):
            match a, b:
                case TensorType(), TensorType():
                    if a.sizes != b.sizes:
                        return False
                case TupleType(), TupleType():
                    pairs.append((a.elements, b.elements))
                case _:
                    return False
    return True
