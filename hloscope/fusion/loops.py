"""While loops: what any number of iterations can read.

A part of the loop's value that every iteration hands on is read as it is.  Everything else depends
on the part's initial value and, through the body, on what one, two, … iterations read: the union
over all numbers of iterations, a superset of what the loop's own number of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from hloscope.fusion.pool import AccessSet, with_replica
from hloscope.fusion.structure import Context, reads, writes
from hloscope.fusion.walk import Flow
from hloscope.fusion.widen import hull, join_reasons, relaxed
from hloscope.indexing import Access, Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.types import TensorType, Type
from hloscope.ops.control import While

REASON: Final = "through a loop: for any number of iterations"
MAX_ACCESSES: Final = 32
"""The maps of a part touched in more different ways become one."""


class Closure:
    """What is reached from one part of the loop's value by any number of iterations."""

    def __init__(self, at: Context, types: tuple[Type, ...], start: int) -> None:
        self._at, self._types = at, types
        identity = at.pool.identity(types[start])
        self.found: dict[int, AccessSet] = {start: {id(identity): identity}}
        self._whole: set[int] = set()

    def step(self, before: Iterable[Access], flow: Flow) -> None:
        """Add what the accesses reach through one flow."""
        leaf = flow.leaf
        if leaf in self._whole:
            return
        known = self.found.setdefault(leaf, {})
        pool = self._at.pool
        for first in before:
            if flow.accesses is None:
                known[id(first)] = first
                continue
            for further in flow.accesses:
                both = pool.compose(first, pool.keep(self._loose(further, leaf)))
                if both is not None:
                    both = pool.keep(self._loose(both, leaf))
                    known[id(both)] = both
        if len(known) > MAX_ACCESSES:
            self._whole.add(leaf)
            whole = pool.keep_all(hull(known.values(), self._types[leaf], REASON))
            self.found[leaf] = {id(access): access for access in whole}

    def _loose(self, access: Access, leaf: int) -> Access:
        """A superset without runtime variables (an iteration may read another value) or ties.

        What depends on the iteration is not known anyway, so that only the box counts.
        """
        map, type = access.map, self._types[leaf]
        if map is None or not (map.runtime or map.constraints):
            return access
        if not isinstance(type, TensorType) or not type.is_static:
            return access if not map.runtime else Access.unknown(REASON)
        if access.replica is None:
            return replace(access, map=relaxed(map, type.shape))
        joined = with_replica(access)
        groups = [joined.range_of(e).hi + 1 for e in access.replica.results]
        looser = relaxed(joined, (*type.shape, *groups))
        rank = len(type.shape)
        parts = looser.results[:rank], looser.results[rank:]
        found, replica = (looser.with_(results=results) for results in parts)
        return replace(access, map=found, replica=replica)

    def close(self, flows: Callable[[int], Iterable[Flow]]) -> None:
        """Follow the body again and again until nothing new is found."""
        done: dict[int, set[int]] = {}
        todo = list(self.found)
        while todo:
            leaf = todo.pop()
            seen = done.setdefault(leaf, set())
            new = [access for key, access in self.found[leaf].items() if key not in seen]
            seen.update(self.found[leaf])
            if new:
                for flow in flows(leaf):
                    self.step(new, flow)
                    todo.append(flow.leaf)

    def flow(self, leaf: int) -> Flow:
        """What was found for one part, claimed as a superset."""
        accesses = [_any_number(access) for access in self.found[leaf].values()]
        return Flow(0, leaf, self._at.pool.keep_all(accesses))


@reads(While)
def _(at: Context, ins: Instruction, op: While, leaf: int) -> Iterator[Flow]:
    condition, body = ins.calls
    types = at.leaves(ins.type)
    if _is_handed_on(at, ins, leaf):
        yield Flow(0, leaf, None)
        return
    closure = Closure(at, types, leaf)
    # How often the body runs is decided by what the condition reads.
    decides = at.pool.whole(types[leaf], at.leaves(condition.root.type)[0])
    for flow in at.summary(condition, 0):
        closure.step([decides], flow)
    closure.close(lambda i: at.summary(body, i))
    for i in sorted(closure.found):
        yield closure.flow(i)


@writes(While)
def _(at: Context, ins: Instruction, op: While, operand: int, leaf: int) -> Iterator[Flow]:
    condition, body = ins.calls
    types = at.leaves(ins.type)
    closure = Closure(at, types, leaf)
    closure.close(lambda i: at.spread(body, 0, i))
    decides = any(at.spread(condition, 0, i) for i in closure.found)
    for i, type in enumerate(types):
        if _is_handed_on(at, ins, i):
            if i == leaf:
                yield Flow(0, i, None)
        elif decides:
            yield Flow(0, i, (at.pool.keep(_any_number(at.pool.whole(types[leaf], type))),))
        elif i in closure.found:
            yield closure.flow(i)


def _is_handed_on(at: Context, ins: Instruction, leaf: int) -> bool:
    """Does the body return this part of its parameter as it is?"""
    same = at.pool.identity(at.leaves(ins.type)[leaf])
    flows = at.summary(ins.calls[1], leaf)
    return flows in ((Flow(0, leaf, None),), (Flow(0, leaf, (same,)),))


def _any_number(access: Access) -> Access:
    """The access as part of a union over all numbers of iterations."""
    precision = Precision.OVER if access.precision is Precision.EXACT else access.precision
    return replace(access, precision=precision, reason=join_reasons(access.reason, REASON))
