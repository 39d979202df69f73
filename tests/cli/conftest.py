"""Run the command, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hloscope.cli.app import app

ROOT = Path(__file__).parents[2]

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("ls", file)`: the command's result; started in the repository's folder."""
    monkeypatch.chdir(ROOT)

    def invoke(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(
            app, [str(a) for a in arguments], input=stdin, prog_name="hloscope"
        )

    return invoke


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """`ask("ls", file, "--json")`: what it prints as JSON; fails if the command does."""

    def invoke(*arguments: str | Path, stdin: str | bytes | None = None) -> Any:
        result = run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        assert not result.stderr
        return json.loads(result.stdout)

    return invoke


def chain(length: int) -> str:
    """A program of `length` negations, one after the other."""
    body = "".join(f"  x{i + 1} = f32[4] negate(x{i})\n" for i in range(length))
    root = f"  ROOT r = f32[4] abs(x{length})\n"
    return f"HloModule m\nENTRY e {{\n  x0 = f32[4] parameter(0)\n{body}{root}}}\n"


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own, with pipes for all three streams."""
    return subprocess.Popen(
        [sys.executable, "-m", "hloscope", *arguments],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        **options,
    )
