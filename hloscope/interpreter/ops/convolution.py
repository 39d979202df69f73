"""Convolutions, as the product of a matrix of all windows and a matrix of the filter.

Padding and the holes of a dilated input do not take part in the sum: a NaN of the filter that meets
only these does not reach the result, as in XLA (the specification multiplies zeros).
Source: StableHLO spec `convolution`; XLA:CPU, jaxlib 0.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hloscope.interpreter.ops.contraction import element_of_products, product
from hloscope.interpreter.ops.windows import padded
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, strided
from hloscope.ops import Convolution, DynamicConv

_MOST_BYTES: Final = 1 << 25
"""Maximum bytes of one matrix of windows; more windows are multiplied in several parts."""


@evaluates(Convolution, on_reals=True, fresh=True)
def _convolution(op: Convolution, at: Site) -> Kernel:
    dtype = element_of_products(at)
    padding = op.window.padding
    return lambda lhs, rhs: convolved(op, lhs, rhs, padding, dtype)


@evaluates(DynamicConv, on_reals=True)
def _dynamic_conv(op: DynamicConv, at: Site) -> Kernel:
    dtype = element_of_products(at)

    def kernel(lhs: Array, rhs: Array, padding: Array) -> Array:
        pairs = [(int(low), int(high)) for low, high in padding.tolist()]
        return convolved(op, lhs, rhs, pairs, dtype)

    return kernel


def convolved(
    op: Convolution | DynamicConv,
    lhs: Array,
    rhs: Array,
    padding: Sequence[tuple[int, int]],
    dtype: np.dtype[Any],
) -> Array:
    """Return the convolution of `lhs` with the filter `rhs`, computed in `dtype`.

    `padding` replaces the padding of the op's window.
    """
    dims, window = op.dimensions, op.window
    spatial = len(dims.input_spatial)
    _check(op, len(padding))
    x = lhs.astype(dtype, copy=False).transpose(
        dims.input_batch, *dims.input_spatial, dims.input_feature
    )
    nothing = [(0, 0)]
    edges, holes = [*nothing, *padding, *nothing], [1, *window.base_dilations, 1]
    is_element = None
    # Zero padding gives the right sums unless the filter has infinities or NaNs, as `0 * inf` is
    # NaN.  Then a mask tells elements of the input from padding and holes.
    if dtype.kind in "fcV" and x.size and not np.isfinite(rhs).all():
        is_element = padded(np.ones_like(x[:1, ..., :1], np.bool_), np.False_, edges, holes)
    x = padded(x, dtype.type(0), edges, holes)
    kernel = rhs.astype(dtype, copy=False).transpose(
        *dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature
    )
    backwards = [slice(None, None, -1 if r else 1) for r in window.reversal]
    kernel = kernel[tuple(backwards)]
    taps = kernel.shape[:spatial]
    positions = [
        max((size - (n - 1) * dilation - 1) // stride + 1, 0) if size else 0
        for size, n, dilation, stride in zip(
            x.shape[1:-1], taps, window.window_dilations, window.strides, strict=True
        )
    ]
    windows = _windows(x, taps, positions, op)
    if is_element is None:
        result = _grouped(op, windows, kernel)
    else:
        result = _masked_sum(op, windows, _windows(is_element, taps, positions, op), kernel)
    order = (dims.output_batch, *dims.output_spatial, dims.output_feature)
    return result.transpose(np.argsort(order))


def _masked_sum(
    op: Convolution | DynamicConv, windows: Array, is_element: Array, kernel: Array
) -> Array:
    """Return a convolution whose filter has infinities or NaNs, which do not count on padding.

    Outputs in which an element is multiplied by an infinity or NaN are summed tap by tap.

    Args:
        op: The convolution.
        windows: View of all windows: batch, positions, taps, feature.
        is_element: Flags of the elements of `windows` that are not padding.
        kernel: The filter: taps, input feature, output feature.
    """
    spatial = kernel.ndim - 2
    before = (slice(None),) * (1 + spatial)
    is_finite = np.isfinite(kernel)
    # If an output meets finite filter elements only, the other ones fall on padding or holes, which
    # are 0.  Setting these filter elements to 0 then gives the same sum to the last bit.
    plain = _grouped(op, windows, np.where(is_finite, kernel, kernel.dtype.type(0)))
    total: Any = 0
    is_met: Any = False
    for tap in np.ndindex(kernel.shape[:spatial]):
        at = tuple([slice(t, t + 1) for t in tap])
        met = is_element[(*before, *tap)]
        is_met = is_met | (met & ~is_finite[tap].all(axis=0))
        total = np.where(met, total + _grouped(op, windows[(*before, *at)], kernel[at]), total)
    return np.where(is_met, total, plain).astype(kernel.dtype, copy=False)


def _check(op: Convolution | DynamicConv, paddings: int) -> None:
    """Check that the window and the padding have as many dimensions as the filter.

    Raises:
        EvaluationError: The numbers differ.
    """
    window, spatial = op.window, len(op.dimensions.kernel_spatial)
    entries = (window.strides, window.base_dilations, window.window_dilations, window.reversal)
    for found in (paddings, *map(len, entries)):
        if found != spatial:
            message = f"`{op.name}`: a window of {found} dimensions, the kernel has {spatial}"
            raise EvaluationError(message)


def _windows(
    x: Array, taps: Sequence[int], positions: Sequence[int], op: Convolution | DynamicConv
) -> Array:
    """Return a view of all windows of `x`, with the dimensions batch, positions, taps, feature.

    `taps` are the sizes of the window, `positions` the numbers of its positions.
    """
    if 0 in (*positions, *taps, x.size):
        return np.zeros((x.shape[0], *positions, *taps, x.shape[-1]), x.dtype)
    steps = x.strides[1:-1]
    strides = (
        x.strides[0],
        *(s * n for s, n in zip(steps, op.window.strides, strict=True)),
        *(s * n for s, n in zip(steps, op.window.window_dilations, strict=True)),
        x.strides[-1],
    )
    shape = (x.shape[0], *positions, *taps, x.shape[-1])
    return strided(x, shape, strides)


def _grouped(op: Convolution | DynamicConv, windows: Array, kernel: Array) -> Array:
    """Return the convolution with the dimensions batch, positions, feature.

    Groups of features or of the batch are multiplied separately.

    Args:
        op: The convolution.
        windows: View of all windows: batch, positions, taps, feature.
        kernel: The filter: taps, input feature, output feature.
    """
    groups, batches = op.feature_group_count, op.batch_group_count
    spatial = kernel.ndim - 2
    features, made = kernel.shape[-2:]
    parts = groups * batches
    batch, positions = windows.shape[0] // batches, windows.shape[1 : 1 + spatial]
    taps = kernel.shape[:spatial]
    # windows: group, batch, positions, taps, feature; kernel: group, taps * feature, made
    if batches > 1:
        windows = windows.reshape(batches, batch, *windows.shape[1:])
    else:
        windows = windows.reshape(*windows.shape[:-1], groups, features)
        windows = np.moveaxis(windows, -2, 0)
    matrix = kernel.reshape(*taps, features, parts, made // parts)
    summed = prod(taps) * features
    matrix = np.moveaxis(matrix, -2, 0).reshape(parts, summed, made // parts)
    result = np.zeros((parts, batch, *positions, made // parts), kernel.dtype)
    for part in _chunks(windows, spatial) if result.size and summed else ():
        rows = windows[part]
        table = rows.reshape(parts, prod(rows.shape[1 : 2 + spatial]), summed)
        result[part] = product(table, matrix, kernel.dtype).reshape(result[part].shape)
    return np.moveaxis(result, 0, -2).reshape(batch, *positions, made)


def _chunks(windows: Array, spatial: int) -> list[tuple[slice, ...]]:
    """Return index ranges that divide the windows into parts of at most `_MOST_BYTES` each.

    Each part is copied to a matrix. Windows overlap, so that all parts together may be much larger
    than the input. `spatial` is the number of spatial dimensions.
    """
    bytes_ = windows.size * windows.itemsize
    if bytes_ <= _MOST_BYTES:
        return [(slice(None),)]
    every = slice(None)
    batch = windows.shape[1]
    if bytes_ // batch <= _MOST_BYTES or not spatial:
        step = max(batch * _MOST_BYTES // bytes_, 1)
        return [(every, slice(i, i + step)) for i in range(0, batch, step)]
    rows = windows.shape[2]
    step = max(batch * rows * _MOST_BYTES // bytes_, 1)
    return [
        (every, slice(i, i + 1), slice(j, j + step))
        for i in range(batch)
        for j in range(0, rows, step)
    ]
