"""`run --expect` and `--compare` say what they compared; comparing nothing is no agreement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = "HloModule m\nENTRY e { p = f32[2] parameter(0)\n  ROOT n = f32[2] negate(p) }\n"


def test_expect_says_what_was_compared(run: Any, ask: Any, tmp_path: Path) -> None:
    stored = tmp_path / "out.npz"
    given = ("run", "-", "--random", "1")
    assert run(*given, "--output", stored, stdin=PROGRAM).exit_code == 0
    result = run(*given, "--expect", stored, stdin=PROGRAM)
    assert result.exit_code == 0
    assert f"1 result compared with {stored}: no difference within --tolerance" in result.stdout
    report = ask(*given, "--expect", stored, "--json", stdin=PROGRAM)
    assert "'results': 1" in str(report)
    other = run("run", "-", "--random", "2", "--expect", stored, stdin=PROGRAM)
    assert other.exit_code == 1
    assert "no difference" not in other.stdout


def test_the_arrays_of_a_tuple_count_one_by_one(run: Any, tmp_path: Path) -> None:
    stored, given = tmp_path / "out.npz", ("run", "examples/transpose.hlo", "--random", "1")
    assert run(*given, "--output", stored).exit_code == 0
    assert f"2 results compared with {stored}" in run(*given, "--expect", stored).stdout


@pytest.mark.parametrize("option", ["--expect", "--compare", "--output", "--input", "--values"])
def test_an_empty_name_is_no_file(run: Any, option: str) -> None:
    result = run("run", "-", "--random", "1", option, "", stdin=PROGRAM)
    assert result.exit_code == 2
    assert "the name of a file is empty" in result.stderr


def test_comparing_nothing_is_no_agreement(run: Any, tmp_path: Path) -> None:
    stored = tmp_path / "other.npz"
    np.savez(stored, unknown=np.zeros(3))
    result = run("run", "-", "--random", "1", "--compare", stored, stdin=PROGRAM)
    assert result.exit_code == 1
    assert "no instruction has a name of the values given" in result.stderr
    assert "no difference" not in result.stdout
    empty = tmp_path / "empty.hlo"
    empty.write_text("HloModule m\nENTRY e { ROOT t = () tuple() }\n")
    result = run("run", empty, "--compare", empty)
    assert result.exit_code == 1
    assert "nothing was compared" in result.stdout
