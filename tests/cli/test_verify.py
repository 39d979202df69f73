"""`index --verify`: what it prints, what it ends with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from hloscope.fusion import traversal
from hloscope.indexing import IndexingMap

Run = Callable[..., Result]
SOFTMAX, KV = "examples/softmax.hlo", "examples/kv_cache.hlo"
LOOP = """\
HloModule m
body { x = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(x), index=0
  v = f32[4] get-tuple-element(x), index=1
  r = f32[4] reverse(v), dimensions={0}
  ROOT t = (s32[], f32[4]) tuple(i, r) }
cond { x = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(x), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { a = (s32[], f32[4]) parameter(0)
  ROOT w = (s32[], f32[4]) while(a), condition=cond, body=body }
"""


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our composition is off by one."""

    def compose(first: IndexingMap, second: IndexingMap, bounds: Any) -> IndexingMap:
        found = real(first, second, bounds)
        return found.with_(results=[e + 1 for e in found.results])

    real = traversal._composed
    monkeypatch.setattr(traversal, "_composed", compose)


def test_each_operand_has_its_proof(run: Run) -> None:
    result = run("index", SOFTMAX, "--verify")
    assert result.exit_code == 0
    assert result.stdout.count("    proof: isl; sampled 32, seed 0") == 3
    assert "proof" not in run("index", SOFTMAX).stdout


def test_json_has_the_proof_beside_the_maps(ask: Callable[..., Any]) -> None:
    answer = ask("index", SOFTMAX, "--verify", "--json", "--seed", "7")
    proofs = [operand["proof"] for operand in answer["operands"]]
    assert {p["verdict"] for p in proofs} == {"proved"}
    assert {tuple(p["by"]) for p in proofs} == {("isl", "sampled 32, seed 7")}
    plain = ask("index", SOFTMAX, "--json")
    for operand in answer["operands"]:
        del operand["proof"]
    assert answer == plain


@pytest.mark.parametrize("options", [[], ["--json"], ["--from-operand", "0"]])
def test_a_wrong_map_ends_with_exit_code_5(run: Run, wrong: None, options: list[str]) -> None:
    result = run("index", SOFTMAX, "--verify", "--seconds", "60", *options)
    assert result.exit_code == 5
    assert "softmax, output 0, operand 0 (scores): the maps are wrong: (" in result.stderr
    assert "is in the " in result.stderr
    assert "REFUTED" in result.stdout or '"counter_example"' in result.stdout


def test_all_goes_on_after_a_wrong_map(run: Run, wrong: None) -> None:
    result = run("index", SOFTMAX, "--all", "--verify", "--seconds", "60")
    assert result.exit_code == 5
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[-1]["instruction"] == "softmax"
    assert "refuted" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_all_ends_with_how_many_were_proved(run: Run) -> None:
    result = run("index", KV, "--all", "--verify")
    assert result.exit_code == 0
    assert result.stderr.startswith("verified ")
    count = sum(
        len(output["operands"]) + sum(p["count"] for p in output.get("proofs_of_nothing", ()))
        for line in result.stdout.splitlines()
        for output in json.loads(line)["outputs"]
    )
    assert f"verified {count} operands: " in result.stderr


def test_what_is_undecided_says_why(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "loop.hlo"
    file.write_text(LOOP)
    result = run("index", file, "--verify", "--output", "1")
    assert result.exit_code == 0
    assert "proof: undecided: `w` is a loop" in result.stdout
    strict = run("index", file, "--verify", "--strict", "--output", "1")
    assert strict.exit_code == 4
    assert "undecided" in strict.stderr


@pytest.mark.parametrize(
    "options", [["--strict"], ["--verify", "--format", "svg"], ["--verify", "--format", "latex"]]
)
def test_options_that_do_not_go_together(run: Run, options: list[str]) -> None:
    assert run("index", SOFTMAX, *options).exit_code == 2


@pytest.mark.parametrize(
    "asked", [["index", SOFTMAX, "--verify", "--seed"], ["run", SOFTMAX, "--random"]]
)
def test_seeds_are_not_negative(run: Run, asked: list[str]) -> None:
    result = run(*asked, "-1")
    assert result.exit_code == 2
    assert "x>=0" in result.stderr


@pytest.mark.parametrize("op", ["opt-barrier(a)", "copy(a)", 'domain(a), domain={kind="x"}'])
def test_tuples_with_unknown_sizes_are_handed_on_array_by_array(run: Run, op: str) -> None:
    text = f"""HloModule m
ENTRY e {{
  a = (f32[4,?], s32[]) parameter(0)
  ROOT r = (f32[4,?], s32[]) {op}
}}
"""
    for options in (["--verify"], ["--to-parameters", "--verify"]):
        result = run("index", "-", "r", *options, stdin=text)
        assert "REFUTED" not in result.stdout
        assert result.exit_code == 0
        if "domain" not in op:
            assert result.stdout.count("exact") == 2
