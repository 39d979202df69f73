"""Ops over sliding windows: `reduce_window`, `select_and_scatter`.

All windows are computed at once: the elements at one position (tap) of all windows are a strided
view of the padded operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.conversions import promoted
from hloscope.interpreter.ops.reduction import (
    MONOIDS,
    Arrays,
    Lifted,
    dtypes,
    is_narrow,
    is_quantized,
    lifted,
)
from hloscope.interpreter.ops.shape import kept_in_padding
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, Value, claim
from hloscope.ir import TensorType
from hloscope.ops import ReduceWindow, SelectAndScatter, Window

_MOST_TAPS = 128
"""Maximum number of taps that are combined one by one if the order affects rounding.

More taps are combined axis by axis.
"""
_CALL_COST = 4000
"""Time of one numpy call, as the number of elements that numpy computes in that time."""


def padded(
    x: Array, fill: Any, padding: Sequence[tuple[int, int]], dilations: Sequence[int]
) -> Array:
    """Return the array with `fill` around its elements, and between them.

    Negative padding removes elements.

    >>> padded(np.array([1, 2, 3]), 0, [(1, -1)], [2]).tolist()
    [0, 1, 0, 2, 0]

    Args:
        x: The array.
        fill: The added element.
        padding: Number of elements added before and after, for each dimension.
        dilations: Distance between elements in the result, for each dimension.
    """
    if all(p == (0, 0) for p in padding) and all(d == 1 for d in dilations):
        return x
    shape, into, out_of = [], [], []
    for size, (low, high), step in zip(x.shape, padding, dilations, strict=True):
        length = max(low + high + ((size - 1) * step + 1 if size else 0), 0)
        own, places = kept_in_padding(size, length, low, step)
        shape.append(length)
        into.append(places)
        out_of.append(own)
    claim(prod(shape) * x.itemsize, "a padded operand")
    result = np.full(shape, fill, x.dtype)
    result[tuple(into)] = x[tuple(out_of)]
    return result


def counts(window: Window, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the number of window positions along each dimension of an array of this shape."""
    return tuple(window.positions(d, size) for d, size in enumerate(shape))


class _Slide(NamedTuple):
    """A window that slides along one axis; all sizes are in elements.

    Attributes:
        taps: Size of the window.
        dilation: Distance between taps.
        stride: Distance between positions.
        positions: Number of positions.
    """

    taps: int
    dilation: int
    stride: int
    positions: int

    def at(self, tap: int) -> slice:
        """Return the slice of the elements at tap `tap` (from 0) of all window positions."""
        start = tap * self.dilation
        return slice(start, start + (self.positions - 1) * self.stride + 1, self.stride)


def _slides(window: Window, positions: Sequence[int]) -> list[_Slide]:
    steps = window.window_dilations, window.strides, positions
    return list(map(_Slide, window.sizes, *steps))


@evaluates(ReduceWindow)
def _reduce_window(op: ReduceWindow, at: Site) -> Kernel:
    """Return the kernel of `reduce_window`, which folds tap by tap or axis by axis."""
    window = op.window
    kinds = dtypes(at.results)
    number = len(kinds)
    taps = prod(window.sizes)
    in_order = is_quantized(at.results)
    if any(isinstance(t, TensorType) and t.rank for t in at.operands[number:]):
        raise UnsupportedError("`reduce_window` begins with several elements")

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        (region,) = regions
        inits = [promoted(v, t) for v, t in zip(operands[number:], kinds, strict=True)]
        positions = counts(window, operands[0].shape)
        starts = tuple([np.broadcast_to(v, positions) for v in inits])
        if 0 in positions:
            return at.value(starts)
        items = tuple(
            [
                padded(promoted(x, t), v, window.padding, window.base_dilations)
                for x, t, v in zip(operands[:number], kinds, inits, strict=True)
            ]
        )
        body = lifted(region, kinds)
        slides = _slides(window, positions)
        # Tap by tap is the order of the specification.  Folding axis by axis changes the grouping,
        # but needs much less work for large windows.
        few = taps <= _MOST_TAPS and not _is_order_free(region, kinds[0])
        if few or in_order or not region.is_elementwise or _needs_order(region, kinds[0]):
            for tap in product(*[range(s.taps) for s in slides]):
                place = tuple([s.at(k) for s, k in zip(slides, tap, strict=True)])
                starts = body(*starts, *[x[place] for x in items])
            return at.value(starts)
        for axis in reversed(range(len(slides))):
            items = _fold_axis(body, items, axis, slides[axis])
        return at.value(body(*starts, *items))

    return kernel


def _is_order_free(region: Region, kind: np.dtype[Any]) -> bool:
    """Does the region give the same result for any order of elements of dtype `kind`?"""
    name = region.monoid
    return name in ("maximum", "minimum") or (name in MONOIDS and kind.kind in "biu")


def _needs_order(region: Region, kind: np.dtype[Any]) -> bool:
    """Is the region a sum or product of floats below 32 bits, where each step loses precision?

    `kind` is the dtype of the elements.
    """
    return region.monoid in ("add", "multiply") and is_narrow(kind)


def _fold_axis(body: Lifted, items: Arrays, axis: int, slide: _Slide) -> Arrays:
    """Return the arrays with the elements of each window along one axis combined by `body`.

    `slide` is the window. The windows are combined tap by tap or, if that is less work, by
    doubling: windows of 1, 2, 4, … taps are combined at all positions, and a window of any size is
    a sequence of these. The order of the elements is the same.
    """
    before = (slice(None),) * axis
    length = items[0].shape[axis]
    lines = max(items[0].size // max(length, 1), 1)
    doublings = 2 * (slide.taps.bit_length() - 1) * (_CALL_COST + lines * length)
    if (slide.taps - 1) * (_CALL_COST + lines * slide.positions) <= doublings:
        totals = tuple([x[(*before, slide.at(0))] for x in items])
        for tap in range(1, slide.taps):
            totals = body(*totals, *[x[(*before, slide.at(tap))] for x in items])
        return totals
    found: Arrays = ()
    taken, wide = 0, 1
    while True:
        # `taken` is the number of taps folded so far; the next part starts right after them.
        if slide.taps & wide:
            part = tuple([x[(*before, slide.at(taken))] for x in items])
            found = body(*found, *part) if found else part
            taken += wide
        if taken == slide.taps:
            return found
        step = wide * slide.dilation
        here, there = (*before, slice(None, -step)), (*before, slice(step, None))
        items = body(*[x[here] for x in items], *[x[there] for x in items])
        wide *= 2


@evaluates(SelectAndScatter)
def _select_and_scatter(op: SelectAndScatter, at: Site) -> Kernel:
    """Return the kernel of `select_and_scatter`.

    It selects a tap in every window, then adds the source element of the window to it. Padding is
    never selected.
    """
    window = op.window
    kinds = dtypes(at.results)

    def kernel(regions: tuple[Region, ...], operand: Array, source: Array, init: Array) -> Value:
        select = lifted(regions[0], (np.dtype(bool),))
        scatter = lifted(regions[1], kinds)
        nothing = ((0, 0),) * operand.ndim
        result = np.array(np.broadcast_to(promoted(init, kinds[0]), operand.shape))
        if 0 in source.shape:
            return result
        values = padded(operand, operand.dtype.type(0), window.padding, window.base_dilations)
        inside = np.ones(operand.shape, bool)
        inside = padded(inside, False, window.padding, window.base_dilations)
        sums = padded(result, init, window.padding, window.base_dilations)
        sums = np.array(sums)
        slides = _slides(window, source.shape)
        chosen = np.full(source.shape, -1)
        best = np.zeros(source.shape, operand.dtype)
        for number, tap in enumerate(product(*[range(s.taps) for s in slides])):
            place = tuple([s.at(k) for s, k in zip(slides, tap, strict=True)])
            candidate, valid = values[place], inside[place]
            (kept,) = select(best, candidate)
            taken = valid & ((chosen < 0) | ~kept)
            best = np.where(taken, candidate, best)
            chosen = np.where(taken, number, chosen)
        source = promoted(source, kinds[0])
        # Different windows select different elements by the same tap, so these can be added at
        # once.  The last tap of an element belongs to the first window that contains it, so taking
        # the taps backwards keeps the order of the windows.
        for number in sorted({*chosen.ravel().tolist()} - {-1}, reverse=True):
            tap = np.unravel_index(number, [s.taps for s in slides])
            place = tuple([s.at(int(k)) for s, k in zip(slides, tap, strict=True)])
            (total,) = scatter(sums[place], source)
            sums[place] = np.where(chosen == number, total, sums[place])
        if window.padding == nothing:
            return sums
        return unpadded(sums, result, window.padding, window.base_dilations)

    return kernel


def unpadded(
    sums: Array,
    result: Array,
    padding: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> Array:
    """Copy the elements of a padded array that are not padding back to `result`, in place.

    Elements that negative padding removed stay unchanged in `result`.

    >>> unpadded(np.array([9, 1, 9, 2, 9]), np.array([0, 0, 7]), [(1, -1)], [2]).tolist()
    [1, 2, 7]

    Args:
        sums: The padded array.
        result: Array that is changed and returned.
        padding: Number of elements added before and after, for each dimension.
        dilations: Distance in `sums` between elements of `result`, for each dimension.
    """
    lows = [low for low, _ in padding]
    kept = list(map(kept_in_padding, result.shape, sums.shape, lows, dilations))
    result[tuple([own for own, _ in kept])] = sums[tuple([places for _, places in kept])]
    return result
