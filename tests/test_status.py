"""Rows of the status table can fail: what was not asked is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import status

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
