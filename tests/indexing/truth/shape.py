"""Cases of ops that move elements: numpy moves their marks."""

from __future__ import annotations

from math import prod

import numpy as np

from hloscope.ir.types import Layout
from hloscope.ops.control import GetTupleElement, Tuple
from hloscope.ops.shape import (
    Bitcast,
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)
from tests.indexing.truth.generator import Gen, case
from tests.indexing.truth.marks import Case, Ints, Marks, all_of, as_marks, empty


@case("broadcast_in_dim")
def broadcast_in_dim(g: Gen) -> Case:
    """HLO's form: dimensions of the operand in any order, none expanding."""
    shape = g.shape()
    places = g.some(len(shape))
    x = g.array([shape[p] for p in places])
    order = np.argsort(places)
    aligned = [n if d in places else 1 for d, n in enumerate(shape)]
    moved = np.transpose(x.marks, order).reshape(aligned)
    return g.case(BroadcastInDim(places), [x], np.broadcast_to(moved, shape))


@case("broadcast_in_dim: size 1 expands")
def broadcast_expanding(g: Gen) -> Case:
    shape = g.shape(zero=False)
    places = tuple(sorted(g.some(len(shape))))
    x = g.array([1 if g.chance(0.5) else shape[p] for p in places])
    aligned = [1] * len(shape)
    for p, n in zip(places, x.marks.shape, strict=True):
        aligned[p] = n
    return g.case(BroadcastInDim(places), [x], np.broadcast_to(x.marks.reshape(aligned), shape))


@case("broadcast")
def broadcast(g: Gen) -> Case:
    x, sizes = g.array(g.shape(0, 2)), g.shape(0, 2)
    return g.case(Broadcast(sizes), [x], np.broadcast_to(x.marks, sizes + x.marks.shape))


@case("transpose")
def transpose(g: Gen) -> Case:
    x = g.array(g.shape())
    order = g.permutation(x.marks.ndim)
    return g.case(Transpose(order), [x], np.transpose(x.marks, order))


@case("reverse")
def reverse(g: Gen) -> Case:
    x = g.array(g.shape())
    dimensions = g.some(x.marks.ndim)
    return g.case(Reverse(dimensions), [x], np.flip(x.marks, dimensions))


def factorised(g: Gen, size: int, rank: int) -> Ints:
    """A random shape of `size` elements."""
    sizes = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        sizes.append(g.pick(divisors))
        size //= sizes[-1]
    return (*sizes, size)


@case("reshape")
def reshape(g: Gen) -> Case:
    size = g.pick([1, 6, 8, 12, 16, 24, 30, 36, 48, 60])
    x = g.array(factorised(g, size, g.number(1, 4)))
    return g.case(Reshape(), [x], x.marks.reshape(factorised(g, size, g.number(1, 4))))


@case("reshape: size 1 dimensions and scalars")
def reshape_units(g: Gen) -> Case:
    shape = g.shape(0, 2)
    padded = list(shape)
    for _ in range(g.number(0, 2)):
        padded.insert(g.number(0, len(padded)), 1)
    shapes = [tuple(padded), shape]
    source, target = shapes if g.chance(0.5) else shapes[::-1]
    x = g.array(source)
    return g.case(Reshape(), [x], x.marks.reshape(target))


@case("reshape: to nothing")
def reshape_empty(g: Gen) -> Case:
    x = g.array((g.number(1, 3), 0))
    return g.case(Reshape(), [x], x.marks.reshape((0, g.number(0, 3))))


def _layout(g: Gen, rank: int) -> Layout:
    return Layout(g.permutation(rank))


def to_memory(marks: Marks, layout: Layout) -> Marks:
    """The elements in the order in which they lie in memory."""
    return np.transpose(marks, layout.major_to_minor).reshape(-1)


def from_memory(memory: Marks, shape: Ints, layout: Layout) -> Marks:
    """The array of this shape and layout whose memory this is."""
    order = layout.major_to_minor
    physical = memory.reshape([shape[d] for d in order])
    return np.transpose(physical, np.argsort(order))


@case("bitcast")
def bitcast(g: Gen) -> Case:
    """A reshape of the memory: layouts of both sides decide."""
    size = g.pick([1, 6, 8, 12, 16, 24, 30, 36])
    source, target = factorised(g, size, g.number(1, 4)), factorised(g, size, g.number(1, 4))
    mine, other = _layout(g, len(source)), _layout(g, len(target))
    x = g.array(source, layout=mine)
    result = from_memory(to_memory(x.marks, mine), target, other)
    return g.case(Bitcast(), [x], result, layout=other)


@case("bitcast: a transpose")
def bitcast_transpose(g: Gen) -> Case:
    source = g.shape(1, 4)
    order = g.permutation(len(source))
    target = tuple(source[d] for d in order)
    mine = _layout(g, len(source))
    other = Layout(tuple(order.index(d) for d in mine.minor_to_major))
    x = g.array(source, layout=mine)
    result = np.transpose(x.marks, order)
    assert (from_memory(to_memory(x.marks, mine), target, other) == result).all()
    return g.case(Bitcast(), [x], result, layout=other)


@case("bitcast: without layouts")
def bitcast_plain(g: Gen) -> Case:
    size = g.pick([1, 6, 12, 24])
    x = g.array(factorised(g, size, g.number(1, 3)))
    return g.case(Bitcast(), [x], x.marks.reshape(factorised(g, size, g.number(1, 3))))


@case("bitcast_convert")
def bitcast_convert(g: Gen) -> Case:
    wide, narrow, ratio = g.pick([("f32", "u8", 4), ("u16", "u8", 2), ("f32", "s32", 1)])
    shape = g.shape(0, 3)
    tail = (ratio,) if ratio > 1 else ()
    if g.chance(0.5):
        x = g.array(shape, element=wide)
        parts = np.broadcast_to(x.marks.reshape(shape + (1,) * len(tail)), shape + tail)
        return g.case(BitcastConvert(), [x], parts, element=narrow)
    x = g.array(shape + tail, element=narrow)
    whole = np.bitwise_or.reduce(x.marks, axis=-1) if tail else x.marks
    return g.case(BitcastConvert(), [x], as_marks(whole), element=wide)


@case("concatenate")
def concatenate(g: Gen) -> Case:
    shape = list(g.shape(1))
    axis = g.number(0, len(shape) - 1)
    operands = []
    for _ in range(g.number(1, 4)):
        shape[axis] = g.number(0, 4)
        operands.append(g.array(shape))
    return g.case(Concatenate(axis), operands, np.concatenate([o.marks for o in operands], axis))


def padded(marks: Marks, axis: int, low: int, high: int, interior: int, fill: int) -> Marks | None:
    """One dimension padded as HLO does: interior first, then the edges, which may cut."""
    shape = list(marks.shape)
    n = shape[axis]
    shape[axis] = n + max(n - 1, 0) * interior
    spread = empty(shape)
    spread[...] = fill
    at: list[slice] = [slice(None)] * marks.ndim
    at[axis] = slice(None, None, interior + 1)
    spread[tuple(at)] = marks
    size = shape[axis] + low + high
    if size < 0:
        return None
    shape[axis] = size
    result = empty(shape)
    result[...] = fill
    start, stop = max(low, 0), min(low + spread.shape[axis], size)
    if start < stop:
        at[axis] = slice(start, stop)
        result[tuple(at)] = np.take(spread, range(start - low, stop - low), axis)
    return result


@case("pad")
def pad(g: Gen) -> Case:
    while True:
        x, value = g.array(g.shape(largest=4, most=40)), g.array(())
        rank = x.marks.ndim
        low, high = (tuple(g.number(-2, 3) for _ in range(rank)) for _ in range(2))
        interior = tuple(g.number(0, 2) if g.chance(0.5) else 0 for _ in range(rank))
        result: Marks | None = x.marks
        for axis, (lo, hi, i) in enumerate(zip(low, high, interior, strict=True)):
            if result is not None:
                result = padded(result, axis, lo, hi, i, all_of(value.marks))
        if result is not None and prod(result.shape) < 2000:
            return g.case(Pad(low, high, interior), [x, value], result)


@case("tuple")
def tuple_(g: Gen) -> Case:
    operands = [g.array(g.shape(0, 2)) for _ in range(g.number(1, 4))]
    return g.case(Tuple(), operands, tuple(o.marks for o in operands))


@case("get_tuple_element")
def get_tuple_element(g: Gen) -> Case:
    x = g.tuple_of([g.shape(0, 2) for _ in range(g.number(1, 4))])
    index = g.number(0, len(x.leaves) - 1)
    return g.case(GetTupleElement(index), [x], x.leaves[index])
