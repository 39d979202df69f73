"""Bytes that the tiles of many tilings read and write: requested, needed and transferred.

The unit is a transaction between memory and L2. Each tile that a program loads or stores counts
separately, as a request to L2: a tile that many programs read counts for each of them, whether or
not L2 still holds it. A tile's transactions are counted as if the tile began at a transaction
boundary. Tiles at the end of a dimension are cut off. Strided tiles transfer the elements in
between only as far as a transaction extends.

Source: XLA `xla/service/gpu/model/coalescing_analysis.cc`, tiled memory access, for whole tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.affine import Dim, Range, as_sum, variables
from hloscope.fusion import leaf_types
from hloscope.indexing import major_to_minor
from hloscope.ir import TensorType, storage_bits
from hloscope.support.arrays import Bools, Floats, Ints, np
from hloscope.tiling.analysis import DOTS, TiledNode
from hloscope.tiling.concrete import with_parameters

MOST_ROWS: Final = 1 << 16
"""Maximum number of rows of a tile, runs along its minor dimension, that are enumerated.

Rows are enumerated if several of them share transactions.
"""
MOST_CUT: Final = 6
"""Maximum number of dimensions whose partial last tiles are counted separately.

In other dimensions the last tile counts as a whole one.
"""
UNALIGNED: Final = "not every tile is known to begin at the border of a transaction"
TOO_MANY: Final = f"more than {MOST_ROWS:,} rows of a tile share transactions: at most this"


class TileTraffic(Struct, frozen=True):
    """Traffic of the tiles of one array, over all programs and iterations.

    Attributes:
        node: The tiled instruction: an operand of the fusion, or a root.
        root: Index of the root that is written; -1 for an input.
        sizes: Sizes of a tile that is not cut, along each dimension.
        strides: Index distances between its elements, along each dimension.
        tiles: Number of tile reads or writes.
        asked: Bytes of the tiles' elements.
        needed: Bytes of the transactions needed if the elements of each tile were contiguous.
        moved: Bytes of the transactions that the tiles touch.
        reason: Why `moved` is not exact; empty if it is.
        is_least: Whether `moved` is the minimum over all alignments of the tiles.
    """

    node: TiledNode
    root: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    tiles: int
    asked: int
    needed: int
    moved: int
    reason: str = ""
    is_least: bool = False

    @property
    def at_least(self) -> int | None:
        """A lower bound of the transferred bytes, for any alignment; `None` if unknown."""
        if not self.reason or (self.reason == UNALIGNED and self.is_least):
            return self.moved
        if self.reason == UNALIGNED:
            # The transactions of two alignments differ by a factor of two at most: each transaction
            # of the one overlaps two of the other.
            return max(self.asked, -(-self.moved // 2))
        return self.asked if self._is_counted else None

    @property
    def at_most(self) -> int | None:
        """An upper bound of the transferred bytes, for any alignment; `None` if unknown."""
        if not self.reason or self.reason == TOO_MANY:
            return self.moved
        return 2 * self.moved if self._is_counted else None

    @property
    def _is_counted(self) -> bool:
        """Is the number of tiles exact, so that only the transactions of a tile are uncertain?"""
        return not {*self.reason.split("; ")} - {UNALIGNED, TOO_MANY}


class Counted(NamedTuple):
    """Traffic of one array's tiles for each tiling: [tilings]; fields as in `TileTraffic`.

    `is_sure` says whether `moved` is exact for tiles that begin at a transaction boundary.
    """

    tiles: Floats
    asked: Floats
    needed: Floats
    moved: Floats
    is_sure: Bools
    is_least: Bools


class Region(NamedTuple):
    """Tiles that are computed together: their root, and the tile-size parameters iterated over."""

    root: TiledNode
    active: tuple[int, ...]


def array_type(node: TiledNode) -> TensorType | None:
    """Return the type of a node's array; `None` unless it is static and of the tile's rank."""
    leaves = leaf_types(node.instruction.type)
    type = leaves[node.output] if node.output < len(leaves) else None
    if not isinstance(type, TensorType) or not type.is_static or type.rank != node.tile.rank:
        return None
    return type


def counted(node: TiledNode, region: Region, table: Ints, transaction: int) -> Counted:
    """Return the traffic of one array's tiles, for each tiling in `table`.

    Args:
        node: The operand or root.
        region: The region that loads or stores its tile.
        table: Tile sizes, [tilings, parameters].
        transaction: Bytes of a transaction.
    """
    rows = len(table)
    type = array_type(node)
    used = {*with_parameters(node.map, ())}
    again = np.ones(rows)
    kinds: list[tuple[int, Ints, Ints, Ints]] = []
    for p in region.active:
        interval, size = region.root.map.dims[p].interval, table[:, p]
        extent = interval.hi + 1 - interval.lo
        whole, rest = extent // size, extent % size
        if p not in used or len(kinds) >= MOST_CUT:
            again = again * (whole + (rest > 0))
            continue
        kinds.append((p, whole, rest, size))
    zero = np.zeros(rows)
    if type is None:  # the value is not an array, for example a token
        unknown = np.zeros(rows, dtype=bool)
        return Counted(zero, zero, zero, zero, unknown, unknown)
    bits, per = storage_bits(type), transaction * 8
    shape = np.array(type.shape, dtype=np.int64).reshape(1, -1)
    tiles, asked, needed, moved = zero, zero, zero, zero
    is_sure, is_least = np.ones(rows, dtype=bool), np.ones(rows, dtype=bool)
    cut = [p for p, _, rest, _ in kinds if rest.any()]
    # Along each dimension the last tile may be partial: all combinations of whole and partial tiles
    # are counted, each times its number.
    for ends in product((False, True), repeat=len(cut)):
        chosen = dict(zip(cut, ends, strict=True))
        times, variant = again, table.copy()
        for p, whole, rest, _ in kinds:
            is_last = chosen.get(p, False)
            times = times * ((rest > 0) if is_last else whole)
            if is_last:
                variant[:, p] = np.maximum(rest, 1)
        if not times.any():
            continue
        extents = np.clip(node.tile.sizes_array(variant), 0, shape)
        strides = np.abs(node.tile.strides_array(variant))
        blocks, sure, least = _transactions(extents, strides, type, bits, per, times > 0)
        elements = extents.prod(axis=1, dtype=float)
        tiles = tiles + times
        asked = asked + times * elements * bits / 8
        needed = needed + times * np.ceil(elements * bits / per) * transaction
        moved = moved + times * blocks * transaction
        is_sure = is_sure & (sure | (times == 0))
        is_least = is_least & (least | (times == 0))
    return Counted(tiles, asked, needed, moved, is_sure, is_least)


def is_repeated(node: TiledNode, earlier: TiledNode, table: Ints) -> Bools:
    """Return for which tilings two nodes are the same tile of one array: [tilings].

    Such a tile is loaded once. XLA compares concrete tiles: sizes, strides and offsets.
    """
    rows = np.ones(len(table), dtype=bool)
    if (node.instruction, node.output, node.runtime) != (
        earlier.instruction, earlier.output, earlier.runtime
    ):  # fmt: skip
        return ~rows
    for one, other in (
        (node.tile.sizes_array(table), earlier.tile.sizes_array(table)),
        (node.tile.strides_array(table), earlier.tile.strides_array(table)),
    ):
        rows &= (one == other).all(axis=1)
    for a, b in zip(node.map.results, earlier.map.results, strict=True):
        (terms, constant), (others, other_constant) = as_sum(a), as_sum(b)
        first = {t: c for t, c in terms if not isinstance(t, Range)}
        second = {t: c for t, c in others if not isinstance(t, Range)}
        if constant != other_constant:
            return np.zeros(len(table), dtype=bool)
        for t in {*first, *second}:
            if first.get(t) == second.get(t):
                continue
            if not isinstance(t, Dim):
                return np.zeros(len(table), dtype=bool)
            interval = node.map.dims[t.index].interval  # a single tile begins at 0
            rows &= table[:, t.index] > interval.hi
    return rows


def _transactions(
    extents: Ints, strides: Ints, type: TensorType, bits: int, per: int, wanted: Bools
) -> tuple[Floats, Bools, Bools]:
    """Return the transactions of each row's box, as if it began at a transaction boundary.

    Return three arrays, [rows]: the counts, which of them are exact, and which are minimal over all
    alignments.

    From the minor dimension on, the inner part of the box is a contiguous run of bits or not. Along
    the next dimension, copies of it form a longer run; or all of them begin at a boundary; or no
    whole transaction lies between them. Remaining boxes are enumerated.

    Only enumerated boxes may have fewer transactions with another alignment. A run of `n` bits
    needs at least `ceil(n / per)`. Copies that begin at boundaries need equally many each, in
    distinct transactions; copies without a whole transaction in between need all those of their
    span.

    Args:
        extents: Sizes of the boxes, [rows, dimensions].
        strides: Distances between elements, [rows, dimensions].
        type: Type of the array.
        bits: Bits of an element.
        per: Bits of a transaction.
        wanted: Which rows to count, [rows]; the results of other rows mean nothing.
    """
    rows = len(extents)
    run = np.full(rows, bits, dtype=np.int64)  # bits of the run
    is_run = np.ones(rows, dtype=bool)
    found = np.ceil(run / per)
    open_ = np.zeros(rows, dtype=bool)  # rows to enumerate
    pitch = bits
    for d in reversed(major_to_minor(type)):
        n, step = extents[:, d], np.maximum(strides[:, d], 1) * pitch
        moves = n > 1
        longer = moves & is_run & (run == step)
        alike = moves & ~longer & (step % per == 0)
        near = moves & ~longer & ~alike & is_run & (step - run < per)
        apart = moves & ~longer & ~alike & ~near
        # Each element lies in one transaction, and the next element in a later one.
        single = apart & is_run & (per % run == 0) & (step % run == 0) & (step >= per)
        open_ |= apart & ~single
        ends = (n - 1) * step + run
        found = np.where(longer | near, np.ceil(ends / per), found)
        found = np.where(alike | single, found * n, found)
        run = np.where(longer, ends, run)
        is_run &= ~moves | longer
        pitch *= type.shape[d]
    found = np.where((extents > 0).all(axis=1), found, 0.0)
    open_ &= wanted & (extents > 0).all(axis=1)
    is_sure = np.ones(rows, dtype=bool)
    if open_.any():
        order = list(reversed(major_to_minor(type)))
        at = np.flatnonzero(open_)
        boxes = np.concatenate([extents[at], strides[at]], axis=1)
        different, which = np.unique(boxes, axis=0, return_inverse=True)
        counts = [_enumerated(box, order, type.shape, bits, per) for box in different.tolist()]
        found[at] = np.array([count for count, _ in counts], dtype=float)[which.reshape(-1)]
        is_sure[at] = np.array([sure for _, sure in counts])[which.reshape(-1)]
    return found, is_sure, ~open_


def _enumerated(
    box: Sequence[int], order: Sequence[int], shape: Sequence[int], bits: int, per: int
) -> tuple[int, bool]:
    """Return the transactions of one box, counted row by row, and whether the count is exact.

    It is an upper bound if the box has too many rows.

    Args:
        box: Sizes, then strides, of the box.
        order: Dimensions of the array, minor to major.
        shape: Sizes of the array.
        bits: Bits of an element.
        per: Bits of a transaction.
    """
    rank = len(box) // 2
    starts = np.zeros(1, dtype=np.int64)
    run, pitch, is_run = bits, bits, True
    for d in order:
        n, step = box[d], max(box[rank + d], 1) * pitch
        pitch *= shape[d]
        if n == 1:
            continue
        if is_run and step == run:
            run *= n
            continue
        is_run = False
        if len(starts) * n > MOST_ROWS:
            elements = prod(box[:rank])
            return min(elements, elements * bits // run * -(-(run + per) // per)), False
        starts = (np.arange(n, dtype=np.int64)[:, None] * step + starts[None, :]).reshape(-1)
    starts = np.sort(starts)
    first, last = starts // per, (starts + run - 1) // per
    # In sorted order, a row adds only the transactions after those of all earlier rows.
    before = np.maximum.accumulate(np.concatenate([[-1], last[:-1]]))
    return int(np.maximum(last - np.maximum(first, before + 1) + 1, 0).sum()), True


def is_aligned(node: TiledNode, sizes: Sequence[int], transaction: int) -> bool:
    """Does each tile surely begin at a transaction boundary, or lie inside one transaction?

    `transaction` is the number of bytes of a transaction.
    """
    type = array_type(node)
    if type is None:
        return False
    bits, per = storage_bits(type), transaction * 8
    pitch, common = bits, 0
    extents = [min(n, most) for n, most in zip(node.tile.sizes_at(sizes), type.shape, strict=True)]
    strides = node.tile.strides_at(sizes)
    run, is_run = bits, True
    for d in reversed(major_to_minor(type)):
        common = gcd(common, _offset_divisor(node, d, sizes) * pitch)
        if extents[d] > 1:
            is_run &= max(strides[d], 1) * pitch == run
            run *= extents[d] if is_run else 1
        pitch *= type.shape[d]
    return common % per == 0 or (is_run and per % run == 0 and common % run == 0)


def _offset_divisor(node: TiledNode, d: int, sizes: Sequence[int]) -> int:
    """Return a divisor of the offsets of all tiles along dimension `d`; 0 if all are 0."""
    terms, constant = as_sum(node.map.results[d])
    common = abs(constant)
    for t, factor in terms:
        if isinstance(t, Range):
            continue  # range variables are 0 at the first index of a tile
        if isinstance(t, Dim):
            interval = node.map.dims[t.index].interval
            if sizes[t.index] <= interval.hi:
                common = gcd(common, factor * sizes[t.index])
            continue
        if any([not isinstance(v, Range) for v in variables(t)]):
            common = gcd(common, factor)
    return common


def regions_of(nodes: Sequence[TiledNode]) -> Iterator[tuple[TiledNode, Region]]:
    """Yield every tiled instruction with its region; nested regions are included."""
    root = nodes[-1]
    todo = [(nodes, Region(root, with_parameters(root.map, ())))]
    while todo:
        inside, region = todo.pop()
        for node in inside:
            yield node, region
            for inner in node.regions:
                active = region.active
                if isinstance(node.instruction.op, DOTS):
                    active = with_parameters(inner[-1].map, active)
                todo.append((inner, Region(inner[-1], active)))
