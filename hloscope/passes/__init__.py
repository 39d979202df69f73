"""Passes: functions from a module to a rewritten module."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.passes.constant_folding import (
        FOLD_BYTES as FOLD_BYTES,
        FOLD_STEPS as FOLD_STEPS,
        fold as fold,
    )
    from hloscope.passes.dynamism.dimensions import (
        Specification as Specification,
        argument_types as argument_types,
        specification as specification,
    )
    from hloscope.passes.dynamism.explaining import (
        Explanation as Explanation,
        Origin as Origin,
        explain as explain,
        is_dynamic as is_dynamic,
        is_wrapper as is_wrapper,
        refining_steps as refining_steps,
        with_arguments as with_arguments,
        with_entry as with_entry,
    )
    from hloscope.passes.dynamism.refining import split_types as split_types
    from hloscope.passes.framework import (
        Option as Option,
        Pass as Pass,
        PassError as PassError,
        Run as Run,
    )
    from hloscope.passes.patterns import (
        FOLD_ELEMENTS as FOLD_ELEMENTS,
        Pattern as Pattern,
        Patterns as Patterns,
    )
    from hloscope.passes.pipeline import (
        CommandLine as CommandLine,
        Outcome as Outcome,
        PipelineError as PipelineError,
        Step as Step,
        applied as applied,
        failure as failure,
        find_pass as find_pass,
        is_upstreams as is_upstreams,
        parse_command_line as parse_command_line,
        parse_pipeline as parse_pipeline,
        pass_names as pass_names,
        passes_of as passes_of,
        run_pipeline as run_pipeline,
        step_of as step_of,
    )
    from hloscope.passes.rewriting import Rewriter as Rewriter

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
