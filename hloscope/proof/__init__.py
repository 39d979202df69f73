"""Answers compared with the program, independently of composition and simplification."""

from hloscope.proof.allowance import SECONDS_ALL
from hloscope.proof.check import Check, Executed, Outcome, combined
from hloscope.proof.execution import Execution
from hloscope.proof.report import write_evidence
from hloscope.proof.verifier import Verifier
from hloscope.proof.violation import Violation

__all__ = [
    "SECONDS_ALL",
    "Check",
    "Executed",
    "Execution",
    "Outcome",
    "Verifier",
    "Violation",
    "combined",
    "write_evidence",
]
