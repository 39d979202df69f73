"""Bad input is answered with what is wrong, where, and what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SOFTMAX = "examples/softmax.hlo"


@pytest.mark.parametrize("command", ["ls", "index", "show", "serialize", "deserialize", "doctor"])
def test_a_missing_file_is_told_with_near_names(run: Any, command: str) -> None:
    result = run(command, "examples/sofmax.hlo", *(["x"] if command == "show" else []))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "examples/sofmax.hlo" in result.stderr
    assert "`softmax.hlo`" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_folder_is_told(run: Any) -> None:
    result = run("ls", "no/such/folder/x.hlo")
    assert result.exit_code == 3
    assert "no/such/folder/x.hlo" in result.stderr


def test_a_directory_is_no_file(run: Any) -> None:
    result = run("index", "examples")
    assert result.exit_code == 3
    assert "directory" in result.stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"  \n\n", "empty"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", "a compiled program (ELF)"),
        (b"HloModule m \x00\x01", "binary"),
        (b"HloModule m\nENTRY e { ROOT x = f32[] constant(0) } \xff\xfe", "UTF-8"),
        (b"<\0\0\08\0d\0b\0\xc8ML\xefR\rStableHLO_v1.0.0", "jax.export.deserialize"),
    ],
    ids=["nothing", "white space", "ELF", "binary", "not UTF-8", "what jax.export serializes"],
)
def test_what_is_no_text_is_told(run: Any, tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "dump.hlo"
    file.write_bytes(data)
    for result in (run("ls", file), run("ls", "-", stdin=data)):
        assert (result.exit_code, result.stdout) == (3, "")
        assert message in result.stderr


@pytest.mark.parametrize("command", ["deserialize", "doctor"])
def test_a_text_is_no_artifact(run: Any, command: str) -> None:
    result = run(command, SOFTMAX)
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"{SOFTMAX} is neither MLIR bytecode nor what `jax.export` writes" in result.stderr


def test_a_text_error_has_line_column_and_caret(run: Any) -> None:
    text = "HloModule m\nENTRY e {\n  y = f32[2] parameter(0)\n  ROOT x = f32[2] sclie(y)\n}\n"
    result = run("index", "-", stdin=text)
    assert result.exit_code == 3
    message, line, caret = result.stderr.rstrip().splitlines()
    assert message.startswith("<stdin>:4:")
    assert "slice" in message
    assert line[caret.index("^") :].startswith("sclie")


@pytest.mark.parametrize("command", ["index", "show"])
def test_an_unknown_instruction_is_told_with_near_names(run: Any, command: str) -> None:
    result = run(command, SOFTMAX, "sofmax")
    assert result.exit_code == 2
    assert "`softmax`" in result.stderr


def test_an_unknown_command_is_told_with_near_names(run: Any) -> None:
    result = run("indx", SOFTMAX)
    assert result.exit_code == 2
    assert "did you mean `index`" in result.stderr


@pytest.mark.parametrize("command", ["ls", "show", "index", "simplify", "compose", "ops"])
def test_every_command_has_help_and_json(run: Any, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "--debug" in result.stdout


def test_a_bug_of_ours_has_no_traceback_unless_asked_for(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("hloscope.cli.programs.read_program", broken)
    result = run("ls", SOFTMAX)
    assert result.exit_code == 5
    assert "internal error: RuntimeError: planted" in result.stderr
    assert "Traceback" not in result.stderr
    for arguments in (["--debug", "ls", SOFTMAX], ["ls", SOFTMAX, "--debug"]):
        with pytest.raises(RuntimeError, match="planted"):
            raise run(*arguments).exception


def test_an_interrupt_is_quiet(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hloscope.cli.programs.read_program", interrupted)
    result = run("ls", SOFTMAX)
    assert result.exit_code == 130
    assert result.stderr.strip() == "interrupted"
