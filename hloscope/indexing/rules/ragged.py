"""Ragged dot: one dimension of the left side is divided into groups whose sizes are an operand.

The rows of group `g` start at the sum of the sizes before `g` and end at that sum plus its own
size. This is a condition on runtime variables, with one map per group. With many groups one
superset replaces the maps. A group of negative size has no rows, like a group of size 0. Source:
JAX `lax.ragged_dot_general`, whose three modes HLO has as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import MapBuilder, everything, everywhere, exact, over, sizes
from hloscope.indexing.rules.contraction import dot_labels, index_by_labels
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir import Dims, Instruction
from hloscope.ops import RaggedDot

MAX_GROUPS = 32
"""Number of groups above which one superset map ignores the group sizes."""
_GROUPS = "which group an element belongs to depends on the group sizes"
_GROUP = "group"


def _labels(ins: Instruction, op: RaggedDot) -> list[list[int | str]]:
    """Return the labels of lhs, rhs and result. The group is a label of rhs or of the result."""
    ranks = [len(sizes(operand.type)) for operand in ins.operands[:2]]
    left, right, result = (list[int | str](x) for x in dot_labels(op.dimensions, *ranks))
    for k in op.rhs_group:
        result.remove(right[k])
        right[k] = _GROUP
    if not op.rhs_group and op.lhs_ragged[0] in op.dimensions.lhs_contracting:
        result.insert(0, _GROUP)
    return [left, right, result]


def _before(ins: Instruction, labels: Sequence[list[int | str]]) -> list[int | str]:
    """Return labels of the dimensions before the ragged one, along which group sizes may vary.

    Dimensions of the left side are ordered by kind: batch, then free or contracting ones.
    """
    assert isinstance(ins.op, RaggedDot)
    dimensions, (ragged,) = ins.op.dimensions, ins.op.lhs_ragged
    batch, contracting = dimensions.lhs_batch, dimensions.lhs_contracting
    free = [d for d in range(len(labels[0])) if d not in (*batch, *contracting)]
    order = (*batch, *(contracting if ragged in contracting else free))
    count = len(sizes(ins.operands[2].type)) - 1
    return [labels[0][d] for d in order[: order.index(ragged)]][:count]


def _shapes(ins: Instruction) -> list[Dims]:
    return [*(sizes(operand.type) for operand in ins.operands[:2]), sizes(ins.type)]


def _maps(ins: Instruction, op: RaggedDot, here: int, there: int) -> Accesses:
    """Return the accesses from lhs, rhs or result (0, 1, 2) to another of them."""
    labels, shapes = _labels(ins, op), _shapes(ins)
    ragged = labels[0][op.lhs_ragged[0]]
    groups = sizes(ins.operands[2].type)[-1]
    uses = [_GROUP in labels[k] or ragged in labels[k] for k in (here, there)]
    if groups > MAX_GROUPS or not all(uses):
        return over(_GROUPS, _map(ins, labels, shapes, (here, there), None, ragged))
    if _GROUP not in (*labels[here], *labels[there]):  # any row that is in a group at all
        return exact(_map(ins, labels, shapes, (here, there), range(groups), ragged))
    return exact(
        *[_map(ins, labels, shapes, (here, there), range(g, g + 1), ragged) for g in range(groups)]
    )


def _map(
    ins: Instruction,
    labels: Sequence[list[int | str]],
    shapes: Sequence[Dims],
    ends: tuple[int, int],
    groups: range | None,
    ragged: int | str,
) -> IndexingMap:
    """Return the map for elements in consecutive groups; with `None`, in any or in no group."""
    here, there = ends
    at = MapBuilder(shapes[here])
    leading = [] if groups is None else _before(ins, labels)
    names = list(dict.fromkeys([*labels[there], *([] if groups is None else [*leading, ragged])]))
    extent = {n: s for k in range(3) for n, s in zip(labels[k], shapes[k], strict=True)}
    index = index_by_labels(at, labels[here], names, tuple(extent[n] for n in names))
    where = dict(zip(names, index, strict=True))
    where |= {n: Dim(k) for k, n in enumerate(labels[here])}
    if groups is not None:
        batch: list[Expr] = [where[n] for n in leading]
        size = extent[ragged]
        origin = ins.operands[2]
        reads = [at.read(0, size, origin, (*batch, Const(g))) for g in range(groups.stop)]
        # The first group of the run begins after the sizes of all groups before it.
        before: Expr = Const(0)
        for read in reads[: groups.start]:
            before = before + read
        end: Expr = before
        for read in reads[groups.start :]:
            end = end + read
        at.require(where[ragged] - before, 0, size - 1)
        at.require(end - where[ragged], 1, size * groups.stop)
        if _GROUP in where and len(groups) == 1:
            at.require(where[_GROUP], groups.start, groups.start)
    return at.map([where[n] for n in labels[there]])


@output_to_input(RaggedDot, shared=False, precision=Precision.OVER, reason=_GROUPS)
def _(ins: Instruction, op: RaggedDot, output: int) -> tuple[Accesses, ...]:
    group_sizes = everything(sizes(ins.type), sizes(ins.operands[2].type))
    return (_maps(ins, op, 2, 0), _maps(ins, op, 2, 1), group_sizes)


@input_to_output(RaggedDot, shared=False, precision=Precision.OVER, reason=_GROUPS)
def _(ins: Instruction, op: RaggedDot, operand: int) -> tuple[Accesses, ...]:
    if operand == 2:
        return everywhere(ins, operand)
    return (_maps(ins, op, operand, 2),)
