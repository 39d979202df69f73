"""Linear positions and sorted rows of indices, with any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from hloscope.arrays import Ints, np
from hloscope.limits import MOST_ARRAY, MOST_DIMENSIONS


def unravel(flat: Any, sizes: Sequence[int]) -> list[Ints]:
    """Return the index of each linear position, one array per dimension, row-major.

    >>> import numpy
    >>> [i.tolist() for i in unravel(numpy.arange(6), (2, 3))]
    [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    >>> [int(i) for i in unravel(numpy.int64(5), (1,) * 69 + (2, 3))[-3:]]
    [0, 1, 2]
    """
    # numpy's function is faster but has limits; the loop below has none.
    if len(sizes) <= MOST_DIMENSIONS and prod(filter(None, sizes)) <= MOST_ARRAY:
        return [*np.unravel_index(flat, sizes)] if sizes else []
    index = []
    for size in reversed(sizes):
        index.append(flat % size)
        flat = flat // size
    return index[::-1]


def ravel(index: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """Return the row-major linear position of each index of at least one dimension.

    >>> import numpy
    >>> ravel(unravel(numpy.arange(6), (2, 3)), (2, 3)).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    flat = index[0]
    for i, size in zip(index[1:], sizes[1:], strict=True):
        flat = flat * size + i
    return flat


_LARGEST_KEY: Final = 1 << 62


def row_keys(rows: Ints) -> Ints:
    """Return one number per row that sorts as the rows do and is equal for equal rows.

    Numbers are compared, sorted and looked up some twenty times as fast as whole rows.

    >>> import numpy
    >>> row_keys(numpy.array([[1, 5], [0, 7], [1, 4]])).tolist()
    [5, 3, 4]
    >>> row_keys(numpy.array([[1, 2**62], [-(2**62), 5], [1, 2**62], [1, 7]])).tolist()
    [2, 0, 2, 1]
    """
    keys: Ints = np.zeros(len(rows), dtype=np.int64)
    largest = 1
    for k in range(rows.shape[1] if len(rows) else 0):
        column = rows[:, k]
        # Each column is shifted to start at 0, and its span is the radix: the key is the row-major
        # position in the bounding box.
        low = column.min()
        span = int(column.max()) - int(low) + 1
        largest *= span
        if largest > _LARGEST_KEY:
            return _ranks(rows)
        keys = keys * span + (column - low)
    return keys


def _ranks(rows: Ints) -> Ints:
    """Return, for each row, the number of different rows that are less than it."""
    order = np.lexsort(rows.T[::-1])
    is_new = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    ranks: Ints = np.zeros(len(rows), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(is_new)
    return ranks


def distinct_rows(rows: Ints) -> Ints:
    """Return the different rows, sorted.

    >>> import numpy
    >>> distinct_rows(numpy.array([[1, 2], [0, 5], [1, 2]])).tolist()
    [[0, 5], [1, 2]]
    """
    if not len(rows) or not rows.shape[1]:
        return rows[:1]
    keys = row_keys(rows)
    order = np.argsort(keys, kind="stable")
    is_new = np.ones(len(keys), dtype=np.bool_)
    is_new[1:] = keys[order[1:]] != keys[order[:-1]]
    found: Ints = rows[order[is_new]]
    return found
