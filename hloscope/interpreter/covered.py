"""Which ops are evaluated.

>>> next(row for row in coverage() if row.op == "transpose")
Coverage(op='transpose', is_evaluated=True)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.interpreter.registry import MAKERS, load_families
from hloscope.ops import OPS, Call, Fusion, Parameter, Return

_BY_THE_PLAN: Final = frozenset((Call, Fusion, Parameter, Return))
"""Ops without kernels: `plan` does what they mean."""


class Coverage(NamedTuple):
    """What is known about one op: is it evaluated?"""

    op: str
    is_evaluated: bool


def coverage() -> tuple[Coverage, ...]:
    """One row per op, in order of their names."""
    load_families()
    return tuple(
        Coverage(name, cls in MAKERS or cls in _BY_THE_PLAN) for name, cls in sorted(OPS.items())
    )
