"""Every command takes StableHLO: functions, ops and their regions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hloscope as hs
from hloscope.hlo_parser.devices import groups_text
from tests.cli.conftest import Run

PROGRAM = """
func.func @main(%x: tensor<4x8xf32>, %n: tensor<i32>) -> tensor<8x4xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = call @flip(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1:2 = stablehlo.while(%i = %c, %v = %0) : tensor<i32>, tensor<8x4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %s = stablehlo.add %v, %0 : tensor<8x4xf32>
      stablehlo.return %i, %s : tensor<i32>, tensor<8x4xf32>
    }
  return %1#1 : tensor<8x4xf32>
}
func.func private @flip(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""
Ask = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(PROGRAM)
    return path


def test_functions_and_regions_are_listed(ask: Ask, model: Path) -> None:
    listed = ask("ls", model, "--all", "--json")
    names = {row["computation"] for row in listed["instructions"]}
    assert names == {"main", "main.1.cond", "main.1.do", "flip"}


def test_an_op_of_a_region_is_shown(run: Run, model: Path) -> None:
    shown = run("show", model, "main.1.do/s").stdout
    assert "%s = stablehlo.add %v, " in shown


def test_an_op_a_function_and_a_region_are_asked(ask: Ask, model: Path) -> None:
    called = ask("index", model, "main/0", "--json")
    (operand,) = called["operands"]
    assert called["maps"][operand["maps"][0]]["map"].startswith("(d0, d1) -> (d1, d0)")
    inside = ask("index", model, "main.1.do/s", "--json")
    assert [o["name"] for o in inside["operands"]] == ["v", "0"]
    loop = ask("index", model, "main/1", "--output", "1", "--json")
    (output,) = loop["outputs"]
    assert len(output["operands"]) + output["unread"] == len(["c", "0", "n", "0"])
    whole = ask("index", model, "--to-parameters", "--json")
    assert [bool(o["maps"]) for o in whole["operands"]] == [True, True]


def test_a_program_is_text_in_its_own_language(model: Path) -> None:
    text = hs.read(model).text()
    assert "stablehlo.transpose %arg0, dims = [1, 0]" in text
    assert hs.read(text).text() == text


def test_a_wrong_program_says_what_is_wrong(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<4xf32> {\n"
        '  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>, padding = '
        "dense<1> : tensor<1xi64>}> ({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %c : tensor<f32>\n"
        "  }) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )
    result = run("index", path, "0")
    assert result.exit_code == 3
    assert f"{path}:2:8: error:" in result.stderr
    assert "internal error" not in result.stderr


GROUPS = {
    "dense<[[0, 1]]> : tensor<1x2xi64>": "{{0,1}}",
    "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "
    '"x">]>': "@m {'x'}",
    "#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "
    '"x", size = 2>]>, axes = [#stablehlo.axis_ref<name = "x">]>': "mesh['x'=2] {'x'}",
}


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("groups", GROUPS)
def test_every_command_takes_groups_in_every_notation(
    run: Run, tmp_path: Path, groups: str
) -> None:
    path = tmp_path / "groups.mlir"
    path.write_text(
        'module { sdy.mesh @m = <["x"=2]>\nfunc.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n'
        f'  %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = {groups}}}> ({{\n'
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %1 = stablehlo.add %a, %b : tensor<f32>\n"
        "    stablehlo.return %1 : tensor<f32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}}\n"
    )
    op: Any = hs.read(path)["0"].ir.op
    assert groups_text(op.replica_groups) == GROUPS[groups]
    assert run("ls", path, "--all").exit_code == 0
    for more in (["--all", "--to-parameters"], ["--all", "--verify", "--by-execution"]):
        assert run("index", path, *more).exit_code == 0
    for command in ("show", "infer", "print", "verify"):
        name = ["0"] if command == "show" else []
        assert run(command, path, *name).exit_code == 0
    ran = run("run", path, "--random", "1", "--replicas", "2")
    assert ran.exit_code == 0, ran.output
