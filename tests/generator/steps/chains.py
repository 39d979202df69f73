"""Long chains of ops that each move elements a little, or leave them where they are."""

from __future__ import annotations

from tests.generator.builder import Builder, step

LENGTH = 64


@step("chains", 0.2)
def chain(g: Builder) -> None:
    value, type_ = g.any("f32", 1, 2, least=1)
    for _ in range(LENGTH):
        way = g.number(0, 3)
        if way == 0:
            value = g.reverse(value, [g.number(0, len(type_.sizes) - 1)])
        elif way == 1:
            value = g.binary("add", value, value)
        elif way == 2:
            value = g.reshape(g.reshape(value, (type_.count,)), type_.sizes)
        else:
            value = g.emit((value,), type_, hlo=("sine", ""), mlir=("stablehlo.sine", ""))
