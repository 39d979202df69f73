"""Comparison of two programs, two runs, or two files of values, and their first difference."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.compare.changes import (
        Aspect as Aspect,
        Change as Change,
        Differences as Differences,
        Part as Part,
        differences as differences,
    )
    from hloscope.compare.dividing import (
        WHOLE as WHOLE,
        Cut as Cut,
        cuts_of as cuts_of,
        header_cuts as header_cuts,
    )
    from hloscope.compare.edges import (
        argument_bytes as argument_bytes,
        edge_arguments as edge_arguments,
        limits_of as limits_of,
    )
    from hloscope.compare.files import (
        MOST_BYTES as MOST_BYTES,
        arranged as arranged,
        leaves as leaves,
        load as load,
        named as named,
        restored as restored,
        save as save,
    )
    from hloscope.compare.languages import differences_of_programs as differences_of_programs
    from hloscope.compare.outcome import (
        ValueDifference as ValueDifference,
        ValueRuns as ValueRuns,
    )
    from hloscope.compare.structure import (
        Structure as Structure,
        compared_extras as compared_extras,
    )
    from hloscope.compare.tracing import (
        Finding as Finding,
        by_name as by_name,
        compare_programs as compare_programs,
        compare_values as compare_values,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
