"""Bounded dimensions: sizes that are set, asked for, and computed with."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.program import Value
from tests.generator.value_types import INDEX, Tensor


def bounded(g: Builder) -> tuple[Value, Tensor] | None:
    """A value with a bounded dimension in sight."""
    found = g.find(lambda t: isinstance(t, Tensor) and bool(t.bounded))
    if found is None:
        return None
    assert isinstance(found.type, Tensor)
    return found, found.type


@step("dynamic", 0.8)
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


@step("dynamic", 1.2)
def use(g: Builder) -> None:
    """An op on what has a bounded dimension: its size, an element-wise op."""
    known = bounded(g)
    if known is None:
        return
    a, type_ = known
    if g.chance(0.6):
        axis = g.number(0, len(type_.sizes) - 1)
        g.emit(
            (a,),
            INDEX,
            hlo=("get-dimension-size", f"dimensions={{{axis}}}"),
            mlir=("stablehlo.get_dimension_size", f"dimension = {axis} : i64"),
            masks=True,
        )
    elif type_.element == "f32":
        g.emit((a,), type_, hlo=("cosine", ""), mlir=("stablehlo.cosine", ""))
