"""Comparison of arrays: exact, with a tolerance, or in units in the last place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Struct

from hloscope.arrays import ml_dtypes
from hloscope.interpreter.values import Array

FAR: Final = (1 << 64) - 1
"""Distance of two different values of which at least one is not finite."""


class Difference(Struct, frozen=True, eq=False):
    """A difference of two arrays.

    Attributes:
        count: Number of elements that differ.
        size: Number of all elements.
        index: Index of the element that differs most.
        found: Its value.
        expected: The value expected there.
        off: Its distance, in words.
    """

    count: int
    size: int
    index: tuple[int, ...]
    found: Any
    expected: Any
    off: str

    def __str__(self) -> str:
        where = f" at {list(self.index)}" if self.index else ""
        off = f" ({self.off})" if self.off else ""
        some = f"{self.count:,} of {self.size:,} elements differ; the worst{where}: "
        return f"{some if self.size > 1 else ''}found {self.found}, expected {self.expected}{off}"


def exactly(found: Array, expected: Array) -> Difference | None:
    """Compare all elements for equality, floats by IEEE 754; `None` if they are equal.

    >>> import numpy, ml_dtypes
    >>> print(exactly(numpy.array([1, 2]), numpy.array([1, 3])))
    1 of 2 elements differ; the worst at [1]: found 2, expected 3
    """
    differ = ~np.asarray(found == expected)
    return _difference(found, expected, differ, differ.astype(np.float64), lambda _: "")


def within(
    found: Array, expected: Array, tolerance: float, *, relative: bool = False
) -> Difference | None:
    """Compare elements with a tolerance; `None` if all are close, equal or both NaN.

    Both parts of a complex number have to be close.  Elements that are not floats have to be equal.

    Args:
        found: The array.
        expected: The array it should be close to.
        tolerance: Largest allowed distance.
        relative: Divide distances by the expected magnitude where that is larger than 1.

    >>> import numpy, ml_dtypes
    >>> print(within(numpy.array([1.0, numpy.nan]), numpy.array([1.1, numpy.nan]), 0.2))
    None
    """
    if not is_inexact(found.dtype) or not is_inexact(expected.dtype):
        return exactly(found, expected)
    distance = np.zeros(found.shape)
    for a, b in zip(_parts(found), _parts(expected), strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        # Equal infinities are equal; their difference would be NaN.
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(a - b)
            if relative:
                gap = gap / np.maximum(np.abs(b), 1.0)
            gap = np.where(np.isfinite(a) & np.isfinite(b), gap, np.inf)
        distance = np.maximum(distance, np.where(same, 0.0, gap))
    differ = distance > tolerance
    of = " of max(1, |expected|)" if relative else ""
    return _difference(
        found,
        expected,
        differ,
        distance,
        lambda d: f"off by {d:.3g}{of}, tolerance {tolerance:g}",
    )


def within_ulps(found: Array, expected: Array, most: int = 1, least: int = 0) -> Difference | None:
    """Compare elements in units in the last place.

    Returns `None` if all are at least `least` and at most `most` units apart.
    """
    distance = ulps(found, expected)
    differ = (distance > most) | (distance < least)
    limits = f"at most {most}" if not least else f"{least} to {most}"
    return _difference(
        found,
        expected,
        differ,
        distance,
        lambda d: f"{'not' if d == FAR else int(d)} ULPs apart, {limits} allowed",
    )


def ulps(a: Array, b: Array) -> Array:
    """Return the distance of each pair of elements in units in the last place.

    For complex elements it is that of the part that differs more.

    Both zeros count as one value.  NaN is at distance 0 from NaN and `FAR` from all other values.

    >>> import numpy, ml_dtypes
    >>> ulps(numpy.float32([1, -1e-45]), numpy.float32([1.0000001, 1e-45])).tolist()
    [1, 2]
    """
    if not is_inexact(a.dtype):
        low, high = np.minimum(a, b), np.maximum(a, b)
        return np.asarray(high.astype(np.uint64) - low.astype(np.uint64))
    parts = [_ulps(x, y) for x, y in zip(_parts(a), _parts(b), strict=True)]
    return np.maximum(parts[0], parts[-1])


def _ulps(a: Array, b: Array) -> Array:
    (size_a, minus_a), (size_b, minus_b) = _sized(a), _sized(b)
    low, high = np.minimum(size_a, size_b), np.maximum(size_a, size_b)
    gap = np.where(minus_a == minus_b, high - low, high + low)
    x, y = a.astype(np.float64), b.astype(np.float64)
    gap = np.where(np.isfinite(x) & np.isfinite(y), gap, np.uint64(FAR))
    return np.where((x == y) | (np.isnan(x) & np.isnan(y)), np.uint64(0), gap)


def _sized(a: Array) -> tuple[Array, Array]:
    """Magnitudes as integers that count the values from zero, and a mask of negative elements."""
    bits = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").astype(np.uint64).reshape(a.shape)
    if a.dtype.name == "float8_e8m0fnu":  # it has no sign
        return bits, np.zeros(a.shape, bool)
    # The bit patterns of positive floats are in the order of their values, without gaps.
    sign = np.uint64(1 << (ml_dtypes.finfo(a.dtype).bits - 1))
    return bits & (sign - np.uint64(1)), (bits & sign) != 0


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Is it a float or complex type, also one of ml_dtypes?

    >>> import numpy, ml_dtypes
    >>> is_inexact(numpy.dtype(ml_dtypes.bfloat16)), is_inexact(numpy.dtype(ml_dtypes.int4))
    (True, False)
    """
    return dtype.kind in "fc" or (dtype.kind == "V" and "float" in dtype.name)


def _parts(array: Array) -> tuple[Array, ...]:
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def _difference(
    found: Array, expected: Array, differ: Array, distance: Array, off: Callable[[Any], str]
) -> Difference | None:
    """The worst of the elements that differ, `None` if none do; `off` describes a distance."""
    if not differ.any():
        return None
    at = int(np.argmax(np.where(differ, distance, 0).reshape(-1)))
    if not differ.reshape(-1)[at]:  # all that differ have distance 0, below the least allowed one
        at = int(np.argmax(differ.reshape(-1)))
    index = tuple(int(i) for i in np.unravel_index(at, differ.shape))
    return Difference(
        int(differ.sum()),
        differ.size,
        index,
        np.asarray(found)[index],
        np.asarray(expected)[index],
        off(distance[index]),
    )
