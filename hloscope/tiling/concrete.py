"""Concrete tiles for given tile sizes, and schedules: maps from a program to its tile.

>>> from hloscope.indexing import IndexingMap
>>> tiles = IndexingMap.parse("(d0, d1) -> (d0 * 16, d1 * 8), domain: d0 in [0, 3], d1 in [0, 5]")
>>> print(major_to_minor(tiles, [(0, 4), (1, 6)]))
(pid_0) -> ((pid_0 / 6) * 16, (pid_0 mod 6) * 8), domain: pid_0 in [0, 23]

Source: XLA `TiledHloSchedule`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from hloscope.affine import ZERO, Dim, Expr, Interval, Range, Var, postorder
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    Constraint,
    IndexingMap,
    Variable,
    integers,
    renamed,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, TensorType
from hloscope.ops import Concatenate, DotGeneral
from hloscope.support.arrays import np
from hloscope.support.walks import without_recursion
from hloscope.tiling.analysis import (
    DOTS,
    SymbolicTiles,
    TiledNode,
)
from hloscope.tiling.tile import Refusal, RefusalCode, RefusedError, refused

# --------------------------------------------------------------------------------------------------
# Tiles for given tile sizes: offsets, sizes and strides of the tiles of every instruction.
#
# Source: XLA `SymbolicTileAnalysis::ComputeTiledComputation`.


MOST_TILINGS: Final = 1 << 20
"""Maximum number of tilings that are checked together."""


def candidate_sizes(size: int) -> list[int]:
    """Return the tile sizes that XLA tries for a dimension: powers of two below it, and its size.

    >>> candidate_sizes(11), candidate_sizes(0)
    ([1, 2, 4, 8, 11], [0])
    """
    powers = [1 << k for k in range((size - 1).bit_length())] if size > 0 else []
    return [*powers, size]


def candidate_tilings(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all combinations of candidate sizes of the dimensions; the last one varies fastest."""
    return product(*map(candidate_sizes, sizes))


class TiledInstruction:
    """The tile of an instruction for given tile sizes, with its offset for each program.

    Attributes:
        node: The symbolic tile.
        sizes: Elements along each dimension.
        strides: Distances between elements along each dimension.
        offsets: Map from the number of a program to the first index of its tile.
        operands: The tiles of its operands.
        runtime: The tiles of the arrays of its runtime variables.
        regions: The tiles in a dot's loop, or those of each operand of a concatenate.
    """

    __slots__ = ("node", "offsets", "operands", "regions", "runtime", "sizes", "strides")

    def __init__(
        self,
        node: TiledNode,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        offsets: IndexingMap,
        operands: Iterable[TiledInstruction] = (),
        runtime: Iterable[TiledInstruction] = (),
        regions: Iterable[Sequence[TiledInstruction]] = (),
    ) -> None:
        self.node: Final = node
        self.sizes: Final = sizes
        self.strides: Final = strides
        self.offsets: Final = offsets
        self.operands: Final = tuple(operands)
        self.runtime: Final = tuple(runtime)
        self.regions: Final = tuple(map(tuple, regions))

    @property
    def instruction(self) -> Instruction:
        """The tiled instruction."""
        return self.node.instruction

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for equal tiles."""
        of_output = self.instruction, self.node.output
        return of_output, self.sizes, self.strides, self.offsets, self.operands, self.runtime

    def __repr__(self) -> str:
        return f"<{self.instruction.name}: {self.sizes} by {self.strides} at {self.offsets}>"


class TiledComputation(Struct, frozen=True, eq=False):
    """The tiles of a fusion for given tile sizes.

    Attributes:
        sizes: The tile sizes chosen, one for each parameter.
        tiles: Number of tiles along each dimension of the root.
        instructions: Tiled instructions, operands before users; the root is the last.
        roots: The tiles of the roots, in order.
    """

    sizes: tuple[int, ...]
    tiles: tuple[int, ...]
    instructions: tuple[TiledInstruction, ...]
    roots: tuple[TiledInstruction, ...]

    @property
    def programs(self) -> int:
        """Number of programs of the kernel: one for each tile of the root."""
        return prod(self.tiles)

    def every(self) -> Iterator[TiledInstruction]:
        """Yield all tiled instructions, those in regions included, each before its users."""
        todo = [*reversed(self.instructions)]
        done: set[int] = set()
        while todo:
            tiled = todo.pop()
            inner = [t for region in tiled.regions for t in region]
            if id(tiled) in done or not inner:
                yield tiled
                continue
            done.add(id(tiled))
            todo += [tiled, *reversed(inner)]


class Tiler:
    """Concrete tiles of one fusion, for any tile sizes.

    Attributes:
        symbolic: The symbolic tiles.
    """

    def __init__(self, symbolic: SymbolicTiles) -> None:
        self.symbolic: Final = symbolic

    def refused(self, sizes: Sequence[int]) -> Refusal | None:
        """Return why XLA's constraints forbid these tile sizes; `None` if they are allowed."""
        parameters = self.symbolic.parameters
        if len(sizes) != len(parameters):
            reason = f"{len(sizes)} tile sizes for {len(parameters)} parameters"
            return Refusal(RefusalCode.FAILED_PRECONDITION, reason)
        for k, (size, parameter) in enumerate(zip(sizes, parameters, strict=True)):
            if size < (1 if parameter.size else 0):
                reason = f"tile size {size} of parameter {k} is not positive"
                return Refusal(RefusalCode.INVALID_ARGUMENT, reason)
        wrong = self.symbolic.constraints.violated(sizes)
        if not wrong:
            return None
        reason = f"tile sizes {tuple(sizes)} do not fulfil {'; '.join(map(str, wrong))}"
        return Refusal(RefusalCode.INVALID_ARGUMENT, reason)

    def valid_tilings(self, limit: int = MOST_TILINGS) -> list[tuple[int, ...]]:
        """Return the candidate tilings that satisfy XLA's constraints.

        Raises:
            UnsupportedError: There are more than `limit` candidates.
        """
        dims = [p.size for p in self.symbolic.parameters]
        count = prod([len(candidate_sizes(n)) for n in dims])
        if count > limit:
            raise UnsupportedError(f"{count:,} candidate tilings, more than {limit:,}")
        every = [*islice(candidate_tilings(dims), limit)]
        table = np.array(every, dtype=np.int64).reshape(len(every), len(dims))
        valid = self.symbolic.constraints.holds_array(table)
        return [tiling for tiling, holds in zip(every, valid, strict=True) if holds]

    def tiled(
        self,
        sizes: Sequence[int],
        *,
        schedule: ScheduleName = "major_to_minor",
        is_known_valid: bool = False,
    ) -> TiledComputation | Refusal:
        """Return the tiles of every instruction, or a refusal with the reason.

        Args:
            sizes: Tile sizes, one for each tiling parameter in `symbolic.parameters`.
            schedule: The order in which programs are assigned to tiles.
            is_known_valid: Skip the check of XLA's constraints? A wrong number of sizes and
                negative sizes are refused in any case.
        """
        wrong = self.refused(sizes)
        is_broken = wrong is not None and wrong.code is not RefusalCode.INVALID_ARGUMENT
        if wrong is not None and (is_broken or not is_known_valid or min(sizes, default=1) < 0):
            return wrong
        exchanged: tuple[int, int] | None = None
        if schedule == "transposed_dot":
            found = exchanged_by_transposed_dot(self.symbolic.introduced)
            if isinstance(found, Refusal):
                return found
            exchanged = found
        try:
            whole = tuple(integers(sizes, "tile sizes"))
            return _Concrete(self.symbolic, whole, exchanged).computation()
        except RefusedError as error:
            return error.refusal


def _not_divisible(interval: Interval, parameter: int, size: int) -> str:
    return f"the bounds {interval} of parameter {parameter} are not divisible by tile size {size}"


class _IterationSpace(Struct, frozen=True):
    """The programs that compute the tiles of a region, and the offsets of the tiles.

    Attributes:
        active: Parameters that are iterated over, major to minor.
        bounds: Number of tiles of each parameter; 1 for those that are not iterated over.
        offsets: Map from the number of a program to the offset along each parameter.
        is_part: Whether only some of the programs compute the region, as with operands of a
            concatenate.
    """

    active: tuple[int, ...]
    bounds: tuple[int, ...]
    offsets: IndexingMap
    is_part: bool


class _Concrete:
    """The tiles of one fusion for one choice of tile sizes."""

    def __init__(
        self,
        symbolic: SymbolicTiles,
        sizes: tuple[int, ...],
        exchanged: tuple[int, int] | None,
    ) -> None:
        self._symbolic, self._sizes, self._exchanged = symbolic, sizes, exchanged
        self._made: dict[int, TiledInstruction] = {}

    def computation(self) -> TiledComputation:
        """Return the tiles of all instructions and of the roots.

        Raises:
            RefusedError: XLA does not tile the fusion with these sizes.
        """
        nodes: Sequence[TiledNode] = self._symbolic.nodes
        for node in nodes:
            if any([stride < 0 for stride in node.tile.strides_at(self._sizes)]):
                raise refused("negative strides", node.instruction)
        root = nodes[-1]
        active = with_parameters(root.map, ())
        place = self._iteration_space(root.map, active, None)
        instructions = without_recursion(self._region(nodes, place))
        bounds = [place.bounds[p] for p in active]
        return TiledComputation(
            self._sizes, tuple(bounds), instructions, self._roots(instructions, prod(bounds))
        )

    # ------------------------------------------------------------------------------- offsets

    def _iteration_space(
        self, m: IndexingMap, active: tuple[int, ...], parent: _IterationSpace | None
    ) -> _IterationSpace:
        """Return the iteration space of a region: its programs and the offsets of its tiles.

        Only some of the parent's programs compute a region of a concatenate. Its numbers of tiles
        are the parent's, and a constraint selects the programs. The same holds for loops inside it.

        Args:
            m: Map from the parameters to the elements of the region's root.
            active: Parameters that are iterated over, major to minor.
            parent: Iteration space of the region around a region of a concatenate.
        """
        bounds = [1] * len(m.dims)
        results: list[Expr] = [ZERO] * len(m.dims)
        constraints: list[Constraint] = []
        for p in active:
            interval, size = m.dims[p].interval, max(self._sizes[p], 1)
            if interval.lo % size:
                raise refused(_not_divisible(interval, p, size))
            count = -(-(interval.hi + 1) // size)
            if parent is not None and p in parent.active:
                constraints.append((Dim(p), Interval(interval.lo // size, count - 1)))
                count = parent.bounds[p]
            elif interval.lo:
                raise refused(f"parameter {p} begins at {interval.lo}, not at 0")
            bounds[p] = count
            results[p] = Dim(p) * size
        dims = [Variable(Interval(0, count - 1)) for count in bounds]
        tiles = IndexingMap(dims, (), (), results, constraints)
        space: Space = [(p, bounds[p]) for p in active]
        if self._exchanged is None:
            offsets = major_to_minor(tiles, space)
        else:
            offsets = transposed(tiles, space, self._exchanged)
        if isinstance(offsets, Refusal):
            raise RefusedError(offsets)
        return _IterationSpace(active, tuple(bounds), offsets, parent is not None)

    def _offsets(self, node: TiledNode, iteration: _IterationSpace) -> IndexingMap:
        """Return the map from the number of a program to the first index of a node's tile.

        `iteration` is the iteration space of the node's region.
        """
        for p, (v, size) in enumerate(zip(node.map.dims, self._sizes, strict=True)):
            if v.interval.lo % max(size, 1):  # a tile that begins before the bound would be lost
                raise refused(_not_divisible(v.interval, p, size), node.instruction)
        m = iteration.offsets.compose(node.map)
        if any([v.interval.lo for v in m.ranges]):
            raise refused("Symbol lower bound is not zero", node.instruction, "FAILED_PRECONDITION")
        # A tile begins where all range variables are 0.
        zero: dict[Var, Expr] = {Range(i): ZERO for i in range(len(m.ranges))}
        begins = m.with_(
            ranges=(),
            runtime=[renamed(v, zero) for v in m.runtime],
            results=substituted(m.results, zero),
            constraints=substituted_constraints(m.constraints, zero),
        )
        return begins.simplify().rescale_symbols().remove_unused_symbols()

    # ---------------------------------------------------------------------------- instructions

    def _region(
        self, nodes: Sequence[TiledNode], place: _IterationSpace
    ) -> Generator[Any, Any, tuple[TiledInstruction, ...]]:
        """Return the tiles of one region, without duplicates.

        Args:
            nodes: The nodes of the region, operands before users.
            place: The region's iteration space.
        """
        known: dict[tuple[object, ...], TiledInstruction] = {}
        for node in nodes:
            regions = []
            for region, inner in zip(
                node.regions, self._inner_iterations(node, place), strict=True
            ):
                regions.append((yield self._region(region, inner)))
            tiled = TiledInstruction(
                node,
                node.tile.sizes_at(self._sizes),
                node.tile.strides_at(self._sizes),
                self._offsets(node, place),
                [self._made[id(n)] for n in node.operands],
                [self._made[id(n)] for n in node.runtime],
                regions,
            )
            self._made[id(node)] = known.setdefault(tiled.key, tiled)
        return tuple(known.values())

    def _inner_iterations(
        self, node: TiledNode, iteration: _IterationSpace
    ) -> list[_IterationSpace]:
        if not node.regions:
            return []
        active, parent = iteration.active, iteration if iteration.is_part else None
        if isinstance(node.instruction.op, DOTS):
            active = with_parameters(node.regions[-1][-1].map, active)
        if isinstance(node.instruction.op, Concatenate):
            parent = iteration
        return [self._iteration_space(region[-1].map, active, parent) for region in node.regions]

    # ------------------------------------------------------------------------------------ roots

    def _roots(
        self, instructions: Sequence[TiledInstruction], programs: int
    ) -> tuple[TiledInstruction, ...]:
        """Return a tile for each root, in order.

        A root that instructions of the fusion use gets one of the tiles that the main root needs of
        it. The output may share a buffer with an operand, so the program that reads it must write
        it: the tile must be the one that tiling this root alone would give.

        Raises:
            RefusedError: A root has no such tile.
        """
        found = {instructions[-1].instruction: instructions[-1]}
        wanted = dict.fromkeys(self._symbolic.roots)
        for tiled in instructions[:-1]:
            if tiled.instruction in wanted and self._is_own_tile(tiled, programs):
                found[tiled.instruction] = tiled
        for root in wanted:
            if root not in found:
                reason = "Unsupported case of multi-output fusion: no tile can be taken over"
                raise refused(reason, root)
        return tuple([found[root] for root in self._symbolic.roots])

    def _is_own_tile(self, tiled: TiledInstruction, programs: int) -> bool:
        type = tiled.instruction.type
        assert isinstance(type, TensorType)
        steps = zip(type.shape, tiled.sizes, tiled.strides, strict=True)
        if any([min(n, size) > 1 and stride != 1 for n, size, stride in steps]):
            return False
        counts = [-(-n // max(size, 1)) for n, size in zip(type.shape, tiled.sizes, strict=True)]
        if prod(counts) != programs:
            return False
        own = _Concrete(self._symbolic, tiled.sizes, None)
        place = own._iteration_space(
            IndexingMap.identity(type.shape), tuple(range(type.rank)), None
        )
        return place.offsets == tiled.offsets


def with_parameters(m: IndexingMap, active: tuple[int, ...]) -> tuple[int, ...]:
    """Return the active parameters, followed by the others that occur in the map's results."""
    used = [e.index for e in postorder(*m.results) if isinstance(e, Dim)]
    return tuple(dict.fromkeys([*active, *used]))


# --------------------------------------------------------------------------------------------------
# Schedules: maps from the number of a program to the tile that it computes.


Space: TypeAlias = Sequence[tuple[int, int]]
"""The iterated dimensions, major to minor: dimension number and number of tiles."""
ScheduleName: TypeAlias = Literal["major_to_minor", "transposed_dot"]
SCHEDULES: Final[tuple[str, ...]] = get_args(ScheduleName)


def _wrong(reason: str, instruction: Instruction | None = None) -> Refusal:
    return Refusal(RefusalCode.INVALID_ARGUMENT, reason, instruction)


def _check(space: Space, tiles: IndexingMap) -> Refusal | None:
    count = len(tiles.dims)
    if len(space) > count:
        return _wrong(
            "Expected iteration space to have at most as many dimensions as the tile offsets have, "
            f"but there are {len(space)} and {count}"
        )
    for k, (dim, _) in enumerate(space):
        if not 0 <= dim < count:
            return _wrong(f"Dimension id {dim} is out of bounds: there are {count}")
        if dim in [other for other, _ in space[:k]]:
            return _wrong(f"Iteration space contains multiple dimensions with id {dim}")
    return None


def major_to_minor(tiles: IndexingMap, space: Space) -> IndexingMap | Refusal:
    """Return the map from a program's number to the results of `tiles`; last dimension fastest.

    Args:
        tiles: Map from the position of a tile along each dimension, for example to its offsets.
        space: The iterated dimensions.  All others are at position 0.
    """
    wrong = _check(space, tiles)
    if wrong is not None:
        return wrong
    position: list[Expr] = [ZERO] * len(tiles.dims)
    below = 1
    for k, (dim, size) in reversed([*enumerate(space)]):
        position[dim] = Dim(0) // below % size if k and size else Dim(0) // max(below, 1)
        below *= size
    programs = Variable(Interval(0, prod([size for _, size in space]) - 1), "pid_0")
    of_program = IndexingMap((programs,), (), (), position)
    return of_program.compose(tiles).simplify().rescale_symbols().remove_unused_symbols()


def transposed(
    tiles: IndexingMap, space: Space, exchanged: tuple[int, int]
) -> IndexingMap | Refusal:
    """Return the map from a program's number to the results of `tiles`, transposed.

    The last dimension varies fastest. The order is that of `space` with the two dimensions
    exchanged; if one of them is not iterated over, it is the order of `space`. The result is a
    refusal if `space` and `tiles` do not fit.

    Args:
        tiles: Map from the position of a tile along each dimension, for example to its offsets.
        space: The iterated dimensions, major to minor. All others are at position 0.
        exchanged: Numbers of the two dimensions.
    """
    at = {dim: k for k, (dim, _) in enumerate(space)}
    order = [*space]
    if all(dim in at for dim in exchanged):
        i, j = (at[dim] for dim in exchanged)
        order[i], order[j] = order[j], order[i]
    return major_to_minor(tiles, order)


def exchanged_by_transposed_dot(
    introduced: Sequence[tuple[Instruction, int]],
) -> tuple[int, int] | Refusal:
    """Return the numbers of the parameters `m` and `n` of the root dot, or a refusal.

    The schedule `transposed_dot` exchanges them.

    Args:
        introduced: Instructions with the number of parameters that each introduces, the root first.
    """
    root, count = introduced[0]
    if not isinstance(root.op, DotGeneral):
        return _wrong("the schedule expects its root to be a dot", root)
    if any([isinstance(ins.op, DotGeneral) for ins, _ in introduced[1:]]):
        reason = "the schedule is only supported for TilingSpecifications specifying tiling for a "
        return _wrong(reason + "single dot", root)
    dims = root.op.dimensions
    sides = (
        ("lhs", root.operands[0], dims.lhs_batch, dims.lhs_contracting),
        ("rhs", root.operands[1], dims.rhs_batch, dims.rhs_contracting),
    )
    for side, operand, batch, contracting in sides:
        rank = len(getattr(operand.type, "sizes", ()))
        free = rank - len(batch) - len(contracting)
        if free != 1:
            reason = "the schedule is only supported for dot instructions with a single "
            return _wrong(f"{reason}non-contracting dimension, but got {free} of the {side}", root)
    return count - 2, count - 1
