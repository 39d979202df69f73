"""Transposes as XLA's emitters see them: without sizes of 1, adjacent dimensions merged.

Source: XLA `xla/service/gpu/ir_emission_utils.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.indexing import major_to_minor
from hloscope.ir import Instruction
from hloscope.memory.storage import array_of
from hloscope.ops import Transpose

TILED: Final = 16
"""Both exchanged dimensions are at least this large, …"""
TILED_SMALL: Final = 8
TILED_TOTAL: Final = 64 * 128
"""… or at least 8, and together this large."""
KEPT_BITS: Final = 64
"""Bits of a fastest-varying dimension that a transpose keeps in place, at most, …"""
MOVED_BITS: Final = 128
"""… and bits that it and the dimensions exchanged around it give, at least."""
BANKS: Final = 32
WORD_BITS: Final = 32
FEWEST_WORDS: Final = 10
"""Minimum number of words of a row and of a column of a packed tile."""
_T = TypeVar("_T")


class TransposeShape(Struct, frozen=True):
    """A transpose of memory: `output[i] = input sizes[permutation[i]]`.

    Attributes:
        sizes: Sizes of the output, the slowest first.
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
        """Does the fastest-varying dimension keep its position?"""
        return self.permutation[-1] == len(self.permutation) - 1

    @classmethod
    def of(cls, ins: Instruction) -> TransposeShape | None:
        """Return the shape of a transpose; `None` if no element changes its address.

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
        """Return the shape for sizes and input positions, with adjacent dimensions merged."""
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
        """Does an emitter with shared memory take it?"""
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
    """Tiles of `[…, T2, …, A, T1, B]` to `[…, T1, …, A, T2, B]`, of elements below 32 bits.

    `B` is 1, and `A` is 1 where no dimension stays in place before the last one moved.

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
        """Return the position of `A`, the same in the input and in the output."""
        return len(self.sizes) - 3

    @property
    def t1(self) -> int:
        """Return the position of `T1` in the input, which is that of `T2` in the output."""
        return len(self.sizes) - 2

    @property
    def t2(self) -> int:
        """Return the position of `T2` in the input."""
        return self.permutation[self.t1]

    def of_input(self, sizes: Sequence[_T]) -> list[_T]:
        """Return the values of the output's dimensions in the order of the input's dimensions."""
        found = list(sizes)
        for value, place in zip(sizes, self.permutation, strict=True):
            found[place] = value
        return found

    @classmethod
    def of(cls, shape: TransposeShape) -> PackedTile | None:
        """Return the packed tiles of a transpose; `None` if another emitter is used.

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
