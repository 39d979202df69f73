"""The tiling space of a kernel: its tiled dimensions and its run-time values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import POS_INF, Const, Dim, Expr, Interval, Range, Runtime, Var
from hloscope.errors import UnsupportedError
from hloscope.indexing import integers, output_sizes, sizes
from hloscope.ir import Dims, Instruction, Op, TensorType, TupleType
from hloscope.ops import (
    Dot,
    DotDimensions,
    DotGeneral,
    DynamicSlice,
    RaggedDot,
    Reduce,
    ScaledDot,
    Scan,
)
from hloscope.simplifier import Domain
from hloscope.tiling.fused import Fused
from hloscope.tiling.tile import DimTile, Refusal, RefusalCode, Tile

# --------------------------------------------------------------------------------------------------
# The tiling space of a kernel: its tiled dimensions and run-time values.
#
# Each dimension of a root is one, and each dimension that an op in the kernel contracts, reduces or
# scans.
#
# Source: XLA's experimental `TilingSpace`.


MOST_TILE: Final = POS_INF
"""Maximum size of a tile."""
UNFIT: Final = "operands and result do not fit together"
"""Reason to refuse an instruction of an invalid program."""


class DimensionKind(StrEnum):
    """Order of the tiles of a dimension: independent (parallel), or one after another."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class Roots(StrEnum):
    """Treatment of a kernel with several roots."""

    REFUSED = "refused"
    """The kernel is refused, as by XLA unless a flag is set."""
    SHARED = "shared"
    """Roots of equal sizes share their dimensions; others are refused."""
    OWN = "own"
    """Each root has its own dimensions."""


class Dimension(Struct, frozen=True):
    """A tiled dimension of an instruction in a kernel.

    Attributes:
        size: Number of elements.
        kind: Whether its tiles are independent of each other.
        instruction: The instruction that it belongs to.
        position: Its position among the instruction's dimensions: output dimensions first, then
            reduced or contracted ones.
        tile_size: The size of its tiles; `None` while it is not chosen.
    """

    size: int
    kind: DimensionKind
    instruction: Instruction
    position: int
    tile_size: int | None = None

    @property
    def tiles(self) -> int:
        """Number of tiles that cover the dimension; an upper bound if the tile size is unknown."""
        return self.size if self.tile_size is None else -(-self.size // self.tile_size)


class RuntimeValue(Struct, frozen=True):
    """A value that the kernel reads at run time, such as a start index.

    Attributes:
        bounds: Interval of its values, after clamping.
        origin: The instruction that computes it.
        dimension: The sequential dimension whose tile selects the element; `None` for a scalar.
        is_prefix_sum: Whether it is the sum of the preceding elements instead of the element.
    """

    bounds: Interval
    origin: Instruction
    dimension: int | None = None
    is_prefix_sum: bool = False


class TilingSpace:
    """The dimensions of a kernel, its runtime values, and the tiles of its roots.

    Attributes:
        fused: The kernel.
        dimensions: The tiled dimensions, in XLA's order.
        runtime: The run-time values.
        root_tiles: The tile of each array that the kernel computes.

    Source: XLA `TilingSpace::Create`.
    """

    def __init__(
        self,
        fused: Fused,
        dimensions: Sequence[Dimension],
        runtime: Sequence[RuntimeValue],
        keys: Mapping[tuple[Instruction, int], int],
        runtime_keys: Mapping[tuple[Instruction, int], int],
    ) -> None:
        self.fused: Final = fused
        self.dimensions: Final = tuple(dimensions)
        self.runtime: Final = tuple(runtime)
        self._keys: Final = keys
        self._runtime_keys: Final = runtime_keys

    @classmethod
    def of(cls, fused: Fused, roots: Roots = Roots.REFUSED) -> TilingSpace | Refusal:
        """Return the tiling space of a kernel, or a `Refusal` with the reason why it has none.

        Args:
            fused: The kernel.
            roots: Whether several roots are refused, share dimensions, or have their own.
        """
        return _Builder(fused).build(roots)

    @property
    def is_symbolic(self) -> bool:
        """Is some tile size not chosen, so that it is a variable?"""
        return any(d.tile_size is None for d in self.dimensions)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The tile sizes of all dimensions; `None` for those that are not chosen."""
        return tuple([d.tile_size for d in self.dimensions])

    @property
    def parallel(self) -> tuple[int, ...]:
        """The numbers of the parallel dimensions."""
        return tuple([i for i, d in enumerate(self.dimensions) if d.kind is DimensionKind.PARALLEL])

    def with_sizes(self, sizes: Sequence[int]) -> TilingSpace:
        """Return the space with these tile sizes.

        Raises:
            TypeError: A size is not an integer.
            ValueError: There are not as many sizes as dimensions, or one is not positive.
        """
        if len(sizes) != len(self.dimensions):
            raise ValueError(
                f"{len(self.dimensions)} dimensions are tiled, {len(sizes)} sizes are given"
            )
        sizes = integers(sizes, "tile sizes")
        for i, size in enumerate(sizes):
            if not 0 < size <= MOST_TILE:
                raise ValueError(f"the size of tiles of dimension {i} is {size}")
        dimensions = [
            replace(d, tile_size=size) for d, size in zip(self.dimensions, sizes, strict=True)
        ]
        return TilingSpace(self.fused, dimensions, self.runtime, self._keys, self._runtime_keys)

    def number(self, ins: Instruction, position: int) -> int | None:
        """Return the number of an instruction's dimension in the tiling space.

        `None` if the tiling space does not have the dimension.

        Args:
            ins: The instruction.
            position: Position among its dimensions: output dimensions first, then reduced or
                contracted ones.
        """
        return self._keys.get((ins, position))

    def runtime_number(self, ins: Instruction, operand: int) -> int | None:
        """Return the index in `runtime` of the value that `ins` reads from an operand.

        `None` if there is no such run-time value.

        Args:
            ins: The instruction.
            operand: Number of the operand; -1 for a value that is not an operand.
        """
        return self._runtime_keys.get((ins, operand))

    def own_tile(self, i: int) -> DimTile:
        """Return the tile of dimension `i`: offset `tid_i * ts_i`, size `ts_i`, cut off at the end.

        If one tile covers the dimension, the offset is 0.
        """
        dimension = self.dimensions[i]
        size: Expr = Range(i) if dimension.tile_size is None else Const(dimension.tile_size)
        is_one = dimension.tile_size is not None and dimension.tile_size >= dimension.size
        return DimTile.of(0 if is_one else Dim(i) * size, size, 1, dimension.size)

    # Read for each root that a caller tiles.
    @cached_property
    def root_tiles(self) -> tuple[Tile, ...]:
        """The tile of each array that the kernel computes; tuples are flattened."""
        tiles = []
        for root in self.fused.roots:
            source, output = self.fused.source(root)
            count = len(root.type.elements) if isinstance(root.type, TupleType) else 1
            tiles += [self.output_tile(source, output + k) for k in range(count)]
        return tuple(tiles)

    def output_tile(self, root: Instruction, output: int) -> Tile:
        """Return the tile of output number `output` of a root.

        A carry of a scan has no scanned dimension.
        """
        numbers = [self._keys[root, k] for k in range(len(output_sizes(root)))]
        if is_carry(root, output):
            del numbers[root.op.scan_dimension]  # type: ignore[attr-defined]
        return Tile(tuple([self.own_tile(i) for i in numbers]))

    @property
    def box(self) -> dict[Var, Interval]:
        """The intervals of all variables in tiles.

        They are tile numbers `tid_i`, tile sizes `ts_i` and run-time values `rt_j`.
        """
        found: dict[Var, Interval] = {}
        for i, d in enumerate(self.dimensions):
            found[Dim(i)] = Interval(0, max(d.tiles, 1) - 1)
            if d.tile_size is None:
                found[Range(i)] = Interval(1, POS_INF)
        return found | {Runtime(i): value.bounds for i, value in enumerate(self.runtime)}

    # Each expression of each tile is simplified and bounded in it.
    @cached_property
    def domain(self) -> Domain:
        """The domain of the simplifier for expressions of tiles."""
        return Domain(self.box)

    def simplify(self, e: Expr) -> Expr:
        """Return an expression that equals `e`.

        It is simplified only if all tile sizes are chosen; otherwise it is `e` itself.
        """
        return e if self.is_symbolic else self.domain.simplify(e)

    def simplified(self, tile: Tile) -> Tile:
        """Return an equal tile, with simplified expressions if all tile sizes are chosen."""
        return tile if self.is_symbolic else tile.mapped(self.domain.simplify)

    def bounds(self, e: Expr) -> Interval:
        """Return an interval that contains all values of an expression."""
        return self.domain.bounds(e)


class _Builder:
    """Builder of a tiling space: it collects the dimensions and run-time values of a kernel."""

    def __init__(self, fused: Fused) -> None:
        self.fused = fused
        self.dimensions: list[Dimension] = []
        self.runtime: list[RuntimeValue] = []
        self.keys: dict[tuple[Instruction, int], int] = {}
        self.runtime_keys: dict[tuple[Instruction, int], int] = {}

    def build(self, roots: Roots) -> TilingSpace | Refusal:
        try:
            refusal = self.add_roots(roots)
            if refusal is not None:
                return refusal
            for ins in self.fused.users_first:
                added = ADDED.get(type(ins.op))
                if added is not None:
                    self.add(ins, added(ins, ins.op))
        except UnsupportedError as error:
            return Refusal(RefusalCode.UNIMPLEMENTED, error.message)
        except (LookupError, ValueError):
            return Refusal(RefusalCode.INVALID_ARGUMENT, UNFIT)
        return TilingSpace(self.fused, self.dimensions, self.runtime, self.keys, self.runtime_keys)

    def add_roots(self, roots: Roots) -> Refusal | None:
        sources = [self.fused.source(root)[0] for root in self.fused.roots]
        if not sources:
            return Refusal(RefusalCode.INVALID_ARGUMENT, "there are no roots")
        for source in sources:
            refusal = _root_refusal(source)
            if refusal is not None:
                return refusal
        if len(sources) > 1 and roots is Roots.REFUSED:
            return Refusal(RefusalCode.UNIMPLEMENTED, f"{_MULTIPLE}, there are {len(sources)}")
        shapes = [output_sizes(source) for source in sources]
        if roots is Roots.SHARED and len(set(shapes)) > 1:
            listed = ", ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
            reason = f"{_MULTIPLE} of different sizes: {listed}"
            return Refusal(RefusalCode.UNIMPLEMENTED, reason)
        for k, (source, shape) in enumerate(zip(sources, shapes, strict=True)):
            if (source, 0) in self.keys:  # another use of the same root
                continue
            if k and roots is Roots.SHARED:
                self.keys |= {(source, d): self.keys[sources[0], d] for d in range(len(shape))}
            else:
                walked = source.op.scan_dimension if isinstance(source.op, Scan) else None
                for d, size in enumerate(shape):
                    self.add_dimension(source, d, size, is_parallel=d != walked)
        return None

    def add_dimension(
        self, ins: Instruction, position: int, size: int, *, is_parallel: bool
    ) -> None:
        kind = DimensionKind.PARALLEL if is_parallel else DimensionKind.SEQUENTIAL
        self.keys[ins, position] = len(self.dimensions)
        self.dimensions.append(Dimension(size, kind, ins, position))

    def add(self, ins: Instruction, added: Added) -> None:
        first = len(self.dimensions)
        rank = len(output_sizes(ins))
        for k, size in enumerate(added.sequential):
            self.add_dimension(ins, rank + k, size, is_parallel=False)
        for read in added.reads:
            self.runtime_keys[ins, read.operand] = len(self.runtime)
            origin = self.fused.operands(ins)[read.origin]
            along = None if read.along is None else first + read.along
            self.runtime.append(
                RuntimeValue(Interval(0, max(read.most, 0)), origin, along, read.is_prefix_sum)
            )


_MULTIPLE: Final = "TilingSpace does not support fusions with multiple roots"


def is_carry(ins: Instruction, output: int) -> bool:
    """Is an output of an instruction the final carry of a scan?"""
    if not isinstance(ins.op, Scan) or not isinstance(ins.type, TupleType):
        return False
    return output >= len(ins.type.elements) - ins.op.num_carries


def _root_refusal(root: Instruction) -> Refusal | None:
    """Return why a root cannot be tiled; `None` if it can."""
    arrays = root.type.elements if isinstance(root.type, TupleType) else (root.type,)
    if not arrays or not all(isinstance(array, TensorType) for array in arrays):
        return Refusal(RefusalCode.INVALID_ARGUMENT, f"a root of type {root.type}", root)
    shapes = {output_sizes(root, k) for k in range(len(arrays)) if not is_carry(root, k)}
    if len(shapes) > 1 or is_carry(root, 0):
        return Refusal(RefusalCode.INVALID_ARGUMENT, "the root's arrays differ in size", root)
    return None


# --------------------------------------------------------------------------------------------------
# Dimensions and run-time values that each op adds to the tiling space of its kernel.


class Reading(Struct, frozen=True):
    """A value that an op reads at run time, from one of its operands.

    Attributes:
        operand: Number of the operand by which `TilingSpace.runtime_number` finds the value; -1 for
            a value that is not an operand.
        origin: Number of the operand that it is read from.
        most: The upper bound to which the value is clamped; the lower bound is 0.
        along: The sequential dimension of the op that selects the element; `None` for a scalar.
        is_prefix_sum: Whether it is the sum of the preceding elements instead of the element.
    """

    operand: int
    origin: int
    most: int
    along: int | None = None
    is_prefix_sum: bool = False


class Added(Struct, frozen=True):
    """Dimensions and run-time values that an instruction adds to the tiling space.

    Attributes:
        sequential: Sizes of the dimensions that it reduces or contracts; their positions follow
            those of its output.
        reads: The run-time values.
    """

    sequential: Dims = ()
    reads: tuple[Reading, ...] = ()


Adding: TypeAlias = Callable[[Instruction, Any], Added]
A = TypeVar("A", bound=Adding)
ADDED: Final[dict[type[Op], Adding]] = {}
"""For each op class, a function that returns the dimensions and run-time values of an instruction.

They are those that the tiling space gets in addition to the dimensions of the roots.
"""


def _adds(*classes: type[Op]) -> Callable[[A], A]:
    def register(adding: A) -> A:
        ADDED.update(dict.fromkeys(classes, adding))
        return adding

    return register


def dot_dimensions(ins: Instruction) -> DotDimensions:
    """Return the batch and contracting dimensions of a product of two arrays."""
    op = ins.op
    if isinstance(op, Dot):
        return DotDimensions((), (), (len(sizes(ins.operands[0].type)) - 1,), (0,))
    assert isinstance(op, DotGeneral | ScaledDot | RaggedDot)
    return op.dimensions


@_adds(Dot, DotGeneral, ScaledDot)
def _(ins: Instruction, op: Dot | DotGeneral | ScaledDot) -> Added:
    left = sizes(ins.operands[0].type)
    return Added(tuple([left[d] for d in dot_dimensions(ins).lhs_contracting]))


@_adds(Reduce)
def _(ins: Instruction, op: Reduce) -> Added:
    source = sizes(ins.operands[0].type)
    return Added(tuple([source[d] for d in op.dimensions]))


def has_scalar_starts(ins: Instruction, count: int, first: int = 1) -> bool:
    """Does a slice have one scalar start for each of its `count` dimensions?

    The starts are operands from number `first` on. Old HLO texts have one vector of them.
    """
    starts = ins.operands[first:]
    return len(starts) == count and all(sizes(start.type) == () for start in starts)


@_adds(DynamicSlice)
def _(ins: Instruction, op: DynamicSlice) -> Added:
    if not has_scalar_starts(ins, len(op.slice_sizes)):
        return Added()
    source = sizes(ins.operands[0].type)
    pairs = zip(source, op.slice_sizes, strict=True)
    return Added((), tuple([Reading(1 + d, 1 + d, n - size) for d, (n, size) in enumerate(pairs)]))


@_adds(RaggedDot)
def _(ins: Instruction, op: RaggedDot) -> Added:
    left = sizes(ins.operands[0].type)
    (ragged,) = op.lhs_ragged
    contracted = tuple([left[d] for d in op.dimensions.lhs_contracting])
    if ragged in op.dimensions.lhs_batch:
        return Added(contracted)
    if ragged in op.dimensions.lhs_contracting:
        size = Reading(2, 2, left[ragged])
        start = Reading(-1, 2, left[ragged], is_prefix_sum=True)
        return Added((left[ragged],), (size, start))
    groups = sizes(ins.operands[1].type)[op.rhs_group[0]]
    return Added((groups, *contracted), (Reading(2, 2, left[ragged], along=0),))
