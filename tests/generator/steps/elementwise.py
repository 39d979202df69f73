"""Element-wise ops; of those that hide what they depend on, `masks` tells."""

from __future__ import annotations

from typing import Final

from tests.generator.builder import Builder, step
from tests.generator.value_types import PRED, Tensor

BINARY: Final = {
    "f32": ("add", "multiply"),
    "s32": ("add",),
    "pred": ("xor",),
}
MASKING: Final = {
    "f32": ("maximum", "minimum", "subtract"),
    "s32": ("maximum", "minimum", "subtract", "and", "or", "xor", "remainder"),
    "pred": ("and", "or", "xor"),
}


@step("elementwise", 3, in_scalars=True)
def binary(g: Builder) -> None:
    a, type_ = g.any()
    g.binary(g.pick(BINARY[type_.element]), a, g.of(type_))


@step("elementwise", 1, in_scalars=True, masks=True)
def masking(g: Builder) -> None:
    a, type_ = g.any()
    g.binary(g.pick(MASKING[type_.element]), a, g.of(type_), masks=True)


@step("elementwise", 1, in_scalars=True)
def unary(g: Builder) -> None:
    a, type_ = g.any("f32")
    name = g.pick(["sine", "cosine"])
    g.emit((a,), type_, hlo=(name, ""), mlir=(f"stablehlo.{name}", ""))


@step("elementwise", 1, in_scalars=True, masks=True)
def masking_unary(g: Builder) -> None:
    a, type_ = g.any()
    names = {"f32": ["negate", "abs", "floor", "sign"], "s32": ["negate", "abs", "not"]}
    name = g.pick(names.get(type_.element, ["not"]))
    g.emit((a,), type_, hlo=(name, ""), mlir=(f"stablehlo.{name}", ""), masks=True)


@step("elementwise", 0.7, in_scalars=True, masks=True)
def compare(g: Builder) -> None:
    a, type_ = g.any()
    g.compare(g.pick(["LT", "GE", "EQ", "NE"]), a, g.of(type_))


@step("elementwise", 0.7, in_scalars=True, masks=True)
def select(g: Builder) -> None:
    a, type_ = g.any()
    pred = g.of(Tensor("pred", type_.sizes) if g.chance(0.5) else PRED)
    g.select(pred, a, g.of(type_))


@step("elementwise", 0.4, in_scalars=True, masks=True)
def clamp(g: Builder) -> None:
    a, type_ = g.any("f32" if g.chance(0.5) else "s32")
    bounds = Tensor(type_.element, type_.sizes if g.chance(0.5) else ())
    low, high = g.of(bounds), g.of(bounds)
    g.emit((low, a, high), type_, hlo=("clamp", ""), mlir=("stablehlo.clamp", ""), masks=True)


@step("elementwise", 0.6, in_scalars=True, masks=True)
def convert(g: Builder) -> None:
    a, type_ = g.any()
    target = g.pick([e for e in ("f32", "s32", "pred") if e != type_.element])
    made = Tensor(target, type_.sizes)
    g.emit((a,), made, hlo=("convert", ""), mlir=("stablehlo.convert", ""), masks=True)
