"""What computations that ops apply to elements depend on, told from the maps through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from hloscope.affine import Expr, Range, Runtime, Var, variables
from hloscope.fusion.unchanged import Numbers, source_in
from hloscope.fusion.walk import Flow
from hloscope.fusion.widen import join_reasons
from hloscope.indexing import (
    Access,
    Dependence,
    IndexingMap,
    Precision,
    RuntimeVariable,
    Variable,
    joined,
    parted,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Computation, Instruction, captured
from hloscope.ops import Parameter
from hloscope.walks import reached

VARIES: Final = "read at an index that differs between applications of a body"
MOST_POINTS: Final = 256
"""A map with conditions is looked at for so many values of its range variables."""


def dependence_of(
    callee: Computation, at: Numbers, summary: Callable[[Computation, int], Iterable[Flow]]
) -> Dependence:
    """What each result of a computation depends on.

    Args:
        callee: The computation.
        at: Numbers leaves.
        summary: What a leaf of its root reads of its parameters.
    """
    first = [0]
    for parameter in callee.parameters:
        first.append(first[-1] + len(at.leaves(parameter.type)))
    reads, sure, aligned, unchanged = [], [], [], []
    for leaf in range(len(at.leaves(callee.root.type))):
        rows: tuple[set[int], set[int], set[int]] = set(), set(), set()
        for flow in summary(callee, leaf):
            if isinstance(flow.operand, int):
                number = first[flow.operand] + flow.leaf
                accesses = flow.accesses
                rows[0].add(number)
                if accesses is None or any(map(_is_sure, accesses)):
                    rows[1].add(number)
                if accesses is None or all(a.map and a.map.is_identity for a in accesses):
                    rows[2].add(number)
        reads.append(frozenset(rows[0]))
        sure.append(frozenset(rows[1]))
        aligned.append(frozenset(rows[2]))
        source, inner = source_in(at, callee, leaf)
        is_parameter = source in callee.parameters
        unchanged.append(first[callee.parameters.index(source)] + inner if is_parameter else -1)
    return Dependence(tuple(reads), tuple(sure), tuple(aligned), tuple(unchanged))


def _is_sure(access: Access) -> bool:
    """Is something read, whatever the values are that are read at run time?"""
    map = access.map
    if map is None or access.precision is not Precision.EXACT or map.runtime:
        return False
    if not map.constraints:
        return not map.is_known_empty
    count = 1
    for variable in map.ranges:
        count *= variable.interval.size
    return not map.dims and count <= MOST_POINTS and bool(map.points(()))


def varying(outside: Iterable[Instruction], origin: Instruction) -> bool:
    """Is a value inside a body another one where the body is applied to other elements?

    Args:
        outside: The values that the body reads without being handed them.
        origin: The value, in the body or in a computation that it calls; or one from outside.
    """
    fixed = frozenset(outside)

    def read(ins: Instruction) -> tuple[Instruction, ...]:
        return () if ins in fixed else (*ins.operands, *captured(ins))

    found = reached([origin], read)
    return any(isinstance(ins.op, Parameter) for ins in found if ins not in fixed)


def in_every_application(access: Access, is_varying: Callable[[Instruction], bool]) -> Access:
    """The access for all applications of a body: values that differ between them run freely."""
    if access.map is None:
        return access
    map = joined(access)
    loose = _varying_variables(map, is_varying)
    if not loose:
        return access
    new: dict[Var, Expr] = {}
    ranges, runtime = [*map.ranges], list[RuntimeVariable]()
    for i, variable in enumerate(map.runtime):
        if i in loose:
            new[Runtime(i)] = Range(len(ranges))
            ranges.append(Variable(variable.interval))
        else:
            new[Runtime(i)] = Runtime(len(runtime))
            runtime.append(variable)
    found = map.with_(
        ranges=ranges,
        runtime=[v.at(substituted(v.arguments, new)) for v in runtime],
        results=substituted(map.results, new),
        constraints=substituted_constraints(map.constraints, new),
    )
    reason = join_reasons(access.reason, VARIES)
    over = replace(access, precision=Precision.OVER, reason=reason)
    return parted(over, found, len(access.map.results), access.via)


def _varying_variables(
    map: IndexingMap, is_varying: Callable[[Instruction], bool]
) -> frozenset[int]:
    """The runtime variables that differ, also those read at an index that does."""
    found = {
        i
        for i, v in enumerate(map.runtime)
        if v.collective is None and (v.origin is None or is_varying(v.origin))
    }
    while True:
        more = {
            i
            for i, v in enumerate(map.runtime)
            if i not in found and any(Runtime(j) in variables(*v.arguments) for j in found)
        }
        if not more:
            return frozenset(found)
        found |= more
