"""The public names of `import hloscope`: read a program, query its instructions.

>>> import hloscope
>>> program = hloscope.read('''
... ENTRY e {
...   p = f32[4,8] parameter(0)
...   t = f32[8,4] transpose(p), dimensions={1,0}
...   ROOT n = f32[8,4] negate(t)
... }''')
>>> program["t"].indexing()
t = f32[8,4] transpose(p)
<BLANKLINE>
Element (d0, d1) of the output, f32[8,4], reads
<BLANKLINE>
  operand 0  f32[4,8]  p
    (d0, d1) -> (d1, d0)   exact
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.api.artifacts import (
        Diagnosis as Diagnosis,
        artifact_text as artifact_text,
        deserialize as deserialize,
        doctor as doctor,
        is_artifact as is_artifact,
        refined as refined,
        serialize as serialize,
        text_of_tree as text_of_tree,
        verified_tree as verified_tree,
        vhlo_text as vhlo_text,
    )
    from hloscope.api.asking import (
        IndexQuestion as IndexQuestion,
        index_lines as index_lines,
        with_operands as with_operands,
    )
    from hloscope.api.buffers import (
        MemoryAnswer as MemoryAnswer,
        MemoryDifferenceAnswer as MemoryDifferenceAnswer,
    )
    from hloscope.api.checking import (
        CHECK_FILE as CHECK_FILE,
        CHECK_RULES as CHECK_RULES,
        UNLIMITED as UNLIMITED,
        Checked as Checked,
        check_files as check_files,
        check_one as check_one,
        check_settings as check_settings,
    )
    from hloscope.api.corpora import (
        FileAnswers as FileAnswers,
        KeptAnswers as KeptAnswers,
        answer_files as answer_files,
    )
    from hloscope.api.costs import (
        COST_SORTS as COST_SORTS,
        Cost as Cost,
        cost_of as cost_of,
        cost_on as cost_on,
        device_of_dump as device_of_dump,
    )
    from hloscope.api.equality import (
        Comparable as Comparable,
        Comparison as Comparison,
        Tally as Tally,
        comparisons as comparisons,
        diff as diff,
        movements as movements,
        prover_of as prover_of,
        verdict_of as verdict_of,
    )
    from hloscope.api.executing import (
        execute_kernel as execute_kernel,
        execute_named as execute_named,
    )
    from hloscope.api.exploring import (
        EXPLORER_PARTS as EXPLORER_PARTS,
        Explorer as Explorer,
        explore as explore,
    )
    from hloscope.api.files import (
        FilePath as FilePath,
        bytes_of_file as bytes_of_file,
        dumps_in as dumps_in,
        programs_at as programs_at,
        read_stream as read_stream,
    )
    from hloscope.api.finding import (
        computation_of as computation_of,
        entry_of as entry_of,
        find as find,
        find_all as find_all,
        joined as joined,
        language_of as language_of,
        modules_of as modules_of,
    )
    from hloscope.api.indexing import Indexing as Indexing
    from hloscope.api.invalid import Invalid as Invalid, check as check, findings as findings
    from hloscope.api.layouts import (
        LayoutPicture as LayoutPicture,
        shared_banks as shared_banks,
        thread_values as thread_values,
    )
    from hloscope.api.maps import (
        MAP_SCHEMA as MAP_SCHEMA,
        simplified as simplified,
        simplified_line as simplified_line,
    )
    from hloscope.api.measuring import (
        MEASURED_SORTS as MEASURED_SORTS,
        Measured as Measured,
    )
    from hloscope.api.memory import (
        DEVICES as DEVICES,
        LIMITS as LIMITS,
        Coalescing as Coalescing,
        Footprint as Footprint,
        Model as Model,
        bank_conflicts as bank_conflicts,
        footprints_of as footprints_of,
    )
    from hloscope.api.moments import Moment as Moment
    from hloscope.api.passes import (
        Passed as Passed,
        dims_of as dims_of,
        explain_dynamic as explain_dynamic,
        opt as opt,
        program_of as program_of,
        refine as refine,
        rows_of_hlo as rows_of_hlo,
        rows_of_tree as rows_of_tree,
        run_passes as run_passes,
        text_of as text_of,
        types_of as types_of,
    )
    from hloscope.api.printing import canonical as canonical
    from hloscope.api.program import (
        Program as Program,
        evaluate as evaluate,
        evaluate_grid as evaluate_grid,
        read as read,
    )
    from hloscope.api.program_kernels import (
        ProgramCoalescing as ProgramCoalescing,
        ProgramFootprint as ProgramFootprint,
        coalescing_of_all as coalescing_of_all,
        footprint_of_program as footprint_of_program,
        kernels_of as kernels_of,
        refuse_other_targets as refuse_other_targets,
    )
    from hloscope.api.ptx import (
        ptx_arguments as ptx_arguments,
        read_ptx as read_ptx,
        run_ptx as run_ptx,
        save_outputs as save_outputs,
    )
    from hloscope.api.running import (
        Given as Given,
        Ran as Ran,
        RunOptions as RunOptions,
        arguments_of as arguments_of,
        check_run as check_run,
        recorded_in as recorded_in,
        run_program as run_program,
    )
    from hloscope.api.running_both import RUNS as RUNS, value_runs as value_runs
    from hloscope.api.savings import (
        Cancellation as Cancellation,
        Movement as Movement,
        cancellation_of as cancellation_of,
        cancellations as cancellations,
    )
    from hloscope.api.scanning import ScanReport as ScanReport, scan_files as scan_files
    from hloscope.api.selecting import SORTS as SORTS, Selection as Selection, sort_key as sort_key
    from hloscope.api.sources import Readable as Readable, read_source as read_source
    from hloscope.api.supported import (
        coverage as coverage,
        schema as schema,
        schema_names as schema_names,
    )
    from hloscope.api.symbolic_maps import parametric as parametric
    from hloscope.api.tensor import Element as Element, Tensor as Tensor
    from hloscope.api.tiling import (
        SpaceTiling as SpaceTiling,
        TileCosts as TileCosts,
        Tiles as Tiles,
        tiling_space as tiling_space,
    )
    from hloscope.api.verifying import (
        check_expected as check_expected,
        check_text as check_text,
        verify as verify,
        verify_with_notes as verify_with_notes,
    )
    from hloscope.api.views import (
        ComputationView as ComputationView,
        InstructionView as InstructionView,
    )
    from hloscope.checks.scan import QUESTIONS as QUESTIONS, ask as ask
    from hloscope.cost import GROUPINGS as GROUPINGS
    from hloscope.display import (
        MEMORY_GROUPINGS as MEMORY_GROUPINGS,
        Parametric as Parametric,
        ParametricMap as ParametricMap,
        check_grouping as check_grouping,
    )
    from hloscope.fusion import Convention as Convention
    from hloscope.indexing import IndexingMap as IndexingMap
    from hloscope.interpreter import EvaluationError as EvaluationError
    from hloscope.ir import Computation as Computation, Module as Module
    from hloscope.memory import parse_thread_map as parse_thread_map
    from hloscope.passes import (
        FOLD_BYTES as FOLD_BYTES,
        FOLD_ELEMENTS as FOLD_ELEMENTS,
        FOLD_STEPS as FOLD_STEPS,
        CommandLine as CommandLine,
        is_upstreams as is_upstreams,
        parse_command_line as parse_command_line,
        split_types as split_types,
    )
    from hloscope.proof import (
        SECONDS_EQUAL as SECONDS_EQUAL,
        Compared as Compared,
        Prover as Prover,
        ValueRuns as ValueRuns,
    )
    from hloscope.simplifier import Verdict as Verdict
    from hloscope.stablehlo.bytecode import Health as Health
    from hloscope.support.devices import ALL_DEVICES as ALL_DEVICES, Limits as Limits
    from hloscope.support.limits import (
        MAX_BYTES as MAX_BYTES,
        MOST_FLOPS as MOST_FLOPS,
        MOST_STEPS as MOST_STEPS,
    )
    from hloscope.tiling import SCHEDULES as SCHEDULES, ScheduleName as ScheduleName

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
