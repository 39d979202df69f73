"""Elements carried through a program one by one, as rows of numpy arrays.

A row is the number of a start point, then an index, then positions in groups of collectives.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any, Final, Protocol, TypeAlias

from msgspec.structs import replace

from hloscope.affine import POS_INF, Dim, Interval, Range, Runtime, Var, evaluate_array, variables
from hloscope.arrays import Ints, is_among, np
from hloscope.indexing import (
    Access,
    IndexingMap,
    Route,
    RuntimeVariable,
    behind,
    distinct_rows,
    needed,
    row_keys,
    shortest,
    unravel,
)
from hloscope.proof.names import AS_THEY_ARE, Names
from hloscope.simplifier import UndecidedError

Rows: TypeAlias = "dict[Route, Ints]"
"""Rows by route: the collectives in whose groups the trailing positions are."""

MAX_ROWS: Final = 1 << 20
"""Maximum number of elements of one state."""
A_FEW: Final = 3
"""Members of a group that are followed if the group's size is not known."""


class Reading(Protocol):
    """Provides the values of runtime variables.

    Attributes:
        drawn: Was a value that is not known replaced by a random one?
    """

    drawn: bool

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """Return the values of a variable at many indices, clamped to its range."""


class Touching:
    """A follower of single elements."""

    def __init__(self, values: Reading, limit: int = MAX_ROWS) -> None:
        self._values = values
        self._limit = limit

    def start(self, points: Ints) -> Rows:
        """Return the state of the given start points."""
        numbers = np.arange(len(points), dtype=np.int64)[:, None]
        return {(): np.concatenate([numbers, points], axis=1)}

    def through(self, reached: Rows, access: Access, names: Names) -> Rows | None:
        """Return the elements that an access reads from those reached; `None` if there are none.

        Raises:
            UndecidedError: Ranks differ, or there are too many elements.
        """
        assert access.map is not None
        rank, width = len(access.map.results), len(access.map.dims)
        found: Rows = {}
        for steps, rows in reached.items():
            if rows.shape[1] - 1 - len(steps) != width:
                raise UndecidedError("the program is inconsistent: ranks differ")
            # Positions reached so far have known bounds, which simplify the routes that follow.
            bounds = [Interval(int(c.min()), int(c.max())) for c in rows[:, 1 + width :].T]
            m = behind(access, steps, bounds)
            source, results = self.results(m, rows[:, 1:], names)
            if len(source):
                via = steps + access.via
                kept = needed(via)
                parts = [rows[source, :1], results[:, :rank], results[:, [rank + k for k in kept]]]
                more: Rows = {
                    tuple([via[k] for k in kept]): distinct_rows(np.concatenate(parts, axis=1))
                }
                found = self.join(found, more)
        return found or None

    def join(self, one: Rows, other: Rows) -> Rows:
        """Return the union of two states."""
        found = dict(one)
        for steps, rows in other.items():
            known = found.get(steps)
            found[steps] = rows if known is None else distinct_rows(np.concatenate([known, rows]))
        return found

    def key(self, reached: Rows) -> Hashable:
        """Return the rows as a hashable value."""
        return tuple([(steps, rows.shape, rows.tobytes()) for steps, rows in reached.items()])

    def weight(self, reached: Rows) -> int:
        """Count the stored integers, for memory limits."""
        return sum(rows.size for rows in reached.values())

    def union(self, accesses: Sequence[Access], start: Rows) -> Rows:
        """Return the elements that a union of maps reads from the start points."""
        found: Rows = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                more = self.through(start, shortest(access), AS_THEY_ARE)
                found = self.join(found, more) if more else found
        return found

    def results(self, m: IndexingMap, index: Ints, names: Names) -> tuple[Ints, Ints]:
        """Return, for each result of the map, the row it comes from and the result.

        Range variables take all their values.  Shapes `[n]` and `[n, results]`.

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
        """Return the number of values of a range variable; a few if it has no end."""
        if interval.hi < POS_INF:
            return interval.size
        self._values.drawn = True
        return A_FEW

    def _read(self, m: IndexingMap, at: dict[Var, Any], names: Names, count: int) -> None:
        """Add the values of the runtime variables to `at`, in order of dependence.

        Raises:
            UndecidedError: They depend on each other.
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


def first_difference(one: Rows, other: Rows) -> tuple[int, ...] | None:
    """Return a row of `one` that `other` does not have; `None` if there is none."""
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
