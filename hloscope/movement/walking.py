"""Traversals from the last op of a chain of data movement to its sources.

Layers of a program repeat. So the neighbourhood of an op is described without names (see
`Neighbourhood`), and all ops with equal neighbourhoods share one traversal.
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
from hloscope.movement.flow import JOINS, MOVING, Flow, computes, moves, step_maps
from hloscope.support.walks import needed_first

MOST_VALUES: Final = 128
"""Maximum number of values of one chain."""
MOST_COMPUTED: Final = 8
"""Maximum number of element-wise ops on several arrays in one chain."""


class Arrival(NamedTuple):
    """A value that a traversal from a chain's last op, the sink, has reached by one path.

    Attributes:
        value: The value.
        map: Map from an index of the sink to the index of the element that it reads.
    """

    value: Instruction
    map: IndexingMap


class Leaf(Struct, frozen=True):
    """A source of a chain, with maps from an index of the sink.

    Attributes:
        value: The value.
        maps: Maps from an index of the sink to the index of the element; several if parts are
            joined.
        via: The ops on one path from the value to the sink; the first one reads the value.
    """

    value: Instruction
    maps: tuple[IndexingMap, ...]
    via: tuple[Instruction, ...]

    @property
    def type(self) -> TensorType:
        """Return the type of the value."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def is_uniform(self) -> bool:
        """Is the source a scalar, which is broadcast?"""
        return self.type.rank == 0


# Cached, as programs repeat layers: `cancel` of an 11 MB dump takes 1.1 × as long without it.
@lru_cache(maxsize=1 << 11)
def composed(first: IndexingMap, second: IndexingMap) -> IndexingMap | None:
    """Apply `first`, then `second`, and simplify; `None` if numbers exceed 64 bits."""
    try:
        return first.compose(second).simplify()
    except TooLargeError:
        return None


def operands_of(flow: Flow, at: Arrival) -> tuple[Arrival, ...] | None:
    """Return the operands of a reached value, each with its map from an index of the sink.

    Operands of which nothing is read are left out. `None` if a map is not known exactly, or too
    large.
    """
    found: list[Arrival] = []
    for operand, maps in zip(at.value.operands, step_maps(at.value), strict=True):
        for m in [None] if maps is None else maps:
            both = None if m is None else composed(at.map, m)
            if both is None:
                return None
            if not both.is_known_empty:
                found.append(Arrival(flow.source(operand), both))
    return tuple(found)


class Role(Enum):
    """What an op does with the elements of its operands; it decides how a traversal continues."""

    MOVED = "moved"
    """The op only moves elements."""
    ALONE = "computed alone"
    """The op is element-wise on one array, and on broadcast scalars."""
    SEVERAL = "computed together"
    """The op is element-wise on several arrays."""
    MADE = "made"
    """Any other op. A traversal ends there: the value is a source."""


class ValueFacts(NamedTuple):
    """What a traversal needs to know about a value.

    Attributes:
        number: Number of the value's op, types and role; values with equal numbers differ, for a
            traversal, in their operands only.
        role: What the op does with elements.
        sources: The values that it reads; empty for `MADE`.
    """

    number: int
    role: Role
    sources: tuple[Instruction, ...]


class _OpFacts(NamedTuple):
    """What a traversal needs to know about a value, as far as op and types alone determine it.

    Equal facts have equal numbers.

    Attributes:
        made: Facts about the value as the source of a chain, at which a traversal ends.
        role: What the op does with elements; `ALONE` for element-wise ops on one array or several.
        number: Number that stands for op, types and the role `role`.
        several: Number that stands for op, types and the role `SEVERAL`.
    """

    made: ValueFacts
    role: Role
    number: int
    several: int


class Neighbourhood(NamedTuple):
    """The values around a chain's last op, the sink, that a traversal may read.

    They are described without names, so that equal parts of a program share one traversal.

    Attributes:
        key: Equal keys mean equal traversals, with values at equal positions.
        values: The values by position, the sink first.
        opened: The values whose operands are part of the key.
    """

    key: tuple[int, ...]
    values: list[Instruction]
    opened: list[Instruction]


class Neighbourhoods:
    """Finds the values around each possible end of a chain that a traversal may read.

    The facts about each value are computed once.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        # Neighbourhoods of neighbouring sinks overlap, so each value is asked many times.
        self._facts: Final[dict[Instruction, ValueFacts]] = {}
        self._number: Final = Numbering()
        self._numbers: Final[dict[object, int]] = {}
        self._kinds: Final[dict[tuple[int, ...], tuple[Instruction, _OpFacts]]] = {}

    def moves(self, value: Instruction) -> bool:
        """Does the value's op only move elements?"""
        if not isinstance(value.op, MOVING) or value in self._flow.opaque:
            return False
        return self._kind_of(value).role is Role.MOVED

    def facts_of(self, value: Instruction) -> ValueFacts:
        """Return what a traversal needs to know about a value and its op."""
        known = self._facts.get(value)
        if known is None:
            known = self._facts[value] = self._found_facts(value)
        return known

    def _found_facts(self, value: Instruction) -> ValueFacts:
        """Compute what a traversal needs to know about a value; `facts_of` stores it."""
        if value in self._flow.opaque:
            return ValueFacts(self._number_of(self._number(value.type)), Role.MADE, ())
        made, role, number, several = self._kind_of(value)
        if role is Role.MADE:
            return made
        source = self._flow.source
        sources = tuple([source(operand) for operand in value.operands])
        if role is Role.ALONE and len(sources) > 1 and self._are_several(sources):
            return ValueFacts(several, Role.SEVERAL, sources)
        return ValueFacts(number, role, sources)

    def _kind_of(self, value: Instruction) -> _OpFacts:
        """Return what a traversal needs to know about a value, as far as op and types tell it.

        The results are cached by the `id`s of objects that the module keeps alive.
        """
        if value.calls:
            return self._found_kind(value)
        key = id(value.op), id(value.type), *[id(operand.type) for operand in value.operands]
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = value, self._found_kind(value)
        return known[1]

    def _found_kind(self, value: Instruction) -> _OpFacts:
        """Compute what a traversal needs to know about a value from its op and types alone."""
        number = self._number
        made = self._number_of(number(value.type))
        source = ValueFacts(made, Role.MADE, ())
        if moves(value):
            role = Role.MOVED
        elif computes(value):
            role = Role.ALONE
        else:
            return _OpFacts(source, Role.MADE, made, made)
        types = [number(operand.type) for operand in value.operands]
        facts = number(value.op), number(value.type), value.calls, *types
        return _OpFacts(
            source, role, self._number_of(role, *facts), self._number_of(Role.SEVERAL, *facts)
        )

    def _are_several(self, sources: tuple[Instruction, ...]) -> bool:
        """Are at least two of the values distinct and not broadcast scalars?"""
        first: Instruction | None = None
        for value in sources:
            if value is not first and broadcasts_of_scalar(self._flow, value) is None:
                if first is not None:
                    return True
                first = value
        return False

    def _number_of(self, *facts: object) -> int:
        """Return a number for a combination of facts; equal combinations get equal numbers."""
        return self._numbers.setdefault(facts, len(self._numbers))

    def of(self, sink: Instruction, through_nary: bool) -> Neighbourhood:
        """Return the values around a sink that a traversal may read.

        With `through_nary` it continues through element-wise ops on several arrays.
        """
        places = {sink: 0}
        values, opened = [sink], []
        key = [int(through_nary)]
        known, made, several = self._facts, Role.MADE, Role.SEVERAL
        computed, count = 0, 1
        # Breadth first with the limits of `Walk`, so that the key covers all that a traversal can
        # read.
        for value in values:
            number, role, sources = known.get(value) or self.facts_of(value)
            key.append(number)
            if role is several:
                computed += 1
                if not through_nary or computed > MOST_COMPUTED:
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
                key.append(~place)  # negative, unlike the numbers
        return Neighbourhood(tuple(key), values, opened)


class Walk:
    """Traversal from a chain's last op, the sink, to the chain's sources.

    Attributes:
        leaves: The sources.
        steps: The ops, producers first; the last one is the sink.
        read: For each reached value, the values that its op reads, all with maps from the same
            index of the sink.
        is_cut: Did the traversal end early because there are too many values?
    """

    def __init__(
        self,
        flow: Flow,
        sink: Instruction,
        neighbourhoods: Neighbourhoods,
        through_nary: bool,
        through_ops: bool = True,
    ) -> None:
        """Traverse the values from a chain's last op to its sources.

        Args:
            flow: The def-use graph of the module.
            sink: The last op.
            neighbourhoods: Computes what the traversal needs to know about values.
            through_nary: Continue through ops that compute on several arrays.
            through_ops: Continue through ops that compute on one array.
        """
        self.flow = flow
        self._facts_of = neighbourhoods.facts_of
        self.through_nary = through_nary
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
                # After a join an element-wise op would apply to a part only, so movement does not
                # commute with it.
                if at in self._joined or isinstance(at.value.op, JOINS):
                    self._joined.add(following)
                if following not in seen:
                    seen[following] = None
                    self._next.setdefault(following.value, at.value)
                    todo.append(following)
        inner = {at.value for at in seen} - set(self._reached)
        # Producers first.
        self.steps = tuple(
            needed_first(
                [sink], lambda op: [v for v in map(flow.source, op.operands) if v in inner]
            )
        )
        self.leaves = tuple(
            [Leaf(v, tuple(maps), tuple(self._path(v, sink))) for v, maps in self._reached.items()]
        )

    def _operands(self, at: Arrival, sink: Instruction) -> tuple[Arrival, ...]:
        """Return the operands of a reached value, each with its map from an index of the sink.

        The result is empty for a source of the chain, where the traversal ends. The operands, or
        the source, are recorded.

        Args:
            at: The reached value, with its map from an index of the sink.
            sink: The last op of the chain, which is never a source.
        """
        value = at.value
        found = operands_of(self.flow, at) if value is sink or self._is_inside(at) else None
        if found is None:
            self._reached.setdefault(value, []).append(at.map)
            return ()
        self.read[at] = found
        return found

    def _is_inside(self, at: Arrival) -> bool:
        """Does the chain continue from the reached value to the operands of its op?"""
        if len(self._next) > MOST_VALUES:
            self.is_cut = True
            return False
        role = self._facts_of(at.value).role
        if role is Role.MOVED:
            return True
        if role is Role.MADE or at in self._joined:
            return False
        if role is Role.ALONE:
            return self._through_ops
        self._computed += 1
        return self.through_nary and self._computed <= MOST_COMPUTED

    def _path(self, value: Instruction, sink: Instruction) -> Iterator[Instruction]:
        """Yield the ops on one path from a source to the sink, the chain's last op."""
        while value is not sink:
            value = self._next[value]
            yield value


def broadcasts_of_scalar(flow: Flow, value: Instruction) -> int | None:
    """Return how many broadcasts lead from a scalar to a value; `None` for other values."""
    for hops in range(MOST_VALUES):
        if isinstance(value.type, TensorType) and value.type.rank == 0:
            return hops
        if value.op.name != "broadcast_in_dim":
            return None
        value = flow.source(value.operands[0])
    return None
