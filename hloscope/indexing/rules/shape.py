"""Rules for ops that rearrange elements without computing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from hloscope.affine import Dim, Expr, from_terms
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.elementwise import broadcast_read, broadcast_write
from hloscope.indexing.rules.registry import (
    NEVER,
    MapBuilder,
    dims,
    exact,
    identity,
    input_to_output,
    output_to_input,
    sizes,
    trailing,
    unknown,
)
from hloscope.ir import Dims, Instruction, TensorType, of_last
from hloscope.ops import (
    Bitcast,
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.indexing.physical as layout
    import hloscope.indexing.physical as reshape
else:
    layout = lazy("hloscope.indexing.physical")
    reshape = lazy("hloscope.indexing.physical")

# Sources of values: no operands, nothing to read.


@output_to_input(Constant, Iota, shared=False)
def _(ins: Instruction, op: Constant | Iota, output: int) -> tuple[Accesses, ...]:
    return ()


@input_to_output(Constant, Iota, shared=False)
def _(ins: Instruction, op: Constant | Iota, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,)


@output_to_input(BroadcastInDim)
def _(ins: Instruction, op: BroadcastInDim, output: int) -> tuple[Accesses, ...]:
    source = sizes(ins.operands[0].type)
    return (broadcast_read(source, sizes(ins.type), op.broadcast_dimensions),)


@input_to_output(BroadcastInDim)
def _(ins: Instruction, op: BroadcastInDim, operand: int) -> tuple[Accesses, ...]:
    source = sizes(ins.operands[0].type)
    return (broadcast_write(source, sizes(ins.type), op.broadcast_dimensions),)


@output_to_input(Broadcast)
def _(ins: Instruction, op: Broadcast, output: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    return (broadcast_read(source, target, trailing(source, target)),)


@input_to_output(Broadcast)
def _(ins: Instruction, op: Broadcast, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    return (broadcast_write(source, target, trailing(source, target)),)


@output_to_input(Transpose)
def _(ins: Instruction, op: Transpose, output: int) -> tuple[Accesses, ...]:
    inverse = [op.permutation.index(k) for k in range(len(op.permutation))]
    return (_permute(sizes(ins.type), inverse),)


@input_to_output(Transpose)
def _(ins: Instruction, op: Transpose, operand: int) -> tuple[Accesses, ...]:
    return (_permute(sizes(ins.operands[0].type), op.permutation),)


def _permute(shape: Dims, order: Sequence[int]) -> Accesses:
    """Return the access whose result `k` is dimension `order[k]` of an index of the shape `shape`.

    >>> print(_permute((2, 3), (1, 0))[0].map)
    (d0, d1) -> (d1, d0), domain: d0 in [0, 1], d1 in [0, 2]
    """
    own = dims(len(shape))
    return exact(MapBuilder(shape).map([own[k] for k in order]))


@output_to_input(Reverse)
@input_to_output(Reverse)
def _(ins: Instruction, op: Reverse, number: int) -> tuple[Accesses, ...]:
    """Return the access of the reversed index, which is the same in both directions."""
    shape = sizes(ins.type)
    at = MapBuilder(shape)
    results: list[Expr] = dims(len(shape))
    for k in op.dimensions:
        results[k] = shape[k] - 1 - results[k]
    return (exact(at.map(results)),)


@output_to_input(Reshape)
def _(ins: Instruction, op: Reshape, output: int) -> tuple[Accesses, ...]:
    return (exact(reshape.reshape_map(sizes(ins.type), sizes(ins.operands[0].type))),)


@input_to_output(Reshape)
def _(ins: Instruction, op: Reshape, operand: int) -> tuple[Accesses, ...]:
    return (exact(reshape.reshape_map(sizes(ins.operands[0].type), sizes(ins.type))),)


@output_to_input(Bitcast)
def _(ins: Instruction, op: Bitcast, output: int) -> tuple[Accesses, ...]:
    return (_same_bytes(ins, from_output=True),)


@input_to_output(Bitcast)
def _(ins: Instruction, op: Bitcast, operand: int) -> tuple[Accesses, ...]:
    return (_same_bytes(ins, from_output=False),)


def _same_bytes(ins: Instruction, *, from_output: bool) -> Accesses:
    source, target = ins.operands[0].type, ins.type
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return unknown("a bitcast of something that is not an array")
    sizes(source), sizes(target)  # refuses dimensions without bounds
    here, there = (target, source) if from_output else (source, target)
    found = layout.bitcast_map(here, there)
    return unknown(found) if isinstance(found, str) else exact(found)


@output_to_input(BitcastConvert)
def _(ins: Instruction, op: BitcastConvert, output: int) -> tuple[Accesses, ...]:
    return (_same_bits(sizes(ins.type), sizes(ins.operands[0].type)),)


@input_to_output(BitcastConvert)
def _(ins: Instruction, op: BitcastConvert, operand: int) -> tuple[Accesses, ...]:
    return (_same_bits(sizes(ins.operands[0].type), sizes(ins.type)),)


def _same_bits(here: Dims, there: Dims) -> Accesses:
    """Return the access to the elements that share bits, between types of different width.

    `here` and `there` are the sizes. The narrower type has one more dimension, which numbers the
    parts of a wider element.
    """
    if len(here) == len(there):
        return identity(here)
    at = MapBuilder(here)
    common = dims(min(len(here), len(there)))
    return exact(at.map([*common, at.range(there[-1])] if len(here) < len(there) else common))


@output_to_input(Concatenate)
def _(ins: Instruction, op: Concatenate, output: int) -> tuple[Accesses, ...]:
    target, k = sizes(ins.type), op.dimension
    answer, start = [], 0
    for operand in ins.operands:
        size = sizes(operand.type)[k]
        at = MapBuilder(target)
        at.bound(k, start, start + size - 1)
        answer.append(exact(at.map(_shifted(len(target), k, -start))))
        start += size
    return tuple(answer)


@input_to_output(Concatenate)
def _(ins: Instruction, op: Concatenate, operand: int) -> tuple[Accesses, ...]:
    start = _starts(ins)[operand]
    source = sizes(ins.operands[operand].type)
    return (exact(MapBuilder(source).map(_shifted(len(source), op.dimension, start))),)


# Memoized: it is called for each operand of a concatenation, so computing it each time is
# quadratic.
@of_last
def _starts(ins: Instruction) -> list[int]:
    """Return the first index of each operand in the result, along the concatenated dimension."""
    assert isinstance(ins.op, Concatenate)
    along = [sizes(operand.type)[ins.op.dimension] for operand in ins.operands]
    return [0, *accumulate(along[:-1])]


def _shifted(rank: int, dimension: int, offset: int) -> list[Expr]:
    """Return an index of `rank` dimensions, with `offset` added in dimension `dimension`."""
    results = dims(rank)
    results[dimension] = from_terms([(results[dimension], 1)], offset)
    return results


# Pad: array element `i` is at index `low + i * (interior + 1)`. All other indices read the padding
# value. They are a union of disjoint pieces: in the first dimension without an element, the index
# is before the array, after it, or between two of its elements.


@output_to_input(Pad)
def _(ins: Instruction, op: Pad, output: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    at = MapBuilder(target)
    results = [_hit(at, op, source, target, k, Dim(k)) for k in range(len(target))]
    value = [at.map(()) for at, _ in _misses(op, source, target, ranges=False)]
    return (exact(at.map(results)), exact(*value))


@input_to_output(Pad)
def _(ins: Instruction, op: Pad, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    if operand == 1:
        pieces = _misses(op, source, target, ranges=True)
        return (exact(*[at.map(index) for at, index in pieces]),)
    at = MapBuilder(source)
    results: list[Expr] = []
    for k, size in enumerate(target):
        low, step = op.edge_padding_low[k], op.interior_padding[k] + 1
        at.require(Dim(k), -(low // step), (size - 1 - low) // step)
        results.append(Dim(k) * step + low)
    return (exact(at.map(results)),)


def _hit(at: MapBuilder, op: Pad, source: Dims, target: Dims, k: int, index: Expr) -> Expr:
    """Return the coordinate of the array element at index `index` of the result in dimension `k`.

    The builder gets the constraint that this element exists. `source` has the sizes of the array,
    `target` those of the result.
    """
    low, step = op.edge_padding_low[k], op.interior_padding[k] + 1
    at.require(index, max(0, low), min(target[k] - 1, low + (source[k] - 1) * step))
    if step == 1:
        return index - low
    at.require((index - low) % step, 0, 0)
    return (index - low) // step


def _misses(
    op: Pad, source: Dims, target: Dims, *, ranges: bool
) -> list[tuple[MapBuilder, list[Expr]]]:
    """Return the disjoint pieces of the result that hold the padding value.

    Each piece is a builder and an index of the result. The index is over the builder's dimensions,
    or with `ranges` over its range variables. `source` has the sizes of the array, `target` those
    of the result.
    """
    pieces = []
    for k, size in enumerate(target):
        low, step = op.edge_padding_low[k], op.interior_padding[k] + 1
        end = low + (source[k] - 1) * step  # the index of the last element
        if source[k] == 0:
            bounds = [(0, size - 1, False)]
        else:
            inner = (max(low, 0), min(end, size - 1), True)
            bounds = [(0, min(low, size) - 1, False), (max(end + 1, 0), size - 1, False), inner]
        for lo, hi, between in bounds:
            has_no_gap = step == 1 or (lo == hi and (lo - low) % step == 0)
            if lo > hi or (between and has_no_gap):
                continue
            at = MapBuilder(() if ranges else target)
            index: list[Expr] = [at.range(n) for n in target] if ranges else dims(len(target))
            # In the dimensions before `k` the index hits an element, so the pieces are disjoint.
            for j in range(k):
                _hit(at, op, source, target, j, index[j])
            at.require(index[k], lo, hi)
            if between:
                at.require((index[k] - low) % step, 1, step - 1)
            pieces.append((at, index))
    return [(at, index) for at, index in pieces if not at.map(()).is_known_empty]
