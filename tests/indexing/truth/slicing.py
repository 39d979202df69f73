"""Cases of slices and of indexed reads and writes, with run-time indices in and out of range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hloscope.ops.gather_scatter import Gather, Scatter
from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice, Slice
from tests.indexing.truth.generator import Gen, body, case
from tests.indexing.truth.marks import (
    Case,
    Ints,
    Operand,
    all_of,
    as_marks,
    empty,
    indices,
    union,
    union_all,
)


@case("slice")
def slice_(g: Gen) -> Case:
    x = g.array(g.shape(largest=8))
    starts, limits, strides = [], [], []
    for n in x.marks.shape:
        a, b = sorted((g.number(0, n), g.number(0, n)))
        starts.append(a)
        limits.append(b if g.chance(0.9) or a == n else max(b, a + 1))
        strides.append(g.number(1, 3))
    op = Slice(tuple(starts), tuple(limits), tuple(strides))
    return g.case(op, [x], x.marks[tuple(map(slice, starts, limits, strides))])


def _starts(g: Gen, shape: Ints) -> tuple[list[Operand], list[int]]:
    """Run-time starts, as scalars or (old HLO) one vector; often out of range."""
    if shape and g.chance(0.2):
        vector = g.integers((len(shape),), -3, max(shape) + 3)
        assert vector.values is not None
        return [vector], [int(v) for v in vector.values]
    scalars = [g.integers((), -3, n + 3) for n in shape]
    return scalars, [int(s.values) for s in scalars if s.values is not None]


def _steering(starts: list[Operand], whole: Ints, part: Ints) -> int:
    """The marks of the starts that decide anything: of an update that has two places or more."""
    marks = [mark for o in starts for mark in o.marks.reshape(-1)]
    steering = 0
    for mark, size, n in zip(marks, part, whole, strict=True):
        if size < n and 0 not in part:
            steering |= int(mark)
    return steering


@case("dynamic_slice")
def dynamic_slice(g: Gen) -> Case:
    x = g.array(g.shape(largest=6))
    sizes = tuple(g.number(0 if g.chance(0.05) else min(n, 1), n) for n in x.marks.shape)
    starts, values = _starts(g, x.marks.shape)
    at = []
    for value, size, n in zip(values, sizes, x.marks.shape, strict=True):
        start = min(max(value, 0), n - size)
        at.append(slice(start, start + size))
    steering = _steering(starts, x.marks.shape, sizes)
    result = union(as_marks(x.marks[tuple(at)]), steering)
    return g.case(DynamicSlice(sizes), [x, *starts], result, note=f"starts {values}")


@case("dynamic_update_slice")
def dynamic_update_slice(g: Gen) -> Case:
    x = g.array(g.shape(largest=5, most=60))
    update = g.array([g.number(0 if g.chance(0.05) else min(n, 1), n) for n in x.marks.shape])
    starts, values = _starts(g, x.marks.shape)
    result = x.marks.copy()
    at = []
    for value, size, n in zip(values, update.marks.shape, x.marks.shape, strict=True):
        start = min(max(value, 0), n - size)
        at.append(slice(start, start + size))
    result[tuple(at)] = update.marks
    result = union(result, _steering(starts, x.marks.shape, update.marks.shape))
    return g.case(DynamicUpdateSlice(), [x, update, *starts], result, note=f"starts {values}")


def _vector(start_indices: Operand, batch: Ints, vector_dim: int) -> tuple[list[int], int]:
    """The index vector of one batch position and the marks of its components."""
    marks, values = start_indices.marks, start_indices.values
    assert values is not None
    if vector_dim == marks.ndim:
        return [int(values[batch])], marks[batch]
    at: tuple[int | slice, ...] = (*batch[:vector_dim], slice(None), *batch[vector_dim:])
    return [int(v) for v in values[at]], all_of(as_marks(marks[at]))


def _index_operand(g: Gen, batch: Ints, mapped: int, largest: int) -> tuple[Operand, int]:
    """Index vectors of length `mapped` for each batch position, and their dimension."""
    vector_dim = g.number(0, len(batch))
    if mapped == 1 and g.chance(0.3):
        vector_dim = len(batch)
        return g.integers(batch, -2, largest + 2), vector_dim
    shape = (*batch[:vector_dim], mapped, *batch[vector_dim:])
    return g.integers(shape, -2, largest + 2), vector_dim


@case("gather")
def gather(g: Gen) -> Case:
    """Written after the specification: one output element at a time."""
    x = g.array(g.shape(1, 3, largest=5, most=60, zero=False))
    shape = x.marks.shape
    rank = len(shape)
    batching = g.some(rank - 1)[:1] if g.chance(0.3) else ()
    batch = list(g.shape(0, 2, largest=3, zero=False))
    places: Ints = ()
    for d in batching:
        place = g.number(0, len(batch))
        batch.insert(place, shape[d])
        places = (place,)
    free = [d for d in range(rank) if d not in batching]
    mapped = tuple(free[i] for i in g.some(len(free)))
    starts, vector_dim = _index_operand(g, tuple(batch), len(mapped), max(shape))
    sizes = [1 if d in batching else g.number(1, n) for d, n in enumerate(shape)]
    collapsed = tuple(d for d in sorted(g.some(rank)) if d in free and g.chance(0.7))
    for d in collapsed:
        sizes[d] = 0 if g.chance(0.05) else 1  # nothing is read of a slice of no element
    are_empty = any(sizes[d] == 0 for d in collapsed)
    window = [d for d in range(rank) if d not in collapsed and d not in batching]
    out_rank = len(batch) + len(window)
    offset = tuple(sorted(g.subset(out_rank, len(window))))
    batch_dims = [d for d in range(out_rank) if d not in offset]
    out_shape = [0] * out_rank
    for d, n in zip(batch_dims, batch, strict=True):
        out_shape[d] = n
    for d, w in zip(offset, window, strict=True):
        out_shape[d] = sizes[w]
    spaces = tuple(p if p < vector_dim else p + 1 for p in places)
    result = empty(out_shape)
    for out in indices(out_shape):
        position = tuple(out[d] for d in batch_dims)
        vector, _ = _vector(starts, position, vector_dim)
        components = starts.marks[position] if vector_dim == starts.marks.ndim else 0
        if vector_dim < starts.marks.ndim:
            components = starts.marks[(*position[:vector_dim], slice(None), *position[vector_dim:])]
        at, marks = [0] * rank, 0
        for d, value, mark in zip(mapped, vector, np.reshape(components, -1), strict=True):
            at[d] = min(max(value, 0), shape[d] - sizes[d])
            if sizes[d] < shape[d] and not are_empty:
                marks |= int(mark)
        for d, p in zip(batching, places, strict=True):
            at[d] = position[p]
        for d, w in zip(offset, window, strict=True):
            at[w] += out[d]
        result[out] = marks if are_empty else x.marks[tuple(at)] | marks
    op = Gather(offset, collapsed, batching, spaces, mapped, vector_dim, tuple(sizes))
    return g.case(op, [x, starts], result, note=f"indices {starts.values}")


@case("scatter")
def scatter(g: Gen) -> Case:
    """A window that does not fit is dropped as a whole, as XLA does."""
    return _scatter(g, by_window=True)


@case("scatter: of StableHLO")
def scatter_by_element(g: Gen) -> Case:
    """Elements of windows that do not fit are dropped one by one."""
    return _scatter(g, by_window=False)


def _scatter(g: Gen, *, by_window: bool) -> Case:
    """One update after the other, index vectors read where a value of theirs puts one there.

    The body combines the values of an input with its updates only, or all with all.
    """
    shape = g.shape(1, 3, largest=4, most=40, zero=False)
    rank = len(shape)
    batching = g.some(rank - 1)[:1] if g.chance(0.4) else ()
    batch = list(g.shape(0, 2, largest=3, zero=False))
    places: Ints = ()
    for d in batching:
        place = g.number(0, len(batch))
        batch.insert(place, shape[d])
        places = (place,)
    number = g.number(1, 2)
    inputs = [g.array(shape) for _ in range(number)]
    free = [d for d in range(rank) if d not in batching]
    mapped = tuple(free[i] for i in g.some(len(free)))
    starts, vector_dim = _index_operand(g, tuple(batch), len(mapped), max(shape))
    inserted = tuple(d for d in sorted(g.some(rank)) if d in free)
    window = [d for d in free if d not in inserted]
    least = 0 if g.chance(0.05) else 1
    sizes = {d: g.number(least, shape[d]) for d in window}
    window_dims, batch_dims, up_shape = _update_dims(g, batch, [sizes[w] for w in window])
    updates = [g.array(up_shape) for _ in range(number)]
    together = g.chance(0.5)
    totals = [as_marks(x.marks).copy() for x in inputs]
    given = [u.marks for u in updates]
    if together:
        given = [union_all(given)] * number
    extents = [sizes.get(d, 1) for d in range(rank)]
    for position in indices(batch):
        _, marks = _vector(starts, position, vector_dim)
        fixed = {d: position[p] for d, p in zip(batching, places, strict=True)}
        for out in _reachable(shape, extents, mapped, fixed, by_window=by_window):
            for total in totals:
                total[out] |= marks
    for up in indices(up_shape):
        position = tuple(up[d] for d in batch_dims)
        vector, _ = _vector(starts, position, vector_dim)
        at = [0] * rank
        for d, value in zip(mapped, vector, strict=True):
            at[d] += value
        for d, p in zip(batching, places, strict=True):
            at[d] = position[p]
        is_inside = all(0 <= at[d] <= shape[d] - extents[d] for d in range(rank))
        for d, w in zip(window_dims, window, strict=True):
            at[w] += up[d]
        if not (is_inside if by_window else all(0 <= at[d] < shape[d] for d in range(rank))):
            continue
        before = union_all(total[tuple(at)] for total in totals) if together else 0
        for k, total in enumerate(totals):
            total[tuple(at)] |= given[k][up] | before
    spaces = tuple(p if p < vector_dim else p + 1 for p in places)
    op = Scatter(window_dims, inserted, batching, spaces, mapped, vector_dim, by_window=by_window)
    every = [tuple(range(2 * number))] * number
    calls = (body(2 * number, every if together else [(i, number + i) for i in range(number)]),)
    marks = tuple(totals) if number > 1 else totals[0]
    note = f"indices {np.asarray(starts.values).tolist()}"
    return g.case(op, [*inputs, starts, *updates], marks, calls=calls, note=note)


def _update_dims(g: Gen, batch: Sequence[int], sizes: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """The dimensions of updates that are those of windows, the others, and all sizes."""
    rank = len(batch) + len(sizes)
    window_dims = tuple(sorted(g.subset(rank, len(sizes))))
    batch_dims = tuple(d for d in range(rank) if d not in window_dims)
    size_of = dict(zip((*batch_dims, *window_dims), (*batch, *sizes), strict=True))
    return window_dims, batch_dims, tuple(size_of[d] for d in range(rank))


def _reachable(
    shape: Ints, extents: Sequence[int], mapped: Ints, fixed: dict[int, int], *, by_window: bool
) -> Iterator[Ints]:
    """The elements that a window may hold, whatever the values of its index vector are."""
    for out in indices(shape):
        if all(
            out[d] == fixed[d]
            if d in fixed
            else _can_hold(out[d], size, extents[d], d in mapped, by_window=by_window)
            for d, size in enumerate(shape)
        ):
            yield out


def _can_hold(at: int, size: int, extent: int, is_read: bool, *, by_window: bool) -> bool:
    """Can a window, wherever it starts, have an element at this coordinate?"""
    starts = range(-extent, size + 1) if is_read else range(1)
    if by_window:
        starts = range(max(starts[0], 0), min(starts[-1], size - extent) + 1)
    return any(start <= at < start + extent for start in starts)
