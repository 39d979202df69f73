"""Ops whose sizes are operands."""

from __future__ import annotations

from hloscope.affine import Const
from hloscope.errors import UnsupportedError
from hloscope.indexing.rules.build import NEVER
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, known
from hloscope.indexing.symbolic.rules.shape import broadcast, padded, reshaped
from hloscope.ops import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
)


@RULES.add(DynamicIota)
def _(asked: Asked, op: DynamicIota) -> Answer:
    return asked.all_of(0)


@RULES.add(GetDimensionSize)
def _(asked: Asked, op: GetDimensionSize) -> Answer:
    return [NEVER]


@RULES.add(DynamicBroadcastInDim)
def _(asked: Asked, op: DynamicBroadcastInDim) -> Answer:
    stretched = op.known_expanding_dimensions or ()
    kept = op.known_nonexpanding_dimensions or ()
    return [broadcast(asked, op.broadcast_dimensions, stretched, kept), *asked.all_of(1)]


@RULES.add(DynamicReshape)
def _(asked: Asked, op: DynamicReshape) -> Answer:
    return [reshaped(asked), *asked.all_of(1)]


@RULES.add(DynamicPad)
def _(asked: Asked, op: DynamicPad) -> Answer:
    low = [known(asked.operands[2], k) for k in range(len(asked.result))]
    steps = [known(asked.operands[4], k) + 1 for k in range(len(asked.result))]
    if not all(isinstance(step, Const) and step.value > 0 for step in steps):
        raise UnsupportedError("which elements are padding is not known in terms of sizes")
    numbers = [step.value for step in steps if isinstance(step, Const)]
    return [*padded(asked, low, numbers), *asked.all_of(2)]
