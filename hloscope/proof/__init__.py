"""Checks of maps against the program, independent of composition and simplification."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.proof.allowance import SECONDS_ALL as SECONDS_ALL, SECONDS_EQUAL as SECONDS_EQUAL
    from hloscope.proof.check import (
        Check as Check,
        Executed as Executed,
        Outcome as Outcome,
        combined as combined,
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
    from hloscope.proof.report import write_evidence as write_evidence
    from hloscope.proof.violation import Violation as Violation

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
