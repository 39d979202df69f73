"""The tool that hashes answers: equal programs have equal ones, and a difference is listed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = "ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0} }"


def tool(shared: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.answers", *arguments],
        cwd=ROOT, env={**os.environ, "HLOSCOPE_SHARED": str(shared)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_an_answer_that_changes_is_found(tmp_path: Path) -> None:
    program = tmp_path / "real" / "models" / "a.hlo"
    program.parent.mkdir(parents=True)
    before, same, after = [tmp_path / f"{name}.jsonl" for name in ("before", "same", "after")]
    for target, text in (
        (before, PROGRAM),
        (same, PROGRAM),
        (after, PROGRAM.replace("dimensions={1,0}", "dimensions={0,0}")),
    ):
        program.write_text(text)
        families = ["--family", "index", "--family", "print"]
        done = tool(tmp_path, "hash", str(target), *families)
        assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in before.read_text().splitlines()]
    assert sorted((one["family"], one["code"]) for one in answers) == [("index", 0), ("print", 0)]
    equal = tool(tmp_path, "compare", str(before), str(same))
    assert (equal.returncode, "2 answers, 0 different" in equal.stdout) == (0, True)
    changed = tool(tmp_path, "compare", str(before), str(after))
    assert changed.returncode == 1
    assert "different: index real/models/a.hlo (exit code 0 -> 3)" in changed.stdout
