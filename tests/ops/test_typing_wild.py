"""Typing of any op of these families, with whatever parameters and types, answers or refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from hloscope.errors import HloscopeError
from hloscope.ir.arrays import Literal
from hloscope.ir.op import Op
from hloscope.ir.types import UnrankedTensorType
from hloscope.mlir.types import ELEMENTS
from hloscope.ops.dynamic import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
    SetDimensionSize,
)
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from hloscope.ops.shape import (
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Constant,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Transpose,
)
from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice
from tests.ops.cases import quantized, types

TYPES = (
    *types(
        "f32[]; f32[2]; f32[2,3]; f32[?]; f32[<=3,2]; s32[]; s32[2]=1,-2; s64[1]=3; s64[2];"
        " pred[2]; pred[]; c64[2]; f64[2,2]; u8[0]; bf16[3,1]; token[]; (f32[2], s32[]); s32[]=2"
    ),
    quantized((2, 3), (0.5, 1)),
    quantized((2, 3), (0.5, 1), (0.5, 1), axis=0),
    quantized((2, 3), (0.5, 1), axis=7),
    UnrankedTensorType(ELEMENTS["f32"]),
)
"""Types that fit one another now and then."""


def dims(c: Random) -> tuple[int, ...]:
    return tuple(c.randrange(-1, 4) for _ in range(c.randrange(4)))


MAKERS: dict[str, Callable[[Random], Op]] = {
    "bitcast_convert": lambda _: BitcastConvert(),
    "broadcast": lambda c: Broadcast(dims(c)),
    "broadcast_in_dim": lambda c: BroadcastInDim(dims(c)),
    "concatenate": lambda c: Concatenate(c.randrange(-1, 3)),
    "constant": lambda c: Constant(Literal("", c.choice(TYPES))),
    "dynamic_broadcast_in_dim": lambda c: DynamicBroadcastInDim(dims(c), dims(c), dims(c)),
    "dynamic_iota": lambda c: DynamicIota(c.randrange(-1, 3)),
    "dynamic_pad": lambda _: DynamicPad(),
    "dynamic_reshape": lambda _: DynamicReshape(),
    "dynamic_slice": lambda c: DynamicSlice(dims(c)),
    "dynamic_update_slice": lambda _: DynamicUpdateSlice(),
    "elementwise": lambda c: c.choice(list(ELEMENTWISE.values()))(),
    "get_dimension_size": lambda c: GetDimensionSize(c.randrange(-1, 3)),
    "implicit_broadcast": lambda c: c.choice(list(IMPLICIT_BROADCAST.values()))(
        c.choice((None, dims(c)))
    ),
    "iota": lambda c: Iota(c.randrange(-1, 3)),
    "pad": lambda c: Pad(dims(c), dims(c), dims(c)),
    "real_dynamic_slice": lambda _: RealDynamicSlice(),
    "reshape": lambda _: Reshape(),
    "reverse": lambda c: Reverse(dims(c)),
    "set_dimension_size": lambda c: SetDimensionSize(c.randrange(-1, 3)),
    "slice": lambda c: Slice(dims(c), dims(c), dims(c)),
    "transpose": lambda c: Transpose(dims(c)),
}


@pytest.mark.slow(keep=13)
@pytest.mark.parametrize("name", MAKERS)
def test_anything_is_answered_or_refused(name: str) -> None:
    chance = Random(name)
    for _ in range(2000):
        op = MAKERS[name](chance)
        operands = tuple(chance.choices(TYPES, k=chance.choice((0, 1, 1, 2, 2, 3, 5))))
        with suppress(HloscopeError):
            op.infer(operands)
        with suppress(HloscopeError):
            op.verify(operands, (chance.choice(TYPES),))
