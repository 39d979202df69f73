"""Maps through graphs: fusions, calls, loops, whole computations."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.fusion.analysis import (
        CALLED_ONCE as CALLED_ONCE,
        Analysis as Analysis,
        linear as linear,
        physical as physical,
    )
    from hloscope.fusion.body_dependences import Source as Source, source_in as source_in
    from hloscope.fusion.costs import (
        ALIASES as ALIASES,
        PRODUCTS as PRODUCTS,
        bytes_moved as bytes_moved,
        elements_of as elements_of,
        elements_read as elements_read,
        padded_bytes_moved as padded_bytes_moved,
        size_in_bytes as size_in_bytes,
    )
    from hloscope.fusion.dependences import (
        BY_CONVENTION as BY_CONVENTION,
        INSIDE as INSIDE,
        Convention as Convention,
    )
    from hloscope.fusion.leaves import (
        OUT_OF_STEP as OUT_OF_STEP,
        Leaves as Leaves,
        Part as Part,
        Sizes as Sizes,
        leaf_types as leaf_types,
    )
    from hloscope.fusion.parameter_reads import Leaf as Leaf, ParameterReads as ParameterReads
    from hloscope.fusion.products import (
        multiplications as multiplications,
        valid_pairs as valid_pairs,
    )
    from hloscope.fusion.region import Region as Region, epilogue as epilogue, grouped as grouped
    from hloscope.fusion.structural_ids import (
        RECURSIVE as RECURSIVE,
        Numbering as Numbering,
        Results as Results,
        StructureIds as StructureIds,
        counterparts as counterparts,
        has_runtime as has_runtime,
        origin_text as origin_text,
        origins_of as origins_of,
        renamed_value as renamed_value,
        with_origins as with_origins,
    )
    from hloscope.fusion.structure import READS as READS
    from hloscope.fusion.traversal import (
        AccessInterner as AccessInterner,
        AccessTraversal as AccessTraversal,
        Flow as Flow,
        composed as composed,
    )
    from hloscope.fusion.values import MOVES as MOVES

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
