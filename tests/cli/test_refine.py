"""`refine`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_opt import DYNAMIC, HLO

SPECIFIED = (
    "Found {0}. Using the following polymorphic shapes specifications: args[0].shape = (2*b, s^2)."
)
EXPORTED = f"""\
module attributes {{jax.uses_shape_polymorphism = true}} {{
  func.func public @main(%a: tensor<?x?xf32>) -> tensor<?xf32> {{
    %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %b = call @half(%n, %two) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %r = stablehlo.remainder %n, %two : tensor<i32>
    %ok = stablehlo.compare EQ, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %n) {{api_version = 2 : i32, \
error_message = "{SPECIFIED}", has_side_effect = true}} : (tensor<i1>, tensor<i32>) -> ()
    %x = call @_wrapped_jax_export_main(%b, %two, %a) : \
(tensor<i32>, tensor<i32>, tensor<?x?xf32>) -> tensor<?xf32>
    return %x : tensor<?xf32>
  }}
  func.func private @half(%n: tensor<i32>, %k: tensor<i32>) -> tensor<i32> {{
    %0 = stablehlo.divide %n, %k : tensor<i32>
    return %0 : tensor<i32>
  }}
  func.func private @_wrapped_jax_export_main(\
%b: tensor<i32> {{jax.global_constant = "b"}}, %s: tensor<i32> {{jax.global_constant = "s"}}, \
%a: tensor<?x?xf32>) -> tensor<?xf32> {{
    %0 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }}
}}
"""


def test_sizes_are_given_as_types_or_by_name(run: Run) -> None:
    by_type = run("refine", "-", "--args", "tensor<6x9xf32>", stdin=EXPORTED)
    assert by_type.exit_code == 0, by_type.output
    assert "-> tensor<3xf32>" in by_type.stdout
    assert "shape_assertion" not in by_type.stdout
    assert run("refine", "-", "--dims", "b=3, s=3", stdin=EXPORTED).stdout == by_type.stdout


def test_sizes_that_stay_unknown_are_counted(run: Run) -> None:
    unknown = run("refine", "-", stdin=EXPORTED)
    told = json.loads(run("refine", "-", "--json", stdin=EXPORTED).stdout)
    assert len(told["dynamic"]) > 0
    assert (
        unknown.stderr == f"values of unknown size: {len(told['dynamic'])}; --explain tells why\n"
    )
    assert not run("refine", "-", "--dims", "b=3,s=2", stdin=EXPORTED).stderr


def test_what_does_not_hold_is_said_first(run: Run) -> None:
    result = run("refine", "-", "--args", "tensor<7x9xf32>", stdin=EXPORTED)
    assert result.exit_code == 3
    assert "error: Found 7. Using the following" in result.stderr
    words = ["refine", "-", "--args", "tensor<7x9xf32>", "--no-assertions"]
    assert "-> tensor<3xf32>" in run(*words, stdin=EXPORTED).stdout


def test_what_nobody_can_tell_yet_stays_asserted(run: Run) -> None:
    result = run("refine", "-", "--args", "tensor<?x9xf32>", stdin=EXPORTED)
    assert result.exit_code == 0, result.output
    assert "shape_assertion" in result.stdout
    assert "tensor<?x9xf32>" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--dims", "b=3"], 2, "no size is given for `s`"),
        (["--dims", "b=3,s=1,c=2"], 2, "no dimension variable is called `c`; there are `b`, `s`"),
        (["--dims", "b"], 2, "`b` gives no size: write `b=16,s=128`"),
        (["--dims", "b=1,b=2"], 2, "`b` is given twice"),
        (["--args", "tensor<2x2xf32>", "--dims", "b=1"], 2, "either --args or --dims"),
        (["--args", ""], 2, "0 arguments given, the program has 1"),
        (["--args", "3"], 2, "argument 0 is not a number"),
        (["--args", "tensor<2xf32"], 2, "not closed"),
        (["--args", "tensor<2xfoo>"], 3, "expected non-function type"),
        (["--args", "tensor<2xf32>"], 3, "rank must match operand rank"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, words: list[str], code: int, message: str) -> None:
    result = run("refine", "-", *words, stdin=EXPORTED)
    assert result.exit_code == code, result.output
    assert message in result.stderr


NONZERO = """\
func.func @main(%a: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %p = stablehlo.compare NE, %a, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %q = stablehlo.convert %p : (tensor<4xi1>) -> tensor<4xi32>
  %c = stablehlo.reduce(%q init: %i) applies stablehlo.add across dimensions = [0] : \
(tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %s = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %o = stablehlo.custom_call @mine(%n) : (tensor<i32>) -> tensor<?xf32>
  %x = stablehlo.add %r, %o : tensor<?xf32>
  return %x : tensor<?xf32>
}
"""


def test_every_unknown_size_is_explained(run: Run) -> None:
    result = run("refine", "-", "--explain", stdin=NONZERO)
    assert result.exit_code == 0, result.output
    assert "3 values of unknown size" in result.stdout
    assert "from data: %c = stablehlo.reduce : tensor<i32> (line 7)" in result.stdout
    assert "from a custom call: %o = stablehlo.custom_call" in result.stdout
    assert "indices_of_shape_operands" in result.stdout
    answer = json.loads(run("refine", "-", "--json", stdin=NONZERO).stdout)
    assert answer["schema"] == "hloscope.refine/1"
    assert not answer["static"]
    kinds = [each["source"]["kind"] for each in answer["dynamic"]]
    assert kinds == ["data", "custom_call", "data"]
    assert answer["dynamic"][0]["chain"][0]["line"] == 9
    static = run("refine", "-", "--explain", "--args", "tensor<3xf32>", stdin=DYNAMIC)
    assert static.stdout == "static: every size is known\n"


def test_hlo_and_artifacts_are_read_as_well(run: Run, tmp_path: Path) -> None:
    assert "stablehlo.multiply" in run("refine", "-", stdin=HLO).stdout
    file = tmp_path / "dynamic.mlir"
    file.write_text(DYNAMIC)
    artifact = tmp_path / "dynamic.mlir.bc"
    assert run("serialize", str(file), "-o", str(artifact)).exit_code == 0
    result = run("refine", str(artifact), "--args", "tensor<5xf32>")
    assert "tensor<5xf32>" in result.stdout, result.output


FLAT = """
func.func @main(%n: tensor<i32>, %a: tensor<?x?xf32>) -> tensor<?xf32> {
  %k = stablehlo.get_dimension_size %a, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
  %m = stablehlo.multiply %n, %k : tensor<i32>
  %s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
  %x = stablehlo.reverse %r, dims = [0] : tensor<?xf32>
  return %x : tensor<?xf32>
}
"""


def test_maps_in_terms_of_sizes_are_printed(run: Run) -> None:
    words = ["refine", "-", "--args", "{n}, tensor<{n}x{k}xf32>", "--maps"]
    result = run(*words, "*", stdin=FLAT)
    assert result.exit_code == 0, result.output
    assert "(d0 / k, d0 mod k), domain: d0 in [0, n * k - 1]   exact" in result.stdout
    assert "no instruction `q`" in run(*words, "q", stdin=FLAT).stderr
    assert run(*words, "*", "--explain", stdin=FLAT).exit_code == 2
    assert '"precision": "exact"' in run(*words, "*", "--json", stdin=FLAT).stdout
