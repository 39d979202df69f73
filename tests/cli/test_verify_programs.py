"""`verify`: what it reports of HLO and StableHLO, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FINE = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n"
WRONG = '%0 = stablehlo.iota dim = 1 : tensor<2xf32>\n%1 = "stablehlo.negate"() : () -> i32\n'
EXPECTED = (
    "// expected-error@+1 {{iota dimension cannot go beyond the output rank.}}\n"
    "%0 = stablehlo.iota dim = 1 : tensor<2xf32>\n"
)
HLO = "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }"


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str, name: str = "m.mlir") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_right_program_is_fine(run: Any, file: Any) -> None:
    path = file(FINE)
    result = run("verify", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}: fine\n", "")


def test_every_error_is_reported_with_its_place(run: Any) -> None:
    result = run("verify", "-", stdin=WRONG)
    assert result.exit_code == 3
    assert result.stdout == "<stdin>: 2 errors\n"
    assert "<stdin>:1:6: error: iota dimension cannot go beyond the output rank." in result.stderr
    assert "<stdin>:2:6: error: 'stablehlo.negate' op requires a single operand" in result.stderr


def test_hlo_is_verified_too(run: Any) -> None:
    result = run("verify", "-", stdin=HLO)
    assert result.exit_code == 3
    assert "`abs` is declared f32[3], but its operands make it f32[2]" in result.stderr


def test_json_tells_of_every_file(run: Any, file: Any) -> None:
    fine, wrong = file(FINE, "a.mlir"), file(WRONG, "b.mlir")
    result = run("verify", fine, wrong, "--json")
    assert result.exit_code == 3
    answer = json.loads(result.stdout)
    assert (answer["schema"], answer["ok"]) == ("hloscope.verify/1", False)
    assert [report["ok"] for report in answer["files"]] == [True, False]
    first = answer["files"][1]["diagnostics"][0]
    assert (first["severity"], first["line"], first["column"]) == ("error", 1, 6)


def test_files_after_one_that_cannot_be_read_are_verified_too(run: Any, file: Any) -> None:
    empty, fine, wrong = file("", "a.mlir"), file(FINE, "b.mlir"), file(WRONG, "c.mlir")
    missing = empty.with_name("d.mlir")
    result = run("verify", empty, fine, missing, wrong)
    assert result.exit_code == 3
    told = [line.removeprefix(f"{empty.parent}/") for line in result.stdout.splitlines()]
    assert told == ["a.mlir: 1 error", "b.mlir: fine", "d.mlir: 1 error", "c.mlir: 2 errors"]
    assert f"error: {empty} is empty" in result.stderr
    assert f"error: no file `{missing}`" in result.stderr
    assert "iota dimension cannot go beyond" in result.stderr
    answer = json.loads(run("verify", empty, fine, "--json").stdout)
    assert [report["ok"] for report in answer["files"]] == [False, True]
    assert "is empty" in answer["files"][0]["diagnostics"][0]["message"]


def test_expected_errors_do_not_excuse_a_file_that_cannot_be_read(run: Any, file: Any) -> None:
    other = file(EXPECTED, "a.mlir")
    result = run("verify", "--verify-diagnostics", other, file("", "b.mlir"))
    assert result.exit_code == 3


def test_a_text_that_cannot_be_read_is_reported_alike(run: Any) -> None:
    result = run("verify", "-", stdin="%0 = stablehlo.iota dim = : tensor<2xf32>")
    assert result.exit_code == 3
    assert "<stdin>:1:27: error" in result.stderr


def test_several_programs_in_a_file_are_told_apart(run: Any) -> None:
    result = run("verify", "-", "--split-input-file", stdin=f"{FINE}// -----\n{FINE}")
    assert result.exit_code == 0
    result = run("verify", "-", "--split-input-file", stdin=f"{FINE}// -----\n{WRONG}")
    assert "<stdin>:5:6: error: iota" in result.stderr


def test_expected_errors_have_to_be_found_and_no_others(run: Any) -> None:
    assert run("verify", "-", "--verify-diagnostics", stdin=EXPECTED).exit_code == 0
    result = run("verify", "-", "--verify-diagnostics", stdin=WRONG)
    assert result.exit_code == 1
    assert "<stdin>:1:6: error: unexpected error: iota dimension" in result.stderr
    result = run("verify", "-", "--verify-diagnostics", stdin=EXPECTED.replace("iota d", "xota d"))
    assert result.exit_code == 1
    assert "was not found" in result.stderr


def test_unknown_dialects_have_to_be_allowed(run: Any, file: Any) -> None:
    path = file('"x.y"() : () -> ()')
    assert run("verify", path).exit_code == 3
    assert run("verify", path, "--allow-unregistered").exit_code == 0
