"""Many tilings of a fusion at once: their traffic and resources, and the best of them.

Everything is computed from the symbolic tiles, with one array for all tilings. The model: a tile is
padded to powers of two, as Triton does. Transposes stage the tile of their operand in shared
memory, products those of both operands, once for each pipeline stage, and buffers of different
instructions share their memory. Registers hold an instruction's tile and its operands' tiles. Bytes
are those of `traffic`: whole transactions of every tile that is read or written.

Source: XLA, Triton shared memory estimator, Triton emitter constraints; the model of bytes is that
of XLA's tiling cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import prod
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.affine import POS_INF
from hloscope.errors import UnsupportedError
from hloscope.ir import Instruction, TensorType
from hloscope.ops import Transpose
from hloscope.support.arrays import Bools, Floats, Ints, np
from hloscope.support.devices import DEFAULT, DEVICES, Limits, limits_of
from hloscope.tiling.analysis import DOTS, SymbolicTiles, TiledNode
from hloscope.tiling.concrete import Tiler, candidate_sizes, with_parameters
from hloscope.tiling.tile import Refusal
from hloscope.tiling.traffic import (
    TOO_MANY,
    UNALIGNED,
    Region,
    TileTraffic,
    array_type,
    counted,
    is_aligned,
    is_repeated,
    regions_of,
)

MOST: Final = 1 << 16
"""Maximum number of tilings of a fusion in one sweep; with more, some candidate sizes are left
out.
"""
MOST_CHECKED: Final = 1 << 8
"""Maximum number of tilings in a sweep of a fusion with several outputs.

Each of them is tiled separately.
"""
TRANSACTION: Final = 64
"""Bytes of a transaction between memory and L2, on most devices."""
MAX_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of a padded tile in Triton.

Source: Triton `TRITON_MAX_TENSOR_NUMEL`.
"""
MAX_DOT_SIDE: Final = 256
"""Maximum tile size of a product along a dimension.

Source: XLA, Triton emitter constraints.
"""


class Sweep(Struct, frozen=True, eq=False):
    """Traffic and resources of many tilings of one fusion: arrays of shape [tilings].

    Attributes:
        sizes: Tile sizes, [tilings, parameters].
        is_valid: Whether XLA accepts the sizes: constraints, offsets of concatenates, signs of
            strides.
        programs: Number of programs.
        bytes_moved: Bytes that all programs read and write: whole transactions of each tile.
        shared: Bytes of shared memory of a program.
        registers: Registers of 4 bytes that a program holds at once.
        elements: Elements of the largest padded tile.
        dot_side: The largest tile size of a product along a dimension.
    """

    sizes: Ints
    is_valid: Bools
    programs: Floats
    bytes_moved: Floats
    shared: Floats
    registers: Floats
    elements: Floats
    dot_side: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    def choice(self, row: int, limits: Limits) -> Choice:
        """Return one tiling of the sweep, with its figures and the limits that it exceeds.

        Args:
            row: Number of the tiling, counted from 0.
            limits: Limits of the device.
        """
        return Choice(
            tuple(self.sizes[row].tolist()),
            int(self.programs[row]),
            int(self.bytes_moved[row]),
            int(self.shared[row]),
            int(self.registers[row]),
            int(self.elements[row]),
            "; ".join(self._excesses(row, limits)),
        )

    def _excesses(self, row: int, limits: Limits) -> Iterator[str]:
        if not self.is_valid[row]:
            yield "XLA's constraints are not fulfilled"
        for what, needed, there in self._needs(limits):
            if needed[row] > there:
                yield f"{int(needed[row]):,} {what} needed, {there:,} there"

    def _needs(self, limits: Limits) -> Iterator[tuple[str, Floats | Ints, int]]:
        """Yield what tilings need, how much of it: [tilings], and how much there is."""
        yield "B of shared memory", self.shared, limits.shared
        yield "registers", self.registers, limits.registers
        yield "elements in a tile", self.elements, MAX_ELEMENTS
        yield "as tile size of a product", self.dot_side, MAX_DOT_SIDE

    def fits(self, limits: Limits) -> Bools:
        """Return which tilings are valid and within the limits of a device: [tilings]."""
        within = [needed <= there for _, needed, there in self._needs(limits)]
        found: Bools = np.logical_and.reduce([self.is_valid, *within])
        return found


class Choice(NamedTuple):
    """Traffic and resources of one tiling.

    Attributes:
        sizes: Tile sizes, one for each parameter.
        programs: Number of programs, one for each tile of the root.
        bytes_moved: Bytes that all programs read and write: whole transactions of each tile.
        shared: Bytes of shared memory of a program.
        registers: Registers of 4 bytes that a program holds at once.
        elements: Elements of the largest padded tile.
        excess: Why the device or XLA refuses it; empty if neither does.
    """

    sizes: tuple[int, ...]
    programs: int
    bytes_moved: int
    shared: int
    registers: int
    elements: int
    excess: str = ""


class Ranking(Struct, frozen=True):
    """Result of a search for tilings, the best first.

    Attributes:
        limits: Limits of the device.
        looked_at: Number of tilings searched.
        valid: Number of tilings that satisfy XLA's constraints.
        fitting: Number of valid tilings that the device can run.
        best: The tilings with the fewest bytes, then the fewest programs.
        refused: Tilings with fewer bytes than the best that the device cannot run; the nearest
            first.
        is_thinned: Whether there were so many candidates that some sizes were left out.
        standing: Rank of the caller's tiling; `None` without one.
    """

    limits: Limits
    looked_at: int
    valid: int
    fitting: int
    best: tuple[Choice, ...]
    refused: tuple[Choice, ...]
    is_thinned: bool
    standing: Standing | None = None


class Standing(NamedTuple):
    """Rank of one tiling among those that the device can run.

    Attributes:
        choice: The tiling.
        rank: One more than the number of tilings with fewer bytes.
        among: Number of tilings compared, this one included.
    """

    choice: Choice
    rank: int
    among: int


def sweep(
    symbolic: SymbolicTiles,
    tilings: Sequence[Sequence[int]] | Ints,
    *,
    stages: int = 1,
    transaction: int = TRANSACTION,
) -> Sweep:
    """Return the traffic and resources of many tilings.

    Args:
        symbolic: The fusion.
        tilings: Tile sizes, [tilings, parameters].
        stages: Pipeline stages of loops.
        transaction: Bytes of a transaction between memory and L2.

    Raises:
        TypeError: A size is not an integer.
        ValueError: The rows are not one positive size for each parameter.
    """
    count = len(symbolic.parameters)
    if any([len(tiling) != count for tiling in tilings]):
        raise ValueError(f"{count} positive sizes are needed for each tiling")
    table = np.asarray(tilings)
    if table.size and table.dtype.kind not in "iu":
        raise TypeError("tile sizes are integers")
    table = table.astype(np.int64).reshape(len(tilings), count)
    if (table < 1).any():
        raise ValueError(f"{count} positive sizes are needed for each tiling")
    return _Sweeping(symbolic, table, stages, transaction).sweep()


def _combinations(lists: Sequence[Sequence[int]]) -> Ints:
    """Return all choices of one number from each list: [choices, lists].

    The last list varies fastest. The table is built column by column, as numpy limits the number of
    dimensions of an array.
    """
    count = after = prod(map(len, lists))
    columns = []
    for numbers in lists:
        after //= len(numbers)
        columns.append(np.resize(np.repeat(np.array(numbers, np.int64), after), count))
    return np.stack(columns, axis=1) if columns else np.ones((1, 0), np.int64)


def search(
    symbolic: SymbolicTiles,
    limits: Limits | None = None,
    *,
    top: int = 10,
    budget: int = MOST,
    stages: int = 1,
    own: Sequence[int] | None = None,
) -> Ranking:
    """Return the candidate tilings of a fusion, ranked by the bytes that they transfer.

    Args:
        symbolic: The fusion.
        limits: Limits of the device; those of an H100 by default.
        top: Maximum number of tilings to return.
        budget: Maximum number of tilings to search; above it, sizes are left out evenly.
        stages: Pipeline stages of loops.
        own: A tiling to rank, such as that in the dump.

    Raises:
        UnsupportedError: A size does not fit into 64 bits.
    """
    limits = limits or limits_of(DEFAULT)
    transaction = transaction_of(limits)
    found, is_thinned = sweep_candidates(
        symbolic, budget=budget, stages=stages, transaction=transaction
    )
    fits = found.fits(limits)
    order = np.lexsort((found.registers, found.shared, found.programs, found.bytes_moved))
    tiler = Tiler(symbolic)
    if len(dict.fromkeys(symbolic.roots)) > 1:  # only concrete tiles show whether roots share them
        for row in np.flatnonzero(found.is_valid):
            found.is_valid[row] = not isinstance(tiler.tiled(found.sizes[row].tolist()), Refusal)
        fits = found.fits(limits)
    good: list[int] = []
    for row in order:
        if fits[row] and len(good) < top:
            if isinstance(tiler.tiled(found.sizes[row].tolist()), Refusal):
                found.is_valid[row] = fits[row] = False
            else:
                good.append(int(row))
    better = takewhile(lambda row: row != good[0], order) if good else order
    before = [int(row) for row in better if found.is_valid[row]]
    refused = before[::-1][:top]
    return Ranking(
        limits,
        len(found),
        int(found.is_valid.sum()),
        int(fits.sum()),
        tuple([found.choice(row, limits) for row in good]),
        tuple([found.choice(row, limits) for row in refused]),
        is_thinned,
        None if own is None else _standing(symbolic, own, found, fits, limits, stages, transaction),
    )


def sweep_candidates(
    symbolic: SymbolicTiles,
    *,
    budget: int = MOST,
    stages: int = 1,
    transaction: int = TRANSACTION,
) -> tuple[Sweep, bool]:
    """Return the sweep of a fusion's candidate tilings, and whether some were left out.

    Args:
        symbolic: The fusion.
        budget: Maximum number of tilings; above it, sizes are left out evenly.
        stages: Pipeline stages of loops.
        transaction: Bytes of a transaction between memory and L2.

    Raises:
        UnsupportedError: A size does not fit into 64 bits.
    """
    if len(dict.fromkeys(symbolic.roots)) > 1:
        budget = min(budget, MOST_CHECKED)
    too_large = UnsupportedError("tiles are not searched where sizes do not fit into 64 bits")
    if any(p.size and p.size > POS_INF for p in symbolic.parameters):
        raise too_large
    lists = [candidate_sizes(p.size) if p.size else [1] for p in symbolic.parameters]
    is_thinned = False
    while prod(map(len, lists)) > budget:
        longest = max(range(len(lists)), key=lambda k: len(lists[k]))
        # Every second size of the longest list goes; counting from the end keeps the whole
        # dimension.
        lists[longest] = lists[longest][::-2][::-1]
        is_thinned = True
    try:
        found = sweep(symbolic, _combinations(lists), stages=stages, transaction=transaction)
    except OverflowError:
        raise too_large from None
    return found, is_thinned


def _standing(
    symbolic: SymbolicTiles,
    own: Sequence[int],
    found: Sweep,
    fits: Bools,
    limits: Limits,
    stages: int,
    transaction: int,
) -> Standing:
    """Return the rank of the tiling `own` among the found ones that fit the device.

    Args:
        symbolic: The fusion.
        own: The tiling to rank, one size for each parameter.
        found: The tilings to compare with.
        fits: Does each tiling in `found` fit the device? [tilings].
        limits: Limits of the device.
        stages: Pipeline stages of loops.
        transaction: Bytes of a transaction between memory and L2.
    """
    sizes = [min(size, max(p.size, 1)) for size, p in zip(own, symbolic.parameters, strict=True)]
    alone = sweep(symbolic, [sizes], stages=stages, transaction=transaction)
    is_there = bool((found.sizes[fits] == np.array(sizes, np.int64)).all(axis=1).any())
    fewer = int((found.bytes_moved[fits] < alone.bytes_moved[0]).sum())
    choice = alone.choice(0, limits)._replace(sizes=tuple(own))
    return Standing(choice, fewer + 1, int(fits.sum()) + (not is_there))


def transaction_of(limits: Limits) -> int:
    """Return the bytes of a transaction of the device; 64 if the device table has none."""
    device = DEVICES.get(limits.device)
    return TRANSACTION if device is None else device.transaction


class _Sweeping:
    """Computes one sweep; tile sizes are computed once for equal symbolic sizes."""

    def __init__(self, symbolic: SymbolicTiles, table: Ints, stages: int, transaction: int) -> None:
        self._symbolic, self._table, self._transaction = symbolic, table, transaction
        self._stages: Final = max(stages, 1)
        self._sizes: dict[object, Ints] = {}
        self._padded: dict[object, Floats] = {}

    def sweep(self) -> Sweep:
        symbolic, count = self._symbolic, len(self._table)
        root = symbolic.nodes[-1]
        programs = np.ones(count)
        for p in with_parameters(root.map, ()):
            programs = programs * -(-(root.map.dims[p].interval.hi + 1) // self._table[:, p])
        is_valid = symbolic.constraints.holds_array(self._table)
        is_valid &= np.array([p.size > 0 for p in symbolic.parameters], dtype=bool).all()
        moved, shared, registers, elements = np.zeros((4, count))
        dot_side = np.zeros(count, dtype=np.int64)
        for array, once in new_tiles(symbolic, self._table):
            figures = counted(array.node, array.region, self._table, self._transaction)
            moved = moved + figures.moved * once
        for node, _ in regions_of(symbolic.nodes):
            # XLA places no tile that begins before the bounds, or whose strides are negative.
            for p, v in enumerate(node.map.dims):
                is_valid &= v.interval.lo % self._table[:, p] == 0
            is_valid &= (node.tile.strides_array(self._table) >= 0).all(axis=1)
            padded = self.padded(node)
            elements = np.maximum(elements, padded)
            if node.instruction not in symbolic.fused.inside:
                continue
            shared = np.maximum(shared, self._staged(node))
            held = padded * _words(node.instruction)
            for operand in node.operands:
                held = held + self.padded(operand) * _words(operand.instruction)
            registers = np.maximum(registers, np.ceil(held))
            if isinstance(node.instruction.op, DOTS):
                for tile in (node, *node.operands[:2]):
                    sizes = self.sizes(tile)
                    if sizes.shape[1]:
                        dot_side = np.maximum(dot_side, sizes.max(axis=1))
        return Sweep(
            self._table,
            is_valid,
            programs,
            moved,
            shared,
            registers,
            elements,
            dot_side,
        )

    def sizes(self, node: TiledNode) -> Ints:
        """Return the sizes of a node's tile for each tiling: [tilings, dimensions]."""
        # Element-wise chains share their symbolic sizes, so most nodes find theirs here.
        found = self._sizes.get(node.tile.sizes)
        if found is None:
            found = self._sizes[node.tile.sizes] = node.tile.sizes_array(self._table)
        return found

    def padded(self, node: TiledNode) -> Floats:
        """Return the number of elements of a node's tile padded to powers of two: [tilings]."""
        found = self._padded.get(node.tile.sizes)
        if found is None:
            sizes = np.maximum(self.sizes(node), 1)
            powers = np.exp2(np.ceil(np.log2(sizes)))
            found = self._padded[node.tile.sizes] = powers.prod(axis=1)
        return found

    def _staged(self, node: TiledNode) -> Floats:
        """Return the bytes that an instruction stages in shared memory: [tilings]."""
        op, staged = node.instruction.op, np.zeros(len(self._table))
        count = 1 if isinstance(op, Transpose) else 2 if isinstance(op, DOTS) else 0
        for operand in node.operands[:count]:
            staged = staged + self.padded(operand) * _bytes(operand.instruction)
        return staged * self._stages


def _bytes(ins: Instruction) -> float:
    """Return the bytes of an element, which may be a fraction; 4 if it is not an array."""
    return ins.type.element.bits / 8 if isinstance(ins.type, TensorType) else 4


def _words(ins: Instruction) -> float:
    """Return the number of 4-byte registers for an element, which may be a fraction."""
    return _bytes(ins) / 4


class TiledArray(NamedTuple):
    """An array that a fusion reads or writes by tiles.

    Attributes:
        node: Its tile.
        region: The region that loads or stores it.
        root: Index of the root that is written; -1 for an input.
    """

    node: TiledNode
    region: Region
    root: int = -1


def arrays_of(symbolic: SymbolicTiles) -> Iterator[TiledArray]:
    """Yield the inputs that a fusion reads by tiles, and then the roots that it writes.

    A root that other instructions of the fusion use is left out if it is tiled only inside nested
    regions, such as the loop of a dot: XLA refuses such tilings.
    """
    top: dict[Instruction, TiledArray] = {}
    for node, region in regions_of(symbolic.nodes):
        if node.instruction not in symbolic.fused.inside:
            yield TiledArray(node, region)
        elif region.root is symbolic.nodes[-1]:
            top[node.instruction] = TiledArray(node, region)
    for number, root in enumerate(symbolic.roots):
        if root in top:
            yield top[root]._replace(root=number)


def new_tiles(symbolic: SymbolicTiles, table: Ints) -> Iterator[tuple[TiledArray, Bools]]:
    """Yield the arrays that a fusion reads or writes, and for which tilings they have a new tile.

    The tile of an input is not new if it equals an earlier tile of the same array in the same
    region.

    Args:
        symbolic: The fusion.
        table: Tile sizes, [tilings, parameters]; the flags are [tilings].
    """
    before: dict[tuple[int, Instruction, int], list[TiledNode]] = {}
    for array in arrays_of(symbolic):
        once = np.ones(len(table), dtype=bool)
        if array.root < 0:
            key = id(array.region.root), array.node.instruction, array.node.output
            for earlier in before.setdefault(key, []):
                once &= ~is_repeated(array.node, earlier, table)
            before[key].append(array.node)
        yield array, once


def tile_traffics(
    symbolic: SymbolicTiles, sizes: Sequence[int], transaction: int = TRANSACTION
) -> list[TileTraffic]:
    """Return the traffic of each array's tiles, for one tiling: operands, then outputs.

    Args:
        symbolic: The fusion.
        sizes: Tile sizes, one for each parameter.
        transaction: Bytes of a transaction between memory and L2.
    """
    table = np.array([sizes], dtype=np.int64).reshape(1, len(symbolic.parameters))
    found = []
    for array, once in new_tiles(symbolic, table):
        node = array.node
        if array_type(node) is None or not once[0]:
            continue
        figures = counted(node, array.region, table, transaction)
        reasons = [
            node.claim,
            "" if figures.is_sure[0] else TOO_MANY,
            "" if is_aligned(node, sizes, transaction) else UNALIGNED,
        ]
        found.append(
            TileTraffic(
                node,
                array.root,
                node.tile.sizes_at(sizes),
                node.tile.strides_at(sizes),
                int(figures.tiles[0]),
                int(figures.asked[0]),
                int(figures.needed[0]),
                int(figures.moved[0]),
                "; ".join([reason for reason in reasons if reason]),
                bool(figures.is_least[0]),
            )
        )
    return found
