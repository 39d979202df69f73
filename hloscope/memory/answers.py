"""Results of the coalescing analysis: figures for arrays, tiles and shared-memory banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Var,
    evaluate_array,
    linear,
    variables,
)
from hloscope.errors import UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.indexing import Access, IndexingMap, major_to_minor, unravel
from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import first_places
from hloscope.memory.kernel import Kernel, Launch, SharedAccess
from hloscope.memory.ptx.counting import bank_words
from hloscope.memory.requests import LANE, Requests, Traffic, WasteCause, requests_of, together
from hloscope.memory.touched import Touched
from hloscope.support.arrays import Bools, Ints, np, sorted_unique
from hloscope.support.devices import AS_OF, Device
from hloscope.tiling import (
    ChosenTiles,
    Refusal,
    chosen_sizes,
    chosen_tiles,
    tile_traffics,
    tiles_of,
)

# --------------------------------------------------------------------------------------------------
# Block-level fusions: use of memory transactions by tiles of given sizes.
#
# The compiler assigns lanes, so they are not modelled.
#
# Source: XLA `xla/service/gpu/model/coalescing_analysis.cc`, tiled memory access.


MOST_POINTS: Final = 1 << 16
"""Maximum number of points at which `_progression` evaluates an index; beyond it returns `None`."""


class TileUse(Struct, frozen=True):
    """Memory transactions for one array by its tiles, and the bytes of them that are used.

    Attributes:
        sizes: Sizes of the tile in elements, by dimension of the array.
        strides: Distance between consecutive elements of the tile, by dimension of the array.
        run: Bytes of one run of tile elements that are contiguous in memory.
        utilisation: Bytes of a run over the bytes of the transactions that transfer it, at most 1.
        asked: Bytes of the elements of all tiles; 0 if the number of tiles is unknown. A tile
            counts once for each program that fetches it, as a request to L2.
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
        """Return the bytes that tiles transfer beyond those of contiguous tiles; never negative."""
        return max(self.moved - self.needed, 0)


def tile_use(
    type: TensorType, sizes: Sequence[int], strides: Sequence[int], transaction: int
) -> TileUse:
    """Return how much of its memory transactions one tile of an array uses.

    Args:
        type: Type of the array, with its layout.
        sizes: Sizes of the tile, by dimension.
        strides: Distances between the tile's elements, by dimension.
        transaction: Bytes of a memory transaction.

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
    """Return how the tile of an operand that an output's first tile reads uses memory transactions.

    `None` if the elements read are not a box with constant strides.

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
    """Return how many values an index takes over a tile, and the distance between them.

    `None` if the values have no constant distance, or depend on run-time values.

    Args:
        e: Index of one operand dimension.
        map: Map that `e` is a result of.
        tile: Sizes of the output's tile.
    """
    used = sorted(variables(e), key=str)
    known = [v for v in used if isinstance(v, Dim | Range)]
    if known and len(known) < len(used):
        return None
    extents: dict[Var, int] = {}
    for v in known:
        count = map.box[v].size
        extents[v] = min(tile[v.index], count) if isinstance(v, Dim) else count
    if not known:
        return 1, 1
    if e in extents:
        return extents[e], 1
    return _progression(e, extents, map)


def _progression(e: Expr, extents: Mapping[Var, int], map: IndexingMap) -> tuple[int, int] | None:
    """Return the number of distinct values of an expression, and the distance between them.

    `None` if the distance is not constant, or if there are more than `MOST_POINTS` points.

    Args:
        e: The expression.
        extents: Number of values of each variable, from its lowest value in `map`.
        map: Map that has the intervals of the variables.
    """
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
    """Tile use of every array of a Triton kernel, computed from XLA's symbolic tiles.

    Attributes:
        operands: Tile use by (operand number, leaf). An operand that is passed twice has one entry.
        outputs: Tile use by output number.
    """

    operands: Mapping[tuple[int, int], TileUse]
    outputs: Mapping[int, TileUse]


def tile_uses(ins: Instruction, tile: tuple[int, ...] | None, device: Device) -> TileUses | None:
    """Return the tile use of each array of a Triton fusion; `None` if its tiles are unknown.

    Args:
        ins: The fusion.
        tile: Sizes of the output's tile; `None` for those in the program's backend config.
        device: The device, for the size of a transaction.
    """
    chosen = chosen_tiles(ins)
    if tile is not None:
        known = ChosenTiles("") if chosen is None else chosen
        chosen = replace(known, outputs=(tile,))
    if chosen is None:
        return None
    symbolic = tiles_of(ins)
    if isinstance(symbolic, Refusal):
        return None
    sizes = chosen_sizes(symbolic, chosen)
    if isinstance(sizes, str):
        return None
    operands: dict[tuple[int, int], TileUse] = {}
    outputs: dict[int, TileUse] = {}
    first = first_places(ins.operands)
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
            operands[place] = _combined_use(operands.get(place), use)
    return TileUses(operands, outputs)


def _combined_use(one: TileUse | None, other: TileUse) -> TileUse:
    """Return the combined use of two tiles of one array.

    Byte counts are added; all other figures are those of the tile with the lower utilisation. The
    result is `other` if `one` is `None`.
    """
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


# --------------------------------------------------------------------------------------------------
# Bank conflicts: lanes of a request that need different words of one shared-memory bank.
#
# Such lanes are served one after another; lanes that need the same word are served at once.
# Accesses of 8 bytes are served by half warps, those of 16 bytes by quarter warps.
#
# Source: CUDA C++ Programming Guide, shared memory.


MOST_REQUESTS: Final = 1 << 16


class BankUse(Struct, frozen=True):
    """Bank conflicts of one access to a tile in shared memory.

    If each lane accesses k words of a bank, its warp's request has k phases, each with 1/k of the
    lanes.

    Attributes:
        what: Label of the access.
        shape: Sizes of the tile, padding included.
        bytes: Size of the tile in bytes.
        requests: Number of phases with an active lane, in one block.
        mean: Distinct words of the bank with the most, averaged over the phases. 1 means no
            conflict.
        most: The same number of the worst phase.
        worst: The word that each lane accesses in the worst phase; `None` for inactive lanes.
        is_exact: Were all requests counted, and not only the first ones?
    """

    what: str
    shape: tuple[int, ...]
    bytes: int
    requests: int
    mean: float
    most: int
    worst: tuple[int | None, ...] = ()
    is_exact: bool = True


def bank_use(shared: SharedAccess, launch: Launch | None, device: Device) -> BankUse:
    """Count the bank conflicts of one access, over the warps of one block.

    Args:
        shared: The access: a map from threads to an index in the tile.
        launch: Launch dimensions.
        device: The device, for its banks and the lanes of a warp.

    Raises:
        UnsupportedError: The kernel has no launch dimensions.

    >>> from hloscope.affine import Dim
    >>> from hloscope.support.devices import device_of
    >>> launch = Launch.of(32, 1)
    >>> rows = launch.map((), [Dim(0), 0])
    >>> for width in (32, 33):
    ...     access = SharedAccess("read", rows, (32, width), 32)
    ...     print(bank_use(access, launch, device_of("h100")).most)
    32
    1
    """
    if launch is None:
        raise UnsupportedError("without launch dimensions nothing is known of lanes")
    one_block = Launch(launch.threads, (1, 1, 1))
    requests = requests_of(_linear(shared), shared.bits, one_block, device.warp)
    addresses, active, is_exact = _addresses(requests)
    size = -(-prod(shared.shape) * shared.bits // 8)
    rows, lanes = np.nonzero(active)
    if not len(rows):
        no_lanes = (None,) * device.warp if len(active) else ()
        return BankUse(shared.what, shared.shape, size, 0, 0.0, 0, no_lanes, is_exact)
    offsets, unit = addresses * shared.bits // 8, max(requests.unit_bits // 8, 1)
    phases, degrees = bank_words(
        rows, lanes, offsets[active], unit,
        warp=device.warp, banks=device.banks, word=device.bank_bytes,
    )  # fmt: skip
    row = int(phases[np.argmax(degrees)]) // max(unit // device.bank_bytes, 1)
    words = (offsets[row] // device.bank_bytes).tolist()
    worst = [word if on else None for word, on in zip(words, active[row].tolist(), strict=True)]
    return BankUse(
        shared.what,
        shared.shape,
        size,
        len(degrees),
        float(degrees.mean()),
        int(degrees.max()),
        tuple(worst),
        is_exact,
    )


def _linear(shared: SharedAccess) -> IndexingMap:
    """Return the map from threads of the first block to row-major positions in the tile."""
    terms: list[tuple[Expr, int]] = [
        (e, prod(shared.shape[k + 1 :])) for k, e in enumerate(shared.map.results)
    ]
    map = shared.map.with_(results=[linear(*terms) if terms else Const(0)])
    # Dimensions 3 to 5 are the block indices. Shared memory belongs to one block, and all blocks
    # have the same conflicts.
    pinned = [map.dims[k].interval.lo for k in range(3, 6)] if not map.is_known_empty else []
    for k, lo in enumerate(pinned, 3):
        map = map.add_constraint(Dim(k), Interval.point(lo))
    return map.simplify(replace_points=False)


def _addresses(requests: Requests) -> tuple[Ints, Bools, bool]:
    """Return addresses and activity of the lanes, and whether every request is included.

    Both arrays are [requests, lanes]; addresses are in elements. At most `MOST_REQUESTS` requests
    are evaluated.
    """
    map = requests.map
    sizes = [interval.size for _, interval in requests.free]
    total = prod(sizes)
    shape = min(total, MOST_REQUESTS), requests.warp
    if map.is_known_empty or total <= 0:
        return np.zeros((0, requests.warp), np.int64), np.zeros((0, requests.warp), np.bool_), True
    numbers = unravel(np.arange(shape[0]), sizes)
    at: dict[Var, Ints] = {
        x: (number + interval.lo)[:, None]
        for (x, interval), number in zip(requests.free, numbers, strict=True)
    }
    at[LANE] = np.arange(requests.warp, dtype=np.int64)[None, :]
    addresses = np.broadcast_to(evaluate_array(requests.address, at), shape)
    dims, ranges = [
        [at[kind(k)] for k in range(len(variables))]
        for kind, variables in ((Dim, map.dims), (Range, map.ranges))
    ]
    active = np.broadcast_to(map.satisfies_array(dims, ranges), shape)
    return addresses, active, total <= MOST_REQUESTS


# --------------------------------------------------------------------------------------------------
# Results of the coalescing analysis: verdicts and figures for each array of a kernel.


UNKNOWN: Final = "unknown"


class Touch(Struct, frozen=True):
    """An access, or equal accesses, by which a kernel's threads read or write an array.

    Attributes:
        maps: Maps from threads to addresses, in elements; several if a thread accesses an element
            under either of several conditions.
        traffic: Sectors and bytes of the requests; `None` if only XLA's verdicts were requested.
        spoiler: The address term that causes unused sectors in the worst request; `None` without
            one.
    """

    maps: tuple[IndexingMap, ...]
    traffic: Traffic | None
    spoiler: WasteCause | None


class ArrayUse(Struct, frozen=True):
    """Accesses, traffic and verdicts of one array that a kernel reads or writes.

    Attributes:
        number: Number of the operand or output.
        leaf: Number of the array in an operand that is a tuple.
        name: Name of the operand; for an output, name of the root.
        type: Type of the array.
        touches: The accesses as LLVM compiles the kernel; empty if the array is not accessed.
        traffic: Their traffic; `None` if it is unknown or was not requested.
        touched: Distinct elements, bytes and sectors that are accessed.
        by_map: Does XLA's map check consider the reads coalesced? `None` for outputs, which XLA
            does not check.
        reason: Why the figures are not exact, or unknown.
        tile: Use of transactions by the tiles of a block-level kernel; `None` for other kernels.
        is_output: Is the array written?
        emitted: The accesses as XLA emits the kernel; `None` if their traffic is the same.
        change: Why the compiled and the emitted accesses differ.
    """

    number: int
    leaf: int
    name: str
    type: TensorType
    touches: tuple[Touch, ...]
    traffic: Traffic | None
    touched: Touched
    by_map: bool | None
    reason: str = ""
    tile: TileUse | None = None
    is_output: bool = False
    emitted: tuple[Touch, ...] | None = None
    change: str = ""

    @property
    def as_emitted(self) -> tuple[Touch, ...]:
        """Return the accesses of the array as XLA emits them, before LLVM merges any."""
        return self.touches if self.emitted is None else self.emitted

    @property
    def emitted_traffic(self) -> Traffic | None:
        """Return the traffic of the accesses as XLA emits them, before LLVM merges any.

        `None` if it is unknown, or if LLVM's merging does not change the traffic.
        """
        if self.emitted is None:
            return None
        return together([t.traffic for t in self.emitted if t.traffic is not None])

    @property
    def spoiler(self) -> WasteCause | None:
        """Return the cause of unused sectors in the access that wastes the most bytes.

        `None` if no access has such a cause.
        """
        found = [t for t in self.touches if t.spoiler and t.traffic]
        return (
            max(found, key=lambda t: t.traffic.wasted if t.traffic else 0).spoiler
            if found
            else None
        )

    @property
    def precision(self) -> str:
        """Return the precision of the traffic: `exact`, `sampled`, `bounds` or `unknown`."""
        return self.traffic.precision if self.traffic is not None else UNKNOWN

    @property
    def asked(self) -> int | None:
        """Return the bytes that lanes or tiles request; `None` if they are unknown."""
        moving = self._traffic_or_tile
        return None if moving is None else moving.asked

    @property
    def moved(self) -> int | None:
        """Return the bytes transferred: sectors of requests or transactions of tiles.

        `None` if they are unknown.
        """
        moving = self._traffic_or_tile
        return None if moving is None else moving.moved

    @property
    def wasted(self) -> int:
        """Return the transferred bytes that contiguous accesses would not need; 0 if unknown."""
        moving = self._traffic_or_tile
        return 0 if moving is None else moving.wasted

    @property
    def _traffic_or_tile(self) -> Traffic | TileUse | None:
        if self.traffic is not None:
            return self.traffic
        return self.tile if self.tile is not None and self.tile.moved else None

    @property
    def is_unknown(self) -> bool:
        """Is the traffic unknown, although it was requested?"""
        return self.traffic is None and self.tile is None and not self.touches

    @property
    def efficiency(self) -> float | None:
        """Return the needed sectors over the transferred sectors; for tiles, their utilisation.

        `None` if neither is known.
        """
        if self.tile is not None:
            return self.tile.utilisation
        if self.traffic is None or not self.traffic.requests:
            return None
        return self.traffic.efficiency


class Coalescing(Struct, frozen=True):
    """The coalescing of all arrays of one kernel on one device.

    Attributes:
        name: Name of the fusion.
        kernel: Emitter, launch and thread maps.
        device: The device that it runs on.
        by_heuristic: XLA's heuristic verdict: are all reads coalesced?
        operands: The arrays that are read.
        outputs: The arrays that are written.
        banks: Bank conflicts of accesses to shared memory.
        notes: Assumptions, and facts that the dump folder states.
        findings: Differences between the dump folder and the model; empty if the program was not
            read from a dump folder.
    """

    name: str
    kernel: Kernel
    device: Device
    by_heuristic: bool
    operands: tuple[ArrayUse, ...]
    outputs: tuple[ArrayUse, ...]
    banks: tuple[BankUse, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[ArrayUse, ...]:
        """Return the operands followed by the outputs."""
        return self.operands + self.outputs

    @property
    def model(self) -> str:
        """Return one line of text: device, emitter, launch, and date of XLA's rules."""
        launch = f", {self.kernel.launch}" if self.kernel.launch else ""
        unroll = f", {self.kernel.unroll} elements a thread" if self.kernel.unroll > 1 else ""
        return f"{self.device.name}: {self.kernel.emitter}{launch}{unroll} (rules of {AS_OF})"

    @property
    def wasted(self) -> int:
        """Return the bytes transferred for all arrays that contiguous accesses would not need."""
        return sum([a.wasted for a in self.arrays])

    @property
    def utilisation(self) -> float:
        """Return requested over transferred bytes of all arrays; 1 if nothing is transferred."""
        moved = sum([a.moved or 0 for a in self.arrays])
        return sum([a.asked or 0 for a in self.arrays]) / moved if moved else 1.0

    @property
    def lowest(self) -> float:
        """Return the lowest ratio of needed to transferred sectors of an array.

        The result is 1 if the ratio is unknown for all arrays.
        """
        return min([a.efficiency for a in self.arrays if a.efficiency is not None], default=1.0)
