"""Indexed reads and writes: gather, scatter, torch_index_select.

A runtime variable is a coordinate read from the indices. Gather clamps it so that the slice fits:
its variable is the clamped value, in `[0, size - slice size]`. Scatter drops updates that do not
fit: its variable is the unchanged value, and the map holds where it fits. In HLO the whole window
must fit, in StableHLO the element.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    dims,
    everything,
    everywhere,
    exact,
    output_sizes,
    runs,
    sizes,
)
from hloscope.indexing.rules.dependence import (
    Bodies,
    Use,
    claimed,
    claims,
    uses_of,
)
from hloscope.indexing.rules.indexed_slices import moving, slices_of, to_sliced, to_whole
from hloscope.indexing.rules.registry import Instances, comes_from, input_to_output, output_to_input
from hloscope.indexing.rules.scattered import (
    LAST,
    OVERWRITTEN,
    combined,
    hit_elements,
    old_elements,
    placed,
    placing,
)
from hloscope.ir import Instruction
from hloscope.ops import DynamicGather, Gather, Scatter, TorchIndexSelect


@output_to_input(Gather, DynamicGather, shared=False)
def _(ins: Instruction, op: Gather | DynamicGather, output: int) -> tuple[Accesses, ...]:
    slices = slices_of(ins, op)
    row = [Dim(k) for k in slices.row_dims]
    maps = []
    for lo, hi in runs(moving(ins, slices)):
        at = MapBuilder(slices.sliced)
        vector: Expr = Const(0)
        if slices.index_vector_dim < len(slices.indices):
            vector = at.range(hi - lo + 1) + lo
        maps.append(at.map(slices.position(row, vector)))
    indices = exact(*maps)
    rest = [everything(slices.sliced, sizes(operand.type)) for operand in ins.operands[2:]]
    return (to_whole(ins, op), indices, *rest)


@input_to_output(Gather, DynamicGather, shared=False)
def _(ins: Instruction, op: Gather | DynamicGather, operand: int) -> tuple[Accesses, ...]:
    if operand == 0:
        return (to_sliced(ins, op),)
    if operand > 1:
        return everywhere(ins, operand)
    slices = slices_of(ins, op)
    row = [Dim(k) for k in range(len(slices.indices)) if k != slices.index_vector_dim]
    maps = []
    for lo, hi in runs(moving(ins, slices)):
        at = MapBuilder(slices.indices)
        vector_dim = slices.index_vector_dim
        if vector_dim < len(slices.indices) and (lo, hi) != (0, slices.indices[vector_dim] - 1):
            at.require(Dim(vector_dim), lo, hi)
        results: list[Expr] = [Const(0)] * len(slices.sliced)
        for k, e in zip(slices.row_dims, row, strict=True):
            results[k] = e
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
        NEVER if output in uses.unchanged else placing(ins, op),
        *claims(uses.updates[output], count, updates, LAST),
    )


@input_to_output(Scatter, shared=False, precision=Precision.OVER, reason=OVERWRITTEN, bodies=True)
def _(ins: Instruction, op: Scatter, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    count, uses = len(ins.operands) // 2, combined(ins, op, bodies)
    if operand == count:
        found = placed(ins, op)
        return tuple([NEVER if k in uses.unchanged else found for k in range(count)])
    if operand > count:
        whole, by = to_whole(ins, op), operand - count - 1
        return tuple(claims(uses_of(by, uses.updates), count, whole, LAST))
    shape = sizes(ins.operands[0].type)
    hit = hit_elements(to_sliced(ins, op), shape)
    return tuple(old_elements(ins, op, uses, uses_of(operand, uses.hit), operand, hit))


@comes_from(Scatter)
def _(ins: Instruction, op: Scatter, output: int, bodies: Bodies) -> Iterator[Instances]:
    uses, updates = combined(ins, op, bodies), to_sliced(ins, op)
    if output in uses.unchanged:
        return
    hit = tuple([replace(a, map=a.map.with_(results=())) for a in updates if a.map is not None])
    for k in sorted({output, *uses.bodies[output]}):
        yield Instances(0, k, hit if k == output else claimed(Use.SOMETIMES, hit))


# torch_index_select: one dimension is replaced by the (unbatched) dimensions of the indices.


def _check_selected(ins: Instruction, op: TorchIndexSelect) -> None:
    """Check the sizes of the result, which the verifier does not check.

    Raises:
        UnsupportedError: They do not follow from the operands.
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
