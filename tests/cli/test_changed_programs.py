"""What programs showed that changes of right ones made: each is answered, or told why it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hloscope.cli.app import app

TENSORS_ACCUMULATED = """
func.func @reduce(%a: tensor<4x4xui64>, %b: tensor<4xui64>) -> tensor<4xui64> {
  %0 = "stablehlo.reduce"(%a, %b) ({
  ^bb0(%x: tensor<4xui64>, %y: tensor<4xui64>):
    %1 = "stablehlo.add"(%x, %y) : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xui64>
    "stablehlo.return"(%1) : (tensor<4xui64>) -> ()
  }) {dimensions = array<i64: 0>} : (tensor<4x4xui64>, tensor<4xui64>) -> tensor<4xui64>
  return %0 : tensor<4xui64>
}
"""
NO_ELEMENTS = """HloModule m
body {
  p = pred[0] parameter(0)
  c = s32[] parameter(1)
  ROOT t = (pred[0], s32[]) tuple(p, c)
}
ENTRY e {
  p = pred[0,0] parameter(0)
  c = s32[] constant(2)
  s = (pred[0,0], s32[]) scan(p, c), dimensions={0}, is_reverse=false, num_carries=1, to_apply=body
  x = pred[0,0] get-tuple-element(s), index=0
  y = s32[] get-tuple-element(s), index=1
  ROOT t = (s32[], pred[0,0]) tuple(y, x)
}
"""
SIZE_AND_MORE = """
func.func @main(%a: tensor<2xi32>, %n: tensor<i32>, %b: tensor<1x3xf32>)
    -> (tensor<?xi32, #stablehlo.bounds<2>>, tensor<1x3xf32>) {
  %s = "stablehlo.set_dimension_size"(%a, %n) <{dimension = 0 : i64}>
    : (tensor<2xi32>, tensor<i32>) -> tensor<?xi32, #stablehlo.bounds<2>>
  %c = stablehlo.negate %b : tensor<1x3xf32>
  return %s, %c : tensor<?xi32, #stablehlo.bounds<2>>, tensor<1x3xf32>
}
"""
QUANTIZED = """
func.func @main(%a: tensor<?x!quant.uniform<i8:f32, 1.0:3>>)
    -> tensor<?x!quant.uniform<i8:f32, 1.0:3>> {
  return %a : tensor<?x!quant.uniform<i8:f32, 1.0:3>>
}
"""
PLAIN = """
func.func @main(%a: i32) -> index {
  %0 = arith.index_cast %a : i32 to index
  return %0 : index
}
"""


@pytest.mark.parametrize(
    ("question", "text", "code", "said"),
    [
        ("index - 0 --physical --verify --seconds 300", TENSORS_ACCUMULATED, 0, "(s0)"),
        ("index - --linear", NO_ELEMENTS, 0, "not read"),
        ("index - --verify --by-execution --seconds 300", SIZE_AND_MORE, 0, "executed"),
        (
            "index - --to-parameters --verify --by-execution --seconds 300",
            SIZE_AND_MORE,
            0,
            "seen 3 of 3",
        ),
        ("run - --random 1 --dense", QUANTIZED, 0, "tensor<1xi8>"),
        ("run - --random 1", PLAIN, 4, "arguments of type i32 cannot be given"),
    ],
)
def test_it_is_answered(question: str, text: str, code: int, said: str) -> None:
    done = CliRunner().invoke(app, question.split(), input=text)
    assert done.exit_code == code, done.output
    assert said in done.output


def test_text_is_no_argument(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array(["x"]))
    words = ["run", "-", "--input", str(tmp_path / "a.npy")]
    done = CliRunner().invoke(app, words, input="ENTRY e { ROOT p = f32[1] parameter(0) }")
    assert done.exit_code == 2
    assert "an array of text" in done.output


def test_pictures_of_many_slices_take_no_memory() -> None:
    size = 1 << 40
    text = (
        f"ENTRY e {{ p = pred[{size},2,2] parameter(0) z = pred[] constant(false)"
        " ROOT r = pred[2] reduce(p, z), dimensions={0,1}, to_apply=o }"
    )
    body = "o { a = pred[] parameter(0) b = pred[] parameter(1) ROOT c = pred[] or(a, b) }\n"
    done = CliRunner().invoke(app, ["index", "-", "--format", "svg"], input=body + text)
    assert done.exit_code == 0, done.output
