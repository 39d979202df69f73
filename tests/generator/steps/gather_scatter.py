"""Gathers and scatters, of indices that are computed; scatters of several operands too."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, mlir_list, step
from tests.generator.steps.bodies import scalar_body
from tests.generator.value_types import Tensor


@step("gather_scatter", 1.6)
def gather(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    rank = len(type_.sizes)
    mapped = g.subset(rank, g.number(1, rank))
    if g.chance(0.3):
        mapped.reverse()
    collapsed = [d for d in sorted(mapped) if g.chance(0.6)]
    sizes = [1 if d in collapsed else g.number(1, n) for d, n in enumerate(type_.sizes)]
    batch = g.sizes(0, 1)
    indices = g.indices((*batch, len(mapped)))
    window = [n for d, n in enumerate(sizes) if d not in collapsed]
    total = len(batch) + len(window)
    offset = g.subset(total, len(window))
    made, windows, rows = [], iter(window), iter(batch)
    for d in range(total):
        made.append(next(windows) if d in offset else next(rows))
    result = Tensor(type_.element, tuple(made))
    if result.count > 3 * g.options.count:
        return
    vector = len(batch)
    g.emit(
        (a, indices),
        result,
        hlo=(
            "gather",
            f"offset_dims={hlo_list(offset)}, collapsed_slice_dims={hlo_list(collapsed)},"
            f" start_index_map={hlo_list(mapped)}, index_vector_dim={vector},"
            f" slice_sizes={hlo_list(sizes)}",
        ),
        mlir=(
            "stablehlo.gather",
            f"dimension_numbers = #stablehlo.gather<offset_dims = {offset},"
            f" collapsed_slice_dims = {collapsed}, start_index_map = {mapped},"
            f" index_vector_dim = {vector}>, slice_sizes = {mlir_list(sizes)}",
        ),
    )


@step("gather_scatter", 0.5)
def batched_gather(g: Builder) -> None:
    """A slice of each member of a batch, at an index of its own."""
    a, type_ = g.any(lo=2, hi=2, least=1)
    batch, length = type_.sizes
    size = g.number(1, length)
    indices = g.indices((batch, 1))
    g.emit(
        (a, indices),
        Tensor(type_.element, (batch, size)),
        hlo=(
            "gather",
            "offset_dims={1}, collapsed_slice_dims={}, start_index_map={1},"
            " operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1,"
            f" slice_sizes={{1,{size}}}",
        ),
        mlir=(
            "stablehlo.gather",
            "dimension_numbers = #stablehlo.gather<offset_dims = [1],"
            " operand_batching_dims = [0], start_indices_batching_dims = [0],"
            " start_index_map = [1], index_vector_dim = 1>,"
            f" slice_sizes = array<i64: 1, {size}>",
        ),
    )


@step("gather_scatter", 0.5, has_regions=True)
def batched_scatter(g: Builder) -> None:
    """A window into each member of a batch, at an index of its own."""
    a, type_ = g.any("f32", 2, 2, least=1)
    batch, length = type_.sizes
    size = g.number(1, length)
    indices = g.indices((batch, 1))
    updates = g.of(Tensor("f32", (batch, size)))
    scalar = Tensor("f32")
    g.emit_all(
        (a, indices, updates),
        [type_],
        [scalar_body(g, [scalar, scalar], 1)],
        hlo=(
            "scatter",
            "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={1},"
            " input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1,"
            " to_apply=%0",
        ),
        mlir=(
            "stablehlo.scatter",
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],"
            " input_batching_dims = [0], scatter_indices_batching_dims = [0],"
            " scatter_dims_to_operand_dims = [1], index_vector_dim = 1>",
        ),
    )


@step("gather_scatter", 1.6, has_regions=True)
def scatter(g: Builder) -> None:
    count = g.pick([1, 1, 1, 2])
    a, type_ = g.any("f32" if g.chance(0.7) else None, 1, 3, least=1)
    types = [type_, *(Tensor("f32", type_.sizes) for _ in range(count - 1))]
    values = [a, *(g.of(t) for t in types[1:])]
    rank = len(type_.sizes)
    mapped = g.subset(rank, g.number(1, rank))
    inserted = [d for d in sorted(mapped) if g.chance(0.6)]
    window = [g.number(1, n) for d, n in enumerate(type_.sizes) if d not in inserted]
    batch = g.sizes(0, 1)
    indices = g.indices((*batch, len(mapped)))
    total = len(batch) + len(window)
    placed = g.subset(total, len(window))
    sizes, windows, rows = [], iter(window), iter(batch)
    for d in range(total):
        sizes.append(next(windows) if d in placed else next(rows))
    updates = [g.of(Tensor(t.element, tuple(sizes))) for t in types]
    scalars = [Tensor(t.element) for t in types]
    body = scalar_body(g, [*scalars, *scalars], count)
    vector = len(batch)
    g.emit_all(
        (*values, indices, *updates),
        types,
        [body],
        hlo=(
            "scatter",
            f"update_window_dims={hlo_list(placed)}, inserted_window_dims={hlo_list(inserted)},"
            f" scatter_dims_to_operand_dims={hlo_list(mapped)}, index_vector_dim={vector},"
            f" to_apply=%0",
        ),
        mlir=(
            "stablehlo.scatter",
            f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {placed},"
            f" inserted_window_dims = {inserted}, scatter_dims_to_operand_dims = {mapped},"
            f" index_vector_dim = {vector}>",
        ),
    )
