"""Reductions of arrays by a computation, on whole slices at once.

Integers, minima and maxima give the same result in any order, so numpy reduces them.  So are sums
and products of floats of 32 bits and more, where the order changes the rounding only.  Narrower
sums and products round after every step, in the order of the elements.  Other bodies are applied to
whole slices one by one, or pairwise if there are many: the specification allows any grouping that
keeps the order of the elements.
Source: StableHLO spec `reduce`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.interpreter.registry import Region, Site
from hloscope.interpreter.values import Array, Value, dtype_of
from hloscope.ir import QuantizedType, TensorType, TupleType, Type

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
"""Numpy's function for each op that can be the whole body of a reduction."""
_EXTREMES: Final = ("maximum", "minimum")
_MOST_STEPS: Final = 32
"""Maximum number of slices that an elementwise body folds one by one; more go pairwise."""


def dtypes(types: tuple[Type, ...]) -> list[np.dtype[Any]]:
    """Numpy dtypes of the array types among `types`."""
    return [dtype_of(t.element) for t in types if isinstance(t, TensorType)]


def is_quantized(types: tuple[Type, ...]) -> bool:
    """Is any type quantized?  Each op on quantized values rounds and clamps, so order matters."""
    return any(isinstance(t, TensorType) and isinstance(t.element, QuantizedType) for t in types)


def one_or_all(at: Site, values: tuple[Value, ...]) -> Value:
    """Value of an instruction with these results: the only one, or their tuple."""
    return values if isinstance(at.ins.type, TupleType) else values[0]


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Is it a float type of fewer than 32 bits?

    >>> is_narrow(np.dtype("float16")), is_narrow(np.dtype("float32"))
    (True, False)
    """
    return (dtype.kind == "f" and dtype.itemsize < 4) or (dtype.kind == "V" and not _is_tiny(dtype))


def _is_tiny(dtype: np.dtype[Any]) -> bool:
    """Is it an integer type of 4 bits or fewer, which numpy itself does not have?"""
    return dtype.kind == "V" and "int" in dtype.name


def computing(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a builtin numpy type that holds all values of `dtype`, to compute in.

    >>> computing(np.dtype("float16")), computing(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    if is_narrow(dtype):
        return np.dtype(np.float32)
    if _is_tiny(dtype):
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    return dtype


def lifted(region: Region, dtypes: Sequence[np.dtype[Any]]) -> Lifted:
    """Return a function that applies a region of scalars to arrays of one shape.

    Args:
        region: The region.
        dtypes: Dtypes of its results.
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
    """Return `body(body(init, items[0]), items[1]) …`, along the first axis.

    Args:
        region: The body; takes accumulators, then items, and returns accumulators.
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
    """Fold neighbouring slices in rounds until one is left; its first axis has size 1."""
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
    """Reduce by one op of `MONOIDS`; `None` if the op needs the order or numpy has no such type.

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
    """Maximum or minimum over axes; +0 is greater than -0."""
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
    """Sum or product that rounds after every element, in the order of the elements."""
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in kept]
    count = math.prod([x.shape[d] for d in axes])  # `-1` would be ambiguous for empty arrays
    rows = x.transpose(*axes, *kept).reshape(count, *shape)
    start = np.broadcast_to(np.asarray(init, x.dtype), (1, *shape))
    # `accumulate` rounds each partial result to the type; `reduce` may not.
    return np.asarray(function.accumulate(np.concatenate((start, rows)), axis=0)[-1])
