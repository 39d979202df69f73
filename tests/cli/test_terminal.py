"""What a person at a terminal has: a pager for long results, tables that fit, completion, help."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from hloscope.cli.app import COMMANDS
from tests.cli.conftest import ROOT, Run

LONG = """ENTRY e {{
  p0 = f32[8] parameter(0)
{}
  ROOT last = f32[8] add(p0, p60)
}}
""".format("\n".join(f"  p{k} = f32[8] add(p{k - 1}, p0)" for k in range(1, 61)))
PAGER = "sed s/^/paged:/"


def at_terminal(*arguments: str, columns: int = 80, **environment: str) -> tuple[int, str, str]:
    """Exit code, what a terminal of 24 lines is sent, and the standard error."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    usual = {k: v for k, v in os.environ.items() if k not in ("LINES", "COLUMNS", "PAGER")}
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", *arguments],
        cwd=ROOT, stdin=writer, stdout=writer, stderr=subprocess.PIPE,
        env={**usual, "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(writer)
    shown = b""
    try:
        while data := os.read(reader, 1 << 16):
            shown += data
    except OSError:  # how a terminal says that its other side has gone
        pass
    os.close(reader)
    _, errors = process.communicate()
    return process.returncode, shown.decode(), errors.decode()


@pytest.fixture
def long(tmp_path: Path) -> str:
    path = tmp_path / "long.hlo"
    path.write_text(LONG)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["ls"], ["show", "*"], ["index", "p*"], ["infer"], ["print"]], ids=lambda a: a[0]
)
def test_long_results_are_paged_on_a_terminal_only(arguments: list[str], long: str) -> None:
    command, *rest = arguments
    code, shown, errors = at_terminal(command, long, *rest, PAGER=PAGER)
    assert (code, errors) == (0, "")
    assert shown.count("paged:") > 60
    piped = subprocess.run(
        [sys.executable, "-m", "hloscope", command, long, *rest],
        capture_output=True, text=True, env={**os.environ, "PAGER": PAGER}, check=True,
    )  # fmt: skip
    assert "paged:" not in piped.stdout


def test_short_results_are_not_paged() -> None:
    code, shown, _ = at_terminal("index", "examples/softmax.hlo", PAGER=PAGER)
    assert code == 0
    assert "paged:" not in shown


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("pager", ["head -1", "true", "/no/such/pager"])
def test_a_pager_that_is_left_or_absent_is_no_error(pager: str, long: str) -> None:
    code, shown, errors = at_terminal("index", long, "p*", PAGER=pager)
    assert (code, errors) == (0, "")
    assert ("operand 0" in shown) == (pager == "/no/such/pager")


def test_a_table_keeps_names_whole_on_a_narrow_terminal(tmp_path: Path) -> None:
    name = "a_fusion_with_a_rather_long_name_of_its_own.1234"
    path = tmp_path / "names.hlo"
    path.write_text(
        f"ENTRY e {{ {name} = f32[8] parameter(0), metadata="
        f'{{op_name="{"very/" * 30}deep" source_file="{"folder/" * 20}f.py" source_line=7}}\n'
        f"  ROOT r = f32[8] add({name}, {name}) }}\n"
    )
    code, shown, _ = at_terminal("ls", str(path))
    assert code == 0
    assert name in shown
    assert all(len(click.unstyle(line)) <= 80 for line in shown.splitlines())


def completed(words: str) -> list[str]:
    """What the shell is told for the last of the words."""
    position = str(len(words.split(" ")) - 1)
    told = subprocess.run(
        [sys.executable, "-c", "from hloscope.cli import main; main()"],
        env={**os.environ, "_HLOSCOPE_COMPLETE": "bash_complete", "COMP_WORDS": words,
             "COMP_CWORD": position},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.split()


@pytest.mark.slow
def test_the_shell_completes_commands_options_values_and_files() -> None:
    assert completed("hloscope in") == ["plain,index", "plain,infer"]
    assert completed("hloscope index --from") == ["plain,--from-operand"]
    assert "plain,latex" in completed("hloscope index --format l")
    assert completed("hloscope coalesce --device h") == [
        "plain,h100",
        "plain,h100_pcie",
        "plain,h200",
    ]
    for words in ("index exam", "infer exam", "verify exam", "run --expect exam"):
        assert completed(f"hloscope {words}") == ["file,exam"]


@pytest.mark.slow
def test_the_shell_completes_names_in_the_file() -> None:
    file = "examples/kv_cache.hlo"
    assert completed(f"hloscope index {file} embed_") == ["plain,embed_fusion"]
    assert completed(f"hloscope show {file} append/append.c") == ["plain,append/append.cache"]
    assert completed(f"hloscope ls {file} app") == ["plain,append"]
    assert completed(f"hloscope equal {file}:embed_") == [f"plain,{file}:embed_fusion"]
    assert completed("hloscope schema tile_") == ["plain,tile_space"]
    assert completed("hloscope help in") == ["plain,index", "plain,infer"]


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("file", ["no_such_file", "-", "README.md", "examples"])
def test_completion_says_nothing_of_what_it_cannot_read(file: str) -> None:
    assert completed(f"hloscope index {file} x") == []


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_shows_no_marks_of_its_source(run: Run, name: str) -> None:
    text = run(*([name] if name else []), "--help").stdout
    assert "--help" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f]|\\b|``", text)
