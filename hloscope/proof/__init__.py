"""Answers compared with the program, independently of composition and simplification."""

from hloscope.proof.check import Check, Outcome, combined
from hloscope.proof.verifier import Verifier

__all__ = ["Check", "Outcome", "Verifier", "combined"]
