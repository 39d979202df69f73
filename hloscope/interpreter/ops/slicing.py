"""Slices with static and run-time starts; results are views of the operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloscope.interpreter.registry import Kernel, Site, Writing, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, dtype_of
from hloscope.ir import TensorType, Type
from hloscope.ops import DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice


@evaluates(Slice)
def _slice(op: Slice, at: Site) -> Kernel:
    """Return the kernel of `slice`; if sizes are unknown, limits are checked at run time."""
    index = tuple(map(slice, op.start_indices, op.limit_indices, op.strides))
    (operand,), limits, sizes = at.operands, op.limit_indices, at.result.sizes
    if isinstance(operand, TensorType) and operand.is_static:
        return lambda x: x[index]

    def kernel(value: Any) -> Value:
        for size, limit, result in zip(value.shape, limits, sizes, strict=True):
            if limit > size and result is not None:
                raise EvaluationError(f"a slice up to {limit} of {size} elements")
        return value[index]  # type: ignore[no-any-return]

    return kernel


def _is_vector(at: Site, first: int) -> bool:
    """Is operand number `first` a vector of all start indices, not the first of several scalars?"""
    starts = at.operands[first:]
    return len(starts) == 1 and isinstance(starts[0], TensorType) and starts[0].rank == 1


def window(sizes: Sequence[int], part: Sequence[int], starts: Sequence[Any]) -> tuple[slice, ...]:
    """Return the index ranges of a part of an array, clamped so that the part is inside the array.

    >>> window([8], [3], [7])
    (slice(5, 8, None),)

    Args:
        sizes: Sizes of the array.
        part: Sizes of the part.
        starts: Start index of the part along each dimension.
    """
    index = []
    for whole, size, given in zip(sizes, part, starts, strict=True):
        start = min(max(int(given), 0), whole - size)
        if start < 0:
            raise EvaluationError(f"a slice of {size} elements is taken from {whole}")
        index.append(slice(start, start + size))
    return tuple(index)


Place: TypeAlias = Callable[[Sequence[Any]], tuple[slice, ...]]


def _clamp_to(whole: Type, part: Sequence[int] | None) -> Place | None:
    """Return a function from start indices to the clamped index ranges of a part of an array.

    `whole` is the type of the array, `part` the sizes of the part. The result is `None` if sizes
    are unknown or the part is larger than the array.
    """
    if not isinstance(whole, TensorType) or not whole.is_static or part is None:
        return None
    most = [size - n for size, n in zip(whole.shape, part, strict=True)]
    if min(most, default=0) < 0:
        return None
    fixed = [slice(0, n) for n in part]
    # A part that covers a dimension always starts at 0 there, whatever the start index is.
    moving = [(d, m, part[d]) for d, m in enumerate(most) if m]

    def place(starts: Sequence[Any]) -> tuple[slice, ...]:
        index = fixed.copy()
        for d, last, size in moving:
            start = int(starts[d])
            start = 0 if start < 0 else min(start, last)
            index[d] = slice(start, start + size)
        return tuple(index)

    return place


@evaluates(DynamicSlice)
def _dynamic_slice(op: DynamicSlice, at: Site) -> Kernel:
    part = op.slice_sizes
    place = _clamp_to(at.operands[0], part)
    if _is_vector(at, 1):
        return lambda x, starts: x[window(x.shape, part, starts)]
    if place is not None:
        return lambda x, *starts: x[place(starts)]
    return lambda x, *starts: x[window(x.shape, part, starts)]


@evaluates(DynamicUpdateSlice, fresh=True)
def _dynamic_update_slice(op: DynamicUpdateSlice, at: Site) -> Kernel:
    """Return the kernel of `dynamic_update_slice`.

    The start is clamped so that the update is inside the operand.
    """
    dtype = dtype_of(at.result.element)
    same = all(isinstance(t, TensorType) and dtype_of(t.element) == dtype for t in at.operands[:2])

    update_type = at.operands[1]
    known = None
    if isinstance(update_type, TensorType) and update_type.is_static:
        known = update_type.shape
    place = _clamp_to(at.operands[0], known)

    def into(value: Any, update: Any, *starts: Any) -> Value:
        index = place(starts) if place else window(value.shape, update.shape, starts)
        value[index] = update
        return value  # type: ignore[no-any-return]

    def copied(value: Any, update: Any, *starts: Any) -> Value:
        if not same:  # HLO allows mixed float widths
            value, update = value.astype(dtype), update.astype(dtype)
        # The start of an update that covers the operand is clamped to 0, so no element of the
        # operand remains.
        if value.shape == update.shape:
            return update.copy()  # type: ignore[no-any-return]
        return into(value.copy(), update, *starts)

    kernels = [copied, into]
    if _is_vector(at, 2):
        kernels = [_with_vector_of_starts(k) for k in kernels]
    return Writing(*kernels) if same and at.is_large else kernels[0]


def _with_vector_of_starts(kernel: Kernel) -> Kernel:
    """Return a kernel that takes a vector of starts, and passes its elements to `kernel`."""
    return lambda x, update, starts: kernel(x, update, *starts)


@evaluates(RealDynamicSlice)
def _real_dynamic_slice(op: RealDynamicSlice, at: Site) -> Kernel:
    """Return the kernel of `real_dynamic_slice`, whose starts, limits and strides are operands.

    The start is clamped as by `dynamic_slice`.

    Source: StableHLO `StablehloCanonicalizeDynamism.cpp`, which replaces it by a `dynamic_slice`.
    """

    def kernel(value: Array, starts: Array, limits: Array, strides: Array) -> Value:
        firsts, lasts, steps = ([int(x) for x in given] for given in (starts, limits, strides))
        parts = [last - first for first, last in zip(firsts, lasts, strict=True)]
        if min(parts, default=0) < 0 or min(steps, default=1) < 1:
            raise EvaluationError(f"no slice from {firsts} to {lasts} with strides {steps}")
        inside = window(value.shape, parts, firsts)
        index = [slice(w.start, w.stop, step) for w, step in zip(inside, steps, strict=True)]
        return np.asarray(value)[tuple(index)]

    return kernel
