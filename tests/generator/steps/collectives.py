"""Collectives of small groups, one after another."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.steps.bodies import scalar_body
from tests.generator.value_types import Tensor


def groups(g: Builder) -> list[list[int]]:
    """All processes, in one group or several of one size."""
    order = g.permutation(g.options.replicas)
    sizes = [n for n in range(1, len(order) + 1) if len(order) % n == 0]
    size = g.pick(sizes[-2:])
    return [order[k : k + size] for k in range(0, len(order), size)]


def spelt(found: list[list[int]]) -> tuple[str, str]:
    """The groups in HLO, and in StableHLO."""
    hlo = ",".join(f"{{{','.join(map(str, group))}}}" for group in found)
    return (
        f"replica_groups={{{hlo}}}",
        f"replica_groups = dense<{found}> : tensor<{len(found)}x{len(found[0])}xi64>",
    )


@step("collectives", 1.0, has_regions=True)
def all_reduce(g: Builder) -> None:
    a, type_ = g.any("f32")
    hlo, mlir = spelt(groups(g))
    scalar = Tensor("f32")
    body = scalar_body(g, [scalar, scalar], 1)
    g.emit_all(
        (a,),
        [type_],
        [body],
        hlo=("all-reduce", f"{hlo}, to_apply=%0"),
        mlir=("stablehlo.all_reduce", mlir),
    )


@step("collectives", 1.0)
def all_gather(g: Builder) -> None:
    a, type_ = g.any("f32", 1, 2, least=1)
    found = groups(g)
    axis = g.number(0, len(type_.sizes) - 1)
    sizes = list(type_.sizes)
    sizes[axis] *= len(found[0])
    made = Tensor("f32", tuple(sizes))
    if made.count > 2 * g.options.count:
        return
    hlo, mlir = spelt(found)
    g.emit(
        (a,),
        made,
        hlo=("all-gather", f"{hlo}, dimensions={{{axis}}}"),
        mlir=("stablehlo.all_gather", f"all_gather_dim = {axis} : i64, {mlir}"),
    )


@step("collectives", 1.0)
def permute(g: Builder) -> None:
    a, type_ = g.any("f32")
    count = g.options.replicas
    targets = g.permutation(count)
    pairs = [(s, t) for s, t in enumerate(targets) if g.chance(0.8)]
    if not pairs:
        return
    hlo = ",".join(f"{{{s},{t}}}" for s, t in pairs)
    listed = [list(pair) for pair in pairs]
    g.emit(
        (a,),
        type_,
        hlo=("collective-permute", f"source_target_pairs={{{hlo}}}"),
        mlir=(
            "stablehlo.collective_permute",
            f"source_target_pairs = dense<{listed}> : tensor<{len(pairs)}x2xi64>",
        ),
    )


@step("collectives", 1.0)
def all_to_all(g: Builder) -> None:
    found = groups(g)
    count = len(found[0])
    a, type_ = g.any("f32", 1, 2)
    split = [d for d, n in enumerate(type_.sizes) if n % count == 0]
    if not split:
        return
    axis = g.pick(split)
    hlo, mlir = spelt(found)
    g.emit(
        (a,),
        type_,
        hlo=("all-to-all", f"{hlo}, dimensions={{{axis}}}"),
        mlir=(
            "stablehlo.all_to_all",
            f"split_dimension = {axis} : i64, concat_dimension = {axis} : i64,"
            f" split_count = {count} : i64, {mlir}",
        ),
    )


@step("collectives", 1.0, has_regions=True)
def reduce_scatter(g: Builder) -> None:
    found = groups(g)
    count = len(found[0])
    a, type_ = g.any("f32", 1, 2)
    axes = [d for d, n in enumerate(type_.sizes) if n and n % count == 0]
    if not axes:
        return
    axis = g.pick(axes)
    sizes = list(type_.sizes)
    sizes[axis] //= count
    hlo, mlir = spelt(found)
    scalar = Tensor("f32")
    body = scalar_body(g, [scalar, scalar], 1)
    g.emit_all(
        (a,),
        [Tensor("f32", tuple(sizes))],
        [body],
        hlo=("reduce-scatter", f"{hlo}, dimensions={{{axis}}}, to_apply=%0"),
        mlir=("stablehlo.reduce_scatter", f"scatter_dimension = {axis} : i64, {mlir}"),
    )
