"""What of a tile is cut off at the edges, and whether that survives where the tile is carried.

A tile keeps the indices in `[0, upper_bound)`.  A rule that shifts indices upwards loses the lower
cut, one that drops dimensions loses that there may be no index at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloscope.affine import Const, Dim, Product, Range
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile


def starts_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Is no index of the tile negative, as far as bounds show?"""
    return space.bounds(tile.offset).lo >= 0


def ends_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Is no index of the tile cut off at its upper bound, as far as bounds show?"""
    return space.bounds(tile.upper_bound - tile.last).lo >= 1


def has_element(space: TilingSpace, tile: DimTile) -> bool:
    """Does every tile keep its first index, or every tile its last, as far as bounds show?"""
    if space.bounds(tile.size).lo < 1:
        return False
    if space.bounds(tile.last).lo >= 0 and ends_inside(space, tile):
        return True
    if not starts_inside(space, tile):
        return False
    return _is_own(space, tile) or space.bounds(tile.upper_bound - tile.offset).lo >= 1


def _is_own(space: TilingSpace, tile: DimTile) -> bool:
    """Is it the tile of a dimension as such, all of whose tiles begin inside?"""
    match tile.offset:
        case Product((Dim(i), Range(j))) if i == j:
            size = space.dimensions[i].size
            return size > 0 and tile.upper_bound == Const(size)
        case _:
            return False


def maybe_empty(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Why an array may be read by a tile that has no element in these dimensions; or nothing."""
    if all(has_element(space, tile) for tile in tiles):
        return ""
    return "tiles may lie wholly outside of a dimension that is dropped"


def lost_start(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Why negative indices, which are cut off, may become others; or nothing."""
    if all(starts_inside(space, tile) for tile in tiles):
        return ""
    return "indices cut off below 0 are not cut off any more"


def joined(*reasons: str) -> str:
    """Reasons in one text, each once."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
