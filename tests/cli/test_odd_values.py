"""What no option means is an error of usage or of input, for every option of every command."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from hloscope.cli.app import COMMANDS, app
from tests.cli.conftest import Run

HLO = """HloModule m
ENTRY e {
  p = f32[4,8] parameter(0)
  ROOT t = f32[8,4] transpose(p), dimensions={1,0}
}
"""
ODD = ("9" * 5000, "9" * 400 + "G", "a:" + "9" * 5000, ",".join(["9" * 5000] * 2))
NEEDED = {"banks": ("(d0) -> (d0)", "--shape", "8"), "schema": ("index",), "ops": (), "help": ()}
"""Arguments of commands that are not asked about a program."""


def options() -> list[tuple[str, str]]:
    """The commands and their options that take a value."""
    found = []
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        found += [
            (name, parameter.opts[-1])
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.is_flag
        ]
    return found


@pytest.mark.slow(keep=25)
@pytest.mark.parametrize(("name", "option"), options(), ids="".join)
def test_odd_values_are_told(run: Run, tmp_path: Path, name: str, option: str) -> None:
    two = name in ("equal", "compose", "query")
    arguments = NEEDED.get(name, ("-", "-") if two else ("-",))
    for value in ODD:
        values = (
            (option, str(tmp_path / "out")) if option in ("-o", "--output") else (option, value)
        )
        result = run(name, *arguments, *values, stdin=HLO)
        said = f"{name} {option} {value[:9]}: {result.stderr[:300]}"
        assert result.exit_code != 5, said
        assert result.exception is None or isinstance(result.exception, SystemExit), said


def test_json_escapes_bytes_of_names_that_were_no_utf8(run: Run, tmp_path: Path) -> None:
    artifact = tmp_path / "tan.bc"
    assert run("serialize", "examples/tan.mlir", "-o", artifact).exit_code == 0
    data = artifact.read_bytes()
    assert b"func_v1" in data
    result = run("doctor", "-", "--json", stdin=data.replace(b"func_v1", b"func\x8cv1"))
    assert result.exit_code == 0
    assert "func\\udc8cv1" in result.stdout
    assert json.loads(result.stdout)["schema"] == "hloscope.doctor/1"
