"""Ops that select a part of an array."""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import POS_INF, Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import NEVER, exact
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims, known
from hloscope.indexing.symbolic.rules.shape import misses
from hloscope.ops import DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice


@RULES.add(Slice)
def _(asked: Asked, op: Slice) -> Answer:
    rows = zip(op.start_indices, op.strides, strict=True)
    return [exact(asked.builder().map([Dim(k) * s + lo for k, (lo, s) in enumerate(rows)]))]


@RULES.add(RealDynamicSlice)
def _(asked: Asked, op: RealDynamicSlice) -> Answer:
    index = []
    for k in range(len(asked.result)):
        start, step = (known(asked.operands[o], k) for o in (1, 3))
        index.append(Dim(k) * step + start)
    return [exact(asked.builder().map(index)), *asked.all_of(1)]


@RULES.add(DynamicSlice)
def _(asked: Asked, op: DynamicSlice) -> Answer:
    """The start is clamped so that the slice fits."""
    at, index = asked.builder(), []
    for k, (size, length) in enumerate(zip(asked.shape(0), op.slice_sizes, strict=True)):
        start = asked.operands[1 + k].contents
        begin = None if start is None else start[0]
        room = asked.frame.symbols.settled(size - length)
        if begin is None and room != Const(0):
            raise UnsupportedError("where it begins is not known in terms of sizes")
        index.append(Dim(k) if room == Const(0) else Dim(k) + _moved_inside(asked, begin, room))
    rooms = zip(asked.shape(0), op.slice_sizes, strict=True)
    return [exact(at.map(index)), *_starts(asked, 1, [size - length for size, length in rooms])]


def _starts(asked: Asked, first: int, rooms: Sequence[Expr]) -> list[Accesses]:
    """Return the accesses of the starts; a start that is clamped to [0, 0] is not read."""
    found: list[Accesses] = []
    for k, room in enumerate(rooms):
        at = asked.builder()
        at.require(room, 1, POS_INF)
        index = [at.range(size) for size in asked.shape(first + k)]
        is_still = asked.frame.symbols.settled(room) == Const(0)
        found.append(NEVER if is_still else exact(at.map(index)))
    return found


@RULES.add(DynamicUpdateSlice)
def _(asked: Asked, op: DynamicUpdateSlice) -> Answer:
    """The update is read inside the clamped window, the operand everywhere else."""
    whole, part = asked.shape(0), asked.shape(1)
    places: list[Expr] = []
    for k, (size, length) in enumerate(zip(whole, part, strict=True)):
        room = asked.frame.symbols.settled(size - length)
        begin = Const(0) if room == Const(0) else known(asked.operands[2 + k], 0)
        places.append(Dim(k) - _moved_inside(asked, begin, room))
    at, outside = asked.builder(), []
    for place, length in zip(places, part, strict=True):
        at.below(place, length)
    # A piece is outside of the window first in dimension `k`, so the pieces are disjoint.
    for k, length in enumerate(part):
        for missed in misses(places[k], 1, length):
            piece = asked.builder()
            for j in range(k):
                piece.below(places[j], part[j])
            missed(piece)
            outside.append(piece.map(dims(whole)))
    rooms = [size - length for size, length in zip(whole, part, strict=True)]
    return [exact(*outside), exact(at.map(places)), *_starts(asked, 2, rooms)]


def _moved_inside(asked: Asked, begin: Expr | None, room: Expr) -> Expr:
    """Return the start of a slice that is known to be in bounds."""
    symbols = asked.frame.symbols
    if begin is None or symbols.bounds(begin).lo < 0 or symbols.bounds(room - begin).lo < 0:
        raise UnsupportedError("whether the slice is moved to be inside is not known")
    return begin
