"""`print`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hloscope.hlo_parser import parse_hlo, print_hlo

SOFTMAX = "examples/softmax.hlo"
MODULE = """\
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "stablehlo.abs"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("where")
  func.return %y : tensor<2xf32>
}
"""
PRETTY = """\
module {
  func.func @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.abs %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_stablehlo_is_printed_as_mlir_prints_it(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(MODULE)
    result = run("print", file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, PRETTY, "")
    assert run("print", "-", stdin=MODULE).stdout == PRETTY
    assert run("print", "-", stdin=PRETTY).stdout == PRETTY


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--generic"], '"stablehlo.abs"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>'),
        (["--locations"], "stablehlo.abs %arg0 : tensor<2xf32> loc(#loc3)"),
        (["--names", "source"], "%y = stablehlo.abs %x : tensor<2xf32>"),
    ],
)
def test_options_say_how(run: Any, options: list[str], line: str) -> None:
    assert line in run("print", "-", *options, stdin=MODULE).stdout


def test_programs_in_one_file_stay_apart(run: Any) -> None:
    text = f"{MODULE}// -----\n{MODULE}"
    assert run("print", "-", "--split-input-file", stdin=text).stdout == (
        f"{PRETTY}// -----\n{PRETTY}"
    )
    wrong = run("print", "-", "--split-input-file", stdin=f"{MODULE}// -----\nfunc.func oops")
    assert wrong.exit_code == 3
    assert wrong.stderr.startswith("<stdin>:6:11: error:")


def test_hlo_is_printed_as_xla_prints_it(run: Any) -> None:
    result = run("print", SOFTMAX)
    assert result.exit_code == 0
    assert result.stdout == print_hlo(parse_hlo(Path(SOFTMAX).read_text()))
    assert run("print", "-", stdin=result.stdout).stdout == result.stdout


@pytest.mark.parametrize("option", ["--generic", "--locations", "--split-input-file"])
def test_options_of_stablehlo_are_refused_for_hlo(run: Any, option: str) -> None:
    result = run("print", SOFTMAX, option)
    assert result.exit_code == 2
    assert "is HLO" in result.stderr


def test_errors_point_at_the_place(run: Any) -> None:
    result = run("print", "-", stdin="func.func @f() { return %x : i32 }")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "<stdin>:1:" in result.stderr
    assert "^" in result.stderr
