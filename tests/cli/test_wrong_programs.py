"""Commands that claim something of a program say first that it is wrong."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.errors import VerifyError
from tests.cli.conftest import Run

WRONG = {
    "a declared type": "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }",
    "elsewhere": "f { x = f32[2] parameter(0) ROOT y = f32[3] abs(x) }\n"
    "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] negate(a) }",
    "an if of one region": """func.func @main(%p: tensor<i1>, %a: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.if"(%p) ({
    "stablehlo.return"(%a) : (tensor<3xf32>) -> ()
  }) : (tensor<i1>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
""",
}
CLAIMING = [
    ("index", "-", "--verify"),
    ("index", "-", "--verify", "--from-operand", "0"),
    ("index", "-", "--verify", "--to-parameters", "--json"),
    ("index", "-", "--verify", "--all"),
    ("equal", "-", "examples/softmax.hlo"),
    ("equal", "examples/softmax.hlo", "-"),
    ("opt", "-", "--fold"),
    ("run", "-", "--random", "1"),
]


@pytest.mark.parametrize("program", WRONG)
@pytest.mark.parametrize("command", CLAIMING, ids=" ".join)
def test_nothing_is_claimed_of_a_wrong_program(
    run: Run, program: str, command: tuple[str, ...]
) -> None:
    result = run(*command, stdin=WRONG[program])
    [wrong] = hloscope.verify(WRONG[program])
    assert result.exit_code == VerifyError.exit_code
    assert result.stdout == ""
    assert f"error: {wrong.message}" in result.stderr


def test_a_program_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "hloscope.api.explaining.findings", lambda module: asked.append(module) or []
    )
    program = hloscope.read("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }")
    for _ in range(3):
        program.root.indexing().prove()
    assert asked == [program.module]


def test_one_question_alone_does_not_verify_the_whole_program(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "hloscope.api.explaining.findings", lambda module: asked.append(module) or []
    )
    assert run("index", "examples/softmax.hlo").exit_code == 0
    assert asked == []
