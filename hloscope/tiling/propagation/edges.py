"""Cut-off of tiles at array edges, and whether propagation preserves it.

A tile contains the indices in `[0, upper_bound)` only. A rule that shifts indices upwards loses the
lower cut. A rule that drops dimensions loses the information that there may be no index at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloscope.affine import Const, Dim, Product, Range
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile


def starts_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds show that no index of the tile is negative?"""
    return space.bounds(tile.offset).lo >= 0


def ends_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds show that no index of the tile is cut off at its upper bound?"""
    return space.bounds(tile.upper_bound - tile.last).lo >= 1


def has_element(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds show that every tile contains its first index, or every tile its last?"""
    if space.bounds(tile.size).lo < 1:
        return False
    if space.bounds(tile.last).lo >= 0 and ends_inside(space, tile):
        return True
    if not starts_inside(space, tile):
        return False
    return _is_own(space, tile) or space.bounds(tile.upper_bound - tile.offset).lo >= 1


def _is_own(space: TilingSpace, tile: DimTile) -> bool:
    """Is it the tile of a whole dimension, all of whose tiles begin inside?"""
    match tile.offset:
        case Product((Dim(i), Range(j))) if i == j:
            size = space.dimensions[i].size
            return size > 0 and tile.upper_bound == Const(size)
        case _:
            return False


def maybe_empty(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Return why a tile may have no element in these dimensions; empty if it has one."""
    if all(has_element(space, tile) for tile in tiles):
        return ""
    return "tiles may lie wholly outside of a dimension that is dropped"


def lost_start(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Return why negative indices, which are cut off, may become valid; empty if they do not."""
    if all(starts_inside(space, tile) for tile in tiles):
        return ""
    return "indices cut off below 0 are not cut off any more"


def joined(*reasons: str) -> str:
    """Return the distinct reasons in one text."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
