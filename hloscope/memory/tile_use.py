"""Block-level fusions: use of memory transactions by tiles of given sizes.

The compiler assigns lanes, so they are not modelled.

Source: XLA `xla/service/gpu/model/coalescing_analysis.cc`, tiled memory access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Interval, Range, Var, evaluate_array, variables
from hloscope.arrays import np, sorted_unique
from hloscope.devices import Device
from hloscope.errors import UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.indexing import Access, IndexingMap, major_to_minor
from hloscope.ir import Instruction, TensorType
from hloscope.tiling import (
    ChosenTiles,
    Fused as TiledFusion,
    Refusal,
    chosen_sizes,
    chosen_tiles,
    fusion_config,
    symbolic_tiles,
    tile_traffics,
)

MOST_POINTS: Final = 1 << 16
"""Maximum number of points at which a tile's indices are evaluated."""


class TileUse(Struct, frozen=True):
    """Use of memory transactions by the tiles of one array.

    Attributes:
        sizes: Sizes of the tile, by dimension.
        strides: Distances between its elements, by dimension.
        run: Bytes of a contiguous run of its elements.
        utilisation: Share of the transactions of a run that is used.
        asked: Bytes of the elements of all tiles. A tile counts each time that a program fetches
            it, as a request to L2. 0 if the number of tiles is unknown.
        needed: Bytes of the transactions that each tile would need if its elements were contiguous.
        moved: Bytes of the transactions that the tiles touch.
        reason: Why the bytes are not exact; empty if they are exact or unknown.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    run: int
    utilisation: float
    asked: int = 0
    needed: int = 0
    moved: int = 0
    reason: str = ""

    @property
    def wasted(self) -> int:
        """Return the bytes transferred beyond those needed."""
        return max(self.moved - self.needed, 0)


def tile_use(
    type: TensorType, sizes: Sequence[int], strides: Sequence[int], transaction: int
) -> TileUse:
    """Return the use of transactions by a tile of an array.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> tile_use(parse_type("s8[256,16]"), (6, 16), (1, 1), 64).utilisation
    0.75
    """
    run = 1
    # A run extends over a dimension only if the tile covers all faster ones completely.
    for k in reversed(major_to_minor(type)):
        if strides[k] != 1:
            break
        run *= min(sizes[k], type.shape[k])
        if sizes[k] < type.shape[k]:
            break
    size = run * -(-type.element.bits // 8)
    moved = transaction * -(-size // transaction)
    return TileUse(tuple(sizes), tuple(strides), size, size / moved if moved else 1.0)


def operand_tile(
    access: Access, tile: Sequence[int], type: TensorType, device: Device
) -> TileUse | None:
    """Return an operand's tile for the first tile of an output; `None` if it is not a strided box.

    Args:
        access: Access from the output's index to the operand's.
        tile: Sizes of the output's tile.
        type: Type of the operand.
        device: The device, for the size of a transaction.

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
    """Return how many values an expression takes over a tile, and their distance, or `None`."""
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
    """Return how many values an expression takes, and their distance; `None` if it varies."""
    if prod(extents.values()) > MOST_POINTS:
        return None
    axes = np.indices(tuple(extents.values()), dtype=np.int64, sparse=True)
    at = {v: axis + map.box[v].lo for v, axis in zip(extents, axes, strict=True)}
    values = sorted_unique(evaluate_array(e, at))
    steps = sorted_unique(np.diff(values))
    if len(steps) > 1:
        return None
    return len(values), int(steps[0]) if len(steps) else 1


class TileUses(NamedTuple):
    """Tiles of a Triton kernel's arrays, by XLA's symbolic tiles.

    Attributes:
        operands: By operand number and leaf; an operand that is passed twice is counted once.
        outputs: By output number.
    """

    operands: Mapping[tuple[int, int], TileUse]
    outputs: Mapping[int, TileUse]


def tile_uses(ins: Instruction, tile: tuple[int, ...] | None, device: Device) -> TileUses | None:
    """Return the tiles of each array of a Triton fusion; `None` if they are unknown.

    Args:
        ins: The fusion.
        tile: Sizes of the output's tile, in place of those in the dump.
        device: The device, for the size of a transaction.
    """
    chosen = chosen_tiles(ins)
    if tile is not None:
        known = ChosenTiles("") if chosen is None else chosen
        chosen = replace(known, outputs=(tile,))
    if chosen is None:
        return None
    kind = str(fusion_config(ins).get("kind", ""))
    symbolic = symbolic_tiles(TiledFusion.of(ins), kind=kind)
    if isinstance(symbolic, Refusal):
        return None
    sizes = chosen_sizes(symbolic, chosen)
    if isinstance(sizes, str):
        return None
    operands: dict[tuple[int, int], TileUse] = {}
    outputs: dict[int, TileUse] = {}
    first = {operand: k for k, operand in reversed([*enumerate(ins.operands)])}
    for traffic in tile_traffics(symbolic, sizes, device.transaction):
        type = leaf_types(traffic.node.instruction.type)[traffic.node.output]
        assert isinstance(type, TensorType)
        use = tile_use(type, traffic.sizes, traffic.strides, device.transaction)
        use = replace(use, asked=traffic.asked, needed=traffic.needed, moved=traffic.moved,
                      reason=traffic.reason)  # fmt: skip
        if traffic.root >= 0:
            outputs[traffic.root] = use
        elif traffic.node.instruction in first:
            place = first[traffic.node.instruction], traffic.node.output
            operands[place] = _both(operands.get(place), use)
    return TileUses(operands, outputs)


def _both(one: TileUse | None, other: TileUse) -> TileUse:
    """Return the worse of two uses of an array with the bytes of both."""
    if one is None:
        return other
    worse = min(one, other, key=lambda use: use.utilisation)
    return replace(
        worse,
        asked=one.asked + other.asked,
        needed=one.needed + other.needed,
        moved=one.moved + other.moved,
        reason="; ".join(dict.fromkeys([r for r in (one.reason, other.reason) if r])),
    )
