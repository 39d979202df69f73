"""Pipelines and command lines: what is read, what is refused, what running one tells."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from hloscope.errors import HloscopeError, UnknownNameError
from hloscope.mlir import Operation, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import (
    Pass,
    PassError,
    PipelineError,
    Run,
    Step,
    applied,
    parse_command_line,
    parse_pipeline,
    pass_names,
    run_pipeline,
)
from hloscope.passes.pipeline import PASSES, PIPELINES, cut, find_pass
from hloscope.stablehlo import parse_stablehlo

TEXT = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"
REFINED = "refine-arguments{types=tensor<4xf32>}"


def tree_of(text: str) -> Operation:
    return parse_stablehlo(text).tree


def break_results(run: Run) -> None:
    """Leaves a `return` that does not fit."""
    for function in run.functions():
        for op in run.rewriter.walk(function):
            if op.name == "func.return":
                run.rewriter.set_operands(op, ())


BREAKS = Pass("breaks", break_results, "Makes a module wrong.")


@pytest.mark.slow(keep=8)
@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_row_leads_to_a_pass_of_its_name(name: str) -> None:
    found = find_pass(name)
    assert isinstance(found, Pass)
    assert PASSES[name] == PASSES[found.name]
    assert found.help.endswith(".")


@pytest.mark.parametrize("name", sorted({*PASSES, *PIPELINES}))
def test_the_page_of_passes_names_every_pass(name: str, request: pytest.FixtureRequest) -> None:
    names = re.findall(r"`([a-z-]+)[`{]", (request.config.rootpath / "docs/passes.md").read_text())
    assert name.removeprefix("stablehlo-") in names, "docs/passes.md needs a row"


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_a_pipeline_is_one_of_passes(name: str) -> None:
    assert parse_pipeline(name)


@pytest.mark.parametrize(
    "text",
    [
        REFINED,
        f"  {REFINED}  ",
        f"builtin.module({REFINED})",
        f"builtin.module(func.func({REFINED}))",
        "stablehlo-refine-arguments{types='tensor<4xf32>'}",
        'any(refine-arguments{types="tensor<4xf32>"})',
        "refine-arguments{types={tensor<4xf32>}}",
    ],
)
def test_a_pipeline_is_read(text: str) -> None:
    [step] = parse_pipeline(text)
    assert step.name == "stablehlo-refine-arguments"
    assert step.options == {"types": ("tensor<4xf32>",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("refine-argument", "did you mean `refine-arguments`"),
        ("refine-arguments{type=x}", "has no option `type`; did you mean `types`"),
        ("refine-arguments{", "not closed"),
        ("refine-arguments}", "closes nothing"),
        ("builtin.module(refine-arguments", "not closed"),
        ("builtin.module(refine-arguments)x", "is not a pass"),
        ("refine-arguments{types='a}", "not closed"),
        ("(" * 5000, "not closed"),
    ],
)
def test_what_is_no_pipeline_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)


def test_brackets_may_be_as_deep_as_somebody_likes() -> None:
    depth = 300
    text = "builtin.module(" * depth + REFINED + ")" * depth
    assert len(parse_pipeline(text)) == 1


@given(st.text("ab,{}()[]<>'\"= -", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        steps = parse_pipeline(text)
    except HloscopeError:
        return
    assert steps == []  # brackets around nothing: no pass has a name of these letters


@given(st.lists(st.text("ab<>[](){}", max_size=8)))
def test_pieces_put_together_are_the_text(pieces: list[str]) -> None:
    text = ",".join(pieces)
    try:
        found = cut(text, lambda letter: letter == ",")
    except PipelineError:
        return
    assert ",".join(found) == text


def test_upstreams_command_lines_are_read() -> None:
    line = parse_command_line(
        "%s --stablehlo-refine-arguments='types=tensor<4xf32>,tensor<f32>' -split-input-file"
        " --verify-diagnostics -allow-unregistered-dialect --mlir-print-debuginfo"
        " --verify-each=false"
    )
    assert line.files == ["%s"]
    assert line.steps[0].options == {"types": ("tensor<4xf32>", "tensor<f32>")}
    assert line.split
    assert line.verify_diagnostics
    assert line.allow_unregistered
    assert line.locations
    assert not line.verify_each


def test_a_pipeline_may_be_one_word_of_a_command_line() -> None:
    line = parse_command_line(["--pass-pipeline=builtin.module(stablehlo-refine-arguments)"])
    assert [step.name for step in line.steps] == ["stablehlo-refine-arguments"]


@pytest.mark.parametrize("words", ["--no-such-thing", "--verify-each=maybe", "'--x"])
def test_what_is_no_command_line_is_refused(words: str) -> None:
    with pytest.raises(UnknownNameError):
        parse_command_line(words)


def test_each_pass_is_told_of_and_the_input_stays() -> None:
    tree = tree_of(TEXT.replace("-> tensor<?xf32> { return %a : tensor<?xf32> }", "{ return }"))
    before = print_mlir(tree, dialects=DIALECTS)
    told: list[str] = []
    outcome = run_pipeline(
        tree, parse_pipeline(REFINED), after=lambda step, module: told.append(step.name)
    )
    assert outcome.ok
    assert told == ["stablehlo-refine-arguments"] == [name for name, _ in outcome.fired]
    assert "tensor<4xf32>" in print_mlir(outcome.module, dialects=DIALECTS)
    assert print_mlir(tree, dialects=DIALECTS) == before


def test_a_module_that_is_wrong_after_a_pass_is_an_error() -> None:
    steps = [Step(BREAKS), *parse_pipeline(REFINED)]
    outcome = run_pipeline(tree_of(TEXT), steps)
    assert outcome.failed == "breaks"
    assert "has 0 operands" in outcome.diagnostics[0].message
    assert run_pipeline(tree_of(TEXT), steps[:1], verify_each=False).ok
    with pytest.raises(PassError, match="has 0 operands"):
        applied(tree_of(TEXT), steps)


def test_a_pass_that_fails_without_a_word_is_named() -> None:
    with pytest.raises(PassError, match="stablehlo-refine-arguments did not succeed"):
        applied(
            tree_of("func.func @f() { return }").regions[0].block.operations[0],
            parse_pipeline("refine-arguments"),
        )


def test_names_are_short() -> None:
    assert "refine-arguments" in pass_names()
