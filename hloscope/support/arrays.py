"""Numpy and ml_dtypes, imported at their first use, and types of arrays.

A query about shapes and maps needs no arrays, and importing numpy takes longer than the result. A
module that may need it imports `np` from `hloscope.support.arrays` at its top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.support.lazy import lazy

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
    """Return the distinct numbers of an array in ascending order, like `numpy.unique`.

    It sorts. Numpy 2.3 and later uses a hash table, which takes eighty times as long for millions
    of distinct numbers.

    >>> sorted_unique(np.array([[3, 1], [3, 2]])).tolist()
    [1, 2, 3]
    """
    found = values.reshape(-1)
    if not bool((found[1:] >= found[:-1]).all()):  # often sorted: a tenth of the time
        found = np.sort(found)
    is_first = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    chosen: Ints = found[is_first]
    return chosen


def is_among(values: Ints, others: Ints) -> Bools:
    """Return, for each number, whether it is one of `others`, like `numpy.isin`.

    >>> is_among(np.array([3, 1, 7]), np.array([7, 2, 3])).tolist()
    [True, False, True]
    >>> is_among(np.array([3]), np.array([], int)).tolist()
    [False]
    """
    if not len(others):
        return np.zeros(values.shape, np.bool_)
    known = np.sort(others)
    # `at` is the position of the first number of `known` that is not smaller; past the end, the
    # last number is compared, which is smaller and so not equal.
    at = np.searchsorted(known, values)
    found: Bools = known[np.minimum(at, len(known) - 1)] == values
    return found
