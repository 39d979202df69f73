"""Regions of a tiled kernel: every instruction with the tiles that are needed of it.

A region is computed repeatedly: in the loop over the tiles of a contraction or a reduction, or only
for the tiles of a concatenation that read one operand.

Source: XLA's experimental `TiledHloComputation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from hloscope.ir import Instruction
from hloscope.ops import (
    Concatenate,
    Dot,
    DotGeneral,
    DynamicSlice,
    RaggedDot,
    Reduce,
    ScaledDot,
    Scan,
)
from hloscope.support.walks import needed_first
from hloscope.tiling.fused import PROJECTIONS
from hloscope.tiling.propagate import propagate_to_operands
from hloscope.tiling.propagation.registry import CarriedTile, TilePrecision
from hloscope.tiling.space import DimensionKind, TilingSpace
from hloscope.tiling.tile import Refusal, RefusalCode, Tile

MOST_INSTRUCTIONS: Final = 1 << 13
"""Maximum number of tiled instructions of a kernel, as nested regions multiply.

With more, the kernel is incomplete and has a refusal.
"""
_WORST: Final = {fit: k for k, fit in enumerate(TilePrecision)}


class RegionInstruction:
    """An instruction, with one tile of it that the kernel computes.

    Attributes:
        instruction: The instruction.
        output: Number of the array in its value.
        tile: The tile.
        operands: The tiled operands; empty for inputs of the kernel.
        regions: The regions of its operands that are computed in loops or branches.
        fit: Precision of the tile, compared with the elements that its users need.
        reasons: Why the tile is not exact.
    """

    __slots__ = ("fit", "instruction", "operands", "output", "reasons", "regions", "tile")

    def __init__(self, instruction: Instruction, output: int, tile: Tile) -> None:
        self.instruction: Final = instruction
        self.output: Final = output
        self.tile: Final = tile
        self.operands: tuple[RegionInstruction, ...] = ()
        self.regions: tuple[TiledRegion, ...] = ()
        self.fit = TilePrecision.EXACT
        self.reasons: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[RegionInstruction, ...]:
        """The tiled operands that are the start indices of a dynamic slice; empty for other ops."""
        return self.operands[1:] if isinstance(self.instruction.op, DynamicSlice) else ()

    def lower_precision(self, fit: TilePrecision, reasons: Sequence[str]) -> bool:
        """Lower the tile's precision to `fit`, if that is lower, and add the reasons.

        Return whether anything changed.
        """
        new = tuple(dict.fromkeys((*self.reasons, *filter(None, reasons))))
        worst = max(self.fit, fit, key=_WORST.__getitem__)
        if worst is self.fit and new == self.reasons:
            return False
        self.fit, self.reasons = worst, new
        return True

    def __repr__(self) -> str:
        return f"<{self.instruction.name}: {self.tile}>"


class TiledRegion:
    """Tiled instructions that are computed in one loop or branch.

    Attributes:
        instructions: The distinct tiled instructions.
        roots: The tiled instructions whose values leave the region.
    """

    __slots__ = ("instructions", "roots")

    def __init__(self) -> None:
        self.instructions: tuple[RegionInstruction, ...] = ()
        self.roots: tuple[RegionInstruction, ...] = ()


class TiledKernel:
    """A kernel whose instructions are all tiled, in nested regions.

    Attributes:
        space: Its tiling space.
        region: The outermost region.
        refusals: Tiles that could not be propagated; empty if all could.
        beyond: Instructions that XLA refuses and through which tiles were propagated, with XLA's
            reasons.
    """

    def __init__(
        self,
        space: TilingSpace,
        region: TiledRegion,
        refusals: Sequence[Refusal],
        beyond: Sequence[tuple[Instruction, str]],
    ) -> None:
        self.space: Final = space
        self.region: Final = region
        self.refusals: Final = tuple(refusals)
        self.beyond: Final = tuple(beyond)

    def regions(self) -> Iterator[TiledRegion]:
        """Yield all regions; a region comes before those nested in it."""
        todo = [self.region]
        while todo:
            region = todo.pop()
            yield region
            for tiled in region.instructions:
                todo += tiled.regions

    def __iter__(self) -> Iterator[RegionInstruction]:
        """Yield all tiled instructions, region by region."""
        for region in self.regions():
            yield from region.instructions


# ---------------------------------------------------------------------------------- building

Schema: TypeAlias = tuple[list[range], list[int]]
"""Operand numbers of an instruction: groups that get a region each, then operands without a region.

The operands of a region are computed together in one loop or branch.
"""


def _schema(space: TilingSpace, ins: Instruction) -> Schema:
    """Return the operands of `ins` that are computed in a loop or branch, grouped, and the others.

    Each group gets a region of its own. Operands are given by number.
    """
    count = len(ins.operands)
    match ins.op:
        case Dot() | DotGeneral() | ScaledDot() | RaggedDot():
            return [range(count)], []
        case Concatenate():
            return [range(k, k + 1) for k in range(count)], []
        case Reduce() if _is_looped(space, ins):
            return [range(count // 2)], [*range(count // 2, count)]
        case Scan(num_carries=carries) if _is_looped(space, ins):
            return [range(count - carries)], [*range(count - carries, count)]
        case _:
            return [], [*range(count)]


def _is_looped(space: TilingSpace, ins: Instruction) -> bool:
    """Does a sequential dimension that the instruction introduces have several tiles?"""
    return any(
        d.instruction is ins
        and d.kind is DimensionKind.SEQUENTIAL
        and d.tile_size is not None
        and d.tile_size < d.size
        for d in space.dimensions
    )


class _Growing:
    """A region under construction, with the instructions that are still to be visited."""

    def __init__(self) -> None:
        self.region = TiledRegion()
        self.known: dict[tuple[Instruction, int, Tile], RegionInstruction] = {}
        self.todo: list[RegionInstruction] = []

    def enter(self, ins: Instruction, output: int, tile: Tile) -> RegionInstruction:
        """Return the instruction of the region with this tile; add it if the region lacks it.

        Args:
            ins: The instruction.
            output: Number of the array in its value.
            tile: Tile of the array.
        """
        found = self.known.get((ins, output, tile))
        if found is None:
            found = self.known[ins, output, tile] = RegionInstruction(ins, output, tile)
            self.todo.append(found)
        return found


class _Tiling:
    """Builder of a kernel's regions, from the roots to the inputs.

    A nested region is built after the one around it.
    """

    def __init__(self, space: TilingSpace, *, beyond_xla: bool) -> None:
        self.space, self.fused = space, space.fused
        self.beyond_xla = beyond_xla
        self.refusals: dict[tuple[Instruction | None, str], Refusal] = {}
        self.beyond: dict[Instruction, str] = {}
        self.open: list[_Growing] = []
        self.edges: list[tuple[RegionInstruction, RegionInstruction, CarriedTile]] = []
        self.count = 0

    def run(self) -> TiledKernel:
        """Return the kernel with all its regions."""
        outer = _Growing()
        for root in self.fused.roots:
            source, output = self.fused.source(root)
            tile = self.space.output_tile(source, output)
            outer.region.roots += (outer.enter(root, 0, tile),)
        self.open.append(outer)
        while self.open:
            self._grow(self.open.pop())
        _propagate_precision(self.edges)
        refusals, beyond = [*self.refusals.values()], [*self.beyond.items()]
        return TiledKernel(self.space, outer.region, refusals, beyond)

    def _grow(self, growing: _Growing) -> None:
        """Propagate the tiles of a region from instructions to operands until nothing new is added.

        The instruction added last is visited first.
        """
        while growing.todo:
            tiled = growing.todo.pop()
            ins = tiled.instruction
            if ins not in self.fused.inside or not ins.operands:
                continue
            if self.count > MOST_INSTRUCTIONS:
                self._refuse(Refusal(RefusalCode.UNIMPLEMENTED, _TOO_MANY))
                break
            self._follow(growing, tiled)
        growing.region.instructions = tuple(growing.known.values())

    def _follow(self, growing: _Growing, tiled: RegionInstruction) -> None:
        """Propagate the tile of one instruction to its operands, and create their regions."""
        ins = tiled.instruction
        answer = propagate_to_operands(
            self.space, ins, tiled.tile, tiled.output, beyond_xla=self.beyond_xla
        )
        if isinstance(answer, Refusal):
            self._refuse(answer)
            return
        if answer.beyond:
            self.beyond.setdefault(ins, answer.beyond)
        operands = self.fused.operands(ins)
        output = ins.op.index if isinstance(ins.op, PROJECTIONS) else 0
        groups, rest = _schema(self.space, ins)
        found: dict[int, RegionInstruction] = {}
        for group in groups:
            inner = _Growing()
            self.open.append(inner)
            for k in group:
                found[k] = inner.enter(operands[k], output, answer.parts[k].tile)
            inner.region.roots = tuple([found[k] for k in group])
            tiled.regions += (inner.region,)
        for k in rest:
            found[k] = growing.enter(operands[k], output, answer.parts[k].tile)
        self.count += len(operands)
        tiled.operands = tuple([found[k] for k in range(len(operands))])
        self.edges += [(tiled, found[k], part) for k, part in enumerate(answer.parts)]

    def _refuse(self, refusal: Refusal) -> None:
        self.refusals.setdefault((refusal.instruction, refusal.code), refusal)


_TOO_MANY: Final = f"more than {MOST_INSTRUCTIONS:,} tiled instructions"


def _propagate_precision(
    edges: Sequence[tuple[RegionInstruction, RegionInstruction, CarriedTile]],
) -> None:
    """Lower the precision of every tile to the lowest precision of its users' tiles.

    An edge has a tiled instruction, one of its operands, and the tile propagated to the operand.
    """
    below: dict[RegionInstruction, list[RegionInstruction]] = {}
    todo: list[RegionInstruction] = []
    for tiled, operand, part in edges:
        below.setdefault(tiled, []).append(operand)
        if operand.lower_precision(part.fit, [part.reason]):
            todo.append(operand)
    while todo:
        tiled = todo.pop()
        for operand in below.get(tiled, ()):
            if operand.lower_precision(tiled.fit, tiled.reasons):
                todo.append(operand)


def tiled_kernel(
    space: TilingSpace, *, beyond_xla: bool = False, in_order: bool = True
) -> TiledKernel:
    """Return the kernel of a tiling space, tiled from its roots to its inputs.

    A tile that cannot be propagated is listed among the refusals, and its operands are missing.

    Args:
        space: The tiling space, with or without tile sizes.
        beyond_xla: Whether to propagate also through ops that XLA refuses, if tiles exist.
        in_order: Whether to put operands before users; otherwise instructions are in the order of
            traversal.
    """
    found = _Tiling(space, beyond_xla=beyond_xla).run()
    if in_order:
        for region in found.regions():
            region.instructions = _sorted(region)
    return found


def _sorted(region: TiledRegion) -> tuple[RegionInstruction, ...]:
    """Return the region's instructions in an order in which operands come before users.

    The start indices of a slice come before its other operands.
    """
    inside = set(region.instructions)

    def before(tiled: RegionInstruction) -> list[RegionInstruction]:
        return [operand for operand in (*tiled.starts, *tiled.operands) if operand in inside]

    return tuple(needed_first([root for root in region.roots if root in inside], before))
