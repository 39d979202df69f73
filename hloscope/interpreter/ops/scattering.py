"""Updates of rows of arrays, each applied to the result of the updates before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hloscope.interpreter.ops.folding import lifted
from hloscope.interpreter.registry import Region
from hloscope.interpreter.values import Array

_A_ROUND: Final = 2500
"""Elements that numpy combines one by one in the time that starting a round takes."""
_COMMUTATIVE: Final[dict[str, Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Numpy functions for bodies that are one op.  Their `at` combines one element after another."""


class Targets(NamedTuple):
    """The rows that updates are written to.

    Attributes:
        shape: Number of rows of the array, and number of elements of a row.
        rows: Row of each applied update, in the order of the updates.
        keep: Indices of the applied updates; `None` for all.
    """

    shape: tuple[int, int]
    rows: Array
    keep: Array | None


def combine(
    region: Region, results: Sequence[Array], targets: Targets, updates: Sequence[Array]
) -> None:
    """Write `region(row, update)` to the rows of `results`, for one update after another.

    Args:
        region: Takes elements of all results, then of all updates; returns new elements.
        results: Arrays of rows, which are changed in place.
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
            result[rows] = update  # numpy keeps the last of several updates of one row
        return
    body = lifted(region, [r.dtype for r in results])
    most = _most_often(rows, len(results[0]))
    # No row is updated twice, so all updates are independent.
    if most == 1:
        _apply(body, results, rows, updates)
        return
    function = _COMMUTATIVE.get(region.monoid)
    is_faster = most * _A_ROUND > updates[0].size
    if function is not None and is_faster and results[0].dtype.kind in "biufc":
        _at(function, results[0], rows, updates[0])
        return
    # Within a round all rows differ, and the rounds keep the order of updates of one row.
    for part in _rounds(rows):
        _apply(body, results, rows[part], [u[part] for u in updates])


def _takes_updates(region: Region, results: Sequence[Array], updates: Sequence[Array]) -> bool:
    """Does the body return the updates unchanged?"""
    if not region.is_elementwise:
        return False
    # Tried on empty arrays: an elementwise body that returns an argument returns the same object.
    none = [r[:0] for r in results], [u[:0] for u in updates]
    found = region(*none[0], *none[1])
    return all(a is b for a, b in zip(found, none[1], strict=True))


def _apply(body: Any, results: Sequence[Array], rows: Array, updates: Sequence[Array]) -> None:
    """Combine updates with rows that are all different."""
    combined = body(*[r[rows] for r in results], *updates)
    for result, value in zip(results, combined, strict=True):
        result[rows] = value


def _at(function: Any, result: Array, rows: Array, update: Array) -> None:
    """Combine updates one after another by numpy, in flat form, for which it is fast."""
    length = result.shape[1]
    if length != 1:
        rows = (rows[:, None] * length + np.arange(length)).reshape(-1)
    function.at(result.reshape(-1), rows, update.reshape(-1))


def _most_often(rows: Array, count: int) -> int:
    """Number of occurrences of the most frequent row."""
    if len(rows) == 1:
        return 1
    if count <= 16 * len(rows) + 1024:
        return int(np.bincount(rows, minlength=1).max())
    return int(np.unique(rows, return_counts=True)[1].max())


def _rounds(rows: Array) -> list[Array]:
    """Split updates into rounds: the first update of every row, then every second one, and so on.

    Returns arrays of update indices.

    >>> [part.tolist() for part in _rounds(np.array([5, 2, 5, 5, 2]))]
    [[0, 1], [2, 4], [3]]
    """
    # A stable sort brings the updates of one row together in their order; `number` counts them.
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(rows)])
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    by_number = np.argsort(number, kind="stable")
    return np.split(by_number, np.cumsum(np.bincount(number))[:-1])
