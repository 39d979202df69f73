"""Physical order of arrays: maps between logical indices, physical indices and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from hloscope.affine import (
    ZERO,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Var,
    first_dims,
    floordiv,
    linear,
    mod,
    substitute,
)
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import Constraint, below, renamed
from hloscope.ir import BufferType, Dims, TensorType, Type, tiled_sizes

# --------------------------------------------------------------------------------------------------
# Physical order of arrays: maps between logical indices, physical indices and addresses.
#
# A layout lists an array's dimensions from the slowest to the fastest varying. It may cut the
# fastest ones into tiles, which adds dimensions and padding. The resulting physical ("placed")
# index is row-major: its linear position is the address, in elements.


def major_to_minor(type: Type) -> Dims:
    """Return the logical dimensions from the slowest to the fastest varying.

    Without a layout they are in row-major order. A buffer has the dimensions of its array; types
    that are not arrays have none.
    """
    if isinstance(type, BufferType):
        type = type.element
    if not isinstance(type, TensorType):
        return ()
    if type.layout is None or len(type.layout.minor_to_major) != type.rank:
        return tuple(range(type.rank))
    return type.layout.major_to_minor


def padded_physical_sizes(type: TensorType) -> Dims:
    """Return the sizes of the physical index with padding, from the slowest to the fastest varying.

    Tiles add dimensions, and perhaps padding.

    >>> from hloscope.ir.types import ELEMENT_TYPES, Layout
    >>> layout = Layout((1, 0), tiles=((8, 128),))
    >>> padded_physical_sizes(TensorType(ELEMENT_TYPES["f32"], (20, 100), layout))
    (3, 1, 8, 128)
    """
    return tuple(tiled_sizes([type.shape[k] for k in major_to_minor(type)], _tiles(type)))


def _tiles(type: TensorType) -> tuple[Dims, ...]:
    tiles = type.layout.tiles if type.layout else ()
    if any(size <= 0 for tile in tiles for size in tile):
        raise UnsupportedError("a tile that joins dimensions")
    return tiles


def to_physical(index: Sequence[Expr], type: TensorType) -> list[Expr]:
    """Return the physical index of a logical index, as layout and tiles define it."""
    order = major_to_minor(type)
    placed = [index[k] for k in order]
    for tile in _tiles(type):
        placed = [Const(0)] * (len(tile) - len(placed)) + placed
        cut = len(placed) - len(tile)
        tail = placed[cut:]
        outer = [e // t if t > 1 else e for e, t in zip(tail, tile, strict=True)]
        inner = [e % t if t > 1 else Const(0) for e, t in zip(tail, tile, strict=True)]
        placed = [*placed[:cut], *outer, *inner]
    return placed


def to_logical(physical: Sequence[Expr], type: TensorType) -> tuple[list[Expr], list[Constraint]]:
    """Return the logical index of a physical index, and constraints that exclude padding.

    The inverse of `to_physical`.
    """
    order = major_to_minor(type)
    rest = list(physical)
    tiles = _tiles(type)
    padded: list[Constraint] = []
    # Tiles are applied in order, so they are undone from the last to the first.
    for k in range(len(tiles) - 1, -1, -1):
        tile = tiles[k]
        before = tiled_sizes([type.shape[d] for d in order], tiles[:k])
        count = len(tile)
        outer, inner = rest[-2 * count : -count], rest[-count:]
        joined = [o * t + i for o, t, i in zip(outer, tile, inner, strict=True)]
        tiled = [*[1] * (count - len(before)), *before][-count:]
        # Only a size that the tile does not divide has padding.
        padded += [
            (e, Interval(0, size - 1))
            for e, t, size in zip(joined, tile, tiled, strict=True)
            if size % t
        ]
        rest = [*rest[: -2 * count], *joined]
        # Drop the dimensions of size 1 that were added in front for a tile of higher rank.
        rest = rest[len(rest) - len(before) :]
    return [rest[order.index(k)] for k in range(len(order))], padded


def _storage_bits(here: TensorType, there: TensorType) -> tuple[int, int] | None:
    """Return the bits per element in memory of each array, chosen so that both have equal size.

    The result is `None` if no choice gives equal sizes.
    """
    # Elements narrower than a byte may be stored unpacked or packed; the layouts decide, else the
    # sizes.
    for packed in (False, True):
        pair = tuple(
            (type.layout.element_bits if type.layout else 0)
            or (type.element.bits if packed else max(8, type.element.bits))
            for type in (here, there)
        )
        total = [
            prod(padded_physical_sizes(t)) * b for t, b in zip((here, there), pair, strict=True)
        ]
        if total[0] == total[1]:
            return pair[0], pair[1]
    return None


def _is_row_major(type: TensorType) -> bool:
    """Are the elements stored consecutively, unpacked, in row-major order?"""
    layout = type.layout
    if layout is None or len(layout.minor_to_major) != type.rank:
        return layout is None
    return layout.is_row_major and not (layout.tiles or layout.element_bits)


def bitcast_map(here: TensorType, there: TensorType) -> IndexingMap | str:
    """Return the map from an index of `here` to the element of `there` at the same address.

    A wider element of `here` covers several of `there`: a range variable numbers them. If the types
    differ in the number of bytes, the result is the reason, a string.
    """
    elements = here.num_elements
    if elements == there.num_elements and (
        not elements
        or (
            here.element.bits == there.element.bits and _is_row_major(here) and _is_row_major(there)
        )
    ):
        return reshape_map(here.shape, there.shape)
    variables = [below(size) for size in here.shape]
    bits = _storage_bits(here, there)
    if bits is None:
        return "a bitcast between arrays of different size in memory"
    placed: list[Expr] = to_physical(first_dims(here.rank), here)
    from_sizes, to_sizes = padded_physical_sizes(here), padded_physical_sizes(there)
    from_bits, to_bits = bits
    ranges = []
    if from_bits % to_bits and to_bits % from_bits:
        return f"a bitcast from elements of {from_bits} to elements of {to_bits} bits"
    # The wider type gets one more dimension that numbers its narrower parts, so both have the same
    # elements.
    parts = max(from_bits, to_bits) // min(from_bits, to_bits)
    if from_bits > to_bits:
        ranges.append(below(parts))
        placed, from_sizes = [*placed, Range(0)], (*from_sizes, parts)
    elif from_bits < to_bits:
        to_sizes = (*to_sizes, parts)
    same = from_sizes == to_sizes
    moved = placed if same else reshaped(placed, from_sizes, to_sizes)
    index, constraints = to_logical(moved[:-1] if from_bits < to_bits else moved, there)
    found = IndexingMap(variables, ranges, (), index, constraints)
    tiled = bool(_tiles(here) or _tiles(there))
    return found if same and not tiled else found.simplify().remove_unused_symbols()


def address_map(type: TensorType) -> IndexingMap:
    """Return the map from a logical index to its address, in elements from the array's start.

    >>> from hloscope.ir.types import ELEMENT_TYPES, Layout
    >>> print(address_map(TensorType(ELEMENT_TYPES["f32"], (4, 8), Layout((0, 1)))))
    (d0, d1) -> (d1 * 4 + d0), domain: d0 in [0, 3], d1 in [0, 7]
    """
    variables = [below(size) for size in type.shape]
    placed = to_physical(first_dims(type.rank), type)
    address = linearize(placed, padded_physical_sizes(type))
    found = IndexingMap(variables, results=[address])
    return found.simplify() if _tiles(type) else found


def physical_map(logical: IndexingMap, here: Type, there: Type) -> IndexingMap:
    """Return a map with logical indices converted to physical (major-to-minor) ones.

    Args:
        logical: A map between the logical indices of two arrays.
        here: Type of the array that the map's dimensions index.
        there: Type of the array that the map's results index.
    """
    logical = _with_dims_in_order(logical, major_to_minor(here))
    return logical.with_(results=[logical.results[k] for k in major_to_minor(there)])


def _with_dims_in_order(m: IndexingMap, order: Dims) -> IndexingMap:
    """Return the map with reordered dimensions: dimension `k` is the old dimension `order[k]`."""
    if order == tuple(range(len(order))):
        return m
    new: dict[Var, Expr] = {Dim(old): Dim(k) for k, old in enumerate(order)}
    return m.with_(
        dims=[m.dims[k] for k in order],
        runtime=[renamed(variable, new) for variable in m.runtime],
        results=[substitute(e, new) for e in m.results],
        constraints=[(substitute(e, new), interval) for e, interval in m.constraints],
    )


def physical_access(access: Access, here: Type, there: Type) -> Access:
    """Return the access with its map converted from logical to physical indices.

    `here` is the type of the array that the access starts from, `there` that of the accessed one.
    """
    if access.map is None:
        return access
    replica = access.replica
    if replica is not None:
        replica = _with_dims_in_order(replica, major_to_minor(here))
    return replace(access, map=physical_map(access.map, here, there), replica=replica)


# --------------------------------------------------------------------------------------------------
# Row-major reshapes, split into the smallest independent groups of dimensions.


def minimal_groups(here: Dims, there: Dims) -> tuple[tuple[slice, slice], ...]:
    """Return pairs of runs of dimensions with the same number of elements, as short as possible.

    Each pair has a slice of `here` and a slice of `there`; together the runs cover both shapes.
    Both shapes have the same, positive number of elements.

    >>> [(here.stop, there.stop) for here, there in minimal_groups((2, 4, 8), (8, 4, 2))]
    [(2, 1), (3, 3)]
    """
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(here) and j < len(there):
        start_i, start_j = i, j
        a, b = here[i], there[j]
        i, j = i + 1, j + 1
        # The smaller product grows until both are equal: that is the first common boundary of the
        # shapes.
        while a != b:
            if a < b:
                a, i = a * here[i], i + 1
            else:
                b, j = b * there[j], j + 1
        groups.append((slice(start_i, i), slice(start_j, j)))
    if i < len(here) or j < len(there):  # only dimensions of size 1 are left
        last_i, last_j = groups.pop() if groups else (slice(0, 0), slice(0, 0))
        groups.append((slice(last_i.start, len(here)), slice(last_j.start, len(there))))
    return tuple(groups)


def linearize(index: Sequence[Expr], shape: Dims) -> Expr:
    """Return the row-major linear position of an index in an array of sizes `shape`.

    >>> print(linearize(first_dims(2), (4, 8)))
    d0 * 8 + d1
    """
    terms: list[tuple[Expr, int]] = []
    stride = 1
    for e, size in zip(reversed(index), reversed(shape), strict=True):
        if size != 1:
            terms.append((e, stride))
            stride *= size
    return linear(*reversed(terms)) if terms else Const(0)


def delinearize(position: Expr, shape: Dims) -> list[Expr]:
    """Return the index at a row-major linear position, which must lie inside the shape.

    >>> print(*delinearize(*first_dims(1), (4, 8)))
    d0 / 8 d0 mod 8
    """
    index: list[Expr] = []
    stride = before = prod(shape)
    for size in shape:
        if size == 1:
            index.append(ZERO)
            continue
        stride //= size
        part = position if stride == 1 else floordiv(position, stride)
        # The first dimension needs no remainder, since the position is inside the shape.
        index.append(part if stride * size == before else mod(part, size))
    return index


def reshaped(index: Sequence[Expr], here: Dims, there: Dims) -> list[Expr]:
    """Return the index in shape `there` of the element that has `index` in shape `here`.

    Both are row-major and have the same number of elements.
    """
    results: list[Expr] = []
    # Groups keep divisions apart: a dimension that only moves to another position gets none.
    for from_, to in minimal_groups(here, there):
        if here[from_] == there[to]:
            results.extend(index[from_])
        else:
            results.extend(delinearize(linearize(index[from_], here[from_]), there[to]))
    return results


def reshape_map(here: Dims, there: Dims) -> IndexingMap:
    """Return the simplified map from an index of shape `here` to the same element in `there`.

    >>> print(reshape_map((2, 4, 4), (4, 8)))
    (d0, d1, d2) -> (d0 * 2 + d1 / 2, (d1 mod 2) * 4 + d2), domain: d0 in [0, 1], d1 in [0, 3], \
d2 in [0, 3]
    """
    variables = [below(size) for size in here]
    if prod(here) == 0:
        return IndexingMap(variables, results=[Const(0)] * len(there))
    left = [k for k, size in enumerate(here) if size != 1]
    if [here[k] for k in left] == [size for size in there if size != 1]:
        rest = iter(left)  # Most reshapes only insert or remove dimensions of size 1.
        found = IndexingMap(
            variables, results=[0 if size == 1 else Dim(next(rest)) for size in there]
        )
        found.mark_simplified()
        return found
    index = reshaped(first_dims(len(here)), here, there)
    return IndexingMap(variables, results=index).simplify()
