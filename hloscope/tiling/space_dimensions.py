"""Dimensions and run-time values that each op adds to the tiling space of its kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.indexing import sizes
from hloscope.ir import Dims, Instruction, Op
from hloscope.ops import Dot, DotDimensions, DotGeneral, DynamicSlice, RaggedDot, Reduce, ScaledDot


class Reading(Struct, frozen=True):
    """A value that an op reads at run time.

    Attributes:
        operand: Number by which it is looked up; -1 for a value that is not an operand.
        origin: The operand that it is read from.
        most: The upper bound of clamping; the lower bound is 0.
        along: The sequential dimension of the op that selects the element; `None` for a scalar.
        is_prefix_sum: Is it the sum of the preceding elements?
    """

    operand: int
    origin: int
    most: int
    along: int | None = None
    is_prefix_sum: bool = False


class Added(Struct, frozen=True):
    """Dimensions and run-time values that an instruction adds.

    Attributes:
        sequential: Sizes of the dimensions that it reduces or contracts; their positions follow
            those of its output.
        reads: The run-time values.
    """

    sequential: Dims = ()
    reads: tuple[Reading, ...] = ()


Adding: TypeAlias = Callable[[Instruction, Any], Added]
A = TypeVar("A", bound=Adding)
ADDED: Final[dict[type[Op], Adding]] = {}
"""By op class, the function that returns what an instruction adds."""


def _adds(*classes: type[Op]) -> Callable[[A], A]:
    def register(adding: A) -> A:
        ADDED.update(dict.fromkeys(classes, adding))
        return adding

    return register


def dot_dimensions(ins: Instruction) -> DotDimensions:
    """Return the batch and contracting dimensions of a product."""
    op = ins.op
    if isinstance(op, Dot):
        return DotDimensions((), (), (len(sizes(ins.operands[0].type)) - 1,), (0,))
    assert isinstance(op, DotGeneral | ScaledDot | RaggedDot)
    return op.dimensions


@_adds(Dot, DotGeneral, ScaledDot)
def _(ins: Instruction, op: Dot | DotGeneral | ScaledDot) -> Added:
    left = sizes(ins.operands[0].type)
    return Added(tuple([left[d] for d in dot_dimensions(ins).lhs_contracting]))


@_adds(Reduce)
def _(ins: Instruction, op: Reduce) -> Added:
    source = sizes(ins.operands[0].type)
    return Added(tuple([source[d] for d in op.dimensions]))


def has_scalar_starts(ins: Instruction, count: int, first: int = 1) -> bool:
    """Does a slice have a scalar start for each dimension? Old texts have one vector of them."""
    starts = ins.operands[first:]
    return len(starts) == count and all(sizes(start.type) == () for start in starts)


@_adds(DynamicSlice)
def _(ins: Instruction, op: DynamicSlice) -> Added:
    if not has_scalar_starts(ins, len(op.slice_sizes)):
        return Added()
    source = sizes(ins.operands[0].type)
    pairs = zip(source, op.slice_sizes, strict=True)
    return Added((), tuple([Reading(1 + d, 1 + d, n - size) for d, (n, size) in enumerate(pairs)]))


@_adds(RaggedDot)
def _(ins: Instruction, op: RaggedDot) -> Added:
    left = sizes(ins.operands[0].type)
    (ragged,) = op.lhs_ragged
    contracted = tuple([left[d] for d in op.dimensions.lhs_contracting])
    if ragged in op.dimensions.lhs_batch:
        return Added(contracted)
    if ragged in op.dimensions.lhs_contracting:
        size = Reading(2, 2, left[ragged])
        start = Reading(-1, 2, left[ragged], is_prefix_sum=True)
        return Added((left[ragged],), (size, start))
    groups = sizes(ins.operands[1].type)[op.rhs_group[0]]
    return Added((groups, *contracted), (Reading(2, 2, left[ragged], along=0),))
