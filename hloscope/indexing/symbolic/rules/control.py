"""Ops that hand on what they are given."""

from __future__ import annotations

from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, in_place
from hloscope.ops import OptimizationBarrier


@RULES.add(OptimizationBarrier)
def _(asked: Asked, op: OptimizationBarrier) -> Answer:
    return in_place(asked)
