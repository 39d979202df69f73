"""The transpose emitters: tiles pass through shared memory so that reads and writes are contiguous.

Source: XLA `xla/backends/gpu/codegen/emitters/transpose.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Const, Expr, Range
from hloscope.indexing import IndexingMap
from hloscope.ir import TensorType
from hloscope.memory.choice import Choice, in_memory_of, is_tiled_transpose
from hloscope.memory.fused import behind_tuples
from hloscope.memory.kernel import (
    THREAD,
    Kernel,
    Launch,
    Proof,
    Reading,
    SharedAccess,
    Stores,
    split,
)
from hloscope.memory.storage import PackedTile, TransposeShape, index_in

BASE: Final = 32
"""Side, in elements, of the square tile that a transpose moves if threads use no vectors."""
ROWS, ROWS_AMD = 4, 8
"""Rows of a tile that a block reads in one step: on NVIDIA, and on AMD devices."""
VECTOR_BYTES, VECTOR_BYTES_AMD = 4, 16
PACKED_WARPS: Final = 4


class Tiles(Struct, frozen=True):
    """Index maps of a transpose kernel in memory order: input, output, tile in shared memory.

    Attributes:
        emitter: Name of the emitter.
        launch: Launch dimensions.
        read: Index of the input that a thread reads, with its loops and conditions.
        write: Index of the output that a thread writes, with its loops and conditions.
        input_sizes: Sizes of the input in memory order; dimensions that stay adjacent are merged.
        output_sizes: Sizes of the output, likewise.
        shared: Accesses of the tile: label, index map and sizes of the tile.
        vector: Consecutive elements of a thread.
        proofs: Limits on the addresses of vector loads and of vector stores that LLVM proves
            aligned; `None` if it proves all.
    """

    emitter: str
    launch: Launch
    read: Indices
    write: Indices
    input_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]
    shared: tuple[tuple[str, Indices, tuple[int, ...]], ...]
    vector: int
    proofs: tuple[Proof | None, Proof | None] = (None, None)


class Indices(Struct, frozen=True):
    """An index that a thread computes.

    `ranges` has the sizes of its loops. `inside` has expressions with exclusive upper bounds, all
    of which must hold.
    """

    ranges: tuple[int, ...]
    index: tuple[Expr, ...]
    inside: tuple[tuple[Expr, int], ...] = ()


def transpose(choice: Choice) -> Kernel:
    """Return the kernel that a transpose emitter generates."""
    shape = choice.transpose
    assert shape is not None
    packed = PackedTile.of(shape)
    tiles = _tiled(choice, shape) if packed is None else _packed(packed)
    first = next(hero for hero in choice.heroes if is_tiled_transpose(hero))
    source = first.operands[0].type
    assert isinstance(source, TensorType)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    stores: dict[int, Stores] = {}
    for k, (root, hero) in enumerate(zip(choice.roots, choice.heroes, strict=True)):
        type = choice.array(k)
        if type is None:
            outputs.append(None)
            continue
        if not is_tiled_transpose(hero):
            map = _map(tiles, tiles.read, tiles.input_sizes, type)
            outputs.append((map,))
            readings.append(Reading(root, 0, map, proof=tiles.proofs[0]))
            continue
        read_type, hero_type = hero.operands[0].type, hero.type
        assert isinstance(read_type, TensorType)
        assert isinstance(hero_type, TensorType)
        inputs[k, 0] = _map(tiles, tiles.read, tiles.input_sizes, read_type)
        readings.append(Reading(hero.operands[0], 0, inputs[k, 0], proof=tiles.proofs[0]))
        written = _map(tiles, tiles.write, tiles.output_sizes, hero_type)
        place = in_memory_of(written, hero_type, type)
        stores[len(outputs)] = Stores(proof=tiles.proofs[1])
        outputs.append(None if place is None else (place,))
        if place is not None and behind_tuples(root) is not hero:
            readings.append(Reading(root, 0, place, is_hero=False))
    return Kernel(
        tiles.emitter,
        tiles.launch,
        choice.heroes,
        tuple(readings),
        inputs,
        tuple(outputs),
        shared=_shared(tiles, source),
        unroll=tiles.vector,
        stores=stores,
    )


def _map(tiles: Tiles, indices: Indices, sizes: Sequence[int], type: TensorType) -> IndexingMap:
    conditions = [*zip(indices.index, sizes, strict=True), *indices.inside]
    index = index_in(indices.index, sizes, type)
    return tiles.launch.map(indices.ranges, index, conditions).simplify(replace_points=False)


def _shared(tiles: Tiles, source: TensorType) -> tuple[SharedAccess, ...]:
    found = []
    for what, some, sizes in tiles.shared:
        map = tiles.launch.map(some.ranges, some.index, some.inside)
        map = map.simplify(replace_points=False)
        found.append(SharedAccess(what, map, sizes, max(source.element.bits, 8)))
    return tuple(found)


# ---------------------------------------------------------------------------------------- tiled


def _tiled(choice: Choice, shape: TransposeShape) -> Tiles:
    rows = ROWS_AMD if choice.device.is_amd else ROWS
    threads = rows * BASE
    vector = shape.sizes[-1] if shape.keeps_minor else _vector(choice, shape, threads)
    block = _block(shape, vector)
    counts = [-(-n // b) for n, b in zip(shape.input_sizes, block, strict=True)]
    launch = Launch.of(threads, max(prod(counts), 1))
    side = BASE if shape.keeps_minor else BASE * vector
    stride = side * rows * (vector if shape.keeps_minor else 1)
    ranges = (side // rows, vector)
    linear = Range(0) * stride + THREAD * vector + Range(1)
    permutation = shape.permutation
    out_block = [block[p] for p in permutation]
    block_ids = split(launch.block, counts)
    offsets, out_offsets = split(linear, block), split(linear, out_block)
    read = tuple([b * n + o for b, n, o in zip(block_ids, block, offsets, strict=True)])
    out_ids = [block_ids[p] for p in permutation]
    write = tuple([b * n + o for b, n, o in zip(out_ids, out_block, out_offsets, strict=True)])
    # The tile is written with the two dimensions swapped, so that it is read in output order.
    swapped = list(offsets)
    last = len(block) - (2 if shape.keeps_minor else 1)
    other = permutation[last]
    swapped[last], swapped[other] = swapped[other], swapped[last]
    padded = list(block)
    # One more column puts the elements of a column of the tile into different banks.
    padded[last] += 1
    return Tiles(
        "transpose",
        launch,
        Indices(ranges, read),
        Indices(ranges, write),
        shape.input_sizes,
        shape.sizes,
        (
            ("write the tile", Indices(ranges, tuple(swapped)), tuple(padded)),
            ("read the tile", Indices(ranges, tuple(offsets)), tuple(padded)),
        ),
        vector,
    )


def _block(shape: TransposeShape, vector: int) -> list[int]:
    block = [1] * len(shape.sizes)
    if shape.keeps_minor:
        block[-1] = vector
        block[-2] = block[shape.permutation[-2]] = BASE
    else:
        block[-1] = block[shape.permutation[-1]] = BASE * vector
    return block


def _vector(choice: Choice, shape: TransposeShape, threads: int) -> int:
    """Return how many consecutive elements a thread moves at once.

    It depends on the amount of work, on shared memory and on divisibility.

    Args:
        choice: The fusion and its device.
        shape: The transpose in memory order.
        threads: Threads of a block.
    """
    device = choice.device
    heroes = [h for h in dict.fromkeys(choice.heroes) if is_tiled_transpose(h)]
    sizes = [_bytes(hero.type) for hero in heroes]
    used = sum([BASE * (BASE + 1) * size for size in sizes])
    counts = [-(-n // b) for n, b in zip(shape.input_sizes, _block(shape, 1), strict=True)]
    exchanged = shape.input_sizes[-1], shape.sizes[-1]
    vector = (VECTOR_BYTES_AMD if device.is_amd else VECTOR_BYTES) // max(sizes)
    while vector > 1:
        square = vector * vector
        if (
            # A tile of vectors has `square` times the elements, so the grid shrinks and the shared
            # memory grows by that factor.
            prod(counts) * threads >= square * device.threads
            and used * square <= device.shared_bytes
            and not any(n % vector for n in exchanged)
        ):
            return vector
        vector //= 2
    return 1


def _bytes(type: object) -> int:
    assert isinstance(type, TensorType)
    return max(type.element.bits // 8, 1)


# --------------------------------------------------------------------------------------- packed


def _packed(packed: PackedTile) -> Tiles:
    v, tile = packed.vector, packed.tile
    out_sizes = packed.sizes
    in_tile, in_sizes = packed.of_input(tile), packed.of_input(out_sizes)
    t1_out = packed.permutation.index(packed.t1)
    rows, t1 = tile[packed.t1], tile[t1_out]
    columns = tile[packed.a] * t1
    counts = [-(-n // b) for n, b in zip(out_sizes, tile, strict=True)]
    launch = Launch.of(PACKED_WARPS * BASE, max(prod(counts), 1))
    lane, warp = THREAD % BASE, THREAD // BASE
    block_ids = split(launch.block, counts)
    zero: list[Expr] = [Const(0)] * len(tile)

    row = Range(0) * PACKED_WARPS + warp
    column = lane * v + Range(1)
    inside = [*zero]
    inside[packed.a], inside[packed.t1], inside[packed.t2] = column // t1, column % t1, row
    ids = packed.of_input(block_ids)
    read = tuple([b * n + o for b, n, o in zip(ids, in_tile, inside, strict=True)])
    read_ranges = (-(-rows // PACKED_WARPS), v)
    read_inside = ((column, columns), (row, rows))
    # Each group of `v` rows is rotated by `v` columns in place of padding, so that lanes which read
    # a column access different banks.
    shared_write = (row, (column + row // v * v) % (BASE * v))

    # The tile is read back along its columns: each lane holds `v` rows of a column.
    out_column = (Range(0) * PACKED_WARPS + warp) * v + Range(1)
    out_row = lane * v + Range(2)
    outside = [*zero]
    outside[packed.a] = out_column // t1
    outside[t1_out], outside[packed.t1] = out_column % t1, out_row
    write = tuple([b * n + o for b, n, o in zip(block_ids, tile, outside, strict=True)])
    write_ranges = (-(-columns // (v * PACKED_WARPS)), v, v)
    write_inside = ((out_column, columns), (out_row, rows))
    shared_read = (out_row, (out_column + out_row // v * v) % (BASE * v))
    sizes = (BASE * v, BASE * v)
    return Tiles(
        "packed transpose",
        launch,
        Indices(read_ranges, read, read_inside),
        Indices(write_ranges, write, write_inside),
        tuple(in_sizes),
        tuple(out_sizes),
        (
            ("write the tile", Indices(read_ranges, shared_write, read_inside), sizes),
            ("read the tile", Indices(write_ranges, shared_read, write_inside), sizes),
        ),
        v,
        _proofs(packed),
    )


def _proofs(packed: PackedTile) -> tuple[Proof, Proof]:
    """Return the limits up to which LLVM proves vector accesses aligned: of loads, of stores.

    They were found by compiling 60 transposes for an H100: up to three terms are always proved,
    five never. The step of a loop that is not unrolled is one more term. Loops over words of two
    elements are unrolled, those over words of four are not.
    """
    pairs = [*zip(packed.sizes, packed.tile, strict=True)]
    is_whole = not any(n % size for n, size in pairs)
    blocks = sum([n > size for n, size in pairs])
    if packed.vector > 2:
        read = 4 if is_whole else 3
        return Proof(((1, read, read),), blocks), Proof(((1, 3, 3),), blocks)
    surely = 4 if is_whole else 3
    return Proof(((1, 4, 4),), blocks), Proof(((1, surely, 4), (1, 3, 3)), blocks)
