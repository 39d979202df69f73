"""One pass over a graph, which carries the accesses of every value reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from hloscope.fusion.access_interner import AccessSet, Pool
from hloscope.fusion.overapproximate import contains_all, hull, simpler, with_runs
from hloscope.indexing import Access, Accesses
from hloscope.ir import Instruction, Type

COMPRESS_AT: Final = 64
"""A value reached by more maps is searched for one that contains all others, and for runs."""
WIDEN_AT: Final = 256
"""The maps of a value reached by more of them become one."""

Found: TypeAlias = dict[Instruction, dict[int, AccessSet]]
"""For each value reached and each of its leaves: the accesses from where the walk began."""


class Flow(NamedTuple):
    """What a leaf of an instruction's value has to do with a leaf of one of its operands."""

    operand: int | Instruction
    """Number of the operand; the value itself where a region reads it without being handed it."""
    leaf: int
    """Of the operand in a walk to the producers, of the own value in a walk to the users."""
    accesses: Accesses | None
    """`None`: the same elements, as they are."""


def composed(
    pool: Pool, accesses: Iterable[Access], further: Iterable[Access], *, forward: bool = False
) -> list[Access]:
    """All compositions of two sets of accesses; `forward`: they lead to the outputs."""
    compose = pool.compose
    return [
        both
        for first in accesses
        for second in further
        if (both := compose(first, second, forward=forward)) is not None
    ]


def as_set(accesses: Iterable[Access]) -> AccessSet:
    """Distinct accesses of a pool, in order."""
    return {id(access): access for access in accesses}


def with_accesses(
    pool: Pool, known: AccessSet, accesses: Iterable[Access], type: Type
) -> AccessSet:
    """The set with more accesses of a value of this type; a superset where it grows too large."""
    for access in accesses:
        if id(access) not in pool.small:
            access = pool.changed(access, type, simpler)
        known[id(access)] = access
    if len(known) > COMPRESS_AT:
        fewer = contains_all(known.values(), type)
        if fewer is None:
            runs = with_runs([*known.values()])
            if len(runs) < len(known):
                known = as_set(pool.keep_all(runs))
        if fewer is None and len(known) > WIDEN_AT:
            reason = f"touched in more than {WIDEN_AT} ways"
            fewer = pool.keep_all(hull(known.values(), type, reason))
        if fewer is not None:
            return as_set(fewer)
    return known


class Walk:
    """What a walk has found so far."""

    def __init__(
        self, pool: Pool, leaves: Callable[[Type], tuple[Type, ...]], end: Type | None = None
    ) -> None:
        self.found: Found = {}
        self._pool = pool
        self._small = pool.small
        self._leaves = leaves
        self._end = end  # the type all maps lead to; `None` where they lead to the value reached

    def begin(self, ins: Instruction, leaf: int) -> None:
        """Start at a leaf of a value: each of its elements is reached from itself."""
        identity = self._pool.identity(self._leaves(ins.type)[leaf])
        self.add(ins, leaf, {id(identity): identity})

    def add(self, ins: Instruction, leaf: int, accesses: AccessSet) -> bool:
        """Record that the value is reached; true if it had not been before."""
        leaves = self.found.get(ins)
        is_new = leaves is None
        if leaves is None:
            leaves = self.found[ins] = {leaf: accesses}
        else:
            known = leaves.get(leaf)
            if known is accesses:
                return False
            # Values share their sets, so no set is changed.
            leaves[leaf] = accesses = accesses if known is None else known | accesses
        if len(accesses) > COMPRESS_AT or not self._small.issuperset(accesses):
            type = self._end or self._leaves(ins.type)[leaf]
            leaves[leaf] = with_accesses(self._pool, {}, accesses.values(), type)
        return is_new

    def through(
        self, accesses: AccessSet, further: Iterable[Access] | None, *, forward: bool = False
    ) -> AccessSet:
        """All compositions of two sets of accesses; `forward`: they lead to the outputs."""
        if further is None:
            return accesses
        compose = self._pool.compose
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
        """Go on from everything found so far to what it reads.

        Consumers come first and each instruction once, when the maps of all its users are known:
        the work is linear in the number of instructions and different maps.

        Args:
            position: Place of an instruction in the order of definition; `None` for those where
                the walk ends.
            reads: What leaf `i` of an instruction reads.
        """
        waiting = {-at: v for v in self.found if (at := position(v)) is not None}
        heap = sorted(waiting)
        found, small, add, through = self.found, self._small, self.add, self.through
        fit: AccessSet = {}  # the last set that was found to be small: most values share it
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
        """Go on from everything found so far to the values that reach it.

        The maps lead from each of these to where the walk began.  One such walk answers for all
        parameters of a computation what they reach.

        Args:
            position: Place of an instruction in the order of definition; `None` for those where
                the walk ends.
            places: The operands, and the leaves of them, that leaf `i` of an instruction may read.
            writes: What leaf `j` of operand `k` of an instruction reaches.
            through: The values that are of interest; all, unless given.
        """
        heap: list[tuple[int, Instruction]] = []
        for ins in self.found:
            if (at := position(ins)) is not None:
                heappush(heap, (-at, ins))
        while heap:
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
        """Go on from everything found so far to the values that read it.

        Definitions come before uses, and only those are looked at that read something found.

        Args:
            users: The instructions to go on to.
            writes: What leaf `j` of operand `k` of an instruction reaches.
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
            reached = [ins] if ins in found else []  # nothing of what it reads may reach it


class Users:
    """Which instructions read a leaf of a value, by their places in a list of instructions.

    Of a tuple of a thousand leaves each is taken out by an instruction of its own: a walk that has
    reached one of the leaves does not look at the others.

    Args:
        order: The instructions, definitions before uses.
        captured: Values that the regions of an instruction read without being handed them.
        part: The leaves of its only operand that an instruction takes out; `None` if not a part.
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
        """A value that an instruction reads: the number of the operand, or itself if captured."""
        if number < len(ins.operands):
            return number, ins.operands[number]
        value = self._captured(ins)[number - len(ins.operands)]
        return value, value

    def of(self, value: Instruction, leaves: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Those that may read one of these leaves of a value: their places, and as what it is."""
        yield from self._of_all.get(value, ())
        for leaf in leaves:
            yield from self._of_leaf.get((value, leaf), ())

    def taken(self, ins: Instruction, leaves: Collection[int]) -> Sequence[int]:
        """Those of the leaves, in order, that an instruction may read."""
        part = self._part(ins)
        if part is None or len(leaves) < len(part):
            return [*leaves]
        some = [leaf for leaf in part if leaf in leaves]
        return some if len(some) < 2 else [leaf for leaf in leaves if leaf in part]
