"""Tuples, tuples of tuples, and their parts."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.program import Value
from tests.generator.value_types import Tensor, Tuple


@step("tuples", 1.4)
def tuple_(g: Builder) -> None:
    values = [g.any()[0] for _ in range(g.number(1, 3))]
    whole = g.find(lambda t: isinstance(t, Tuple))
    if whole is None and g.chance(0.2):
        small = Tensor("f32", g.sizes(0, 1))
        whole = g.new(Tuple((small, Tuple((Tensor("s32"), small)))))
    if whole is not None and g.chance(0.6):
        values.insert(g.number(0, len(values)), whole)
    g.tuple_of(values)


@step("tuples", 1.4)
def parts(g: Builder) -> None:
    whole = g.find(lambda t: isinstance(t, Tuple) and bool(t.parts))
    if whole is None:
        return
    found: list[Value] = g.parts(whole)
    inner = [v for v in found if isinstance(v.type, Tuple)]
    if inner and g.chance(0.5):
        g.parts(g.pick(inner))
