"""Typing of ops with any parameters and operands: it answers or refuses, and never fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from hloscope.errors import VerifyError
from hloscope.ir.op import Op, Signature
from hloscope.ir.types import (
    ELEMENT_TYPES,
    KnownTensor,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.mlir.types import spell
from hloscope.ops.batch_norm import BatchNormGrad, BatchNormInference, BatchNormTraining
from hloscope.ops.contraction import Dot, DotDimensions, DotGeneral, RaggedDot
from hloscope.ops.convolution import ConvDimensions, Convolution, DynamicConv
from hloscope.ops.gather_scatter import DynamicGather, Gather, Scatter
from hloscope.ops.reduction import Map, Reduce, Scan, Sort, TopK
from hloscope.ops.windows import ReduceWindow, SelectAndScatter, Window
from tests.ops.typings import QUANTIZED

ELEMENTS = [ELEMENT_TYPES[name] for name in ("f32", "f32", "f32", "bf16", "s32", "pred", "c64")]


class Chance(random.Random):
    """Random parameters; mostly of one rank, so that checks are passed now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rank = self.randrange(4)

    def length(self) -> int:
        return self.rank if self.random() < 0.8 else self.randrange(5)

    def dims(self) -> tuple[int, ...]:
        number = self.randrange(3)
        return tuple(self.randrange(-1, self.rank + 1) for _ in range(number))

    def sizes(self) -> tuple[int, ...]:
        return tuple(self.choice((0, 1, 1, 2, 3, 7, -1)) for _ in range(self.length()))

    def array(self) -> TensorType:
        element = self.choice(ELEMENTS)
        if self.random() < 0.1:
            element = self.choice(list(QUANTIZED.values()))
        sizes = tuple(self.choice((None, 0, 1, 2, 2, 3)) for _ in range(self.length()))
        if self.random() < 0.1 and None not in sizes:
            value = tuple(self.randrange(-1, 4) for _ in range(self.randrange(6)))
            return KnownTensor(element, sizes, None, (), value=value)
        bounds = tuple(self.choice((None, 4)) if s is None else None for s in sizes)
        return TensorType(element, sizes, None, bounds if None in sizes else ())

    def type(self) -> Type:
        kind = self.random()
        if kind < 0.9:
            return self.array()
        if kind < 0.94:
            return TupleType(tuple(self.type() for _ in range(self.randrange(3))))
        return self.choice((TokenType(), UnrankedTensorType(ELEMENTS[0])))

    def types(self) -> tuple[Type, ...]:
        if self.random() < 0.5:
            return (self.array(),) * self.randrange(6)
        return tuple(self.type() for _ in range(self.randrange(6)))

    def region(self) -> Signature:
        if self.random() < 0.7:
            scalar = TensorType(self.choice(ELEMENTS), ())
            return Signature((scalar,) * self.randrange(1, 5), (scalar,) * self.randrange(1, 3))
        return Signature(self.types(), self.types())

    def window(self) -> Window:
        padding: Any = tuple((self.randrange(-3, 3),) * 2 for _ in range(self.length()))
        if self.random() < 0.1:
            padding = self.choice(((1, 2), ((1,),), (((1, 2),),), ((1, 2, 3),)))
        flags = (False,) * self.length()
        return Window(self.sizes(), self.sizes(), padding, self.sizes(), self.sizes(), flags)


def convolution(c: Chance) -> Convolution:
    sides = [x for _ in range(3) for x in (*c.choices(range(-1, 4), k=2), c.dims())]
    if c.random() < 0.7:
        c.rank = 3
        sides = [0, 2, (1,), 1, 2, (0,), 0, 2, (1,)]
    window = c.window()
    if c.random() < 0.7:
        window = Window((2,), (1,), ((0, 1),), (1,), (1,), (False,))
    return Convolution(window, ConvDimensions(*sides), c.choice((0, 1, 2)), c.choice((1, 1, 2)))


def dynamic_conv(c: Chance) -> DynamicConv:
    op = convolution(c)
    return DynamicConv(op.window, op.dimensions, op.feature_group_count, op.batch_group_count)


def gather_fields(c: Chance) -> tuple[Any, ...]:
    return (*(c.dims() for _ in range(5)), c.randrange(-1, 4))


def dots(c: Chance) -> DotDimensions:
    return DotDimensions(*(c.dims() for _ in range(4)))


MAKERS: dict[str, Callable[[Chance], Op]] = {
    "reduce_window": lambda c: ReduceWindow(c.window()),
    "select_and_scatter": lambda c: SelectAndScatter(c.window()),
    "convolution": convolution,
    "dynamic_conv": dynamic_conv,
    "dot": lambda c: Dot(),
    "dot_general": lambda c: DotGeneral(dots(c)),
    "ragged_dot": lambda c: RaggedDot(dots(c), c.dims(), c.dims()),
    "reduce": lambda c: Reduce(c.dims()),
    "map": lambda c: Map(c.dims()),
    "sort": lambda c: Sort(c.randrange(-4, 4)),
    "scan": lambda c: Scan(c.randrange(-1, 4), c.randrange(3), scan_dim_size=c.choice((None, 2))),
    "top_k": lambda c: TopK(c.randrange(-1, 4)),
    "batch_norm_training": lambda c: BatchNormTraining(0.1, c.randrange(-1, 4)),
    "batch_norm_inference": lambda c: BatchNormInference(0.1, c.randrange(-1, 4)),
    "batch_norm_grad": lambda c: BatchNormGrad(0.1, c.randrange(-1, 4)),
    "gather": lambda c: Gather(*gather_fields(c), c.sizes()),
    "dynamic_gather": lambda c: DynamicGather(*gather_fields(c)),
    "scatter": lambda c: Scatter(*gather_fields(c)),
}


def outcome(op: Op, operands: tuple[Type, ...], results: Any, calls: Any) -> str:
    """What typing says: the refusal, or `accepted`."""
    try:
        if results is None:
            op.infer(operands, calls)
        else:
            op.verify(operands, results, calls)
    except VerifyError as refusal:
        return refusal.message_in(spell)
    return "accepted"


@pytest.mark.slow(keep=10)
@pytest.mark.parametrize("name", MAKERS)
def test_typing_answers_or_refuses(name: str, full: bool) -> None:
    said = set()
    for seed in range(20_000 if full else 1_000):
        chance = Chance(seed)
        op = MAKERS[name](chance)
        operands, results = chance.types(), chance.types()
        calls = tuple(chance.region() for _ in range(chance.randrange(3)))
        try:
            said.add(outcome(op, operands, None, calls))
            said.add(outcome(op, operands, results, calls))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {op} of {operands}, {calls}") from error
    assert len(said) > 5
    assert "" not in said
