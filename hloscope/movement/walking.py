"""Walks from the last op of some data movement to what it is made of.

Layers of a program are alike.  So what lies around an op is told without names (`_Around`), and of
the walks from ops with equal surroundings one is made; the others are it with other values.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.errors import TooLargeError
from hloscope.fusion import Numbering
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.movement.flow import JOINS, Flow, computes, may_move, moves, step_maps
from hloscope.walks import needed_first

MOST_VALUES: Final = 128
"""Values of one chain; where there are more, it ends there."""
MOST_COMPUTED: Final = 8
"""Element-wise ops of several arrays in one chain."""


class Arrival(NamedTuple):
    """A value, and which of its elements stands at an index of the sink."""

    value: Instruction
    map: IndexingMap


class Leaf(Struct, frozen=True):
    """What a chain is made of: a value, and where its elements go.

    Attributes:
        value: The value.
        maps: From an index of the sink to that of the element; several where parts are joined.
        via: The ops between the value and the sink on one way, the first one reads the value.
    """

    value: Instruction
    maps: tuple[IndexingMap, ...]
    via: tuple[Instruction, ...]

    @property
    def type(self) -> TensorType:
        """The type of the value."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def is_uniform(self) -> bool:
        """Is it one element that stands everywhere?"""
        return self.type.rank == 0


@lru_cache(maxsize=1 << 11)
def composed(first: IndexingMap, second: IndexingMap) -> IndexingMap | None:
    """Apply `first`, then `second`; simplified.  `None`: its numbers do not fit into 64 bits."""
    try:
        return first.compose(second).simplify()
    except TooLargeError:
        return None


class Role(Enum):
    """What an op does to the elements that come to it."""

    MOVED = "moved"
    """It only moves them."""
    ALONE = "computed alone"
    """It computes on one array, and on single elements."""
    SEVERAL = "computed together"
    """It computes on several arrays."""
    MADE = "made"
    """Something else: a chain begins with its value."""


class Seen(NamedTuple):
    """What a walk asks of a value.

    Attributes:
        number: Equal for values of which a walk is told the same, but for what they read.
        role: What the op does.
        sources: The values it reads; not told of those that are made.
    """

    number: int
    role: Role
    sources: tuple[Instruction, ...]


class _Kind(NamedTuple):
    """What follows of a value from its op and the types.

    Attributes:
        made: What a walk sees if a chain begins with it.
        role: What the op does; `ALONE`, if it computes on one array or on several.
        number: Of all that the value is in this role, but what it reads.
        several: The same where it computes on several.
    """

    made: Seen
    role: Role
    number: int
    several: int


class Around(NamedTuple):
    """What lies around a sink.

    Attributes:
        key: Where it is equal, walks from the sinks are equal, with values in equal places.
        values: The values in their places, the sink first.
        opened: Those of them that what they read is told of.
    """

    key: tuple[int, ...]
    values: list[Instruction]
    opened: list[Instruction]


class Surroundings:
    """What lies around values of a module, each value looked at once."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._seen: Final[dict[Instruction, Seen]] = {}
        self._number: Final = Numbering()
        self._numbers: Final[dict[object, int]] = {}
        self._kinds: Final[dict[tuple[int, ...], tuple[Instruction, _Kind]]] = {}

    def moves(self, value: Instruction) -> bool:
        """Does it only move elements?  Its value is no other's then."""
        if not may_move(type(value.op)) or value in self._flow.opaque:
            return False
        return self._kind_of(value).role is Role.MOVED

    def seen(self, value: Instruction) -> Seen:
        """What a walk asks of a value."""
        known = self._seen.get(value)
        if known is None:
            known = self._seen[value] = self._look_at(value)
        return known

    def _look_at(self, value: Instruction) -> Seen:
        if value in self._flow.opaque:
            return Seen(self._same(self._number(value.type)), Role.MADE, ())
        made, role, number, several = self._kind_of(value)
        if role is Role.MADE:
            return made
        source = self._flow.source
        sources = tuple([source(operand) for operand in value.operands])
        if role is Role.ALONE and len(sources) > 1 and self._are_several(sources):
            return Seen(several, Role.SEVERAL, sources)
        return Seen(number, role, sources)

    def _kind_of(self, value: Instruction) -> _Kind:
        """What follows from op and types, which a module keeps alive: found by identity."""
        if value.calls:
            return self._found_kind(value)
        key = id(value.op), id(value.type), *[id(operand.type) for operand in value.operands]
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = value, self._found_kind(value)
        return known[1]

    def _found_kind(self, value: Instruction) -> _Kind:
        number = self._number
        made = self._same(number(value.type))
        seen = Seen(made, Role.MADE, ())
        if moves(value):
            role = Role.MOVED
        elif computes(value):
            role = Role.ALONE
        else:
            return _Kind(seen, Role.MADE, made, made)
        types = [number(operand.type) for operand in value.operands]
        facts = number(value.op), number(value.type), value.calls, *types
        return _Kind(seen, role, self._same(role, *facts), self._same(Role.SEVERAL, *facts))

    def _are_several(self, sources: tuple[Instruction, ...]) -> bool:
        """Is more than one of the values no single element?"""
        first: Instruction | None = None
        for value in sources:
            if value is not first and not is_single(self._flow, value):
                if first is not None:
                    return True
                first = value
        return False

    def _same(self, *facts: object) -> int:
        return self._numbers.setdefault(facts, len(self._numbers))

    def of(self, sink: Instruction, through_sums: bool) -> Around:
        """What lies around a sink that moves elements, as far as a walk may go."""
        places = {sink: 0}
        values, opened = [sink], []
        key = [int(through_sums)]
        known, made, several = self._seen, Role.MADE, Role.SEVERAL
        computed, count = 0, 1
        for value in values:
            number, role, sources = known.get(value) or self.seen(value)
            key.append(number)
            if role is several:
                computed += 1
                if not through_sums or computed > MOST_COMPUTED:
                    continue
            if role is made or count > 1 + MOST_VALUES:
                continue
            opened.append(value)
            for source in sources:
                place = places.get(source)
                if place is None:
                    place = places[source] = count
                    values.append(source)
                    count += 1
                key.append(~place)  # less than 0, as no number is
        return Around(tuple(key), values, opened)


class Walk:
    """From a sink to the leaves.

    Attributes:
        leaves: The values that the chain begins with.
        steps: The ops, those that are read before those that read them; the sink is the last.
        read: What the op at an arrival reads for the same index of the sink.
        is_cut: Were there too many values?
    """

    def __init__(
        self,
        flow: Flow,
        sink: Instruction,
        surroundings: Surroundings,
        through_sums: bool,
        through_ops: bool = True,
    ) -> None:
        """Walk from a sink.

        Args:
            flow: The values of a module.
            sink: The last op.
            surroundings: What lies around values.
            through_sums: Go on behind ops that compute on several arrays.
            through_ops: Go on behind ops that compute on one array.
        """
        self.flow = flow
        self._seen = surroundings.seen
        self.through_sums = through_sums
        self._through_ops = through_ops
        self.is_cut = False
        self.read: dict[Arrival, tuple[Arrival, ...]] = {}
        self._joined: set[Arrival] = set()
        self._next: dict[Instruction, Instruction] = {}
        self._reached: dict[Instruction, list[IndexingMap]] = {}
        self._computed = 0
        assert isinstance(sink.type, TensorType)
        first = Arrival(sink, IndexingMap.identity(sink.type.shape))
        seen = {first: None}
        todo = [first]
        for at in todo:
            for following in self._operands(at, sink):
                if at in self._joined or isinstance(at.value.op, JOINS):
                    self._joined.add(following)
                if following not in seen:
                    seen[following] = None
                    self._next.setdefault(following.value, at.value)
                    todo.append(following)
        inner = {at.value for at in seen} - set(self._reached)
        self.steps = tuple(_in_order(flow, sink, inner))
        self.leaves = tuple(
            [Leaf(v, tuple(maps), tuple(self._way(v, sink))) for v, maps in self._reached.items()]
        )

    def _operands(self, at: Arrival, sink: Instruction) -> tuple[Arrival, ...]:
        """The values that are read at an arrival, none if it is a leaf."""
        value = at.value
        found = self._opened(at) if value is sink or self._is_inside(at) else None
        if found is None:
            self._reached.setdefault(value, []).append(at.map)
            return ()
        self.read[at] = found
        return found

    def _is_inside(self, at: Arrival) -> bool:
        if len(self._next) > MOST_VALUES:
            self.is_cut = True
            return False
        role = self._seen(at.value).role
        if role is Role.MOVED:
            return True
        if role is Role.MADE or at in self._joined:
            return False
        if role is Role.ALONE:
            return self._through_ops
        self._computed += 1
        return self.through_sums and self._computed <= MOST_COMPUTED

    def _opened(self, at: Arrival) -> tuple[Arrival, ...] | None:
        found: list[Arrival] = []
        for operand, maps in zip(at.value.operands, step_maps(at.value), strict=True):
            if maps is None:
                return None
            value = self.flow.source(operand)
            for m in maps:
                both = composed(at.map, m)
                if both is None:
                    return None
                if not both.is_known_empty:
                    found.append(Arrival(value, both))
        return tuple(found)

    def _way(self, value: Instruction, sink: Instruction) -> Iterator[Instruction]:
        """The ops from a leaf to the sink."""
        while value is not sink:
            value = self._next[value]
            yield value


def is_single(flow: Flow, value: Instruction) -> bool:
    """Is it one element, or a broadcast of one?"""
    return hops_to_single(flow, value) is not None


def hops_to_single(flow: Flow, value: Instruction) -> int | None:
    """How many broadcasts lie between a value and the one element that it is, if it is one."""
    for hops in range(MOST_VALUES):
        if isinstance(value.type, TensorType) and value.type.rank == 0:
            return hops
        if value.op.name != "broadcast_in_dim":
            return None
        value = flow.source(value.operands[0])
    return None


def _in_order(flow: Flow, sink: Instruction, inside: set[Instruction]) -> Iterator[Instruction]:
    """The ops inside, those that are read first."""

    def read(op: Instruction) -> list[Instruction]:
        return [v for v in map(flow.source, op.operands) if v in inside]

    return needed_first([sink], read)
