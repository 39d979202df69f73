"""Rules for indexed reads and writes: gather, scatter, torch_index_select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import combinations, product
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import (
    Bodies,
    Dependence,
    Use,
    Uses,
    fold,
    uses_of,
    weakened_by_use,
    weakened_by_uses,
)
from hloscope.indexing.rules.registry import (
    NEVER,
    Instances,
    MapBuilder,
    dims,
    everything,
    everywhere,
    exact,
    has_dynamic_sizes,
    identity,
    input_to_output,
    integers,
    output_sizes,
    output_to_input,
    reads_bodies,
    runs,
    sizes,
)
from hloscope.ir import Dims, Instruction, TensorType, Type
from hloscope.ops import Constant, DynamicGather, Gather, Scatter, TorchIndexSelect

# --------------------------------------------------------------------------------------------------
# Uses of old elements and updates by the result of a scatter.
#
# The result is `old = body(old, update)` for the updates of an element in sequence. A body that
# ignores the old value overwrites it.


OVERWRITTEN: Final = "an element that an update overwrites is not read"
LAST: Final = "of several updates of an element one wins"


class Combined(Struct, frozen=True):
    """Which values the outputs of a scatter use: old elements, updates and results of the body.

    An old element is an element of an input, before any update.

    Attributes:
        old: For each output, its use of each input's old element, if there may be no update.
        hit: For each output, its use of each input's old element, if there is an update.
        updates: For each output, its use of each operand of updates.
        bodies: For each output, its use of the results of the body.
        unchanged: Numbers of the outputs that equal their inputs whatever the updates are.
    """

    old: tuple[Uses, ...]
    hit: tuple[Uses, ...]
    updates: tuple[Uses, ...]
    bodies: tuple[Uses, ...]
    unchanged: frozenset[int]


def combined(ins: Instruction, op: Scatter, bodies: Bodies) -> Combined:
    """Return which elements and results of the body each output of a scatter uses.

    The elements are those of the inputs, before any update, and of the updates. `bodies` are the
    dependences of the body; without any, a result depends on everything.
    """
    count = len(ins.operands) // 2
    body = bodies[0] if bodies else Dependence.of_everything(count, 2 * count)
    # An element gets at most one update from each index vector of each batch.
    updates = enumerate(sizes(ins.operands[-1].type))
    most = prod([n for k, n in updates if k not in op.update_window_dims])
    if most > 1 and (op.unique_indices or _rows_are_disjoint(ins, op)):
        most = 1
    some, hit = fold(body, count, 0, most), fold(body, count, min(most, 1), most)
    unchanged = frozenset(k for k, source in enumerate(body.unchanged) if source == k)
    return Combined(some.initial, hit.initial, hit.elements, hit.results, unchanged)


MOST_ROWS: Final = 256
"""Maximum number of constant index vectors that are compared with each other."""


def _rows_are_disjoint(ins: Instruction, op: Scatter) -> bool:
    """Return whether the indices are constant and no two index vectors update the same element.

    Windows of two vectors are disjoint if their starts differ by at least the window's size along a
    dimension, or if they belong to different batches.
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
    # The literal of a splat has one number for all elements.
    numbers = [*found] * (prod(slices.indices) if len(found) == 1 else 1)
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
        batches = [slices.batch_coordinate(k) for k in slices.batching_dims]
        rows.setdefault(tuple([row[b] for b in batches if b is not None]), []).append(tuple(starts))
    sizes_ = [extents[k] for k in slices.start_index_map]
    return all(
        any(abs(a - b) >= n for a, b, n in zip(one, other, sizes_, strict=True))
        for same in rows.values()
        for one, other in combinations(same, 2)
    )


def old_elements(
    ins: Instruction, op: Scatter, uses: Combined, uses_if_hit: Uses, output: int, hit: Accesses
) -> list[Accesses]:
    """Return, for each input of a scatter, the accesses from an output element to its old elements.

    An old element is an element of an input before any update. An output element reads the one of
    its own input, and those of other inputs that an update combines with it.

    Args:
        ins: The scatter.
        op: Its op.
        uses: How the body combines old elements and updates.
        uses_if_hit: The output's use of each input's old element, if there is an update.
        output: Number of the output.
        hit: Access from each element with an update to itself.
    """
    found = weakened_by_uses(uses_if_hit, len(ins.operands) // 2, hit)
    own = uses.old[output][output]
    kept = None
    if own is Use.SOMETIMES and output not in uses.hit[output]:
        kept = _elements_without_update(ins, op)
    if kept is None:
        kept = weakened_by_use(own, identity(sizes(ins.operands[0].type)), OVERWRITTEN)
    found[output] = kept
    return found


MOST_PARTIAL: Final = 2
"""Maximum number of dimensions in which the window may be smaller than the array.

With more, elements without an update are not expressed exactly.
"""


def _elements_without_update(ins: Instruction, op: Scatter) -> Accesses | None:
    """Return the access from each element without an update to itself, in disjoint pieces.

    The result is `None` unless there is at most one index vector and few partial dimensions. Each
    piece is determined by the first dimension in which its elements are outside the window. A
    window that begins at a valid `start` leaves the elements before `start` and those from `start +
    extent` on. A window that begins elsewhere has no effect and leaves all.
    """
    slices = slices_of(ins, op)
    batches = {slices.batch_coordinate(k) for k in slices.batching_dims}
    rows = [slices.sliced[k] for j, k in enumerate(slices.row_dims) if j not in batches]
    partial = [k for k in sorted(slices.start_index_map) if k not in slices.batching_dims]
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
                batch = slices.batch_coordinate(k)
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
    """Return the access from each element that gets an update to itself.

    `updates` are the accesses from the elements to the updates; `shape` has the sizes of the array
    of elements.
    """
    return tuple(
        [
            a if a.map is None else replace(a, map=a.map.with_(results=dims(len(shape))))
            for a in updates
        ]
    )


def updating_vectors(ins: Instruction, op: Scatter) -> Accesses:
    """Return the access from an element to all index vectors whose updates may change it."""
    slices, type = slices_of(ins, op), ins.operands[indices_at(ins, op)].type
    at = MapBuilder(slices.whole)
    for k, size in enumerate(slices.whole):
        first, last = slices.reach(k, type)
        if first > last:
            return NEVER
        if (first, last) != (0, size - 1):
            at.require(Dim(k), first, last)
    row = slices.rows_at(at)
    vector: Expr = Const(0)
    if slices.index_vector_dim < len(slices.indices):
        vector = at.range(slices.indices[slices.index_vector_dim])
    return exact(at.map(slices.position(row, vector)))


def updated_elements(ins: Instruction, op: Scatter) -> Accesses:
    """Return the access from a number of an index vector to the elements its update may change.

    It is the inverse of `updating_vectors`.
    """
    slices, type = slices_of(ins, op), ins.operands[indices_at(ins, op)].type
    at = MapBuilder(slices.indices)
    row = [Dim(k) for k in range(len(slices.indices)) if k != slices.index_vector_dim]
    results: list[Expr] = []
    for k in range(len(slices.whole)):
        batch = slices.batch_coordinate(k)
        first, last = slices.reach(k, type)
        if first > last or 0 in slices.sliced:
            return NEVER
        results.append(row[batch] if batch is not None else at.range(last - first + 1) + first)
    return exact(at.map(results))


# --------------------------------------------------------------------------------------------------
# Indexed reads and writes: gather, scatter, torch_index_select.
#
# A runtime variable is a coordinate read from the indices. Gather clamps it so that the slice fits:
# its variable is the clamped value, in `[0, size - slice size]`. Scatter drops updates that do not
# fit: its variable is the unchanged value, and the map holds where it fits. In HLO the whole window
# must fit, in StableHLO the element.


@output_to_input(Gather, DynamicGather, shared=False)
def _(ins: Instruction, op: Gather | DynamicGather, output: int) -> tuple[Accesses, ...]:
    slices = slices_of(ins, op)
    row = [Dim(k) for k in slices.row_dims]
    maps = []
    for lo, hi in runs(moving_coordinates(ins, slices)):
        at = MapBuilder(slices.sliced)
        vector: Expr = Const(0)
        if slices.index_vector_dim < len(slices.indices):
            vector = at.range(hi - lo + 1) + lo
        maps.append(at.map(slices.position(row, vector)))
    indices = exact(*maps)
    rest = [everything(slices.sliced, sizes(operand.type)) for operand in ins.operands[2:]]
    return (to_array(ins, op), indices, *rest)


@input_to_output(Gather, DynamicGather, shared=False)
def _(ins: Instruction, op: Gather | DynamicGather, operand: int) -> tuple[Accesses, ...]:
    if operand == 0:
        return (to_sliced(ins, op),)
    if operand > 1:
        return everywhere(ins, operand)
    slices = slices_of(ins, op)
    row = [Dim(k) for k in range(len(slices.indices)) if k != slices.index_vector_dim]
    maps = []
    for lo, hi in runs(moving_coordinates(ins, slices)):
        at = MapBuilder(slices.indices)
        vector_dim = slices.index_vector_dim
        if vector_dim < len(slices.indices) and (lo, hi) != (0, slices.indices[vector_dim] - 1):
            at.require(Dim(vector_dim), lo, hi)
        results = slices.with_row(row)
        for k in slices.window_dims:
            results[k] = at.range(slices.sliced[k])
        maps.append(at.map(results))
    return (exact(*maps),)


@output_to_input(Scatter, shared=False, precision=Precision.OVER, reason=OVERWRITTEN, bodies=True)
def _(ins: Instruction, op: Scatter, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    shape, count = output_sizes(ins, output), len(ins.operands) // 2
    uses, updates = combined(ins, op, bodies), to_sliced(ins, op)
    hit = hit_elements(updates, shape)
    return (
        *old_elements(ins, op, uses, uses.hit[output], output, hit),
        NEVER if output in uses.unchanged else updating_vectors(ins, op),
        *weakened_by_uses(uses.updates[output], count, updates, LAST),
    )


@input_to_output(Scatter, shared=False, precision=Precision.OVER, reason=OVERWRITTEN, bodies=True)
def _(ins: Instruction, op: Scatter, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    count, uses = len(ins.operands) // 2, combined(ins, op, bodies)
    if operand == count:
        found = updated_elements(ins, op)
        return tuple([NEVER if k in uses.unchanged else found for k in range(count)])
    if operand > count:
        whole, by = to_array(ins, op), operand - count - 1
        return tuple(weakened_by_uses(uses_of(by, uses.updates), count, whole, LAST))
    shape = sizes(ins.operands[0].type)
    hit = hit_elements(to_sliced(ins, op), shape)
    return tuple(old_elements(ins, op, uses, uses_of(operand, uses.hit), operand, hit))


@reads_bodies(Scatter)
def _(ins: Instruction, op: Scatter, output: int, bodies: Bodies) -> Iterator[Instances]:
    uses, updates = combined(ins, op, bodies), to_sliced(ins, op)
    if output in uses.unchanged:
        return
    hit = tuple([replace(a, map=a.map.with_(results=())) for a in updates if a.map is not None])
    for k in sorted({output, *uses.bodies[output]}):
        yield Instances(0, k, hit if k == output else weakened_by_use(Use.SOMETIMES, hit))


# torch_index_select: one dimension is replaced by the (unbatched) dimensions of the indices.


def _check_selected(ins: Instruction, op: TorchIndexSelect) -> None:
    """Check the sizes of the result, which the verifier does not check.

    Raises:
        UnsupportedError: The sizes do not follow from the operands.
    """
    whole, indices = (sizes(operand.type) for operand in ins.operands)
    if sizes(ins.type) != op.selected_sizes(whole, indices):
        raise UnsupportedError("the sizes of the result are not those of what is selected")


@output_to_input(TorchIndexSelect, shared=False)
def _(ins: Instruction, op: TorchIndexSelect, output: int) -> tuple[Accesses, ...]:
    _check_selected(ins, op)
    whole, indices = (sizes(operand.type) for operand in ins.operands)
    at = MapBuilder(sizes(ins.type))
    new = len(indices) - op.batch_dims
    index = [*dims(op.batch_dims), *[Dim(op.dim + k) for k in range(new)]]
    selected = at.read(0, whole[op.dim] - 1, ins.operands[1], index)
    rest = [Dim(op.dim + new + k) for k in range(len(whole) - op.dim - 1)]
    operand = exact(at.map([*dims(op.dim), selected, *rest]))
    return (operand, exact(MapBuilder(sizes(ins.type)).map(index)))


@input_to_output(TorchIndexSelect, shared=False)
def _(ins: Instruction, op: TorchIndexSelect, operand: int) -> tuple[Accesses, ...]:
    _check_selected(ins, op)
    whole, indices = (sizes(o.type) for o in ins.operands)
    target = sizes(ins.type)
    new = len(indices) - op.batch_dims
    if operand == 1:
        at = MapBuilder(indices)
        chosen = dims(len(indices))[op.batch_dims :]
        before = [at.range(target[k]) for k in range(op.batch_dims, op.dim)]
        after = [at.range(n) for n in target[op.dim + new :]]
        return (exact(at.map([*dims(op.batch_dims), *before, *chosen, *after])),)
    at = MapBuilder(whole)
    rows = [at.range(n) for n in indices[op.batch_dims :]]
    origin = ins.operands[1]
    selected = at.read(0, whole[op.dim] - 1, origin, [*dims(op.batch_dims), *rows])
    at.require(Dim(op.dim) - selected, 0, 0)
    rest = dims(len(whole))[op.dim + 1 :]
    return (exact(at.map([*dims(op.dim), *rows, *rest])),)


# --------------------------------------------------------------------------------------------------
# Slices of an array at run-time indices, the common part of gather and scatter.


class OutOfBounds(Enum):
    """Treatment of a slice that exceeds the bounds of the array."""

    CLAMPED = "moved inside"
    BY_WINDOW = "dropped"
    BY_ELEMENT = "its elements outside are dropped"


class Slices(Struct, frozen=True):
    """The slices of an array that a gather reads or a scatter writes.

    A *row* is an index of the array of indices without `index_vector_dim`: it selects one index
    vector, which is the start of one slice.

    Attributes:
        whole: Sizes of the array.
        sliced: Sizes of the result of gather or the updates of scatter. Its dimensions are those of
            the rows and, at `window_dims`, those of a slice that are not dropped.
        indices: Sizes of the array of indices.
        window_dims: `offset_dims` of gather, `update_window_dims` of scatter.
        dropped_dims: `collapsed_slice_dims`, `inserted_window_dims`.
        batching_dims: `operand_batching_dims`, `input_batching_dims`.
        indices_batching_dims: `start_indices_batching_dims`, `scatter_indices_batching_dims`.
        start_index_map: The dimension of the array for each coordinate of an index vector.
        index_vector_dim: The dimension of `indices` along which an index vector lies.
        slice_sizes: Sizes of a slice.
        fit: Treatment of slices that exceed the array.
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
    fit: OutOfBounds

    @property
    def row_dims(self) -> Dims:
        """Dimensions of the sliced array that number the rows (see the class)."""
        return tuple(k for k in range(len(self.sliced)) if k not in self.window_dims)

    @property
    def whole_window_dims(self) -> Dims:
        """Dimensions of the whole array that are window dimensions of the sliced array."""
        gone = {*self.dropped_dims, *self.batching_dims}
        return tuple(k for k in range(len(self.whole)) if k not in gone)

    @property
    def are_empty(self) -> bool:
        """Whether slices are empty, because a dropped or batching dimension has no element."""
        gone = (*self.dropped_dims, *self.batching_dims)
        return any(not (self.slice_sizes[k] and self.whole[k]) for k in gone)

    def batch_coordinate(self, k: int) -> int | None:
        """Return the coordinate of a row that equals the index in dimension `k` of the whole array.

        The result is its number in the row, or `None` if `k` is not a batching dimension.
        """
        if k not in self.batching_dims:
            return None
        dim = self.indices_batching_dims[self.batching_dims.index(k)]
        return dim - (dim > self.index_vector_dim)

    def rows_at(self, at: MapBuilder) -> list[Expr]:
        """Return the coordinates of the rows whose slices may contain an element.

        The element is at the dimensions of `at`. A coordinate that no batching dimension determines
        is a range variable, which is added to `at`.
        """
        fixed = {self.batch_coordinate(k): Dim(k) for k in self.batching_dims}
        return [
            fixed[j] if j in fixed else at.range(self.sliced[k])
            for j, k in enumerate(self.row_dims)
        ]

    def with_row(self, row: Sequence[Expr]) -> list[Expr]:
        """Return an index of the sliced array with the coordinates `row`, and 0 in the window."""
        index: list[Expr] = [Const(0)] * len(self.sliced)
        for k, e in zip(self.row_dims, row, strict=True):
            index[k] = e
        return index

    def position(self, row: Sequence[Expr], vector: Expr) -> tuple[Expr, ...]:
        """Return the index, in the array of indices, of coordinate `vector` of a row's start."""
        at = self.index_vector_dim
        if at == len(self.indices):
            return tuple(row)
        return (*row[:at], vector, *row[at:])

    def starts(self, at: MapBuilder, origin: Instruction, row: Sequence[Expr]) -> list[Expr]:
        """Return the index, in the whole array, at which the slice of one row starts.

        It has one coordinate for each dimension of the whole array. A coordinate that is read from
        the array of indices becomes a runtime variable of the builder, constrained to the interval
        `first_coordinates`.

        Args:
            at: The builder of the map.
            origin: The instruction whose value is the array of indices.
            row: The coordinates of the row: an index of `indices` without `index_vector_dim`.
        """
        found: list[Expr] = []
        for k, size in enumerate(self.whole):
            batch = self.batch_coordinate(k)
            if batch is not None:
                found.append(row[batch])
            elif k in self.start_index_map:
                vector = Const(self.start_index_map.index(k))
                position = self.position(row, vector)
                room = size - self.slice_sizes[k]
                # Gather clamps a start into bounds; scatter reads it unchanged and drops what does
                # not fit.
                values = (0, room) if self.fit is OutOfBounds.CLAMPED else integers(origin.type)
                start = at.read(*values, origin, position)
                at.require(start, *self.first_coordinates(k))
                found.append(start)
            else:
                found.append(Const(0))
        return found

    def first_coordinates(self, k: int) -> tuple[int, int]:
        """Return the least and the greatest start, in dimension `k`, of a slice with elements.

        Only elements in bounds count.
        """
        if k not in self.start_index_map:
            return 0, 0
        size, extent = self.whole[k], self.slice_sizes[k]
        return (1 - extent, size - 1) if self.fit is OutOfBounds.BY_ELEMENT else (0, size - extent)

    def reach(self, k: int, type: Type) -> tuple[int, int]:
        """Return the smallest and the largest coordinate in dimension `k` that slices may cover.

        `type` is the type of the indices, which limits the starts. The result is `(0, -1)` if
        slices cover none.
        """
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
    """Return the sizes and dimension numbers of the slices of a gather or scatter."""
    whole, indices = sizes(ins.operands[0].type), sizes(ins.operands[indices_at(ins, op)].type)
    fit = OutOfBounds.CLAMPED
    if isinstance(op, Scatter):
        fit = OutOfBounds.BY_WINDOW if op.by_window else OutOfBounds.BY_ELEMENT
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


def to_array(ins: Instruction, op: IndexedSlices) -> Accesses:
    """Return the access from an element of the sliced array to its element of the whole array.

    The sliced array is the result of a gather or the updates of a scatter. The whole array is the
    one that a gather reads or a scatter writes.
    """
    slices = slices_of(ins, op)
    at = MapBuilder(slices.sliced)
    row = [Dim(k) for k in slices.row_dims]
    index = slices.starts(at, ins.operands[indices_at(ins, op)], row)
    for k, window_dim in zip(slices.whole_window_dims, slices.window_dims, strict=True):
        index[k] = Dim(window_dim) + index[k]
        by_element = slices.fit is OutOfBounds.BY_ELEMENT and k in slices.start_index_map
        # The slice of a scatter may be out of bounds, which is known only at run time.
        if by_element or slices.slice_sizes[k] > slices.whole[k]:
            at.require(index[k], 0, slices.whole[k] - 1)
    if slices.are_empty:
        at.require(Const(0), 1, 1)
    return exact(at.map(index))


def to_sliced(ins: Instruction, op: IndexedSlices) -> Accesses:
    """Return the access from an element of the whole array to its elements in the sliced array.

    The sliced array is the result of a gather or the updates of a scatter. The whole array is the
    one that a gather reads or a scatter writes. The slice of every row may contain the element.
    """
    slices = slices_of(ins, op)
    at = MapBuilder(slices.whole)
    row = slices.rows_at(at)
    results = slices.with_row(row)
    windows = dict(zip(slices.whole_window_dims, slices.window_dims, strict=True))
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


def moving_coordinates(ins: Instruction, slices: Slices) -> list[int]:
    """Return the numbers of the coordinates of an index vector that can move a slice.

    A coordinate for a dimension that slices cover completely is always clamped to 0. It moves
    nothing.
    """
    if has_dynamic_sizes(ins):
        return [*range(len(slices.start_index_map))]
    if slices.are_empty:
        return []
    dimensions = enumerate(slices.start_index_map)
    return [v for v, k in dimensions if slices.slice_sizes[k] < slices.whole[k]]
