"""`check`: rules from options and files, baselines, reports, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

COPY = "HloModule m\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT c = f32[8] copy(p)\n}\n"
PLAIN = COPY.replace("copy", "negate")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    """A folder with two programs, which is the one at hand."""
    (tmp_path / "bad.hlo").write_text(COPY)
    (tmp_path / "good.hlo").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rules_from_options(run: Any, here: Path) -> None:
    bad = run("check", "bad.hlo", "good.hlo", "--rule", "copies")
    assert bad.exit_code == 1
    assert bad.stdout.splitlines() == [
        "bad.hlo:4: error: copies: `c` copy of 32 bytes; 100.0 % of the step",
        "2 programs, 1 rule: 1 copies",
    ]
    good = run("check", "bad.hlo", "--rule", "copies:max-bytes=32")
    assert (good.exit_code, good.stdout) == (0, "1 program, 1 rule: nothing found\n")


def test_a_program_comes_from_the_standard_input_too(run: Any, here: Path) -> None:
    bad = run("check", "good.hlo", "-", "--rule", "copies", stdin=COPY)
    assert (bad.exit_code, bad.stdout.splitlines()[0]) == (
        1,
        "<stdin>:4: error: copies: `c` copy of 32 bytes; 100.0 % of the step",
    )
    broken = run("check", "-", "--rule", "copies", stdin="no program")
    assert (broken.exit_code, broken.stdout.split(": ")[:2]) == (3, ["<stdin>:1", "error"])


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", ["a" * 300, "", "x/\udcff"])
@pytest.mark.parametrize("words", ["check {} --rule copies", "scan {} -o .", "ls {}"])
def test_names_of_no_file_are_said(run: Any, here: Path, words: str, name: str) -> None:
    if words.startswith("scan"):
        pytest.importorskip("pyarrow", reason="needs the `scan` extra")
    found = run(*[word.replace("{}", name) for word in words.split()])
    assert found.exit_code in (1, 3)
    assert not isinstance(found.exception, OSError)


def test_rules_from_the_file_of_the_folder(run: Any, here: Path) -> None:
    (here / "hloscope.toml").write_text('[copies]\nseverity = "warning"\n')
    found = run("check", "bad.hlo")
    assert found.exit_code == 0
    assert "bad.hlo:4: warning: copies" in found.stdout
    other = here / "other.toml"
    other.write_text("[copies]\n")
    assert run("check", "bad.hlo", "--config", other).exit_code == 1


def test_a_baseline_hides_what_was_known(run: Any, here: Path) -> None:
    old = run("check", "bad.hlo", "--rule", "copies", "-o", "old.json", "--json")
    assert (old.exit_code, old.stdout) == (1, "")
    assert json.loads((here / "old.json").read_text())["schema"] == "hloscope.check/1"
    same = run("check", "bad.hlo", "--rule", "copies", "--baseline", "old.json")
    assert (same.exit_code, same.stdout) == (
        0,
        "1 program, 1 rule: nothing found; 1 known before\n",
    )
    (here / "bad.hlo").write_text(COPY.replace("f32[8]", "f32[16]"))
    worse = run("check", "bad.hlo", "--rule", "copies", "--baseline", "old.json")
    assert worse.exit_code == 1


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "github", "markdown"])
def test_every_form_names_the_finding(run: Any, here: Path, form: str) -> None:
    found = run("check", "bad.hlo", "--rule", "copies", "--format", form)
    assert found.exit_code == 1
    assert "copy of 32 bytes" in found.stdout


def test_the_list_names_rules_and_parameters(run: Any) -> None:
    told = run("check", "--list").stdout
    assert "copies: No copies" in told
    assert "  max-bytes [1048576]" in told
    assert "4611686018427387904" not in told


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "name the programs"),
        (["bad.hlo"], 2, "name rules"),
        (["bad.hlo", "--rule", "copys"], 2, "did you mean `copies`"),
        (["bad.hlo", "--rule", "copies:max-bytes=x"], 2, "bytes such as 4096"),
        (["none.hlo", "--rule", "copies"], 3, "no file"),
        (["bad.hlo", "--config", "none.toml"], 3, "no file `none.toml`"),
        (["bad.hlo", "--rule", "copies", "--baseline", "bad.hlo"], 3, "is not valid JSON"),
        (["bad.hlo", "--rule", "copies", "-o", "no/such/folder"], 3, "cannot write"),
        (["bad.hlo", "--rule", "utilisation:device=h1"], 2, "no device `h1`"),
        (["bad.hlo", "--rule", "types:absent=f65"], 2, "no element type `f65`"),
    ],
)
def test_wrong_questions_are_refused(
    run: Any, here: Path, arguments: list[str], code: int, said: str
) -> None:
    found = run("check", *arguments)
    assert (found.exit_code, found.stdout) == (code, "")
    assert said in found.stderr


WRONG = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
f {
  p = f32[2,8,4] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[2] reduce(p, zero), dimensions={1,3}, to_apply=add
}
ENTRY e { p = f32[2,8,4] parameter(0) ROOT r = f32[2] fusion(p), kind=kInput, calls=f }
"""


def test_a_wrong_program_is_told_where_a_rule_cannot_go_on(run: Any, here: Path) -> None:
    (here / "wrong.hlo").write_text(WRONG)
    done = run("check", "wrong.hlo", "good.hlo", "--rule", "utilisation")
    assert done.exit_code == 3
    assert done.stdout.splitlines() == [
        "wrong.hlo:6: error: unread: `reduce`: Out-of-bounds dimension 3, "
        "expected to be in range [0, 3)",
        "2 programs, 1 rule: 1 unread",
    ]
