"""Element-wise ops, which read the element at the same index of each operand."""

from __future__ import annotations

from hloscope.indexing.rules.build import NEVER, exact
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims
from hloscope.ops import ELEMENTWISE, Elementwise, Op


@RULES.add(Elementwise)
def _(asked: Asked, op: Elementwise) -> Answer:
    rank, found = len(asked.result), []
    for k in range(len(asked.operands)):
        same = len(asked.shape(k)) == rank
        found.append(
            exact(asked.builder().map(dims(asked.result))) if same else asked.everything(k)
        )
    return found


@RULES.add(ELEMENTWISE["chlo.constant_like"])
def _(asked: Asked, op: Op) -> Answer:
    return [NEVER] * len(asked.operands)
