"""Cases of element-wise ops, of their CHLO forms that broadcast, of map and all-reduce."""

from __future__ import annotations

import numpy as np

from hloscope.ir.op import Op
from hloscope.ops.collectives import AllReduce, CollectiveReduce, CrossReplicaSum
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from hloscope.ops.reduction import Map
from tests.indexing.truth.generator import Gen, body, case
from tests.indexing.truth.marks import Case, Marks, Operand, as_marks, union

_SHAPE_ONLY = {"chlo.constant_like"}


@case("elementwise")
def elementwise(g: Gen) -> Case:
    name = g.pick(sorted(ELEMENTWISE.keys() - _SHAPE_ONLY))
    return elementwise_case(g, name)


def elementwise_case(g: Gen, name: str) -> Case:
    cls, shape = ELEMENTWISE[name], g.shape()
    first = "pred" if name == "select" else "f32"
    operands = [g.array(shape, element="f32" if i else first) for i in range(cls.arity)]
    return g.case(cls(), operands, _union_of(operands))


def _union_of(operands: list[Operand]) -> Marks:
    result = operands[0].marks
    for o in operands[1:]:
        result = as_marks(union(result, o.marks))
    return result


for _name in ("add", "abs", "select", "clamp", "compare", "convert", "copy", "complex", "real"):

    @case(f"elementwise: {_name}")
    def _(g: Gen, name: str = _name) -> Case:
        return elementwise_case(g, name)


@case("select: scalar predicate")
def select(g: Gen) -> Case:
    shape = g.shape()
    operands = [g.array((), element="pred"), g.array(shape), g.array(shape)]
    return g.case(ELEMENTWISE["select"](), operands, _union_of(operands[1:]) | operands[0].marks)


@case("clamp: scalar bounds")
def clamp(g: Gen) -> Case:
    shape = g.shape()
    lo = g.array(() if g.chance(0.7) else shape)
    x, hi = g.array(shape), g.array(())
    return g.case(ELEMENTWISE["clamp"](), [lo, x, hi], union(union(lo.marks, x.marks), hi.marks))


@case("elementwise: shape only")
def constant_like(g: Gen) -> Case:
    x = g.array(g.shape())
    return g.case(ELEMENTWISE["chlo.constant_like"](), [x], np.full_like(x.marks, 0))


@case("implicit broadcast")
def implicit_broadcast(g: Gen) -> Case:
    name = g.pick(sorted(k for k in IMPLICIT_BROADCAST if k != "select"))
    shape = g.shape(zero=False)
    small = tuple(1 if g.chance(0.3) else n for n in shape[g.number(0, len(shape)) :])
    shapes = [shape, small] if g.chance(0.5) else [small, shape]
    operands = [g.array(s) for s in shapes]
    return g.case(IMPLICIT_BROADCAST[name](), operands, _union_of(operands))


@case("map")
def map_(g: Gen) -> Case:
    shape = g.shape()
    operands = [g.array(shape) for _ in range(g.number(1, 3))]
    calls = (body(len(operands), [range(len(operands))]),)
    return g.case(Map(tuple(range(len(shape)))), operands, _union_of(operands), calls=calls)


for _op in (AllReduce(), CollectiveReduce(), CrossReplicaSum()):

    @case(_op.name)
    def all_reduce(g: Gen, op: Op = _op) -> Case:
        """On one device; several operands are reduced each on its own."""
        operands = [g.array(g.shape()) for _ in range(g.number(1, 3))]
        marks = tuple(o.marks for o in operands)
        calls = (body(2, [(0, 1)]),)
        return g.case(op, operands, marks if len(marks) > 1 else marks[0], calls=calls)
