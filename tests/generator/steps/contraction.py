"""Products of matrices."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, step
from tests.generator.value_types import Tensor


@step("contraction", 0.6)
def dot_general(g: Builder) -> None:
    a, type_ = g.any("f32", 1, 3)
    rank = len(type_.sizes)
    roles = [g.pick(["batch", "contract", "free"]) for _ in range(rank)]
    batch = [d for d in range(rank) if roles[d] == "batch"]
    contract = [d for d in range(rank) if roles[d] == "contract"]
    free = [d for d in range(rank) if roles[d] == "free"]
    extra = [g.number(1, 2)] if g.chance(0.6) else []
    sizes = [type_.sizes[d] for d in (*batch, *contract)] + extra
    b = g.of(Tensor("f32", tuple(sizes)))
    kept = [type_.sizes[d] for d in (*batch, *free)] + extra
    made = Tensor("f32", tuple(kept))
    if made.count > 2 * g.options.count:
        return
    right_batch = list(range(len(batch)))
    right = list(range(len(batch), len(batch) + len(contract)))
    g.emit(
        (a, b),
        made,
        hlo=(
            "dot",
            f"lhs_batch_dims={hlo_list(batch)}, lhs_contracting_dims={hlo_list(contract)},"
            f" rhs_batch_dims={hlo_list(right_batch)}, rhs_contracting_dims={hlo_list(right)}",
        ),
        mlir=(
            "stablehlo.dot_general",
            f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {batch},"
            f" rhs_batching_dimensions = {right_batch}, lhs_contracting_dimensions = {contract},"
            f" rhs_contracting_dimensions = {right}>",
        ),
    )
