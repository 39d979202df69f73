"""Ops of StableHLO that take as operands what others have as attributes.

Sizes are constants, places may be computed; types tell the sizes, or leave some out.
"""

from __future__ import annotations

from tests.generator.builder import Builder, mlir_list, step
from tests.generator.program import Value
from tests.generator.steps.shape import factorised
from tests.generator.value_types import INDEX, Tensor


@step("dynamic_forms", 0.4, languages=("mlir",))
def dynamic_reshape(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    sizes = factorised(g, type_.count)
    made = Tensor(type_.element, sizes)
    g.emit((a, g.vector(sizes)), made, mlir=("stablehlo.dynamic_reshape", ""))


@step("dynamic_forms", 0.4, languages=("mlir",))
def dynamic_broadcast_in_dim(g: Builder) -> None:
    a, type_ = g.any(hi=2)
    sizes = (g.number(1, 2), *type_.sizes)
    dims = [str(d) for d in range(1, len(sizes))]
    listed = f": {', '.join(dims)}" if dims else ""
    g.emit(
        (a, g.vector(sizes)),
        Tensor(type_.element, sizes),
        mlir=("stablehlo.dynamic_broadcast_in_dim", f"broadcast_dimensions = array<i64{listed}>"),
    )


def place(g: Builder, most: int) -> Value:
    """A number from 0 to `most`, known or computed, as a vector of one."""
    if not g.options.masks or g.chance(0.5):
        return g.vector([g.number(0, most)])
    clamp = {"hlo": ("clamp", ""), "mlir": ("stablehlo.clamp", "")}
    operands = (g.constant(INDEX, 0), g.index(), g.constant(INDEX, most))
    return g.reshape(g.emit(operands, INDEX, **clamp, masks=True), (1,))


def joined(g: Builder, values: list[Value]) -> Value:
    """Vectors of one number, one after another."""
    made = Tensor("s32", (len(values),))
    return g.emit(values, made, mlir=("stablehlo.concatenate", "dimension = 0 : i64"))


@step("dynamic_forms", 0.5, languages=("mlir",))
def real_dynamic_slice(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    sizes = [g.number(1, n) for n in type_.sizes]
    places = [place(g, n - size) for n, size in zip(type_.sizes, sizes, strict=True)]
    starts, ones = joined(g, places), g.vector([1] * len(sizes))
    limits = g.binary("add", starts, g.vector(sizes))
    made = Tensor(type_.element, tuple(sizes))
    g.emit((a, starts, limits, ones), made, mlir=("stablehlo.real_dynamic_slice", ""))


@step("dynamic_forms", 0.5, languages=("mlir",))
def dynamic_pad(g: Builder) -> None:
    """Of edges whose widths have a sum that is known."""
    a, type_ = g.any(lo=1, least=1)
    sums = [g.pick([0, 0, 1, 2]) for _ in type_.sizes]
    inner = [g.pick([0, 0, 1]) for _ in type_.sizes]
    sizes = tuple(
        n + total + inside * (n - 1)
        for n, total, inside in zip(type_.sizes, sums, inner, strict=True)
    )
    made = Tensor(type_.element, sizes)
    if made.count > 2 * g.options.count:
        return
    padding = g.of(Tensor(type_.element))
    lows = joined(g, [place(g, total) for total in sums])
    highs = g.binary("subtract", g.vector(sums), lows)
    g.emit((a, padding, lows, highs, g.vector(inner)), made, mlir=("stablehlo.dynamic_pad", ""))


@step("dynamic_forms", 0.5, languages=("mlir",))
def unknown_sizes(g: Builder) -> None:
    """Ops on a type that does not tell all sizes, and back."""
    a, type_ = g.any("f32", 1, 2)
    sizes = factorised(g, type_.count)
    unknown = frozenset(g.subset(len(sizes), g.number(1, len(sizes))))
    value = g.emit(
        (a, g.vector(sizes)),
        Tensor("f32", sizes, unknown=unknown),
        mlir=("stablehlo.dynamic_reshape", ""),
    )
    if g.chance(0.5):
        value = g.emit((value,), value.type, mlir=("stablehlo.cosine", ""))
    if g.chance(0.5):
        value = g.binary("multiply", value, value)
    if g.chance(0.5):
        order = g.permutation(len(sizes))
        turned = frozenset(k for k, d in enumerate(order) if d in unknown)
        value = g.emit(
            (value,),
            Tensor("f32", tuple(sizes[d] for d in order), unknown=turned),
            mlir=("stablehlo.transpose", f"permutation = {mlir_list(order)}"),
        )
    g.emit((value, g.vector(type_.sizes)), type_, mlir=("stablehlo.dynamic_reshape", ""))


@step("dynamic_forms", 0.2, languages=("mlir",))
def dynamic_iota(g: Builder) -> None:
    sizes = g.sizes(1, 2)
    axis = g.number(0, len(sizes) - 1)
    g.emit(
        (g.vector(sizes),),
        Tensor("s32", sizes),
        mlir=("stablehlo.dynamic_iota", f"iota_dimension = {axis} : i64"),
    )


@step("dynamic_forms", 0.4, languages=("mlir",))
def dynamic_gather(g: Builder) -> None:
    """Rows of a tensor, at indices that are computed."""
    a, type_ = g.any(lo=1, hi=2, least=1)
    count = g.number(1, 2)
    rest = type_.sizes[1:]
    offset = list(range(1, 1 + len(rest)))
    g.emit(
        (a, g.indices((count, 1)), g.vector([1, *rest])),
        Tensor(type_.element, (count, *rest)),
        mlir=(
            "stablehlo.dynamic_gather",
            f"dimension_numbers = #stablehlo.gather<offset_dims = {offset},"
            f" collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>",
        ),
    )
