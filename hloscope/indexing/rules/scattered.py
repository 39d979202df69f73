"""Uses of old elements and updates by the result of a scatter.

The result is `old = body(old, update)` for the updates of an element in sequence. A body that
ignores the old value overwrites it.
"""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    dims,
    exact,
    identity,
    integers,
    sizes,
)
from hloscope.indexing.rules.dependence import (
    Bodies,
    Dependence,
    Use,
    Uses,
    claimed,
    claims,
    fold,
)
from hloscope.indexing.rules.indexed_slices import indices_at, slices_of
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.ops import Constant, Scatter

OVERWRITTEN: Final = "an element that an update overwrites is not read"
LAST: Final = "of several updates of an element one wins"


class Combined(Struct, frozen=True):
    """Uses by the elements of the outputs of a scatter.

    Attributes:
        old: For each output, its use of each input's old element, if there may be no update.
        hit: For each output, its use of each input's old element, if there is an update.
        updates: For each output, its use of each operand of updates.
        bodies: For each output, its use of the results of the body.
        unchanged: The outputs that equal their inputs for all updates.
    """

    old: tuple[Uses, ...]
    hit: tuple[Uses, ...]
    updates: tuple[Uses, ...]
    bodies: tuple[Uses, ...]
    unchanged: frozenset[int]


def combined(ins: Instruction, op: Scatter, bodies: Bodies) -> Combined:
    """Return how the body combines old elements and their updates."""
    count = len(ins.operands) // 2
    body = bodies[0] if bodies else Dependence.of_everything(count, 2 * count)
    # An element gets at most one update from each row of each batch.
    most = prod(n for k, n in enumerate(sizes(ins.operands[-1].type)) if k not in _window(op))
    if most > 1 and (op.unique_indices or _rows_are_disjoint(ins, op)):
        most = 1
    some, hit = fold(body, count, 0, most), fold(body, count, min(most, 1), most)
    unchanged = frozenset(k for k, source in enumerate(body.unchanged) if source == k)
    return Combined(some.initial, hit.initial, hit.elements, hit.results, unchanged)


MOST_ROWS: Final = 256
"""Largest number of rows of constant indices that are compared with each other."""


def _rows_are_disjoint(ins: Instruction, op: Scatter) -> bool:
    """Are the indices constant, and do no two rows update the same element?

    Windows of two rows are disjoint if their starts differ by at least the window's size along a
    dimension, or if the rows belong to different batches.
    """
    origin = ins.operands[indices_at(ins, op)]
    if not isinstance(origin.op, Constant) or not isinstance(origin.type, TensorType):
        return False
    if origin.type.num_elements > MOST_ROWS * max(1, len(op.scatter_dims_to_operand_dims)):
        return False
    found = origin.op.literal.integers(origin.type)
    if found is None:
        return False
    slices = slices_of(ins, op)
    numbers = list(found)
    if len(numbers) == 1:  # of a splat
        numbers *= prod(slices.indices)
    at, extents = slices.index_vector_dim, slices.slice_sizes
    rows: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for row in product(*[range(n) for k, n in enumerate(slices.indices) if k != at]):
        starts = []
        for v in range(len(slices.start_index_map)):
            place = (*row[:at], v, *row[at:]) if at < len(slices.indices) else row
            flat = 0
            for n, size in zip(place, slices.indices, strict=True):
                flat = flat * size + n
            starts.append(numbers[flat])
        batches = [slices.batch_row(k) for k in slices.batching_dims]
        rows.setdefault(tuple([row[b] for b in batches if b is not None]), []).append(tuple(starts))
    sizes_ = [extents[k] for k in slices.start_index_map]
    return all(
        any(abs(a - b) >= n for a, b, n in zip(one, other, sizes_, strict=True))
        for same in rows.values()
        for one, other in combinations(same, 2)
    )


def _window(op: Scatter) -> frozenset[int]:
    return frozenset(op.update_window_dims)


def old_elements(
    ins: Instruction, op: Scatter, uses: Combined, by: Uses, output: int, hit: Accesses
) -> list[Accesses]:
    """Return the accesses of old elements.

    The output's own input, and others that an update combines with it.
    """
    found = claims(by, len(ins.operands) // 2, hit)
    own = uses.old[output][output]
    if own is Use.SOMETIMES and output not in uses.hit[output]:
        kept = _elements_without_update(ins, op)
        if kept is not None:
            found[output] = kept
            return found
    found[output] = claimed(own, identity(sizes(ins.operands[0].type)), OVERWRITTEN)
    return found


MOST_PARTIAL: Final = 2
"""Largest number of dimensions in which the window is smaller than the array.

Its complement is cut along them.
"""


def _elements_without_update(ins: Instruction, op: Scatter) -> Accesses | None:
    """Return the access of elements without an update; `None` unless there is at most one row.

    The pieces are disjoint: each is determined by the first dimension in which its elements are
    outside the window. A window that begins at a valid `start` leaves the elements before `start`
    and those from `start + extent` on. A window that begins elsewhere has no effect and leaves all.
    """
    slices = slices_of(ins, op)
    batches = {slices.batch_row(k) for k in slices.batching_dims}
    rows = [slices.sliced[k] for j, k in enumerate(slices.row_dims) if j not in batches]
    partial = [k for k in range(len(slices.whole)) if k not in slices.batching_dims]
    partial = [k for k in partial if k in slices.start_index_map]
    rest = [k for k in range(len(slices.whole)) if k not in (*partial, *slices.batching_dims)]
    if any(n != 1 for n in rows) or slices.are_empty or len(partial) > MOST_PARTIAL:
        return None
    if any(slices.slice_sizes[k] != slices.whole[k] for k in rest) or 0 in slices.whole:
        return None
    if any(first > last for first, last in map(slices.first_coordinates, partial)):
        return None
    origin = ins.operands[indices_at(ins, op)]
    least, greatest = integers(origin.type)
    pieces: list[IndexingMap] = []
    # In earlier dimensions the element is inside the window, in dimension `count` it is outside.
    for count in range(len(partial)):
        for side in ("no place before", "no place behind", "before", "behind"):
            at = MapBuilder(slices.whole)
            row: list[Expr] = [Const(0)] * len(slices.row_dims)
            for k in slices.batching_dims:
                batch = slices.batch_row(k)
                assert batch is not None
                row[batch] = Dim(k)
            for k in partial[: count + 1]:
                position = slices.position(row, Const(slices.start_index_map.index(k)))
                start = at.read(least, greatest, origin, position)
                low, high = slices.first_coordinates(k)
                size, extent = slices.whole[k], slices.slice_sizes[k]
                if k != partial[count]:
                    at.require(start, low, high)
                    at.require(Dim(k) - start, 0, extent - 1)
                elif side == "no place before":
                    at.require(start, least, low - 1)
                elif side == "no place behind":
                    at.require(start, high + 1, greatest)
                else:
                    at.require(start, low, high)
                    offset = (1 - size, -1) if side == "before" else (extent, size + extent)
                    at.require(Dim(k) - start, *offset)
            pieces.append(at.map(dims(len(slices.whole))))
    return exact(*pieces)


def hit_elements(updates: Accesses, shape: Dims) -> Accesses:
    """Return the access from each element with an update to itself."""
    return tuple(
        [
            a if a.map is None else replace(a, map=a.map.with_(results=dims(len(shape))))
            for a in updates
        ]
    )


def placing(ins: Instruction, op: Scatter) -> Accesses:
    """Return the access from an element to the index vectors that may place an update there."""
    slices, type = slices_of(ins, op), ins.operands[indices_at(ins, op)].type
    at = MapBuilder(slices.whole)
    for k, size in enumerate(slices.whole):
        first, last = slices.reach(k, type)
        if first > last:
            return NEVER
        if (first, last) != (0, size - 1):
            at.require(Dim(k), first, last)
    fixed = {slices.batch_row(k): Dim(k) for k in slices.batching_dims}
    row = [
        fixed[j] if j in fixed else at.range(slices.sliced[k])
        for j, k in enumerate(slices.row_dims)
    ]
    vector: Expr = Const(0)
    if slices.index_vector_dim < len(slices.indices):
        vector = at.range(slices.indices[slices.index_vector_dim])
    return exact(at.map(slices.position(row, vector)))


def placed(ins: Instruction, op: Scatter) -> Accesses:
    """Return the inverse of `placing`."""
    slices, type = slices_of(ins, op), ins.operands[indices_at(ins, op)].type
    at = MapBuilder(slices.indices)
    row = [Dim(k) for k in range(len(slices.indices)) if k != slices.index_vector_dim]
    results: list[Expr] = []
    for k in range(len(slices.whole)):
        batch = slices.batch_row(k)
        first, last = slices.reach(k, type)
        if first > last or 0 in slices.sliced:
            return NEVER
        results.append(row[batch] if batch is not None else at.range(last - first + 1) + first)
    return exact(at.map(results))
