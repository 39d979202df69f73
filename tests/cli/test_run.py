"""`hloscope run`: arguments, results, comparisons, limits, and how each ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.cli import streams
from tests.cli.conftest import Run
from tests.filecheck import check, directives

MLIR = """func.func @main(%x: tensor<2xf32>, %n: tensor<i32>) -> (tensor<2xf32>, tensor<i32>) {
  %0 = stablehlo.multiply %x, %x : tensor<2xf32>
  return %0, %n : tensor<2xf32>, tensor<i32>
}
"""
HLO = """HloModule m
ENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
"""
TWO = "[dense<[1.0, 2.0]> : tensor<2xf32>, dense<7> : tensor<i32>]"
FOREVER = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%i = %x) : tensor<i32> cond { stablehlo.return %t : tensor<i1> } do {
    %j = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %j : tensor<i32> }
  return %r : tensor<i32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "program.mlir") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


Program = Callable[..., Path]


def test_results_are_printed(run: Run) -> None:
    result = run("run", "-", "--args", TWO, stdin=MLIR)
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "tensor<2xf32> {\n  [1.000000e+00, 4.000000e+00]\n}\ntensor<i32> {7}\n"
    )
    result = run("run", "-", "--args", TWO, "--dense", stdin=MLIR)
    assert result.stdout == (
        "dense<[1.000000e+00, 4.000000e+00]> : tensor<2xf32>\ndense<7> : tensor<i32>\n"
    )
    result = run("run", "-", "--args", "[dense<[1.0, -2.0]> : tensor<2xf32>]", stdin=HLO)
    assert result.stdout == "tensor<2xf32> {\n  [-1.000000e+00, 2.000000e+00]\n}\n"


def test_large_results_are_summed_up(run: Run) -> None:
    text = HLO.replace("f32[2]", "f32[2000]")
    result = run("run", "-", "--args", "[dense<2.0> : tensor<2000xf32>]", stdin=text)
    assert result.stdout == "tensor<2000xf32>: all -2\n"


def test_json(ask: Callable[..., Any]) -> None:
    found = ask("run", "-", "--args", TWO, "--json", stdin=MLIR)
    assert (found["schema"], found["ok"], found["file"]) == ("hloscope.run/1", True, "<stdin>")
    (one,) = found["programs"]
    assert (one["entry"], one["steps"]) == ("main", 1)
    assert [r["type"] for r in one["results"]] == ["tensor<2xf32>", "tensor<i32>"]
    assert [r["values"] for r in one["results"]] == [[1.0, 4.0], [7]]
    assert one["results"][0]["statistics"]["mean"] == 2.5
    nan = HLO.replace("negate", "log")
    args = "[dense<[-1.0, 0.0]> : tensor<2xf32>]"
    found = ask("run", "-", "--args", args, "--json", stdin=nan)
    assert found["programs"][0]["results"][0]["values"] == ["nan", "-inf"]


def test_files_of_arrays(run: Run, tmp_path: Path, program: Program) -> None:
    file, given = program(MLIR), tmp_path / "in.npz"
    np.savez(given, x=np.array([1, 2], "float32"), n=np.int32(7))
    out = tmp_path / "out.npz"
    result = run("run", file, "--input", given, "--output", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == "tensor<2xf32>: 1 … 4, mean 2.5\ntensor<i32>: all 7\n"
    with np.load(out) as stored:
        assert [stored[name].tolist() for name in stored.files] == [[1, 4], 7]
    assert run("run", file, "--input", given, "--expect", out).exit_code == 0
    one, two = tmp_path / "x.npy", tmp_path / "n.npy"
    np.save(one, np.array([1, 2.5], "float32"))
    np.save(two, np.int32(7))
    result = run("run", file, "--input", one, "--input", two, "--expect", out)
    assert result.exit_code == 1
    assert result.stderr.startswith("result 0: 1 of 2 elements differ; the worst at [1]: found 6.")
    options = ["--input", one, "--input", two, "--expect", out, "--tolerance", "0.6"]
    assert run("run", file, *options).exit_code == 0
    assert run("run", file, "--input", given, "--expect", out, "--ulps", "0").exit_code == 0


def test_results_of_another_number_or_type(run: Run, tmp_path: Path, program: Program) -> None:
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, np.array([1, 4], "float32"))
    result = run("run", program(MLIR), "--args", TWO, "--expect", wrong)
    assert (result.exit_code, result.stderr) == (1, f"2 results, {wrong} has 1\n")
    np.savez(wrong, np.array([1, 4, 5], "float32"), np.int32(7))
    result = run("run", program(MLIR), "--args", TWO, "--expect", wrong)
    assert result.exit_code == 1
    assert result.stderr == "result 0: expected float32[3], found float32[2]\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the program takes 2 arguments (tensor<2xf32>, tensor<i32>), found 0: give them by"),
        (["--args", "[dense<1.0> : tensor<2xf32>]"], "found 1"),
        (["--args", "not_array"], "expected array attribute string for args, i.e. --args=[dense<"),
        (["--args", "[4.0 : f32]"], "expected dense elements attribute for args elements, i.e. "),
        (["--args", TWO.replace("2xf32", "2xf64")], "argument 0 should be f32[2]: its elements"),
        (["--args", TWO.replace("[1.0, 2.0]> : tensor<2", "1.0> : tensor<3")], "(3,), not (2,)"),
        (["--args", TWO, "--random", "1"], "give arguments by one of --args, --input and"),
        (["--args", TWO, "--compare", "x", "--replicas", "2"], "--compare runs one process"),
    ],
)
def test_wrong_arguments(run: Run, options: list[str], message: str) -> None:
    result = run("run", "-", *options, stdin=MLIR)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not result.stdout


def test_wrong_files_of_arrays(run: Run, tmp_path: Path, program: Program) -> None:
    file = program(MLIR)
    result = run("run", file, "--input", tmp_path / "absent.npz")
    assert result.exit_code == 3
    assert "cannot read" in result.stderr
    given = tmp_path / "in.npz"
    np.savez(given, np.array([1, 2], "float32"))
    result = run("run", file, "--input", given)
    assert result.exit_code == 2
    assert "found 1 arrays, needed are 2" in result.stderr
    np.savez(given, np.array([1, 2], "float64"), np.int32(1))
    result = run("run", file, "--input", given)
    assert result.exit_code == 2
    assert "argument 0 should be tensor<2xf32>: its elements are float64" in result.stderr


def test_random_arguments_are_the_same_each_time(run: Run) -> None:
    first, again, other = (run("run", "-", "--random", s, stdin=MLIR) for s in ("1", "1", "2"))
    assert first.exit_code == 0, first.output
    assert first.stdout == again.stdout != other.stdout
    empty = run("run", "-", "--random", "1", stdin=HLO.replace("f32[2]", "f32[0,3]"))
    assert empty.stdout == "tensor<0x3xf32> {\n  []\n}\n"


def test_limits(run: Run) -> None:
    args = ["--args", "[dense<1> : tensor<i32>]"]
    result = run("run", "-", *args, "--max-steps", "1000", stdin=FOREVER)
    assert result.exit_code == 1
    assert "error: stopped after 1,000 steps; --max-steps allows more\n" in result.stderr
    huge = """func.func @main() -> tensor<25000000000xf32> {
      %0 = stablehlo.iota dim = 0 : tensor<25000000000xf32>
      return %0 : tensor<25000000000xf32>
    }"""
    result = run("run", "-", stdin=huge)
    assert result.exit_code == 1
    assert "at most 1,073,741,824 are allowed; --max-bytes allows more\n" in result.stderr
    assert "needs 100,000,000,000 bytes" in result.stderr
    given = HLO.replace("f32[2]", "f32[25000000000]")
    result = run("run", "-", "--random", "1", "--max-bytes", "1000", stdin=given)
    assert result.exit_code == 2
    assert "argument 0 needs 100,000,000,000 bytes" in result.stderr


def test_an_assertion_that_fails(run: Run) -> None:
    text = MLIR.replace("  return", "  check.expect_eq_const %n, dense<8> : tensor<i32>\n  return")
    result = run("run", "-", "--args", TWO, stdin=text)
    assert result.exit_code == 1
    assert "<stdin>:3:3: error: check.expect_eq_const: found 7, expected 8" in result.stderr


def test_programs_that_are_wrong(run: Run) -> None:
    wrong = MLIR.replace(
        "multiply %x, %x : tensor<2xf32>",
        "transpose %x, dims = [1] : (tensor<2xf32>) -> tensor<2xf32>",
    )
    result = run("run", "-", "--args", TWO, stdin=wrong)
    assert result.exit_code == 3
    assert "[transpose_c2]" in result.stderr
    assert run("run", "-", stdin="func.func @main( {").exit_code == 3


def test_what_is_not_evaluated(run: Run) -> None:
    text = """func.func @main() -> tensor<f32> {
      %0 = stablehlo.custom_call @nobody_knows() : () -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    result = run("run", "-", stdin=text)
    assert result.exit_code == 4
    assert "custom call `nobody_knows` has no evaluation" in result.stderr


def test_entries(run: Run) -> None:
    text = """func.func @one() -> tensor<i32> {
      %0 = stablehlo.constant dense<1> : tensor<i32>
      return %0 : tensor<i32>
    }"""
    both = text + text.replace("@one", "@two").replace("<1>", "<2>")
    assert run("run", "-", stdin=text).stdout == "tensor<i32> {1}\n"
    assert run("run", "-", "--entry", "@two", stdin=both).stdout == "tensor<i32> {2}\n"
    result = run("run", "-", stdin=both)
    assert result.exit_code == 2
    assert "no function `main`: name one of one, two with --entry" in result.stderr
    result = run("run", "-", "--entry", "tow", stdin=both)
    assert result.exit_code == 2
    assert "did you mean `two`" in result.stderr


def test_several_programs(run: Run, ask: Callable[..., Any]) -> None:
    one = "func.func @f() -> tensor<i32> {\n  %0 = stablehlo.constant dense<1> : tensor<i32>\n"
    one += "  return %0 : tensor<i32>\n}\n"
    text = f"// only a comment\n// -----\n{one}// -----\n{one.replace('<1>', '<2>')}"
    result = run("run", "-", "--split-input-file", stdin=text)
    assert result.stdout == "tensor<i32> {1}\ntensor<i32> {2}\n"
    found = ask("run", "-", "--split-input-file", "--json", stdin=text)
    assert [p["results"][0]["values"] for p in found["programs"]] == [[1], [2]]


def test_a_grid(run: Run, tmp_path: Path) -> None:
    text = """HloModule m
    add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
    ENTRY e { p = s32[] parameter(0) ROOT r = s32[] all-reduce(p), to_apply=add }"""
    paths: list[str | Path] = []
    for i in range(2):
        np.savez(tmp_path / f"{i}.npz", np.int32(i + 1))
        paths += ["--input", tmp_path / f"{i}.npz"]
    result = run("run", "-", *paths, "--replicas", "2", stdin=text)
    assert result.exit_code == 0, result.output
    assert result.stdout == ("process (0, 0): tensor<i32> {3}\nprocess (1, 0): tensor<i32> {3}\n")
    one = ["--args", "[dense<5> : tensor<i32>]"]
    result = run("run", "-", *one, "--replicas", "2", "--partitions", "2", stdin=text)
    assert result.stdout.count("tensor<i32> {10}") == 4


def test_printing_and_probing(run: Run, tmp_path: Path, ask: Callable[..., Any]) -> None:
    text = """func.func @main() {
      %0 = stablehlo.iota dim = 0 : tensor<2xi32>
      interpreter.print %0 : tensor<2xi32>
      %1 = interpreter.probe %0, probe_id = "p" : tensor<2xi32>
      return
    }"""
    folder = tmp_path / "new" / "probes"
    result = run("run", "-", "--probe", folder, stdin=text)
    assert result.stdout == "%0 = tensor<2xi32> {\n  [0, 1]\n}\n"
    assert (folder / "index.csv").read_text() == f"p,tensor<2xi32>,{folder}/probe1.npy\n"
    found = ask("run", "-", "--probe", folder, "--json", stdin=text)
    assert found["programs"][0]["printed"] == ["%0 = tensor<2xi32> {\n  [0, 1]\n}"]
    result = run("run", "-", stdin=text)
    assert result.exit_code == 1
    assert "name one with `--probe`" in result.stderr


def test_compare(run: Run, program: Program, tmp_path: Path, ask: Callable[..., Any]) -> None:
    right, wrong = program(MLIR), program(MLIR.replace("multiply", "add"), "wrong.mlir")
    result = run("run", right, "--args", TWO, "--compare", right)
    said = "no difference in 3 values of 1 of 1 instructions\n"
    assert (result.exit_code, result.stdout) == (0, said)
    result = run("run", wrong, "--args", TWO, "--compare", right)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{wrong}:2:8: `0` = add (multiply there): 1 of 2 elements differ; the worst at [0]: found"
        " 2.0, expected 1.0 (off by 1 of max(1, |expected|), tolerance 0.0001)\n"
        "  %0 = stablehlo.add %x, %x : tensor<2xf32>\n"
        "       ^^^^^^^^^^^^^\n"
        "operand `x` tensor<2xf32>: 1 … 2, mean 1.5\n"
        "operand `x` tensor<2xf32>: 1 … 2, mean 1.5\n"
        "no difference in 0 values before\n"
        "compared: 1 of 1 instructions\n"
    )
    result = run("run", wrong, "--args", TWO, "--compare", right, "--json")
    first = json.loads(result.stdout)["programs"][0]["comparison"]["first"]
    assert (first["name"], first["line"], first["op"]) == ("0", 2, "add")
    hlo = program(HLO, "program.hlo")
    values = tmp_path / "values.npz"
    np.savez(values, n=np.array([-1, -3], "float32"))
    one = ["--args", "[dense<[1.0, 2.0]> : tensor<2xf32>]"]
    result = run("run", hlo, *one, "--compare", values)
    assert result.exit_code == 1
    assert "`n` = negate: 1 of 2 elements differ; the worst at [1]: found -2.0" in result.stdout


def test_values_of_one_run_are_compared_with_another(
    run: Run, program: Program, tmp_path: Path
) -> None:
    values = tmp_path / "values.npz"
    result = run("run", program(MLIR), "--args", TWO, "--values", values)
    assert result.exit_code == 0, result.output
    with np.load(values) as stored:
        assert {name: stored[name].tolist() for name in stored.files} == {"0": [1, 4]}
    wrong = program(MLIR.replace("multiply", "add"), "wrong.mlir")
    result = run("run", wrong, "--args", TWO, "--compare", values)
    assert result.exit_code == 1
    assert "`0` = add: 1 of 2 elements differ; the worst at [0]: found 2.0" in result.stdout
    result = run("run", wrong, "--args", TWO, "--values", values, "--max-bytes", "8")
    assert result.exit_code == 0
    result = run("run", wrong, "--args", TWO, "--values", values, "--max-bytes", "7")
    assert result.exit_code == 1


def test_infeed_and_outfeed(run: Run, tmp_path: Path) -> None:
    text = """HloModule m
    ENTRY e {
      t = token[] after-all()
      i = ((s32[2]), token[]) infeed(t)
      d = (s32[2]) get-tuple-element(i), index=0
      x = s32[2] get-tuple-element(d), index=0
      o = token[] outfeed(x, t), outfeed_shape=s32[2]
      ROOT r = s32[2] negate(x)
    }"""
    np.savez(tmp_path / "in.npz", np.array([1, 2], "int32"))
    result = run("run", "-", "--infeed", tmp_path / "in.npz", stdin=text)
    assert result.exit_code == 0, result.output
    assert result.stdout == ("tensor<2xi32> {\n  [-1, -2]\n}\noutfeed: int32[2]: 1 … 2, mean 1.5\n")
    result = run("run", "-", stdin=text)
    assert result.exit_code == 1
    assert "the queue is empty" in result.stderr


def test_the_reference_s_own_tests(run: Run, shared: Path) -> None:
    folder = shared / "conformance" / "stablehlo" / "interpret"
    text = (folder / "printing.mlir").read_text()
    result = run("run", folder / "printing.mlir", "--split-input-file")
    check(result.stdout, directives(text))
    dense = run("run", folder / "printing.mlir", "--split-input-file", "--dense")
    check(dense.stdout, directives(text, ["CHECK-DENSE"]))
    text = (folder / "api_input_arguments.mlir").read_text().replace("expectect", "expect")
    for arguments, prefix in [
        ("[dense<1> : tensor<2xi32>, dense<2> : tensor<2xi32>]", "CHECK"),
        ("not_array", "CHECK-ERROR-NOT-ARRAY"),
        ("[4.0 : f32]", "CHECK-ERROR-NOT-DENSE"),
    ]:
        result = run("run", folder / "api_input_arguments.mlir", f"--args={arguments}")
        assert (result.exit_code == 0) == (prefix == "CHECK")
        check(result.output, directives(text, [prefix]))


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams.steps_shown() as show:
        assert show is None

    class Terminal:
        encoding = "utf-8"
        text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(streams, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with streams.steps_shown(9999) as show:
        assert show is not None
        for steps in range(4096, 9999, 4096):
            show(steps)
        while "steps" not in terminal.text:
            pass
    assert "of 9,999 at most" in terminal.text
