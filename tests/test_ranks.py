"""Programs of more dimensions than arrays have: right, understood, and only not evaluated."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from hloscope.cli.app import app

RANKS = [33, 63, 64, 65, 66]
NOT_EVALUATED = 4


def ones(rank: int, between: str) -> str:
    return between.join(["1"] * rank)


def braces(rank: int, marks: str) -> str:
    return marks[0] * rank + "1" + marks[1] * rank


def hlo(rank: int, constant: str) -> str:
    type_ = f"s32[{ones(rank, ',')}]"
    return (
        f"HloModule m\nENTRY e {{\n  c = {type_} constant({constant})\n"
        f"  p = {type_} parameter(0)\n  ROOT a = {type_} add(c, p)\n}}\n"
    )


def start_by_iota(rank: int) -> str:
    """A slice whose start is the one element of an array of many dimensions."""
    return (
        f"HloModule m\nENTRY e {{\n  i = s32[{ones(rank, ',')}] iota(), iota_dimension=3\n"
        "  j = s32[] reshape(i)\n  q = f32[20] parameter(0)\n"
        "  ROOT d = f32[3] dynamic-slice(q, j), dynamic_slice_sizes={3}\n}\n"
    )


def start_by_constant(rank: int) -> str:
    """The same in StableHLO."""
    type_ = f"tensor<{ones(rank, 'x')}xi32>"
    return f"""func.func @main(%q: tensor<20xf32>) -> tensor<3xf32> {{
  %c = stablehlo.constant dense<{braces(rank, "[]")}> : {type_}
  %j = stablehlo.reshape %c : ({type_}) -> tensor<i32>
  %r = stablehlo.dynamic_slice %q, %j, sizes = [3] : (tensor<20xf32>, tensor<i32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}}
"""


def windows(rank: int) -> str:
    type_, sizes = f"tensor<{ones(rank, 'x')}xf32>", ones(rank, ", ")
    return f"""func.func @main(%a: {type_}, %b: tensor<f32>) -> {type_} {{
  %r = "stablehlo.reduce_window"(%a, %b) ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) {{window_dimensions = array<i64: {sizes}>}} : ({type_}, tensor<f32>) -> {type_}
  return %r : {type_}
}}
"""


PROGRAMS = {
    "first element only": lambda rank: hlo(rank, "1"),
    "all elements": lambda rank: hlo(rank, braces(rank, "{}")),
    "start by iota": start_by_iota,
    "start by constant": start_by_constant,
    "windows": windows,
}
QUESTIONS = [
    "index - --all --verify",
    "index - --all --linear --verify",
    "index - --all --from-operand 0 --verify",
    "index - --to-parameters --verify --by-execution",
    "opt - --fold",
    "infer -",
]


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_question_about_many_dimensions_is_answered(program: str, rank: int) -> None:
    text = PROGRAMS[program](rank)
    for question in ("verify -", *QUESTIONS):
        done = CliRunner().invoke(app, question.split(), input=text)
        assert done.exit_code == 0, (question, done.output)
    done = CliRunner().invoke(app, ["run", "-", "--random", "1"], input=text)
    assert done.exit_code == (0 if rank <= 64 else NOT_EVALUATED), done.output


def test_numbers_of_a_constant_of_many_dimensions_are_checked() -> None:
    done = CliRunner().invoke(app, ["verify", "-"], input=hlo(66, "3000000000"))
    assert done.exit_code == 3
    assert "`3000000000` is no s32" in done.output
