"""Flattening of nested tuples: a leaf is numbered by its position in the flat tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.errors import UnsupportedError
from hloscope.fusion.structural_ids import Results
from hloscope.fusion.traversal import AccessInterner, Flow
from hloscope.indexing import (
    Access,
    Accesses,
    MapBuilder,
    Precision,
    dynamic_dimensions,
    identity_map,
    output_sizes,
    sizes,
)
from hloscope.ir import (
    ELEMENT_TYPES,
    WIDE,
    Computation,
    Dims,
    FutureType,
    Instruction,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Case,
    GetTupleElement,
    OptimizationBarrier,
    Return,
    Tuple,
    While,
)
from hloscope.support.walks import nested

if TYPE_CHECKING:
    from hloscope.indexing import Reads, SizeRead


# --------------------------------------------------------------------------------------------------
# Flattening of nested tuples: a leaf is numbered by its position in the flat tuple.
#
# A size known only at run time is part of the value as well.  Inside traversals it is a leaf of its
# own: an `s32` scalar after the tensor that it belongs to.  Outside, only tensors are numbered.


SIZE: Final = TensorType(ELEMENT_TYPES["s32"], ())
"""The type of a leaf that is a run-time size."""


def leaf_types(type: Type) -> tuple[Type, ...]:
    """Return the types of the leaves in order; tuples and futures are flattened.

    Any other type is its own single leaf.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> pair = parse_type("(f32[2], (s32[], pred[4]))")
    >>> [str(leaf.element) for leaf in leaf_types(pair)]
    ['f32', 's32', 'pred']
    """
    if not isinstance(type, TupleType | FutureType):
        return (type,)
    pairs = TupleType | FutureType
    every = nested(type.elements, lambda t: t.elements if isinstance(t, pairs) else ())
    return tuple([t for t in every if not isinstance(t, TupleType | FutureType)])


class Part(NamedTuple):
    """What a leaf is: a tensor, or the run-time size of a dimension of a tensor."""

    tensor: int
    """Number of the tensor in the value."""
    dimension: int | None = None


_ALONE: Final = (Part(0),)


class _Parts(NamedTuple):
    """The leaves of a type, and which of them are tensors.

    `leaves` has the type of each leaf and `parts` its meaning.
    """

    type: Type
    leaves: tuple[Type, ...]
    types: tuple[Type, ...]
    """Types of the tensors."""
    parts: tuple[Part, ...]
    tensors: tuple[int, ...]
    """For each tensor, the number of the leaf that represents it."""

    @classmethod
    def of(cls, type: Type) -> _Parts:
        """Return the leaves of a type, with one leaf for every dynamic size after its tensor."""
        if isinstance(type, TensorType) and None not in type.sizes:  # as most are
            return cls(type, (type,), (type,), _ALONE, (0,))
        types = leaf_types(type)
        leaves: list[Type] = []
        parts: list[Part] = []
        tensors: list[int] = []
        for number, leaf in enumerate(types):
            tensors.append(len(leaves))
            leaves.append(leaf)
            parts.append(Part(number))
            if isinstance(leaf, TensorType) and None in leaf.sizes:
                unknown = [Part(number, k) for k, size in enumerate(leaf.sizes) if size is None]
                leaves += [SIZE] * len(unknown)
                parts += unknown
        return cls(type, tuple(leaves), types, tuple(parts), tuple(tensors))


class Leaves:
    """Flattening of types into leaves; run-time sizes are leaves too. Results are memoized."""

    def __init__(self, results: Results | None = None) -> None:
        self._results: Final = Results() if results is None else results
        # Without it, all maps of a loop that carries 640 arrays take 60 times as long. The key is
        # the `id`, because to hash a tuple type takes as long as to flatten it.
        self._known: dict[int, _Parts] = {}
        """Flattened types by `id`; `_Parts` holds the type, so that its `id` is not reused."""

    def _of(self, type: Type) -> _Parts:
        """Return the memoized leaves of a type."""
        known = self._known.get(id(type))
        if known is None:
            known = self._known[id(type)] = _Parts.of(type)
        return known

    def of(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the leaves of a type."""
        return self._of(type).leaves

    def part(self, type: Type, leaf: int) -> Part:
        """Return what leaf number `leaf` of a type is: a tensor, or a size of one.

        >>> from hloscope.hlo_parser.types import parse_type
        >>> pair = parse_type("(f32[<=2,3], pred[4])")
        >>> [tuple(Leaves().part(pair, leaf)) for leaf in range(3)]
        [(0, None), (0, 0), (1, None)]
        """
        return self._of(type).parts[leaf]

    def tensors(self, type: Type) -> tuple[int, ...]:
        """Return the leaf numbers of the tensors, in order."""
        return self._of(type).tensors

    def tensor_types(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the tensors, in order."""
        return self._of(type).types

    def of_part(self, type: Type, part: Part) -> int:
        """Return the number of the leaf that `part` stands for: a tensor or a run-time size."""
        known = self._of(type)
        return known.parts.index(part, known.tensors[part.tensor])

    def leaf(self, type: Type, tensor: int) -> int | None:
        """Return the leaf number of a tensor; `None` if the type has fewer tensors."""
        tensors = self._of(type).tensors
        return tensors[tensor] if tensor < len(tensors) else None

    def tensor(self, type: Type, leaf: int) -> int | None:
        """Return the tensor number of a leaf; `None` if the leaf is a size or does not exist."""
        parts = self._of(type).parts
        if leaf >= len(parts):
            return None
        return None if parts[leaf].dimension is not None else parts[leaf].tensor

    def has_sizes(self, type: Type) -> bool:
        """Is some leaf of the type a run-time size?"""
        if isinstance(type, TensorType):
            return None in type.sizes
        known = self._of(type)
        return len(known.types) < len(known.leaves)

    def offset(self, type: Type, index: int) -> int:
        """Return the number of the first leaf of element `index` of a tuple."""
        elements = type.elements if isinstance(type, TupleType) else ()
        key = "offsets", id(type)  # the result holds the type, so that its `id` is not reused
        return self._results.once(key, lambda: (type, self._starts(elements)))[1][index]

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """Return the position of each operand's first leaf, then the number of all leaves.

        Positions are in the concatenated leaves of all operands.
        """
        return self._results.once(
            ("starts", ins), lambda: self._starts([operand.type for operand in ins.operands])
        )

    def _starts(self, types: Iterable[Type]) -> tuple[int, ...]:
        """Return the position of each type's first leaf, then the number of all leaves.

        Positions are in the concatenated leaves of all types.
        """
        return tuple(accumulate([len(self.of(type)) for type in types], initial=0))


# --------------------------------------------------------------------------------------------------
# Dependences of run-time sizes, which are leaves beside the tensor that they belong to.
#
# A size passes from the op that sets it through every op that preserves its dimension.  It ends at
# a query of the size, or at the elements that it selects or masks.  The rule of each op is in
# `hloscope.indexing.rules.run_time_sizes`.  Ops that call computations need no rule: their leaves
# are followed one by one.


UNKNOWN: Final = "where the size comes from is not known"
OUT_OF_STEP: Final = "a size is known in one of two types of the same value only"

Dynamic: TypeAlias = tuple[tuple[int, ...], ...]
"""The dynamic dimensions of each tensor of a value, in order."""


class Sizes:
    """Computes the dependences of run-time sizes, and of elements on run-time sizes."""

    def __init__(
        self, interner: AccessInterner, leaves: Leaves, results: Results | None = None
    ) -> None:
        self._interner, self._leaves = interner, leaves
        self._results = Results() if results is None else results

    def concern(self, ins: Instruction) -> bool:
        """Does the instruction's value or an operand have a run-time size?"""
        if len(ins.operands) <= WIDE:
            return self._has_sizes(ins)
        return self._results.once(("has sizes", ins), lambda: self._has_sizes(ins))

    def _has_sizes(self, ins: Instruction) -> bool:
        """Return the result of `concern` without the memo."""
        has = self._leaves.has_sizes
        return any([has(ins.type), *[has(operand.type) for operand in ins.operands]])

    def are_consistent(self, ins: Instruction) -> bool:
        """Do all types that describe one value have the same dynamic dimensions?

        The value is an operand or the result of the instruction. A parameter or result of a
        computation may declare a size that is not known in the type of the value passed for it.
        """
        return self._results.once(("consistent sizes", ins), lambda: self._are_consistent(ins))

    def _are_consistent(self, ins: Instruction) -> bool:
        """Return the result of `are_consistent` without the memo."""
        if not self.concern(ins):
            inside = [value.type for c in ins.calls for value in (*c.parameters, c.root)]
            if not any(map(self._leaves.has_sizes, inside)):
                return True
        return all(a == b for a, b in self._pairs_of_types(ins))

    def _pairs_of_types(self, ins: Instruction) -> Iterator[tuple[Dynamic, Dynamic]]:
        """Yield pairs of the dynamic dimensions of two types that describe the same value."""
        handed = [self._dynamic(operand.type) for operand in ins.operands]
        result = self._dynamic(ins.type)
        # Each op passes operands to parameters, and roots to its value; both sides must have the
        # same dynamic dimensions, because a run-time size is a leaf of its own.
        match ins.op:
            case Tuple() | Return() | OptimizationBarrier():
                yield sum(handed, ()), result
            case GetTupleElement(index):
                elements = getattr(ins.operands[0].type, "elements", ())
                yield sum(map(self._dynamic, elements[index : index + 1]), ()), result
            case While():
                yield sum(handed, ()), result
                for called in ins.calls:
                    yield sum(self._of_parameters(called), ()), result
                yield self._dynamic(ins.calls[1].root.type), result
            case Case():
                for branch, given in zip(ins.calls, handed[1:], strict=False):
                    yield sum(self._of_parameters(branch), ()), given
                for branch in ins.calls:
                    yield self._dynamic(branch.root.type), result
            case AsyncStart() | AsyncUpdate() | AsyncDone():
                for called in ins.calls:
                    yield from zip(self._of_parameters(called), handed, strict=False)
            case _:
                for called in ins.calls:
                    yield from zip(self._of_parameters(called), handed, strict=False)
                    yield self._dynamic(called.root.type), result

    def _of_parameters(self, called: Computation) -> list[Dynamic]:
        """Return the dynamic dimensions of each parameter's tensors, one entry per parameter."""
        return [self._dynamic(parameter.type) for parameter in called.parameters]

    def _dynamic(self, type: Type) -> Dynamic:
        """Return the dynamic dimensions of each tensor of a type."""
        return tuple(map(dynamic_dimensions, leaf_types(type)))

    def of_size(self, ins: Instruction, part: Part) -> Iterator[Flow]:
        """Yield the dependences of run-time size `part` of the value of `ins` on its operands."""
        assert part.dimension is not None
        try:
            reads = indexing.size_reads(ins, part.tensor, part.dimension)
        except (LookupError, ValueError):  # operand and result types disagree
            reads = None
        if reads is None:
            unknown = self._interner.intern(Access.unknown(UNKNOWN))
            for k, operand in enumerate(ins.operands):
                for leaf in range(len(self._leaves.of(operand.type))):
                    yield Flow(k, leaf, (unknown,))
            return
        yield from self._flows(ins, (), reads)

    def of_elements(
        self, ins: Instruction, tensor: int, answer: Sequence[Accesses]
    ) -> Iterator[Flow]:
        """Yield the dependences of the elements of a tensor of the value on run-time sizes.

        Args:
            ins: The instruction.
            tensor: Number of the tensor in the value of the instruction.
            answer: For each operand, the accesses from elements of the tensor to the operand's
                elements.
        """
        unknown = [next((a for a in accesses if a.map is None), None) for accesses in answer]
        touched = [any(a.map is None or not a.map.is_known_empty for a in some) for some in answer]
        try:
            here = output_sizes(ins, tensor)
            reads = indexing.element_reads(ins, tensor, touched)
        except (LookupError, ValueError, UnsupportedError):
            here, reads = (), ()
        yield from self._flows(ins, here, [r for r in reads if unknown[r.operand] is None])
        # Where elements are read in an unknown way, all sizes of that operand may be read too.
        for k, access in enumerate(unknown):
            if access is not None:
                type = ins.operands[k].type
                for leaf in range(len(self._leaves.of(type))):
                    if self._leaves.part(type, leaf).dimension is not None:
                        yield Flow(k, leaf, (self._interner.intern(replace(access, leaf=0)),))

    def inverse_of(
        self, operand: int, leaf: int, end: int, flows: Iterable[Flow]
    ) -> Iterator[Flow]:
        """Yield the dependences of leaf `end` of the value on one operand leaf.

        `flows` are the dependences of leaf `end` on all operands. Those on the operand leaf are
        selected and inverted.
        """
        for flow in flows:
            if (flow.operand, flow.leaf) == (operand, leaf):
                back = [
                    a if a.map is None else replace(a, map=a.map.inverse())
                    for a in flow.accesses or ()
                ]
                yield Flow(operand, end, self._interner.intern_all(back))

    def _flows(self, ins: Instruction, here: Dims, reads: Reads | list[SizeRead]) -> Iterator[Flow]:
        """Yield a dependence, with its map, for each read of a size or of elements.

        `here` has the sizes of the tensor that reads; it is empty if a run-time size reads.
        """
        for read in reads:
            type = ins.operands[read.operand].type
            leaf = self._leaves.of_part(type, Part(read.tensor, read.dimension))
            precision = Precision.OVER if read.reason else Precision.EXACT
            try:
                there = () if read.dimension is not None else sizes(self._leaves.of(type)[leaf])
            except UnsupportedError as error:
                yield Flow(
                    read.operand, leaf, (self._interner.intern(Access.unknown(error.message)),)
                )
                continue
            # From a scalar to a size: the index spaces have no dimensions.
            if not here and not there:
                map = identity_map(())
            else:
                at = MapBuilder(here)
                index = read.element if read.dimension is None else ()
                map = at.map([at.range(n) for n in there] if index is None else index)
            yield Flow(
                read.operand, leaf, (self._interner.intern(Access(map, precision, read.reason)),)
            )
