"""Convolutions of one spatial dimension, in groups of features or of the batch too."""

from __future__ import annotations

from tests.generator.builder import Builder, mlir_list, step
from tests.generator.value_types import Tensor


@step("convolution", 0.6)
def convolution(g: Builder) -> None:
    a, type_ = g.any("f32", 3, 3, least=1)
    batch, features, length = type_.sizes
    groups = g.pick([k for k in (1, 2, 3) if features % k == 0])
    batches = g.pick([k for k in (1, 2, 3) if batch % k == 0]) if groups == 1 else 1
    made = groups * batches * g.number(1, 2)
    size, stride = g.number(1, 2), g.number(1, 2)
    low, high = g.pick([0, 0, 1, -1]), g.pick([0, 0, 1])
    base, dilation = g.pick([1, 1, 2]), g.pick([1, 1, 2])
    padded = low + (length - 1) * base + 1 + high
    reach = (size - 1) * dilation + 1
    steps = 0 if padded < reach else (padded - reach) // stride + 1
    result = Tensor("f32", (batch // batches, made, steps))
    if padded < 1 or result.count > 2 * g.options.count:
        return
    kernel = g.of(Tensor("f32", (made, features // groups, size)))
    turned = g.chance(0.3)
    window = (
        f"size={size} stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={dilation}"
        f" rhs_reversal={int(turned)}"
    )
    counts = (
        f"feature_group_count = {groups} : i64, batch_group_count = {batches} : i64,"
        f" window_reversal = array<i1: {str(turned).lower()}>"
    )
    g.emit(
        (a, kernel),
        result,
        hlo=(
            "convolution",
            f"window={{{window}}}, dim_labels=bf0_oi0->bf0, feature_group_count={groups},"
            f" batch_group_count={batches}",
        ),
        mlir=(
            "stablehlo.convolution",
            "dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>,"
            f" window_strides = {mlir_list([stride])}, padding = dense<[[{low}, {high}]]> :"
            f" tensor<1x2xi64>, lhs_dilation = {mlir_list([base])},"
            f" rhs_dilation = {mlir_list([dilation])}, {counts}",
        ),
    )
