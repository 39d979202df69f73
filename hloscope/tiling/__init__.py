"""Tiles: the part of every tensor that a tile of the output needs, symbolic and exact."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.tiling.analysis import (
        Parameter as Parameter,
        SymbolicTiles as SymbolicTiles,
        TiledNode as TiledNode,
        symbolic_tiles as symbolic_tiles,
    )
    from hloscope.tiling.chosen import (
        ChosenTiles as ChosenTiles,
        chosen_sizes as chosen_sizes,
        chosen_tiles as chosen_tiles,
        fusion_config as fusion_config,
        fusion_kind as fusion_kind,
        output_tiles as output_tiles,
        tiles_of as tiles_of,
    )
    from hloscope.tiling.concrete import (
        SCHEDULES as SCHEDULES,
        ScheduleName as ScheduleName,
        TiledComputation as TiledComputation,
        TiledInstruction as TiledInstruction,
        Tiler as Tiler,
        candidate_sizes as candidate_sizes,
        candidate_tilings as candidate_tilings,
        exchanged_by_transposed_dot as exchanged_by_transposed_dot,
        major_to_minor as major_to_minor,
        transposed as transposed,
    )
    from hloscope.tiling.constraints import (
        Clause as Clause,
        ConstraintExpression as ConstraintExpression,
        Divides as Divides,
        OneSign as OneSign,
        Run as Run,
        TileConstraints as TileConstraints,
        Within as Within,
    )
    from hloscope.tiling.fused import Fused as Fused
    from hloscope.tiling.propagate import (
        TileCoverage as TileCoverage,
        propagate_to_operands as propagate_to_operands,
        propagate_to_outputs as propagate_to_outputs,
        tile_coverage as tile_coverage,
    )
    from hloscope.tiling.propagation.registry import (
        CarriedTile as CarriedTile,
        Propagated as Propagated,
        TileDirection as TileDirection,
        TilePrecision as TilePrecision,
    )
    from hloscope.tiling.regions import (
        RegionInstruction as RegionInstruction,
        TiledKernel as TiledKernel,
        TiledRegion as TiledRegion,
        tiled_kernel as tiled_kernel,
    )
    from hloscope.tiling.report import (
        OperandTiles as OperandTiles,
        TileReport as TileReport,
        tile_report as tile_report,
    )
    from hloscope.tiling.space import (
        Dimension as Dimension,
        DimensionKind as DimensionKind,
        Roots as Roots,
        RuntimeValue as RuntimeValue,
        TilingSpace as TilingSpace,
    )
    from hloscope.tiling.sweeping import (
        Choice as Choice,
        Ranking as Ranking,
        Standing as Standing,
        Sweep as Sweep,
        search as search,
        sweep as sweep,
        sweep_candidates as sweep_candidates,
        tile_traffics as tile_traffics,
        transaction_of as transaction_of,
    )
    from hloscope.tiling.symbolic import (
        SymbolicTile as SymbolicTile,
        symbolic_tile as symbolic_tile,
    )
    from hloscope.tiling.tile import (
        DimTile as DimTile,
        Refusal as Refusal,
        RefusalCode as RefusalCode,
        Tile as Tile,
        expression_text as expression_text,
        read_expression as read_expression,
    )
    from hloscope.tiling.traffic import MOST_CUT as MOST_CUT, TileTraffic as TileTraffic

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
