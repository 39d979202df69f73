"""Custom calls whose meaning is known."""

from __future__ import annotations

from tests.generator.builder import Builder, step


@step("custom_calls", 0.5)
def placed(g: Builder) -> None:
    """What says where a value is to be leaves it as it is."""
    a, type_ = g.any()
    target = g.pick(["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost"])
    sharding = ", sharding={replicated}" if target == "Sharding" else ""
    mlir_sharding = ', mhlo.sharding = "{replicated}"' if target == "Sharding" else ""
    g.emit(
        (a,),
        type_,
        hlo=("custom-call", f'custom_call_target="{target}"{sharding}'),
        mlir=("stablehlo.custom_call", f'call_target_name = "{target}"{mlir_sharding}'),
    )
