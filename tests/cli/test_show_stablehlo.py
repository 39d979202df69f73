"""`show` of StableHLO: ops as MLIR prints them, with the names of the source."""

from __future__ import annotations

from typing import Any

PROGRAM = """\
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<f32> {
  %xw = stablehlo.dot %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%xw init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
"""  # noqa: E501


def test_ops_that_hlo_lacks_are_shown(run: Any, ask: Any) -> None:
    text = "%xw = stablehlo.dot %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>"
    assert run("show", "-", "xw", stdin=PROGRAM).stdout.splitlines()[0] == text
    assert ask("show", "-", "xw", "--json", stdin=PROGRAM)["text"] == text


def test_neighbours_arguments_and_functions_are_shown(run: Any) -> None:
    around = run("show", "-", "xw", "--around", "1", stdin=PROGRAM).stdout.splitlines()
    assert around[:3] == ["main:", "  %x: tensor<8x16xf32>", "  %w: tensor<16x4xf32>"]
    assert around[3].startswith("> %xw = stablehlo.dot")
    assert "  %z = stablehlo.constant" in run("show", "-", "main", stdin=PROGRAM).stdout
