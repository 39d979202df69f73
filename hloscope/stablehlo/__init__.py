"""StableHLO and CHLO: text, syntax tree, program graph, VHLO, and portable artifacts."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.stablehlo.builder import Builder as Builder
    from hloscope.stablehlo.cloning import clone as clone, strip_locations as strip_locations
    from hloscope.stablehlo.graph import (
        Function as Function,
        Node as Node,
        TreeModule as TreeModule,
        parse_stablehlo as parse_stablehlo,
        to_graph as to_graph,
    )
    from hloscope.stablehlo.inferring import (
        has_inference_tests as has_inference_tests,
        infer as infer,
        inferred_types as inferred_types,
        run_inference_tests as run_inference_tests,
    )
    from hloscope.stablehlo.kinds import AttributeGroups as AttributeGroups, i64_array as i64_array
    from hloscope.stablehlo.making import (
        CONSTANTS as CONSTANTS,
        broadcast_together as broadcast_together,
        integers_in as integers_in,
        known_integers as known_integers,
        made as made,
        operand_types as operand_types,
        region_of as region_of,
        signature as signature,
    )
    from hloscope.stablehlo.op_making import OpMaker as OpMaker, make_op as make_op
    from hloscope.stablehlo.tree import (
        print_stablehlo as print_stablehlo,
        to_mlir as to_mlir,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
