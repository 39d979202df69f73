"""Contractions: dot products as matrix products in the result's element type, and einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.conversions import conversion
from hloscope.interpreter.ops.reduction import computing, is_narrow
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, claim, dtype_of
from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.ops import Dot, DotDimensions, DotGeneral, Einsum, RaggedDot, ScaledDot, UnaryEinsum

# --------------------------------------------------------------------------------------------------
# Contractions: dot products as matrix products, and einsum.


_F64: Final = ELEMENT_TYPES["f64"]


def contracted(lhs: Array, rhs: Array, dims: DotDimensions, dtype: np.dtype[Any]) -> Array:
    """Return the contraction of two arrays, computed in `dtype`.

    Its dimensions are: batch, then the free ones of `lhs`, then the free ones of `rhs`.

    >>> a = np.arange(6.0).reshape(2, 3)
    >>> contracted(a, a, DotDimensions((), (), (1,), (1,)), a.dtype).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    return _contraction_of(lhs.shape, rhs.shape, dims, dtype)(lhs, rhs)


def _contraction_of(
    lhs: Sequence[int], rhs: Sequence[int], dims: DotDimensions, dtype: np.dtype[Any]
) -> Callable[[Array, Array], Array]:
    """Return the function that computes `contracted` for arrays of the shapes `lhs` and `rhs`."""
    left = [d for d in range(len(lhs)) if d not in dims.lhs_batch + dims.lhs_contracting]
    right = [d for d in range(len(rhs)) if d not in dims.rhs_batch + dims.rhs_contracting]
    a_order = (*dims.lhs_batch, *left, *dims.lhs_contracting)
    b_order = (*dims.rhs_batch, *dims.rhs_contracting, *right)
    # Dimensions of one role (batch, free, contracting) are merged, so that one batched matrix
    # product suffices.
    batch = [lhs[d] for d in dims.lhs_batch]
    summed = prod([lhs[d] for d in dims.lhs_contracting])
    rows, columns = [lhs[d] for d in left], [rhs[d] for d in right]
    a_shape, b_shape = (*batch, prod(rows), summed), (*batch, summed, prod(columns))
    multiplied, shape = product_of(a_shape, b_shape, dtype), (*batch, *rows, *columns)

    def kernel(a: Array, b: Array) -> Array:
        a = a.transpose(a_order).reshape(a_shape)
        b = b.transpose(b_order).reshape(b_shape)
        return multiplied(a, b).reshape(shape)

    return kernel


def _free(x: Array, taken: Sequence[int]) -> list[int]:
    """Return the dimensions of `x` that are not in `taken`, in ascending order."""
    return [d for d in range(x.ndim) if d not in taken]


@evaluates(DotGeneral, on_reals=True, fresh=True)
def _dot_general(op: DotGeneral, at: Site) -> Kernel:
    """Return the kernel of `dot_general`, which computes in the type of the result.

    If the operands are floats and the result an integer, sums are converted at the end.
    """
    if len(at.ins.operands) > 2:
        raise UnsupportedError("`dot` of sparse operands cannot be evaluated", span=at.ins.span)
    result, dims = at.result.element, op.dimensions
    left, right = (t.element for t in at.operands if isinstance(t, TensorType))
    dtype = element_of_products(at)
    if result.kind in ("signed", "unsigned") and "float" in (left.kind, right.kind):
        finish, wide = conversion(_F64, result), dtype_of(_F64)
        return lambda lhs, rhs: finish(contracted(lhs, rhs, dims, wide))
    return _contraction(at, dims, dtype)


def _contraction(at: Site, dims: DotDimensions, dtype: np.dtype[Any]) -> Kernel:
    """Return a kernel that computes `contracted` with dimension numbers `dims` in `dtype`.

    If sizes are known, orders and shapes are computed here, once.
    """
    lhs, rhs = at.operands
    if not (isinstance(lhs, TensorType) and isinstance(rhs, TensorType)):
        return lambda a, b: contracted(a, b, dims, dtype)
    if not (lhs.is_static and rhs.is_static):
        return lambda a, b: contracted(a, b, dims, dtype)
    return _contraction_of(lhs.shape, rhs.shape, dims, dtype)


@evaluates(Dot, on_reals=True, fresh=True)
def _dot(op: Dot, at: Site) -> Kernel:
    """Return the kernel of `dot`.

    It contracts the last dimension of the left operand with the first of the right one.
    """
    dtype, lhs = element_of_products(at), at.operands[0]
    if isinstance(lhs, TensorType):
        return _contraction(at, DotDimensions((), (), (lhs.rank - 1,), (0,)), dtype)

    def kernel(lhs: Array, rhs: Array) -> Array:
        return contracted(lhs, rhs, DotDimensions((), (), (lhs.ndim - 1,), (0,)), dtype)

    return kernel


@evaluates(ScaledDot)
def _scaled_dot(op: ScaledDot, at: Site) -> Kernel:
    """Return the kernel of `scaled_dot`; a missing scale is 1.

    Each element of a scale applies to a block of elements of its operand along every dimension.
    """
    dtype = element_of_products(at)
    dims = op.dimensions

    def kernel(lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
        wide = computing(dtype)
        a, b = _scaled(lhs, lhs_scale, wide), _scaled(rhs, rhs_scale, wide)
        return contracted(a, b, dims, wide).astype(dtype, copy=False)

    return kernel


def _scaled(x: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    """Return the operand times its scale, each element of which is repeated over its block."""
    x = x.astype(dtype)
    if scale.ndim != x.ndim:
        return x
    for d, (size, blocks) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if blocks not in (0, size):
            scale = np.repeat(scale, size // blocks, d)
    return np.asarray(x * scale.astype(dtype))


@evaluates(RaggedDot)
def _ragged_dot(op: RaggedDot, at: Site) -> Kernel:
    """Return the kernel of `ragged_dot`: one masked product for each group of rows.

    A group of negative size has no rows.
    Source: CHLO `ragged_dot`, with three modes by the kind of the ragged dimension.
    """
    dims = op.dimensions
    dtype = element_of_products(at)
    (ragged,) = op.lhs_ragged
    is_contracting, is_batch = ragged in dims.lhs_contracting, ragged in dims.lhs_batch

    def kernel(lhs: Array, rhs: Array, group_sizes: Array) -> Array:
        counts = np.clip(group_sizes, 0, lhs.shape[ragged]).astype(np.int64)
        ends = np.cumsum(counts, -1)
        starts = ends - counts
        parts: list[Array] = []
        total: Any = None
        for group in range(group_sizes.shape[-1]):
            # Rows outside the group are zeroed, not sliced off: the bounds of a group may differ
            # along batch dimensions.
            mask = _mask(op, lhs, starts[..., group], ends[..., group])
            rows = np.where(mask, lhs, lhs.dtype.type(0))
            if is_contracting:
                # Both sides are masked, because `0 * NaN` of the other side would not be 0.
                met = np.where(_mask_of_rhs(dims, mask, rhs), rhs, rhs.dtype.type(0))
                parts.append(contracted(rows, met, dims, dtype))
                continue
            if is_batch:
                part = contracted(rows, rhs, dims, dtype)
            else:
                axis = op.rhs_group[0]
                part = contracted(rows, rhs.take(group, axis), _without(dims, axis), dtype)
            # Groups own disjoint parts of the result; what no group owns stays 0.
            own = _mask_of_result(dims, mask, part)
            total = np.where(own, part, dtype.type(0) if total is None else total)
        if is_contracting:
            return np.stack(parts) if parts else _nothing(at, dtype)
        return total if total is not None else _nothing(at, dtype)

    return kernel


def _mask_of_rhs(dims: DotDimensions, mask: Array, rhs: Array) -> Array:
    """Return a mask of `lhs` reshaped so that it broadcasts to `rhs`.

    The mask must have size 1 along the free dimensions of `lhs`.
    """
    of_lhs = dims.lhs_batch + dims.lhs_contracting
    of_rhs = dims.rhs_batch + dims.rhs_contracting
    shape = [1] * rhs.ndim
    for d, e in zip(of_lhs, of_rhs, strict=True):
        shape[e] = mask.shape[d]
    order = [of_lhs[k] for k in np.argsort(of_rhs)]
    return mask.transpose(*order, *_free(mask, of_lhs)).reshape(shape)


def _mask_of_result(dims: DotDimensions, mask: Array, result: Array) -> Array:
    """Return a mask of `lhs` reshaped so that it broadcasts to the result.

    The mask must have size 1 along the contracting dimensions of `lhs`.
    """
    kept = dims.lhs_batch + tuple(_free(mask, dims.lhs_batch + dims.lhs_contracting))
    shape = [mask.shape[d] for d in kept] + [1] * (result.ndim - len(kept))
    return mask.transpose(*kept, *dims.lhs_contracting).reshape(shape)


def _nothing(at: Site, dtype: np.dtype[Any]) -> Array:
    """Return the result of a contraction without groups: zeros of type `dtype`."""
    return np.zeros([size or 0 for size in at.result.sizes], dtype)


def _without(dims: DotDimensions, axis: int) -> DotDimensions:
    """Return the dimension numbers after `axis`, the dimension of groups, is removed from `rhs`."""
    batch = tuple(d - (d > axis) for d in dims.rhs_batch)
    contracting = tuple(d - (d > axis) for d in dims.rhs_contracting)
    return DotDimensions(dims.lhs_batch, batch, dims.lhs_contracting, contracting)


def _mask(op: RaggedDot, lhs: Array, start: Array, end: Array) -> Array:
    """Return the mask of the elements of `lhs` that belong to one group.

    They lie from index `start` to before index `end` along the ragged dimension. Both may differ
    along the dimensions before that one.
    """
    dims = op.dimensions
    (ragged,) = op.lhs_ragged
    if ragged in dims.lhs_batch:
        before = dims.lhs_batch[: dims.lhs_batch.index(ragged)]
    elif ragged in dims.lhs_contracting:
        before = dims.lhs_batch + dims.lhs_contracting[: dims.lhs_contracting.index(ragged)]
    else:
        free = _free(lhs, dims.lhs_batch + dims.lhs_contracting)
        before = dims.lhs_batch + tuple(d for d in free if d < ragged)
    shape = [1] * lhs.ndim
    shape[ragged] = lhs.shape[ragged]
    index = np.arange(lhs.shape[ragged]).reshape(shape)
    if start.ndim:
        order = np.argsort(before)
        sizes = [lhs.shape[d] if d in before else 1 for d in range(lhs.ndim)]
        start = start.transpose(order).reshape(sizes)
        end = end.transpose(order).reshape(sizes)
    return (start <= index) & (index < end)


@evaluates(Einsum, UnaryEinsum, on_reals=True)
def _einsum(op: Einsum, at: Site) -> Kernel:
    """Return the kernel of `einsum`; narrow floats are rounded once, a sum of booleans is `or`."""
    dtype = element_of_products(at)
    wide = np.dtype(np.int64) if dtype.kind == "b" else computing(dtype)
    config = op.einsum_config

    def kernel(*operands: Array) -> Array:
        values = [x.astype(wide, copy=False) for x in operands]
        try:
            total = np.asarray(np.einsum(config, *values, optimize=True))
        except ValueError as error:
            raise EvaluationError(f"operands do not fit `{config}`: {error}") from None
        return (total != 0) if dtype.kind == "b" else total.astype(dtype, copy=False)

    return kernel


# --------------------------------------------------------------------------------------------------
# Matrix products in the arithmetic of the result's element type.
#
# The specification leaves the order of additions open.  Small float products are computed as it is
# written: products and sums are rounded one after another.  Large ones use numpy's BLAS; narrow
# floats are computed in 32 bits and rounded once.  Integers use BLAS in doubles if all sums are
# exact there, else numpy's own loops, which wrap around. Source: StableHLO spec `dot_general`.


_EXACT: Final = 1 << 53
"""Integers of this magnitude or less are exact in doubles."""
_SMALL: Final = 1 << 12
"""Maximum number of products that are stored, so that they can be added in order."""


def element_of_products(at: Site) -> np.dtype[Any]:
    """Return the dtype in which products are computed: that of the result's elements.

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
    return product_of(a.shape, b.shape, dtype)(a, b)


def product_of(
    a_shape: Sequence[int], b_shape: Sequence[int], dtype: np.dtype[Any]
) -> Callable[[Array, Array], Array]:
    """Return the function that computes `product` for operands of these shapes."""
    rows = max(prod(a_shape[:-2]), prod(b_shape[:-2])) * a_shape[-2]
    wide, columns = computing(dtype), b_shape[-1]
    needed = rows * columns * wide.itemsize
    multiplied: Callable[[Array, Array], Array] = np.matmul
    if dtype.kind == "b":
        multiplied = _any_product
    elif dtype.kind not in "fc" and not is_narrow(dtype):
        multiplied = _integer_product
    elif 0 < prod(a_shape) * columns <= _SMALL:
        multiplied, wide = _in_order, dtype

    def kernel(a: Array, b: Array) -> Array:
        claim(needed, "a product")
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        total = multiplied(a.astype(wide, copy=False), b.astype(wide, copy=False))
        return np.asarray(total.astype(dtype, copy=False))

    return kernel


def _any_product(a: Array, b: Array) -> Array:
    """Return the matrix product of booleans: is any product of two elements true?"""
    return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0)


def _integer_product(a: Array, b: Array) -> Array:
    """Return the matrix product of integers, which wraps around."""
    # No partial sum exceeds this bound, so doubles are exact, and BLAS is much faster than numpy's
    # integer loops.
    if a.shape[-1] * _magnitude(a) * _magnitude(b) < _EXACT:
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return np.asarray(exact.astype(np.int64).astype(a.dtype))
    return np.asarray(np.matmul(a, b))


def _magnitude(x: Array) -> int:
    """Return the largest magnitude of the elements; 0 for an empty array."""
    if x.size == 0:
        return 0
    return max(int(x.max()), -int(x.min()))


def _in_order(a: Array, b: Array) -> Array:
    """Return the matrix product in which each product is rounded, and added from left to right."""
    parts = a[..., None] * b[..., None, :, :]
    if a.shape[-1] > 1:
        parts = np.add.accumulate(parts, axis=-2)
    return np.asarray(parts[..., -1, :] + a.dtype.type(0))
