"""Two followers of traversals: by relations of isl, and by single elements; called bodies.

A route is a list of collectives: a position in the group of each follows the index of an element.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Final, Protocol, TypeAlias

from msgspec.structs import replace

from hloscope.affine import (
    POS_INF,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    evaluate_array,
    variables,
)
from hloscope.fusion import BY_CONVENTION, READS, RECURSIVE, Convention, StructureIds, source_in
from hloscope.indexing import (
    UNKNOWN_COUNTS,
    Access,
    Bodies,
    Dependence,
    DeviceCounts,
    IndexingMap,
    Route,
    RuntimeVariable,
    by_convention,
    distinct_rows,
    joined,
    joined_after,
    needed_steps,
    row_keys,
    shortest,
    sizes,
    system_of,
    unravel,
)
from hloscope.ir import Computation, Instruction, callees_first
from hloscope.proof.graph import OWN_NAMES, Names, Reached, Steps, Walker
from hloscope.proof.integers import Values
from hloscope.simplifier import Builder, Parameters, UndecidedError, isl_context
from hloscope.support.arrays import Ints, is_among, np

# --------------------------------------------------------------------------------------------------
# Relations of isl carried through a program, independent of hloscope's composition.


Relations: TypeAlias = dict[Route, Any]
"""Relations of isl from output elements to indices and group positions, by route."""


class IslFollower:
    """A follower of traversals whose states are isl relations.

    `through` is isl's `apply_range`, `join` is its `union`.
    """

    def __init__(self, isl: Any, values: Values) -> None:
        self._isl = isl
        self._values = values
        self.parameters = Parameters({}, {})
        # Equal ops have equal maps: a chain of 240 ops takes half the time if each is built once.
        self._known: dict[IndexingMap, Any] = {}

    def identity(self, sizes: Sequence[int]) -> Relations:
        """Return the identity relation of a tensor with these sizes."""
        box = self.relation(IndexingMap.of_sizes(sizes), OWN_NAMES).domain()
        return {(): self._isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)}

    def through(self, reached: Relations, access: Access, names: Names) -> Relations | None:
        """Return the elements that an access reads from those reached; `None` if there are none.

        Raises:
            UndecidedError: The ranks of map and relation differ.
        """
        assert access.map is not None
        out, rank = self._isl.dim_type.out, len(access.map.results)
        found: Relations = {}
        for steps, relation in reached.items():
            width = relation.dim(out) - len(steps)
            if width != len(access.map.dims):
                raise UndecidedError("the program is inconsistent: ranks differ")
            bounds = [self._bounds(relation, width + k) for k in range(len(steps))]
            onwards = self.relation(joined_after(access, steps, bounds), names)
            more = self._shortest(relation.apply_range(onwards), steps + access.via, rank)
            found = self.join(found, more)
        return found or None

    def reversed(self, relation: Any, count: int) -> Any:
        """Return the inverse relation.

        The last `count` results, which are positions in groups, stay results.
        """
        back = relation.reverse()
        if not count:
            return back
        into, out = self._isl.dim_type.in_, self._isl.dim_type.out
        return back.move_dims(out, back.dim(out), into, back.dim(into) - count, count)

    def _bounds(self, relation: Any, place: int) -> Interval:
        """Return the interval of result number `place` of a relation.

        It is a point if isl finds a constant value, else all integers.
        """
        value = relation.plain_get_val_if_fixed(self._isl.dim_type.out, place)
        return Interval.EVERYTHING if value.is_nan() else Interval.point(int(value.to_python()))

    def _shortest(self, relation: Any, via: Route, rank: int) -> Relations:
        """Return the relation by route, without positions that the last device does not depend on.

        Args:
            relation: The relation; its last results are positions in groups, one for each
                collective.
            via: The route: those collectives.
            rank: Number of results before the positions.
        """
        if relation.is_empty():
            return {}
        kept = needed_steps(via)
        for k in reversed(range(len(via))):
            if k not in kept:
                relation = relation.project_out(self._isl.dim_type.out, rank + k, 1)
        return {tuple([via[k] for k in kept]): relation.coalesce()}

    def join(self, one: Relations, other: Relations) -> Relations:
        """Return the union of two states, route by route."""
        found = dict(one)
        for steps, relation in other.items():
            known = found.get(steps)
            found[steps] = relation if known is None else known.union(relation).coalesce()
        return found

    def key(self, reached: Relations) -> Hashable:
        """Return a key of a state: isl's text of its relations."""
        return tuple([(steps, str(relation)) for steps, relation in reached.items()])

    def weight(self, reached: Relations) -> None:
        """Return `None`: relations contain the parameters of one query."""
        return

    def relation(self, m: IndexingMap, names: Names) -> Any:
        """Return a map as an isl relation; its runtime variables become parameters."""
        if not m.runtime and m in self._known:
            return self._known[m]
        keys = [self._key(m, v, names) for v in m.runtime]
        for key in keys:
            self.parameters.number.setdefault(key, len(self.parameters.number))
            self.parameters.facts.setdefault(key, key[3])
        # Runtime variables become isl parameters; equal keys share one parameter, so that a value
        # read twice is the same in both relations.
        system = replace(system_of(m), runtime=keys)
        relation = Builder(self._isl, isl_context(), system, self.parameters).relation()
        if not m.runtime:
            self._known[m] = relation
        return relation

    def union(self, accesses: Sequence[Access]) -> Relations:
        """Return the union of the isl relations of accesses, by route.

        The route of an access is the list of collectives in whose groups its last results are
        positions.
        """
        found: Relations = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                access = shortest(access)
                found = self.join(found, {access.via: self.relation(joined(access), OWN_NAMES)})
        return found

    def _key(
        self, m: IndexingMap, variable: RuntimeVariable, names: Names
    ) -> tuple[Hashable, Interval, tuple[int, ...], Interval]:
        """Return what identifies the isl parameter that stands for a runtime variable.

        Args:
            m: The map with the variable.
            variable: The variable.
            names: Names of the values that the map reads.

        Returns:
            The key of the tensor that is read; the interval of the variable; the constant index at
            which it is read; and the interval of its values, a point if the value is known.

        Raises:
            UndecidedError: The value depends on the index, or has no origin.
        """
        index = tuple([self._fixed(m, e) for e in variable.arguments])
        can_be = variable.values
        if variable.origin is None:
            if variable.source is None:
                raise UndecidedError("a runtime variable without origin")
            return variable.source, can_be, index, can_be
        origin = names.of(variable.origin)
        source = replace(variable, origin=origin).source
        value = self._values.known(origin, index[: len(variable.index)])
        if value is not None:
            can_be = Interval.point(min(max(value, can_be.lo), can_be.hi))
        return source, variable.values, index, can_be

    def _fixed(self, m: IndexingMap, e: Expr) -> int:
        """Return the value of an expression that must be constant.

        Raises:
            UndecidedError: It is not constant.
        """
        bounds = m.range_of(e)
        if not bounds.is_point:
            raise UndecidedError("runtime variables are read at indices that run")
        return bounds.lo


# --------------------------------------------------------------------------------------------------
# Elements carried through a program one by one, as rows of numpy arrays.
#
# A row is the number of a start point, then an index, then positions in groups of collectives.


Rows: TypeAlias = "dict[Route, Ints]"
"""Elements by route: arrays with a row for each element.

A row has the number of the start point, the index of the element, and a position in the group of
each collective.
"""

MAX_ROWS: Final = 1 << 20
"""Largest number of elements in one state."""
A_FEW: Final = 3
"""Number of members of a group that are followed if the group's size is not known."""


class Reading(Protocol):
    """Interface that provides the values of runtime variables.

    Attributes:
        drawn: Whether a value that is not known was replaced by a random one.
    """

    drawn: bool

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """Return the values of a runtime variable at many indices, clamped to its interval.

        Args:
            variable: The runtime variable.
            index: For each argument of the variable, an array with one entry for each index.
            name: Number of the variable in its map; it distinguishes variables without origin.
        """


class ElementFollower:
    """A follower of traversals whose states are single elements, traced from start points."""

    def __init__(self, values: Reading, limit: int = MAX_ROWS) -> None:
        self._values = values
        self._limit = limit

    def start(self, points: Ints) -> Rows:
        """Return the state of a traversal that starts at indices `points`, of shape `[n, rank]`."""
        numbers = np.arange(len(points), dtype=np.int64)[:, None]
        return {(): np.concatenate([numbers, points], axis=1)}

    def through(self, reached: Rows, access: Access, names: Names) -> Rows | None:
        """Return the elements that an access reads from those reached; `None` if there are none.

        Raises:
            UndecidedError: The ranks of map and elements differ, or there are too many elements.
        """
        assert access.map is not None
        rank, width = len(access.map.results), len(access.map.dims)
        found: Rows = {}
        for steps, rows in reached.items():
            if rows.shape[1] - 1 - len(steps) != width:
                raise UndecidedError("the program is inconsistent: ranks differ")
            # Positions reached so far have known bounds, which simplify the routes that follow.
            bounds = [Interval(int(c.min()), int(c.max())) for c in rows[:, 1 + width :].T]
            m = joined_after(access, steps, bounds)
            source, results = self.results(m, rows[:, 1:], names)
            if len(source):
                via = steps + access.via
                kept = needed_steps(via)
                parts = [rows[source, :1], results[:, :rank], results[:, [rank + k for k in kept]]]
                more: Rows = {
                    tuple([via[k] for k in kept]): distinct_rows(np.concatenate(parts, axis=1))
                }
                found = self.join(found, more)
        return found or None

    def join(self, one: Rows, other: Rows) -> Rows:
        """Return the union of the elements of two states, route by route."""
        found = dict(one)
        for steps, rows in other.items():
            known = found.get(steps)
            found[steps] = rows if known is None else distinct_rows(np.concatenate([known, rows]))
        return found

    def key(self, reached: Rows) -> Hashable:
        """Return a key of a state: its rows as a hashable value."""
        return tuple([(steps, rows.shape, rows.tobytes()) for steps, rows in reached.items()])

    def weight(self, reached: Rows) -> int:
        """Return the number of integers in a state."""
        return sum(rows.size for rows in reached.values())

    def union(self, accesses: Sequence[Access], start: Rows) -> Rows:
        """Return the elements that the maps of accesses read from the start points."""
        found: Rows = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                more = self.through(start, shortest(access), OWN_NAMES)
                found = self.join(found, more) if more else found
        return found

    def results(self, m: IndexingMap, index: Ints, names: Names) -> tuple[Ints, Ints]:
        """Return the results of a map at many indices, and for each result the row of its index.

        Range variables take all their values, so an index may have several results.

        Args:
            m: The map.
            index: The indices. Shape `[m, rank]`.
            names: Names of the values that the map reads at run time.

        Returns:
            The rows, of shape `[n]`, and the results, of shape `[n, results]`.

        Raises:
            UndecidedError: There are too many results.
        """
        if m.is_known_empty or m.is_undefined:
            return np.zeros(0, np.int64), np.zeros((0, len(m.results)), np.int64)
        inside = np.ones(len(index), np.bool_)
        for i, v in enumerate(m.dims):
            inside &= (index[:, i] >= v.interval.lo) & (index[:, i] <= v.interval.hi)
        source = np.flatnonzero(inside)
        sizes = [self._size(v.interval) for v in m.ranges]
        if not len(source):
            return np.zeros(0, np.int64), np.zeros((0, len(m.results)), np.int64)
        if len(source) * prod(sizes) > self._limit:
            raise UndecidedError(f"it touches more than {self._limit} elements at once")
        # Every row is repeated for each combination of range variables; constraints then select
        # rows.
        inner = prod(sizes)
        source = np.repeat(source, inner)
        at: dict[Var, Any] = {Dim(i): index[source, i] for i in range(len(m.dims))}
        if sizes:
            grid = unravel(np.arange(inner), sizes)
            for i, v in enumerate(m.ranges):
                at[Range(i)] = np.tile(grid[i] + v.interval.lo, len(source) // max(inner, 1))
        self._read(m, at, names, len(source))
        ok = np.ones(len(source), np.bool_)
        for i, variable in enumerate(m.runtime):
            value = at[Runtime(i)]
            ok &= (value >= variable.interval.lo) & (value <= variable.interval.hi)
        for e, interval in m.constraints:
            value = evaluate_array(e, at)
            ok &= (value >= interval.lo) & (value <= interval.hi)
        columns = [np.broadcast_to(evaluate_array(e, at), len(source)) for e in m.results]
        table = np.stack(columns, axis=1)[ok] if columns else np.zeros((ok.sum(), 0), np.int64)
        return source[ok], table.astype(np.int64)

    def _size(self, interval: Interval) -> int:
        """Return the number of values of an interval; a small number if it has no upper bound."""
        if interval.hi < POS_INF:
            return interval.size
        self._values.drawn = True
        return A_FEW

    def _read(self, m: IndexingMap, at: dict[Var, Any], names: Names, count: int) -> None:
        """Add the values of a map's runtime variables to `at`, in order of dependence.

        Args:
            m: The map.
            at: Arrays of values by variable; the dimension and range variables have theirs.
            names: Names of the values that the map reads at run time.
            count: Length of each array.

        Raises:
            UndecidedError: The variables depend on each other.
        """
        left = [*range(len(m.runtime))]
        while left:
            # A variable may be read at an index that depends on another variable, so the order is
            # that of their dependences.
            ready = [
                i
                for i in left
                if not any(Runtime(j) in variables(*m.runtime[i].arguments) for j in left)
            ]
            if not ready:
                raise UndecidedError("runtime variables depend on each other in a circle")
            for i in ready:
                v = m.runtime[i]
                index = [np.broadcast_to(evaluate_array(e, at), count) for e in v.arguments]
                origin = names.of(v.origin) if v.origin else None
                if origin is not None:
                    v = replace(v, origin=origin)
                read = self._values.read(v, index, i)
                at[Runtime(i)] = np.broadcast_to(read, count)
                left.remove(i)


def points_of(flat: Ints, shape: Sequence[int]) -> Ints:
    """Return the indices of elements in a tensor of shape `shape`. Shape `[n, rank]`.

    `flat` has their row-major positions.
    """
    if not shape:
        return np.zeros((len(flat), 0), np.int64)
    return np.stack(unravel(flat, shape), axis=1).astype(np.int64)


def first_difference(one: Rows, other: Rows) -> tuple[int, ...] | None:
    """Return an element of `one` that `other` does not have, as integers; `None` if there is none.

    The integers are the number of the start point, the index, and positions in groups.
    """
    for steps, rows in one.items():
        others = other.get(steps)
        if others is None:
            if len(rows):
                return tuple(rows[0].tolist())
            continue
        if not len(rows):
            continue
        keys = row_keys(np.concatenate([rows, others]))
        fresh = np.flatnonzero(~is_among(keys[: len(rows)], keys[len(rows) :]))
        if len(fresh):
            return tuple(rows[fresh[0]].tolist())
    return None


# --------------------------------------------------------------------------------------------------
# Traversal steps that compute the dependences of called bodies by following single elements.


TRIALS: Final = 3
"""Number of draws of the values that a body reads at run time."""
ELEMENTS: Final = 16
"""Largest number of elements of a result that are followed through a body."""


class StepsThroughBodies(Steps):
    """The dependences of single instructions; called bodies are traversed, too.

    So parameters that a body does not use are left out.
    """

    def __init__(
        self, convention: Convention = "structural", counts: DeviceCounts = UNKNOWN_COUNTS
    ) -> None:
        super().__init__(counts)
        self._convention: Final = convention
        self._structure_ids = StructureIds()
        # Asked once for every instruction that calls a body; a body is sampled once per structure.
        self._known: dict[int, Dependence] = {}
        self._open: set[int] = set()

    def bodies(self, ins: Instruction) -> Bodies:
        """Return, for each computation that an instruction calls, what its results depend on."""
        found = tuple([self._dependence(callee) for callee in ins.calls])
        is_conventional = self._convention == "xla" and isinstance(ins.op, BY_CONVENTION)
        return by_convention(ins, found) if is_conventional else found

    def _dependence(self, callee: Computation) -> Dependence:
        """Return the dependences of a body's results on its parameters.

        The bodies inside `callee` are analysed first.

        Raises:
            UndecidedError: The body calls itself.
        """
        number = self._structure_ids.number(callee)
        if number not in self._known:
            if number in self._open:
                raise UndecidedError(RECURSIVE)
            self._open.add(number)
            try:
                for inner in _bodies(callee):
                    with suppress(UndecidedError):  # its result may not be needed
                        self._dependence(inner)
                self._known[number] = self._followed(callee)
            finally:
                self._open.discard(number)
        return self._known[number]

    def _followed(self, callee: Computation) -> Dependence:
        """Return the dependences of each root leaf on the parameters' leaves, found by samples.

        Up to `ELEMENTS` elements of each leaf are followed `TRIALS` times, with different values
        read at run time.
        """
        first = [0]
        for parameter in callee.parameters:
            first.append(first[-1] + len(self.leaves(parameter.type)))
        reads, sure, aligned, unchanged = [], [], [], []
        for leaf, type in enumerate(self.leaves(callee.root.type)):
            points = _elements(sizes(type))
            trials = [self._reached(callee, leaf, points, seed) for seed in range(TRIALS)]
            found: dict[int, list[Reached[Any]]] = {}
            for trial in trials:
                for (number, i), reached in trial.items():
                    found.setdefault(first[number] + i, []).append(reached)
            # Reads of any trial count, because a value read at run time may decide what is used. A
            # read is sure only if every trial shows it.
            reads.append(frozenset(found))
            sure.append(frozenset(k for k, some in found.items() if _are_exact(some)))
            aligned.append(frozenset(k for k, some in found.items() if _is_aligned(some, points)))
            source, inner = source_in(self, callee, leaf)
            is_parameter = source in callee.parameters
            at = first[callee.parameters.index(source)] + inner if is_parameter else -1
            unchanged.append(at)
        return Dependence(tuple(reads), tuple(sure), tuple(aligned), tuple(unchanged))

    def _reached(
        self, callee: Computation, leaf: int, points: Ints, seed: int
    ) -> dict[tuple[int, int], Reached[Any]]:
        """Return the elements of parameters on which elements `points` of a root leaf depend.

        Keys are the numbers of the parameter and its leaf. Shape of `points`: `[n, rank]`.
        """
        follower = ElementFollower(Values(seed))
        walker = Walker(self, follower)
        return walker.parameters(callee.root, leaf, follower.start(points), callee)


def _bodies(computation: Computation) -> list[Computation]:
    """Return the computations that ops of a computation or its callees apply, inner ones first."""
    inner = list(callees_first(computation, ()))
    called = {c for top in inner for ins in top if type(ins.op) not in READS for c in ins.calls}
    return [c for c in inner if c in called and c is not computation]


def _elements(shape: tuple[int, ...]) -> Ints:
    """Return up to `ELEMENTS` evenly spaced indices of a tensor; all of a small one.

    Shape `[n, rank]`.
    """
    total = prod(shape)
    flat = np.unique(np.linspace(0, max(total - 1, 0), min(total, ELEMENTS)).astype(np.int64))
    return points_of(flat, shape)


def _are_exact(trials: list[Reached[Any]]) -> bool:
    """Did every trial reach an element, and were all maps on the way known and exact?"""
    return len(trials) == TRIALS and all(
        reached.elements is not None and not reached.unknown and not reached.over
        for reached in trials
    )


def _is_aligned(trials: list[Reached[Any]], points: Ints) -> bool:
    """Did every trial reach exactly the element at the index where it started?

    `points` are the indices where the trials started.
    """
    start = ElementFollower(Values()).start(points)
    rows = next(iter(start.values()))
    return all(
        reached.elements is not None
        and reached.elements.keys() == start.keys()
        and all(np.array_equal(found, rows) for found in reached.elements.values())
        for reached in trials
    )
