"""One-line statistics of an array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hloscope.interpreter.numbers.distance import is_inexact
from hloscope.interpreter.values import Array


class Statistics(NamedTuple):
    """Statistics of the elements of an array; for complex arrays, of their absolute values.

    Attributes:
        size: Number of elements.
        least: Smallest finite element; `None` if no element is finite.
        largest: Largest finite element; `None` if no element is finite.
        mean: Mean of the finite elements; `None` if no element is finite.
        nans: Number of NaNs.
        infinities: Number of infinities.
    """

    size: int
    least: Any
    largest: Any
    mean: float | None
    nans: int
    infinities: int

    def __str__(self) -> str:
        if not self.size:
            return "empty"
        if self.least is None:
            parts = []
        elif self.least == self.largest:
            parts = [f"all {self.least:g}"]
        else:
            parts = [f"{self.least:g} … {self.largest:g}", f"mean {self.mean:.4g}"]
        if self.nans:
            parts.append(f"{self.nans:,} NaN")
        if self.infinities:
            parts.append(f"{self.infinities:,} infinite")
        return ", ".join(parts)


def statistics(value: Array) -> Statistics:
    """Return the statistics of an array.

    >>> print(statistics(np.array([1.0, 4.0, np.nan])))
    1 … 4, mean 2.5, 1 NaN
    """
    array = np.asarray(value)
    numbers: Any = np.abs(array) if array.dtype.kind == "c" else array
    if numbers.dtype.kind not in "iu":
        numbers = numbers.astype(np.float64)
    nans = infinities = 0
    if is_inexact(array.dtype):
        nans, infinities = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
        if nans or infinities:
            numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return Statistics(array.size, None, None, None, nans, infinities)
    with np.errstate(over="ignore"):
        mean = float(numbers.mean(dtype=np.float64))
    return Statistics(
        array.size, numbers.min().item(), numbers.max().item(), mean, nans, infinities
    )
