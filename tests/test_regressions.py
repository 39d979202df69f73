"""Inputs that once broke a command: each is answered or refused, and takes little memory.

What is wrong with each, and the commands it was given to, stands in the table beside the files.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SHARED

ROOT = Path(__file__).parents[1]
FOLDER = SHARED / "regressions"
MEMORY = 1536 << 20
"""Bytes of addresses: what libraries map and do not use counts too."""
SECONDS = 300
_ROW = re.compile(r"- `(\d\d_[\w.]+)`: `([^`]+)`")
_NAMED = re.compile(r"(ls|show|print|verify|run|opt|infer|index|simplify|compose)\b[^;,]*")
QUESTIONS = ("verify", "index --all", "index --all --verify", "run --random 1 --max-steps 20000")

needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/regressions")


def _rows() -> list[tuple[str, str]]:
    """Files and commands of the table."""
    table = FOLDER / "robustness" / "README.md"
    text = table.read_text() if table.exists() else ""
    return [
        (file, found[0].strip())
        for file, commands in _ROW.findall(text)
        for found in _NAMED.finditer(commands.replace(" says fine", ""))
        if not file.endswith(".py")
    ]


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ended(words: list[str], path: Path | None = None) -> tuple[int, str]:
    """Exit code and standard error of a command that may use little memory."""
    with open(path or os.devnull, "rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "hloscope", *words], cwd=ROOT, stdin=stdin, preexec_fn=_limited,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS, check=False,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    return done.returncode, done.stderr.decode("utf-8", "replace")


def check(words: list[str], path: Path) -> None:
    """It ends by an answer or an own error."""
    code, said = ended(words, path)
    assert 0 <= code < 5, said
    assert "Traceback" not in said
    assert "internal error" not in said


@pytest.mark.slow(keep=2)
@needs_data
@pytest.mark.parametrize(("file", "command"), _rows())
def test_what_broke_a_command_is_answered(file: str, command: str) -> None:
    path = FOLDER / "robustness" / file
    words = command.split()
    if path.suffix in (".npz", ".npy"):
        words = ["run", "30_ok.hlo", "--input"]
    words = [str(path.with_name(w)) if w == "30_ok.hlo" else w for w in words]
    if words[-1] == "--input":
        words.append(str(path))
    elif "-" not in words and words[:2] != ["simplify", "--lines"]:
        words.insert(1, "-")
    check(words, path)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("question", QUESTIONS)
def test_maps_that_were_wrong_are_not_refuted(question: str, full: bool) -> None:
    paths = sorted(p for p in (FOLDER / "maps").glob("*") if p.suffix in (".hlo", ".mlir"))
    for path in paths if full else paths[:: len(QUESTIONS)]:
        first, *rest = question.split()
        check([first, "-", *rest], path)


@needs_data
def test_every_file_is_in_the_table() -> None:
    named = {file for file, _ in _rows()} | {"30_ok.hlo", "30_bomb.py", "31_intern_race.py"}
    assert {p.name for p in (FOLDER / "robustness").iterdir()} - named <= {"README.md"}


def test_endless_input_is_refused() -> None:
    code, said = ended(["verify", "/dev/zero"])
    assert (code, "Traceback" in said) == (3, False)
