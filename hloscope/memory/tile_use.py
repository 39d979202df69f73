"""Block-level fusions: how well tiles of given sizes use transactions; lanes are the compiler's.

Source: XLA `xla/service/gpu/model/coalescing_analysis.cc`, tiled memory access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from hloscope.affine import Dim, Expr, Interval, Range, Var, evaluate_array, variables
from hloscope.arrays import np, sorted_unique
from hloscope.devices import Device
from hloscope.errors import UnsupportedError
from hloscope.indexing import Access, IndexingMap, major_to_minor
from hloscope.ir import TensorType
from hloscope.lazy import dataclass

CONFIG: Final = "block_level_fusion_config"
MOST_POINTS: Final = 1 << 16
"""Elements of a tile whose indices are looked at."""


@dataclass(frozen=True, slots=True)
class TileUse:
    """How a tile of an array is read.

    Attributes:
        sizes: Of the tile, by dimension.
        strides: Between its elements.
        run: Bytes that stand side by side.
        utilisation: Share of the transactions of a run that is used.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    run: int
    utilisation: float


def tile_use(
    type: TensorType, sizes: Sequence[int], strides: Sequence[int], transaction: int
) -> TileUse:
    """How well transactions are used by a tile of an array.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> tile_use(parse_type("s8[256,16]"), (6, 16), (1, 1), 64).utilisation
    0.75
    """
    run = 1
    for k in reversed(major_to_minor(type)):
        if strides[k] != 1:
            break
        run *= min(sizes[k], type.shape[k])
        if sizes[k] < type.shape[k]:
            break
    size = run * -(-type.element.bits // 8)
    moved = transaction * -(-size // transaction)
    return TileUse(tuple(sizes), tuple(strides), size, size / moved if moved else 1.0)


def output_tiles(config: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
    """Tile sizes of each output that a backend config names.

    >>> output_tiles({"block_level_fusion_config": {"output_tiles": [{"sizes": ["1", "64"]}]}})
    [(1, 64)]
    """
    block = config.get(CONFIG)
    tiles = block.get("output_tiles") if isinstance(block, Mapping) else None
    if not isinstance(tiles, Sequence) or isinstance(tiles, str):
        return None
    found = []
    for tile in tiles:
        sizes = tile.get("sizes", ()) if isinstance(tile, Mapping) else None
        if not isinstance(sizes, Sequence) or isinstance(sizes, str):
            return None
        try:
            found.append(tuple([int(size) for size in sizes]))
        except (TypeError, ValueError):
            return None
    return found or None


def operand_tile(
    access: Access, tile: Sequence[int], type: TensorType, device: Device
) -> TileUse | None:
    """How the first tile of an output reads an operand; `None` where that is no strided box.

    Args:
        access: From the output's index to the operand's.
        tile: Sizes of the output's tile.
        type: Of the operand.
        device: For the size of a transaction.

    Raises:
        UnsupportedError: The tile has another number of dimensions than the output.
    """
    map = access.map
    if map is None or map.is_undefined or map.is_known_empty:
        return None
    if len(tile) != len(map.dims):
        raise UnsupportedError(f"a tile of {len(tile)} sizes for {len(map.dims)} dimensions")
    sizes, strides = [], []
    for e in map.results:
        found = _extent(e, map, tile)
        if found is None:
            return None
        sizes.append(found[0])
        strides.append(found[1])
    return tile_use(type, sizes, strides, device.transaction)


def _extent(e: Expr, map: IndexingMap, tile: Sequence[int]) -> tuple[int, int] | None:
    """How many values an expression takes over a tile, and their distance."""
    used = sorted(variables(e), key=str)
    if any(not isinstance(v, Dim | Range) for v in used):
        used = [v for v in used if isinstance(v, Dim | Range)]
        if used:
            return None
    extents: dict[Var, int] = {}
    for v in used:
        interval: Interval = map.box[v]
        count = interval.hi - interval.lo + 1
        extents[v] = min(tile[v.index], count) if isinstance(v, Dim) else count
    if not used:
        return 1, 1
    if e in extents:
        return extents[e], 1
    return _progression(e, extents, map)


def _progression(e: Expr, extents: Mapping[Var, int], map: IndexingMap) -> tuple[int, int] | None:
    """How many values an expression takes, and their distance, if that is always the same."""
    if prod(extents.values()) > MOST_POINTS:
        return None
    axes = np.indices(tuple(extents.values()), dtype=np.int64, sparse=True)
    at = {v: axis + map.box[v].lo for v, axis in zip(extents, axes, strict=True)}
    values = sorted_unique(evaluate_array(e, at))
    steps = sorted_unique(np.diff(values))
    if len(steps) > 1:
        return None
    return len(values), int(steps[0]) if len(steps) else 1
