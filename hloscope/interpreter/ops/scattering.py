"""Combining rows of updates with rows of arrays, each update with what those before it left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hloscope.interpreter.ops.folding import lifted
from hloscope.interpreter.registry import Region
from hloscope.interpreter.values import Array

_A_ROUND: Final = 2500
"""Elements that numpy combines one after the other in the time a round takes to begin."""
_COMMUTATIVE: Final[dict[str, Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Numpy's functions of bodies that are one op; it applies them one after the other."""


class Targets(NamedTuple):
    """The rows that are written to.

    Attributes:
        shape: Number of all rows there are, and of the elements of one.
        rows: Their numbers, in the order of the updates.
        keep: The updates that are for them, `None` for all.
    """

    shape: tuple[int, int]
    rows: Array
    keep: Array | None


def combine(
    region: Region, results: Sequence[Array], targets: Targets, updates: Sequence[Array]
) -> None:
    """Write `region(row, update)` to the rows of `results`, for one update after the other.

    Args:
        region: Takes elements of all results, then of all updates; gives those of the results.
        results: Arrays of rows, which are written to.
        targets: The rows.
        updates: Arrays of rows.
    """
    rows = targets.rows
    if targets.keep is not None:
        updates = [u[targets.keep] for u in updates]
    if not len(rows):
        return
    if _takes_updates(region, results, updates):
        for result, update in zip(results, updates, strict=True):
            result[rows] = update  # of several for one row, the last one stays
        return
    body = lifted(region, [r.dtype for r in results])
    most = _most_often(rows, len(results[0]))
    if most == 1:
        _apply(body, results, rows, updates)
        return
    function = _COMMUTATIVE.get(region.monoid)
    is_faster = most * _A_ROUND > updates[0].size
    if function is not None and is_faster and results[0].dtype.kind in "biufc":
        _at(function, results[0], rows, updates[0])
        return
    for part in _rounds(rows):
        _apply(body, results, rows[part], [u[part] for u in updates])


def _takes_updates(region: Region, results: Sequence[Array], updates: Sequence[Array]) -> bool:
    """Does the body give the updates as they are?"""
    if not region.is_elementwise:
        return False
    none = [r[:0] for r in results], [u[:0] for u in updates]
    found = region(*none[0], *none[1])
    return all(a is b for a, b in zip(found, none[1], strict=True))


def _apply(body: Any, results: Sequence[Array], rows: Array, updates: Sequence[Array]) -> None:
    """Combine with rows that are all different."""
    combined = body(*[r[rows] for r in results], *updates)
    for result, value in zip(results, combined, strict=True):
        result[rows] = value


def _at(function: Any, result: Array, rows: Array, update: Array) -> None:
    """One after the other, by numpy, which is fast where the indices are one vector."""
    length = result.shape[1]
    if length != 1:
        rows = (rows[:, None] * length + np.arange(length)).reshape(-1)
    function.at(result.reshape(-1), rows, update.reshape(-1))


def _most_often(rows: Array, count: int) -> int:
    """How often the most frequent number is there."""
    if len(rows) == 1:
        return 1
    if count <= 16 * len(rows) + 1024:
        return int(np.bincount(rows, minlength=1).max())
    return int(np.unique(rows, return_counts=True)[1].max())


def _rounds(rows: Array) -> list[Array]:
    """Places of the first update of every row, of the second one of each that has two, and so on.

    >>> [part.tolist() for part in _rounds(np.array([5, 2, 5, 5, 2]))]
    [[0, 1], [2, 4], [3]]
    """
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(rows)])
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    by_number = np.argsort(number, kind="stable")
    return np.split(by_number, np.cumsum(np.bincount(number))[:-1])
