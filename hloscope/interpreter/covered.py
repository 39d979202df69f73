"""Table of the ops that the interpreter evaluates.

>>> next(row for row in coverage() if row.op == "transpose")
Coverage(op='transpose', is_evaluated=True)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.interpreter.registry import MAKERS, load_families
from hloscope.ops import OPS, Call, Fusion, Parameter, Return

_BY_THE_PLAN: Final = frozenset((Call, Fusion, Parameter, Return))
"""Ops without kernels, which the plan evaluates itself."""


class Coverage(NamedTuple):
    """Name of an op, and whether it can be evaluated."""

    op: str
    is_evaluated: bool


def coverage() -> tuple[Coverage, ...]:
    """Return one row for each op, sorted by name."""
    load_families()
    return tuple(
        Coverage(name, cls in MAKERS or cls in _BY_THE_PLAN) for name, cls in sorted(OPS.items())
    )
