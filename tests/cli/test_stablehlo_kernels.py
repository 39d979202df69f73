"""Kernels of StableHLO programs: functions, calls and regions; answered, or told why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hloscope.cli.app import app

PROGRAM = """
func.func private @turned(%x: tensor<64x128xf32>) -> tensor<128x64xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x128xf32>) -> tensor<128x64xf32>
  return %t : tensor<128x64xf32>
}
func.func @main(%a: tensor<64x128xf32>, %n: tensor<i32>) -> (tensor<128x64xf32>, tensor<128xf32>) {
  %0 = call @turned(%a) : (tensor<64x128xf32>) -> tensor<128x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<128x64xf32>, tensor<f32>) -> tensor<128xf32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %loop:2 = stablehlo.while(%k = %i, %v = %0) : tensor<i32>, tensor<128x64xf32>
    cond {
      %less = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %k, %one : tensor<i32>
      %minus = stablehlo.negate %v : tensor<128x64xf32>
      stablehlo.return %next, %minus : tensor<i32>, tensor<128x64xf32>
    }
  return %loop#1, %sum : tensor<128x64xf32>, tensor<128xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return str(path)


def ask(*words: str) -> Result:
    done = CliRunner().invoke(app, [*words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def test_kernels_of_functions_and_bodies_are_told_and_no_terminator_is_one(file: str) -> None:
    found = json.loads(ask("coalesce", file, "--as-if", "h100", "--json").output)
    assert {kernel["name"] for kernel in found["kernels"]} == {"t", "sum", "less", "next", "minus"}
    assert not found["refused"]
    bytes_ = {k["name"]: k for k in json.loads(ask("footprint", file, "--json").output)["kernels"]}
    assert set(bytes_) == {"t", "sum", "less", "next", "minus"}
    assert (bytes_["t"]["read_bytes"], bytes_["t"]["written_bytes"]) == (64 * 128 * 4,) * 2


def test_a_loop_whose_trips_are_not_known_is_counted_once_and_says_so(file: str) -> None:
    told = json.loads(ask("footprint", file, "--json").output)
    assert any("how often it runs is not known" in note for note in told["assumed"])
    assert "1?" in ask("footprint", file).output


@pytest.mark.parametrize("command", ["coalesce", "footprint", "tile"])
@pytest.mark.parametrize("name", ["t", "sum", "minus"])
def test_each_kernel_is_answered_by_name(file: str, command: str, name: str) -> None:
    assert ask(command, file, name).exit_code == 0


@pytest.mark.parametrize("name", ["0", "loop#1", "loop"])
def test_calls_and_loops_are_no_kernels_and_say_what_is_asked_instead(file: str, name: str) -> None:
    done = ask("coalesce", file, name)
    assert done.exit_code in (2, 4)
    assert "is not a kernel" in done.output or "no instruction" in done.output


def test_tiles_of_a_kernel_in_both_systems(file: str) -> None:
    tiles = json.loads(ask("tile", file, "sum", "--sizes", "32", "--json").output)
    assert tiles["schema"] == "hloscope.tile/1"
    space = json.loads(ask("tile", file, "sum", "--sizes", "32,16", "--space", "--json").output)
    assert space["schema"] == "hloscope.tile_space/1"
