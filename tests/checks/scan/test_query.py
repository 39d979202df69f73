"""Questions about scans: those with names, SQL, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hloscope.api import QUESTIONS, ask, scan_files, schema
from hloscope.cli.app import app
from hloscope.errors import HloscopeError

pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `scan`)")
pytest.importorskip("duckdb", reason="needs duckdb (the extra `scan`)")

ROOT = Path(__file__).parents[3]
OLD = """HloModule m, is_scheduled=true, frontend_attributes={fingerprint_before_lhs="1"}
ENTRY e {
  p = f32[1024,1024] parameter(0)
  t = f32[1024,1024] transpose(p), dimensions={1,0},
    metadata={op_name="a/t" source_file="m.py" source_line=3}
  ROOT n = f32[1024,1024] negate(t), metadata={op_name="a/n" source_file="m.py" source_line=4}
}"""
NEW = OLD.replace("[1024,1024] parameter(0)", "[1024,1024]{0,1} parameter(0)").replace(
    "t = f32[1024,1024] transpose(p), dimensions={1,0}", "t = f32[1024,1024] abs(p)"
)
NEW = NEW.replace("negate(t)", "negate(p)")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words, prog_name="hloscope")


def right(done: Result) -> Any:
    """What was printed as JSON, which is as its schema says."""
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema (the extra `dev`)")
    told = json.loads(done.stdout)
    described = schema(told["schema"])
    jsonschema.validate(told, {**described, "additionalProperties": False})
    return told


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scan")
    (folder / "bad.hlo").write_text("HloModule bad\nENTRY")
    (folder / "call.hlo").write_text(
        'ENTRY e { p = f32[4] parameter(0) ROOT c = f32[4] custom-call(p), custom_call_target="f" }'
    )
    scan_files([str(ROOT / "examples"), str(folder)], folder / "out", jobs=1)
    return folder / "out"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_named_question_has_an_answer(name: str, examples: Path) -> None:
    found = ask(name, [examples] * QUESTIONS[name].scans, top=3)
    assert len(found.rows) <= 3
    assert bool(found.rows) == (name != "worse")
    assert all(len(row) == len(found.columns) for row in found.rows)


@pytest.mark.slow
def test_what_wastes_most_comes_first(examples: Path) -> None:
    found = ask("waste", [examples])
    wasted = [row[found.columns.index("wasted_bytes")] for row in found.rows]
    assert wasted == sorted(wasted, reverse=True)
    assert found.rows[0][found.columns.index("name")] == "residual_fusion"


def test_what_got_worse_is_told_by_where_it_comes_from(tmp_path: Path) -> None:
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.hlo").write_text(text)
        scan_files([str(tmp_path / f"{name}.hlo")], tmp_path / name, jobs=1)
    both = [tmp_path / "old", tmp_path / "new"]
    found = ask("worse", both)
    (row,) = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert (row["op_name"], row["source"]) == ("a/n", "m.py")
    assert row["wasted"] > row["old_wasted"] == 0
    assert not ask("worse", both[::-1]).rows
    told = run(
        "query", "select count(*) from kernels join old_kernels using (op_name)", *map(str, both)
    )
    assert told.stdout.split() == ["count_star()", "2"]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("wast", "did you mean `waste`"),
        ("select * from kernel", "Did you mean"),
        ("copy kernels to 'FOLDER/x.csv'", "disabled"),
        ("select * from read_csv('/etc/passwd')", "disabled"),
        ("attach 'FOLDER/x.db'", "disabled"),
        ("set enable_external_access = true", "Cannot"),
        ("install httpfs", "disabled"),
        ("select sum(", "syntax"),
        (" ", "empty"),
        ("worse", "two directories"),
    ],
)
def test_what_is_no_question_or_wants_out_is_refused(
    question: str, said: str, examples: Path, tmp_path: Path
) -> None:
    done = run("query", question.replace("FOLDER", str(tmp_path)), str(examples))
    assert done.exit_code == 3, done.output
    assert said.lower() in done.stderr.lower()
    assert not list(tmp_path.iterdir())


def test_there_must_be_a_scan(tmp_path: Path) -> None:
    for name in ("nothing", "."):
        with pytest.raises(HloscopeError, match="no scan is in"):
            ask("waste", [tmp_path / name])
    (tmp_path / "modules.parquet").write_text("no table")
    with pytest.raises(HloscopeError, match="DuckDB"):
        ask("waste", [tmp_path])


def test_the_commands_say_how_it_went(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    softmax = (ROOT / "examples/softmax.hlo").read_text()
    (tmp_path / "in/softmax.hlo").write_text(softmax)
    out = str(tmp_path / "out")
    done = run("scan", str(tmp_path / "in"), "-o", out, "-j", "1")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "1 file, 0 known from before: 1 ok"
    (tmp_path / "in/bad.hlo").write_text("ENTRY")
    done = run("scan", str(tmp_path / "in"), "-o", out, "-j", "1", "--json")
    assert done.exit_code == 1
    told = right(done)
    assert (told["files"], told["known"], told["statuses"]["broken"]) == (2, 1, 1)
    assert told["troubles"][0]["file"].endswith("bad.hlo")
    done = run("scan", str(tmp_path / "in"), "-o", out, "-j", "1")
    assert "bad.hlo: broken: " in done.stderr
    done = run("query", "select name, opcodes from kernels", out, "--json")
    (row,) = right(done)["rows"]
    assert row[0] == "softmax"
    assert row[1]["fusion"] == 1 if "fusion" in row[1] else row[1]["reduce"] == 2
    assert run("query", "--list").stdout.count("\n") == len(QUESTIONS)
    told = json.loads(run("query", "--list", "--json").stdout)
    assert [name for name, _ in told["rows"]] == list(QUESTIONS)


@pytest.mark.parametrize(
    "words",
    [
        ["scan", "-o", "x"],
        ["scan", "examples"],
        ["scan", "examples", "-o", "x", "-j", "0"],
        ["scan", "examples", "-o", "x", "--max-memory-per-file", "much"],
        ["scan", "examples", "-o", "x", "--max-seconds-per-file", "0"],
        ["query"],
        ["query", "waste"],
        ["query", "waste", "x", "--json", "--tsv"],
    ],
)
def test_errors_of_usage(words: list[str]) -> None:
    assert run(*words).exit_code == 2
