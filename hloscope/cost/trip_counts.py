"""How often loops run."""

from __future__ import annotations

from hloscope.errors import HloscopeError
from hloscope.ir import Instruction, backend_config


def known_trip_count(ins: Instruction) -> int | None:
    """How often a loop runs, where the backend knows."""
    try:
        return int(backend_config(ins.extras)["known_trip_count"]["n"])
    except (HloscopeError, KeyError, TypeError, ValueError):
        return None


def trip_count(ins: Instruction) -> int:
    """How often a loop runs, where the backend knows; else once."""
    known = known_trip_count(ins)
    return 1 if known is None else known
