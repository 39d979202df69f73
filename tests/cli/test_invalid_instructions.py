"""Questions about whole programs with invalid instructions: the others are answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hloscope
from hloscope.api import Invalid
from hloscope.errors import VerifyError
from tests.cli.conftest import Run
from tests.display.explorer.pages import chunk, names_of

HEAD = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
fused {
  x = f32[64,64] parameter(0)
  t = f32[64,64] transpose(x), dimensions={1,0}
  ROOT n = f32[64,64] negate(t)
}
"""
BODY = """ENTRY e {
  p = f32[64,64] parameter(0)
  t = f32[] parameter(1)
  f = f32[64,64] fusion(p), kind=kLoop, calls=fused
  BAD
  h = f32[16,64] negate(g)
  w = f32[64,16] transpose(h), dimensions={1,0}
  ROOT k = f32[16,64] transpose(w), dimensions={1,0}
}
"""
GROUPS = "replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add"
INVALID = {
    "a collective with a scalar": f"bad = (f32[16,64], f32[]) reduce-scatter(f, t), {GROUPS}\n"
    "  g = f32[16,64] get-tuple-element(bad), index=0",
    "a transpose": "bad = f32[16,64] transpose(f), dimensions={1,0}\n  g = f32[16,64] copy(bad)",
    "a slice": "bad = f32[16,64] slice(f), slice={[60:76], [0:64]}\n  g = f32[16,64] copy(bad)",
    "a dot": "bad = f32[16,64] dot(f, f), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  g = f32[16,64] copy(bad)",
}
RIGHT = "bad = f32[16,64] slice(f), slice={[0:16], [0:64]}\n  g = f32[16,64] copy(bad)"
COMMANDS = ("footprint -", "cost -", "coalesce - --as-if h100", "cancel -", "index - --all")


def program(bad: str) -> str:
    return HEAD + BODY.replace("BAD", bad)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", INVALID)
def test_the_other_instructions_are_answered(run: Run, name: str, command: str) -> None:
    text = program(INVALID[name])
    words = command.split()
    if words[0] != "index":
        words.append("--json")
    result = run(*words, stdin=text)
    found = hloscope.verify(text)
    assert result.exit_code == VerifyError.exit_code
    assert len(found) == 1
    assert result.stderr.count(f"error: {found[0].message}") == 1
    if words[0] == "index":
        answered = {json.loads(line)["instruction"] for line in result.stdout.splitlines()}
        assert {"f", "h", "w", "k"} <= answered
        assert "bad" not in answered
        return
    told = json.loads(result.stdout)
    names = {one["name"] for one in told.get("kernels", told.get("chains"))}
    assert "bad" not in names
    if words[0] == "cancel":
        assert "k" in names  # a chain begins with the invalid value
        assert told["notes"][-1] == "left out, because invalid: `bad`"
    elif words[0] == "coalesce":
        assert {"f", "h", "w", "k"} <= names
        assert {"name": "bad", "reason": found[0].message, "maker": "invalid"} in told["refused"]
    else:
        assert {"f", "h", "w", "k"} <= names
        assert told["assumed"] == ["left out, because invalid: `bad`"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_others_are_answered_as_in_a_valid_program(run: Run, command: str) -> None:
    """Every kernel of the valid program but the one that is replaced has the same figures."""
    words = [*command.split(), *([] if "--all" in command else ["--json"])]
    if words[0] == "cancel":
        return  # chains end at the invalid instruction
    good = run(*words, stdin=program(RIGHT)).stdout
    bad = run(*words, stdin=program(INVALID["a slice"])).stdout
    rows = [_rows(text, by_line=words[0] == "index") for text in (good, bad)]
    assert rows[0].pop("bad")
    assert rows[1] == rows[0]


def _rows(text: str, *, by_line: bool) -> dict[str, object]:
    if by_line:
        lines = map(json.loads, text.splitlines())
        return {
            f"{one['computation']}/{one['instruction']}".removeprefix("e/"): one for one in lines
        }
    return {one["name"]: one for one in json.loads(text)["kernels"]}


LOOP = """HloModule m
turn { s = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(s), index=0
  v = f32[64] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  WRONG
  ROOT r = (s32[], f32[64]) tuple(j, w) }
less { s = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8) ROOT b = pred[] compare(i, n), direction=LT }
ENTRY e { p = f32[64] parameter(0) z = s32[] constant(0) t = (s32[], f32[64]) tuple(z, p)
  l = (s32[], f32[64]) while(t), condition=less, body=turn
  g = f32[64] get-tuple-element(l), index=1 ROOT o = f32[64] negate(g) }
"""


def test_a_loop_with_an_invalid_instruction_is_left_out() -> None:
    """Its trip count may depend on that instruction."""
    good, bad = "w = f32[64] negate(v)", "u = f32[63] abs(v) w = f32[64] negate(v)"
    names = []
    for text in (good, bad):
        module = hloscope.read(LOOP.replace("WRONG", text)).module
        invalid = Invalid(module)
        names.append([ins.name for _, ins in invalid.kernels()])
        assert [ins.name for ins in invalid.reasons] == (["u", "l"] if text == bad else [])
    assert set(names[0]) > {"w", "o"}
    assert names[1] == ["o"]


@pytest.mark.parametrize("without", ["", "cost", "maps"])
@pytest.mark.parametrize("name", INVALID)
def test_a_page_lists_what_is_invalid_and_shows_the_others(
    run: Run, name: str, without: str
) -> None:
    text = program(INVALID[name])
    found = hloscope.verify(text)
    result = run("html", "-", *(["--without", without] if without else []), stdin=text)
    assert result.exit_code == VerifyError.exit_code
    assert result.stderr.count(f"error: {found[0].message}") == 1
    page, names = result.stdout, names_of(result.stdout)
    bad = names.index("bad")
    assert chunk(page, "invalid") == [{"k": bad, "text": f"bad: {found[0].message}"}]
    kernels = chunk(page, "kernels")
    for subject in ("coalesce", "footprint", "tiles"):
        column = kernels["of"][subject]
        assert column[bad] < 0
        assert all(column[names.index(other)] >= 0 for other in "fhwk")
    if without != "maps":
        answers = chunk(page, "answers")
        assert answers["errors"] == {str(bad): found[0].message}
        assert all(answers["of"][names.index(other)] >= 0 for other in "fhwk")
    if without != "cost":
        cost = chunk(page, "cost")
        assert cost["notes"][0] == "left out, because invalid: `bad`"
        assert bad not in [k for k, _ in cost["shares"]]


def test_the_page_of_a_valid_program_lists_nothing(run: Run) -> None:
    result = run("html", "-", stdin=program(RIGHT))
    assert result.exit_code == 0
    assert 'id="data-invalid"' not in result.stdout


def test_equal_computations_with_an_invalid_instruction_are_each_refused(run: Run) -> None:
    """What is said of one computation is not repeated for another that is like it."""
    body = (
        "{{ p{0} = f32[4] parameter(0) b{0} = f32[3] abs(p{0}) ROOT r{0} = f32[4] negate(p{0}) }}\n"
    )
    calls = "\n".join(f"  c{k} = f32[4] fusion(p), kind=kLoop, calls=f{k}" for k in range(2))
    text = "".join(f"f{k} {body.format(k)}" for k in range(2))
    text += f"ENTRY e {{ p = f32[4] parameter(0)\n{calls}\n  ROOT s = f32[4] add(c0, c1) }}"
    page = run("html", "-", stdin=text).stdout
    names, listed = names_of(page), chunk(page, "invalid")
    assert [names[one["k"]] for one in listed] == ["b0", "b1", "c0", "c1"]
    refused = {names[int(k)] for k in chunk(page, "answers")["errors"]}
    assert refused == {"b0", "b1", "c0", "c1"}


def test_a_finding_about_the_module_refuses_it(run: Run) -> None:
    text = program(RIGHT).replace("HloModule m", "HloModule m, input_output_alias={{9}: (0, {})}")
    assert hloscope.verify(text)
    for command in ("footprint -", "cost -", "cancel -", "html -"):
        result = run(*command.split(), stdin=text)
        assert (result.exit_code, result.stdout) == (VerifyError.exit_code, "")


def test_stablehlo_too(run: Run) -> None:
    text = """func.func @main(%a: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.negate %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
"""
    result = run("footprint", "-", "--json", stdin=text)
    assert result.exit_code == VerifyError.exit_code
    assert [one["name"] for one in json.loads(result.stdout)["kernels"]] == ["1", "2"]


def test_collectives_with_a_scalar_of_a_real_dump(run: Run, shared: Path) -> None:
    text = (shared / "regressions/round3/reading/neuron_ag.hlo").read_text()
    [found] = hloscope.verify(text)
    assert found.rule == "reduce_scatter_c2"
    result = run("index", "-", "--all", stdin=text)
    assert [json.loads(line)["opcode"] for line in result.stdout.splitlines()] == ["add"]
    for command in ("footprint -", "cost -", "cancel -", "index - --all"):
        result = run(*command.split(), stdin=text)
        assert result.exit_code == VerifyError.exit_code
        assert found.message in result.stderr
    assert run("ls", "-", stdin=text).exit_code == 0
