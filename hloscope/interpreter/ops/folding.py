"""Folding arrays with a computation of two groups of values, over whole arrays at once.

Integers, minima and maxima do not mind the order, so numpy's reductions make them; so they do sums
and products of wide floating-point numbers, which differ by rounding only.  Sums and products of
narrow ones (below 32 bits) round after every step, in the order of the elements.  Other bodies are
applied step by step to whole slices, or pairwise where there are many steps: the specification
leaves the order open, elements keep theirs.
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
"""Numpy's functions of the ops that fold alone."""
_EXTREMES: Final = ("maximum", "minimum")
_MOST_STEPS: Final = 32
"""Most slices that are folded one after the other with a body that takes whole slices."""


def dtypes(types: tuple[Type, ...]) -> list[np.dtype[Any]]:
    """The numpy types of results."""
    return [dtype_of(t.element) for t in types if isinstance(t, TensorType)]


def is_quantized(types: tuple[Type, ...]) -> bool:
    """Are there quantized numbers, which every op rounds and clamps?"""
    return any(isinstance(t, TensorType) and isinstance(t.element, QuantizedType) for t in types)


def one_or_all(at: Site, values: tuple[Value, ...]) -> Value:
    """The value of an instruction that has these results."""
    return values if isinstance(at.ins.type, TupleType) else values[0]


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Is it a floating-point type below 32 bits?

    >>> is_narrow(np.dtype("float16")), is_narrow(np.dtype("float32"))
    (True, False)
    """
    return (dtype.kind == "f" and dtype.itemsize < 4) or (dtype.kind == "V" and not _is_tiny(dtype))


def _is_tiny(dtype: np.dtype[Any]) -> bool:
    """Is it an integer type numpy itself does not have (4 bits and less)?"""
    return dtype.kind == "V" and "int" in dtype.name


def computing(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A type of numpy that holds all values of this one, and computes fast.

    >>> computing(np.dtype("float16")), computing(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    if is_narrow(dtype):
        return np.dtype(np.float32)
    if _is_tiny(dtype):
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    return dtype


def lifted(region: Region, dtypes: Sequence[np.dtype[Any]]) -> Lifted:
    """The region as a function of arrays of one shape.

    Args:
        region: The region, of scalars.
        dtypes: Types of its results.
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
    """`body(body(init, items[0]), items[1]) …`, along the first axis.

    Args:
        region: The body: accumulators, then items, to accumulators.
        inits: Initial accumulators, scalars.
        items: Arrays of one shape, of the accumulators' types.
    """
    count, shape = items[0].shape[0], items[0].shape[1:]
    body = lifted(region, [v.dtype for v in inits])
    if count > _MOST_STEPS and region.is_elementwise:
        items, count = _pairwise(body, items), 1
    totals = tuple([np.broadcast_to(v, shape) for v in inits])
    for k in range(count):
        totals = body(*totals, *[x[k] for x in items])
    return totals


def _pairwise(body: Lifted, items: Arrays) -> Arrays:
    """Fold neighbours until one slice is left, as an array of one."""
    rest: Arrays = ()
    while (count := len(items[0])) > 1:
        if count % 2:
            last = tuple([x[-1:] for x in items])
            rest = body(*last, *rest) if rest else last
        end = count - count % 2
        items = body(*[x[0:end:2] for x in items], *[x[1:end:2] for x in items])
    return body(*items, *rest) if rest else items


def reduced(monoid: str, x: Array, axes: tuple[int, ...], init: Array) -> Array | None:
    """The reduction by one op of `MONOIDS`; `None` if numpy has none for the type.

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
    """Maximum or minimum; zeros have a sign, the positive one is greater."""
    wide = computing(x.dtype)
    y = x.astype(wide, copy=False)
    total = np.asarray(function.reduce(y, axes, initial=init.astype(wide)))
    zero = total == 0
    if zero.any():
        wanted = function is np.minimum
        found = ((y == 0) & (np.signbit(y) == wanted)).any(axes)
        found |= (init == 0) & (np.signbit(init.astype(wide)) == wanted)
        sign = np.where(found == wanted, -1.0, 1.0).astype(wide)
        total = np.where(zero, np.copysign(wide.type(0), sign), total)
    return total.astype(x.dtype, copy=False)


def _in_order(function: Any, x: Array, axes: tuple[int, ...], init: Array) -> Array:
    """A sum or product that rounds after every element."""
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in kept]
    count = math.prod([x.shape[d] for d in axes])  # which -1 is not where nothing is kept
    rows = x.transpose(*axes, *kept).reshape(count, *shape)
    start = np.broadcast_to(np.asarray(init, x.dtype), (1, *shape))
    return np.asarray(function.accumulate(np.concatenate((start, rows)), axis=0)[-1])
