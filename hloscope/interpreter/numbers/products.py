"""Matrix products in the arithmetic of the result's element type.

The specification leaves the order of additions open.  Small float products are computed as it is
written: products and sums are rounded one after another.  Large ones use numpy's BLAS; narrow
floats are computed in 32 bits and rounded once.  Integers use BLAS in doubles if all sums are exact
there, else numpy's own loops, which wrap around.
Source: StableHLO spec `dot_general`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.ops.folding import computing, is_narrow
from hloscope.interpreter.registry import Site
from hloscope.interpreter.values import Array, claim, dtype_of
from hloscope.ir import TensorType

_EXACT: Final = 1 << 53
"""Doubles represent all integers up to this exactly."""
_SMALL: Final = 1 << 12
"""Maximum number of products that are kept to be added in order."""


def element_of_products(at: Site) -> np.dtype[Any]:
    """Return the dtype of the result's elements, in which products are computed.

    Raises:
        UnsupportedError: The result is real, but an operand is complex.  Verifiers accept this, and
            the specification does not define it.
    """
    result = at.result.element
    for type_ in at.operands:
        if isinstance(type_, TensorType) and type_.element.kind == "complex" != result.kind:
            raise UnsupportedError(
                f"`{at.ins.op.name}` of {type_.element} cannot be evaluated in {result}",
                span=at.ins.span,
            )
    dtype: np.dtype[Any] = dtype_of(result)
    return dtype


def product(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Return `sum over k of a[…, m, k] * b[…, k, n]`, in arithmetic of `dtype`.

    >>> a = np.full((1, 2), 100, "int8")
    >>> product(a, a.T, np.dtype("int8")).tolist(), product(a, a.T, np.dtype("int32")).tolist()
    ([[32]], [[20000]])
    """
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    rows = max(prod(a.shape[:-2]), prod(b.shape[:-2])) * a.shape[-2]
    claim(rows * b.shape[-1] * computing(dtype).itemsize, "a product")
    if dtype.kind in "fc" or is_narrow(dtype):
        if 0 < a.size * b.shape[-1] <= _SMALL:
            return _in_order(a, b)
        wide = computing(dtype)
        total = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
        return np.asarray(total.astype(dtype, copy=False))
    if dtype.kind == "b":
        counted = np.matmul(a.astype(np.float32), b.astype(np.float32))
        return np.asarray(counted > 0)
    wide = computing(dtype)
    a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    # No partial sum exceeds this bound, so doubles are exact, and BLAS is much faster than numpy's
    # integer loops.
    if a.shape[-1] * _magnitude(a) * _magnitude(b) < _EXACT:
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return np.asarray(exact.astype(np.int64).astype(wide).astype(dtype, copy=False))
    return np.asarray(np.matmul(a, b).astype(dtype, copy=False))


def product_of(
    a_shape: Sequence[int], b_shape: Sequence[int], dtype: np.dtype[Any]
) -> Callable[[Array, Array], Array]:
    """Return `product` for operands of these shapes, with the method chosen in advance."""
    if dtype.kind not in "fc" and not is_narrow(dtype):
        return lambda a, b: product(a, b, dtype)
    rows = max(prod(a_shape[:-2]), prod(b_shape[:-2])) * a_shape[-2]
    wide, columns = computing(dtype), b_shape[-1]
    needed = rows * columns * wide.itemsize
    if 0 < prod(a_shape) * columns <= _SMALL:

        def small(a: Array, b: Array) -> Array:
            claim(needed, "a product")
            return _in_order(a.astype(dtype, copy=False), b.astype(dtype, copy=False))

        return small

    def large(a: Array, b: Array) -> Array:
        claim(needed, "a product")
        if a.dtype != dtype or b.dtype != dtype:
            a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        # The usual case needs no conversion of the result.
        if wide is dtype:
            return np.asarray(np.matmul(a, b))
        total = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
        return np.asarray(total.astype(dtype, copy=False))

    return large


def _magnitude(x: Array) -> int:
    """Largest magnitude of the elements; 0 for an empty array."""
    if x.size == 0:
        return 0
    return max(int(x.max()), -int(x.min()))


def _in_order(a: Array, b: Array) -> Array:
    """Products rounded one by one and added from left to right."""
    parts = a[..., None] * b[..., None, :, :]
    if a.shape[-1] > 1:
        parts = np.add.accumulate(parts, axis=-2)
    return np.asarray(parts[..., -1, :] + a.dtype.type(0))
