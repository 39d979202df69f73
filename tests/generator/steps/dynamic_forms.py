"""Ops of StableHLO that take as operands what others have as attributes: known ones, here."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.steps.shape import factorised
from tests.generator.value_types import Tensor


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


@step("dynamic_forms", 0.4, languages=("mlir",))
def real_dynamic_slice(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    sizes = [g.number(1, n) for n in type_.sizes]
    starts = [g.number(0, n - size) for n, size in zip(type_.sizes, sizes, strict=True)]
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    bounds = [g.vector(numbers) for numbers in (starts, limits, [1] * len(sizes))]
    made = Tensor(type_.element, tuple(sizes))
    g.emit((a, *bounds), made, mlir=("stablehlo.real_dynamic_slice", ""))


@step("dynamic_forms", 0.4, languages=("mlir",))
def dynamic_pad(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    lows = [g.pick([0, 0, 1]) for _ in type_.sizes]
    highs = [g.pick([0, 0, 1, -1]) for _ in type_.sizes]
    inner = [g.pick([0, 0, 1]) for _ in type_.sizes]
    sizes = tuple(
        n + low + high + inside * (n - 1)
        for n, low, high, inside in zip(type_.sizes, lows, highs, inner, strict=True)
    )
    made = Tensor(type_.element, sizes)
    if made.count > 2 * g.options.count:
        return
    padding = g.of(Tensor(type_.element))
    vectors = [g.vector(numbers) for numbers in (lows, highs, inner)]
    g.emit((a, padding, *vectors), made, mlir=("stablehlo.dynamic_pad", ""))


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
