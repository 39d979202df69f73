"""Physical order of arrays: maps between logical indices, physical indices and addresses.

A layout lists an array's dimensions from the slowest to the fastest varying. It may cut the fastest
ones into tiles, which adds dimensions and padding. The resulting physical ("placed") index is
row-major: its linear position is the address, in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr, Interval, Range, Var, first_dims, substitute
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.reshape import linearize, reshape_map, reshaped
from hloscope.indexing.variables import Constraint, below, renamed
from hloscope.ir import BufferType, Dims, TensorType, Type, tiled_sizes


def major_to_minor(type: Type) -> Dims:
    """Return the logical dimensions from slowest to fastest varying; row-major without a layout."""
    if isinstance(type, BufferType):
        type = type.element
    if not isinstance(type, TensorType):
        return ()
    if type.layout is None or len(type.layout.minor_to_major) != type.rank:
        return tuple(range(type.rank))
    return type.layout.major_to_minor


def placed_sizes(type: TensorType) -> Dims:
    """Return the sizes of the physical index; tiles add dimensions and perhaps padding.

    >>> from hloscope.ir.types import ELEMENT_TYPES, Layout
    >>> layout = Layout((1, 0), tiles=((8, 128),))
    >>> placed_sizes(TensorType(ELEMENT_TYPES["f32"], (20, 100), layout))
    (3, 1, 8, 128)
    """
    return tuple(tiled_sizes([type.shape[k] for k in major_to_minor(type)], _tiles(type)))


def _tiles(type: TensorType) -> tuple[Dims, ...]:
    tiles = type.layout.tiles if type.layout else ()
    if any(size <= 0 for tile in tiles for size in tile):
        raise UnsupportedError("a tile that joins dimensions")
    return tiles


def place(index: Sequence[Expr], type: TensorType) -> list[Expr]:
    """Return the physical index of a logical index."""
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


def unplace(placed: Sequence[Expr], type: TensorType) -> tuple[list[Expr], list[Constraint]]:
    """Return the logical index of a physical index, and constraints that exclude padding."""
    order = major_to_minor(type)
    rest = list(placed)
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
        rest = rest[len(rest) - len(before) :]  # without the 1s in front of a longer tile
    return [rest[order.index(k)] for k in range(len(order))], padded


def _storage_bits(here: TensorType, there: TensorType) -> tuple[int, int] | None:
    """Return the bits per element in memory of both arrays, such that their bytes agree."""
    # Elements narrower than a byte may be stored unpacked or packed; the layouts decide, else the
    # sizes.
    for packed in (False, True):
        pair = tuple(
            (type.layout.element_bits if type.layout else 0)
            or (type.element.bits if packed else max(8, type.element.bits))
            for type in (here, there)
        )
        total = [prod(placed_sizes(t)) * b for t, b in zip((here, there), pair, strict=True)]
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
    placed: list[Expr] = place(first_dims(here.rank), here)
    from_sizes, to_sizes = placed_sizes(here), placed_sizes(there)
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
    index, constraints = unplace(moved[:-1] if from_bits < to_bits else moved, there)
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
    placed = place(first_dims(type.rank), type)
    address = linearize(placed, placed_sizes(type))
    found = IndexingMap(variables, results=[address])
    return found.simplify() if _tiles(type) else found


def physical_map(found: IndexingMap, here: Type, there: Type) -> IndexingMap:
    """Convert a map to the physical (major-to-minor) indices of both arrays.

    Args:
        found: A map between their logical indices.
        here: Type of the array that the map's dimensions index.
        there: Type of the array that its results index.
    """
    found = _with_dims_in_order(found, major_to_minor(here))
    return found.with_(results=[found.results[k] for k in major_to_minor(there)])


def _with_dims_in_order(found: IndexingMap, order: Dims) -> IndexingMap:
    """Reorder the dimensions of a map: dimension `k` becomes the old dimension `order[k]`."""
    if order == tuple(range(len(order))):
        return found
    new: dict[Var, Expr] = {Dim(old): Dim(k) for k, old in enumerate(order)}
    return found.with_(
        dims=[found.dims[k] for k in order],
        runtime=[renamed(variable, new) for variable in found.runtime],
        results=[substitute(e, new) for e in found.results],
        constraints=[(substitute(e, new), interval) for e, interval in found.constraints],
    )


def physical_access(access: Access, here: Type, there: Type) -> Access:
    """Convert an access to the physical indices of both arrays; see `physical_map`."""
    if access.map is None:
        return access
    replica = access.replica
    if replica is not None:
        replica = _with_dims_in_order(replica, major_to_minor(here))
    return replace(access, map=physical_map(access.map, here, there), replica=replica)
