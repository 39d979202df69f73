"""Arrays in memory order, and transposes and reductions in the form that XLA's emitters use."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Expr
from hloscope.indexing import major_to_minor, padded_physical_sizes, reshaped, to_logical
from hloscope.ir import Instruction, TensorType, Type, array_bytes
from hloscope.ops import Reduce, Transpose
from hloscope.support.devices import Device

# --------------------------------------------------------------------------------------------------
# Arrays as they lie in memory: bits of an element, sizes in physical order.


def data_bytes(type: TensorType) -> int:
    """Return the bytes of all elements of an array, without padding; 0 if a size has no bound."""
    found = array_bytes(type)
    return found.data if found else 0


def storage_bytes(type: TensorType) -> int:
    """Return the bytes of an array in memory, with padding of tiles; 0 if a size has no bound."""
    found = array_bytes(type)
    return found.padded if found else 0


def array_of(value: Instruction) -> TensorType | None:
    """Return the type of a value that is an array with bounded sizes; `None` otherwise."""
    return value.type if is_array(value.type) else None  # type: ignore[return-value]


def is_array(type: Type) -> bool:
    """Is the type an array type whose sizes all have a known value or bound?"""
    return isinstance(type, TensorType) and None not in type.most


def physical_sizes(type: TensorType) -> tuple[int, ...]:
    """Return the sizes in memory order, the slowest-varying dimension first. Tiles are ignored."""
    return tuple(type.shape[k] for k in major_to_minor(type))


def element_count(type: TensorType) -> int:
    """Return the number of elements; a bounded size counts as its bound."""
    return prod(type.shape)


def index_in(parts: Sequence[Expr], sizes: Sequence[int], type: TensorType) -> list[Expr]:
    """Return the logical index of the element at a position in memory.

    Args:
        parts: The position, as an index into memory of shape `sizes`.
        sizes: Sizes of memory, the slowest first. Their product is the number of elements of the
            type.
        type: Type of the array, with its layout.
    """
    if element_count(type) == 0:
        zeros = [parts[0] * 0] * len(padded_physical_sizes(type)) if parts else []
        return [*to_logical(zeros, type)[0]]
    if prod(padded_physical_sizes(type)) != element_count(type):  # emitters skip what tiles pad
        at = dict(zip(major_to_minor(type), _cut(parts, sizes, physical_sizes(type)), strict=True))
        return [at[k] for k in range(type.rank)]
    return to_logical(_cut(parts, sizes, padded_physical_sizes(type)), type)[0]


def _cut(parts: Sequence[Expr], sizes: Sequence[int], into: Sequence[int]) -> list[Expr]:
    return [*reshaped(list(parts), tuple(sizes), tuple(into))]


def same_memory(a: TensorType, b: TensorType) -> bool:
    """Do two arrays have the same sizes in memory order, apart from sizes of 1?"""
    return _without_ones(physical_sizes(a)) == _without_ones(physical_sizes(b))


def _without_ones(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in sizes if size != 1)


# --------------------------------------------------------------------------------------------------
# Transposes as XLA's emitters see them: without sizes of 1, adjacent dimensions merged.
#
# Source: XLA `xla/service/gpu/ir_emission_utils.cc`.


TILED: Final = 16
"""Minimum size of both exchanged dimensions for a transpose through shared memory.

Smaller dimensions need `TILED_TOTAL`.
"""
TILED_SMALL: Final = 8
TILED_TOTAL: Final = 64 * 128
"""Minimum product of the exchanged dimensions' sizes for a transpose through shared memory.

It applies if one size is below `TILED`; both must be at least 8.
"""
KEPT_BITS: Final = 64
"""Maximum bits along the fastest-varying dimension if a tiled transpose leaves it in place."""
MOVED_BITS: Final = 128
"""Minimum bits of a tiled transpose along the fastest-varying dimension and the smaller exchanged
one.

It applies if the fastest-varying dimension stays in place; the sizes of both are multiplied.
"""
BANKS: Final = 32
WORD_BITS: Final = 32
FEWEST_WORDS: Final = 10
"""Minimum number of words of shared memory in a row and in a column of a packed transpose's
tile.
"""
_T = TypeVar("_T")


class TransposeShape(Struct, frozen=True):
    """A transpose in memory order: `output[i] = input[j]` with `j[permutation[k]] = i[k]`.

    Attributes:
        sizes: Sizes of the output, the slowest first. Dimensions that stay adjacent are merged.
        permutation: For each dimension of the output, its position in the input.
        bits: Bits of an element.
    """

    sizes: tuple[int, ...]
    permutation: tuple[int, ...]
    bits: int

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Return the sizes of the input, the slowest first."""
        found = [1] * len(self.sizes)
        for size, place in zip(self.sizes, self.permutation, strict=True):
            found[place] = size
        return tuple(found)

    @property
    def keeps_minor(self) -> bool:
        """Is the fastest-varying dimension of the input also that of the output?"""
        return self.permutation[-1] == len(self.permutation) - 1

    @classmethod
    def of(cls, ins: Instruction) -> TransposeShape | None:
        """Return the memory-order form of a transpose; `None` if no element changes its address.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> module = parse_hlo("ENTRY e { p = f32[8,1,4,6] parameter(0) "
        ...     "ROOT t = f32[4,6,1,8] transpose(p), dimensions={2,3,1,0} }")
        >>> TransposeShape.of(module.entry.root)
        TransposeShape(sizes=(24, 8), permutation=(1, 0), bits=32)
        """
        if not isinstance(ins.op, Transpose) or not ins.operands:
            return None
        here, there = array_of(ins), array_of(ins.operands[0])
        if here is None or there is None or here.rank != there.rank or 0 in here.shape:
            return None
        dimensions = ins.op.permutation
        if sorted(dimensions) != list(range(here.rank)):
            return None
        place = {dimension: at for at, dimension in enumerate(major_to_minor(there))}
        moved = [
            (here.shape[k], place[dimensions[k]])
            for k in major_to_minor(here)
            if here.shape[k] != 1
        ]
        return cls.normal(moved, here.element.bits)

    @classmethod
    def normal(cls, moved: Sequence[tuple[int, int]], bits: int) -> TransposeShape | None:
        """Return the transpose of given sizes, with dimensions that stay adjacent merged.

        `None` if only one dimension remains.

        Args:
            moved: Size and input position of each output dimension, the slowest first.
            bits: Bits of an element.
        """
        ranked = {place: k for k, place in enumerate(sorted(place for _, place in moved))}
        runs: list[list[tuple[int, int]]] = []
        for size, place in moved:
            at = ranked[place]
            # Dimensions that follow each other in both input and output move as one.
            if runs and runs[-1][-1][1] + 1 == at:
                runs[-1].append((size, at))
            else:
                runs.append([(size, at)])
        if len(runs) < 2:
            return None
        starts = sorted(run[0][1] for run in runs)
        permutation = tuple(starts.index(run[0][1]) for run in runs)
        return cls(tuple(prod(size for size, _ in run) for run in runs), permutation, bits)

    @property
    def is_tiled(self) -> bool:
        """Does XLA use a transpose emitter with shared memory for this shape?"""
        if PackedTile.of(self) is not None:
            return True
        if self.keeps_minor:
            exchanged = min(self.input_sizes[-2], self.sizes[-2])
            bits = self.bits * self.sizes[-1]
            return bits <= KEPT_BITS and bits * exchanged >= MOVED_BITS
        a, b = self.input_sizes[-1], self.sizes[-1]
        is_large = (a >= TILED and b >= TILED) or (
            a >= TILED_SMALL and b >= TILED_SMALL and a * b >= TILED_TOTAL
        )
        return is_large and self.bits != 4


class PackedTile(Struct, frozen=True):
    """Tiles by which XLA's packed transpose emitter moves elements of fewer than 32 bits.

    The input has the dimensions `[…, T2, …, A, T1, B]`, the output `[…, T1, …, A, T2, B]`. `B` is
    1. `A` is 1 if the dimension before the last moved one does not stay in place.

    Attributes:
        sizes: Sizes of the output, with `A` and `B`.
        permutation: For each dimension of the output, its position in the input.
        tile: Sizes of a tile of the output.
        vector: Elements of a word of shared memory.
    """

    sizes: tuple[int, ...]
    permutation: tuple[int, ...]
    tile: tuple[int, ...]
    vector: int

    @property
    def a(self) -> int:
        """Return the position of dimension `A`, which stays in place between the moved ones.

        It is the third position from the end, in the input `[…, T2, …, A, T1, B]` and in the
        output.
        """
        return len(self.sizes) - 3

    @property
    def t1(self) -> int:
        """Return the position of `T1` in the input `[…, T2, …, A, T1, B]`: the last but one.

        `T2` has this position in the output.
        """
        return len(self.sizes) - 2

    @property
    def t2(self) -> int:
        """Return the position of `T2` in the input `[…, T2, …, A, T1, B]`.

        `T1` has this position in the output.
        """
        return self.permutation[self.t1]

    def of_input(self, sizes: Sequence[_T]) -> list[_T]:
        """Reorder one value per output dimension into the order of input dimensions."""
        found = list(sizes)
        for value, place in zip(sizes, self.permutation, strict=True):
            found[place] = value
        return found

    @classmethod
    def of(cls, shape: TransposeShape) -> PackedTile | None:
        """Return the tiles of a transpose; `None` if XLA does not use the packed emitter for it.

        XLA uses it for elements of fewer than 32 bits, if the fastest-varying dimension moves, and
        if the tiles are large enough and consist of whole words.

        >>> PackedTile.of(TransposeShape((64, 96), (1, 0), 16)).tile
        (64, 1, 64, 1)
        """
        if shape.bits >= WORD_BITS or shape.keeps_minor:
            return None
        sizes, permutation = [*shape.sizes, 1], [*shape.permutation, len(shape.sizes)]
        rank = len(sizes)
        if rank < 3 or permutation[rank - 3] != rank - 3:
            sizes.insert(rank - 2, 1)
            permutation = [p + 1 if p > rank - 3 else p for p in permutation]
            permutation.insert(rank - 2, rank - 2)
        return cls._tiled(tuple(sizes), tuple(permutation), WORD_BITS // shape.bits)

    @classmethod
    def _tiled(
        cls, sizes: tuple[int, ...], permutation: tuple[int, ...], vector: int
    ) -> PackedTile | None:
        found = cls(sizes, permutation, (1,) * len(sizes), vector)
        t1, a, t2 = found.of_input(sizes)[found.t1], sizes[found.a], sizes[found.t1]
        side = BANKS * vector
        tile_t1 = min(t1, side)
        tile_a, tile_t2 = min(a, side // tile_t1), min(t2, side)
        columns = tile_a * tile_t1
        if min(columns, tile_t2) < FEWEST_WORDS * vector:
            return None
        if columns % vector or tile_t2 % vector or t2 % tile_t2 % vector:
            return None
        tile = [1] * len(sizes)
        tile[permutation.index(found.t1)] = tile_t1
        tile[found.t1], tile[found.a] = tile_t2, tile_a
        return replace(found, tile=tuple(tile))


# --------------------------------------------------------------------------------------------------
# Reductions as XLA's emitters see them: rows or columns of a matrix in memory.
#
# Source: XLA `xla/service/gpu/reduction_utils.cc`.


LARGEST_ROW: Final = 16 * 1024
"""Maximum number of elements of a row that one block reduces, so that no atomic updates are
needed.
"""
LARGEST_MAJOR: Final = 8
"""Maximum size of the reduced major dimensions that one block reduces without atomic updates."""
LARGEST_COLUMN: Final = 128
"""Maximum elements of a column that one block reduces without atomics, per lane of a warp."""


class ReductionShape(Struct, frozen=True):
    """A reduction of an array in memory order, with dimensions merged into three.

    Reductions by rows have `[reduced, kept, reduced]`, others `[kept, reduced, kept]`.

    Attributes:
        by_rows: Are the fastest-varying dimensions reduced?
        sizes: Sizes of the three parts, the slowest first.
    """

    by_rows: bool
    sizes: tuple[int, int, int]

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the sizes of the kept dimensions."""
        return (self.sizes[1],) if self.by_rows else (self.sizes[0], self.sizes[2])

    @classmethod
    def of(cls, ins: Instruction) -> ReductionShape | None:
        """Return the memory-order form of a reduction.

        `None` if its reduced or kept dimensions are not consecutive in memory.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> module = parse_hlo("add { a = f32[] parameter(0) b = f32[] parameter(1) "
        ...     "ROOT c = f32[] add(a, b) } ENTRY e { p = f32[7,100,128] parameter(0) "
        ...     "z = f32[] constant(0) "
        ...     "ROOT r = f32[100] reduce(p, z), dimensions={0,2}, to_apply=add }")
        >>> ReductionShape.of(module.entry.root)
        ReductionShape(by_rows=True, sizes=(7, 100, 128))
        """
        if not isinstance(ins.op, Reduce) or not ins.operands or not is_array(ins.operands[0].type):
            return None
        type = ins.operands[0].type
        assert isinstance(type, TensorType)
        reduced = set(ins.op.dimensions)
        order = major_to_minor(type)
        flags = [dimension in reduced for dimension in order]
        kept_run, reduced_run = _run(flags, False), _run(flags, True)
        if kept_run is None and reduced_run is None:
            return None
        sizes = physical_sizes(type)
        if kept_run is not None:
            front, kept, behind = _parts(sizes, kept_run)
            # All elements are reduced to one: XLA treats this as a single row.
            if kept == 1:
                return cls(True, (1, 1, front * behind))
            if behind == 1:
                return cls(False, (1, front, kept))
            return cls(True, (front, kept, behind))
        assert reduced_run is not None
        front, middle, behind = _parts(sizes, reduced_run)
        return cls(True, (1, front, middle)) if behind == 1 else cls(False, (front, middle, behind))

    def is_worth_it(self, device: Device) -> bool:
        """Does XLA prefer a reduction emitter to a loop in which each thread reduces by itself?"""
        warp, (_, reduced, minor) = device.warp, self.sizes
        if self.by_rows:
            return minor >= warp or (minor > 0 and warp % minor == 0)
        is_small = (
            reduced < warp
            or (reduced < 2 * warp and minor < warp)
            or (reduced < 4 * warp and minor < 8)
            or (reduced < 8 * warp and minor < 3)
        )
        return not is_small


def is_reduction_hero(root: Instruction, hero: Instruction, device: Device) -> bool:
    """Does a reduction emitter accept this hero of a root?"""
    shape = ReductionShape.of(hero)
    if shape is None or not shape.is_worth_it(device):
        return False
    major, reduced, minor = shape.sizes
    # One block must reduce all elements of a result, so that no atomic update is needed.
    if shape.by_rows:
        is_race_free = minor <= LARGEST_ROW and major <= LARGEST_MAJOR
    else:
        is_race_free = reduced <= LARGEST_COLUMN * device.warp
    return root is hero or is_race_free


def _run(flags: Sequence[bool], wanted: bool) -> tuple[int, int] | None:
    """Return the half-open range of the positions whose flag equals `wanted`.

    `None` if they are not consecutive; (0, 0) if there are none.
    """
    places = [k for k, flag in enumerate(flags) if flag is wanted]
    if not places:
        return 0, 0
    first, last = places[0], places[-1]
    return (first, last + 1) if last - first + 1 == len(places) else None


def _parts(sizes: Sequence[int], run: tuple[int, int]) -> tuple[int, int, int]:
    start, stop = run
    return prod(sizes[:start]), prod(sizes[start:stop]), prod(sizes[stop:])
