"""Custom calls whose meaning is known, with and without shardings and layouts."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.value_types import Tensor


@step("custom_calls", 1.2)
def placed(g: Builder) -> None:
    """What says where a value is to be leaves it as it is."""
    a, type_ = g.any()
    targets = ["Sharding", "Sharding", "MoveToHost", "MoveToDevice", "annotate_device_placement"]
    target = g.pick([*targets, "SPMDFullToShardShape", "SPMDShardToFullShape"])
    hlo, mlir = f'custom_call_target="{target}"', f'call_target_name = "{target}"'
    if target == "Sharding":
        sharding = shardings(g, type_)
        hlo, mlir = f"{hlo}, sharding={sharding}", f'{mlir}, mhlo.sharding = "{sharding}"'
    if g.chance(0.4):
        more = layouts(type_, g.permutation(len(type_.sizes)))
        hlo, mlir = hlo + more[0], mlir + more[1]
    g.emit((a,), type_, hlo=("custom-call", hlo), mlir=("stablehlo.custom_call", mlir))


def shardings(g: Builder, type_: Tensor) -> str:
    """A sharding for one device, or two."""
    ways = ["{replicated}", "{maximal device=0}"]
    if type_.sizes:
        at = g.number(0, len(type_.sizes) - 1)
        counts = ",".join("2" if d == at else "1" for d in range(len(type_.sizes)))
        ways += [f"{{devices=[{counts}]<=[2]}}", f"{{devices=[{counts}]0,1}}"]
    return g.pick(ways)


def layouts(type_: Tensor, order: list[int]) -> tuple[str, str]:
    """The layout of the operand, and in StableHLO of the result, in attributes."""
    listed = ",".join(map(str, order))
    laid = Tensor(type_.element, type_.sizes, layout=tuple(order) or None)
    hlo = f", operand_layout_constraints={{{laid.hlo()}}}"
    dense = (
        f"dense<[{listed}]> : tensor<{len(order)}xindex>" if order else "dense<> : tensor<0xindex>"
    )
    return hlo, f", operand_layouts = [{dense}], result_layouts = [{dense}]"
