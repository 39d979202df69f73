"""Dependences of run-time sizes, which are leaves beside the tensor that they belong to.

A size passes from the op that sets it through every op that preserves its dimension.  It ends at a
query of the size, or at the elements that it selects or masks.  The rule of each op is in
`hloscope.indexing.rules.run_time_sizes`.  Ops that call computations need no rule: their leaves are
followed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.errors import UnsupportedError
from hloscope.fusion.access_interner import AccessInterner
from hloscope.fusion.flat_tuples import Leaves, Part, leaf_types
from hloscope.fusion.results import Results
from hloscope.fusion.traversal import Flow
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
from hloscope.ir import WIDE, Computation, Dims, Instruction, Type
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

if TYPE_CHECKING:
    from hloscope.indexing import Reads, SizeRead

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
        has = self._leaves.has_sizes
        return any([has(ins.type), *[has(operand.type) for operand in ins.operands]])

    def in_step(self, ins: Instruction) -> bool:
        """Do all types of a value that an op passes on have the same dynamic dimensions?

        A parameter or result of a computation may declare a size that is not known in the type of
        the value passed for it.
        """
        return self._results.once(("in step", ins), lambda: self._is_in_step(ins))

    def _is_in_step(self, ins: Instruction) -> bool:
        """Return what `in_step` memoizes."""
        if not self.concern(ins):
            inside = [value.type for c in ins.calls for value in (*c.parameters, c.root)]
            if not any(map(self._leaves.has_sizes, inside)):
                return True
        return all(a == b for a, b in self._meetings(ins))

    def _meetings(self, ins: Instruction) -> Iterator[tuple[Dynamic, Dynamic]]:
        """Yield pairs of types' dynamic dimensions, where both types describe the same value."""
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
                    yield sum(self._taken(called), ()), result
                yield self._dynamic(ins.calls[1].root.type), result
            case Case():
                for branch, given in zip(ins.calls, handed[1:], strict=False):
                    yield sum(self._taken(branch), ()), given
                for branch in ins.calls:
                    yield self._dynamic(branch.root.type), result
            case AsyncStart() | AsyncUpdate() | AsyncDone():
                for called in ins.calls:
                    yield from zip(self._taken(called), handed, strict=False)
            case _:
                for called in ins.calls:
                    yield from zip(self._taken(called), handed, strict=False)
                    yield self._dynamic(called.root.type), result

    def _taken(self, called: Computation) -> list[Dynamic]:
        """Return the dynamic dimensions of each parameter's tensors, one entry per parameter."""
        return [self._dynamic(parameter.type) for parameter in called.parameters]

    def _dynamic(self, type: Type) -> Dynamic:
        """Return the dynamic dimensions of each tensor of a type."""
        return tuple(map(dynamic_dimensions, leaf_types(type)))

    def part(self, type: Type, leaf: int) -> Part:
        """Return the tensor number of a leaf, and its dimension if the leaf is a size."""
        return self._leaves.part(type, leaf)

    def of_size(self, ins: Instruction, part: Part) -> Iterator[Flow]:
        """Yield the dependences of run-time size `part` of the value of `ins` on its operands."""
        assert part.dimension is not None
        try:
            reads = indexing.size_reads(ins, part.tensor, part.dimension)
        except (LookupError, ValueError):  # operand and result types disagree
            reads = None
        if reads is None:
            unknown = self._interner.keep(Access.unknown(UNKNOWN))
            for k, operand in enumerate(ins.operands):
                for leaf in range(len(self._leaves.of(operand.type))):
                    yield Flow(k, leaf, (unknown,))
            return
        yield from self._flows(ins, (), reads)

    def of_elements(
        self, ins: Instruction, tensor: int, answer: Sequence[Accesses]
    ) -> Iterator[Flow]:
        """Yield the dependences of a tensor's elements on run-time sizes.

        Args:
            ins: The instruction.
            tensor: Number of the tensor.
            answer: Accesses of the elements to the elements of each operand.
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
                    if self.part(type, leaf).dimension is not None:
                        yield Flow(k, leaf, (self._interner.keep(replace(access, leaf=0)),))

    def reached(self, operand: int, leaf: int, end: int, flows: Iterable[Flow]) -> Iterator[Flow]:
        """Yield the dependences of leaf `end` on one operand leaf, from its other direction.

        `flows` are the dependences of leaf `end` on operands; those on the operand leaf are
        inverted.
        """
        for flow in flows:
            if (flow.operand, flow.leaf) == (operand, leaf):
                back = [
                    a if a.map is None else replace(a, map=a.map.inverse())
                    for a in flow.accesses or ()
                ]
                yield Flow(operand, end, self._interner.keep_all(back))

    def _flows(self, ins: Instruction, here: Dims, reads: Reads | list[SizeRead]) -> Iterator[Flow]:
        """Yield the dependences for reads of sizes and elements, with a map for each.

        `here` has the sizes of the tensor that reads; it is empty for a size that reads.
        """
        for read in reads:
            type = ins.operands[read.operand].type
            leaf = self._leaves.of_part(type, Part(read.tensor, read.dimension))
            precision = Precision.OVER if read.reason else Precision.EXACT
            try:
                there = () if read.dimension is not None else sizes(self._leaves.of(type)[leaf])
            except UnsupportedError as error:
                yield Flow(
                    read.operand, leaf, (self._interner.keep(Access.unknown(error.message)),)
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
                read.operand, leaf, (self._interner.keep(Access(map, precision, read.reason)),)
            )
