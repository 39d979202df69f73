"""Cost of a program: kernels with time bounds, buffers with the memory peak, and profiles."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.cost.advice import (
        Advice as Advice,
        AdviceKind as AdviceKind,
        Level as Level,
        TritonRatings as TritonRatings,
        TritonUse as TritonUse,
        is_triton as is_triton,
        triton_rating as triton_rating,
    )
    from hloscope.cost.bounds import (
        NOTHING as NOTHING,
        Bound as Bound,
        BoundError as BoundError,
        Part as Part,
        Product as Product,
        Work as Work,
        bound_of as bound_of,
    )
    from hloscope.cost.collectives import (
        LinkBytes as LinkBytes,
        Overlap as Overlap,
        Transfer as Transfer,
        collective_op as collective_op,
        link_bytes as link_bytes,
        overlap_of as overlap_of,
        transfers_of as transfers_of,
    )
    from hloscope.cost.footprints import (
        ArrayFootprint as ArrayFootprint,
        Flops as Flops,
        Footprint as Footprint,
        Footprints as Footprints,
        loop_runs as loop_runs,
    )
    from hloscope.cost.model import (
        GROUPINGS as GROUPINGS,
        NOT_JUDGED as NOT_JUDGED,
        AccessCost as AccessCost,
        CostRow as CostRow,
        Group as Group,
        KernelCost as KernelCost,
        KernelCosts as KernelCosts,
        MeasuredCost as MeasuredCost,
        ProgramCost as ProgramCost,
        counted_runs as counted_runs,
        grouped as grouped,
        is_judged_by_threads as is_judged_by_threads,
        kernels_and_runs as kernels_and_runs,
        program_cost as program_cost,
        shares as shares,
    )
    from hloscope.cost.runs import (
        Branch as Branch,
        LoopUse as LoopUse,
        Place as Place,
        Runs as Runs,
        kernels_in as kernels_in,
        loops_of as loops_of,
        running as running,
    )
    from hloscope.cost.target import (
        Target as Target,
        is_scheduled as is_scheduled,
        target_of as target_of,
    )
    from hloscope.cost.trip_counts import (
        TripCount as TripCount,
        known_trip_count as known_trip_count,
        loop_trip_count as loop_trip_count,
        trip_count as trip_count,
    )
    from hloscope.cost.work_rules import (
        RULES as RULES,
        LoopRuns as LoopRuns,
        Rule as Rule,
        broadcast_back as broadcast_back,
        rule_of as rule_of,
    )
    from hloscope.indexing import DeviceCounts as DeviceCounts, counts_of as counts_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
