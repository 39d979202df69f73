"""Calls, fusions and asynchronous calls, inside each other too."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.program import Region, Value
from tests.generator.value_types import Type


def callee(g: Builder) -> tuple[list[Value], Region, list[Type]]:
    """Operands, a body that is handed them, and the types of its results."""
    operands = [g.any(hi=2)[0] for _ in range(g.number(0, 2))]
    with g.region([v.type for v in operands], is_open=True, is_uniform=True) as frame:
        for _ in range(g.number(1, 3)):
            g.step()
        results: list[Value] = []
        for _ in range(g.pick([1, 1, 2])):
            results.append(g.any(hi=2)[0])
        other = g.structured()
        if other is not None and g.chance(0.4):
            results.append(other)
    return operands, g.closed(frame, results), [v.type for v in results]


@step("calls", 1.5, has_regions=True, in_scalars=True)
def call(g: Builder) -> None:
    operands, body, types = callee(g)
    while True:
        g.emit_all(operands, types, [body], hlo=("call", "to_apply=%0"), mlir=("func.call", ""))
        if not g.chance(0.4):
            return
        # the same function of other values, perhaps of what it has just returned
        operands = [g.pick([v for v in g.here.values if v.type == o.type] or [o]) for o in operands]


@step("calls", 1.2, has_regions=True)
def fusion(g: Builder) -> None:
    operands, body, types = callee(g)
    kind = g.pick(["kLoop", "kInput", "kOutput", "kCustom"])
    g.emit_all(
        operands, types, [body], hlo=("fusion", f"kind={kind}, calls=%0"), mlir=("func.call", "")
    )


@step("calls", 0.6, languages=("mlir",), has_regions=True)
def composite(g: Builder) -> None:
    operands, body, types = callee(g)
    g.emit_all(operands, types, [body], mlir=("stablehlo.composite", 'name = "some.op"'))


@step("calls", 1.0, languages=("hlo",), has_regions=True)
def asynchronous(g: Builder) -> None:
    operands, body, types = callee(g)
    attributes = f"updates={g.number(0, 2)} short={g.number(0, 1)}"
    g.emit_all(operands, types, [body], hlo=("async-start", attributes))
