"""Many tilings of a fusion at once: what they move and need, and which of them is best.

Everything is computed from the symbolic tiles, with one array for all tilings.  The model: a tile
is held padded to powers of two, as Triton does; transposes pass the tile of their operand through
shared memory, products those of both operands, once for each pipeline stage, and the buffers of
different instructions share their place; registers hold an instruction's tile and those it reads.
Memory is read in sectors of 32 bytes, whole ones for each run of neighbouring elements.

Source: XLA, Triton shared memory estimator, Triton emitter constraints; the model of bytes is that
of XLA's tiling cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import POS_INF
from hloscope.arrays import Bools, Floats, Ints, np
from hloscope.devices import DEFAULT, SECTOR, Limits, limits_of
from hloscope.errors import UnsupportedError
from hloscope.ir import Instruction, TensorType
from hloscope.lazy import dataclass
from hloscope.ops import Transpose
from hloscope.tiling.analysis import DOTS, SymbolicTiles, TiledNode
from hloscope.tiling.concrete import candidate_sizes, with_parameters

MOST: Final = 1 << 16
"""So many tilings are looked at together."""
MAX_ELEMENTS: Final = 1 << 20
"""Elements of one padded tile that Triton takes.  Source: Triton `TRITON_MAX_TENSOR_NUMEL`."""
MAX_DOT_SIDE: Final = 256
"""The largest tile size of a product.  Source: XLA, Triton emitter constraints."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """What many tilings of one fusion move and need; an array has a number for each.

    Attributes:
        sizes: A row for each tiling.
        is_valid: Are all of XLA's constraints fulfilled?
        programs: How many programs run.
        bytes_moved: Read by all programs, and written.
        shared: Bytes of shared memory that a program needs.
        registers: Of 4 bytes, that a program holds at once.
        elements: Of the largest padded tile.
        dot_side: The largest tile size of a product.
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
        """One of the tilings, with all that is said of it."""
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
        for what, needed, there in (
            ("B of shared memory", self.shared[row], limits.shared),
            ("registers", self.registers[row], limits.registers),
            ("elements in a tile", self.elements[row], MAX_ELEMENTS),
            ("as tile size of a product", self.dot_side[row], MAX_DOT_SIDE),
        ):
            if needed > there:
                yield f"{int(needed):,} {what} needed, {there:,} there"

    def fits(self, limits: Limits) -> Bools:
        """Which tilings are valid and within the limits of a device?"""
        found: Bools = (
            self.is_valid
            & (self.shared <= limits.shared)
            & (self.registers <= limits.registers)
            & (self.elements <= MAX_ELEMENTS)
            & (self.dot_side <= MAX_DOT_SIDE)
        )
        return found


class Choice(NamedTuple):
    """One tiling and what it moves and needs.

    Attributes:
        sizes: One for each parameter.
        programs: How many programs run.
        bytes_moved: Read by all programs, and written.
        shared: Bytes of shared memory that a program needs.
        registers: Of 4 bytes, that a program holds at once.
        elements: Of the largest padded tile.
        excess: Why the device or XLA refuses it; empty if neither does.
    """

    sizes: tuple[int, ...]
    programs: int
    bytes_moved: int
    shared: int
    registers: int
    elements: int
    excess: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tilings that were found, the best first.

    Attributes:
        limits: Of the device.
        looked_at: How many tilings.
        valid: Those that fulfil XLA's constraints.
        fitting: Those that the device can run, too.
        best: By bytes moved; of equal ones those with the fewest programs.
        refused: Tilings that would come before the best, which the device cannot run; the nearest
            first.
        is_thinned: Were there so many candidates that some sizes were left out?
    """

    limits: Limits
    looked_at: int
    valid: int
    fitting: int
    best: tuple[Choice, ...]
    refused: tuple[Choice, ...]
    is_thinned: bool


def sweep(
    symbolic: SymbolicTiles,
    tilings: Sequence[Sequence[int]] | Ints,
    *,
    stages: int = 1,
) -> Sweep:
    """What many tilings move and need.

    Args:
        symbolic: The fusion.
        tilings: Sizes for all parameters, a row for each tiling.
        stages: Of the pipeline of loops.

    Raises:
        ValueError: The rows are not one positive size for each parameter.
    """
    count = len(symbolic.parameters)
    if any([len(tiling) != count for tiling in tilings]):
        raise ValueError(f"{count} positive sizes are needed for each tiling")
    table = np.array(tilings, dtype=np.int64).reshape(len(tilings), count)
    if (table < 1).any():
        raise ValueError(f"{count} positive sizes are needed for each tiling")
    return _Sweeping(symbolic, table, stages).sweep()


def _combinations(lists: Sequence[Sequence[int]]) -> Ints:
    """All choices of a number from each list, a row each; the last changes first.

    Column by column: an array of so many dimensions as there may be lists is none of numpy's.
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
) -> Ranking:
    """The candidate tilings of a fusion, ranked by the bytes that they move.

    Args:
        symbolic: The fusion.
        limits: Of the device; H100 unless given.
        top: How many are told.
        budget: How many are looked at; of more, sizes are left out evenly.
        stages: Of the pipeline of loops.

    Raises:
        UnsupportedError: A size does not fit into 64 bits.
    """
    limits = limits or limits_of(DEFAULT)
    too_large = UnsupportedError("tiles are not searched where sizes do not fit into 64 bits")
    if any(p.size and p.size > POS_INF for p in symbolic.parameters):
        raise too_large
    lists = [candidate_sizes(p.size) if p.size else [1] for p in symbolic.parameters]
    is_thinned = False
    while prod(map(len, lists)) > budget:
        longest = max(range(len(lists)), key=lambda k: len(lists[k]))
        lists[longest] = lists[longest][::-2][::-1]
        is_thinned = True
    try:
        found = sweep(symbolic, _combinations(lists), stages=stages)
    except OverflowError:
        raise too_large from None
    order = np.lexsort((found.registers, found.shared, found.programs, found.bytes_moved))
    fits = found.fits(limits)
    good = [int(row) for row in order if fits[row]][:top]
    before = [int(row) for row in order[: _position(order, good)] if found.is_valid[row]]
    refused = before[::-1][:top]
    return Ranking(
        limits,
        len(found),
        int(found.is_valid.sum()),
        int(fits.sum()),
        tuple([found.choice(row, limits) for row in good]),
        tuple([found.choice(row, limits) for row in refused]),
        is_thinned,
    )


def _position(order: Ints, good: Sequence[int]) -> int:
    """How many tilings come before the best one that fits."""
    return int(np.flatnonzero(order == good[0])[0]) if good else len(order)


class _Sweeping:
    """One sweep: sizes of every tile, once for equal symbolic sizes."""

    def __init__(self, symbolic: SymbolicTiles, table: Ints, stages: int) -> None:
        self._symbolic, self._table = symbolic, table
        self._stages: Final = max(stages, 1)
        self._sizes: dict[object, Ints] = {}
        self._padded: dict[object, Floats] = {}

    def sweep(self) -> Sweep:
        symbolic, count = self._symbolic, len(self._table)
        programs = self._tiles(symbolic.nodes[-1], with_parameters(symbolic.nodes[-1].map, ()))
        moved, shared, registers, elements = np.zeros((4, count))
        dot_side = np.zeros(count, dtype=np.int64)
        for node, runs in self._every():
            padded = self.padded(node)
            elements = np.maximum(elements, padded)
            if node.instruction not in symbolic.fused.inside:
                moved = moved + runs * self._read(node)
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
        written = sum(_elements(root) * _bytes(root) for root in symbolic.roots)
        return Sweep(
            self._table,
            symbolic.constraints.holds_array(self._table),
            programs,
            moved + written,
            shared,
            registers,
            elements,
            dot_side,
        )

    def _every(self) -> Iterator[tuple[TiledNode, Floats]]:
        """Every tile with how often it is computed by all programs together."""
        root = self._symbolic.nodes[-1]
        active = with_parameters(root.map, ())
        todo = [(self._symbolic.nodes, active, self._tiles(root, active))]
        while todo:
            region, active, runs = todo.pop()
            for node in region:
                yield node, runs
                for inner in node.regions:
                    within = active
                    if isinstance(node.instruction.op, DOTS):
                        within = with_parameters(inner[-1].map, active)
                    todo.append((inner, within, self._tiles(inner[-1], within)))

    def _tiles(self, root: TiledNode, active: Sequence[int]) -> Floats:
        """The number of tiles of a region: for a part of a concatenate, those that meet it."""
        found = np.ones(len(self._table))
        for p in active:
            interval, sizes = root.map.dims[p].interval, self._table[:, p]
            found = found * (interval.hi // sizes - interval.lo // sizes + 1)
        return found

    def sizes(self, node: TiledNode) -> Ints:
        """The sizes of a node's tile, a row for each tiling."""
        found = self._sizes.get(node.tile.sizes)
        if found is None:
            found = self._sizes[node.tile.sizes] = node.tile.sizes_array(self._table)
        return found

    def padded(self, node: TiledNode) -> Floats:
        """The elements of a node's tile with every size a power of two."""
        found = self._padded.get(node.tile.sizes)
        if found is None:
            sizes = np.maximum(self.sizes(node), 1)
            powers = np.exp2(np.ceil(np.log2(sizes)))
            found = self._padded[node.tile.sizes] = powers.prod(axis=1)
        return found

    def _read(self, node: TiledNode) -> Floats:
        """Bytes of the sectors that one program reads of an operand of the fusion."""
        type, sizes = node.instruction.type, self.sizes(node)
        if not isinstance(type, TensorType) or not type.is_static or type.rank != node.tile.rank:
            return self.padded(node) * _bytes(node.instruction)
        clipped = np.minimum(sizes, np.array(type.shape, dtype=np.int64).reshape(1, -1))
        strides = node.tile.strides_array(self._table)
        run, is_open = np.ones(len(self._table)), np.ones(len(self._table), dtype=bool)
        order = type.layout.minor_to_major if type.layout else range(type.rank)[::-1]
        for d in order:
            is_open &= (np.abs(strides[:, d]) == 1) | (clipped[:, d] == 1)
            run = np.where(is_open, run * clipped[:, d], run)
            is_open &= clipped[:, d] == type.shape[d]
        moved = run * _bytes(node.instruction)
        sectors = np.ceil(moved / SECTOR) * SECTOR
        found: Floats = clipped.prod(axis=1, dtype=float) / run * sectors
        return found

    def _staged(self, node: TiledNode) -> Floats:
        """Bytes that pass through shared memory for an instruction."""
        op, staged = node.instruction.op, np.zeros(len(self._table))
        if isinstance(op, Transpose):
            operands = node.operands[:1]
        elif isinstance(op, DOTS):
            operands = node.operands[:2]
        else:
            return staged
        for operand in operands:
            staged = staged + self.padded(operand) * _bytes(operand.instruction)
        return staged * self._stages


def _bytes(ins: Instruction) -> float:
    """Bytes of an element; half ones of packed elements too."""
    return ins.type.element.bits / 8 if isinstance(ins.type, TensorType) else 4


def _words(ins: Instruction) -> float:
    """Registers of 4 bytes for an element."""
    return _bytes(ins) / 4


def _elements(ins: Instruction) -> int:
    return ins.type.num_elements if isinstance(ins.type, TensorType) else 0
