"""Interning of accesses: equal accesses are one object, and compositions are memoized."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Dim, Mod, Range, Runtime, variables
from hloscope.errors import UnsupportedError
from hloscope.fusion.overapproximate import (
    covering_all,
    hull,
    is_large,
    join_reasons,
    simpler,
    with_runs,
)
from hloscope.indexing import (
    Access,
    Accesses,
    Constraint,
    IndexingMap,
    Precision,
    bounds_to_check,
    compose_deep,
    compose_inside,
    everything_map,
    identity_map,
    is_deep,
    sizes,
)
from hloscope.ir import Dims, Instruction, Type

# --------------------------------------------------------------------------------------------------
# Interning of accesses: equal accesses are one object, and compositions are memoized.


AccessSet: TypeAlias = dict[Access, None]
"""A set of distinct accesses, in the order in which they were found; the values are `None`."""

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


class AccessInterner:
    """Intern accesses and memoize their compositions.

    Equal accesses are one object here, so that comparing them compares no maps.
    """

    def __init__(self) -> None:
        # Without it, 128 sums of shifted slices take 1.2 times as long; if identities are not found
        # by their sizes, all maps of a GPT of 48 layers take 1.8 times as long.
        self._known: dict[Access | Dims, Access] = {}
        """Interned accesses; an identity is also found by the sizes of its tensor."""
        # Without it, all maps of a cartpole rollout take 1.3 times as long.
        self._composed: dict[tuple[Access, Access, bool], Access | None] = {}

    @property
    def number_of_compositions(self) -> int:
        """Number of distinct compositions computed so far."""
        return len(self._composed)

    def intern(self, access: Access) -> Access:
        """Return the interned object that is equal to `access`, except that its `leaf` is 0.

        An access with an undefined map becomes unknown.
        """
        known = self._known.get(access)
        if known is None:
            kept = replace(access, leaf=0) if access.leaf else access
            if kept.map is not None and kept.map.is_undefined:
                kept = Access.unknown(kept.reason or "the map is undefined")
            known = self._known[access] = self._known.setdefault(kept, kept)
        return known

    def intern_all(self, accesses: Iterable[Access]) -> Accesses:
        """Return the interned accesses, without duplicates and without those with empty maps."""
        known = [a for a in accesses if a.map is None or not a.map.is_known_empty]
        return tuple(dict.fromkeys(map(self.intern, known)))

    def identity(self, type: Type) -> Access:
        """Return the access from every element of a value of `type` to itself."""
        try:
            shape = sizes(type)
        except UnsupportedError as error:
            return self.intern(Access.unknown(error.message))
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = self.intern(Access(identity_map(shape)))
        return known

    def every_element(self, here: Type, there: Type) -> Access:
        """Return the access from every element of `here` to all elements of `there`."""
        try:
            return self.intern(Access(everything_map(sizes(here), sizes(there))))
        except UnsupportedError as error:
            return self.intern(Access.unknown(error.message))

    def compose(self, first: Access, second: Access, *, forward: bool = False) -> Access | None:
        """Return the composition of `first`, then `second`; `None` if it is empty.

        Both accesses must be interned here.  The precision is the weaker of the two, and the
        reasons of both are joined.

        Args:
            first: Access from a tensor.
            second: Access from the tensor that `first` leads to.
            forward: Whether the accesses lead towards users, from operand to output elements.
        """
        key = first, second, forward
        try:
            return self._composed[key]
        except KeyError:
            both = second if _is_neutral(first, second) else compose(first, second, forward=forward)
            found = self._composed[key] = None if both is None else self.intern(both)
            return found


def _is_neutral(first: Access, second: Access) -> bool:
    """Is `first` the exact identity on the dimension bounds of `second`?

    On a smaller domain the identity restricts `second`, so the composition has to be computed.
    """
    if first.map is None or second.map is None or first.map.dims != second.map.dims:
        return False
    return first == Access(first.map) and first.map.is_identity


def compose(first: Access, second: Access, *, forward: bool = False) -> Access | None:
    """Return the composition of `first`, then `second`; `None` if it is empty.

    The precision is the weaker of the two, and the reasons of both are joined.

    Args:
        first: Access from a tensor.
        second: Access from the tensor that `first` leads to.
        forward: Whether the accesses lead towards users, from operand to output elements.

    >>> half = Access(IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 7]"))
    >>> turn = Access(IndexingMap.parse("(d0) -> (3 - d0), domain: d0 in [0, 3]"))
    >>> print(compose(half, turn).map)
    (d0) -> (-(d0 / 2) + 3), domain: d0 in [0, 7]
    """
    precision, reason = first.precision, first.reason
    if second.precision is not Precision.EXACT or second.reason:
        precision = max(precision, second.precision, key=_RANK.__getitem__)
        reason = join_reasons(reason, second.reason)
    # Precision and reasons are combined before the maps, since an unknown result keeps both
    # reasons.
    if first.map is None or second.map is None:
        return Access.unknown(reason)
    if len(first.map.results) != len(second.map.dims):
        ranks = f"rank {len(first.map.results)} meets rank {len(second.map.dims)}"
        return Access.unknown(join_reasons(reason, f"{ranks}: the program is inconsistent"))
    if first.replica is None and second.replica is None:
        bounds = bounds_to_check(first.map, second.map)
        if bounds is None:
            return None
        map = _composed(first.map, second.map, bounds)
        return None if map.is_known_empty else Access(map, precision, reason)
    both, via = indexing.compose_across(first, second, forward=forward)
    map = normal(both)
    if map.is_known_empty:
        return None
    return indexing.with_joined(Access(map, precision, reason), map, len(second.map.results), via)


def _composed(first: IndexingMap, second: IndexingMap, bounds: Sequence[Constraint]) -> IndexingMap:
    """Return the normal form of the composition: `first`, then `second`, restricted by `bounds`."""
    if is_deep(first):
        return normal(compose_deep(first, second))
    return normal(compose_inside(first, second, bounds))


def normal(map: IndexingMap) -> IndexingMap:
    """Return the simplified map, without range and runtime variables that do not matter."""
    if map.is_known_empty:
        return map
    if not map.is_simplified:
        map = map.simplify()
    if (map.ranges or map.runtime) and not _all_are_needed(map):
        # Elimination of a variable can expose others as unused, so the map is simplified again
        # only if `project_out` changed it.
        map = map.rescale_symbols().remove_unused_symbols()
        fewer = indexing.project_out(map)
        if fewer is not map:
            map = fewer.simplify().remove_unused_symbols()
    return map


def _all_are_needed(map: IndexingMap) -> bool:
    """Does every range and runtime variable occur in the results, and no constraint have `mod`?

    Then no variable can be eliminated or rescaled.
    """
    if any([type(e) is Mod for e, _ in map.constraints]):
        return False
    used = {e for e in map.results if type(e) is Range or type(e) is Runtime}
    count = len(map.ranges) + len(map.runtime)
    if len(used) < count:
        used = {v for v in variables(*map.results) if type(v) is not Dim}
    return len(used) == count


# --------------------------------------------------------------------------------------------------
# Traversals of a graph that compose accesses step by step and visit each instruction once.


COMPRESS_AT: Final = 64
"""Number of accesses to one value above which they are reduced.

An access that contains all others replaces them, or consecutive ones are merged.
"""
WIDEN_AT: Final = 256
"""Number of accesses to one value above which one superset replaces them."""

AccessesByValue: TypeAlias = dict[Instruction, dict[int, AccessSet]]
"""Accesses from the start of the traversal to each value, by the number of its leaf."""


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
    """Return the non-empty compositions of each access in `accesses` with each in `further`.

    With `forward` the accesses lead from producers to users.
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
    """Return `known` with more accesses to a value of this type.

    If the set is too large, the result has fewer accesses that cover all elements. `known` may be
    changed in place.
    """
    for access in accesses:
        known[interner.intern(simpler(access, type)) if is_large(access) else access] = None
    # From exact to coarse: one access that covers all, then runs merged to ranges; only a set that
    # is still too large becomes one superset.
    if len(known) > COMPRESS_AT:
        fewer = covering_all(known, type)
        if fewer is None:
            runs = with_runs([*known])
            if len(runs) < len(known):
                known = dict.fromkeys(interner.intern_all(runs))
        if fewer is None and len(known) > WIDEN_AT:
            reason = f"touched in more than {WIDEN_AT} ways"
            fewer = interner.intern_all(hull(known, type, reason))
        if fewer is not None:
            return dict.fromkeys(fewer)
    return known


class AccessTraversal:
    """A traversal of the graph, and the accesses from its start that it has found.

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
        self.found: AccessesByValue = {}
        self._interner, self._leaves, self._end = interner, leaves, end

    def begin(self, ins: Instruction, leaf: int) -> None:
        """Start the traversal at a leaf of the value of `ins`, with the identity access."""
        self.add(ins, leaf, {self._interner.identity(self._leaves(ins.type)[leaf]): None})

    def add(self, ins: Instruction, leaf: int, accesses: AccessSet) -> bool:
        """Record accesses to a leaf of a value; return whether the value was not found before.

        If there are too many accesses to the leaf, fewer ones that cover them are stored.
        """
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
        """Return the accesses, or fewer and smaller ones that cover them if they are too many.

        They lead to leaf `leaf` of the value of `ins`.
        """
        if len(accesses) <= COMPRESS_AT and not any(map(is_large, accesses)):
            return accesses
        type = self._end or self._leaves(ins.type)[leaf]
        return with_accesses(self._interner, {}, accesses, type)

    def through(
        self, accesses: Iterable[Access], further: Iterable[Access], *, forward: bool = False
    ) -> AccessSet:
        """Return the non-empty compositions of each access in `accesses` with each in `further`.

        The result is a set. With `forward` the accesses lead from producers to users.
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
        possible_reads: Callable[[Instruction, int], Iterable[tuple[int | Instruction, int]]],
        writes: Callable[[Instruction, int | Instruction, int], Iterable[Flow]],
        through: Container[Instruction] | None = None,
    ) -> None:
        """Extend the accesses found so far to the values on which they depend.

        The maps lead from each of these values to the start of the traversal, so that one traversal
        gives the accesses of all parameters of a computation.

        Args:
            position: Position of an instruction in the order of definition; `None` for instructions
                where the traversal ends.
            possible_reads: Returns the (operand, leaf) pairs that a leaf of an instruction may
                read.
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
            sources = dict.fromkeys([place for leaf in ends for place in possible_reads(ins, leaf)])
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
        """Extend the accesses found so far to all users that depend on the values found.

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
                for leaf in users.read_leaves(ins, leaves):
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
        """Return a pair: what identifies an operand or captured value of `ins`, and the value.

        `number` counts operands first, then captured values. An operand is identified by its
        number, a captured value by itself.
        """
        if number < len(ins.operands):
            return number, ins.operands[number]
        value = self._captured(ins)[number - len(ins.operands)]
        return value, value

    def of(self, value: Instruction, leaves: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the users of some leaves of a value, as pairs (position, number).

        `position` is the user's position in `order`; `number` is that of the value among the user's
        operands and captured values.
        """
        yield from self._of_all.get(value, ())
        for leaf in leaves:
            yield from self._of_leaf.get((value, leaf), ())

    def read_leaves(self, ins: Instruction, leaves: Collection[int]) -> Sequence[int]:
        """Return the leaves in `leaves` that `ins` may read, in the order of `leaves`."""
        part = self._part(ins)
        if part is None or len(leaves) < len(part):
            return [*leaves]
        some = [leaf for leaf in part if leaf in leaves]
        return some if len(some) < 2 else [leaf for leaf in leaves if leaf in part]
