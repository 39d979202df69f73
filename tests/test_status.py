"""Rows of the status table can fail: what was not asked is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import status, status_soundness

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


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(\"failures: Counter({'missing back': 2, 'crash': 1})\")", "3 failures in 10,000"),
        ("print('failures: Counter()')", "0 failures in 10,000"),
        ("raise SystemExit(2)", "not measured, the search ended with 2"),
        ("print('nothing')", "not measured, the search ended with 0"),
    ],
)
def test_generated_programs_that_fail_are_counted(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "tests/agreement/search.py"
    script.parent.mkdir(parents=True)
    for folder in (script.parent, script.parent.parent):
        (folder / "__init__.py").touch()
    script.write_text(code)
    monkeypatch.setattr(status_soundness, "ROOT", tmp_path)
    figure, _ = status_soundness.generated()
    assert figure.count(said) == 2
