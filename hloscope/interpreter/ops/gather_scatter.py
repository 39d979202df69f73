"""Gather and scatter, which find each element by its row-major index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from hloscope.interpreter.numbers.conversions import promoted
from hloscope.interpreter.ops.reduction import MONOIDS, lifted
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, dtype_of, strided
from hloscope.ir import Dims, TensorType
from hloscope.ops import DynamicGather, Gather, Scatter, TorchIndexSelect

# --------------------------------------------------------------------------------------------------
# Gather and scatter, by row-major numbers of the elements.


_LARGEST: Final = (1 << 63) - 1

Starts = dict[int, Array]
"""Array of start indices by operand dimension.  Dimensions that always start at 0 have no entry."""


def _starts(indices: Array, axis: int, of: Dims, batching: Dims, of_indices: Dims) -> Starts:
    """Return an array of start indices for each operand dimension, by dimension.

    The arrays broadcast to the shape of `indices` without its dimension `axis`.

    Args:
        indices: The array of index vectors.
        axis: Dimension of `indices` along which the components of a vector lie.
        of: Operand dimension of each component.
        batching: Batching dimensions of the operand.
        of_indices: The corresponding dimensions of `indices`.
    """
    if indices.dtype == np.uint64:
        # An unsigned index beyond 2 ** 63 must not become negative, which would be clamped to 0.
        indices = np.minimum(indices, np.uint64(_LARGEST))
    indices = indices.astype(np.int64, copy=False)
    if axis == indices.ndim:
        indices = indices[..., None]
    vectors = indices.transpose([axis, *(d for d in range(indices.ndim) if d != axis)])
    found = {d: vectors[i] for i, d in enumerate(of)}
    rank = vectors.ndim - 1
    for d, given in zip(batching, of_indices, strict=True):
        # Slices of a batching dimension start at their own batch number.
        place = given - (given > axis)
        numbers = np.arange(indices.shape[given])
        found[d] = numbers.reshape([-1 if i == place else 1 for i in range(rank)])
    return found


def _flat(value: Any, shape: Sequence[int]) -> Array:
    """Return the elements of a value broadcast to a shape, as a vector in row-major order."""
    if value.shape != tuple(shape):
        value = np.broadcast_to(value, shape)
    return value.reshape(-1)  # type: ignore[no-any-return]


def _strides(sizes: Sequence[int]) -> list[int]:
    """Return the row-major strides, in elements, of an array of these sizes."""
    return [prod(sizes[d + 1 :]) for d in range(len(sizes))]


# -------------------------------------------------------------------------------------- gather


def _gather_kernel(op: Gather | DynamicGather, at: Site) -> Kernel:
    """Return a kernel that takes the operand, the index vectors and the slice sizes."""
    dropped = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    batches = at.result.rank - len(op.offset_dims)
    order, batch, offset = [], iter(range(batches)), iter(range(batches, at.result.rank))
    for d in range(at.result.rank):
        order.append(next(offset) if d in op.offset_dims else next(batch))
    in_order = order == sorted(order)

    def kernel(value: Any, indices: Any, sizes: Dims) -> Value:
        starts = _starts(
            np.asarray(indices),
            op.index_vector_dim,
            op.start_index_map,
            op.operand_batching_dims,
            op.start_indices_batching_dims,
        )
        shape = tuple([s for d, s in enumerate(indices.shape) if d != op.index_vector_dim])
        window = tuple([s for d, s in enumerate(sizes) if d not in dropped])
        if 0 in shape or 0 in sizes:  # where no slice has elements, zeros, as in XLA
            taken = np.zeros(shape + window, value.dtype)
        else:
            taken = _slices_at(np.asarray(value), starts, sizes, shape).reshape(shape + window)
        return taken if in_order else taken.transpose(order)

    return kernel


def _slices_at(value: Array, starts: Starts, sizes: Dims, shape: Dims) -> Array:
    """Return the slices of an array at each start index, as an array of shape `shape + sizes`.

    Starts are clamped so that the slices are inside the array. The result is never a view.

    Raises:
        EvaluationError: A slice is larger than the array.
    """
    for d, size in enumerate(sizes):
        most = value.shape[d] - size
        if most < 0:
            raise EvaluationError(f"a slice of {size} elements is taken from {value.shape[d]}")
        if most == 0:
            starts.pop(d, None)
        elif d in starts:
            starts[d] = np.minimum(np.maximum(starts[d], 0), most)
    rank = value.ndim
    # Trailing dimensions that slices cover completely are contiguous.  If slices have size 1 along
    # all other dimensions, a slice is one row of a matrix, and `take` copies rows.
    block = rank  # from this dimension on, slices take all
    while block and sizes[block - 1] == value.shape[block - 1]:
        block -= 1
    if not value.flags.c_contiguous or any(size != 1 for size in sizes[:block]):
        # Otherwise all possible slices are a strided view, indexed by their starts.
        counts = [n - size + 1 for n, size in zip(value.shape, sizes, strict=True)]
        windows = strided(value, (*counts, *sizes), value.strides * 2)
        if not starts:
            return np.broadcast_to(windows[(0,) * rank], shape + sizes).copy()
        index = [starts.get(d, 0) for d in range(rank)]
        found = np.broadcast_to(windows[tuple(index)], shape + sizes)
        # Arrays of starts select copies, single starts a view.
        return found if shape else found.copy()
    row: Any = np.int64(0)
    for d, stride in enumerate(_strides(value.shape[:block])):
        row = row + starts[d] * stride if d in starts else row
    rows = value.reshape(prod(value.shape[:block]), prod(value.shape[block:]))
    return rows.take(_flat(row, shape), axis=0)


@evaluates(Gather, fresh=True)
def _gather(op: Gather, at: Site) -> Kernel:
    kernel, sizes = _gather_kernel(op, at), op.slice_sizes
    return lambda value, indices: kernel(value, indices, sizes)


@evaluates(DynamicGather, fresh=True)
def _dynamic_gather(op: DynamicGather, at: Site) -> Kernel:
    """Return the kernel of `dynamic_gather`, whose slice sizes are an operand."""
    gather = _gather_kernel(op, at)
    dropped = {*op.collapsed_slice_dims, *op.operand_batching_dims}

    def kernel(value: Any, indices: Any, slice_sizes: Array) -> Value:
        sizes = tuple(map(int, slice_sizes))
        for d in dropped:
            if sizes[d] > 1:
                raise EvaluationError(f"slices of {sizes[d]} along dimension {d}, which is dropped")
        return gather(value, indices, sizes)

    return kernel


@evaluates(TorchIndexSelect)
def _torch_index_select(op: TorchIndexSelect, at: Site) -> Kernel:
    """Return the kernel of `torch_index_select`.

    It takes slices along `dim` by their indices, separately for each index of the batch dimensions.
    """
    dim, batches = op.dim, op.batch_dims

    def kernel(value: Array, index: Array) -> Value:
        op.selected_sizes(value.shape, index.shape)
        if not value.shape[dim] and index.size:
            raise EvaluationError("a slice of 1 of 0 elements")
        if np.iscomplexobj(index):
            raise EvaluationError("elements are not numbered by complex numbers")
        index = np.clip(index.astype(np.int64), 0, max(value.shape[dim] - 1, 0))
        apart = [
            np.arange(size).reshape([-1 if i == d else 1 for i in range(index.ndim)])
            for d, size in enumerate(value.shape[:batches])
        ]
        between = tuple(range(batches, dim))
        order = (*range(batches), dim, *between, *range(dim + 1, value.ndim))
        found: Array = value.transpose(order)[(*apart, index)]
        back = [*range(batches), *(index.ndim + i for i in range(len(between)))]
        back += range(batches, index.ndim)
        back += range(index.ndim + len(between), found.ndim)
        return found.transpose(back)

    return kernel


# ------------------------------------------------------------------------------------- scatter


@evaluates(Scatter, fresh=True)
def _scatter(op: Scatter, at: Site) -> Kernel:
    """Return the kernel of `scatter`, which applies updates in order and drops those outside.

    StableHLO drops single elements and takes updates in row-major order of all their dimensions
    (spec `scatter`).  XLA drops a window that is not completely inside and takes window by window
    (`ScatterExpander`).  The attribute `unique_indices` is not relied on.
    """
    number = (len(at.ins.operands) - 1) // 2
    dtypes = [dtype_of(t.element) for t in at.results if isinstance(t, TensorType)]

    def kernel(regions: tuple[Region, ...], *values: Any) -> Value:
        inputs, indices, updates = values[:number], values[number], values[number + 1 :]
        targets, order = _target_rows(op, inputs[0], np.asarray(indices), updates[0])
        # Copies in row-major order, in which a row is contiguous: updates are written to them in
        # place.
        results = [
            np.array(promoted(x, t), order="C").reshape(targets.shape)
            for x, t in zip(inputs, dtypes, strict=True)
        ]
        if updates[0].size and results[0].size:
            length = targets.shape[1]
            given = [
                promoted(np.asarray(u), t).transpose(order).reshape(-1, length)
                for u, t in zip(updates, dtypes, strict=True)
            ]
            combine(regions[0], results, targets, given)
        return at.value(tuple([r.reshape(v.shape) for r, v in zip(results, inputs, strict=True)]))

    return kernel


def _target_rows(op: Scatter, value: Any, indices: Array, update: Any) -> tuple[Targets, list[int]]:
    """Return the rows of the operand `value` that the updates are written to.

    Trailing dimensions of the operand that windows cover completely form one row.

    Returns:
        The rows in the order of the updates, and an order of the update's dimensions in which those
        of a row are last.
    """
    dropped = {*op.inserted_window_dims, *op.input_batching_dims}
    kept = [d for d in range(value.ndim) if d not in dropped]
    axis_of = dict(zip(kept, op.update_window_dims, strict=True))
    sizes = [update.shape[axis_of[d]] if d in axis_of else 1 for d in range(value.ndim)]
    starts = _starts(
        indices,
        op.index_vector_dim,
        op.scatter_dims_to_operand_dims,
        op.input_batching_dims,
        op.scatter_indices_batching_dims,
    )
    block = value.ndim
    # Longer rows mean fewer numbers to compute.  A dimension with starts cannot be in a row, as its
    # windows may begin at different elements.
    while block and block - 1 in axis_of and block - 1 not in starts:
        if sizes[block - 1] != value.shape[block - 1]:
            break
        block -= 1
    last = [axis_of[d] for d in range(block, value.ndim)]
    batch = [d for d in range(update.ndim) if d not in op.update_window_dims]
    first = [d for d in range(update.ndim) if d not in last]
    if op.by_window:
        first = [*batch, *(d for d in first if d not in batch)]
    row: Any = np.int64(0)
    inside: Any = np.True_
    for d, stride in enumerate(_strides(value.shape[:block])):
        coordinate: Any = 0
        if d in starts:
            coordinate = _along(starts[d], batch, first)
            if op.by_window:
                inside = inside & (coordinate >= 0) & (coordinate <= value.shape[d] - sizes[d])
        if sizes[d] != 1:
            coordinate = coordinate + _along(np.arange(sizes[d]), [axis_of[d]], first)
        if d in starts and not op.by_window:
            inside = inside & (coordinate >= 0) & (coordinate < value.shape[d])
        row = row + coordinate * stride
    shape = [update.shape[d] for d in first]
    rows = _flat(row, shape)
    keep = None if inside.all() else np.flatnonzero(_flat(inside, shape))
    whole = prod(value.shape[:block]), prod(value.shape[block:])
    return Targets(whole, rows if keep is None else rows[keep], keep), [*first, *last]


def _along(value: Array, dims: list[int], among: list[int]) -> Array:
    """Return `value` with added dimensions of size 1, so that it broadcasts.

    Args:
        value: The array.
        dims: Its dimensions in a larger array, ascending.
        among: The dimensions of the result in that array.
    """
    sizes = dict(zip(dims, value.shape, strict=True))
    return value.reshape([sizes.get(d, 1) for d in among])


# --------------------------------------------------------------------------------------------------
# Updates of rows of arrays, each applied to the result of the updates before it.


_ROUND_COST: Final = 2500
"""Time to start a round of updates, as the number of elements that numpy combines in that time."""


class Targets(NamedTuple):
    """The rows of an array that updates are written to.

    The array is a matrix of rows: trailing dimensions that windows cover completely form a row.

    Attributes:
        shape: Number of rows of the array, and number of elements of a row.
        rows: Index of the row of each applied update, in the order of the updates.
        keep: Indices of the updates that are applied; `None` if all are.
    """

    shape: tuple[int, int]
    rows: Array
    keep: Array | None


def combine(
    region: Region, results: Sequence[Array], targets: Targets, updates: Sequence[Array]
) -> None:
    """Write `region(row, update)` to the rows of `results`, for one update after another.

    Args:
        region: Takes elements of all results, then of all updates; returns new elements.
        results: Arrays of rows, which are changed in place.
        targets: The rows to which the updates are written.
        updates: Arrays of rows.
    """
    rows = targets.rows
    if targets.keep is not None:
        updates = [u[targets.keep] for u in updates]
    if not len(rows):
        return
    if _takes_updates(region, results, updates):
        for result, update in zip(results, updates, strict=True):
            result[rows] = update  # numpy keeps the last of several updates of one row
        return
    body = lifted(region, [r.dtype for r in results])
    most = _most_often(rows, len(results[0]))
    # No row is updated twice, so all updates are independent.
    if most == 1:
        _apply(body, results, rows, updates)
        return
    function = MONOIDS.get(region.monoid)
    is_faster = most * _ROUND_COST > updates[0].size
    if function is not None and is_faster and results[0].dtype.kind in "biufc":
        _at(function, results[0], rows, updates[0])
        return
    # Within a round all rows differ, and the rounds keep the order of updates of one row.
    for part in _rounds(rows):
        _apply(body, results, rows[part], [u[part] for u in updates])


def _takes_updates(region: Region, results: Sequence[Array], updates: Sequence[Array]) -> bool:
    """Does the region return the updates unchanged, so that they replace the elements?"""
    if not region.is_elementwise:
        return False
    # Tried on empty arrays: an elementwise body that returns an argument returns the same object.
    none = [r[:0] for r in results], [u[:0] for u in updates]
    found = region(*none[0], *none[1])
    return all(a is b for a, b in zip(found, none[1], strict=True))


def _apply(body: Any, results: Sequence[Array], rows: Array, updates: Sequence[Array]) -> None:
    """Replace some rows of the arrays `results` by the values of `body`.

    Args:
        body: Returns new rows for the old rows of all arrays and for their updates.
        results: The arrays, which are changed in place.
        rows: Indices of the rows, without duplicates.
        updates: The update of each row, for each array.
    """
    combined = body(*[r[rows] for r in results], *updates)
    for result, value in zip(results, combined, strict=True):
        result[rows] = value


def _at(function: Any, result: Array, rows: Array, update: Array) -> None:
    """Combine updates into `result` in place, one after another, by the `at` of a numpy ufunc.

    Args:
        function: The ufunc.
        result: Array of rows.
        rows: Index of the row for each update.
        update: The updates, rows too; they are flattened to elements, for which `at` is fast.
    """
    length = result.shape[1]
    if length != 1:
        rows = (rows[:, None] * length + np.arange(length)).reshape(-1)
    function.at(result.reshape(-1), rows, update.reshape(-1))


def _most_often(rows: Array, count: int) -> int:
    """Return the number of occurrences of the most frequent row index.

    All indices are below `count`.
    """
    if len(rows) == 1:
        return 1
    if count <= 16 * len(rows) + 1024:
        return int(np.bincount(rows).max())
    return int(np.unique(rows, return_counts=True)[1].max())


def _rounds(rows: Array) -> list[Array]:
    """Split updates into rounds, in each of which all updates are for different rows.

    `rows` has the row of each update. Return the indices of the updates in each round. The first
    round has the first update of every row, the second round every second one, and so on.

    >>> [part.tolist() for part in _rounds(np.array([5, 2, 5, 5, 2]))]
    [[0, 1], [2, 4], [3]]
    """
    # A stable sort brings the updates of one row together in their order; `number` counts them.
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(rows)])
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    by_number = np.argsort(number, kind="stable")
    return np.split(by_number, np.cumsum(np.bincount(number))[:-1])
