"""Products summed over dimensions, by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.products import element_of_products, product, product_of
from hloscope.interpreter.numbers.rounding import conversion
from hloscope.interpreter.ops.folding import computing
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, dtype_of
from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.ops import Dot, DotDimensions, DotGeneral, Einsum, RaggedDot, ScaledDot, UnaryEinsum

_F64: Final = ELEMENT_TYPES["f64"]


def contracted(lhs: Array, rhs: Array, dims: DotDimensions, dtype: np.dtype[Any]) -> Array:
    """The contraction: batch dimensions, free ones of `lhs`, free ones of `rhs`.

    >>> a = np.arange(6.0).reshape(2, 3)
    >>> contracted(a, a, DotDimensions((), (), (1,), (1,)), a.dtype).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    left = _free(lhs, dims.lhs_batch + dims.lhs_contracting)
    right = _free(rhs, dims.rhs_batch + dims.rhs_contracting)
    batch = [lhs.shape[d] for d in dims.lhs_batch]
    summed = _count(lhs, dims.lhs_contracting)
    a = lhs.transpose(*dims.lhs_batch, *left, *dims.lhs_contracting)
    b = rhs.transpose(*dims.rhs_batch, *dims.rhs_contracting, *right)
    a = a.reshape(*batch, _count(lhs, left), summed)
    b = b.reshape(*batch, summed, _count(rhs, right))
    shape = (*batch, *[lhs.shape[d] for d in left], *[rhs.shape[d] for d in right])
    return product(a, b, dtype).reshape(shape)


def _free(x: Array, taken: Sequence[int]) -> list[int]:
    return [d for d in range(x.ndim) if d not in taken]


def _count(x: Array, dims: Sequence[int]) -> int:
    number = 1
    for d in dims:
        number *= x.shape[d]
    return number


@evaluates(DotGeneral, on_reals=True)
def _dot_general(op: DotGeneral, at: Site) -> Kernel:
    """In arithmetic of the result's type; sums of floats are converted to integers, as by XLA."""
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
    """`contracted`, with what follows from the types worked out before."""
    lhs, rhs = at.operands
    if not (isinstance(lhs, TensorType) and isinstance(rhs, TensorType)):
        return lambda a, b: contracted(a, b, dims, dtype)
    if not (lhs.is_static and rhs.is_static):
        return lambda a, b: contracted(a, b, dims, dtype)
    free = [d for d in range(lhs.rank) if d not in dims.lhs_batch + dims.lhs_contracting]
    others = [d for d in range(rhs.rank) if d not in dims.rhs_batch + dims.rhs_contracting]
    a_order = (*dims.lhs_batch, *free, *dims.lhs_contracting)
    b_order = (*dims.rhs_batch, *dims.rhs_contracting, *others)
    batch = [lhs.shape[d] for d in dims.lhs_batch]
    summed = prod([lhs.shape[d] for d in dims.lhs_contracting])
    left, right = [lhs.shape[d] for d in free], [rhs.shape[d] for d in others]
    a_shape, b_shape = (*batch, prod(left), summed), (*batch, summed, prod(right))
    multiplied, shape = product_of(a_shape, b_shape, dtype), (*batch, *left, *right)

    def kernel(a: Array, b: Array) -> Array:
        a = a.transpose(a_order).reshape(a_shape)
        b = b.transpose(b_order).reshape(b_shape)
        return multiplied(a, b).reshape(shape)

    return kernel


@evaluates(Dot, on_reals=True)
def _dot(op: Dot, at: Site) -> Kernel:
    dtype, lhs = element_of_products(at), at.operands[0]
    if isinstance(lhs, TensorType):
        return _contraction(at, DotDimensions((), (), (lhs.rank - 1,), (0,)), dtype)

    def kernel(lhs: Array, rhs: Array) -> Array:
        return contracted(lhs, rhs, DotDimensions((), (), (lhs.ndim - 1,), (0,)), dtype)

    return kernel


@evaluates(ScaledDot)
def _scaled_dot(op: ScaledDot, at: Site) -> Kernel:
    """Each scale belongs to a block of elements along every dimension; an empty one is 1."""
    dtype = element_of_products(at)
    dims = op.dimensions

    def kernel(lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
        wide = computing(dtype)
        a, b = _scaled(lhs, lhs_scale, wide), _scaled(rhs, rhs_scale, wide)
        return contracted(a, b, dims, wide).astype(dtype, copy=False)

    return kernel


def _scaled(x: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    x = x.astype(dtype)
    if scale.ndim != x.ndim:
        return x
    for d, (size, blocks) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if blocks not in (0, size):
            scale = np.repeat(scale, size // blocks, d)
    return np.asarray(x * scale.astype(dtype))


@evaluates(RaggedDot)
def _ragged_dot(op: RaggedDot, at: Site) -> Kernel:
    """One masked product for each group: the rows of a group meet its part of `rhs`.

    A group of negative size has no rows.
    Source: CHLO `ragged_dot`: three modes by the kind of the ragged dimension.
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
            mask = _mask(op, lhs, starts[..., group], ends[..., group])
            rows = np.where(mask, lhs, lhs.dtype.type(0))
            if is_contracting:
                met = np.where(_mask_of_rhs(dims, mask, rhs), rhs, rhs.dtype.type(0))
                parts.append(contracted(rows, met, dims, dtype))
                continue
            if is_batch:
                part = contracted(rows, rhs, dims, dtype)
            else:
                axis = op.rhs_group[0]
                part = contracted(rows, rhs.take(group, axis), _without(dims, axis), dtype)
            own = _mask_of_result(dims, mask, part)
            total = np.where(own, part, dtype.type(0) if total is None else total)
        if is_contracting:
            return np.stack(parts) if parts else _nothing(at, dtype)
        return total if total is not None else _nothing(at, dtype)

    return kernel


def _mask_of_rhs(dims: DotDimensions, mask: Array, rhs: Array) -> Array:
    """The mask of `lhs`, whose free dimensions have size 1, along the dimensions of `rhs`."""
    mine = dims.lhs_batch + dims.lhs_contracting
    theirs = dims.rhs_batch + dims.rhs_contracting
    shape = [1] * rhs.ndim
    for d, e in zip(mine, theirs, strict=True):
        shape[e] = mask.shape[d]
    order = [mine[k] for k in np.argsort(theirs)]
    return mask.transpose(*order, *_free(mask, mine)).reshape(shape)


def _mask_of_result(dims: DotDimensions, mask: Array, result: Array) -> Array:
    """The mask of `lhs`, whose contracting dimensions have size 1, along those of the result."""
    kept = dims.lhs_batch + tuple(_free(mask, dims.lhs_batch + dims.lhs_contracting))
    shape = [mask.shape[d] for d in kept] + [1] * (result.ndim - len(kept))
    return mask.transpose(*kept, *dims.lhs_contracting).reshape(shape)


def _nothing(at: Site, dtype: np.dtype[Any]) -> Array:
    return np.zeros([size or 0 for size in at.result.sizes], dtype)


def _without(dims: DotDimensions, axis: int) -> DotDimensions:
    """The dimensions of `rhs` when the group dimension is gone."""
    batch = tuple(d - (d > axis) for d in dims.rhs_batch)
    contracting = tuple(d - (d > axis) for d in dims.rhs_contracting)
    return DotDimensions(dims.lhs_batch, batch, dims.lhs_contracting, contracting)


def _mask(op: RaggedDot, lhs: Array, start: Array, end: Array) -> Array:
    """Which elements of `lhs` belong to a group; bounds may differ along dimensions before it."""
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
    """Narrow floating-point numbers are rounded once; sums of booleans are `or`."""
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
