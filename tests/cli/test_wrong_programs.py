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


BODY = "a { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
ONE = "p = f32[8,4] parameter(0)"
FAMILIES = {
    "elementwise": f"ENTRY e {{ {ONE} ROOT r = f32[8,5] negate(p) }}",
    "ranks": f"ENTRY e {{ {ONE} q = f32[8,4,1] parameter(1) ROOT r = f32[8,4] add(p, q) }}",
    "broadcast": f"ENTRY e {{ {ONE} ROOT r = f32[8,5,2] broadcast(p), dimensions={{0,1}} }}",
    "transpose": f"ENTRY e {{ {ONE} ROOT r = f32[8,4] transpose(p), dimensions={{1,0}} }}",
    "slice": f"ENTRY e {{ {ONE} ROOT r = f32[4,4] slice(p), slice={{[6:10], [0:4]}} }}",
    "pad": f"ENTRY e {{ {ONE} z = f32[] constant(0) ROOT r = f32[8,4] pad(p, z),"
    " padding=1_1x0_0 }",
    "concatenate": f"ENTRY e {{ {ONE} ROOT r = f32[15,4] concatenate(p, p), dimensions={{0}} }}",
    "reduce": f"{BODY}ENTRY e {{ {ONE} z = f32[] constant(0)"
    " ROOT r = f32[8] reduce(p, z), dimensions={0}, to_apply=a }",
    "reduce-window": f"{BODY}ENTRY e {{ {ONE} z = f32[] constant(0)"
    " ROOT r = f32[8,4] reduce-window(p, z), window={size=2x1}, to_apply=a }",
    "dot": f"ENTRY e {{ {ONE} q = f32[4,3] parameter(1)"
    " ROOT r = f32[3,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "dynamic-slice": f"ENTRY e {{ {ONE} i = s32[] parameter(1)"
    " ROOT r = f32[9,4] dynamic-slice(p, i, i), dynamic_slice_sizes={9,4} }",
    "get-tuple-element": "ENTRY e { p = (f32[8], f32[4]) parameter(0)"
    " ROOT r = f32[8] get-tuple-element(p), index=1 }",
    "tuple": f"ENTRY e {{ {ONE} ROOT r = (f32[7,4]) tuple(p) }}",
    "fusion": "f { x = f32[8,4] parameter(0) ROOT n = f32[8,4] negate(x) }\n"
    f"ENTRY e {{ {ONE} ROOT r = f32[4,4] fusion(p), kind=kLoop, calls=f }}",
    "inside": "f { x = f32[8,4] parameter(0) n = f32[7,4] negate(x) ROOT m = f32[7,4] abs(n) }\n"
    f"ENTRY e {{ {ONE} ROOT r = f32[7,4] fusion(p), kind=kLoop, calls=f }}",
    "reduce-scatter": f"{BODY}ENTRY e {{ {ONE} ROOT r = f32[3,4] reduce-scatter(p),"
    " dimensions={0}, to_apply=a, replica_groups={{0,1}} }",
    "StableHLO": "func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {\n"
    "  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
    "  return %0 : tensor<8x4xf32>\n}\n",
}  # fmt: skip
"""Wrong programs of which a rule that believes the types would say something exact."""
QUESTIONS = {
    "index": lambda view: view.indexing(),
    "from-operand": lambda view: view.indexing_from(0),
    "to-parameters": lambda view: view.to_parameters(),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_types_have_no_maps(family: str, question: str) -> None:
    program = hloscope.read(FAMILIES[family])
    wrong, *_ = hloscope.verify(FAMILIES[family])
    view = program.root.operands[0] if family == "StableHLO" else program.root
    for _ in range(2):  # nothing wrong is remembered as right
        with pytest.raises(VerifyError) as refused:
            QUESTIONS[question](view)
        assert refused.value.message == wrong.message


def test_what_is_right_beside_it_has_a_map() -> None:
    wrong = "n = f32[7,4] negate(p) m = f32[6,4] negate(p)"
    text = f"ENTRY e {{ {ONE} {wrong} ROOT r = f32[7,4] abs(n) }}"
    program = hloscope.read(text)
    for name in ("n", "m"):
        with pytest.raises(VerifyError, match="declared"):
            program[name].indexing()
    assert "exact" in str(program.root.indexing())


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { p = bf16[8,4] parameter(0) q = bf16[4,3] parameter(1)"
        " ROOT r = f32[8,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        "ENTRY e { p = f32[8] parameter(0) ROOT r = bf16[8] abs(p) }",
        "ENTRY e { p = f32[8] parameter(0) s = (f32[8], f32[16]) all-gather-start(p),"
        " dimensions={0}, replica_groups={{0,1}} ROOT r = f32[16] all-gather-done(s) }",
    ],
)
def test_what_a_language_allows_besides_is_right(text: str) -> None:
    program = hloscope.read(text)
    assert hloscope.verify(text) == []
    assert "exact" in str(program.root.to_parameters())
