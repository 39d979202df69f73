"""While loops: the union of accesses over any number of iterations.

A leaf of the loop's state that the body returns unchanged equals its initial value.  Any other leaf
depends on its initial value, on the elements that one, two, … iterations of the body read, and on
the elements that the condition reads, because the condition decides the number of iterations.  The
union over all numbers of iterations is a superset of the exact relation.

HLO passes the loop one tuple, StableHLO any number of values.  The leaves of the loop's state are
those of all operands, numbered in order: elements of flattened tuples, and run-time sizes.  A
StableHLO body may also capture values from outside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from hloscope import indexing
from hloscope.fusion.body_dependences import is_returned_unchanged
from hloscope.fusion.overapproximate import covers_everything, hull, join_reasons, relaxed
from hloscope.fusion.structure import Context, operand_leaf, reads, writes
from hloscope.fusion.traversal import AccessSet, Flow, composed
from hloscope.indexing import Access, Accesses, Precision
from hloscope.ir import Computation, Instruction, TensorType, Type
from hloscope.ops import While

REASON: Final = "through a loop: for any number of iterations"
MAX_ACCESSES: Final = 32
"""Maximum number of accesses to one leaf; with more, one superset replaces them."""


class Closure:
    """Closure of the accesses from one leaf of a loop's state, over any number of iterations.

    Args:
        at: The analysis.
        types: Type of each leaf of the state.
        start: Number of the leaf that accesses start from.
        forward: Whether accesses lead from the initial to the final state.
    """

    def __init__(
        self, at: Context, types: tuple[Type, ...], start: int, *, forward: bool = False
    ) -> None:
        self._at, self._types, self._forward = at, types, forward
        identity = at.interner.identity(types[start])
        self.found: dict[int, AccessSet] = {start: {identity: None}}
        self._dims = None if identity.map is None else identity.map.dims
        self._covered: set[int] = set()
        """Leaves with an access to all elements.

        Other accesses to these leaves on the same device add nothing.
        """
        self._whole: set[int] = set()
        self.outside: dict[tuple[Instruction, int], AccessSet] = {}

    def extend(self, before: Iterable[Access], flow: Flow) -> None:
        """Add the compositions of the accesses `before` with the dependence `flow` of the body.

        `before` leads from the start leaf to the leaf that the dependence begins at.
        """
        leaf = flow.leaf
        if not isinstance(flow.operand, int):
            self._leave(before, flow, flow.operand)
            return
        if leaf in self._whole:
            return
        known, type = self.found.setdefault(leaf, {}), self._types[leaf]
        if flow.accesses is None:
            reached: Iterable[Access] = before
        else:
            reached = self._through(before, flow.accesses, type, leaf in self._covered)
        self._add(reached, leaf, type, known)
        # The closure would grow with the iterations; one box is a superset of all, and the leaf is
        # final.
        if len(known) > MAX_ACCESSES:
            self._whole.add(leaf)
            whole = self._at.interner.intern_all(hull(known, type, REASON))
            self.found[leaf] = dict.fromkeys(whole)

    def _add(self, reached: Iterable[Access], leaf: int, type: Type, known: AccessSet) -> None:
        """Add the accesses `reached` to `known`, the accesses to leaf `leaf` of the state.

        The state is that of the loop. If an access reads the whole leaf from every index, it
        replaces the other accesses on the same device: further iterations reach the same elements
        through it. In AlphaFold, with 83 nested loops, that leaves 6,000 of 31,000 accesses.
        """
        for access in reached:
            if access in known or (leaf in self._covered and _is_of_one_device(access)):
                continue
            if self._covers(access, type):
                self._covered.add(leaf)
                for other in [a for a in known if _is_of_one_device(a)]:
                    del known[other]
            known[access] = None

    def _covers(self, access: Access, type: Type) -> bool:
        """Does the access read all elements of type `type` from each index of the start leaf?"""
        map = access.map
        if map is None or access.replica is not None or map.dims != self._dims:
            return False
        return (
            isinstance(type, TensorType) and type.is_static and covers_everything(map, type.shape)
        )

    def _leave(self, before: Iterable[Access], flow: Flow, source: Instruction) -> None:
        """Add the compositions of `before` with a dependence on the captured value `source`."""
        interner, type = self._at.interner, self._at.leaves(source.type)[flow.leaf]
        known = self.outside.setdefault((source, flow.leaf), {})
        further = (interner.identity(type),) if flow.accesses is None else flow.accesses
        known.update(dict.fromkeys(self._through(before, further, type)))
        if len(known) > MAX_ACCESSES:
            whole = interner.intern_all(hull(known, type, REASON))
            self.outside[source, flow.leaf] = dict.fromkeys(whole)

    def _through(
        self, before: Iterable[Access], further: Accesses, type: Type, is_covered: bool = False
    ) -> Iterator[Access]:
        """Yield all compositions, each with a map as `_for_all_iterations` returns it.

        Args:
            before: Accesses to a leaf of the loop's state.
            further: Accesses from that leaf to the target.
            type: Type of the target.
            is_covered: Whether an access to all elements of the target is known; then compositions
                on the same device are left out.
        """
        compose = self._at.interner.compose
        nexts = [self._for_all_iterations(access, type) for access in further]
        for first in before:
            for next_ in nexts:
                if is_covered and _is_of_one_device(first) and _is_of_one_device(next_):
                    continue
                both = compose(first, next_, forward=self._forward)
                if both is not None:
                    yield self._for_all_iterations(both, type)

    def _for_all_iterations(self, access: Access, type: Type) -> Access:
        """Return a superset of the access for all iterations, as an interned access."""
        return self._at.interner.intern(_for_all_iterations(access, type))

    def close(self, flows: Callable[[int], Iterable[Flow]]) -> None:
        """Apply the body's dependences repeatedly until no new access is found.

        Args:
            flows: Returns the dependences of a leaf of the loop's state.
        """
        done: dict[int, set[Access]] = {}
        todo = list(self.found)
        while todo:
            leaf = todo.pop()
            # Only accesses that are new since the last visit are composed. The closure is finite:
            # there are at most `MAX_ACCESSES` per leaf before they become one.
            seen = done.setdefault(leaf, set())
            new = [access for access in self.found[leaf] if access not in seen]
            seen.update(self.found[leaf])
            if new:
                for flow in flows(leaf):
                    self.extend(new, flow)
                    if isinstance(flow.operand, int):
                        todo.append(flow.leaf)

    def decide(self, flows: Callable[[int], Iterable[Flow]], type: Type) -> list[Access]:
        """Return the accesses from the start leaf to the condition's value, in any iteration.

        Args:
            flows: Returns the dependences of the condition on a leaf of the loop's state.
            type: Type of the condition's value.
        """
        interner, found = self._at.interner, []
        for leaf, known in self.found.items():
            for flow in flows(leaf):
                further = (interner.identity(type),) if flow.accesses is None else flow.accesses
                loose = [self._for_all_iterations(access, type) for access in further]
                found += composed(interner, known, loose, forward=True)
        if len(found) > MAX_ACCESSES:
            return [*interner.intern_all(hull(found, type, REASON))]
        return found

    def accesses(self, found: AccessSet) -> tuple[Access, ...]:
        """Return the accesses in `found` with precision `OVER`, and with `REASON`."""
        return self._at.interner.intern_all([_over_iterations(access) for access in found])


def _is_of_one_device(access: Access) -> bool:
    """Does the access have a map, and is the accessed element on the same device?"""
    return access.map is not None and access.replica is None


def _for_all_iterations(access: Access, type: Type) -> Access:
    """Return a superset without runtime variables and without constraints between variables.

    A runtime variable may have another value in each iteration.  Each result keeps its bounds.
    `type` is the type of the accessed tensor.
    """
    access = indexing.shortest(access)
    map = access.map
    if map is None or not (map.runtime or map.constraints):
        return access
    if not isinstance(type, TensorType) or not type.is_static:
        return access if not map.runtime else Access.unknown(REASON)
    both, rank = indexing.joined(access), len(type.shape)
    ends = [both.range_of(e) for e in both.results[rank:]]
    looser = relaxed(both, (*type.shape, *[interval.hi + 1 for interval in ends]))
    return indexing.with_joined(access, looser, rank, access.via)


def _initial_leaf(at: Context, ins: Instruction, leaf: int) -> tuple[int, int]:
    """Return the operand, and the leaf of it, that is the initial value of a leaf of the state.

    The result is the number of the operand of the loop `ins`, and the number of the leaf in it.
    """
    part = operand_leaf(at, ins, leaf)
    assert part is not None
    return part


def _state_dependences(
    at: Context, ins: Instruction, callee: Computation, leaf: int
) -> Iterator[Flow]:
    """Yield the dependences of a root leaf of the condition or body on leaves of the loop's state.

    In the result, operand 0 is the loop's state, and `Flow.leaf` is a leaf of it.
    """
    first = at.starts(ins)
    for flow in at.summary(callee, leaf):
        if isinstance(flow.operand, int):
            flow = flow._replace(operand=0, leaf=first[flow.operand] + flow.leaf)
        yield flow


def _root_dependences(
    at: Context, ins: Instruction, callee: Computation, leaf: int
) -> Iterable[Flow]:
    """Return the dependences of all root leaves of `callee` on leaf `leaf` of the loop's state.

    `callee` is the condition or the body of the loop `ins`. In the result, `Flow.leaf` is a leaf of
    the root, and operand 0 is the loop's state.
    """
    number, inner = _initial_leaf(at, ins, leaf)
    return [flow._replace(operand=0) for flow in at.spread(callee, number, inner)]


@reads(While)
def loop_reads(at: Context, ins: Instruction, op: While, leaf: int) -> Iterator[Flow]:
    """Yield the dependences of leaf `leaf` of a loop's final state on its initial state."""
    condition, body = ins.calls
    types = at.leaves(ins.type)
    if _is_returned_unchanged(at, ins, leaf):
        yield Flow(*_initial_leaf(at, ins, leaf), None)
        return
    closure = Closure(at, types, leaf)
    # The number of iterations decides every element, so the leaf depends on all that the
    # condition reads, in every iteration.
    decides = at.interner.every_element(types[leaf], at.leaves(condition.root.type)[0])
    for flow in _state_dependences(at, ins, condition, 0):
        closure.extend([decides], flow)
    closure.close(lambda i: _state_dependences(at, ins, body, i))
    for i in sorted(closure.found):
        yield Flow(*_initial_leaf(at, ins, i), _found_accesses(at, ins, leaf, i, closure))
    for (source, i), found in closure.outside.items():
        yield Flow(source, i, closure.accesses(found))


@writes(While)
def loop_writes(
    at: Context, ins: Instruction, op: While, operand: int, leaf: int
) -> Iterator[Flow]:
    """Yield the dependences of all leaves of a loop's final state on one operand leaf."""
    condition, body = ins.calls
    types = at.leaves(ins.type)
    start = at.starts(ins)[operand] + leaf
    closure = Closure(at, types, start, forward=True)
    closure.close(lambda i: _root_dependences(at, ins, body, i))
    decided = at.leaves(condition.root.type)[0]
    deciding = closure.decide(lambda i: _root_dependences(at, ins, condition, i), decided)
    for i in range(len(types)) if deciding else sorted(closure.found):
        if _is_returned_unchanged(at, ins, i):
            if i == start:
                yield Flow(operand, i, None)
            continue
        # If the condition depends on the start, so do all elements of every leaf. That contains
        # the accesses through the body on the own device, but not those to other devices.
        every = composed(
            at.interner, deciding, [at.interner.every_element(decided, types[i])], forward=True
        )
        found = dict.fromkeys(every)
        whole = at.interner.every_element(types[start], types[i])
        has_all = any(not access.via and access.map == whole.map for access in every)
        inner = closure.found.get(i, {})
        found |= dict.fromkeys([a for a in inner if a.via or not has_all])
        if found:
            is_alone = found.keys() == inner.keys()
            known = (
                _found_accesses(at, ins, start, i, closure) if is_alone else closure.accesses(found)
            )
            yield Flow(operand, i, known)


def _found_accesses(
    at: Context, ins: Instruction, start: int, i: int, closure: Closure
) -> Accesses:
    """Return the accesses found between leaf `start` and leaf `i` of the loop's state.

    They are exact if iterations do not matter. After no iteration an element is its initial value.
    If the body reads each element of a leaf exactly at its own index, so does any number of
    iterations.  If no other access of the leaf was found, the identity is the exact relation.
    """
    found = closure.found[i]
    identity = at.interner.identity(at.leaves(ins.type)[i])
    if i != start or any(access is not identity for access in found):
        return closure.accesses(found)
    for flow in _state_dependences(at, ins, ins.calls[1], i):
        if isinstance(flow.operand, int) and flow.leaf == i:
            kept = flow.accesses
            if kept is None or (len(kept) == 1 and kept[0] is identity):
                return (identity,)
    return closure.accesses(found)


def _is_returned_unchanged(at: Context, ins: Instruction, leaf: int) -> bool:
    """Does the loop's body return leaf `leaf` of its parameter unchanged?"""
    number, inner = _initial_leaf(at, ins, leaf)
    return is_returned_unchanged(at, ins.calls[1], number, inner, leaf)


def _over_iterations(access: Access) -> Access:
    """Return the access with precision `OVER` instead of `EXACT`.

    The constant `REASON`, which is about loops, is added to its reason.
    """
    precision = Precision.OVER if access.precision is Precision.EXACT else access.precision
    return replace(access, precision=precision, reason=join_reasons(access.reason, REASON))
