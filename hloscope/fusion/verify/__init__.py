"""Checking maps against the program: independent of composition and simplification."""

from hloscope.fusion.verify.check import Check, Outcome, combined
from hloscope.fusion.verify.verifier import Verifier

__all__ = ["Check", "Outcome", "Verifier", "combined"]
