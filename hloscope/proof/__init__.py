"""Checks of maps against the program, and comparison of two programs, runs or files of values."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.proof.allowance import SECONDS_ALL as SECONDS_ALL, SECONDS_EQUAL as SECONDS_EQUAL
    from hloscope.proof.arrays import (
        MOST_BYTES as MOST_BYTES,
        WHOLE as WHOLE,
        Cut as Cut,
        argument_bytes as argument_bytes,
        arranged as arranged,
        cuts_of as cuts_of,
        edge_arguments as edge_arguments,
        header_cuts as header_cuts,
        leaves as leaves,
        limits_of as limits_of,
        load as load,
        named as named,
        restored as restored,
        save as save,
    )
    from hloscope.proof.changes import (
        Aspect as Aspect,
        Change as Change,
        Differences as Differences,
        Part as Part,
        differences as differences,
        differences_of_programs as differences_of_programs,
    )
    from hloscope.proof.check import (
        Check as Check,
        Executed as Executed,
        Outcome as Outcome,
        Violation as Violation,
        combined as combined,
        write_evidence as write_evidence,
    )
    from hloscope.proof.equality import (
        Compared as Compared,
        compare as compare,
        same_maps as same_maps,
        same_of_origins as same_of_origins,
    )
    from hloscope.proof.execution import Execution as Execution
    from hloscope.proof.participants import (
        Header as Header,
        Participants as Participants,
        fitting_counts as fitting_counts,
        header_counts as header_counts,
    )
    from hloscope.proof.prover import Prover as Prover
    from hloscope.proof.structure import Structure as Structure, compared_extras as compared_extras
    from hloscope.proof.tracing import (
        Finding as Finding,
        ValueDifference as ValueDifference,
        ValueRuns as ValueRuns,
        by_name as by_name,
        compare_programs as compare_programs,
        compare_values as compare_values,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
