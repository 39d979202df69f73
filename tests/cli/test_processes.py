"""The command as a process: streams, signals, readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from hloscope import __version__
from tests.cli.conftest import ROOT, chain, start


def test_the_version_is_printed() -> None:
    out, err = start("--version").communicate()
    assert (out, err) == (f"hloscope {__version__}\n", "")


def test_the_standard_input_is_read_where_a_dash_stands() -> None:
    text = (ROOT / "examples/softmax.hlo").read_text()
    process = start("ls", "-")
    out, err = process.communicate(text)
    assert (process.returncode, err) == (0, "")
    assert "softmax" in out


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    with start("ls", "-") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(chain(5_000))
        process.stdin.close()
        assert process.stdout.readline().startswith("instruction")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_an_interrupt_ends_the_command_quietly() -> None:
    with start("simplify", "-", "--lines") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write('{"map": "(d0) -> (d0), domain: d0 in [0, 9]"}\n')
        process.stdin.flush()
        assert '"changed": false' in process.stdout.readline()  # it runs, and waits for more
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.stderr.read().strip()) == ("", "interrupted")
    assert process.returncode == 130


@pytest.mark.slow
def test_a_terminal_without_unicode_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with start("ops") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "exact" in out


def test_a_terminal_gets_a_table() -> None:
    reader, writer = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", "ls", "examples/softmax.hlo"],
        cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    with process:
        os.close(writer)
        shown = b""
        try:
            while data := os.read(reader, 4096):
                shown += data
        except OSError:  # how a terminal says that its other side has gone
            pass
        assert process.stderr
        assert process.stderr.read() == b""
    os.close(reader)
    assert process.returncode == 0
    assert "─" in shown.decode()
    assert b"softmax" in shown


def test_the_installed_command_is_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['x', '--version']; "
         "from hloscope.cli import main; main()"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"hloscope {__version__}\n"
