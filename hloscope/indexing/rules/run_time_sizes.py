"""Dependences of run-time sizes on values, and of elements on run-time sizes.

The value of an array with dynamic dimensions consists of its elements and the sizes of those
dimensions. The rules of the op families cover elements. This module states, for all ops, which
values a size comes from, and which elements a size selects or masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.indexing.rules.registry import dynamic_dimensions, first_leaf, leaves
from hloscope.ir import ByOp, Instruction, Op, TensorType, Type
from hloscope.ops import (
    ELEMENTWISE,
    AllReduce,
    Bitcast,
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    CrossReplicaSum,
    DotGeneral,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    DynamicSlice,
    DynamicUpdateSlice,
    Elementwise,
    GetDimensionSize,
    ImplicitBroadcast,
    Map,
    Pad,
    RealDynamicSlice,
    Reduce,
    Reshape,
    Reverse,
    Scatter,
    SetDimensionSize,
    Slice,
    Sort,
    Transpose,
    control,
)

SIZES_AGREE: Final = "operands of one size: that of any of them"
DEPENDS: Final = "what depends on a size known only at run time is not known more exactly"
MAX_VISITS: Final = 128
"""Maximum number of values that are visited to find where a size was set."""

PASSED_ON: Final[tuple[type[Op], ...]] = (
    control.Tuple, control.GetTupleElement, control.Return, control.OptimizationBarrier,
    control.Domain, control.AddDependency, control.CopyStart, control.CopyDone, ELEMENTWISE["copy"],
)  # fmt: skip
"""Ops whose arrays are arrays of their operands, unchanged."""
KEEPS_DIMENSIONS: Final[tuple[type[Op], ...]] = (
    Elementwise, ImplicitBroadcast, Map, Broadcast, BroadcastInDim, DynamicBroadcastInDim,
    Transpose, SetDimensionSize, *PASSED_ON,
)  # fmt: skip
"""Ops that keep dimensions: a result element exists if the operand elements that it reads exist."""


class SizeRead(NamedTuple):
    """A dependence on the size of a dimension, or on elements, of an operand.

    The dependent is a run-time size or an element of the instruction's result.
    """

    operand: int
    tensor: int = 0
    """Number of the array or token in the operand's value, in flattened order."""
    dimension: int | None = None
    """Dimension whose size is read; `None` if elements are read."""
    element: tuple[int, ...] | None = ()
    """Index of the element that is read; `None` for all elements."""
    reason: str = ""
    """Why the dependence may be larger than necessary; empty if it is exact."""


Reads: TypeAlias = tuple[SizeRead, ...]
SizeOrElements: TypeAlias = tuple[object, int, int | None]
"""A run-time size or elements: a value (or its op), the number of its leaf, and a dimension.

The op stands for a constant. The dimension is `None` for elements.
"""


def keeps_indices(ins: Instruction) -> bool:
    """Return whether the op keeps the index in every dynamic dimension, from operands to result."""
    match ins.op:
        case Reduce(dimensions) | Reverse(dimensions):
            changed = dimensions
        case Concatenate(dimension) | Sort(dimension):
            changed = (dimension,)
        case Slice(starts, limits, strides):
            whole = zip(starts, limits, strides, strict=True)
            type = ins.operands[0].type
            # A slice keeps the index only in dimensions that it covers completely.
            same = [(0, _bound(type, k), 1) for k in range(len(starts))]
            changed = tuple([k for k, given in enumerate(whole) if given != same[k]])
        case DynamicSlice(lengths):
            type = ins.operands[0].type
            changed = tuple([k for k, n in enumerate(lengths) if n != _bound(type, k)])
        case DotGeneral():
            dims = ins.op.dimensions
            summed = (dims.lhs_contracting, dims.rhs_contracting)
            types = [operand.type for operand in ins.operands]
            # A summed dimension of unknown size has no index in the result.
            return len(types) == 2 and all(
                set(dynamic_dimensions(t)).isdisjoint(k) for t, k in zip(types, summed, strict=True)
            )
        case BitcastConvert():
            return _rank(ins.operands[0].type) == _rank(ins.type)
        case op:
            return isinstance(op, KEEPS_DIMENSIONS)
    dynamic = [k for operand in ins.operands for k in dynamic_dimensions(operand.type)]
    return set(dynamic).isdisjoint(changed)


def _size(ins: Instruction, operand: int, dimension: int, reason: str = "") -> Iterator[SizeRead]:
    """Yield the size of an operand's dimension as a dependence, if it is dynamic.

    A nonempty `reason` says why the dependence may be larger than necessary.
    """
    if dimension in dynamic_dimensions(ins.operands[operand].type):
        yield SizeRead(operand, dimension=dimension, reason=reason)


def _all_sizes(ins: Instruction, reason: str) -> Iterator[SizeRead]:
    """Yield all dynamic sizes of all operands, and all elements of operands that hold sizes.

    `reason` says why these dependences may be more than necessary.
    """
    for k, operand in enumerate(ins.operands):
        for number, leaf in enumerate(leaves(operand.type)):
            for dimension in dynamic_dimensions(leaf):
                yield SizeRead(k, number, dimension, reason=reason)
    for k in ins.op.reads_values:
        if k < len(ins.operands):
            yield SizeRead(k, element=None, reason=reason)


def _equal_size_reads(ins: Instruction, reads: Iterable[SizeRead]) -> Reads:
    """Return the dependences of a size that the program requires to equal all sizes in `reads`.

    If all evidently come from the same size, only the first is returned. Otherwise all are, as
    over-approximations.
    """
    found = tuple(reads)
    if len(found) < 2:
        return found
    places = {_origin(ins, read, {}) for read in found}
    if len(places) == 1:
        return found[:1]
    return tuple([read._replace(reason=SIZES_AGREE) for read in found])


def sizes_agree(ins: Instruction, dimension: int) -> bool:
    """Return whether all operands evidently have the same run-time size in the dimension."""
    return not any(read.reason for read in size_reads(ins, 0, dimension) or ())


SizeRule: TypeAlias = Callable[[Instruction, Any, int, int], Iterable[SizeRead] | None]
"""Function of an instruction, its op, the number of an output and a dimension.

It returns the dependences of that size.
"""
SOURCES: Final = ByOp[SizeRule]()


def size_reads(ins: Instruction, output: int, dimension: int) -> Reads | None:
    """Return the dependences of the size of an output's dimension; `None` if unknown.

    Args:
        ins: The instruction.
        output: Number of the tensor of its value.
        dimension: A dimension of unknown size.
    """
    op = ins.op
    source = SOURCES.find(op)
    if source is None:
        return tuple(_all_sizes(ins, DEPENDS))
    found = source(ins, op, output, dimension)
    return None if found is None else tuple(found)


@SOURCES.add(SetDimensionSize)
def _(ins: Instruction, op: SetDimensionSize, output: int, k: int) -> Iterable[SizeRead]:
    return [SizeRead(1)] if k == op.dimension else _size(ins, 0, k)


@SOURCES.add(Reverse, DynamicUpdateSlice)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead]:
    return _size(ins, 0, k)


@SOURCES.add(Sort, Scatter, AllReduce, CrossReplicaSum)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead]:
    """Return the size of the operand with the output's number, which the result has too."""
    return _size(ins, output, k)


@SOURCES.add(Elementwise, Map)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead]:
    return _equal_size_reads(
        ins, [read for o in range(len(ins.operands)) for read in _size(ins, o, k)]
    )


@SOURCES.add(ImplicitBroadcast)
def _(ins: Instruction, op: ImplicitBroadcast, output: int, k: int) -> Iterable[SizeRead]:
    rank = _rank(ins.type)
    found: list[SizeRead] = []
    for o, operand in enumerate(ins.operands):
        places = op.result_dims(_rank(operand.type), rank)
        if k in places:
            found += _size(ins, o, places.index(k))
    return _equal_size_reads(ins, found)


@SOURCES.add(Concatenate)
def _(ins: Instruction, op: Concatenate, output: int, k: int) -> Iterable[SizeRead]:
    found = [read for o in range(len(ins.operands)) for read in _size(ins, o, k)]
    return found if k == op.dimension else _equal_size_reads(ins, found)


@SOURCES.add(Transpose)
def _(ins: Instruction, op: Transpose, output: int, k: int) -> Iterable[SizeRead]:
    return _size(ins, 0, op.permutation[k])


@SOURCES.add(BroadcastInDim)
def _(ins: Instruction, op: BroadcastInDim, output: int, k: int) -> Iterable[SizeRead]:
    places = op.broadcast_dimensions
    return _size(ins, 0, places.index(k)) if k in places else ()


@SOURCES.add(Broadcast)
def _(ins: Instruction, op: Broadcast, output: int, k: int) -> Iterable[SizeRead]:
    new = len(op.broadcast_sizes)
    return _size(ins, 0, k - new) if k >= new else ()


@SOURCES.add(Reduce)
def _(ins: Instruction, op: Reduce, output: int, k: int) -> Iterable[SizeRead]:
    inputs = range(len(ins.operands) // 2)
    left = [i for i in range(_rank(ins.operands[0].type)) if i not in op.dimensions]
    return _equal_size_reads(ins, [read for o in inputs for read in _size(ins, o, left[k])])


@SOURCES.add(Slice)
def _(ins: Instruction, op: Slice, output: int, k: int) -> Iterable[SizeRead]:
    whole = (0, _bound(ins.operands[0].type, k), 1)
    given = (op.start_indices[k], op.limit_indices[k], op.strides[k])
    return _size(ins, 0, k, "" if given == whole else DEPENDS)


@SOURCES.add(DynamicSlice)
def _(ins: Instruction, op: DynamicSlice, output: int, k: int) -> Iterable[SizeRead]:
    whole = _bound(ins.operands[0].type, k)
    return _size(ins, 0, k, "" if op.slice_sizes[k] == whole else DEPENDS)


@SOURCES.add(Pad)
def _(ins: Instruction, op: Pad, output: int, k: int) -> Iterable[SizeRead]:
    more = op.edge_padding_low[k] + op.edge_padding_high[k]
    return _size(ins, 0, k, "" if more >= 0 else DEPENDS)


@SOURCES.add(Reshape, Bitcast, BitcastConvert)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead]:
    """Return all dynamic sizes of the operand.

    They are exact if both sides have one dynamic size and no other size is 0.
    """
    source, type = dynamic_dimensions(ins.operands[0].type), ins.type
    known = isinstance(type, TensorType) and prod(s for s in type.sizes if s is not None) > 0
    is_one = known and len(source) == 1 == len(dynamic_dimensions(type))
    return [read for i in source for read in _size(ins, 0, i, "" if is_one else DEPENDS)]


@SOURCES.add(DotGeneral)
def _(ins: Instruction, op: DotGeneral, output: int, k: int) -> Iterable[SizeRead]:
    """Return the size of the operand's dimension that becomes dimension `k` of the result.

    The result has batch dimensions, then free ones of the left side, then of the right side.
    """
    dims = op.dimensions
    ranks = [_rank(operand.type) for operand in ins.operands[:2]]
    summed = {*dims.lhs_batch, *dims.lhs_contracting}, {*dims.rhs_batch, *dims.rhs_contracting}
    if k < len(dims.lhs_batch):
        both = (*_size(ins, 0, dims.lhs_batch[k]), *_size(ins, 1, dims.rhs_batch[k]))
        return _equal_size_reads(ins, both)
    free = [(o, i) for o in (0, 1) for i in range(ranks[o]) if i not in summed[o]]
    return _size(ins, *free[k - len(dims.lhs_batch)])


@SOURCES.add(DynamicReshape)
def _(ins: Instruction, op: DynamicReshape, output: int, k: int) -> Iterable[SizeRead]:
    """Return the operand that holds the size: StableHLO has a vector, HLO a scalar per size."""
    is_vector = len(ins.operands) == 2 and _rank(ins.operands[1].type) == 1
    return [SizeRead(1, element=(k,)) if is_vector else SizeRead(1 + k)]


@SOURCES.add(DynamicBroadcastInDim)
def _(ins: Instruction, op: DynamicBroadcastInDim, output: int, k: int) -> Iterable[SizeRead]:
    return [SizeRead(1, element=(k,))]


@SOURCES.add(DynamicIota)
def _(ins: Instruction, op: DynamicIota, output: int, k: int) -> Iterable[SizeRead]:
    return [SizeRead(0, element=(k,))]


@SOURCES.add(DynamicPad)
def _(ins: Instruction, op: DynamicPad, output: int, k: int) -> Iterable[SizeRead]:
    given = [SizeRead(o, element=(k,), reason=DEPENDS) for o in (2, 3, 4)]
    return [*_size(ins, 0, k, DEPENDS), *given]


@SOURCES.add(RealDynamicSlice)
def _(ins: Instruction, op: RealDynamicSlice, output: int, k: int) -> Iterable[SizeRead]:
    return [SizeRead(o, element=(k,), reason=DEPENDS) for o in (1, 2, 3)]


@SOURCES.add(control.CustomCall, control.UnknownOp)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead] | None:
    if isinstance(op, control.CustomCall) and op.call_target_name == "SliceToDynamic":
        return [SizeRead(1 + k)]
    return None


@SOURCES.add(*PASSED_ON)
def _(ins: Instruction, op: Op, output: int, k: int) -> Iterable[SizeRead]:
    source = passed_on(ins, output)
    return () if source is None else [SizeRead(*source, k)]


def element_reads(ins: Instruction, output: int, is_read: Sequence[bool]) -> Reads:
    """Return the sizes that an output's elements depend on, beyond the elements they read.

    Args:
        ins: The instruction.
        output: Number of the tensor of its value.
        is_read: For each operand, whether an element of the output reads it.
    """
    match ins.op:
        case GetDimensionSize(dimension):
            return tuple(_size(ins, 0, dimension))
        case control.CustomCall(call_target_name="PadToStatic"):
            dynamic = dynamic_dimensions(ins.operands[0].type)
            if output == 0:
                return tuple([SizeRead(0, dimension=k, reason=DEPENDS) for k in dynamic])
            return tuple(_size(ins, 0, output - 1))
        case _ if keeps_indices(ins):
            dynamic = dynamic_dimensions(leaves(ins.type)[output])
            found = [r for k in dynamic for r in size_reads(ins, output, k) or ()]
            # Elements that are read depend on the sizes of their own operand already.
            return tuple([read for read in found if not is_read[read.operand]])
        case _:
            return tuple([r for r in _all_sizes(ins, DEPENDS) if r.dimension is not None])


def _rank(type: Type) -> int:
    return type.rank if isinstance(type, TensorType) else 0


def _bound(type: Type, k: int) -> int | None:
    """Return the size of dimension `k`, or else the bound of the size; `None` without both."""
    return type.most[k] if isinstance(type, TensorType) else None


def passed_on(ins: Instruction, output: int) -> tuple[int, int] | None:
    """Return the operand, and the number of its leaf, that an output of a `PASSED_ON` op equals.

    The result is `None` if the output equals no leaf.
    """
    match ins.op:
        case control.GetTupleElement(index) | control.Result(index):
            return 0, first_leaf(ins.operands[0].type, index) + output
        case control.CopyStart():  # the value is (target, source, context)
            count = len(leaves(ins.operands[0].type))
            return (0, output % count) if output < 2 * count else None
        case control.Domain() | control.AddDependency() | control.CopyDone():
            return (0, output) if output < len(leaves(ins.operands[0].type)) else None
        case _:
            for k, operand in enumerate(ins.operands):
                count = len(leaves(operand.type))
                if output < count:
                    return k, output
                output -= count
            return None


def _origin(
    ins: Instruction, read: SizeRead, origins: dict[SizeOrElements, SizeOrElements]
) -> SizeOrElements:
    """Return the run-time size that the dependence `read` of `ins` comes from, where it was set.

    It is found by tracing back, through values of equal size, in this computation. A dependence on
    elements leads to the elements of the operand. `origins` has the results of earlier calls and is
    extended.
    """
    value = ins.operands[read.operand]
    if read.dimension is None:
        op = value.op
        return (op if isinstance(op, Constant) else value), read.tensor, None
    place = (value, read.tensor, read.dimension)
    if place in origins or len(origins) >= MAX_VISITS:
        return origins.get(place, place)
    # Entered before the recursion, so that a cycle ends.
    origins[place] = place
    before = _equal_sizes(value, read.tensor, read.dimension)
    places = {_origin(value, r, origins) for r in before}
    if len(places) == 1:
        origins[place] = places.pop()
    return origins[place]


def _equal_sizes(value: Instruction, tensor: int, dimension: int) -> Reads:
    """Return the sizes of operands that certainly equal the size of a dimension of `value`.

    The result is empty if none is known.
    """
    match value.op:
        case op if isinstance(op, PASSED_ON):
            return size_reads(value, tensor, dimension) or ()
        case Elementwise() | Map():
            all_of = [r for o in range(len(value.operands)) for r in _size(value, o, dimension)]
            return tuple(all_of)
        case SetDimensionSize() | Reverse() | Sort() | Transpose() | BroadcastInDim() | Broadcast():
            return size_reads(value, tensor, dimension) or ()
        case Slice() | DynamicSlice() | Reduce() | DotGeneral() | DynamicUpdateSlice() | Scatter():
            found = size_reads(value, tensor, dimension) or ()
            return found if all(not r.reason for r in found) else ()
        case _:
            return ()
