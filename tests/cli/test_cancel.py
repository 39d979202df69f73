"""`hloscope cancel`: on programs of all kinds, hostile ones too."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hloscope import parse_hlo
from hloscope.cli.app import app
from tests.conftest import SHARED

BACK_AND_FORTH = """
f {
  q = f32[8,4] parameter(0)
  n = f32[8,4] negate(q)
  ROOT u = f32[4,8] transpose(n), dimensions={1,0}
}
ENTRY e {
  p = f32[4,8] parameter(0)
  t = f32[8,4] transpose(p), dimensions={1,0}
  ROOT w = f32[4,8] fusion(t), kind=kLoop, calls=f
}
"""
FOUR = "f32[4,4] parameter(0)"
HOSTILE = {
    "zero-sized": "ENTRY e { p = f32[0,4] parameter(0) ROOT t = f32[4,0] transpose(p), "
    "dimensions={1,0} }",
    "rank 0": "ENTRY e { p = f32[] parameter(0) ROOT r = f32[1,1] reshape(p) }",
    "dynamic": "ENTRY e { p = f32[<=4,4] parameter(0) ROOT c = f32[<=4,4] copy(p) }",
    "tuple root": f"ENTRY e {{ p = {FOUR} t = f32[4,4] transpose(p), dimensions={{1,0}} "
    "ROOT r = (f32[4,4], f32[4,4]) tuple(t, t) }",
    "tuple copied": f"ENTRY e {{ p = {FOUR} t = (f32[4,4]) tuple(p) ROOT c = (f32[4,4]) copy(t) }}",
    "huge": "ENTRY e { p = f32[1073741824,1073741824] parameter(0) ROOT t = "
    "f32[1073741824,1073741824] transpose(p), dimensions={1,0} }",
    "nothing moves": "ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }",
    "joined of nothing": "ENTRY e { p = f32[0] parameter(0) q = f32[4] parameter(1) "
    "ROOT c = f32[4] concatenate(p, q), dimensions={0} }",
    "itself added": f"ENTRY e {{ p = {FOUR} t = f32[4,4] transpose(p), dimensions={{1,0}} "
    "s = f32[4,4] add(p, t) ROOT u = f32[4,4] transpose(s), dimensions={1,0} }",
}


def cancel(tmp_path: Path, text: str, *arguments: str) -> Result:
    file = tmp_path / "program.hlo"
    file.write_text(text)
    done = CliRunner().invoke(app, ["cancel", str(file), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def test_a_chain_through_a_fusion_is_a_no_op(tmp_path: Path) -> None:
    done = cancel(tmp_path, BACK_AND_FORTH, "u", "--json")
    (chain,) = json.loads(done.output)["chains"]
    assert (chain["verdict"], chain["blocking"]) == ("no-op", None)
    assert [step["name"] for step in chain["steps"]] == ["t", "n", "u"]
    assert (chain["bytes_written"], chain["bytes_saved"]) == (256, 128)
    assert chain["rewriting"]["checked"] == "run"
    assert len(parse_hlo(chain["rewriting"]["text"]).entry) == 2
    assert chain["sources"][0]["proof"] == "proved"


@pytest.mark.parametrize("form", ["svg", "html"])
def test_pictures_are_well_formed_and_tell_the_verdict(tmp_path: Path, form: str) -> None:
    done = cancel(tmp_path, BACK_AND_FORTH, "--format", form)
    svg = done.output[done.output.index("<svg") : done.output.index("</svg>") + 6]
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert "u: no-op" in texts
    assert texts.count("transpose") == 2


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_programs_get_an_answer(tmp_path: Path, text: str) -> None:
    done = cancel(tmp_path, text)
    assert done.exit_code == 0
    all_chains = done.output
    assert "chain" in all_chains
    done = cancel(tmp_path, text, "*")
    assert done.exit_code == (2 if "no chains" in all_chains else 0)


def test_a_chain_of_sixty_four_pairs_cancels(tmp_path: Path) -> None:
    lines = [f"x0 = {FOUR}"]
    for k in range(128):
        lines.append(f"x{k + 1} = f32[4,4] transpose(x{k}), dimensions={{1,0}}")
    done = cancel(tmp_path, "ENTRY e {\n" + "\n".join([*lines[:-1], f"ROOT {lines[-1]}"]) + "\n}")
    assert done.output.split("\n")[1].split()[:2] == ["x128", "no-op"]


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("ENTRY e { p = f32[8,4]{0,1} parameter(0) ROOT n = f32[8,4]{0,1} copy(p) }", 0),
        ("ENTRY e { p = f32[4,8] parameter(0) ROOT n = f32[32] reshape(p) }", 0),
        ("ENTRY e { p = f32[4,8] parameter(0) ROOT n = f32[4,8] reverse(p), dimensions={0} }", 1),
    ],
)
def test_two_programs_that_move_the_same_bytes(tmp_path: Path, other: str, code: int) -> None:
    file = tmp_path / "other.hlo"
    file.write_text(other)
    assert cancel(tmp_path, BACK_AND_FORTH, str(file)).exit_code == code


def test_wrong_names_and_limits_are_refused(tmp_path: Path) -> None:
    assert cancel(tmp_path, BACK_AND_FORTH, "nobody").exit_code == 2
    assert cancel(tmp_path, BACK_AND_FORTH, "p").exit_code == 2
    assert cancel(tmp_path, BACK_AND_FORTH, "--top", "0").exit_code == 2
    assert cancel(tmp_path, "ENTRY e { p = f32[4 parameter(0) }").exit_code == 3


def models(full: bool) -> list[Path]:
    files = sorted((SHARED / "real/models").glob("*.hlo.txt"))
    return files if full else [f for f in files if f.stat().st_size < 150_000][:6]


def test_every_chain_of_real_models_gets_a_verdict(full: bool) -> None:
    files = models(full)
    if not files:
        pytest.skip("needs the conformance data beside the checkout (../shared)")
    for file in files:
        done = CliRunner().invoke(app, ["cancel", str(file), "--json", "--top", "3"])
        assert done.exit_code == 0, (file, done.output[:500])
        answer = json.loads(done.output)
        assert answer["verdicts"].get("undecided", 0) == 0, file


def test_a_bitcast_to_elements_of_another_width_moves_no_elements(tmp_path: Path) -> None:
    text = "ENTRY e { p = f32[4] parameter(0) b = u8[4,4] bitcast(p) ROOT r = u8[16] reshape(b) }"
    (chain,) = json.loads(cancel(tmp_path, text, "--json").output)["chains"]
    assert (chain["name"], chain["verdict"]) == ("r", "bitcast")
    assert chain["sources"][0]["name"] == "b"
