"""Branches and loops; what they capture may come from several levels up."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.value_types import INDEX, PRED, Tensor, Type


def result_types(g: Builder) -> list[Type]:
    """Types of one to three results: those of values in sight; in HLO, of tuples too.

    Bounded dimensions are among them where they are in sight.
    """
    types: list[Type] = [g.any(hi=2)[1] for _ in range(g.pick([1, 1, 2, 3]))]
    other = g.structured()
    is_said = other is not None and (
        isinstance(other.type, Tensor) or g.options.languages == ("hlo",)
    )
    if other is not None and is_said and g.chance(0.5):
        types.append(other.type)
    return types


@step("control", 1.6, has_regions=True, in_scalars=True)
def if_(g: Builder) -> None:
    types = result_types(g)
    pred, masks, is_uniform = g.chooser(PRED)
    bodies = [g.body((), types, is_uniform=is_uniform) for _ in range(2)]
    g.emit_all(
        (pred,),
        types,
        bodies,
        hlo=("conditional", "true_computation=%0, false_computation=%1"),
        mlir=("stablehlo.if", ""),
        masks=masks,
    )


@step("control", 1.2, has_regions=True, in_scalars=True)
def case(g: Builder) -> None:
    types = result_types(g)
    index, masks, is_uniform = g.chooser(INDEX)
    count = g.number(1, 3)
    bodies = [g.body((), types, is_uniform=is_uniform) for _ in range(count)]
    names = ", ".join(f"%{k}" for k in range(count))
    g.emit_all(
        (index,),
        types,
        bodies,
        hlo=("conditional", f"branch_computations={{{names}}}"),
        mlir=("stablehlo.case", ""),
        masks=masks or count == 1,
    )


@step("control", 1.8, has_regions=True, in_scalars=True)
def while_(g: Builder) -> None:
    """A loop that counts up to a constant, or to a value that is known when it begins."""
    types = [INDEX, *result_types(g)]
    start = g.constant(INDEX, 0)
    operands = [start, *(g.of(t) for t in types[1:])]
    limit = g.constant(INDEX, g.number(0, 3))
    is_uniform = g.meets and g.chance(0.8)
    if g.options.masks and not is_uniform and g.chance(0.5):
        limit = g.binary("minimum", g.of(INDEX), limit, masks=True)
    with g.region(types, is_open=True) as condition:
        going = g.compare("LT", condition.params[0], limit)
        if g.options.masks and not is_uniform and g.chance(0.25):
            going = g.binary("and", going, g.of(PRED), masks=True)
    with g.region(types, is_open=True, is_uniform=is_uniform) as body:
        one = g.constant(INDEX, 1)
        next_ = g.binary("add", body.params[0], one)
        for _ in range(g.number(0, 3)):
            g.step()
        results = [next_]
        for k, type_ in enumerate(types[1:], 1):
            way = g.number(0, 5)
            others = [p for p in body.params[1:] if p.type == type_]
            if way == 0:
                results.append(body.params[k])  # handed on
            elif way == 1:
                results.append(g.pick(others))  # moved on
            else:
                results.append(g.result(type_))
    regions = [g.closed(condition, [going]), g.closed(body, results)]
    g.emit_all(
        operands, types, regions, hlo=("while", ""), mlir=("stablehlo.while", ""), masks=True
    )


@step("control", 0.5)
def barrier(g: Builder) -> None:
    """Values that are handed on together."""
    values = [g.any()[0] for _ in range(g.number(1, 2))]
    if len(values) == 1:
        types: list[Type] = [values[0].type]
        name = ("opt-barrier", "")
        g.emit_all(values, types, hlo=name, mlir=("stablehlo.optimization_barrier", ""))
    elif "mlir" in g.options.languages and not g.is_hlo_too:
        g.emit_all(values, [v.type for v in values], mlir=("stablehlo.optimization_barrier", ""))
    elif g.options.languages == ("hlo",):
        whole = g.tuple_of(values)
        g.parts(g.emit((whole,), whole.type, hlo=("opt-barrier", "")))
    assert all(isinstance(v.type, Tensor) for v in values)
