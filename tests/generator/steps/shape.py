"""Ops that arrange elements anew."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, mlir_list, step
from tests.generator.value_types import Sizes, Tensor


@step("shape")
def transpose(g: Builder) -> None:
    a, type_ = g.any(lo=2)
    order = g.permutation(len(type_.sizes))
    made = Tensor(type_.element, tuple(type_.sizes[d] for d in order))
    g.emit(
        (a,),
        made,
        hlo=("transpose", f"dimensions={hlo_list(order)}"),
        mlir=("stablehlo.transpose", f"permutation = {mlir_list(order)}"),
    )


@step("shape")
def reshape(g: Builder) -> None:
    a, type_ = g.any()
    g.reshape(a, factorised(g, type_.count))


def factorised(g: Builder, count: int) -> Sizes:
    """Random sizes of so many elements."""
    first = g.pick([n for n in range(1, count + 1) if count % n == 0]) if count else 0
    rest = count // first if first else 1
    return g.pick([(count,), (first, rest), (rest, first), (1, first, rest)])


@step("shape")
def broadcast(g: Builder) -> None:
    a, type_ = g.any(hi=2)
    extra = [g.number(1, g.options.largest) for _ in range(g.number(0 if type_.sizes else 1, 1))]
    rank = len(type_.sizes) + len(extra)
    dims = g.subset(rank, len(type_.sizes))
    placed = dict(zip(dims, type_.sizes, strict=True))
    sizes = tuple(placed[d] if d in placed else extra.pop() for d in range(rank))
    if Tensor(type_.element, sizes).count <= 2 * g.options.count:
        g.broadcast(a, sizes, dims)


@step("shape")
def reverse(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    g.reverse(a, g.subset(len(type_.sizes), g.number(1, len(type_.sizes))))


@step("shape")
def concatenate(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    axis = g.number(0, len(type_.sizes) - 1)
    values = [a]
    for _ in range(g.number(1, 2)):
        size = g.number(1, 2)
        other = Tensor(type_.element, (*type_.sizes[:axis], size, *type_.sizes[axis + 1 :]))
        values.append(g.of(other))
    if g.chance(0.3):
        values.reverse()
    total = sum(v.type.sizes[axis] for v in values if isinstance(v.type, Tensor))
    made = Tensor(type_.element, (*type_.sizes[:axis], total, *type_.sizes[axis + 1 :]))
    if made.count <= 2 * g.options.count:
        g.emit(
            values,
            made,
            hlo=("concatenate", f"dimensions={{{axis}}}"),
            mlir=("stablehlo.concatenate", f"dimension = {axis} : i64"),
        )


@step("shape")
def pad(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    lows = [g.pick([0, 0, 1, -1]) for _ in type_.sizes]
    highs = [g.pick([0, 0, 1]) for _ in type_.sizes]
    inner = [g.pick([0, 0, 0, 1]) for _ in type_.sizes]
    sizes = tuple(
        n + low + high + inside * max(n - 1, 0)
        for n, low, high, inside in zip(type_.sizes, lows, highs, inner, strict=True)
    )
    made = Tensor(type_.element, sizes)
    if min(sizes) < 0 or made.count > 2 * g.options.count:
        return
    text = "x".join(f"{a}_{b}_{c}" for a, b, c in zip(lows, highs, inner, strict=True))
    g.emit(
        (a, g.of(Tensor(type_.element))),
        made,
        hlo=("pad", f"padding={text}"),
        mlir=(
            "stablehlo.pad",
            f"edge_padding_low = {mlir_list(lows)}, edge_padding_high = {mlir_list(highs)},"
            f" interior_padding = {mlir_list(inner)}",
        ),
    )


@step("shape", 0.3)
def iota(g: Builder) -> None:
    sizes = g.sizes(1, 2)
    g.iota(Tensor("s32", sizes), g.number(0, len(sizes) - 1))
