"""Report about the tiles of one instruction: by XLA's analysis, and exactly."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.fusion import Analysis
from hloscope.indexing import (
    Access,
    ExactTiles,
    IndexingMap,
    Precision,
    TileVerdict,
    exact_tiles,
    integers,
)
from hloscope.ir import Instruction, TensorType, Type
from hloscope.tiling.analysis import Parameter, SymbolicTiles
from hloscope.tiling.chosen import ChosenTiles, chosen_sizes, chosen_tiles, tiles_of
from hloscope.tiling.concrete import ScheduleName, TiledComputation, TiledInstruction, Tiler
from hloscope.tiling.fused import Fused
from hloscope.tiling.sweeping import Ranking
from hloscope.tiling.tile import Refusal, RefusalCode


class OperandTiles(Struct, frozen=True):
    """The elements of one operand tensor that the output's tiles read.

    Attributes:
        number: Number of the operand.
        leaf: Number of the tensor in its value.
        operand: The operand.
        type: Type of the tensor.
        maps: Maps from the elements of the output.
        exact: The elements that the tiles read.
        claim: Why `exact` may have too many elements; empty if the maps are exact.
        xla: XLA's tile of the tensor; `None` unless it has exactly one.
    """

    number: int
    leaf: int
    operand: Instruction
    type: Type
    maps: tuple[IndexingMap, ...]
    exact: ExactTiles
    claim: str = ""
    xla: TiledInstruction | None = None

    @property
    def held(self) -> int | None:
        """The number of elements of XLA's tile; `None` if XLA has none."""
        return None if self.xla is None else prod(self.xla.sizes)


class TileReport(Struct, frozen=True):
    """The tiles of one instruction: symbolic, for chosen sizes, and as XLA chose them.

    Attributes:
        instruction: A fusion, or a single instruction.
        output: Number of the tiled output tensor.
        type: Type of that tensor.
        symbolic: XLA's symbolic tiles, or its refusal.
        parameters: The tile sizes to choose; for a refused fusion, the output's dimensions.
        sizes: The given tile sizes, one for each parameter.
        tiled: The tiles of these sizes, or XLA's refusal.
        operands: The elements that the tiles read, for each operand tensor.
        ranking: The result of a search for tilings.
        chosen: The tiling in the dump; `None` if it has none.
        is_own: Are `sizes` those of the dump?
        unread: Why the dump's tiling could not be used; empty if it could, or is missing.
    """

    instruction: Instruction
    output: int
    type: TensorType
    symbolic: SymbolicTiles | Refusal
    parameters: tuple[Parameter, ...]
    sizes: tuple[int, ...] | None = None
    tiled: TiledComputation | Refusal | None = None
    operands: tuple[OperandTiles, ...] = ()
    ranking: Ranking | None = None
    chosen: ChosenTiles | None = None
    is_own: bool = False
    unread: str = ""

    @property
    def own_sizes(self) -> tuple[int, ...] | None:
        """The dump's tile sizes, one for each parameter; `None` if they are unknown."""
        if self.chosen is None or isinstance(self.symbolic, Refusal):
            return None
        sizes = chosen_sizes(self.symbolic, self.chosen)
        return None if isinstance(sizes, str) else sizes

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The given tile sizes along the output's dimensions; empty without sizes."""
        sizes = self.sizes or ()
        pairs = zip(self.parameters, sizes, strict=True)
        chosen = [n for p, n in pairs if not p.is_contracting]
        return tuple(chosen)

    @property
    def refusal(self) -> Refusal | None:
        """XLA's reason not to tile the instruction with these sizes; `None` if it does."""
        for found in (self.symbolic, self.tiled):
            if isinstance(found, Refusal):
                return found
        return None

    @property
    def is_possible(self) -> bool:
        """Is it known that every tile reads a strided box of every operand?"""
        read = [o for o in self.operands if o.exact.verdict is not TileVerdict.EMPTY]
        return bool(read) and all([o.exact.is_box and not o.claim for o in read])


def tile_report(
    ins: Instruction,
    analysis: Analysis,
    by_convention: Analysis,
    sizes: Sequence[int] | None = None,
    *,
    schedule: ScheduleName = "major_to_minor",
) -> TileReport:
    """Return the report about the tiles of an instruction.

    Args:
        ins: A fusion, or a single instruction.
        analysis: The exact indexing analysis.
        by_convention: The indexing analysis by XLA's convention.
        sizes: Tile sizes, one for each parameter, or only for the output's dimensions; contracted
            dimensions are then one tile. `None` for the sizes in the dump.
        schedule: Numbering of the programs.

    Raises:
        TypeError: A size is not an integer.
        ValueError: The sizes are of another number, or not positive.
        UnsupportedError: No output is a tensor whose sizes are known.
    """
    fused, symbolic = Fused.of(ins), tiles_of(ins, by_convention)
    output, type = _output(ins, fused, symbolic, analysis)
    if isinstance(symbolic, SymbolicTiles):
        parameters = symbolic.parameters
    else:
        root = fused.roots[min(output, len(fused.roots) - 1)] if fused.roots else ins
        parameters = tuple([Parameter(root, d, n) for d, n in enumerate(type.shape)])
    chosen = chosen_tiles(ins)
    report = TileReport(ins, output, type, symbolic, parameters, chosen=chosen)
    if sizes is None and chosen is not None and isinstance(symbolic, SymbolicTiles):
        known = chosen_sizes(symbolic, chosen)
        if isinstance(known, str):
            return replace(report, unread=known)
        sizes, report = known, replace(report, is_own=True)
    if sizes is None:
        return report
    return _with_sizes(report, integers(sizes, "tile sizes"), analysis, schedule)


def _output(
    ins: Instruction, fused: Fused, symbolic: SymbolicTiles | Refusal, analysis: Analysis
) -> tuple[int, TensorType]:
    """Return the number and type of the tiled output.

    It is the root that no instruction of the fusion uses, else the first tensor.

    Raises:
        UnsupportedError: No output is a tensor of static sizes.
    """
    tensors = analysis.tensors(ins.type)
    wanted = [*range(len(tensors))]
    if isinstance(symbolic, SymbolicTiles) and len(fused.roots) == len(tensors):
        wanted = [fused.roots.index(symbolic.root)]
    for number in wanted:
        type = tensors[number]
        if isinstance(type, TensorType) and type.is_static:
            return number, type
    raise_unsupported(ins)


def _with_sizes(
    report: TileReport, sizes: list[int], analysis: Analysis, schedule: ScheduleName
) -> TileReport:
    parameters = report.parameters
    own = [p for p in parameters if not p.is_contracting]
    if len(sizes) == len(own) != len(parameters):
        given = iter(sizes)
        sizes = [max(p.size, 1) if p.is_contracting else next(given) for p in parameters]
    if len(sizes) != len(parameters):
        needed = (
            f"{len(own)}" if len(own) == len(parameters) else f"{len(own)} or {len(parameters)}"
        )
        raise ValueError(f"{len(sizes)} tile sizes, {needed} are needed")
    if min(sizes, default=1) < 1:
        raise ValueError(f"tile sizes are positive, not {min(sizes)}")
    tiled: TiledComputation | Refusal | None = None
    if isinstance(report.symbolic, SymbolicTiles):
        if all(p.size for p in parameters):
            tiled = Tiler(report.symbolic).tiled(sizes, schedule=schedule)
        else:
            reason = "a dimension has no elements"
            tiled = Refusal(RefusalCode.INVALID_ARGUMENT, reason, report.instruction)
    with_tiles = replace(report, sizes=tuple(sizes), tiled=tiled)
    return replace(with_tiles, operands=tuple(_operands(with_tiles, analysis)))


def _operands(report: TileReport, analysis: Analysis) -> list[OperandTiles]:
    ins, found = report.instruction, []
    shape = [p.size for p in report.parameters if not p.is_contracting]
    reads = analysis.output_to_input(ins, report.output)
    for (place, leaf), accesses in reads.items():
        if not isinstance(place, int):
            continue
        operand = ins.operands[place]
        type = analysis.tensors(operand.type)[leaf]
        exact, claim = _exact(accesses, report.output_sizes, shape)
        maps = tuple([a.map for a in accesses if a.map is not None])
        every = report.tiled.every() if isinstance(report.tiled, TiledComputation) else ()
        tiled = [t for t in every if t.instruction is operand]
        xla = tiled[0] if len(tiled) == 1 else None
        found.append(OperandTiles(place, leaf, operand, type, maps, exact, claim, xla))
    return sorted(found, key=lambda o: (o.number, o.leaf))


def _exact(
    accesses: Sequence[Access], sizes: tuple[int, ...], shape: Sequence[int]
) -> tuple[ExactTiles, str]:
    claims = [a.reason for a in accesses if a.precision is Precision.OVER]
    for access in accesses:
        if access.map is None:
            return ExactTiles(sizes, TileVerdict.UNDECIDED, access.reason), ""
        if access.replica is not None:
            reason = "it is read on other devices"
            return ExactTiles(sizes, TileVerdict.UNDECIDED, reason), ""
    maps = [a.map for a in accesses if a.map is not None]
    return exact_tiles(maps, sizes, shape=shape), "; ".join(dict.fromkeys(claims))


def raise_unsupported(ins: Instruction) -> NoReturn:
    """Raise an error that says that the instruction has no tensor to tile.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(f"`{ins.name}` has no tensor of known sizes to tile")
