"""Traversals of a graph that compose accesses along the way, each instruction once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from hloscope.fusion.access_interner import AccessInterner, AccessSet
from hloscope.fusion.overapproximate import contains_all, hull, simpler, with_runs
from hloscope.indexing import Access, Accesses
from hloscope.ir import Instruction, Type

COMPRESS_AT: Final = 64
"""With more accesses to one value, one that contains all others is searched, and runs merged."""
WIDEN_AT: Final = 256
"""With more accesses to one value, they are replaced by one superset."""

Found: TypeAlias = dict[Instruction, dict[int, AccessSet]]
"""Accesses from the start of the traversal to each value, by leaf."""


class Flow(NamedTuple):
    """A dependence between a leaf of an instruction's value and a leaf of one of its operands."""

    operand: int | Instruction
    """Number of the operand, or the value that a region captures."""
    leaf: int
    """Leaf of the operand towards the producers, of the value itself towards the users."""
    accesses: Accesses | None
    """`None` for the identity."""


def composed(
    interner: AccessInterner,
    accesses: Iterable[Access],
    further: Iterable[Access],
    *,
    forward: bool = False,
) -> list[Access]:
    """Return all compositions of two sets of accesses that are not empty.

    With `forward` the accesses lead to the outputs.
    """
    compose = interner.compose
    return [
        both
        for first in accesses
        for second in further
        if (both := compose(first, second, forward=forward)) is not None
    ]


def as_set(accesses: Iterable[Access]) -> AccessSet:
    """Return interned accesses as a set, in order."""
    return {id(access): access for access in accesses}


def with_accesses(
    interner: AccessInterner, known: AccessSet, accesses: Iterable[Access], type: Type
) -> AccessSet:
    """Return the set with more accesses to a value of this type, or a superset if it is too large.

    `known` may be changed.
    """
    for access in accesses:
        if id(access) not in interner.small:
            access = interner.changed(access, type, simpler)
        known[id(access)] = access
    # From exact to coarse: one access that covers all, then runs merged to ranges; only a set that
    # is still too large becomes one superset.
    if len(known) > COMPRESS_AT:
        fewer = contains_all(known.values(), type)
        if fewer is None:
            runs = with_runs([*known.values()])
            if len(runs) < len(known):
                known = as_set(interner.keep_all(runs))
        if fewer is None and len(known) > WIDEN_AT:
            reason = f"touched in more than {WIDEN_AT} ways"
            fewer = interner.keep_all(hull(known.values(), type, reason))
        if fewer is not None:
            return as_set(fewer)
    return known


class Walk:
    """A traversal, and the accesses that it has found so far."""

    def __init__(
        self,
        interner: AccessInterner,
        leaves: Callable[[Type], tuple[Type, ...]],
        end: Type | None = None,
    ) -> None:
        self.found: Found = {}
        self._interner = interner
        self._small = interner.small
        self._leaves = leaves
        self._end = end  # type of the target of all maps; `None`: the value found

    def begin(self, ins: Instruction, leaf: int) -> None:
        """Start at a leaf of a value, with the identity access."""
        identity = self._interner.identity(self._leaves(ins.type)[leaf])
        self.add(ins, leaf, {id(identity): identity})

    def add(self, ins: Instruction, leaf: int, accesses: AccessSet) -> bool:
        """Record accesses to a leaf of a value; return whether the value is new."""
        leaves = self.found.get(ins)
        is_new = leaves is None
        if leaves is None:
            leaves = self.found[ins] = {leaf: accesses}
        else:
            known = leaves.get(leaf)
            if known is accesses:
                return False
            # Values share their sets, so a set is replaced, never changed.
            leaves[leaf] = accesses = accesses if known is None else known | accesses
        if len(accesses) > COMPRESS_AT or not self._small.issuperset(accesses):
            type = self._end or self._leaves(ins.type)[leaf]
            leaves[leaf] = with_accesses(self._interner, {}, accesses.values(), type)
        return is_new

    def through(
        self, accesses: AccessSet, further: Iterable[Access] | None, *, forward: bool = False
    ) -> AccessSet:
        """Return all non-empty compositions of two sets of accesses; `None` is the identity.

        With `forward` the accesses lead to the outputs.
        """
        if further is None:
            return accesses
        compose = self._interner.compose
        found: AccessSet = {}
        for first in accesses.values():
            for second in further:
                both = compose(first, second, forward=forward)
                if both is not None:
                    found[id(both)] = both
        return found

    def to_producers(
        self,
        position: Callable[[Instruction], int | None],
        reads: Callable[[Instruction, int], Iterable[Flow]],
    ) -> None:
        """Extend the accesses found so far to everything that these values read.

        Consumers come before producers, and each instruction once, when the accesses of all its
        users are known.  So the work is linear in the number of instructions and distinct maps.

        Args:
            position: Position of an instruction in the order of definition; `None` for instructions
                where the traversal ends.
            reads: Returns the dependences of leaf `i` of an instruction.
        """
        waiting = {-at: v for v in self.found if (at := position(v)) is not None}
        # A heap by negative position visits the latest definition first. All users of an
        # instruction come later in the order, so its accesses are complete when it is visited.
        heap = sorted(waiting)
        found, small, add, through = self.found, self._small, self.add, self.through
        # The last set that was checked to be small. Most values share one set, so the check of
        # the next value is one comparison of identities.
        fit: AccessSet = {}
        while heap:
            ins = waiting[heappop(heap)]
            operands = ins.operands
            for leaf, accesses in found[ins].items():
                for operand, source, further in reads(ins, leaf):
                    target = operands[operand] if isinstance(operand, int) else operand
                    known = found.get(target)
                    if known is not None:
                        touched = accesses if further is None else through(accesses, further)
                        if touched and known.get(source) is not touched:
                            add(target, source, touched)
                        continue
                    at = position(target)
                    touched = accesses if further is None else through(accesses, further)
                    if touched is fit or (
                        len(touched) <= COMPRESS_AT and small.issuperset(touched)
                    ):
                        if not touched:
                            continue
                        found[target] = {source: touched}
                        fit = touched
                    else:
                        add(target, source, touched)
                    if at is not None:
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
            places: Returns the operands and leaves that leaf `i` of an instruction may read.
            writes: Returns the dependences on leaf `j` of operand `k` of an instruction.
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
                        reached = self.through(
                            as_set(accesses), tuple(reached.values()), forward=True
                        )
                    if not reached or not self.add(target, source, reached):
                        continue
                    if (at := position(target)) is not None:
                        heappush(heap, (-at, target))

    def to_users(
        self,
        users: Users,
        writes: Callable[[Instruction, int | Instruction, int], Iterable[Flow]],
    ) -> None:
        """Extend the accesses found so far to the values that read them.

        Definitions come before uses, and only instructions that read a value found are visited.

        Args:
            users: The instructions to visit.
            writes: Returns the dependences on leaf `j` of operand `k` of an instruction.
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
                        touched = self.through(leaves[leaf], further, forward=True)
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
        part: Returns the leaves that an instruction takes from its only operand, or `None`.
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
        """Return the value with this number among the operands and captured values.

        It is preceded by the operand number, or by the value itself if it is captured.
        """
        if number < len(ins.operands):
            return number, ins.operands[number]
        value = self._captured(ins)[number - len(ins.operands)]
        return value, value

    def of(self, value: Instruction, leaves: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the users of the leaves: position of the user, and number of the value in it."""
        yield from self._of_all.get(value, ())
        for leaf in leaves:
            yield from self._of_leaf.get((value, leaf), ())

    def taken(self, ins: Instruction, leaves: Collection[int]) -> Sequence[int]:
        """Return those of the leaves, in order, that an instruction may read."""
        part = self._part(ins)
        if part is None or len(leaves) < len(part):
            return [*leaves]
        some = [leaf for leaf in part if leaf in leaves]
        return some if len(some) < 2 else [leaf for leaf in leaves if leaf in part]
