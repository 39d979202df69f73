"""Reductions, scans and `map`: a computation applied to whole slices of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.interpreter.numbers.conversions import promoted
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, Value, dtype_of
from hloscope.ir import QuantizedType, TensorType, Type
from hloscope.ops import Map, Reduce, Scan

# --------------------------------------------------------------------------------------------------
# Reductions, scans, and computations applied to each element.


def _as(kinds: list[np.dtype[Any]], values: tuple[Array, ...]) -> list[Array]:
    """Return the values converted to the dtypes `kinds`, which may be wider than their own."""
    return [promoted(x, t) for x, t in zip(values, kinds, strict=True)]


@evaluates(Reduce, fresh=True)
def _reduce(op: Reduce, at: Site) -> Kernel:
    """Return the kernel of `reduce`.

    If the order may change, numpy reduces; else whole slices are combined one after another.
    """
    axes = tuple(sorted(op.dimensions))
    kinds = dtypes(at.results)
    number = len(kinds)
    may_regroup = number == 1 and bool(axes) and not is_quantized(at.results)

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        (body,) = regions
        inputs = _as(kinds, operands[:number])
        inits = tuple(_as(kinds, operands[number:]))
        # Several results depend on each other and quantized ops round, so those are never
        # regrouped.
        if may_regroup and body.monoid in MONOIDS:
            total = reduced(body.monoid, inputs[0], axes, inits[0])
            if total is not None:
                return at.value((total,))
        kept = [d for d in range(inputs[0].ndim) if d not in axes]
        shape = [inputs[0].shape[d] for d in kept]
        count = int(np.prod([inputs[0].shape[d] for d in axes], dtype=np.int64))
        rows = tuple([x.transpose(*axes, *kept).reshape(count, *shape) for x in inputs])
        # The body may return an operand, so the results may be views.
        return at.value(tuple([x.copy() for x in fold(body, inits, rows)]))

    return kernel


@evaluates(Map)
def _map(op: Map, at: Site) -> Kernel:
    """Return the kernel of `map`, which applies the computation to elements at equal indices."""
    kinds = dtypes(at.results)

    def kernel(regions: tuple[Region, ...], *inputs: Array) -> Value:
        return lifted(regions[0], kinds)(*inputs)[0]

    return kernel


@evaluates(Scan)
def _scan(op: Scan, at: Site) -> Kernel:
    """Return the kernel of `scan`, which applies the body to one slice after another."""
    axis, number = op.scan_dimension, len(at.ins.operands) - op.num_carries
    results = at.results
    outputs = results[: len(results) - op.num_carries]
    kinds = dtypes(outputs)

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        (body,) = regions
        inputs = [np.moveaxis(x, axis, 0) for x in operands[:number]]
        state: tuple[Value, ...] = operands[number:]
        count = len(inputs[0]) if inputs else op.scan_dim_size or 0
        made: list[list[Value]] = [[] for _ in outputs]
        steps = range(count - 1, -1, -1) if op.is_reverse else range(count)
        # Each step needs the carries of the one before, but computes a whole slice at once.
        for k in steps:
            values = body(*[x[k] for x in inputs], *state)
            for parts, value in zip(made, values, strict=False):
                parts.append(value)
            state = values[len(outputs) :]
        stacked = [
            # Outputs are in the order of the inputs' slices, not of the steps.
            _stack(parts[::-1] if op.is_reverse else parts, axis, t, kind)
            for parts, t, kind in zip(made, outputs, kinds, strict=True)
        ]
        return at.value((*stacked, *state))

    return kernel


def _stack(parts: list[Any], axis: int, type_: Type, kind: np.dtype[Any]) -> Array:
    """Return the slices `parts` stacked along `axis`.

    If there are none, return zeros of shape `type_` and dtype `kind`.
    """
    if parts:
        return np.stack(parts, axis)
    assert isinstance(type_, TensorType)
    return np.zeros([size or 0 for size in type_.sizes], kind)


# --------------------------------------------------------------------------------------------------
# Reductions of arrays by a computation, on whole slices at once.
#
# Integers, minima and maxima give the same result in any order, so numpy reduces them.  So are sums
# and products of floats of 32 bits and more, where the order changes the rounding only.  Narrower
# sums and products round after every step, in the order of the elements.  Other bodies are applied
# to whole slices one by one, or pairwise if there are many: the specification allows any grouping
# that keeps the order of the elements. Source: StableHLO spec `reduce`.


Arrays: TypeAlias = tuple[Array, ...]
Lifted: TypeAlias = Callable[..., Arrays]

MONOIDS: Final[dict[str, Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Numpy function by the name of the op that is the whole body of a reduction."""
_EXTREMES: Final = ("maximum", "minimum")
_MOST_STEPS: Final = 32
"""Maximum number of slices that an element-wise body combines one by one.

More are combined in pairs.
"""


def dtypes(types: tuple[Type, ...]) -> list[np.dtype[Any]]:
    """Return the numpy dtypes of the array types among `types`."""
    return [dtype_of(t.element) for t in types if isinstance(t, TensorType)]


def is_quantized(types: Iterable[Type]) -> bool:
    """Is any of the types quantized?

    Ops on quantized values round and clamp, so their order matters.
    """
    return any(isinstance(t, TensorType) and isinstance(t.element, QuantizedType) for t in types)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Is `dtype` a float type of fewer than 32 bits?

    >>> is_narrow(np.dtype("float16")), is_narrow(np.dtype("float32"))
    (True, False)
    """
    return (dtype.kind == "f" and dtype.itemsize < 4) or (dtype.kind == "V" and not _is_tiny(dtype))


def _is_tiny(dtype: np.dtype[Any]) -> bool:
    """Is `dtype` an integer type of 4 bits or fewer, which numpy itself does not have?"""
    return dtype.kind == "V" and "int" in dtype.name


def computing(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a builtin numpy type that represents all values of `dtype`; computations use it.

    >>> computing(np.dtype("float16")), computing(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    if is_narrow(dtype):
        return np.dtype(np.float32)
    if _is_tiny(dtype):
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    return dtype


def lifted(region: Region, dtypes: Sequence[np.dtype[Any]]) -> Lifted:
    """Return a function that applies a region of scalars elementwise to arrays of equal shapes.

    Args:
        region: The region, a function of scalars.
        dtypes: Dtypes of the region's results.
    """
    if region.is_elementwise:

        def whole(*values: Array) -> Arrays:
            shape = values[0].shape
            results: tuple[Any, ...] = region(*values)
            return tuple([r if r.shape == shape else np.broadcast_to(r, shape) for r in results])

        return whole

    def each(*values: Array) -> Arrays:
        shape = values[0].shape
        results = tuple([np.empty(shape, t) for t in dtypes])
        for index in np.ndindex(shape):
            for result, value in zip(results, region(*[v[index] for v in values]), strict=True):
                result[index] = value
        return results

    return each


def fold(region: Region, inits: Arrays, items: Arrays) -> Arrays:
    """Return `body(body(init, items[0]), items[1]) …`, with slices of `items` along the first axis.

    Args:
        region: The body, a function of accumulators and items that returns new accumulators.
        inits: Initial accumulators, scalars.
        items: Arrays of one shape, of the accumulators' types.
    """
    count, shape = items[0].shape[0], items[0].shape[1:]
    body = lifted(region, [v.dtype for v in inits])
    if count > _MOST_STEPS and region.is_elementwise:
        # The grouping changes, not the order, which the specification allows.  The initial value
        # still comes first.
        items, count = _pairwise(body, items), 1
    totals = tuple([np.broadcast_to(v, shape) for v in inits])
    for k in range(count):
        totals = body(*totals, *[x[k] for x in items])
    return totals


def _pairwise(body: Lifted, items: Arrays) -> Arrays:
    """Combine neighbouring slices along the first axis in pairs by `body`, until one is left.

    The first axis of the result has size 1.
    """
    rest: Arrays = ()
    while (count := len(items[0])) > 1:
        # An odd slice at the end is folded in front of what was left over in earlier rounds, all of
        # which came after it.
        if count % 2:
            last = tuple([x[-1:] for x in items])
            rest = body(*last, *rest) if rest else last
        end = count - count % 2
        items = body(*[x[0:end:2] for x in items], *[x[1:end:2] for x in items])
    return body(*items, *rest) if rest else items


def reduced(monoid: str, x: Array, axes: tuple[int, ...], init: Array) -> Array | None:
    """Return `x` reduced over the dimensions `axes` by the op `monoid`, with initial value `init`.

    `monoid` is a key of `MONOIDS`. `None` if the op needs the order of the elements, or numpy has
    no such type.

    >>> reduced("add", np.arange(6, dtype="int32").reshape(2, 3), (1,), np.int32(10))
    array([13, 22], dtype=int32)
    """
    function, dtype = MONOIDS[monoid], x.dtype
    kind = dtype.kind
    if kind in "biu" or _is_tiny(dtype):
        wide = computing(dtype)
        total = function.reduce(
            x.astype(wide, copy=False), axes, dtype=wide, initial=wide.type(init)
        )
        return np.asarray(total).astype(dtype, copy=False)
    if monoid in _EXTREMES:
        return None if kind == "c" else _extreme(function, x, axes, init)
    if monoid not in ("add", "multiply"):
        return None
    if is_narrow(dtype):
        return _in_order(function, x, axes, init)
    return np.asarray(function.reduce(x, axes, dtype=dtype, initial=init))


def _extreme(function: Any, x: Array, axes: tuple[int, ...], init: Array) -> Array:
    """Return the maximum or minimum of `x` and `init` over the dimensions `axes`.

    `function` is numpy's maximum or minimum; +0 is greater than -0.
    """
    wide = computing(x.dtype)
    y = x.astype(wide, copy=False)
    total = np.asarray(function.reduce(y, axes, initial=init.astype(wide)))
    # Numpy takes zeros as equal and returns either sign, so the sign is decided separately: a
    # minimum is -0 if there is any -0, a maximum is +0 if there is any +0.
    zero = total == 0
    if zero.any():
        wanted = function is np.minimum
        found = ((y == 0) & (np.signbit(y) == wanted)).any(axes)
        found |= (init == 0) & (np.signbit(init.astype(wide)) == wanted)
        sign = np.where(found == wanted, -1.0, 1.0).astype(wide)
        total = np.where(zero, np.copysign(wide.type(0), sign), total)
    return total.astype(x.dtype, copy=False)


def _in_order(function: Any, x: Array, axes: tuple[int, ...], init: Array) -> Array:
    """Return the sum or product of `init` and the elements of `x` over the dimensions `axes`.

    The elements are combined in their order, by `function`, and each step is rounded.
    """
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in kept]
    count = math.prod([x.shape[d] for d in axes])  # `-1` would be ambiguous for empty arrays
    rows = x.transpose(*axes, *kept).reshape(count, *shape)
    start = np.broadcast_to(np.asarray(init, x.dtype), (1, *shape))
    # `accumulate` rounds each partial result to the type; `reduce` may not.
    return np.asarray(function.accumulate(np.concatenate((start, rows)), axis=0)[-1])
