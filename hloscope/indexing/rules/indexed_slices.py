"""Slices of an array at run-time indices, the common part of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import (
    MapBuilder,
    exact,
    has_dynamic_sizes,
    integers,
    sizes,
)
from hloscope.ir import Dims, Instruction, Type
from hloscope.ops import DynamicGather, Gather, Scatter


class Fit(Enum):
    """Treatment of a slice that exceeds the bounds of the array."""

    CLAMPED = "moved inside"
    BY_WINDOW = "dropped"
    BY_ELEMENT = "its elements outside are dropped"


class Slices(Struct, frozen=True):
    """Slices of a `whole` array, one per row of the indices, of a gather or scatter.

    The *sliced* array (the result of gather, the updates of scatter) has the dimensions of the rows
    and, at `window_dims`, the dimensions of a slice that are not dropped.
    """

    whole: Dims
    sliced: Dims
    indices: Dims
    window_dims: Dims
    dropped_dims: Dims
    batching_dims: Dims
    indices_batching_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    slice_sizes: Dims
    fit: Fit

    @property
    def row_dims(self) -> Dims:
        """Dimensions of the sliced array that select the row."""
        return tuple(k for k in range(len(self.sliced)) if k not in self.window_dims)

    @property
    def kept_dims(self) -> Dims:
        """Dimensions of the whole array that a slice keeps, in order."""
        gone = {*self.dropped_dims, *self.batching_dims}
        return tuple(k for k in range(len(self.whole)) if k not in gone)

    @property
    def are_empty(self) -> bool:
        """Is a slice empty because a dropped dimension has no element in it?"""
        gone = (*self.dropped_dims, *self.batching_dims)
        return any(not (self.slice_sizes[k] and self.whole[k]) for k in gone)

    def batch_row(self, k: int) -> int | None:
        """Return the row coordinate that a batching dimension of the whole equals.

        `None` for others.
        """
        if k not in self.batching_dims:
            return None
        dim = self.indices_batching_dims[self.batching_dims.index(k)]
        return dim - (dim > self.index_vector_dim)

    def position(self, row: Sequence[Expr], vector: Expr) -> tuple[Expr, ...]:
        """Return the index, in the indices, of coordinate number `vector` of a row."""
        at = self.index_vector_dim
        if at == len(self.indices):
            return tuple(row)
        return (*row[:at], vector, *row[at:])

    def starts(self, at: MapBuilder, origin: Instruction, row: Sequence[Expr]) -> list[Expr]:
        """Return the first coordinate of a row's slice, per dimension of the whole."""
        found: list[Expr] = []
        for k, size in enumerate(self.whole):
            batch = self.batch_row(k)
            if batch is not None:
                found.append(row[batch])
            elif k in self.start_index_map:
                vector = Const(self.start_index_map.index(k))
                position = self.position(row, vector)
                room = size - self.slice_sizes[k]
                # Gather clamps a start into bounds; scatter reads it unchanged and drops what does
                # not fit.
                values = (0, room) if self.fit is Fit.CLAMPED else integers(origin.type)
                start = at.read(*values, origin, position)
                at.require(start, *self.first_coordinates(k))
                found.append(start)
            else:
                found.append(Const(0))
        return found

    def first_coordinates(self, k: int) -> tuple[int, int]:
        """Return the smallest and largest start of a slice that has any element in bounds."""
        if k not in self.start_index_map:
            return 0, 0
        size, extent = self.whole[k], self.slice_sizes[k]
        return (1 - extent, size - 1) if self.fit is Fit.BY_ELEMENT else (0, size - extent)

    def reach(self, k: int, type: Type) -> tuple[int, int]:
        """Return the smallest and largest coordinate that slices may cover, for an index type."""
        size, extent = self.whole[k], self.slice_sizes[k]
        if k in self.batching_dims:
            return 0, size - 1
        first, last = self.first_coordinates(k)
        if k in self.start_index_map:
            least, greatest = integers(type)
            first, last = max(first, least), min(last, greatest)
        if not extent or first > last:
            return 0, -1
        return max(first, 0), min(last + extent, size) - 1


IndexedSlices: TypeAlias = Gather | DynamicGather | Scatter


def slices_of(ins: Instruction, op: IndexedSlices) -> Slices:
    """Return the slices of a gather or scatter."""
    whole, indices = sizes(ins.operands[0].type), sizes(ins.operands[indices_at(ins, op)].type)
    fit = Fit.CLAMPED
    if isinstance(op, Scatter):
        fit = Fit.BY_WINDOW if op.by_window else Fit.BY_ELEMENT
        sliced = sizes(ins.operands[-1].type)
        dropped, batching = op.inserted_window_dims, op.input_batching_dims
        window_dims, indices_batching = op.update_window_dims, op.scatter_indices_batching_dims
        start_index_map = op.scatter_dims_to_operand_dims
    else:
        sliced = sizes(ins.type)
        dropped, batching = op.collapsed_slice_dims, op.operand_batching_dims
        window_dims, indices_batching = op.offset_dims, op.start_indices_batching_dims
        start_index_map = op.start_index_map
    extents = iter([sliced[k] for k in window_dims])
    gone = {*dropped, *batching}
    # A scatter has no slice sizes: they are the sizes of the updates at the window dimensions.
    given = op.slice_sizes if isinstance(op, Gather) else (1,) * len(whole)
    slice_sizes = tuple(n if k in gone else next(extents) for k, n in enumerate(given))
    return Slices(
        whole, sliced, indices, window_dims, dropped, batching, indices_batching,
        start_index_map, op.index_vector_dim, slice_sizes, fit,
    )  # fmt: skip


def indices_at(ins: Instruction, op: IndexedSlices) -> int:
    return len(ins.operands) // 2 if isinstance(op, Scatter) else 1


def to_whole(ins: Instruction, op: IndexedSlices) -> Accesses:
    """Return the access from an index of the sliced array to the element of the whole."""
    slices = slices_of(ins, op)
    at = MapBuilder(slices.sliced)
    row = [Dim(k) for k in slices.row_dims]
    index = slices.starts(at, ins.operands[indices_at(ins, op)], row)
    for k, window_dim in zip(slices.kept_dims, slices.window_dims, strict=True):
        index[k] = Dim(window_dim) + index[k]
        by_element = slices.fit is Fit.BY_ELEMENT and k in slices.start_index_map
        if by_element or slices.slice_sizes[k] > slices.whole[k]:  # the latter only at run time
            at.require(index[k], 0, slices.whole[k] - 1)
    if slices.are_empty:
        at.require(Const(0), 1, 1)
    return exact(at.map(index))


def to_sliced(ins: Instruction, op: IndexedSlices) -> Accesses:
    """Return the access from an index of the whole to elements of the sliced array in all rows."""
    slices = slices_of(ins, op)
    at = MapBuilder(slices.whole)
    # Batching dimensions tie the row to the index; the other rows may all touch the element.
    fixed = {slices.batch_row(k): Dim(k) for k in slices.batching_dims}
    row = [
        fixed[j] if j in fixed else at.range(slices.sliced[k])
        for j, k in enumerate(slices.row_dims)
    ]
    results: list[Expr] = [Const(0)] * len(slices.sliced)
    for k, e in zip(slices.row_dims, row, strict=True):
        results[k] = e
    windows = dict(zip(slices.kept_dims, slices.window_dims, strict=True))
    start = slices.starts(at, ins.operands[indices_at(ins, op)], row)
    if slices.are_empty:
        at.require(Const(0), 1, 1)
    for k in range(len(slices.whole)):
        if k in slices.batching_dims:
            continue
        offset = Dim(k) - start[k]
        # The element is in a row's slice if its offset from the start is within the slice.
        at.require(offset, 0, slices.slice_sizes[k] - 1)
        if k in windows:
            results[windows[k]] = offset
    return exact(at.map(results))


def moving(ins: Instruction, slices: Slices) -> list[int]:
    """Return the coordinates of an index vector that have an influence.

    The coordinate of a dimension that slices cover completely is clamped to [0, 0]. Slices without
    elements read nothing.
    """
    if has_dynamic_sizes(ins):
        return [*range(len(slices.start_index_map))]
    if slices.are_empty:
        return []
    dimensions = enumerate(slices.start_index_map)
    return [v for v, k in dimensions if slices.slice_sizes[k] < slices.whole[k]]
