"""Traversals of a graph that compose accesses step by step and visit each instruction once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from hloscope.fusion.access_interner import AccessInterner, AccessSet
from hloscope.fusion.overapproximate import contains_all, hull, is_large, simpler, with_runs
from hloscope.indexing import Access, Accesses
from hloscope.ir import Instruction, Type

COMPRESS_AT: Final = 64
"""Number of accesses to one value above which they are reduced.

An access that contains all others replaces them, or consecutive ones are merged.
"""
WIDEN_AT: Final = 256
"""Number of accesses to one value above which one superset replaces them."""

Found: TypeAlias = dict[Instruction, dict[int, AccessSet]]
"""Accesses from the start of the traversal to each value, by leaf."""


class Flow(NamedTuple):
    """A dependence between a leaf of an instruction's value and a leaf of one of its operands."""

    operand: int | Instruction
    """Number of the operand, or the captured value itself if a region reads it."""
    leaf: int
    """Leaf of the operand in traversals to producers, of the value in traversals to users."""
    accesses: Accesses | None
    """The accesses from leaf to leaf in the direction of traversal; `None` is the identity."""


def composed(
    interner: AccessInterner,
    accesses: Iterable[Access],
    further: Iterable[Access],
    *,
    forward: bool = False,
) -> list[Access]:
    """Return all compositions of an access of each set that are not empty.

    With `forward` the accesses lead towards users.
    """
    compose = interner.compose
    return [
        both
        for first in accesses
        for second in further
        if (both := compose(first, second, forward=forward)) is not None
    ]


def with_accesses(
    interner: AccessInterner, known: AccessSet, accesses: Iterable[Access], type: Type
) -> AccessSet:
    """Return the set with more accesses to a value of this type.

    It is a superset if the set is too large. `known` may be changed in place.
    """
    for access in accesses:
        known[interner.keep(simpler(access, type)) if is_large(access) else access] = None
    # From exact to coarse: one access that covers all, then runs merged to ranges; only a set that
    # is still too large becomes one superset.
    if len(known) > COMPRESS_AT:
        fewer = contains_all(known, type)
        if fewer is None:
            runs = with_runs([*known])
            if len(runs) < len(known):
                known = dict.fromkeys(interner.keep_all(runs))
        if fewer is None and len(known) > WIDEN_AT:
            reason = f"touched in more than {WIDEN_AT} ways"
            fewer = interner.keep_all(hull(known, type, reason))
        if fewer is not None:
            return dict.fromkeys(fewer)
    return known


class Walk:
    """A traversal, and the accesses that it has found so far.

    Args:
        interner: Composes the accesses.
        leaves: Returns the types of the leaves of a type.
        end: Type of the tensor that all maps lead to; by default they lead to each value found.
    """

    def __init__(
        self,
        interner: AccessInterner,
        leaves: Callable[[Type], tuple[Type, ...]],
        end: Type | None = None,
    ) -> None:
        self.found: Found = {}
        self._interner, self._leaves, self._end = interner, leaves, end

    def begin(self, ins: Instruction, leaf: int) -> None:
        """Start the traversal at a leaf of the value of `ins`, with the identity access."""
        self.add(ins, leaf, {self._interner.identity(self._leaves(ins.type)[leaf]): None})

    def add(self, ins: Instruction, leaf: int, accesses: AccessSet) -> bool:
        """Record accesses to a leaf of a value; return whether the value was not found before."""
        leaves = self.found.get(ins)
        if leaves is None:
            self.found[ins] = {leaf: accesses}
            return True
        known = leaves.get(leaf, accesses)
        # Values share their sets, so a set is replaced, never changed.
        both = known if known is accesses else known | accesses
        leaves[leaf] = both if len(both) <= COMPRESS_AT else self._limited(ins, leaf, both)
        return False

    def _limited(self, ins: Instruction, leaf: int, accesses: AccessSet) -> AccessSet:
        """Return the accesses; if they are many or large, fewer ones that reach a superset."""
        if len(accesses) <= COMPRESS_AT and not any(map(is_large, accesses)):
            return accesses
        type = self._end or self._leaves(ins.type)[leaf]
        return with_accesses(self._interner, {}, accesses, type)

    def through(
        self, accesses: Iterable[Access], further: Iterable[Access], *, forward: bool = False
    ) -> AccessSet:
        """Return all compositions of an access of each set that are not empty, as a set.

        With `forward` the accesses lead towards users.
        """
        return dict.fromkeys(composed(self._interner, accesses, further, forward=forward))

    def to_producers(
        self,
        position: Callable[[Instruction], int | None],
        reads: Callable[[Instruction, int], Iterable[Flow]],
    ) -> None:
        """Extend the accesses found so far to all producers that these values depend on.

        Consumers are visited before producers, and each instruction once, when the accesses of all
        its users are known.  So the work is linear in the number of instructions and distinct maps.

        Args:
            position: Position of an instruction in the order of definition; `None` for instructions
                where the traversal ends.
            reads: Returns the dependences of a leaf of an instruction on its operands.
        """
        waiting = {-at: v for v in self.found if (at := position(v)) is not None}
        # A heap by negative position visits the latest definition first. All users of an
        # instruction come later in the order, so its accesses are complete when it is visited.
        heap = sorted(waiting)
        while heap:
            ins = waiting[heappop(heap)]
            for leaf, accesses in self.found[ins].items():
                for operand, source, further in reads(ins, leaf):
                    target = ins.operands[operand] if isinstance(operand, int) else operand
                    # An unchanged value shares the set of its users.
                    reached = accesses
                    if further is not None:
                        reached = self._limited(target, source, self.through(accesses, further))
                    if not reached or not self.add(target, source, reached):
                        continue
                    if (at := position(target)) is not None:
                        waiting[-at] = target
                        heappush(heap, -at)

    def from_producers(
        self,
        position: Callable[[Instruction], int | None],
        places: Callable[[Instruction, int], Iterable[tuple[int | Instruction, int]]],
        writes: Callable[[Instruction, int | Instruction, int], Iterable[Flow]],
        through: Container[Instruction] | None = None,
    ) -> None:
        """Extend the accesses found so far to the values on which they depend.

        The maps lead from each of these values to the start of the traversal, so that one traversal
        gives the accesses of all parameters of a computation.

        Args:
            position: Position of an instruction in the order of definition; `None` for instructions
                where the traversal ends.
            places: Returns the operands and their leaves that a leaf of an instruction may read.
            writes: Returns the dependences of an instruction's leaves on a leaf of an operand.
            through: The values to visit; all if `None`.
        """
        heap: list[tuple[int, Instruction]] = []
        for ins in self.found:
            if (at := position(ins)) is not None:
                heappush(heap, (-at, ins))
        while heap:
            # As in `to_producers`: latest definition first, so the maps of `ins` to the start are
            # complete.
            _, ins = heappop(heap)
            ends = self.found[ins]
            sources = dict.fromkeys([place for leaf in ends for place in places(ins, leaf)])
            for operand, source in sources:
                target = ins.operands[operand] if isinstance(operand, int) else operand
                if through is not None and target not in through:
                    continue
                for _, leaf, accesses in writes(ins, operand, source):
                    if leaf not in ends:
                        continue
                    reached = ends[leaf]
                    if accesses is not None:
                        reached = self.through(accesses, reached, forward=True)
                        reached = self._limited(target, source, reached)
                    if not reached or not self.add(target, source, reached):
                        continue
                    if (at := position(target)) is not None:
                        heappush(heap, (-at, target))

    def to_users(
        self,
        users: Users,
        writes: Callable[[Instruction, int | Instruction, int], Iterable[Flow]],
    ) -> None:
        """Extend the accesses found so far to all users that depend on these values.

        Definitions are visited before uses, and only instructions that read a value found.

        Args:
            users: The instructions to visit.
            writes: Returns the dependences of an instruction's leaves on a leaf of an operand.
        """
        found = self.found
        heap: list[int] = []
        waiting: dict[int, set[int]] = {}
        reached = [*found]
        while True:
            for value in reached:
                for at, number in users.of(value, found.get(value, ())):
                    if at not in waiting:
                        waiting[at] = set()
                        heappush(heap, at)
                    waiting[at].add(number)
            if not heap:
                return
            # The earliest waiting instruction: all its operands are complete, since they are
            # defined before it.
            at = heappop(heap)
            ins = users.order[at]
            for number in sorted(waiting[at]):
                k, value = users.value(ins, number)
                leaves = found[value]
                for leaf in users.taken(ins, leaves):
                    for _, target, further in writes(ins, k, leaf):
                        touched = leaves[leaf]
                        if further is not None:
                            touched = self.through(touched, further, forward=True)
                            touched = self._limited(ins, target, touched)
                        if touched:
                            self.add(ins, target, touched)
            reached = [ins] if ins in found else []  # it may depend on none of the leaves found


class Users:
    """Users of each leaf of a value, as positions in a list of instructions.

    A tuple of a thousand leaves has a thousand `get-tuple-element` users.  A traversal that has
    found one leaf visits the users of that leaf alone.

    Args:
        order: The instructions, definitions before uses.
        captured: Returns the values that the regions of an instruction capture.
        part: Returns the leaves that an instruction selects from its only operand; `None` if it may
            read all leaves.
    """

    def __init__(
        self,
        order: Sequence[Instruction],
        captured: Callable[[Instruction], Sequence[Instruction]],
        part: Callable[[Instruction], range | None],
    ) -> None:
        self.order: Final = order
        self._captured, self._part = captured, part
        self._of_all: dict[Instruction, list[tuple[int, int]]] = {}
        self._of_leaf: dict[tuple[Instruction, int], list[tuple[int, int]]] = {}
        for at, ins in enumerate(order):
            leaves = part(ins)
            if leaves is None:
                for number, value in enumerate((*ins.operands, *captured(ins))):
                    self._of_all.setdefault(value, []).append((at, number))
            else:
                for leaf in leaves:
                    self._of_leaf.setdefault((ins.operands[0], leaf), []).append((at, 0))

    def value(self, ins: Instruction, number: int) -> tuple[int | Instruction, Instruction]:
        """Return value number `number` among the operands and then the captured values.

        It is preceded by the operand number, or by the value itself if it is captured.
        """
        if number < len(ins.operands):
            return number, ins.operands[number]
        value = self._captured(ins)[number - len(ins.operands)]
        return value, value

    def of(self, value: Instruction, leaves: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the users of the leaves, as pairs: position of the user, number of the value in it.

        Positions are in `order`; numbers are those of `value`.
        """
        yield from self._of_all.get(value, ())
        for leaf in leaves:
            yield from self._of_leaf.get((value, leaf), ())

    def taken(self, ins: Instruction, leaves: Collection[int]) -> Sequence[int]:
        """Return the leaves in `leaves` that `ins` may read, in the order of `leaves`."""
        part = self._part(ins)
        if part is None or len(leaves) < len(part):
            return [*leaves]
        some = [leaf for leaf in part if leaf in leaves]
        return some if len(some) < 2 else [leaf for leaf in leaves if leaf in part]
