"""Slices, with starts known or computed."""

from __future__ import annotations

from tests.generator.builder import Builder, hlo_list, mlir_list, spelling, step
from tests.generator.value_types import Tensor


@step("slicing")
def slice_(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    strides = [g.pick([1, 1, 2]) for _ in type_.sizes]
    sizes = [
        g.number(1, -(-n // stride)) for n, stride in zip(type_.sizes, strides, strict=True) if n
    ]
    if len(sizes) < len(strides):
        return  # there is nothing to take
    starts = [
        g.number(0, n - 1 - (size - 1) * stride)
        for n, size, stride in zip(type_.sizes, sizes, strides, strict=True)
    ]
    g.slice(a, starts, sizes, strides)


@step("slicing", 2.5)
def dynamic_slice(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    sizes = [g.number(1, n) for n in type_.sizes]
    starts = [g.index() for _ in sizes]
    g.emit(
        (a, *starts),
        Tensor(type_.element, tuple(sizes)),
        **spelling(
            "dynamic-slice",
            f"dynamic_slice_sizes={hlo_list(sizes)}",
            f"slice_sizes = {mlir_list(sizes)}",
            started=g.chance(0.1),
        ),
    )


@step("slicing", 2.5)
def dynamic_update_slice(g: Builder) -> None:
    a, type_ = g.any(lo=1, least=1)
    sizes = tuple(g.number(1, n) for n in type_.sizes)
    update = g.of(Tensor(type_.element, sizes))
    starts = [g.index() for _ in sizes]
    started = g.chance(0.1)
    g.emit((a, update, *starts), type_, **spelling("dynamic-update-slice", "", "", started=started))
