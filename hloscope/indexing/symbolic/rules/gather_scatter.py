"""Indexed reads and writes, whose positions depend on values.

The ranges of the positions do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import POS_INF, Const, Dim, Expr
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import NEVER, exact, over
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims
from hloscope.indexing.symbolic.symbols import Shape
from hloscope.ops import DynamicGather, Gather, Scatter

_CHOSEN: Final = "where a slice begins is read at run time"
_UPDATED: Final = "which elements are updated is read at run time"
_OVERWRITTEN: Final = "an element that an update overwrites is not read"


def _position(at: SizedBuilder, indices: Shape, vector_dim: int, row: Sequence[Expr]) -> list[Expr]:
    """Return the indices, in the array of indices, of the coordinates of a row."""
    if vector_dim == len(indices):
        return [*row]
    return [*row[:vector_dim], at.range(indices[vector_dim]), *row[vector_dim:]]


def _row_of(dimension: int, vector_dim: int) -> int:
    """Return the row coordinate that is a given dimension of the indices."""
    return dimension - (dimension > vector_dim)


@RULES.add(Gather, DynamicGather)
def _(asked: Asked, op: Gather | DynamicGather) -> Answer:
    """A slice is clamped, so it begins at any position where it fits."""
    sliced, vector_dim = asked.result, op.index_vector_dim
    row = [Dim(k) for k in range(len(sliced)) if k not in op.offset_dims]
    gone, kept = {*op.collapsed_slice_dims, *op.operand_batching_dims}, iter(op.offset_dims)
    at, index, rooms = asked.builder(), list[Expr](), dict[int, Expr]()
    for k, size in enumerate(asked.shape(0)):
        if k in op.operand_batching_dims:
            place = op.start_indices_batching_dims[op.operand_batching_dims.index(k)]
            index.append(row[_row_of(place, vector_dim)])
            continue
        offset: Expr = Const(0)
        extent: Expr = Const(1)
        if k not in gone:
            window = next(kept)
            offset, extent = Dim(window), sliced[window]
        room = asked.frame.symbols.settled(size - extent)
        if k in op.start_index_map and room != Const(0):
            rooms[op.start_index_map.index(k)] = room
            offset += at.range(room + 1)
        index.append(offset)
    found = at.map(index)
    operand = over(_CHOSEN, found) if rooms else exact(found)
    reads = []
    for number, room in sorted(rooms.items()):
        vectors, position = asked.builder(), list[Expr](row)
        vectors.require(room, 1, POS_INF)  # a coordinate that is clamped to [0, 0] is not read
        if vector_dim < len(asked.shape(1)):
            position.insert(vector_dim, Const(number))
        reads.append(vectors.map(position))
    return [operand, exact(*reads), *asked.all_of(2)]


@RULES.add(Scatter)
def _(asked: Asked, op: Scatter) -> Answer:
    """Any row of the same batch may update an element."""
    count = len(asked.operands) // 2
    body = asked.bodies[0] if asked.bodies else None
    same = asked.builder().map(dims(asked.result))
    if body is not None and count == 1 and body.unchanged[0] == 0:
        return [exact(same), NEVER, NEVER]
    is_read = body is not None and count == 1 and 0 in body.sure[0]
    old = exact(same) if is_read else over(_OVERWRITTEN, same)
    updates = over(_UPDATED, _updates(asked, op))
    return [*[old] * count, _vectors(asked, op), *[updates] * count]


def _rows(asked: Asked, op: Scatter, at: SizedBuilder, shape: Sequence[Expr]) -> list[Expr]:
    """Return the rows that may update an element; `shape` has their sizes."""
    fixed = {
        _row_of(place, op.index_vector_dim): Dim(k)
        for k, place in zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True)
    }
    return [fixed[j] if j in fixed else at.range(size) for j, size in enumerate(shape)]


def _vectors(asked: Asked, op: Scatter) -> Accesses:
    indices, at = asked.shape(len(asked.operands) // 2), asked.builder()
    vector_dim = op.index_vector_dim
    row = _rows(asked, op, at, [size for k, size in enumerate(indices) if k != vector_dim])
    return over(_UPDATED, at.map(_position(at, indices, vector_dim, row)))


def _updates(asked: Asked, op: Scatter) -> IndexingMap:
    sliced, at = asked.shape(len(asked.operands) - 1), asked.builder()
    outside = [k for k in range(len(sliced)) if k not in op.update_window_dims]
    index: list[Expr] = [Const(0)] * len(sliced)
    for k, e in zip(outside, _rows(asked, op, at, [sliced[k] for k in outside]), strict=True):
        index[k] = e
    gone = {*op.inserted_window_dims, *op.input_batching_dims}
    kept = [k for k in range(len(asked.result)) if k not in gone]
    for k, window in zip(kept, op.update_window_dims, strict=True):
        if k in op.scatter_dims_to_operand_dims:
            index[window] = at.range(sliced[window])
        else:
            at.below(Dim(k), sliced[window])
            index[window] = Dim(k)
    return at.map(index)
