"""Tables of what is read of many values: persistent, and each distinct part of them kept once.

What a value reads of a thousand parameters is, but for a few, what its operands read of them.  A
table is a tree over the numbers of the values read; two tables share the parts that are alike,
wherever these stand, and what is done with a part is done once.  So a sum of n parameters takes
n log n steps, not the n * n of a table for each of its partial sums.

Where the values read through several plain accesses follow one another, nothing has to be joined:
such a table keeps its inflows as they are until it is asked for.  So a chain of n slices, to each
of which a parameter is added, takes n compositions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from hloscope.indexing import Accesses
from hloscope.ir import Type

WIDTH: Final = 8
"""Parts of one node."""


class Reading:
    """What is read of one value, which has a type."""

    __slots__ = ("accesses", "type")

    def __init__(self, type: Type, accesses: Accesses) -> None:
        self.type = type
        self.accesses = accesses


class Node:
    """A table of `WIDTH ** height` numbers."""

    __slots__ = ("height", "parts")

    def __init__(self, height: int, parts: tuple[Part, ...]) -> None:
        self.height = height
        self.parts = parts


class Deferred:
    """Tables of numbers that follow one another, each seen through plain accesses; not joined."""

    __slots__ = ("first", "flows", "last")

    def __init__(self, flows: tuple[Flow, ...], first: int, last: int) -> None:
        self.flows = flows
        self.first = first
        self.last = last


Table: TypeAlias = Node | Deferred
Flow: TypeAlias = tuple[Accesses | None, Table]
"""A table, and the accesses through which it is seen; `None`: as it is."""
Part: TypeAlias = Node | Reading | None
Inflow: TypeAlias = tuple[Accesses | None, Part]
"""A part of a table, and the accesses through which it is seen; `None`: as it is."""
Join: TypeAlias = Callable[[Type, Sequence[tuple[Accesses | None, Accesses]]], Accesses]
"""What is read of a value of this type through several accesses, each followed by its own."""
Through: TypeAlias = Callable[[Accesses, Accesses], Accesses]
"""Plain accesses followed by plain ones."""


class Tables:
    """Makes tables; equal parts are one object, and equal work is done once."""

    def __init__(
        self,
        join: Join,
        is_plain: Callable[[Accesses], bool] = lambda accesses: False,
        through: Through = lambda first, then: first,
    ) -> None:
        """Start with no table.

        Args:
            join: Tells what is read of one value; its answer depends on nothing else.
            is_plain: May these accesses be composed before it is known what follows them?
            through: Composes plain accesses: what comes out is plain, or nothing.
        """
        self._join = join
        self._is_plain = is_plain
        self._through = through
        self._deferred: dict[tuple[int, ...], Deferred] = {}
        self._made: dict[Deferred, Node | None] = {}
        self._readings: dict[tuple[int, ...], Reading] = {}
        self._nodes: dict[tuple[int, ...], Node] = {}
        self._seen: dict[tuple[int, ...], Accesses] = {}
        self._joined: dict[tuple[int, ...], Part] = {}

    @property
    def size(self) -> int:
        """How much is remembered."""
        return len(self._nodes) + len(self._joined) + len(self._deferred)

    def single(self, number: int, type: Type, accesses: Accesses) -> Node:
        """The table of one value.

        >>> tables = Tables(lambda type, parts: ())
        >>> from hloscope.ir import TokenType
        >>> [number for number, _ in tables.items(tables.single(77, TokenType(), ()))]
        [77]
        """
        number, place = divmod(number, WIDTH)
        node = self._node(1, _alone(self._reading(type, accesses), place))
        while number:
            number, place = divmod(number, WIDTH)
            node = self._node(node.height + 1, _alone(node, place))
        return node

    def joined(self, flows: Sequence[tuple[Accesses | None, Table | None]]) -> Table | None:
        """What is read through several accesses, each followed by what a table says."""
        present = [
            (None if accesses is None else self._one(accesses), table)
            for accesses, table in flows
            if table is not None
        ]
        seen = [accesses for accesses, _ in present if accesses is not None]
        late = seen or any([isinstance(table, Deferred) for _, table in present])
        if late and all(map(self._is_plain, seen)):
            spans = sorted([_span(table) for _, table in present])
            if all([last < first for (_, last), (first, _) in pairwise(spans)]):
                key = tuple([id(x) for flow in present for x in flow])
                new = Deferred(tuple(present), spans[0][0], spans[-1][1])
                return self._deferred.setdefault(key, new)
        return self._joined_now([(accesses, self._now(table)) for accesses, table in present])

    def items(self, table: Table | None) -> Iterator[tuple[int, Reading]]:
        """The numbers of all values of which something is read, in order, and what."""
        for accesses, part in self._inflows(table):
            yield from _items(part if accesses is None else self._joined_now([(accesses, part)]))

    def _inflows(self, table: Table | None) -> list[tuple[Accesses | None, Node]]:
        """The tables of which one is made, in order, and through what each is seen."""
        found: list[tuple[Accesses | None, Node]] = []
        stack: list[tuple[Accesses | None, Table]] = [] if table is None else [(None, table)]
        while stack:
            seen, top = stack.pop()
            if isinstance(top, Node):
                found.append((seen, top))
                continue
            for accesses, part in sorted(top.flows, key=lambda flow: _span(flow[1]), reverse=True):
                both = seen if accesses is None else accesses
                if seen is not None and accesses is not None:
                    both = self._one(self._through(seen, accesses))
                if both is None or both:
                    stack.append((both, part))
        return found

    def _now(self, table: Table | None) -> Node | None:
        """The table itself, joined."""
        made, stack = self._made, [] if table is None else [table]
        while stack:
            top = stack[-1]
            if isinstance(top, Node) or top in made:
                stack.pop()
                continue
            missing = [p for _, p in top.flows if isinstance(p, Deferred) and p not in made]
            if missing:
                stack += missing
                continue
            flows = [(a, made[p] if isinstance(p, Deferred) else p) for a, p in top.flows]
            made[top] = self._joined_now(flows)
        return made[table] if isinstance(table, Deferred) else table

    def _joined_now(self, flows: Sequence[tuple[Accesses | None, Node | None]]) -> Node | None:
        """What is read through accesses of which each is the one tuple of them."""
        height = max([table.height for _, table in flows if table is not None], default=0)
        found = self._all(
            [(a, self._lifted(table, height)) for a, table in flows if table is not None]
        )
        assert not isinstance(found, Reading)  # what is joined has parts, and so has the result
        return found

    def _all(self, flows: list[Inflow]) -> Part:
        """What is read through all flows; they are of one height, which bounds the recursion."""
        flows = list({(id(a), id(part)): (a, part) for a, part in flows}.values())
        if not flows:
            return None
        if len(flows) == 1 and flows[0][0] is None:
            return flows[0][1]
        key = tuple([id(x) for flow in flows for x in flow])
        try:
            return self._joined[key]
        except KeyError:
            pass
        first = flows[0][1]
        found: Part
        if isinstance(first, Node):
            parts = [
                self._all([(a, p) for a, part in flows if (p := _part(part, k)) is not None])
                for k in range(WIDTH)
            ]
            found = self._node(first.height, tuple(parts)) if any(parts) else None
        else:
            assert first is not None
            readings = [(a, part.accesses) for a, part in flows if isinstance(part, Reading)]
            accesses = self._join(first.type, readings)
            found = self._reading(first.type, accesses) if accesses else None
        self._joined[key] = found
        return found

    def _lifted(self, table: Node, height: int) -> Node:
        """The same table where higher numbers are spoken of too."""
        while table.height < height:
            table = self._node(table.height + 1, _alone(table, 0))
        return table

    def _node(self, height: int, parts: tuple[Part, ...]) -> Node:
        key = tuple(map(id, parts))
        known = self._nodes.get(key)
        if known is None:
            known = self._nodes[key] = Node(height, parts)
        return known

    def _reading(self, type: Type, accesses: Accesses) -> Reading:
        """The reading of these accesses: a pool keeps each once."""
        key = (id(type), *map(id, accesses))
        known = self._readings.get(key)
        if known is None:
            known = self._readings[key] = Reading(type, accesses)
        return known

    def _one(self, accesses: Accesses) -> Accesses:
        """The one tuple of these accesses."""
        return self._seen.setdefault(tuple(map(id, accesses)), accesses)


def _items(table: Node | None) -> Iterator[tuple[int, Reading]]:
    """The numbers in a table, in order, and what is read of each."""
    stack: list[tuple[int, Part]] = [(0, table)]
    while stack:
        number, part = stack.pop()
        if isinstance(part, Node):
            first = number * WIDTH
            stack += [(first + k, part.parts[k]) for k in reversed(range(WIDTH))]
        elif part is not None:
            yield number, part


def _span(table: Table) -> tuple[int, int]:
    """The least and the greatest number of a table."""
    if isinstance(table, Deferred):
        return table.first, table.last
    ends = []
    for order in (range(WIDTH), range(WIDTH - 1, -1, -1)):
        number = 0
        part: Part = table
        while isinstance(part, Node):
            place = next(k for k in order if part.parts[k] is not None)
            number, part = number * WIDTH + place, part.parts[place]
        ends.append(number)
    return ends[0], ends[1]


def _alone(part: Part, place: int) -> tuple[Part, ...]:
    parts: list[Part] = [None] * WIDTH
    parts[place] = part
    return tuple(parts)


def _part(part: Part, k: int) -> Part:
    return part.parts[k] if isinstance(part, Node) else None
