"""Reductions, scans, sorts, maps and top-k, of one operand or several."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, mlir_list, step
from tests.generator.program import Value
from tests.generator.steps.bodies import comparator, scalar_body
from tests.generator.value_types import Tensor


def alike(g: Builder, count: int, lo: int = 1) -> tuple[list[Value], list[Tensor]]:
    """So many tensors of one shape; element types may differ."""
    first, type_ = g.any(lo=lo)
    types = [type_]
    values = [first]
    for _ in range(count - 1):
        types.append(Tensor(g.pick(["f32", type_.element]), type_.sizes))
        values.append(g.of(types[-1]))
    return values, types


@step("reduction", 2.5, has_regions=True, in_scalars=True)
def reduce(g: Builder) -> None:
    count = g.pick([1, 1, 2])
    values, types = alike(g, count)
    rank = len(types[0].sizes)
    dims = g.subset(rank, g.number(1, rank))
    kept = tuple(n for d, n in enumerate(types[0].sizes) if d not in dims)
    scalars = [Tensor(t.element) for t in types]
    starts = [g.of(t) for t in scalars]
    body = scalar_body(g, [*scalars, *scalars], count)
    g.emit_all(
        (*values, *starts),
        [Tensor(t.element, kept) for t in types],
        [body],
        hlo=("reduce", f"dimensions={hlo_list(dims)}, to_apply=%0"),
        mlir=("stablehlo.reduce", f"dimensions = {mlir_list(dims)}"),
    )


@step("reduction", 0.7, has_regions=True)
def scan(g: Builder) -> None:
    """Slices and carries go through a body; outputs are the slices that it returns."""
    values, types = alike(g, g.pick([1, 1, 2]))
    axis = g.number(0, len(types[0].sizes) - 1)
    length = types[0].sizes[axis]
    slices = [Tensor(t.element, _without(t.sizes, axis)) for t in types]
    carries = [g.any(hi=1)[1] for _ in range(g.pick([1, 1, 2]))]
    starts = [g.of(t) for t in carries]
    with g.region([*slices, *carries], is_open=False) as body:
        for _ in range(g.number(0, 2)):
            g.step()
        made = [*slices[: g.number(1, len(slices))], *carries]
        results = [_stepped(g, type_) for type_ in made]
    outputs = made[: len(made) - len(carries)]
    stacked = [Tensor(t.element, (*t.sizes[:axis], length, *t.sizes[axis:])) for t in outputs]
    reverse = g.pick(["true", "false"])
    g.emit_all(
        (*values, *starts),
        [*stacked, *carries],
        [g.closed(body, results)],
        hlo=(
            "scan",
            f"dimensions={{{axis}}}, is_reverse={reverse}, num_carries={len(carries)}, to_apply=%0",
        ),
        mlir=(
            "chlo.scan",
            f"dimension = {axis} : i64, is_reverse = {reverse},"
            f" operandSegmentSizes = array<i32: {len(values)}, {len(carries)}>,"
            f" resultSegmentSizes = array<i32: {len(outputs)}, {len(carries)}>",
        ),
    )


def _stepped(g: Builder, type_: Tensor) -> Value:
    """What a step makes of the values of a type: often all that are handed to it."""
    value = g.result(type_)
    for other in g.here.params:
        if other.type == type_ and other is not value and type_.element == "f32" and g.chance(0.6):
            value = g.binary("add", value, other)
    return value


def _without(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*sizes[:axis], *sizes[axis + 1 :])


@step("reduction", 1, has_regions=True, masks=True)
def sort(g: Builder) -> None:
    values, types = alike(g, g.pick([1, 1, 2]))
    axis = g.number(0, len(types[0].sizes) - 1)
    stable = g.pick(["true", "false"])
    body = comparator(g, [Tensor(t.element) for t in types])
    g.emit_all(
        values,
        types,
        [body],
        hlo=("sort", f"dimensions={{{axis}}}, is_stable={stable}, to_apply=%0"),
        mlir=("stablehlo.sort", f"dimension = {axis} : i64, is_stable = {stable}"),
        masks=True,
    )


@step("reduction", 1.2, has_regions=True, in_scalars=True)
def map_(g: Builder) -> None:
    values, types = alike(g, g.pick([1, 2]), lo=0)
    body = scalar_body(g, [Tensor(t.element) for t in types], 1)
    dims = range(len(types[0].sizes))
    g.emit_all(
        values,
        [types[0]],
        [body],
        hlo=("map", f"dimensions={hlo_list(dims)}, to_apply=%0"),
        mlir=("stablehlo.map", f"dimensions = {mlir_list(dims)}"),
    )


@step("reduction", 0.4, languages=("hlo",), masks=True)
def top_k(g: Builder) -> None:
    a, type_ = g.any("f32", 1, 2, least=1)
    k = g.number(1, type_.sizes[-1])
    sizes = (*type_.sizes[:-1], k)
    types = [Tensor("f32", sizes), Tensor("s32", sizes)]
    g.emit_all((a,), types, hlo=("topk", f"k={k}, largest=true"), masks=True)
