"""Ops that rearrange elements or create tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from hloscope.affine import NEG_INF, POS_INF, Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import exact
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.reshaping import regrouped
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims, in_place
from hloscope.ops import (
    BitcastConvert,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Op,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)

_MOST_CASES: Final = 4


@RULES.add(Constant, Iota)
def _(asked: Asked, op: Op) -> Answer:
    return ()


@RULES.add(Transpose)
def _(asked: Asked, op: Transpose) -> Answer:
    index = [Dim(op.permutation.index(k)) for k in range(len(asked.result))]
    return [exact(asked.builder().map(index))]


@RULES.add(Reverse)
def _(asked: Asked, op: Reverse) -> Answer:
    index = dims(asked.result)
    for k in op.dimensions:
        index[k] = asked.result[k] - 1 - index[k]
    return [exact(asked.builder().map(index))]


@RULES.add(BroadcastInDim)
def _(asked: Asked, op: BroadcastInDim) -> Answer:
    return [broadcast(asked, op.broadcast_dimensions, (), ())]


def broadcast(
    asked: Asked, places: Sequence[int], stretched: Sequence[int], kept: Sequence[int]
) -> Accesses:
    """Return the access of a broadcast: a dimension of size 1 is read at 0, others at their index.

    If it is unknown whether a size is 1, both cases have a map with the condition on the size.
    """
    symbols, source = asked.frame.symbols, asked.shape(0)
    choices: list[tuple[int, ...]] = []
    for k, place in enumerate(places):
        size = symbols.settled(source[k])
        if size == Const(1) or k in stretched:
            choices.append((1,))
        elif k in kept or symbols.equal(size, asked.result[place]) or symbols.bounds(size).lo > 1:
            choices.append((0,))
        else:
            choices.append((0, 1))
    # Each undecided dimension doubles the number of maps.
    if sum(len(choice) > 1 for choice in choices) > _MOST_CASES // 2:
        raise UnsupportedError("which dimensions expand depends on the sizes")
    found = []
    for chosen in product(*choices):
        at = asked.builder()
        index: list[Expr] = []
        for k, (expands, place) in enumerate(zip(chosen, places, strict=True)):
            if len(choices[k]) > 1:
                at.require(source[k], *((1, 1) if expands else (2, POS_INF)))
            index.append(Const(0) if expands else Dim(place))
        found.append(at.map(index))
    return exact(*found)


@RULES.add(Reshape)
def _(asked: Asked, op: Reshape) -> Answer:
    return [reshaped(asked)]


def reshaped(asked: Asked) -> Accesses:
    """Return the access to the element of the first operand at the same row-major position."""
    at = asked.builder()
    index = regrouped(asked.frame.symbols, asked.result, asked.shape(0), dims(asked.result))
    return exact(at.map(index))


@RULES.add(Concatenate)
def _(asked: Asked, op: Concatenate) -> Answer:
    found, start, k = [], Const(0), op.dimension
    for number in range(len(asked.operands)):
        size = asked.shape(number)[k]
        at, index = asked.builder(), dims(asked.result)
        at.below(Dim(k) - start, size)
        index[k] = Dim(k) - start
        found.append(exact(at.map(index)))
        start = start + size  # type: ignore[assignment]
    return found


@RULES.add(Pad)
def _(asked: Asked, op: Pad) -> Answer:
    low, gaps = [Const(n) for n in op.edge_padding_low], op.interior_padding
    return padded(asked, low, [gap + 1 for gap in gaps])


def padded(asked: Asked, low: Sequence[Expr], steps: Sequence[int]) -> list[Accesses]:
    """Return the accesses of a pad.

    Elements at every `steps`-th index from `low`, the value elsewhere.
    """
    at, source = asked.builder(), asked.shape(0)
    index = [element(at, Dim(k) - low[k], steps[k], source[k]) for k in range(len(source))]
    value = []
    for k, size in enumerate(source):
        for missed in misses(Dim(k) - low[k], steps[k], size):
            piece = asked.builder()
            for j in range(k):
                element(piece, Dim(j) - low[j], steps[j], source[j])
            missed(piece)
            value.append(piece.map(()))
    return [exact(at.map(index)), exact(*value)]


def element(at: SizedBuilder, place: Expr, step: int, size: Expr) -> Expr:
    """Return the index of the element at a position from the first one; require that it exists."""
    at.require(place, 0, POS_INF)
    at.require(place - (size - 1) * step, NEG_INF, 0)
    if step == 1:
        return place
    at.require(place % step, 0, 0)
    return place // step


def misses(place: Expr, step: int, size: Expr) -> Iterator[Callable[[SizedBuilder], None]]:
    """Yield disjoint conditions for positions without an element, as functions that add them."""
    yield lambda at: at.require(place, NEG_INF, -1)

    def behind(at: SizedBuilder) -> None:
        at.require(place, 0, POS_INF)
        at.require(place - (size - 1) * step, 1, POS_INF)

    yield behind
    if step > 1:

        def between(at: SizedBuilder) -> None:
            at.require(place, 0, POS_INF)
            at.require(place - (size - 1) * step, NEG_INF, 0)
            at.require(place % step, 1, step - 1)

        yield between


@RULES.add(BitcastConvert)
def _(asked: Asked, op: BitcastConvert) -> Answer:
    return in_place(asked)
