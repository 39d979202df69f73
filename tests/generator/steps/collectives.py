"""Collectives of small groups, one after another."""

from __future__ import annotations

from tests.generator.builder import Builder, spelling, step
from tests.generator.steps.bodies import scalar_body
from tests.generator.value_types import INDEX, Tensor


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


def channel(g: Builder) -> tuple[str, str]:
    """Now and then, the attributes of a channel, whose groups are of global devices."""
    if g.chance(0.7):
        return "", ""
    g.channels += 1
    handle = f"#stablehlo.channel_handle<handle = {g.channels}, type = 1>"
    return (
        f", channel_id={g.channels}, use_global_device_ids=true",
        f", channel_handle = {handle}, use_global_device_ids",
    )


@step("collectives", 1.0, has_regions=True)
def all_reduce(g: Builder) -> None:
    """Of one operand or two."""
    a, type_ = g.any("f32")
    values = [a, g.of(type_)] if g.chance(0.25) else [a]
    (hlo, mlir), more = spelt(groups(g)), channel(g)
    scalar = Tensor("f32")
    started = len(values) == 1 and g.chance(0.3)
    body = scalar_body(g, [scalar, scalar], 1, is_isolated=started)
    g.emit_all(
        values,
        [type_] * len(values),
        [body],
        **spelling("all-reduce", f"{hlo}{more[0]}, to_apply=%0", mlir + more[1], started=started),
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
    (hlo, mlir), more = spelt(found), channel(g)
    g.emit(
        (a,),
        made,
        **spelling(
            "all-gather",
            f"{hlo}, dimensions={{{axis}}}{more[0]}",
            f"all_gather_dim = {axis} : i64, {mlir}{more[1]}",
            started=g.chance(0.3),
        ),
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
        **spelling(
            "collective-permute",
            f"source_target_pairs={{{hlo}}}",
            f"source_target_pairs = dense<{listed}> : tensor<{len(pairs)}x2xi64>",
            started=g.chance(0.3),
        ),
    )


@step("collectives", 0.6)
def collective_broadcast(g: Builder) -> None:
    a, type_ = g.any()
    hlo, mlir = spelt(groups(g))
    g.emit((a,), type_, **spelling("collective-broadcast", hlo, mlir))


@step("collectives", 0.6, languages=("hlo",))
def all_to_all_of_tuples(g: Builder) -> None:
    """Each process of a group has one operand for each of them."""
    found = groups(g)
    a, type_ = g.any("f32", 0, 2)
    if len(found[0]) < 2:
        return
    values = [a, *(g.of(type_) for _ in found[0][1:])]
    g.emit_all(values, [type_] * len(values), hlo=("all-to-all", spelt(found)[0]))


@step("collectives", 0.6)
def member(g: Builder) -> None:
    """The number of the process, to index with."""
    number = g.emit((), Tensor("u32"), hlo=("replica-id", ""), mlir=("stablehlo.replica_id", ""))
    g.emit((number,), INDEX, hlo=("convert", ""), mlir=("stablehlo.convert", ""))


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
        **spelling(
            "all-to-all",
            f"{hlo}, dimensions={{{axis}}}",
            f"split_dimension = {axis} : i64, concat_dimension = {axis} : i64,"
            f" split_count = {count} : i64, {mlir}",
            started=g.chance(0.3),
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
    scalar, started = Tensor("f32"), g.chance(0.3)
    body = scalar_body(g, [scalar, scalar], 1, is_isolated=started)
    g.emit_all(
        (a,),
        [Tensor("f32", tuple(sizes))],
        [body],
        **spelling(
            "reduce-scatter",
            f"{hlo}, dimensions={{{axis}}}, to_apply=%0",
            f"scatter_dimension = {axis} : i64, {mlir}",
            started=started,
        ),
    )
