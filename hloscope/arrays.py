"""Numpy and ml_dtypes, loaded when something of them is first used, and types of arrays.

A question about shapes and maps needs no arrays, and to load numpy takes longer than the answer.
Whoever may need it says `from hloscope.arrays import np` at its top, as if it were loaded there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.lazy import lazy

if TYPE_CHECKING:
    import ml_dtypes
    import numpy as np
    from numpy.typing import NDArray
else:
    ml_dtypes = lazy("ml_dtypes")
    np = lazy("numpy")

__all__ = ["Array", "Bools", "Floats", "Ints", "is_among", "ml_dtypes", "np", "sorted_unique"]

Array: TypeAlias = "NDArray[Any]"
Bools: TypeAlias = "NDArray[np.bool_]"
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"


def sorted_unique(values: Ints) -> Ints:
    """Each number of an array once, in order: `numpy.unique`, by sorting.

    Numpy 2.3 and later looks numbers up in a hash table, which takes eighty times as long where
    millions of them are different.

    >>> sorted_unique(np.array([[3, 1], [3, 2]])).tolist()
    [1, 2, 3]
    """
    found = values.reshape(-1)
    if not bool((found[1:] >= found[:-1]).all()):  # often they are in order: a tenth of the time
        found = np.sort(found)
    is_first = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    chosen: Ints = found[is_first]
    return chosen


def is_among(values: Ints, others: Ints) -> Bools:
    """Is each number one of the others?  `numpy.isin`, by sorting as `sorted_unique`.

    >>> is_among(np.array([3, 1, 7]), np.array([7, 2, 3])).tolist()
    [True, False, True]
    >>> is_among(np.array([3]), np.array([], int)).tolist()
    [False]
    """
    if not len(others):
        return np.zeros(values.shape, np.bool_)
    known = np.sort(others)
    at = np.searchsorted(known, values)
    found: Bools = known[np.minimum(at, len(known) - 1)] == values
    return found
