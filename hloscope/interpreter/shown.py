"""Arrays as text and as one-line statistics, and comparison of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from hloscope.errors import Formatter, plain
from hloscope.interpreter.values import Array, Value, claim
from hloscope.ir import (
    FORMATS,
    ElementType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    format_float,
)
from hloscope.support.arrays import ml_dtypes

# --------------------------------------------------------------------------------------------------
# Values as multi-line text, `tensor<2xi32> {…}`, in the format of StableHLO's interpreter.


_PER_ELEMENT: Final = 64
"""Estimated bytes of memory per element, and per bracket, while the text of an array is built."""
_HALF: Final = {"c64": "f32", "c128": "f64"}


def value_text(value: Value, type_: Type, most: int | None = None, spell: Formatter = plain) -> str:
    """Return a value as text over several lines.

    Args:
        value: The value.
        type_: Its type; unknown sizes are taken from the value.
        most: Largest `text_size` of an array that is printed in full; larger ones print as `{…}`.
            `None` for no limit.
        spell: Function that writes types.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type_ = TensorType(ELEMENT_TYPES["s32"], (2, 2))
    >>> print(value_text(numpy.array([[1, 2], [3, 4]], "int32"), type_))
    s32[2,2] {
      [
        [1, 2],
        [3, 4]
      ]
    }
    """
    match type_:
        case TensorType():
            return _tensor_text(value, type_, most, spell)
        case TupleType():
            assert isinstance(value, tuple)
            parts = zip(value, type_.elements, strict=True)
            lines = ",\n".join(value_text(v, t, most, spell) for v, t in parts)
            return f"({lines})"
        case _:
            return spell(type_, "bare")


def _tensor_text(value: Any, type_: TensorType, most: int | None, spell: Formatter) -> str:
    """Return the text of an array.

    If its `text_size` exceeds `most`, the elements are replaced by `{…}`. `spell` writes types.
    """
    shape = value.shape
    head = spell(TensorType(type_.element, shape), "bare")
    if most is not None and text_size(shape) > most:
        return f"{head} {{…}}"
    # An empty array can still have very many brackets, so they are counted as well.
    claim(_PER_ELEMENT * (value.size + sum(_brackets(shape))), "the text of a value")
    texts = element_texts(value, type_.element)
    if not shape:
        return f"{head} {{{texts[0]}}}"
    return "\n".join([f"{head} {{", *_rows(texts, shape, "  "), "}"])


def text_size(shape: Sequence[int]) -> int:
    """Return the size of the text of an array: its number of elements, or of brackets if larger.

    Brackets are counted at the depth that has most of them.

    >>> text_size((4, 8)), text_size((1000, 0, 8))
    (32, 1000)
    """
    return max([prod(shape), *_brackets(shape)])


def _brackets(shape: Sequence[int]) -> list[int]:
    """Return the number of brackets at each depth in an array's text, except the outermost."""
    return [*accumulate(shape[:-1], mul)]


def _rows(texts: list[str], shape: tuple[int, ...], indent: str) -> Iterator[str]:
    """Yield the lines of a nested list, one line for each innermost row.

    Args:
        texts: Texts of the elements in row-major order.
        shape: Shape of the array.
        indent: Spaces before the outermost bracket.
    """
    if len(shape) == 1:
        yield f"{indent}[{', '.join(texts)}]"
    elif not shape[0]:
        yield f"{indent}[]"
    else:
        yield f"{indent}["
        size = prod(shape[1:])
        for row in range(shape[0]):
            lines = list(_rows(texts[row * size : (row + 1) * size], shape[1:], indent + "  "))
            lines[-1] += "," * (row < shape[0] - 1)
            yield from lines
        yield f"{indent}]"


def element_texts(value: Array, element: ElementType) -> list[str]:
    """Return the texts of the elements in row-major order, in MLIR syntax; complex as `[re, im]`.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> element_texts(numpy.array([0.5, numpy.inf], "float32"), ELEMENT_TYPES["f32"])
    ['5.000000e-01', '0x7F800000']
    """
    flat = np.ascontiguousarray(value).reshape(-1)
    if isinstance(element, QuantizedType):
        element = element.storage
    if element.name in _HALF:
        half = _float_texts(flat.view(flat.real.dtype), _HALF[element.name])
        return [f"[{a}, {b}]" for a, b in zip(half[::2], half[1::2], strict=True)]
    if element.name in FORMATS:
        return _float_texts(flat, element.name)
    if element.kind == "pred":
        return ["true" if x else "false" for x in flat]
    return [str(int(x)) for x in flat]


def _float_texts(flat: Array, name: str) -> list[str]:
    return [format_float(int(bits), name) for bits in flat.view(f"u{flat.dtype.itemsize}")]


# --------------------------------------------------------------------------------------------------
# Comparison of arrays: exact, with a tolerance, or in units in the last place.


FAR: Final = (1 << 64) - 1
"""Distance in ULPs of two different values, if one of them is not finite."""


class Difference(Struct, frozen=True, eq=False):
    """A difference between two arrays.

    Attributes:
        count: Number of elements that differ.
        size: Number of all elements.
        index: Index of the element that differs most.
        found: Its value.
        expected: The value expected there.
        off: Distance of the two values, as text.
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
    """Return the difference of two arrays whose elements must be equal; `None` if they are.

    Floats are compared by IEEE 754.

    >>> import numpy, ml_dtypes
    >>> print(exactly(numpy.array([1, 2]), numpy.array([1, 3])))
    1 of 2 elements differ; the worst at [1]: found 2, expected 3
    """
    differ = ~np.asarray(found == expected)
    return _difference(found, expected, differ, differ.astype(np.float64), lambda _: "")


def within(
    found: Array, expected: Array, tolerance: float, *, relative: bool = False
) -> Difference | None:
    """Return the difference of two arrays beyond a tolerance.

    Both parts of a complex number have to be close.  Elements that are not floats have to be equal.

    Equal elements and pairs of NaNs are close. The result is `None` if all elements are close.

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
    """Return the difference of two arrays, as distances in units in the last place (ULPs).

    The result is `None` if all pairs are at least `least` and at most `most` ULPs apart.
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
    (size_a, minus_a), (size_b, minus_b) = _magnitudes(a), _magnitudes(b)
    low, high = np.minimum(size_a, size_b), np.maximum(size_a, size_b)
    gap = np.where(minus_a == minus_b, high - low, high + low)
    x, y = a.astype(np.float64), b.astype(np.float64)
    gap = np.where(np.isfinite(x) & np.isfinite(y), gap, np.uint64(FAR))
    return np.where((x == y) | (np.isnan(x) & np.isnan(y)), np.uint64(0), gap)


def _magnitudes(a: Array) -> tuple[Array, Array]:
    """Return magnitudes and signs of floats.

    A magnitude is the number of representable numbers between 0 and the float; the sign is a mask
    of negative elements.
    """
    bits = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").astype(np.uint64).reshape(a.shape)
    if a.dtype.name == "float8_e8m0fnu":  # it has no sign
        return bits, np.zeros(a.shape, bool)
    # The bit patterns of positive floats are in the order of their values, without gaps.
    sign = np.uint64(1 << (ml_dtypes.finfo(a.dtype).bits - 1))
    return bits & (sign - np.uint64(1)), (bits & sign) != 0


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Is it a float or complex dtype, also one of ml_dtypes?

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
    """Return the difference of two arrays; `None` if no element differs.

    It shows the element marked in `differ` with the largest `distance`.

    Args:
        found: The first array.
        expected: The second array.
        differ: Flags of the elements that count as different.
        distance: Distance of each pair of elements.
        off: Returns a distance as text.
    """
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


# --------------------------------------------------------------------------------------------------
# One-line statistics of an array.


class Statistics(NamedTuple):
    """Statistics of the elements of an array; for a complex array, of their absolute values.

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
