"""Elements carried through a program one by one: rows of numpy arrays.

A row is the number of a trial, then an index, then positions in groups of collectives.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, Protocol, TypeAlias

from hloscope.affine import POS_INF, Dim, Interval, Range, Runtime, Var, evaluate_array, variables
from hloscope.arrays import Ints, is_among, np, sorted_unique
from hloscope.indexing import (
    Access,
    IndexingMap,
    Route,
    RuntimeVariable,
    behind,
    needed,
    ravel,
    shortest,
    unravel,
)
from hloscope.proof.names import AS_THEY_ARE, Names
from hloscope.simplifier import UndecidedError

Rows: TypeAlias = "dict[Route, Ints]"
"""By the collectives in whose groups positions follow the index."""

MAX_ROWS: Final = 1 << 20
"""More elements at once are too much."""
PACKED: Final = 1 << 62
"""Rows of fewer different values than this are one integer each."""
A_FEW: Final = 3
"""So many members of a group are looked at where their number is not written."""


class Reading(Protocol):
    """Tells the values of runtime variables.

    Attributes:
        drawn: Was there a value that is not known?
    """

    drawn: bool

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """The values of a variable at many indices, clamped to what it can be."""


class Touching:
    """A follower: every element reached is looked at."""

    def __init__(self, values: Reading, limit: int = MAX_ROWS) -> None:
        self._values = values
        self._limit = limit

    def start(self, points: Ints) -> Rows:
        """One trial for each point."""
        numbers = np.arange(len(points), dtype=np.int64)[:, None]
        return {(): np.concatenate([numbers, points], axis=1)}

    def through(self, reached: Rows, access: Access, names: Names) -> Rows | None:
        """What an access touches of what is reached."""
        assert access.map is not None
        rank, width = len(access.map.results), len(access.map.dims)
        found: Rows = {}
        for steps, rows in reached.items():
            if rows.shape[1] - 1 - len(steps) != width:
                raise UndecidedError("the program is inconsistent: ranks differ")
            bounds = [Interval(int(c.min()), int(c.max())) for c in rows[:, 1 + width :].T]
            m = behind(access, steps, bounds)
            source, results = self.results(m, rows[:, 1:], names)
            if len(source):
                via = steps + access.via
                kept = needed(via)
                parts = [rows[source, :1], results[:, :rank], results[:, [rank + k for k in kept]]]
                more: Rows = {
                    tuple([via[k] for k in kept]): distinct(np.concatenate(parts, axis=1))
                }
                found = self.join(found, more)
        return found or None

    def join(self, one: Rows, other: Rows) -> Rows:
        """Both together."""
        found = dict(one)
        for steps, rows in other.items():
            known = found.get(steps)
            found[steps] = rows if known is None else distinct(np.concatenate([known, rows]))
        return found

    def key(self, reached: Rows) -> Hashable:
        """The rows themselves."""
        return tuple([(steps, rows.shape, rows.tobytes()) for steps, rows in reached.items()])

    def weight(self, reached: Rows) -> int:
        """How many numbers the rows have."""
        return sum(rows.size for rows in reached.values())

    def union(self, accesses: Sequence[Access], start: Rows) -> Rows:
        """What maps of an answer say."""
        found: Rows = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                more = self.through(start, shortest(access), AS_THEY_ARE)
                found = self.join(found, more) if more else found
        return found

    def results(self, m: IndexingMap, index: Ints, names: Names) -> tuple[Ints, Ints]:
        """Row numbers and results: each index as the range variables run."""
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
        """How many values a range variable has; a few stand for all where there is no end."""
        if interval.hi < POS_INF:
            return interval.size
        self._values.drawn = True
        return A_FEW

    def _read(self, m: IndexingMap, at: dict[Var, Any], names: Names, count: int) -> None:
        """Values of the runtime variables, those that others are read with first."""
        left = [*range(len(m.runtime))]
        while left:
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


def distinct(rows: Ints) -> Ints:
    """The different rows, in order.

    >>> import numpy
    >>> distinct(numpy.array([[1, 2], [0, 5], [1, 2]])).tolist()
    [[0, 5], [1, 2]]
    """
    if not len(rows) or not rows.shape[1]:
        return rows[:1]
    low, sizes = _spans(rows)
    if prod(sizes) >= PACKED:
        return rows[np.unique(_ranks(rows), return_index=True)[1]]
    keys = sorted_unique(ravel([*(rows - low).T], sizes))
    found: Ints = np.stack(unravel(keys, sizes), axis=1) + low
    return found


def first_difference(one: Rows, other: Rows) -> tuple[int, ...] | None:
    """A row that only the first has."""
    for steps, rows in one.items():
        others = other.get(steps)
        if others is None:
            if len(rows):
                return tuple(rows[0].tolist())
            continue
        if not len(rows):
            continue
        keys, known = _keys(np.concatenate([rows, others]), len(rows))
        fresh = np.flatnonzero(~is_among(keys, known))
        if len(fresh):
            return tuple(rows[fresh[0]].tolist())
    return None


def _keys(rows: Ints, count: int) -> tuple[Ints, Ints]:
    """An integer for each row, equal for equal rows: of the first `count`, and of the others."""
    low, sizes = _spans(rows)
    keys = ravel([*(rows - low).T], sizes) if prod(sizes) < PACKED else _ranks(rows)
    return keys[:count], keys[count:]


def _ranks(rows: Ints) -> Ints:
    """An integer for each row, ordered as the rows are: columns are sorted one by one.

    To sort whole rows takes many times as long.

    >>> import numpy
    >>> _ranks(numpy.array([[1, 2**62], [-(2**62), 5], [1, 2**62], [1, 7]])).tolist()
    [5, 0, 5, 4]
    """
    ranks: Ints = np.zeros(len(rows), np.int64)
    for column in rows.T:
        ranks = np.unique(ranks, return_inverse=True)[1]
        values, places = np.unique(column, return_inverse=True)
        ranks = ranks * len(values) + places
    return ranks


def _spans(rows: Ints) -> tuple[Ints, list[int]]:
    """The least of each column, and how many values lie between it and the greatest."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    return low, [b - a + 1 for a, b in zip(low.tolist(), high.tolist(), strict=True)]
