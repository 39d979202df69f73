"""Ops with windows."""

from __future__ import annotations

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.symbolic.rules.asking import NO_RULE, RULES, Answer, Asked
from hloscope.indexing.symbolic.rules.reduction import begun, folded
from hloscope.ops import ReduceWindow


@RULES.add(ReduceWindow)
def _(asked: Asked, op: ReduceWindow) -> Answer:
    count, window = len(asked.operands) // 2, op.window
    at, index = asked.builder(), []
    if any(n != 1 for n in window.base_dilations):
        raise UnsupportedError(NO_RULE)
    for k, size in enumerate(asked.shape(0)):
        tap: Expr = at.range(Const(window.sizes[k])) if window.sizes[k] != 1 else Const(0)
        place = Dim(k) * window.strides[k] + tap * window.window_dilations[k]
        place = place - window.padding[k][0]
        at.below(place, size)
        index.append(place)
    return [*folded(asked, at.map(index), count), *begun(asked, count)]
