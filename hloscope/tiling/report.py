"""All that is said of the tiles of one instruction, by XLA's analysis and exactly."""

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
from hloscope.tiling.analysis import Parameter, SymbolicTiles, symbolic_tiles
from hloscope.tiling.chosen import ChosenTiles, chosen_sizes, chosen_tiles, fusion_config
from hloscope.tiling.concrete import TiledComputation, TiledInstruction, Tiler
from hloscope.tiling.fused import Fused
from hloscope.tiling.refusal import Refusal, RefusalCode
from hloscope.tiling.schedule import ScheduleName
from hloscope.tiling.sweeping import Ranking


class OperandTiles(Struct, frozen=True):
    """What the tiles of the output read of one tensor of an operand.

    Attributes:
        number: Of the operand.
        leaf: Which tensor of its value.
        operand: The instruction.
        type: Of the tensor.
        maps: From the elements of the output.
        exact: What the tiles read.
        claim: Why `exact` may say too much, if the maps do.
        xla: XLA's tile of it, if there is just one.
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
        """How many elements XLA's tile has."""
        return None if self.xla is None else prod(self.xla.sizes)


class TileReport(Struct, frozen=True):
    """What is said of the tiles of one instruction.

    Attributes:
        instruction: A fusion, or a single instruction.
        output: Which of its tensors the tiles are of.
        type: Of that tensor.
        symbolic: XLA's symbolic tiles, or why it has none.
        parameters: The sizes that are chosen; of a refused fusion the output's dimensions.
        sizes: Those that were given, one for each parameter.
        tiled: The tiles of these sizes, or why XLA has none.
        operands: What is really read.
        ranking: The tilings that were searched for.
        chosen: The tiling that the dump holds; `None` if it holds none.
        is_own: Are `sizes` those of the dump?
        unread: Why the dump's tiling could not be taken over; empty if it could, or holds none.
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
        """The dump's own tile sizes, one for each parameter; `None` if they are not known."""
        if self.chosen is None or isinstance(self.symbolic, Refusal):
            return None
        sizes = chosen_sizes(self.symbolic, self.chosen)
        return None if isinstance(sizes, str) else sizes

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The tile sizes along the output's dimensions."""
        sizes = self.sizes or ()
        pairs = zip(self.parameters, sizes, strict=True)
        chosen = [n for p, n in pairs if not p.is_contracting]
        return tuple(chosen)

    @property
    def refusal(self) -> Refusal | None:
        """Why XLA does not tile it so, if it does not."""
        for found in (self.symbolic, self.tiled):
            if isinstance(found, Refusal):
                return found
        return None

    @property
    def is_possible(self) -> bool:
        """Is all that tiles read known to be strided boxes?"""
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
    """What is said of the tiles of an instruction.

    Args:
        ins: A fusion, or a single instruction.
        analysis: Says what is really read.
        by_convention: The same by XLA's convention.
        sizes: One for each parameter; or for the output's dimensions alone: what is summed over is
            then taken whole. If not given, the tile sizes that the dump holds.
        schedule: How programs are numbered.

    Raises:
        TypeError: A size is not an integer.
        ValueError: The sizes are of another number, or not positive.
        UnsupportedError: No output is a tensor whose sizes are known.
    """
    kind = str(fusion_config(ins).get("kind", ""))
    fused = Fused.of(ins)
    symbolic = symbolic_tiles(fused, by_convention, kind=kind)
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
    """Which output tiles are of: the one that decides, else the first tensor there is."""
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
        xla = _xla_tile(report, operand)
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


def _xla_tile(report: TileReport, operand: Instruction) -> TiledInstruction | None:
    if not isinstance(report.tiled, TiledComputation):
        return None
    found = [t for t in report.tiled.every() if t.instruction is operand]
    return found[0] if len(found) == 1 else None


def raise_unsupported(ins: Instruction) -> NoReturn:
    """Say that there is nothing to tile."""
    raise UnsupportedError(f"`{ins.name}` has no tensor of known sizes to tile")
