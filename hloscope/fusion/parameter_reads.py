"""Accesses of a computation's values to its parameters, each computed once and shared."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from time import process_time
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import divisions
from hloscope.errors import OutOfTimeError
from hloscope.fusion.analysis import Analysis
from hloscope.fusion.overapproximate import without_contained
from hloscope.fusion.traversal import AccessSet, Flow, composed, with_accesses
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, Type
from hloscope.ops import Parameter

# --------------------------------------------------------------------------------------------------
# Accesses of a computation's values to its parameters, each computed once and shared.
#
# A traversal from every instruction to the parameters would repeat the compositions along shared
# paths for each start.  Here the accesses of a value are those of its operands, composed with one
# instruction.  Queries about many values share all results below them, and the accesses to many
# parameters are stored in tables with shared subtrees.


Leaf: TypeAlias = tuple[Instruction, int]
"""A value and the number of one of its tensors; inside this module, of one of its leaves."""
Ends: TypeAlias = Mapping[Leaf, Accesses]
"""Accesses by the value and leaf at which they end: a parameter, or another end."""

MANY: Final = 2
"""Number of accesses to one tensor above which contained ones are removed."""
LOOKS: Final = 64
"""Number of steps between two reads of the clock, which takes longer than a step."""
MOST_MEMOIZED: Final = 300_000
"""Maximum number of memoized tables and joins; if it is exceeded, all are discarded."""


class ParameterReads:
    """Accesses of the values of one computation to its parameters; all results are memoized."""

    def __init__(
        self,
        analysis: Analysis,
        computation: Computation,
        ends: Container[Instruction] = (),
        until: float = inf,
    ) -> None:
        """Start without results.

        Args:
            analysis: Gives the dependences of single instructions.
            computation: The computation whose parameters are read.
            ends: Further values at which accesses end.
            until: Limit of `process_time`, in seconds; past it `OutOfTimeError` is raised.
        """
        self._ends, self._until = ends, until
        self._analysis = analysis
        self._inside = analysis.positions(computation)
        self._forget()

    def _forget(self) -> None:
        """Drop all memoized results, and begin with empty tables."""
        self._tables = Tables(self._join, _is_plain, self._through)
        self._known: dict[Leaf, Table | None] = {}
        self._tensors: list[Leaf | None] = []

    def of(self, ins: Instruction, output: int) -> Ends:
        """Return the accesses from tensor number `output` of the value of `ins` to parameters.

        They are grouped by the tensor at which they end. It is in a parameter of the computation,
        in a value outside of it, or in one of the `ends` given to the constructor. Accesses are
        composed through fusions, calls and loops and never end at values inside of these.

        Raises:
            OutOfTimeError: The time limit is over.
        """
        leaf = self._analysis.leaf_of(ins.type, output)
        if leaf is None:
            return {}
        items = [*self._tables.items(self._of(ins, leaf))]
        ends = self._tensors
        return {end: some.accesses for number, some in items if (end := ends[number]) is not None}

    def _of(self, ins: Instruction, leaf: int) -> Table | None:
        """Return the table of the accesses from one leaf of a value to parameters.

        The result is `None` if there are none.
        """
        if self._tables.size > MOST_MEMOIZED:
            self._forget()
        known = self._known
        waiting: dict[Leaf, list[Flow]] = {}
        stack: list[Leaf] = [(ins, leaf)]
        steps = 0
        while stack:
            if not steps % LOOKS and self._until < inf and process_time() > self._until:
                raise OutOfTimeError(f"what `{ins.name}` reads of the parameters takes too long")
            steps += 1
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            flows = waiting.get(top)
            if flows is None:
                # A parameter, one of the constructor's `ends`, or a value outside the computation.
                at = top[0]
                if isinstance(at.op, Parameter) or at in self._ends or at not in self._inside:
                    known[top] = self._itself(top)
                    continue
                flows = waiting[top] = list(self._analysis.reads(*top))
            # Postorder with an explicit stack: a value's table is joined when those of all its
            # operands are known. Chains are deeper than Python's recursion limit.
            missing = [target for flow in flows if (target := _target(top[0], flow)) not in known]
            if missing:
                stack += missing
                continue
            tables = [(flow.accesses, known[_target(top[0], flow)]) for flow in flows]
            known[top] = self._tables.joined(tables)
            del waiting[top]
        return known[ins, leaf]

    def _itself(self, end: Leaf) -> Node:
        """Return the table of a value at which accesses end: the identity, under a new number."""
        number = len(self._tensors)
        tensor = self._analysis.tensor_of(end[0].type, end[1])
        self._tensors.append(None if tensor is None else (end[0], tensor))  # a size has no tensor
        type = self._analysis.leaves(end[0].type)[end[1]]
        return self._tables.single(number, type, (self._analysis.interner.identity(type),))

    def _through(self, first: Accesses, then: Accesses) -> Accesses:
        """Return the compositions of each access in `first` with each in `then`; all are plain.

        See `_is_plain`.
        """
        return tuple(composed(self._analysis.interner, first, then))

    def _join(self, type: Type, parts: Sequence[tuple[Accesses | None, Accesses]]) -> Accesses:
        """Return the union of the compositions of pairs of accesses.

        Contained accesses are removed if there are more than `MANY`, or any has constraints.

        Args:
            type: Type of the value that all accesses lead to.
            parts: Pairs of accesses that are applied in sequence; `None` as the first is the
                identity.
        """
        interner = self._analysis.interner
        found: AccessSet = {}
        for first, further in parts:
            reached = further if first is None else composed(interner, first, further)
            if reached:
                found = with_accesses(interner, found, reached, type)
        every = tuple(found)
        if len(every) <= 1 or (len(every) <= MANY and not any(map(_has_conditions, every))):
            return every
        return tuple(without_contained(every, type))


def _is_plain(accesses: Accesses) -> bool:
    """Is there just one access, exact, whose results are functions of dimensions without divisions?

    Such functions can be composed in any order with the same normal form.
    """
    if len(accesses) != 1:
        return False
    (access,) = accesses
    where = access.map
    if where is None or access != Access(where):
        return False
    if where.ranges or where.runtime or where.constraints:
        return False
    return not any(map(divisions, where.results))


def _has_conditions(access: Access) -> bool:
    """Does the access have constraints or runtime variables?"""
    return access.map is not None and bool(access.map.constraints or access.map.runtime)


def _target(ins: Instruction, flow: Flow) -> Leaf:
    """Return the value and leaf that the dependence `flow` of `ins` leads to."""
    operand = flow.operand
    return (ins.operands[operand] if isinstance(operand, int) else operand, flow.leaf)


# --------------------------------------------------------------------------------------------------
# Persistent tables of the accesses from one value to many parameters, with shared subtrees.
#
# A value reads mostly the same accesses of a thousand parameters as its operands do.  A table is a
# tree with `WIDTH` children per node, indexed by the number of the value read.  Equal subtrees are
# one object at every position, and each operation on a subtree is memoized.  So the tables of a sum
# of n parameters take n log n steps instead of n * n.
#
# Plain accesses are exact, without divisions, so that they compose in any order.  If tables are
# reached through plain accesses and their numbers are disjoint, consecutive ranges, they need not
# be united at once: a `Deferred` table stores its inputs, and joins them when they are listed.  So
# a chain of n slices, with a parameter added to each, takes n compositions.


WIDTH: Final = 8
"""Number of children of a node."""


class Reading(Struct, frozen=True):
    """An entry of a table: the accesses to one value, and the type of the value."""

    type: Type
    accesses: Accesses


class Node(Struct, frozen=True, eq=False):
    """A node of a table, with entries for `WIDTH ** height` consecutive numbers.

    Nodes are compared by identity.

    Attributes:
        height: Number of levels below the node.
        parts: The `WIDTH` children: nodes, entries if `height` is 1, or `None`.
    """

    height: int
    parts: tuple[Part, ...]


class Deferred(Struct, frozen=True, eq=False):
    """A table that stores the tables it consists of, not yet united; compared by identity.

    Attributes:
        flows: Tables of disjoint ranges of numbers, each with the accesses that lead to it.
        first: The smallest number of an entry.
        last: The largest number of an entry.
    """

    flows: tuple[TableStep, ...]
    first: int
    last: int


Table: TypeAlias = Node | Deferred
TableStep: TypeAlias = tuple[Accesses | None, Table]
"""Accesses to a value, and the table of that value; `None` as accesses is the identity."""
Part: TypeAlias = Node | Reading | None
Inflow: TypeAlias = tuple[Accesses | None, Part | Deferred]
"""Accesses to a value, and a node, entry or table of that value; `None` is the identity."""
Join: TypeAlias = Callable[[Type, Sequence[tuple[Accesses | None, Accesses]]], Accesses]
"""Function of a type and pairs of accesses that lead to a value of this type in sequence.

It returns the union of the compositions of all pairs; `None` is the identity.
"""
Through: TypeAlias = Callable[[Accesses, Accesses], Accesses]
"""Function that returns the compositions of two sets of plain accesses."""


class Tables:
    """Creator of tables of accesses, by the number of the value that is accessed.

    Equal subtrees are one object, and each union is computed once.
    """

    def __init__(
        self,
        join: Join,
        is_plain: Callable[[Accesses], bool] = lambda accesses: False,
        through: Through = lambda first, then: first,
    ) -> None:
        """Start with no table.

        Args:
            join: Composes pairs of accesses to one value and unites them; a pure function.
            is_plain: Returns whether accesses give the same result in any order of composition.
            through: Composes plain accesses; the result is plain or empty.
        """
        self._join = join
        self._is_plain = is_plain
        self._through = through
        # Without the two, the tables of n parameters take n * n entries (a test counts them).
        self._tables: dict[tuple[Part, ...] | tuple[TableStep, ...], Table] = {}
        """Tables by their contents; equal subtrees are one object."""
        self._joined: dict[tuple[Inflow, ...], Part] = {}
        """Memoized unions of tables, each table composed with accesses."""

    @property
    def size(self) -> int:
        """Number of stored tables and unions, as a measure of memory."""
        return len(self._tables) + len(self._joined)

    def single(self, number: int, type: Type, accesses: Accesses) -> Node:
        """Return a table with one entry, the accesses to a value of this type at `number`.

        >>> tables = Tables(lambda type, parts: ())
        >>> from hloscope.ir import TokenType
        >>> [number for number, _ in tables.items(tables.single(77, TokenType(), ()))]
        [77]
        """
        number, place = divmod(number, WIDTH)
        node = self._node(1, _only_child(Reading(type, accesses), place))
        # The digits of `number` to the base `WIDTH` are the path to the value, from the leaf
        # upwards.
        while number:
            number, place = divmod(number, WIDTH)
            node = self._node(node.height + 1, _only_child(node, place))
        return node

    def joined(self, flows: Sequence[tuple[Accesses | None, Table | None]]) -> Table | None:
        """Return the union of several tables, each composed with the accesses that lead to it.

        Each item of `flows` is a pair: accesses to a value, and the table of that value. The result
        is `None` if all tables are `None`.
        """
        present = [(accesses, table) for accesses, table in flows if table is not None]
        seen = [accesses for accesses, _ in present if accesses is not None]
        late = seen or any([isinstance(table, Deferred) for _, table in present])
        # Disjoint ranges have no value in common, so nothing needs a union: the join waits until
        # the table is listed. Plain accesses may be composed later, because their composition is
        # associative in form.
        if late and all(map(self._is_plain, seen)):
            spans = sorted([_span(table) for _, table in present])
            if all([last < first for (_, last), (first, _) in pairwise(spans)]):
                key = tuple(present)
                new = Deferred(key, spans[0][0], spans[-1][1])
                return self._tables.setdefault(key, new)
        return self._joined_now([(accesses, self._now(table)) for accesses, table in present])

    def items(self, table: Table | None) -> Iterator[tuple[int, Reading]]:
        """Yield all entries of a table, by ascending number; none for `None`.

        An entry is a pair: the number of a value that is read, and the accesses to it with its
        type.
        """
        for accesses, part in self._inflows(table):
            yield from _items(part if accesses is None else self._joined_now([(accesses, part)]))

    def _inflows(self, table: Table | None) -> list[tuple[Accesses | None, Node]]:
        """Return the nodes that a table consists of, each with the accesses that lead to it.

        They are in ascending order of their numbers. The accesses are composed; `None` is the
        identity.
        """
        found: list[tuple[Accesses | None, Node]] = []
        stack: list[tuple[Accesses | None, Table]] = [] if table is None else [(None, table)]
        while stack:
            seen, top = stack.pop()
            if isinstance(top, Node):
                found.append((seen, top))
                continue
            # Descending ranges are pushed, so that the least numbers are popped first.
            for accesses, part in sorted(top.flows, key=lambda flow: _span(flow[1]), reverse=True):
                both = seen if accesses is None else accesses
                if seen is not None and accesses is not None:
                    both = self._through(seen, accesses)
                # An empty tuple, unlike `None`, is an empty composition: nothing is read through
                # it.
                if both is None or both:
                    stack.append((both, part))
        return found

    def _now(self, table: Table | None) -> Node | None:
        """Return the table as a node; a deferred table and all below it are united first."""
        stack = [table] if isinstance(table, Deferred) else []
        while stack:
            top = stack[-1]
            if ((None, top),) in self._joined:
                stack.pop()
                continue
            # Postorder with an explicit stack: nested deferred tables are as deep as the program's
            # chains, which could exceed Python's recursion limit.
            inner = [part for _, part in top.flows if isinstance(part, Deferred)]
            missing = [part for part in inner if ((None, part),) not in self._joined]
            if missing:
                stack += missing
                continue
            flows = [(accesses, self._node_of(part)) for accesses, part in top.flows]
            self._joined[((None, top),)] = self._joined_now(flows)
        return None if table is None else self._node_of(table)

    def _node_of(self, table: Table) -> Node | None:
        """Return the table as a node; the union of a deferred one must be memoized already."""
        if isinstance(table, Node):
            return table
        found = self._joined[((None, table),)]
        assert not isinstance(found, Reading)
        return found

    def _joined_now(self, flows: Sequence[tuple[Accesses | None, Node | None]]) -> Node | None:
        """Return the union of tables, each composed with the accesses that lead to it.

        Each item of `flows` is a pair: accesses (`None` is the identity), and a table. The result
        is `None` if no table has an entry.
        """
        height = max([table.height for _, table in flows if table is not None], default=0)
        found = self._all(
            [(a, self._lifted(table, height)) for a, table in flows if table is not None]
        )
        assert not isinstance(found, Reading)  # the inputs are nodes, and so is the union
        return found

    def _all(self, flows: list[tuple[Accesses | None, Part]]) -> Part:
        """Return the union of several children of equal height, each composed with its accesses.

        Each item of `flows` is a pair: accesses to a value (`None` is the identity), and a child.
        The recursion is at most as deep as the height.
        """
        flows = list(dict.fromkeys(flows))
        if not flows:
            return None
        # A single part seen through the identity is shared unchanged: this is what keeps tables
        # small.
        if len(flows) == 1 and flows[0][0] is None:
            return flows[0][1]
        key = tuple(flows)
        try:
            return self._joined[key]
        except KeyError:
            pass
        first = flows[0][1]
        found: Part
        if isinstance(first, Node):
            parts = [
                self._all([(a, p) for a, part in flows if (p := _child(part, k)) is not None])
                for k in range(WIDTH)
            ]
            found = self._node(first.height, tuple(parts)) if any(parts) else None
        else:
            assert first is not None
            readings = [(a, part.accesses) for a, part in flows if isinstance(part, Reading)]
            accesses = self._join(first.type, readings)
            found = Reading(first.type, accesses) if accesses else None
        self._joined[key] = found
        return found

    def _lifted(self, table: Node, height: int) -> Node:
        """Return a node of the height `height` with the same entries as `table`."""
        while table.height < height:
            table = self._node(table.height + 1, _only_child(table, 0))
        return table

    def _node(self, height: int, parts: tuple[Part, ...]) -> Node:
        """Return the node of this height with the children `parts`; equal nodes are one object."""
        known = self._tables.get(parts)
        if known is None:
            known = self._tables[parts] = Node(height, parts)
        # The key of a node is its children, that of a deferred table its pairs.
        assert isinstance(known, Node)
        return known


def _items(table: Node | None) -> Iterator[tuple[int, Reading]]:
    """Yield all entries of a table, by ascending number; none for `None`.

    An entry is a pair: the number of a value that is read, and the accesses to it with its type.
    """
    stack: list[tuple[int, Part]] = [(0, table)]
    while stack:
        number, part = stack.pop()
        if isinstance(part, Node):
            first = number * WIDTH
            stack += [(first + k, part.parts[k]) for k in reversed(range(WIDTH))]
        elif part is not None:
            yield number, part


def _span(table: Table) -> tuple[int, int]:
    """Return the smallest and the largest number of an entry of a table."""
    if isinstance(table, Deferred):
        return table.first, table.last
    ends = []
    for order in (range(WIDTH), range(WIDTH - 1, -1, -1)):
        number = 0
        part: Part = table
        while isinstance(part, Node):
            # A node has at least one child, so the outermost child in each order leads to an end.
            place = next(k for k in order if part.parts[k] is not None)
            number, part = number * WIDTH + place, part.parts[place]
        ends.append(number)
    return ends[0], ends[1]


def _only_child(part: Part, position: int) -> tuple[Part, ...]:
    """Return the children of a node that has only one, `part`, as child number `position`."""
    parts: list[Part] = [None] * WIDTH
    parts[position] = part
    return tuple(parts)


def _child(part: Part, k: int) -> Part:
    """Return child `k` of a node; `None` if `part` is not a node."""
    return part.parts[k] if isinstance(part, Node) else None
