"""Constants, and ops that rearrange elements, in tiled memory as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.conversions import packed_bits, rebit
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, claim, dtype_of
from hloscope.ir import Dims, Layout, TensorType, TupleType, Type
from hloscope.ops import (
    Bitcast,
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)

# --------------------------------------------------------------------------------------------------
# Constants, and ops that rearrange elements.
#
# Results are views where possible: broadcasts, transposes and slices copy nothing.


_SMALL: Final = 4096
"""Maximum elements of a splat that is filled instead of broadcast: later ops on it are faster."""


def _once(make: Callable[[], Value]) -> Kernel:
    """Return a kernel without operands that calls `make` at its first run only.

    Later runs return the same value.
    """
    value: Value | None = None

    def kernel() -> Value:
        nonlocal value
        # Cached, as a constant in a loop runs at every iteration.
        if value is None:
            value = make()
        return value

    return kernel


@evaluates(Constant)
def _constant(op: Constant, at: Site) -> Kernel:
    return _once(lambda: _of_type(op.literal.array(at.ins.type), at.ins.type))


def _of_type(value: Any, type_: Type) -> Value:
    """Return the value with its arrays converted to the dtypes of `type_`.

    An array of rank 0 becomes a numpy scalar, which is faster.
    """
    if isinstance(type_, TupleType):
        return tuple(map(_of_type, value, type_.elements))
    assert isinstance(type_, TensorType)
    array = np.asarray(value.astype(dtype_of(type_.element), copy=False)).view()
    array.flags.writeable = False  # every later run returns the same memory
    return array if array.shape else array[()]


@evaluates(Iota)
def _iota(op: Iota, at: Site) -> Kernel:
    sizes, dtype = known_sizes(at.result), dtype_of(at.result.element)
    return _once(lambda: iota(sizes, op.iota_dimension, dtype))


def iota(sizes: Sequence[int], dimension: int, dtype: Any) -> Array:
    """Return an array of shape `sizes` whose elements are their own index along `dimension`."""
    if 0 in sizes:
        return np.empty(sizes, dtype)
    size = sizes[dimension]
    if dtype.kind == "f" and dtype.itemsize >= 4:
        numbers = np.arange(size, dtype=dtype)
    else:
        numbers = np.arange(size).astype(dtype)
    return np.broadcast_to(spread(numbers, (dimension,), len(sizes)), tuple(sizes))


def known_sizes(type_: TensorType) -> Dims:
    """Return the sizes of a static type.

    Raises:
        EvaluationError: A size is unknown.
    """
    if not type_.is_static:
        raise EvaluationError("the size of the result is not known")
    return type_.shape


def spread(value: Array, dims: Dims, rank: int) -> Array:
    """Return a view of rank `rank` whose dimension `dims[i]` is dimension `i` of `value`.

    Other sizes are 1.
    """
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        value = value.transpose(order)
    shape = [1] * rank
    for i, size in zip(order, value.shape, strict=True):
        shape[dims[i]] = size
    return value.reshape(shape)


def broadcast(value: Array, dims: Dims, sizes: Sequence[int]) -> Array:
    """Return `value` broadcast to shape `sizes`, with its dimension `i` moved to `dims[i]`."""
    sizes = tuple(sizes)
    apart = spread(value, dims, len(sizes))
    if apart.shape == sizes:
        return apart
    if prod(sizes) > _SMALL:
        return np.broadcast_to(apart, sizes)
    whole = np.empty(sizes, value.dtype)
    whole[...] = apart
    return whole


@evaluates(BroadcastInDim)
def _broadcast_in_dim(op: BroadcastInDim, at: Site) -> Kernel:
    """Return the kernel of `broadcast_in_dim`.

    Operand dimension d becomes result dimension `broadcast_dimensions[d]`.
    """
    (operand,), result = at.operands, at.result
    dims, dtype = op.broadcast_dimensions, dtype_of(result.element)
    assert isinstance(operand, TensorType)
    if dtype_of(operand.element) != dtype:  # HLO allows mixed float widths
        return lambda x: broadcast(x.astype(dtype), dims, _broadcast_sizes(result, dims, x.shape))
    if not (operand.is_static and result.is_static):
        return lambda x: broadcast(x, dims, _broadcast_sizes(result, dims, x.shape))
    # All sizes are known: the shapes are computed once, for all runs.
    shape, apart = result.shape, [1] * result.rank
    for d, size in zip(dims, operand.shape, strict=True):
        apart[d] = size
    if list(dims) != sorted(dims):
        return lambda x: broadcast(x, dims, shape)
    if tuple(apart) == shape:
        return lambda x: x.reshape(shape)
    if prod(shape) > _SMALL:
        return lambda x: np.broadcast_to(x.reshape(apart), shape)

    def fill(value: Any) -> Value:
        whole = np.empty(shape, dtype)
        whole[...] = value.reshape(apart)
        return whole

    return fill


def _broadcast_sizes(result: TensorType, dims: Dims, of_operand: Dims) -> list[int]:
    """Return the sizes of a broadcast's result.

    Args:
        result: Declared type of the result.
        dims: Result dimension of each operand dimension.
        of_operand: Sizes of the operand; they replace unknown sizes of the result. Other unknown
            sizes become their bounds.

    Raises:
        EvaluationError: A size follows neither from the operand nor from a bound.
    """
    found = dict(zip(dims, of_operand, strict=True))
    sizes = [
        found.get(d, most) if size is None else size
        for d, (size, most) in enumerate(zip(result.sizes, result.most, strict=True))
    ]
    if None in sizes:
        raise EvaluationError("the sizes of the result do not follow from the operand")
    return [size for size in sizes if size is not None]


@evaluates(Broadcast)
def _broadcast(op: Broadcast, at: Site) -> Kernel:
    before, number = op.broadcast_sizes, len(op.broadcast_sizes)

    def kernel(value: Any) -> Value:
        dims = tuple(range(number, number + value.ndim))
        return broadcast(value, dims, (*before, *value.shape))

    return kernel


@evaluates(Reshape)
def _reshape(op: Reshape, at: Site) -> Kernel:
    """Return the kernel of `reshape`; one unknown result size follows from the operand."""
    sizes = at.result.sizes
    if None in sizes:
        bounds, places = at.result.each_bound, _source_dimensions(at.operands[0], at.result)
        if places is not None:
            return lambda x: reshaped(x, [1 if k is None else x.shape[k] for k in places])
        return lambda x: reshaped(x, _open_sizes(sizes, bounds, x.size))
    shape = at.result.shape
    if prod(shape) <= _SMALL:
        return lambda x: x.reshape(shape)
    return lambda x: reshaped(x, shape)


def reshaped(value: Array, sizes: Sequence[int]) -> Array:
    """Return an array with the shape `sizes`; a splat (one element broadcast) stays a broadcast."""
    if any(value.strides) or not value.size or prod(sizes) != value.size:
        return value.reshape(sizes)
    return np.broadcast_to(value[(0,) * value.ndim], tuple(sizes))


def _source_dimensions(operand: Type, result: TensorType) -> list[int | None] | None:
    """Return, for each result dimension of a reshape, the operand dimension that it comes from.

    It is `None` for an added dimension of size 1. The whole result is `None` if the reshape does
    more than add and drop dimensions of size 1.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> _source_dimensions(parse_type("f32[<=4,1,<=2]"), parse_type("f32[1,<=4,<=2]"))
    [None, 0, 2]
    """
    assert isinstance(operand, TensorType)
    here = [*zip(operand.sizes, operand.each_bound, strict=True)]
    there = [*zip(result.sizes, result.each_bound, strict=True)]
    kept = [k for k, (size, _) in enumerate(here) if size != 1]
    if [here[k] for k in kept] != [each for each in there if each[0] != 1]:
        return None
    places = iter(kept)
    return [None if size == 1 else next(places) for size, _ in there]


def _open_sizes(
    sizes: Sequence[int | None], bounds: Sequence[int | None], count: int
) -> tuple[int, ...]:
    """Return the sizes of an array of `count` elements, some of which are unknown.

    One unknown size follows from the others. Several unknown sizes are taken to be their bounds.

    Raises:
        EvaluationError: The sizes do not follow.
    """
    if sum(s is None for s in sizes) > 1:
        full = [b if s is None else s for s, b in zip(sizes, bounds, strict=True)]
        if None in full or prod(s for s in full if s is not None) != count:
            raise EvaluationError("the sizes of the result do not follow from the operand")
        return tuple(s for s in full if s is not None)
    rest = prod(s for s in sizes if s is not None)
    return tuple(count // max(rest, 1) if s is None else s for s in sizes)


@evaluates(Transpose)
def _transpose(op: Transpose, at: Site) -> Kernel:
    permutation = op.permutation
    if list(permutation) == sorted(permutation):
        return lambda x: x
    return lambda x: x.transpose(permutation)


@evaluates(Reverse)
def _reverse(op: Reverse, at: Site) -> Kernel:
    backwards = set(op.dimensions)
    index = tuple(slice(None, None, -1 if d in backwards else None) for d in range(at.result.rank))
    return lambda x: x[index]


@evaluates(Concatenate, fresh=True)
def _concatenate(op: Concatenate, at: Site) -> Kernel:
    axis, dtype = op.dimension, dtype_of(at.result.element)
    types = [t.element for t in at.operands if isinstance(t, TensorType)]
    if any(dtype_of(t) != dtype for t in types):  # HLO may mix widths of floats
        return lambda *parts: np.concatenate([x.astype(dtype) for x in parts], axis)
    return lambda *parts: np.concatenate(parts, axis)


# ------------------------------------------------------------------------------------- padding


@evaluates(Pad)
def _pad(op: Pad, at: Site) -> Kernel:
    """Return the kernel of `pad` with static amounts."""
    amounts = op.edge_padding_low, op.edge_padding_high, op.interior_padding
    operand, dtype = at.operands[0], dtype_of(at.result.element)
    assert isinstance(operand, TensorType)
    if dtype_of(operand.element) != dtype:  # HLO may mix widths of floats
        return lambda x, value: pad(x.astype(dtype), value, *amounts)
    if not any(map(any, amounts)):
        return lambda x, _: x
    return lambda x, value: pad(x, value, *amounts)


def pad(
    value: Array, padding: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    """Return the array with `padding` before, after and between its elements.

    `low`, `high` and `interior` have one number of elements per dimension. Negative `low` and
    `high` cut elements off.

    >>> pad(np.array([1, 2, 3]), np.array(0), [-1], [1], [1]).tolist()
    [0, 2, 0, 3, 0]
    """
    source, target, sizes = [], [], []
    for size, before, after, between in zip(value.shape, low, high, interior, strict=True):
        whole = before + size + max(size - 1, 0) * between + after
        if whole < 0:
            raise EvaluationError(f"padding makes the size {whole} of {size}")
        own, places = kept_in_padding(size, whole, before, between + 1)
        source.append(own)
        target.append(places)
        sizes.append(whole)
    if not any(interior) and max((*low, *high), default=0) <= 0:
        return value[tuple(source)]
    result = np.empty(sizes, value.dtype)
    result[...] = padding
    result[tuple(target)] = value[tuple(source)]
    return result


def kept_in_padding(size: int, length: int, low: int, step: int) -> tuple[slice, slice]:
    """Return which elements of a dimension are inside its padded form, and at which positions.

    Negative padding cuts elements off.

    Args:
        size: Number of elements of the dimension.
        length: Number of elements of the padded dimension.
        low: Position of the first element; negative if it is cut off.
        step: Distance of the elements in the padded dimension.
    """
    first = max(-(low // step), 0)
    count = max(min(size, (length - 1 - low) // step + 1) - first, 0)
    start = low + first * step
    places = slice(start, start + count * step, step) if count else slice(0, 0)
    return slice(first, first + count), places


# ------------------------------------------------------------------------------------- bitcasts


@evaluates(BitcastConvert)
def _bitcast_convert(op: BitcastConvert, at: Site) -> Kernel:
    """Return the kernel of `bitcast_convert`.

    The bits stay the same; the last dimension is split or joined if the widths differ.
    """
    (operand,), result = at.operands, at.result
    assert isinstance(operand, TensorType)
    old, new = (packed_bits(t.element, 1) for t in (operand, result))
    if not _fits(operand, old, result, new):  # in HLO a boolean has 8 bits
        old, new = (packed_bits(t.element, 8) for t in (operand, result))
    dtype = dtype_of(result.element)
    if old == new:
        return lambda x: rebit(x, old, new, dtype)
    if old > new:
        return lambda x: rebit(x[..., None], old, new, dtype)
    return lambda x: rebit(x, old, new, dtype)[..., 0]


def _fits(operand: TensorType, old: int, result: TensorType, new: int) -> bool:
    """Do the ranks fit a bit cast from elements of `old` bits to elements of `new` bits?

    Types of equal rank need equal widths. Otherwise the type of narrower elements has one more
    dimension at the end, whose size is the ratio of the widths or unknown.
    """
    if operand.rank == result.rank:
        return old == new
    wide, narrow = (old, new) if operand.rank < result.rank else (new, old)
    last = (operand if operand.rank > result.rank else result).sizes[-1]
    return wide > narrow and last in (None, wide // narrow)


@evaluates(Bitcast)
def _bitcast(op: Bitcast, at: Site) -> Kernel:
    """Return the kernel of HLO's `bitcast`, which reinterprets the bytes in memory order."""
    (operand,), result = at.operands, at.result
    if not isinstance(operand, TensorType):
        raise UnsupportedError("a bitcast between tuples cannot be evaluated")
    shape, dtype = known_sizes(result), dtype_of(result.element)
    # Transposed to the order of memory, the elements of both arrays are in the same sequence.
    # `back` is the inverse of the result's order.
    order, back = _major_to_minor(operand.layout, operand.rank), [0] * result.rank
    of_result = _major_to_minor(result.layout, result.rank)
    for place, d in enumerate(of_result):
        back[d] = place
    memory = tuple(shape[d] for d in of_result)
    old, new = packed_bits(operand.element, 8), packed_bits(result.element, 8)
    if old != new and operand.is_static and operand.num_elements == result.num_elements:
        raise UnsupportedError("a bitcast between floats of different precision is not evaluated")
    if not _have_equal_tiles(operand, result):
        if old != new:
            raise UnsupportedError("a bitcast between tiles of different widths is not evaluated")
        return _bitcast_of_tiles(operand, result)
    if dtype_of(operand.element) == dtype:
        return lambda x: reshaped(x.transpose(order), memory).transpose(back)

    def kernel(value: Any) -> Value:
        flat = rebit(value.transpose(order).ravel(), old, new, dtype)
        return flat.reshape(memory).transpose(back)

    return kernel


def _tiles(type: TensorType) -> tuple[Dims, ...]:
    return () if type.layout is None else type.layout.tiles


def _have_equal_tiles(a: TensorType, b: TensorType) -> bool:
    """Do the tiles of both layouts, if there are any, put the elements in the same order?"""
    if not _tiles(a) and not _tiles(b):
        return True
    sizes = []
    for type in (a, b):
        shape = known_sizes(type)
        memory = [shape[d] for d in _major_to_minor(type.layout, type.rank)]
        while memory and memory[0] == 1:
            del memory[0]
        sizes.append(memory)
    return _tiles(a) == _tiles(b) and sizes[0] == sizes[1] and len(sizes[0]) >= len(_tiles(a)[0])


def _bitcast_of_tiles(operand: TensorType, result: TensorType) -> Kernel:
    """Return a kernel from one tiled type to another that leaves each element at its address.

    Padding becomes 0.
    """
    shape, dtype = known_sizes(result), dtype_of(result.element)
    before, after = (
        elements_in_memory(known_sizes(t), _major_to_minor(t.layout, t.rank), _tiles(t))
        for t in (operand, result)
    )
    move = moved_in_memory(before, after)
    bits = packed_bits(operand.element, 8)
    return lambda x: rebit(move(x).ravel(), bits, bits, dtype).reshape(shape)


def _major_to_minor(layout: Layout | None, rank: int) -> Dims:
    """Return the dimensions from major to minor: 0, 1, … for rank `rank` without a layout."""
    return tuple(range(rank)) if layout is None else layout.major_to_minor


# --------------------------------------------------------------------------------------------------
# Order of elements in tiled memory.


NOTHING = -1
"""Number that stands for padding in the arrays that `elements_in_memory` returns."""


def elements_in_memory(sizes: Dims, order: Dims, tiles: Sequence[Dims]) -> NDArray[np.int64]:
    """Return the row-major number of the element at each address; `NOTHING` in padding.

    A tile of k sizes divides the k minor dimensions; the next tile divides that tile.

    Args:
        sizes: Shape of the array; elements are numbered in row-major order.
        order: Its dimensions from the slowest to the fastest varying.
        tiles: Sizes of tiles, the outermost first.

    Raises:
        UnsupportedError: A tile merges dimensions (`*`).

    >>> elements_in_memory((3, 4), (0, 1), [(2, 2)]).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, -1, -1, 10, 11, -1, -1]

    Source: XLA, `docs/tiled_layout.md`.
    """
    claim(8 * prod(sizes), "the order of elements in memory")
    found: NDArray[np.int64] = np.arange(prod(sizes)).reshape(sizes).transpose(order)
    for tile in tiles:
        if any(t <= 0 for t in tile):
            raise UnsupportedError("tiles that take dimensions together are not evaluated")
        found = _cut_into_tiles(found, tile)
    return found.ravel()


def _cut_into_tiles(array: NDArray[np.int64], tile: Dims) -> NDArray[np.int64]:
    """Return the array with its minor dimensions cut into tiles.

    The dimensions that number the tiles come first, those inside a tile last. Incomplete tiles are
    padded.
    """
    if array.ndim < len(tile):
        array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
    first = array.ndim - len(tile)
    minor = array.shape[first:]
    counts = [-(-n // t) for n, t in zip(minor, tile, strict=True)]
    whole = [c * t for c, t in zip(counts, tile, strict=True)]
    claim(8 * prod([*array.shape[:first], *whole]), "an array in tiles")
    edges = [(0, 0)] * first + [(0, w - n) for n, w in zip(minor, whole, strict=True)]
    padded = np.pad(array, edges, constant_values=NOTHING)
    split = padded.reshape(*array.shape[:first], *[n for pair in zip(counts, tile, strict=True)
                                                   for n in pair])  # fmt: skip
    outer = [first + 2 * k for k in range(len(tile))]
    return split.transpose(*range(first), *outer, *[k + 1 for k in outer])


def moved_in_memory(before: NDArray[np.int64], after: NDArray[np.int64]) -> Any:
    """Return a function that converts one array to another that has the same bytes in memory.

    Args:
        before: Element number of the first array at each address, from `elements_in_memory`.
        after: Element number of the second array at each address.

    An element that lies in the padding of the first array is zero.
    """
    places = min(len(before), len(after))
    there = (after[:places] != NOTHING) & (before[:places] != NOTHING)
    source, target = before[:places][there], after[:places][there]
    count = int(after.max(initial=NOTHING)) + 1

    def move(x: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros(count, x.dtype)
        found[target] = x.ravel()[source]
        return found

    return move
