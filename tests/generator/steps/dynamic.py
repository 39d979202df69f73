"""Bounded dimensions: sizes that are set, asked for, and computed with."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, mlir_list, step
from tests.generator.program import Value
from tests.generator.steps.bodies import scalar_body
from tests.generator.value_types import INDEX, Tensor


def bounded(g: Builder) -> tuple[Value, Tensor] | None:
    """A value with a bounded dimension in sight."""
    found = g.find(lambda t: isinstance(t, Tensor) and bool(t.bounded))
    if found is None:
        return None
    assert isinstance(found.type, Tensor)
    return found, found.type


@step("dynamic", 1.0)
def set_dimension_size(g: Builder) -> None:
    known = bounded(g)
    a, type_ = known if known is not None and g.chance(0.4) else g.any(lo=1)
    axis = g.number(0, len(type_.sizes) - 1)
    made = Tensor(type_.element, type_.sizes, type_.bounded | {axis})
    least, most = g.constant(INDEX, 0), g.constant(INDEX, type_.sizes[axis])
    clamp = {"hlo": ("clamp", ""), "mlir": ("stablehlo.clamp", "")}
    size = g.emit((least, g.index(), most), INDEX, **clamp, masks=True)
    g.emit(
        (a, size),
        made,
        hlo=("set-dimension-size", f"dimensions={{{axis}}}"),
        mlir=("stablehlo.set_dimension_size", f"dimension = {axis} : i64"),
        masks=True,
    )


@step("dynamic", 1.8, has_regions=True)
def use(g: Builder) -> None:
    """An op on what has a bounded dimension: its size, a transpose, a reduction."""
    known = bounded(g)
    if known is None:
        return
    a, type_ = known
    if g.chance(0.3):
        axis = g.number(0, len(type_.sizes) - 1)
        g.emit(
            (a,),
            INDEX,
            hlo=("get-dimension-size", f"dimensions={{{axis}}}"),
            mlir=("stablehlo.get_dimension_size", f"dimension = {axis} : i64"),
            masks=True,
        )
    elif g.chance(0.3):
        order = g.permutation(len(type_.sizes))
        sizes = tuple(type_.sizes[d] for d in order)
        at = frozenset(k for k, d in enumerate(order) if d in type_.bounded)
        g.emit(
            (a,),
            Tensor(type_.element, sizes, at),
            hlo=("transpose", f"dimensions={hlo_list(order)}"),
            mlir=("stablehlo.transpose", f"permutation = {mlir_list(order)}"),
        )
    elif g.chance(0.6):
        _reduced(g, a, type_)
    elif type_.element == "f32":
        value = g.binary("multiply", a, a)
        g.emit((value,), type_, hlo=("cosine", ""), mlir=("stablehlo.cosine", ""))


def _reduced(g: Builder, a: Value, type_: Tensor) -> None:
    """A reduction, of a bounded dimension or another."""
    rank = len(type_.sizes)
    dims = g.subset(rank, g.number(1, rank))
    kept = [d for d in range(rank) if d not in dims]
    sizes = tuple(type_.sizes[d] for d in kept)
    bounds = frozenset(k for k, d in enumerate(kept) if d in type_.bounded)
    scalar = Tensor(type_.element)
    start = g.of(scalar)
    g.emit(
        (a, start),
        Tensor(type_.element, sizes, bounds),
        [scalar_body(g, [scalar, scalar], 1)],
        hlo=("reduce", f"dimensions={hlo_list(dims)}, to_apply=%0"),
        mlir=("stablehlo.reduce", f"dimensions = {mlir_list(dims)}"),
        masks=True,
    )
