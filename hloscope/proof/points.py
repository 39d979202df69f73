"""Elements carried through a program one by one: rows of numpy arrays.

A row is the number of a trial, then an index, then positions in replica groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hloscope.affine import Dim, Range, Runtime, Var, evaluate_array, variables
from hloscope.fusion.pool import with_replica
from hloscope.indexing import Access, IndexingMap
from hloscope.proof.graph import Names
from hloscope.proof.reads import Values
from hloscope.simplifier.isl_relations import UndecidedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "dict[int, NDArray[np.int64]]"
"""By how many positions in replica groups follow the index."""

MAX_ROWS: Final = 1 << 20
"""More elements at once are too much."""


class Touching:
    """A follower: every element reached is looked at."""

    def __init__(self, values: Values, limit: int = MAX_ROWS) -> None:
        self._values = values
        self._limit = limit

    def start(self, points: NDArray[np.int64]) -> Rows:
        """One trial for each point."""
        import numpy as np

        numbers = np.arange(len(points), dtype=np.int64)[:, None]
        return {0: np.concatenate([numbers, points], axis=1)}

    def through(self, reached: Rows, access: Access, names: Names) -> Rows | None:
        """What an access touches of what is reached."""
        import numpy as np

        assert access.map is not None
        m = with_replica(access)
        own = len(access.replica.results) if access.replica else 0
        rank = len(m.results) - own
        found: Rows = {}
        for count, rows in reached.items():
            width = rows.shape[1] - 1 - count
            if width != len(m.dims):
                raise UndecidedError("the program is inconsistent: ranks differ")
            source, results = self._results(m, rows[:, 1 : 1 + width], names)
            if len(source):
                kept = rows[source]
                parts = [kept[:, :1], results[:, :rank], kept[:, 1 + width :], results[:, rank:]]
                found[count + own] = distinct(np.concatenate(parts, axis=1))
        return found or None

    def join(self, one: Rows, other: Rows) -> Rows:
        """Both together."""
        import numpy as np

        found = dict(one)
        for count, rows in other.items():
            known = found.get(count)
            found[count] = rows if known is None else distinct(np.concatenate([known, rows]))
        return found

    def union(self, accesses: Sequence[Access], start: Rows) -> Rows:
        """What maps of an answer say."""
        found: Rows = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                more = self.through(start, access, {})
                found = self.join(found, more) if more else found
        return found

    def _results(
        self, m: IndexingMap, index: NDArray[np.int64], names: Names
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row numbers and results: each index as the range variables run."""
        import numpy as np

        if m.is_known_empty or m.is_undefined:
            return np.zeros(0, np.int64), np.zeros((0, len(m.results)), np.int64)
        inside = np.ones(len(index), np.bool_)
        for i, v in enumerate(m.dims):
            inside &= (index[:, i] >= v.interval.lo) & (index[:, i] <= v.interval.hi)
        source = np.flatnonzero(inside)
        sizes = [v.interval.size for v in m.ranges]
        if len(source) * prod(sizes) > self._limit:
            raise UndecidedError(f"it touches more than {self._limit} elements at once")
        inner = prod(sizes)
        source = np.repeat(source, inner)
        at: dict[Var, Any] = {Dim(i): index[source, i] for i in range(len(m.dims))}
        if sizes:
            grid = np.unravel_index(np.arange(inner), sizes)
            for i, v in enumerate(m.ranges):
                at[Range(i)] = np.tile(grid[i] + v.interval.lo, len(source) // max(inner, 1))
        self._read(m, at, names, len(source))
        ok = np.ones(len(source), np.bool_)
        for i, variable in enumerate(m.runtime):
            value = at[Runtime(i)]
            ok &= (value >= variable.interval.lo) & (value <= variable.interval.hi)
        for e, interval in m.constraints:
            value = evaluate_array(e, at) if variables(e) else np.asarray(int(str(e)))
            ok &= (value >= interval.lo) & (value <= interval.hi)
        columns = [np.broadcast_to(evaluate_array(e, at), len(source)) for e in m.results]
        table = np.stack(columns, axis=1) if columns else np.zeros((len(source), 0), np.int64)
        return source[ok], table[ok]

    def _read(self, m: IndexingMap, at: dict[Var, Any], names: Names, count: int) -> None:
        """Values of the runtime variables, those that others are read with first."""
        import numpy as np

        left = [*range(len(m.runtime))]
        while left:
            ready = [
                i
                for i in left
                if not any(Runtime(j) in variables(*m.runtime[i].index) for j in left)
            ]
            if not ready:
                raise UndecidedError("runtime variables depend on each other in a circle")
            for i in ready:
                v = m.runtime[i]
                index = [np.broadcast_to(evaluate_array(e, at), count) for e in v.index]
                origin = names.get(v.origin, v.origin) if v.origin else None
                read = self._values.read(origin, index, v.values, i)
                at[Runtime(i)] = np.broadcast_to(read, count)
                left.remove(i)


def distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different rows, in order.

    >>> import numpy
    >>> distinct(numpy.array([[1, 2], [0, 5], [1, 2]])).tolist()
    [[0, 5], [1, 2]]
    """
    import numpy as np

    if not len(rows) or not rows.shape[1]:
        return rows[:1]
    low, high = rows.min(axis=0), rows.max(axis=0)
    sizes = [int(n) for n in high - low + 1]
    if prod(sizes) >= 1 << 62:
        return np.unique(rows, axis=0)
    keys = np.unique(np.ravel_multi_index(tuple((rows - low).T), sizes))
    found: NDArray[np.int64] = np.stack(np.unravel_index(keys, sizes), axis=1) + low
    return found


def first_difference(one: Rows, other: Rows) -> tuple[int, ...] | None:
    """A row that only the first has."""
    import numpy as np

    for count, rows in one.items():
        others = other.get(count)
        if others is None:
            if len(rows):
                return tuple(rows[0].tolist())
            continue
        if not len(rows):
            continue
        keys, known = _keys(np.concatenate([rows, others]), len(rows))
        fresh = np.flatnonzero(~np.isin(keys, known))
        if len(fresh):
            return tuple(rows[fresh[0]].tolist())
    return None


def _keys(rows: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An integer for each row, equal for equal rows: of the first `count`, and of the others."""
    import numpy as np

    low = rows.min(axis=0)
    sizes = [int(n) for n in rows.max(axis=0) - low + 1]
    if prod(sizes) < 1 << 62:
        keys = np.ravel_multi_index(tuple((rows - low).T), sizes)
    else:
        keys = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return keys[:count], keys[count:]
