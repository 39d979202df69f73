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
    ("serialize", "-"),
    ("serialize", "-", "--text"),
]
"""`footprint`, `cost`, `coalesce`, `cancel` and `index --all` answer the valid instructions: see
`test_invalid_instructions.py`."""


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
    monkeypatch.setattr("hloscope.api.invalid.findings", lambda module: asked.append(module) or [])
    program = hloscope.read("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }")
    for _ in range(3):
        program.root.indexing().prove()
    assert asked == [program.module]


def test_one_question_alone_does_not_verify_the_whole_program(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("hloscope.api.invalid.findings", lambda module: asked.append(module) or [])
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


@pytest.mark.parametrize("command", ["coalesce -", "coalesce - r", "footprint - r"])
@pytest.mark.parametrize("family", ["transpose", "inside"])
def test_nothing_is_told_of_wrong_kernels(run: Run, family: str, command: str) -> None:
    result = run(*command.split(), stdin=FAMILIES[family])
    wrong, *_ = hloscope.verify(FAMILIES[family])
    assert result.exit_code == VerifyError.exit_code
    assert result.stdout == ""
    assert f"error: {wrong.message}" in result.stderr


NOT_THERE = {
    "reduce": f"{BODY}f {{ p = f32[2,8,4] parameter(0) z = f32[] constant(0)"
    " ROOT r = f32[2] reduce(p, z), dimensions={1,3}, to_apply=a }\n"
    "ENTRY e { p = f32[2,8,4] parameter(0) ROOT r = f32[2] fusion(p), kind=kInput, calls=f }",
    "scatter": f"{BODY}ENTRY e {{ p = f32[3,3,2] parameter(0) i = s64[2,2] parameter(1)"
    " u = f32[2,2] parameter(2) ROOT r = f32[3,3,2] scatter(p, i, u), to_apply=a,"
    " update_window_dims={2}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1},"
    " index_vector_dim=1 }",
    "gather": "ENTRY e { p = f32[3,3,2] parameter(0) i = s64[2,2] parameter(1)"
    " ROOT r = f32[2,2] gather(p, i), offset_dims={4}, collapsed_slice_dims={0,1},"
    " start_index_map={0,5}, index_vector_dim=7, slice_sizes={1,1,2} }",
    "dot": f"ENTRY e {{ {ONE} q = f32[4,3] parameter(1)"
    " ROOT r = f32[8,3] dot(p, q), lhs_contracting_dims={5}, rhs_contracting_dims={2} }",
    "rank": f"{BODY}f {{ p = f32[8,4] parameter(0) q = f32[8,4] parameter(1)"
    f" m = f32[{','.join('7' * 9)}] multiply(p, q) z = f32[] constant(0)"
    " ROOT r = f32[] reduce(m, z), dimensions={0,1}, to_apply=a }\n"
    f"ENTRY e {{ {ONE} ROOT r = f32[] fusion(p, p), kind=kLoop, calls=f }}",
    "sort": "c { x = f32[] parameter(0) y = f32[] parameter(1)"
    " ROOT l = pred[] compare(x, y), direction=LT }\n"
    f"ENTRY e {{ {ONE} ROOT r = f32[8,4] sort(p), dimensions={{3}}, to_apply=c }}",
}
"""Wrong programs that name a dimension which is not there."""
EVERYWHERE = [
    "ls - --sort flops",
    "ls - --fusions",
    "show - r",
    "print - --generic",
    "verify -",
    "run - --random 1",
    "opt - --fold",
    "opt - --stablehlo-canonicalize-dynamism",
    "refine - --explain",
    "infer -",
    "index - --all",
    "index - --all --json --to-parameters",
    "tile - r",
    "coalesce -",
    "footprint -",
    "equal - examples/softmax.hlo",
    "diff - examples/softmax.hlo",
    "cancel -",
    "html - -o -",
    "check - --rule utilisation --rule copies --rule precision",
    "serialize - -o -",
]


@pytest.mark.parametrize("command", EVERYWHERE)
@pytest.mark.parametrize("family", NOT_THERE)
def test_a_wrong_program_is_no_fault_of_a_command(run: Run, family: str, command: str) -> None:
    assert hloscope.verify(NOT_THERE[family])
    result = run(*command.split(), stdin=NOT_THERE[family])
    assert result.exit_code in (0, 1, 2, 3, 4)
    assert "internal error" not in result.stderr


TWICE = """g {
  p = f32[8] parameter(0)
  i = s32[] parameter(1)
  k = s32[] multiply(i, i)
  ROOT a = f32[4] dynamic-slice(p, k), dynamic_slice_sizes={4}
}
%s
ENTRY e {
  p = f32[8] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  %s
  ROOT c = f32[4] add(a, b)
}
"""
INNER = """%s {
  p = f32[8] parameter(0)
  i = s32[] parameter(1)
  ROOT %s = f32[4] fusion(p, i), kind=kLoop, calls=g
}"""
FUSIONS = (
    "a = f32[4] fusion(p, i), kind=kLoop, calls=%s\n  b = f32[4] fusion(p, j), kind=kLoop, calls=%s"
)


@pytest.mark.parametrize(
    "text",
    [
        TWICE % ("", FUSIONS % ("g", "g")),
        TWICE % (f"{INNER % ('f1', 'x')}\n{INNER % ('f2', 'y')}", FUSIONS % ("f1", "f2")),
    ],
    ids=["by the entry", "by other fusions"],
)
def test_values_of_what_is_fused_twice_are_not_taken_for_one(run: Run, text: str) -> None:
    result = run("index", "-", "--to-parameters", stdin=text)
    assert (result.exit_code, result.stdout) == (VerifyError.exit_code, "")
    assert "g is fused twice, by " in result.stderr
    assert [d.message[:21] for d in hloscope.verify(text)] == ["g is fused twice, by "]
    another = text[: text.index("\n}\n") + 3]
    right = another + text.replace("g {", "h {", 1).replace("calls=g", "calls=h", 1)
    told = hloscope.read(right).root.to_parameters()
    assert len(told[0].accesses) == 2


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


def test_a_command_that_cannot_go_on_tells_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Where no question explains it, the command does: of a wrong program, not of a right one."""

    def fails(*_: object, **__: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("hloscope.cli.print.canonical", fails)
    wrong = run("print", "-", stdin=FAMILIES["slice"])
    assert wrong.exit_code == VerifyError.exit_code
    assert f"error: {hloscope.verify(FAMILIES['slice'])[0].message}" in wrong.stderr
    right = run("print", "examples/softmax.hlo")
    assert "internal error: IndexError" in right.stderr
