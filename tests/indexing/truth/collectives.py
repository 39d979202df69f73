"""Cases of collectives: what one member of a group gets from which elements of which member."""

from __future__ import annotations

import numpy as np

from hloscope.ops.collectives import (
    AllGather,
    AllToAll,
    CollectiveBroadcast,
    CollectiveReduce,
    ReduceScatter,
)
from hloscope.ops.groups import Table
from tests.indexing.truth.generator import Gen, body, case
from tests.indexing.truth.marks import Case, Marks, Operand, as_marks, union


def _per_member(operand: Operand, group: int) -> list[Marks]:
    """The marks of the operand on each member of the group."""
    size = operand.marks.size
    return [operand.marks * (1 << (size * r)) for r in range(group)]


def _group(g: Gen) -> tuple[int, int, Table]:
    """Size of the only group, the member asked about, and the group as a table."""
    group = g.number(2, 4)
    return group, g.number(0, group - 1), Table((1, group), tuple(range(group)))


@case("all_gather")
def all_gather(g: Gen) -> Case:
    group, member, text = _group(g)
    shape = g.shape(1, 3, largest=4, most=30)
    axis = g.number(0, len(shape) - 1)
    x = g.array(shape, copies=group)
    result = np.concatenate(_per_member(x, group), axis)
    op = AllGather(text, all_gather_dim=axis)
    return g.case(op, [x], result, group=group, member=member)


@case("reduce_scatter")
def reduce_scatter(g: Gen) -> Case:
    group, member, text = _group(g)
    shape = list(g.shape(1, 3, largest=3, most=30, zero=False))
    axis = g.number(0, len(shape) - 1)
    shape[axis] *= group
    x = g.array(shape, copies=group)
    total = np.bitwise_or.reduce(np.stack(_per_member(x, group)), axis=0)
    mine = np.split(total, group, axis)[member]
    op = ReduceScatter(text, scatter_dimension=axis)
    return g.case(op, [x], mine, group=group, member=member, calls=(body(2, [(0, 1)]),))


@case("all_to_all")
def all_to_all(g: Gen) -> Case:
    """Member `q` gets part `q` of every member."""
    group, member, text = _group(g)
    shape = list(g.shape(1, 3, largest=3, most=30, zero=False))
    split, concat = g.number(0, len(shape) - 1), g.number(0, len(shape) - 1)
    shape[split] *= group
    x = g.array(shape, copies=group)
    parts = [np.split(m, group, split)[member] for m in _per_member(x, group)]
    op = AllToAll(text, split_dimension=split, concat_dimension=concat, split_count=group)
    return g.case(op, [x], np.concatenate(parts, concat), group=group, member=member)


@case("all_to_all: several operands")
def all_to_all_of_several(g: Gen) -> Case:
    """StableHLO's form: each operand is exchanged on its own."""
    group, member, text = _group(g)
    operands = [g.array((3, group * size), copies=group) for size in (1, 2)]
    parts = [[np.split(m, group, 1)[member] for m in _per_member(x, group)] for x in operands]
    op = AllToAll(text, split_dimension=1, concat_dimension=0, split_count=group)
    results = tuple(np.concatenate(part, 0) for part in parts)
    return g.case(op, operands, results, group=group, member=member)


@case("collective_broadcast")
def collective_broadcast(g: Gen) -> Case:
    group, member, text = _group(g)
    x = g.array(g.shape(0, 2), copies=group)
    return g.case(
        CollectiveBroadcast(text), [x], _per_member(x, group)[0], group=group, member=member
    )


@case("collective_broadcast: dynamic roots")
def rooted_broadcast(g: Gen) -> Case:
    """For each of two values, the member that the last operand names."""
    group, member, text = _group(g)
    first, second = (g.array(g.shape(0, 2, most=20), copies=group) for _ in range(2))
    roots = g.integers((2,), 0, group - 1)
    assert roots.values is not None
    mine = _per_member(roots, group)[member]
    results = tuple(
        as_marks(union(as_marks(_per_member(x, group)[int(roots.values[k])]), int(mine[k])))
        for k, x in enumerate((first, second))
    )
    op = CollectiveBroadcast(text, has_dynamic_root=True)
    return g.case(op, [first, second, roots], results, group=group, member=member)


@case("collective_reduce: dynamic root")
def rooted_reduce(g: Gen) -> Case:
    x, root = g.array(g.shape(0, 2)), g.integers((1,), 0, 1)
    op = CollectiveReduce(has_dynamic_root=True)
    calls = (body(2, [(0, 1)]),)
    return g.case(op, [x, root], union(x.marks, root.marks[0]), calls=calls)
