"""Indexing maps, the rules of each operation in both directions, and layouts as maps.

Proofs and sets are loaded at their first use, as they need isl.
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.indexing.access import (
        UNKNOWN_COUNTS as UNKNOWN_COUNTS,
        Access as Access,
        Accesses as Accesses,
        Axis as Axis,
        DeviceCounts as DeviceCounts,
        Groups as Groups,
        Precision as Precision,
        Route as Route,
        compose_across as compose_across,
        counts_of as counts_of,
        groups_of as groups_of,
        inverted as inverted,
        joined as joined,
        joined_after as joined_after,
        needed_steps as needed_steps,
        shortest as shortest,
        with_joined as with_joined,
    )
    from hloscope.indexing.analysis import (
        coverage as coverage,
        input_to_output as input_to_output,
        instances as instances,
        output_to_input as output_to_input,
    )
    from hloscope.indexing.compose import (
        bounds_to_check as bounds_to_check,
        compose_deep as compose_deep,
        compose_inside as compose_inside,
        is_deep as is_deep,
        merge_runtime as merge_runtime,
        replace_runtime as replace_runtime,
    )
    from hloscope.indexing.evaluate import (
        distinct_rows as distinct_rows,
        integers as integers,
        ravel as ravel,
        row_keys as row_keys,
        unravel as unravel,
    )
    from hloscope.indexing.map import IndexingMap as IndexingMap
    from hloscope.indexing.markup import conditions_latex as conditions_latex, to_latex as to_latex
    from hloscope.indexing.physical import (
        address_map as address_map,
        bitcast_map as bitcast_map,
        delinearize as delinearize,
        linearize as linearize,
        major_to_minor as major_to_minor,
        minimal_groups as minimal_groups,
        padded_physical_sizes as padded_physical_sizes,
        physical_access as physical_access,
        reshape_map as reshape_map,
        reshaped as reshaped,
        to_logical as to_logical,
    )
    from hloscope.indexing.proofs import (
        prove_bijective as prove_bijective,
        prove_composed as prove_composed,
        prove_empty as prove_empty,
        prove_equal as prove_equal,
        prove_implies as prove_implies,
        prove_injective as prove_injective,
        prove_inverse as prove_inverse,
        prove_single_valued as prove_single_valued,
        prove_within as prove_within,
        system_of as system_of,
        tight_bounds as tight_bounds,
    )
    from hloscope.indexing.rules.custom_calls import (
        CUDNN_ROLES as CUDNN_ROLES,
        forward_convolution as forward_convolution,
        op_of_call as op_of_call,
    )
    from hloscope.indexing.rules.dependence import (
        Bodies as Bodies,
        Dependence as Dependence,
        by_convention as by_convention,
    )
    from hloscope.indexing.rules.registry import (
        Direction as Direction,
        MapBuilder as MapBuilder,
        dynamic_dimensions as dynamic_dimensions,
        everything_map as everything_map,
        has_unknown_sizes as has_unknown_sizes,
        identity_map as identity_map,
        is_unbounded as is_unbounded,
        lookup as lookup,
        output_sizes as output_sizes,
        sizes as sizes,
        trailing as trailing,
    )
    from hloscope.indexing.rules.run_time_sizes import (
        Reads as Reads,
        SizeRead as SizeRead,
        element_reads as element_reads,
        size_reads as size_reads,
    )
    from hloscope.indexing.sets import IndexSet as IndexSet
    from hloscope.indexing.simplify import ConstraintStep as ConstraintStep, MapTrace as MapTrace
    from hloscope.indexing.symbolic import (
        Called as Called,
        SizeComparison as SizeComparison,
        SymbolicAnalysis as SymbolicAnalysis,
        inverted_accesses as inverted_accesses,
        unknown_reads as unknown_reads,
    )
    from hloscope.indexing.symbolic_instances import Instance as Instance
    from hloscope.indexing.text import MapTexts as MapTexts, map_texts as map_texts
    from hloscope.indexing.tiles import (
        ExactTiles as ExactTiles,
        Ragged as Ragged,
        TileVerdict as TileVerdict,
        exact_tiles as exact_tiles,
        image_of as image_of,
    )
    from hloscope.indexing.transform import project_out as project_out, replaced as replaced
    from hloscope.indexing.variables import (
        Constraint as Constraint,
        RuntimeVariable as RuntimeVariable,
        Variable as Variable,
        VariableKind as VariableKind,
        below as below,
        renamed as renamed,
        substituted as substituted,
        substituted_constraints as substituted_constraints,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
