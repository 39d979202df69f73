"""`opt`."""

from __future__ import annotations

from tests.cli.conftest import Run

HLO = """HloModule m
ENTRY e {
  a = f32[] constant(2)
  b = f32[] multiply(a, a)
  p = f32[] parameter(0)
  ROOT c = f32[] add(b, p)
}
"""
MLIR = """\
func.func @main() -> tensor<2xi32> {
  %0 = stablehlo.iota dim = 0 : tensor<2xi32>
  %1 = stablehlo.add %0, %0 : tensor<2xi32>
  return %1 : tensor<2xi32>
}
"""


def test_constants_of_hlo_are_folded(run: Run) -> None:
    result = run("opt", "-", "--fold", stdin=HLO)
    assert result.exit_code == 0, result.output
    assert "%b = f32[] constant(4)" in result.stdout
    assert "multiply" not in result.stdout
    assert run("opt", "-", "--fold", "--max-steps", "0", stdin=HLO).stdout.count("multiply") == 1


def test_constants_of_stablehlo_are_folded(run: Run) -> None:
    result = run("opt", "-", "--fold", stdin=MLIR)
    assert result.exit_code == 0, result.output
    assert "stablehlo.constant dense<[0, 2]> : tensor<2xi32>" in result.stdout
    assert "iota" not in result.stdout
    assert "stablehlo.add" in run("opt", "-", "--fold", "--max-elements", "1", stdin=MLIR).stdout
    several = f"{MLIR}// -----\n{MLIR}"
    assert run("opt", "-", "--fold", "--split-input-file", stdin=several).stdout == (
        f"{result.stdout}// -----\n{result.stdout}"
    )


def test_a_pass_has_to_be_named(run: Run) -> None:
    result = run("opt", "-", stdin=HLO)
    assert result.exit_code == 2
    assert "name a pass: --fold" in result.stderr


def test_a_wrong_program_is_refused(run: Run) -> None:
    result = run("opt", "-", "--fold", stdin=HLO.replace("multiply(a, a)", "multiply(a)"))
    assert result.exit_code == 3
    assert "multiply" in result.stderr
