"""Results as text, JSON, HTML and SVG, and the page of `hloscope html`.

Users call these functions as methods of `hloscope.Indexing` and other results.
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.display.answer import (
        INDEX_SCHEMA as INDEX_SCHEMA,
        Answer as Answer,
        Direction as Direction,
        OperandAnswer as OperandAnswer,
        OperandAnswers as OperandAnswers,
        Order as Order,
        OutputAnswer as OutputAnswer,
        TensorAnswers as TensorAnswers,
        opcode_of as opcode_of,
        opcodes as opcodes,
        shape_text as shape_text,
        to_json as to_json,
    )
    from hloscope.display.buffer_answers import (
        MemoryStep as MemoryStep,
        PaddedType as PaddedType,
        RecomputedLine as RecomputedLine,
        assigned_text as assigned_text,
        compiler_lines as compiler_lines,
        copy_lines as copy_lines,
        copy_step as copy_step,
        donation_lines as donation_lines,
        donation_step as donation_step,
        first_step as first_step,
        fit_text as fit_text,
        moment_text as moment_text,
        padded_types as padded_types,
        padding_lines as padding_lines,
        padding_step as padding_step,
        peak_lines as peak_lines,
        recompute_lines as recompute_lines,
        recompute_step as recompute_step,
        recomputed_lines as recomputed_lines,
        remat_text as remat_text,
        transient_lines as transient_lines,
        unscheduled_lines as unscheduled_lines,
    )
    from hloscope.display.buffers import (
        MEMORY_DIFF_SCHEMA as MEMORY_DIFF_SCHEMA,
        MEMORY_GROUPINGS as MEMORY_GROUPINGS,
        MEMORY_SCHEMA as MEMORY_SCHEMA,
        BufferGrouping as BufferGrouping,
        MemoryChange as MemoryChange,
        MemoryDifference as MemoryDifference,
        buffer_json as buffer_json,
        buffers_table as buffers_table,
        compared_memory as compared_memory,
        live_groups_json as live_groups_json,
        memory_difference_json as memory_difference_json,
        memory_difference_lines as memory_difference_lines,
        memory_json as memory_json,
        moment_json as moment_json,
        plain_op_name as plain_op_name,
        timeline_points as timeline_points,
    )
    from hloscope.display.buffers_picture import (
        memory_plot as memory_plot,
        memory_svg as memory_svg,
    )
    from hloscope.display.coalescing import (
        COALESCE_SCHEMA as COALESCE_SCHEMA,
        bank_json as bank_json,
        bank_text as bank_text,
        banks_svg as banks_svg,
        coalescing_json as coalescing_json,
        coalescing_text as coalescing_text,
        warps_html as warps_html,
        warps_svg as warps_svg,
    )
    from hloscope.display.comparison import (
        SAME_ELEMENTS as SAME_ELEMENTS,
        compared_json as compared_json,
        comparison_text as comparison_text,
        differences_json as differences_json,
        differences_text as differences_text,
        finding_json as finding_json,
        finding_text as finding_text,
        result_json as result_json,
        result_text as result_text,
        value_runs_json as value_runs_json,
        value_runs_text as value_runs_text,
    )
    from hloscope.display.cost import (
        COST_SCHEMA as COST_SCHEMA,
        MEASURED_SCHEMA as MEASURED_SCHEMA,
        access_cause as access_cause,
        access_table as access_table,
        accesses_json as accesses_json,
        advice_json as advice_json,
        advice_lines as advice_lines,
        collectives_json as collectives_json,
        collectives_text as collectives_text,
        cost_of_group_json as cost_of_group_json,
        cost_of_kernel_json as cost_of_kernel_json,
        cost_table as cost_table,
        cost_totals_json as cost_totals_json,
        count_text as count_text,
        footprint_table as footprint_table,
        measured_group_json as measured_group_json,
        measured_json as measured_json,
        measured_table as measured_table,
        time_text as time_text,
        triton_text as triton_text,
    )
    from hloscope.display.dumps import (
        Dump as Dump,
        dump_json as dump_json,
        dumps_table as dumps_table,
    )
    from hloscope.display.executed import (
        PTX_SCHEMA as PTX_SCHEMA,
        ExecutedKernel as ExecutedKernel,
        KernelArray as KernelArray,
        ptx_json as ptx_json,
        ptx_text as ptx_text,
    )
    from hloscope.display.footprint import (
        FOOTPRINT_SCHEMA as FOOTPRINT_SCHEMA,
        footprint_json as footprint_json,
        footprint_svg as footprint_svg,
        footprint_text as footprint_text,
        groups_svg as groups_svg,
        run_json as run_json,
    )
    from hloscope.display.grouped import (
        ROWS_SHOWN as ROWS_SHOWN,
        Grouping as Grouping,
        check_grouping as check_grouping,
        groups_json as groups_json,
        share_text as share_text,
    )
    from hloscope.display.health import health_json as health_json, health_text as health_text
    from hloscope.display.latex import to_latex as to_latex
    from hloscope.display.listing import (
        Key as Key,
        Listing as Listing,
        Place as Place,
        branch_json as branch_json,
        branches as branches,
        computation_json as computation_json,
        computation_text as computation_text,
        line_printer as line_printer,
        listed_instructions as listed_instructions,
        neighbourhood as neighbourhood,
        neighbourhood_json as neighbourhood_json,
        neighbourhood_text as neighbourhood_text,
        tree_table as tree_table,
    )
    from hloscope.display.movement import (
        about_movement as about_movement,
        chain_html as chain_html,
        chain_json as chain_json,
        chain_svg as chain_svg,
        chain_text as chain_text,
        grouped_movement as grouped_movement,
        movement_groups_json as movement_groups_json,
        movement_summary as movement_summary,
        movement_table as movement_table,
    )
    from hloscope.display.parts import (
        Index as Index,
        access_parts as access_parts,
        runtime_origins as runtime_origins,
    )
    from hloscope.display.picture import Picture as Picture, sliders as sliders
    from hloscope.display.plots import (
        GRID_COLOURS as GRID_COLOURS,
        GridCell as GridCell,
        LayoutGrid as LayoutGrid,
        grouped_legend as grouped_legend,
        layout_svg as layout_svg,
        layout_text_of as layout_text_of,
        plot_allowed_sizes as plot_allowed_sizes,
        plot_layout as plot_layout,
        plot_memory as plot_memory,
        plot_roofline as plot_roofline,
        plot_tile_costs as plot_tile_costs,
        plot_warp as plot_warp,
    )
    from hloscope.display.provenance import (
        Provenance as Provenance,
        SourcePattern as SourcePattern,
        glob as glob,
        metadata_of as metadata_of,
        provenance_of as provenance_of,
    )
    from hloscope.display.reads import (
        elements_json as elements_json,
        html_fragment as html_fragment,
        to_elements as to_elements,
        to_html as to_html,
        to_svg as to_svg,
    )
    from hloscope.display.table import (
        Columns as Columns,
        OpCoverage as OpCoverage,
        Shown as Shown,
        Side as Side,
        Table as Table,
        Tabular as Tabular,
        columns as columns,
        coverage_json as coverage_json,
        coverage_summary as coverage_summary,
        coverage_table as coverage_table,
        fitted as fitted,
        json_line as json_line,
        json_text as json_text,
        page as page,
        preformatted as preformatted,
        styled as styled,
        tab_separated as tab_separated,
        table_html as table_html,
        table_text as table_text,
    )
    from hloscope.display.text import (
        headline as headline,
        to_print_indexing as to_print_indexing,
        to_text as to_text,
    )
    from hloscope.display.tiles import (
        tiles_html as tiles_html,
        tiles_json as tiles_json,
        tiles_svg as tiles_svg,
        tiles_text as tiles_text,
    )
    from hloscope.display.tiling_space import (
        kernel_json as kernel_json,
        kernel_text as kernel_text,
        space_json as space_json,
        space_text as space_text,
    )
    from hloscope.display.types import (
        OpTypes as OpTypes,
        Parametric as Parametric,
        ParametricMap as ParametricMap,
        dynamic_json as dynamic_json,
        dynamic_text as dynamic_text,
        parametric_json as parametric_json,
        parametric_text as parametric_text,
        signature_text as signature_text,
        types_json as types_json,
        types_table as types_table,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
