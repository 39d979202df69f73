"""Rows of the status table can fail: what was not asked is no verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, measuring, planting, status, status_house, status_soundness, walk

CHILD = """
import json, sys
assert sys.argv[1] == "same"
for line in sys.stdin:
    number, original, printed = json.loads(line)
    print(number, "started", flush=True)
    if original == "dies":
        sys.exit(3)
    print(number, json.dumps("same" if original == printed else "differs: x / y"), flush=True)
"""


def child(folder: Path, text: str) -> None:
    script = folder / "tests/hlo_parser/xla_child.py"
    script.parent.mkdir(parents=True)
    script.write_text(text)


def test_verdicts_are_read_and_texts_that_end_the_process_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(tmp_path, CHILD)
    monkeypatch.setattr(status, "ROOT", tmp_path)
    pairs = [("a", "1", "1"), ("b", "dies", ""), ("c", "2", "3")]
    assert list(status.xla_verdicts(pairs)) == [
        ("a", "same"),
        ("b", "original"),
        ("c", "differs: x / y"),
    ]


def test_a_child_that_does_not_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(tmp_path, "import nothing_of_that_name")
    monkeypatch.setattr(status, "ROOT", tmp_path)
    with pytest.raises(RuntimeError, match="nothing_of_that_name"):
        list(status.xla_verdicts([("a", "1", "1")]))


def search(folder: Path, name: str, code: str) -> None:
    script = folder / f"tests/{name}/search.py"
    script.parent.mkdir(parents=True)
    for package in (script.parent, script.parent.parent):
        (package / "__init__.py").touch()
    script.write_text(code)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(\"failures: Counter({'missing back': 2, 'crash': 1})\")", "3 failures in 10,000"),
        ("print('failures: Counter()')", "0 failures in 10,000"),
        ("raise SystemExit(2)", "not measured, the search ended with 2"),
        ("print('failures: Counter()'); raise SystemExit(3)", "the search ended with 3"),
        ("print('nothing')", "not measured, the search ended with 0"),
    ],
)
def test_generated_programs_that_fail_are_counted(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(tmp_path, "agreement", code)
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    figure, _ = status_soundness.generated()
    assert figure.count(said) == 2


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('7 programs, 2 with contradictions')", "2 contradictions in 7 programs"),
        ("raise SystemExit(2)", "not measured, the search ended with 2"),
        ("print('nothing')", "not measured, the search ended with 0"),
    ],
)
def test_changed_ops_with_contradictions_are_counted(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(tmp_path, "verifier", code)
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    figure, _ = status_soundness.swept()
    assert figure.count(said) == 2


def test_broken_input_is_counted_in_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "benchmarks/robustness.py"
    script.parent.mkdir()
    script.write_text("""import json, sys
seed = int(sys.argv[-1])
if seed % 4 == 3:
    sys.exit(1)
print(json.dumps({"counts": {"fine": 2, "raw error": seed % 2}, "slow": 1, "slowest": 2.5,
                  "megabytes": 80}))
""")
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    monkeypatch.setattr(status_soundness, "MUTATIONS", 4 * status_soundness.EACH)
    figure, _ = status_soundness.commands()
    assert (
        figure == "1 other answers of 7, 3 over 2 s; slowest 2.5 s; 80 MB; 1 processes ended early"
    )


def test_faults_that_are_not_noticed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "benchmarks/planted_faults.py"
    script.parent.mkdir()
    script.write_text("""import json
ends = ["caught", "caught", "survived", "never entered", "equivalent"]
for line, end in enumerate(ends):
    print(json.dumps({"path": "a.py", "line": line, "function": "f", "what": "x < y  ->  LtE",
                      "end": end, "why": "x is never y" * (end == "equivalent"),
                      "suite": ["quick", "full", None, None, None][line]}))
""")
    monkeypatch.setattr(measuring, "ROOT", tmp_path)
    figure, notes = status_house.planted()
    assert (
        figure
        == "2 of 4 (50.00 %) caught, 1 of 4 (25.00 %) by the quick tests; 1 more change nothing"
    )
    assert [note.split(":")[0] for note in notes] == ["survived", "never entered", "equivalent"]
    assert notes[-1].endswith("(x is never y)")


@pytest.mark.slow
def test_faults_that_change_nothing_can_be_planted() -> None:
    """A row whose code has changed would excuse another fault, or none."""
    names = {key.partition(" ")[0] for key in planting.EQUIVALENT}
    possible: set[str] = set()
    for room in planting.ROOMS:
        for path in (measuring.ROOT / "hloscope" / room).rglob("*.py"):
            if path.name in names:
                possible |= planting.possible(path)
    assert not planting.EQUIVALENT.keys() - possible


def test_a_walk_names_the_files_it_enters() -> None:
    for language in walk.LANGUAGES:
        files = walk.entered(language, "value")
        assert {"api/program.py", "interpreter/ops/windows.py"} <= {*files}
        assert "indexing/rules/windows.py" in walk.entered(language, "map")


def test_what_grows_too_fast_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process ends with 1, and the row of the status names what is not linear."""
    exponents = {"slices to parameters": 1.05, "turns of a loop": 1.31}

    def measured(name: str) -> dict[str, Any]:
        return {"row": name, "sizes": (1, 2), "ms": [1.0, 2.0], "exponent": exponents[name]}

    monkeypatch.setattr(growth, "measure", measured)
    monkeypatch.setattr(sys, "argv", ["growth.py", "slices to parameters"])
    with pytest.raises(SystemExit, match="False"):
        growth.main()
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["growth.py", "--json", *exponents])
    with pytest.raises(SystemExit, match="True"):
        growth.main()
    lines = capsys.readouterr().out.splitlines()
    monkeypatch.setattr(status, "benchmark", lambda name: [json.loads(line) for line in lines])
    figure, notes = status.growing()
    assert figure == (
        "1 of 2 (50.00 %) questions grow by at most n ** 1.1; exponents 1.05–1.31; "
        "FAILS: turns of a loop above n ** 1.3"
    )
    assert len(notes) == len(exponents)
