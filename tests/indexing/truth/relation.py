"""Compares the maps of an instruction with what it really depends on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from hloscope.affine import Dim, Range, Runtime, Var, evaluate_array, variables
from hloscope.fusion.analysis import Analysis
from hloscope.indexing import IndexingMap
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from tests.indexing.truth.marks import Case

Bools = NDArray[np.bool_]


class MismatchError(AssertionError):
    """A map says something else than the semantics."""


def grid(shape: Sequence[int]) -> list[NDArray[np.int64]]:
    """The coordinates of every index, one flat array per dimension."""
    if not shape:
        return []
    return list(np.indices(tuple(shape), dtype=np.int64).reshape(len(shape), -1))


def relation_of(access: Access, source: Sequence[int], target: Sequence[int], case: Case) -> Bools:
    """`[source element, member, target element]`: what a map touches, evaluated everywhere.

    Raises:
        MismatchError: The map leaves the target.
    """
    m = access.map
    assert m is not None
    touched = np.zeros((prod(source), case.group, prod(target)), dtype=bool)
    if m.is_known_empty or not touched.size:
        return touched
    if len(m.dims) != len(source) or len(m.results) != len(target):
        raise MismatchError(
            f"map of rank {len(m.dims)} -> {len(m.results)} for {source} -> {target}"
        )
    dims = [c[:, None] for c in grid(source)]
    spans = [v.interval for v in m.ranges]
    ranges = [
        c[None, :] + v.lo
        for c, v in zip(grid([v.hi - v.lo + 1 for v in spans]), spans, strict=True)
    ]
    width = prod(v.hi - v.lo + 1 for v in spans)
    shape = (prod(source), width)
    box: dict[Var, NDArray[np.int64]] = {Dim(i): a for i, a in enumerate(dims)}
    box |= {Range(i): a for i, a in enumerate(ranges)}
    runtime, outside = _runtime(m, box, shape, case)
    holds = np.broadcast_to(m.satisfies_array(dims, ranges, runtime), shape)
    if (holds & outside).any():
        raise MismatchError(f"reads a runtime variable outside its tensor: {m}")
    which = np.zeros(shape, dtype=np.int64)
    if case.group > 1:
        which += case.member
    if access.replica is not None:
        (member,) = access.replica.evaluate_array(dims, ranges, runtime)
        which = np.broadcast_to(member, shape)
        _inside(access.replica, which, holds, case.group)
    where = np.zeros(shape, dtype=np.int64)
    for result, size in zip(m.evaluate_array(dims, ranges, runtime), target, strict=True):
        full = np.broadcast_to(result, shape)
        _inside(m, full, holds, size)
        where = where * size + full
    rows, columns = np.nonzero(holds)
    touched[rows, which[rows, columns], where[rows, columns]] = True
    return touched


def _runtime(
    m: IndexingMap, box: dict[Var, NDArray[np.int64]], shape: tuple[int, int], case: Case
) -> tuple[list[NDArray[np.int64]], Bools]:
    """Values of the runtime variables at every point, clamped as they say.

    Also returned: where they are read outside their tensors, as points beyond the domain may.
    """
    outside = np.zeros(shape, dtype=bool)
    known = {o.ins: o.values for o in case.operands if o.values is not None}
    left = list(range(len(m.runtime)))
    while left:  # an index may use other runtime variables, in any order
        i = next(i for i in left if variables(*m.runtime[i].index) <= box.keys())
        left.remove(i)
        variable = m.runtime[i]
        if variable.origin is None:
            value = np.full(shape, case.member)
        else:
            at = [np.broadcast_to(evaluate_array(e, box), shape) for e in variable.index]
            array = known[variable.origin]
            assert array.ndim == len(at), f"rt{i} of {m}: {len(at)} indices for {array.shape}"
            inside = [np.clip(x, 0, size - 1) for x, size in zip(at, array.shape, strict=True)]
            outside = outside | np.any([a != b for a, b in zip(at, inside, strict=True)], axis=0)
            value = array[tuple(inside)] if at else np.broadcast_to(array, shape)
        box[Runtime(i)] = np.clip(value, variable.values.lo, variable.values.hi)
    return [box[Runtime(i)] for i in range(len(m.runtime))], outside


def _inside(m: IndexingMap, result: NDArray[np.int64], holds: Bools, size: int) -> None:
    bad = holds & ((result < 0) | (result >= size))
    if bad.any():
        raise MismatchError(f"touches index {result[bad][0]} of a dimension of size {size}: {m}")


def union_of(
    accesses: Accesses, source: Sequence[int], target: Sequence[int], leaf: int, case: Case
) -> tuple[Bools, Precision]:
    """What several accesses touch together, and the weakest of their claims."""
    touched = np.zeros((prod(source), case.group, prod(target)), dtype=bool)
    worst = Precision.EXACT
    for access in accesses:
        if access.leaf != leaf:
            continue
        worst = max(worst, access.precision)
        assert access.reason or access.precision is Precision.EXACT, "inexact without a reason"
        if access.map is not None:
            touched |= relation_of(access, source, target, case)
    return touched, worst


def judge(said: Bools, precision: Precision, true: Bools, what: str, accesses: Accesses) -> None:
    """Raise `MismatchError` unless what maps say is as true as they claim."""
    wrong = (true & ~said) if precision is Precision.OVER else (true != said)
    if precision is not Precision.UNKNOWN and wrong.any():
        row, column = (int(x[0]) for x in np.nonzero(wrong))
        verb = "does not touch" if true[row, column] else "touches"
        maps = "; ".join(f"{a.map} [{a.precision}]" for a in accesses) or "no access"
        raise MismatchError(
            f"{what}: {int(wrong.sum())} of {wrong.size} pairs differ; "
            f"element {row} {verb} element {column}, says {maps}"
        )


def describe(case: Case) -> str:
    """The instruction as far as it matters for its indexing."""
    operands = ", ".join(str([m.shape for m in o.leaves]) for o in case.operands)
    return f"{case.ins.op} of {operands} {case.note}"


def check_output_to_input(case: Case) -> set[Precision]:
    """Compare the maps of every output with the truth; the claims that were made.

    Raises:
        MismatchError: An exact map is not equal, or another one is no superset.
    """
    claims = set()
    for output, marks in enumerate(case.outputs):
        answer = output_to_input(case.ins, output, reader=Analysis().bodies)
        assert len(answer) == len(case.operands), describe(case)
        for k, (accesses, operand) in enumerate(zip(answer, case.operands, strict=True)):
            for leaf, source in enumerate(operand.leaves):
                said, precision = union_of(accesses, marks.shape, source.shape, leaf, case)
                said = said.reshape(marks.size, case.group * source.size)
                true = case.relation(output, k, leaf)
                what = f"{describe(case)}: output {output} <- operand {k}.{leaf}"
                judge(said, precision, true, what, accesses)
                claims.add(precision)
    return claims


def check_input_to_output(case: Case) -> set[Precision]:
    """Compare the maps of every operand with the truth, transposed; the claims that were made.

    Raises:
        MismatchError: An exact map is not equal, or another one is no superset.
    """
    claims = set()
    for k, operand in enumerate(case.operands):
        answer = input_to_output(case.ins, k, reader=Analysis().bodies)
        assert len(answer) == len(case.outputs), describe(case)
        for output, (accesses, marks) in enumerate(zip(answer, case.outputs, strict=True)):
            for leaf, source in enumerate(operand.leaves):
                said, precision = union_of(accesses, source.shape, marks.shape, leaf, case)
                said = said.swapaxes(0, 1).reshape(case.group * source.size, marks.size)
                true = case.relation(output, k, leaf).T
                what = f"{describe(case)}: operand {k}.{leaf} -> output {output}"
                judge(said, precision, true, what, accesses)
                claims.add(precision)
    return claims
