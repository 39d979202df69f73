"""Windows: reduce-window, of several operands too, and select-and-scatter."""

from __future__ import annotations

from tests.generator.builder import Builder, mlir_list, step
from tests.generator.steps.bodies import comparator, scalar_body
from tests.generator.steps.reduction import alike
from tests.generator.value_types import Tensor


def windows(g: Builder, sizes: tuple[int, ...]) -> list[tuple[int, int, int, int, int, int]]:
    """For each dimension: size, stride, low and high padding, dilation, base dilation."""
    return [
        (
            g.number(1, 2),
            g.number(1, 2),
            g.pick([0, 0, 1]),
            g.pick([0, 0, 1]),
            g.pick([1, 1, 2]),
            g.pick([1, 1, 2]),
        )
        for _ in sizes
    ]


@step("windows", 1.2, has_regions=True)
def reduce_window(g: Builder) -> None:
    count = g.pick([1, 1, 2])
    values, types = alike(g, count)
    found = windows(g, types[0].sizes)
    made = []
    for n, (size, stride, low, high, dilation, base) in zip(types[0].sizes, found, strict=True):
        padded = low + (0 if n == 0 else (n - 1) * base + 1) + high
        reach = (size - 1) * dilation + 1
        made.append(0 if padded < reach else (padded - reach) // stride + 1)
    if Tensor("f32", tuple(made)).count > 2 * g.options.count:
        return
    scalars = [Tensor(t.element) for t in types]
    starts = [g.of(t) for t in scalars]
    body = scalar_body(g, [*scalars, *scalars], count)
    size, stride, low, high, dilation, base = (list(column) for column in zip(*found, strict=True))
    pads = "x".join(f"{a}_{b}" for a, b in zip(low, high, strict=True))

    def times(numbers: list[int]) -> str:
        return "x".join(map(str, numbers))

    window = (
        f"size={times(size)} stride={times(stride)} pad={pads}"
        f" lhs_dilate={times(base)} rhs_dilate={times(dilation)}"
    )
    pairs = ", ".join(f"[{a}, {b}]" for a, b in zip(low, high, strict=True))
    g.emit_all(
        (*values, *starts),
        [Tensor(t.element, tuple(made)) for t in types],
        [body],
        hlo=("reduce-window", f"window={{{window}}}, to_apply=%0"),
        mlir=(
            "stablehlo.reduce_window",
            f"window_dimensions = {mlir_list(size)}, window_strides = {mlir_list(stride)},"
            f" base_dilations = {mlir_list(base)}, window_dilations = {mlir_list(dilation)},"
            f" padding = dense<[{pairs}]> : tensor<{len(low)}x2xi64>",
        ),
    )


@step("windows", 0.4, has_regions=True, masks=True)
def select_and_scatter(g: Builder) -> None:
    a, type_ = g.any("f32", 1, 2, least=1)
    size = [g.number(1, min(2, n)) for n in type_.sizes]
    stride = [g.number(1, 2) for _ in size]
    made = tuple((n - w) // s + 1 for n, w, s in zip(type_.sizes, size, stride, strict=True))
    scalar = Tensor("f32")
    source, start = g.of(Tensor("f32", made)), g.of(scalar)
    bodies = [comparator(g, [scalar]), scalar_body(g, [scalar, scalar], 1)]
    text = f"size={'x'.join(map(str, size))} stride={'x'.join(map(str, stride))}"
    g.emit_all(
        (a, source, start),
        [type_],
        bodies,
        hlo=("select-and-scatter", f"window={{{text}}}, select=%0, scatter=%1"),
        mlir=(
            "stablehlo.select_and_scatter",
            f"window_dimensions = {mlir_list(size)}, window_strides = {mlir_list(stride)}",
        ),
        masks=True,
    )
