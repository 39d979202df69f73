"""`opt`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run

REMOVE_DYNAMISM = [
    "stablehlo-refine-arguments",
    "stablehlo-refine-shapes",
    "stablehlo-canonicalize-dynamism",
]
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


def test_a_part_that_is_not_there_is_refused_where_diagnostics_are_expected(run: Run) -> None:
    text = "HloModule m\nENTRY e { a = s32[] parameter(0) b = s32[] add(a, a)\n"
    text += "ROOT r = s32[] get-tuple-element(b), index=1 }"
    result = run("opt", "-", "--split-input-file", "--verify-diagnostics", stdin=text)
    assert "3:1: error: operand 0 of `get-tuple-element` is s32[], needs a tuple" in result.output
    assert result.exit_code == 3


def test_a_wrong_program_is_refused(run: Run) -> None:
    result = run("opt", "-", "--fold", stdin=HLO.replace("multiply(a, a)", "multiply(a)"))
    assert result.exit_code == 3
    assert "multiply" in result.stderr


DYNAMIC = """\
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %i : tensor<?xf32>
}
"""


def test_passes_are_named_in_three_ways(run: Run) -> None:
    short = run(
        "opt",
        "-",
        "--pass",
        "refine-arguments=types=tensor<3xf32>",
        "--pass=refine-shapes",
        "--pass",
        "canonicalize-dynamism",
        stdin=DYNAMIC,
    )
    assert short.exit_code == 0, short.output
    assert "stablehlo.iota dim = 0 : tensor<3xf32>" in short.stdout
    upstream = run(
        "opt",
        "--stablehlo-refine-arguments=types=tensor<3xf32>",
        "-stablehlo-refine-shapes",
        "--stablehlo-canonicalize-dynamism",
        "-",
        "-split-input-file",
        stdin=DYNAMIC,
    )
    assert upstream.stdout == short.stdout
    whole = "--pass-pipeline=builtin.module(remove-dynamism{types=tensor<3xf32>})"
    assert run("opt", "-", whole, stdin=DYNAMIC).stdout == short.stdout


def test_passes_tell_what_they_did(run: Run) -> None:
    result = run(
        "opt",
        "-",
        "--remove-dynamism=types=tensor<3xf32>",
        "--mlir-print-ir-after=refine-arguments",
        "--statistics",
        stdin=DYNAMIC,
    )
    assert result.exit_code == 0, result.output
    assert "// after stablehlo-refine-arguments" in result.stderr
    assert "shape_refinement_operand_wrapper" in result.stderr
    assert "1 refine_by_operand" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--print-after", "cse"], ["cse"]),
        (["--print-after", "all"], ["cse", *REMOVE_DYNAMISM]),
        (["--print-after", "remove-dynamism"], REMOVE_DYNAMISM),
        (["--print-after=cse", "--mlir-print-ir-after=refine-shapes"], ["cse", REMOVE_DYNAMISM[1]]),
    ],
)
def test_programs_in_between_are_printed(run: Run, words: list[str], said: list[str]) -> None:
    passes = ["--cse", "--remove-dynamism=types=tensor<3xf32>"]
    result = run("opt", "-", *passes, *words, stdin=DYNAMIC)
    after = [line for line in result.stderr.splitlines() if line.startswith("// after ")]
    assert after == [f"// after {name}" for name in said]


def test_a_wrong_module_is_told_after_the_pass_that_made_it_or_never(run: Run) -> None:
    """A function that is called at two sizes fits one of them."""
    text = """func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) {
      %0 = call @f(%a) : (tensor<?xf32>) -> tensor<?xf32>
      %1 = call @f(%b) : (tensor<?xf32>) -> tensor<?xf32>
      return
    }
    func.func private @f(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"""
    words = ["opt", "-", "--remove-dynamism=types=tensor<3xf32>,tensor<4xf32>"]
    assert run(*words, stdin=text).exit_code == 3
    assert run(*words, "--verify-each", stdin=text).exit_code == 3
    assert run(*words, "--no-verify-each", stdin=text).exit_code == 0
    assert run(*words, "--verify-each=false", stdin=text).exit_code == 0


def test_a_pass_that_does_not_succeed_ends_the_command(run: Run) -> None:
    result = run("opt", "-", "--remove-dynamism=types=tensor<3x3xf32>", stdin=DYNAMIC)
    assert result.exit_code == 3
    assert "rank must match operand rank in tensor<?xf32> -> tensor<3x3xf32>" in result.stderr
    assert not result.stdout
    silent = run("opt", "-", "--stablehlo-refine-shapes", stdin="module {}")
    assert "error: stablehlo-refine-shapes did not succeed" in silent.stderr


def test_expected_diagnostics_are_checked(run: Run) -> None:
    text = "// expected-error@+1 {{rank must match}}\n" + DYNAMIC
    words = ["opt", "-", "--refine-arguments=types=tensor<3x3xf32>", "--verify-diagnostics"]
    assert run(*words, stdin=text).exit_code == 0
    result = run(*words, stdin=text.replace("rank must", "types must"))
    assert result.exit_code == 1
    assert 'expected error "types must match" was not found' in result.stderr


def test_wrong_names_are_refused(run: Run) -> None:
    for words, message in [
        (["--pass", "refine-shape"], "no pass is called `refine-shape`; did you mean"),
        (["--pass"], "--pass needs the name of a pass"),
        (["--stablehlo-refine-shapes=x=1"], "has no option `x`"),
        (["--cse", "--print-after", "cs"], "no pass is called `cs`; did you mean `cse`"),
        (["--verify-each=perhaps", "--cse"], "needs true or false"),
    ]:
        result = run("opt", "-", *words, stdin=DYNAMIC)
        assert result.exit_code == 2, result.output
        assert message in result.stderr


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("API_VERSION_TYPED_FFI", "4"),
        ("API_VERSION_ORIGINAL", ""),
        ("API_VERSION_UNSPECIFIED", "0"),
    ],
)
def test_versions_of_custom_calls_are_names_in_hlo_and_numbers_in_stablehlo(
    run: Run, version: str, number: str
) -> None:
    call = f'custom-call(p), custom_call_target="f", api_version={version}'
    text = f"HloModule m\nENTRY e {{\n  p = f32[4] parameter(0)\n  ROOT c = f32[4] {call}\n}}\n"
    result = run("opt", "-", "--pass", "cse", stdin=text)
    assert result.exit_code == 0, result.output
    assert (f"api_version = {number} : i32" in result.stdout) == bool(number)


@pytest.mark.parametrize("version", ["API_VERSION_OF_NOBODY", "2"])
def test_versions_of_custom_calls_that_are_not_are_told(run: Run, version: str) -> None:
    call = f'custom-call(), custom_call_target="f", api_version={version}'
    text = f"HloModule m\nENTRY e {{ ROOT c = f32[4] {call} }}"
    result = run("opt", "-", "--pass", "cse", stdin=text)
    assert result.exit_code == 3
    assert "expected one of API_VERSION_ORIGINAL, " in result.stderr
    assert f"found `{version}`" in result.stderr
