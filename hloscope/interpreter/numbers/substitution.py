"""Triangular systems and LU factors, for all matrices of a batch at once."""

from __future__ import annotations

import numpy as np

from hloscope.interpreter.values import Array


def substitute(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    """Return the `x` of `a @ x = b` for a triangular `a`; the other triangle is not read.

    >>> a = np.array([[2.0, 9.0], [1.0, 4.0]])
    >>> substitute(a, np.array([[2.0], [9.0]]), lower=True, unit=False).ravel().tolist()
    [1.0, 2.0]
    """
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    x = np.broadcast_to(b, shape).copy()
    size = a.shape[-1]
    for i in range(size) if lower else reversed(range(size)):
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
        rest = slice(i + 1, None) if lower else slice(0, i)
        x[..., rest, :] -= a[..., rest, i, None] * x[..., i, None, :]
    return x


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return both LU factors in one matrix, the pivot rows and `info`.

    Pivot k, counted from 1, is the row that row k was exchanged with.  `info` is the first column
    without a nonzero pivot, counted from 1, or 0.
    Source: LAPACK `getrf`.

    >>> factors, rows, info = lu(np.array([[1.0, 2.0], [4.0, 2.0]]))
    >>> factors.tolist(), rows.tolist(), int(info)
    ([[4.0, 2.0], [0.25, 1.5]], [2, 2], 0)
    """
    rows, columns = a.shape[-2:]
    x = a.reshape(-1, rows, columns).copy()
    each = np.arange(len(x))
    pivots = np.zeros((len(x), min(rows, columns)), np.int32)
    info = np.zeros(len(x), np.int32)
    for k in range(pivots.shape[1]):
        column = x[:, k:, k]
        size = np.abs(column.real) + np.abs(column.imag)
        # LAPACK compares magnitudes of complex numbers by the sum of their parts.
        row = k + np.argmax(size, axis=1)
        pivots[:, k] = row + 1
        x[each, k], x[each, row] = x[each, row], x[each, k]
        pivot = x[:, k, k]
        info = np.where((info == 0) & (pivot == 0), k + 1, info).astype(np.int32)
        x[:, k + 1 :, k] /= np.where(pivot == 0, pivot.dtype.type(1), pivot)[:, None]
        x[:, k + 1 :, k + 1 :] -= x[:, k + 1 :, k, None] * x[:, k, None, k + 1 :]
    batch = a.shape[:-2]
    return x.reshape(a.shape), pivots.reshape(*batch, pivots.shape[1]), info.reshape(batch)
