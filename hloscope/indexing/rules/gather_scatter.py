"""Indexed reads and writes: gather, scatter, torch_index_select.

A runtime variable stands for a coordinate read from the indices.  Gather clamps it so that the
slice fits: its variable is the clamped value, in `[0, size - slice size]`.  Scatter drops an update
that does not fit: its variable is the value as it is, and the map holds where it fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    dims,
    everything,
    everywhere,
    exact,
    identity,
    integers,
    leaves,
    output_sizes,
    over,
    parameters_used,
    sizes,
)
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims
from hloscope.ops.gather_scatter import DynamicGather, Gather, Scatter, TorchIndexSelect


@dataclass(frozen=True, slots=True)
class Slices:
    """What gather and scatter share: slices of a `whole` array, one per row of the indices.

    The *sliced* array (gather's result, scatter's updates) has the rows' dimensions and, at
    `window_dims`, the kept dimensions of a slice.
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

    @property
    def row_dims(self) -> Dims:
        """Dimensions of the sliced array that name the row."""
        return tuple(k for k in range(len(self.sliced)) if k not in self.window_dims)

    @property
    def kept_dims(self) -> Dims:
        """Dimensions of the whole that a slice keeps, in order."""
        gone = {*self.dropped_dims, *self.batching_dims}
        return tuple(k for k in range(len(self.whole)) if k not in gone)

    def batch_row(self, k: int) -> int | None:
        """The row coordinate that a batching dimension of the whole equals."""
        if k not in self.batching_dims:
            return None
        dim = self.indices_batching_dims[self.batching_dims.index(k)]
        return dim - (dim > self.index_vector_dim)

    def position(self, row: Sequence[Expr], vector: Expr) -> tuple[Expr, ...]:
        """Where in the indices the coordinate number `vector` of a row stands."""
        at = self.index_vector_dim
        if at == len(self.indices):
            return tuple(row)
        return (*row[:at], vector, *row[at:])

    def starts(
        self, at: MapBuilder, origin: Instruction, row: Sequence[Expr], *, clamped: bool
    ) -> list[Expr]:
        """The first coordinate of a row's slice, per dimension of the whole."""
        found: list[Expr] = []
        for k, size in enumerate(self.whole):
            batch = self.batch_row(k)
            if batch is not None:
                found.append(row[batch])
            elif k in self.start_index_map:
                vector = Const(self.start_index_map.index(k))
                position = self.position(row, vector)
                room = size - self.slice_sizes[k]
                values = (0, room) if clamped else integers(origin.type)
                start = at.read(*values, origin, position)
                at.require(start, 0, room)
                found.append(start)
            else:
                found.append(Const(0))
        return found


IndexedSlices: TypeAlias = Gather | DynamicGather | Scatter


def slices_of(ins: Instruction, op: IndexedSlices) -> Slices:
    """Gather and scatter in the same terms."""
    whole, indices = sizes(ins.operands[0].type), sizes(ins.operands[_indices_at(ins, op)].type)
    if isinstance(op, Scatter):
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
    slice_sizes = tuple(1 if k in gone else next(extents) for k in range(len(whole)))
    return Slices(
        whole, sliced, indices, window_dims, dropped, batching, indices_batching,
        start_index_map, op.index_vector_dim, slice_sizes,
    )  # fmt: skip


def _indices_at(ins: Instruction, op: IndexedSlices) -> int:
    return len(ins.operands) // 2 if isinstance(op, Scatter) else 1


def _to_whole(ins: Instruction, op: IndexedSlices) -> Accesses:
    """From an index of the sliced array to the element of the whole."""
    slices = slices_of(ins, op)
    at = MapBuilder(slices.sliced)
    row = [Dim(k) for k in slices.row_dims]
    origin, clamped = ins.operands[_indices_at(ins, op)], not isinstance(op, Scatter)
    index = slices.starts(at, origin, row, clamped=clamped)
    for k, window_dim in zip(slices.kept_dims, slices.window_dims, strict=True):
        index[k] = Dim(window_dim) + index[k]
    return exact(at.map(index))


def _to_sliced(ins: Instruction, op: IndexedSlices) -> Accesses:
    """From an index of the whole to the elements of the sliced array, over all rows."""
    slices = slices_of(ins, op)
    at = MapBuilder(slices.whole)
    fixed = {slices.batch_row(k): Dim(k) for k in slices.batching_dims}
    row = [
        fixed[j] if j in fixed else at.range(slices.sliced[k])
        for j, k in enumerate(slices.row_dims)
    ]
    results: list[Expr] = [Const(0)] * len(slices.sliced)
    for k, e in zip(slices.row_dims, row, strict=True):
        results[k] = e
    windows = dict(zip(slices.kept_dims, slices.window_dims, strict=True))
    origin, clamped = ins.operands[_indices_at(ins, op)], not isinstance(op, Scatter)
    start = slices.starts(at, origin, row, clamped=clamped)
    for k in range(len(slices.whole)):
        if k in slices.batching_dims:
            continue
        offset = Dim(k) - start[k]
        at.require(offset, 0, slices.slice_sizes[k] - 1)
        if k in windows:
            results[windows[k]] = offset
    return exact(at.map(results))


@output_to_input(Gather, DynamicGather, memo=False)
def _(ins: Instruction, op: Gather | DynamicGather, output: int) -> tuple[Accesses, ...]:
    slices = slices_of(ins, op)
    at = MapBuilder(slices.sliced)
    vector: Expr = Const(0)
    if slices.index_vector_dim < len(slices.indices):
        vector = at.range(slices.indices[slices.index_vector_dim])
    row = [Dim(k) for k in slices.row_dims]
    indices = exact(at.map(slices.position(row, vector)))
    rest = [everything(slices.sliced, sizes(operand.type)) for operand in ins.operands[2:]]
    return (_to_whole(ins, op), indices, *rest)


@input_to_output(Gather, DynamicGather, memo=False)
def _(ins: Instruction, op: Gather | DynamicGather, operand: int) -> tuple[Accesses, ...]:
    if operand == 0:
        return (_to_sliced(ins, op),)
    if operand > 1:
        return everywhere(ins, operand)
    slices = slices_of(ins, op)
    at = MapBuilder(slices.indices)
    row = [Dim(k) for k in range(len(slices.indices)) if k != slices.index_vector_dim]
    results: list[Expr] = [Const(0)] * len(slices.sliced)
    for k, e in zip(slices.row_dims, row, strict=True):
        results[k] = e
    for k in slices.window_dims:
        results[k] = at.range(slices.sliced[k])
    return (exact(at.map(results)),)


# Scatter: every output of a variadic scatter depends on all inputs and updates, through the body.
# A body that does not look at the old value overwrites it: the maps then say too much.

_OVERWRITTEN = "an element that an update overwrites is not read"
_LAST = "of several updates of an element one wins"


def _combined(ins: Instruction, op: Scatter, inputs: Accesses, updates: Accesses) -> list[Accesses]:
    """The accesses of all inputs, then of all updates, with the claims that the body allows."""
    count = len(ins.operands) // 2
    used = parameters_used(ins.calls[0]) if ins.calls else frozenset(range(2 * count))
    replaces = not any(k in used for k in range(count))
    if replaces:
        inputs = over(_OVERWRITTEN, *(a.map for a in inputs if a.map))
        if not op.unique_indices:
            updates = over(_LAST, *(a.map for a in updates if a.map))
    elif not any(k in used for k in range(count, 2 * count)):
        updates = NEVER
    return [inputs] * count + [updates] * count


@output_to_input(Scatter, memo=False, precision=Precision.OVER, reason=_OVERWRITTEN)
def _(ins: Instruction, op: Scatter, output: int) -> tuple[Accesses, ...]:
    shape, count = output_sizes(ins, output), len(ins.operands) // 2
    answer = _combined(ins, op, identity(shape), _to_sliced(ins, op))
    answer.insert(count, everything(shape, sizes(ins.operands[count].type)))
    return tuple(answer)


@input_to_output(Scatter, memo=False, precision=Precision.OVER, reason=_OVERWRITTEN)
def _(ins: Instruction, op: Scatter, operand: int) -> tuple[Accesses, ...]:
    count = len(ins.operands) // 2
    if operand == count:
        return everywhere(ins, operand)
    shape = sizes(ins.operands[0].type)
    found = _combined(ins, op, identity(shape), _to_whole(ins, op))
    return (found[operand - (operand > count)],) * len(leaves(ins.type))


# torch_index_select: one dimension is replaced by the (unbatched) dimensions of the indices.


@output_to_input(TorchIndexSelect, memo=False)
def _(ins: Instruction, op: TorchIndexSelect, output: int) -> tuple[Accesses, ...]:
    whole, indices = (sizes(operand.type) for operand in ins.operands)
    at = MapBuilder(sizes(ins.type))
    new = len(indices) - op.batch_dims
    index = [*dims(op.batch_dims), *[Dim(op.dim + k) for k in range(new)]]
    selected = at.read(0, whole[op.dim] - 1, ins.operands[1], index)
    rest = [Dim(op.dim + new + k) for k in range(len(whole) - op.dim - 1)]
    operand = exact(at.map([*dims(op.dim), selected, *rest]))
    return (operand, exact(MapBuilder(sizes(ins.type)).map(index)))


@input_to_output(TorchIndexSelect, memo=False)
def _(ins: Instruction, op: TorchIndexSelect, operand: int) -> tuple[Accesses, ...]:
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
