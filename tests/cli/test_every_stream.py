"""Every command with streams that are closed, full or endless: said in our words, and it ends."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pytest

from hloscope.cli.app import COMMANDS, app
from hloscope.cli.streams import MOST_OF_A_MAP
from tests.cli.conftest import ROOT

HLO, MLIR, MAP = (
    "examples/softmax.hlo",
    "examples/softmax.mlir",
    "(d0) -> (d0), domain: d0 in [0, 3]",
)
PTX = "examples/saxpy.ptx"
ASKED: Final[dict[str, list[str]]] = {
    "show": [HLO, "softmax"],
    "run": [HLO, "--random", "1"],
    "opt": [HLO, "--fold"],
    "banks": ["(th_x) -> (th_x), domain: th_x in [0, 31]", "--element", "f32"],
    "equal": [HLO, HLO],
    "diff": [HLO, HLO],
    "cancel": [HLO, HLO],
    "check": [HLO, "--rule", "copies"],
    "simplify": [MAP],
    "compose": [MAP, MAP],
    "serialize": [MLIR],
    "refine": [MLIR],
    "ops": [],
    "schema": [],
    "help": [],
    "query": ["--list"],
    "ptx": [PTX, "--grid", "1", "--block", "32", "--args", "n=9 a=2 x=f32[9] y=f32[9]"],
}
"""What each command is asked that says something; the others about a file."""
QUIET: Final = {"deserialize", "doctor", "banks", "coalesce", "serialize", "cancel"}


class Stream(io.TextIOWrapper):
    """A text stream over bytes."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(raw, write_through=True)


def ended(words: list[str], monkeypatch: pytest.MonkeyPatch, **streams: object) -> tuple[int, str]:
    """Exit code and standard error of a command with streams of its own, in this process."""
    said = io.StringIO()
    monkeypatch.chdir(ROOT)
    with monkeypatch.context() as patched:
        for name, stream in {"stderr": said, **streams}.items():
            patched.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as exit_:
            app.main(words, prog_name="hloscope")
    return int(exit_.value.code or 0), said.getvalue()


def reads_stdin(command: str) -> list[str]:
    return [command, *("-" if w in (HLO, MLIR, MAP, PTX) else w for w in ASKED.get(command, [HLO]))]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_input_is_said(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = reads_stdin(command)
    code, said = ended(words, monkeypatch, stdin=None, stdout=io.StringIO())
    assert "internal" not in said
    assert code < 5
    if words.count("-") == 1 and code != 2:
        assert "cannot read the standard input: it is closed" in said


@pytest.mark.slow(keep=8)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_output_is_said(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [command, *ASKED.get(command, [HLO])]
    if command == "scan":
        pytest.importorskip("pyarrow", reason="needs the `scan` extra")
        words += ["-o", str(tmp_path)]
    code, said = ended(words, monkeypatch, stdout=None)
    assert "internal" not in said
    assert code in ((2, 3) if command in QUIET else (3,))
    if code == 3 and command not in ("deserialize", "doctor"):
        assert "cannot write the standard output: it is closed" in said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    ("words", "code"),
    [("footprint examples/softmax.hlo", 0), ("ls no.hlo", 3), ("opt examples/softmax.hlo", 2)],
)
def test_errors_that_nobody_takes_change_nothing(words: str, code: int) -> None:
    done = subprocess.run(
        f'"{sys.executable}" -m hloscope {words} 2>/dev/full',
        cwd=ROOT, shell=True, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, bool(done.stdout)) == (code, code == 0)


@pytest.mark.slow
def test_a_file_does_not_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    words = f"run examples/softmax.hlo --random 1 --output {tmp_path / 'out.npz'}"
    done = subprocess.run(
        f'"{sys.executable}" -m hloscope {words} <&- >&- 2>&-', cwd=ROOT, shell=True, check=False
    )
    assert done.returncode == 3
    with np.load(tmp_path / "out.npz") as found:
        assert [found[name].shape for name in found] == [(8, 16, 32)]


class Endless(io.RawIOBase):
    """Zeros without end, or lines; those that are read are counted."""

    def __init__(self, text: bytes) -> None:
        self.text, self.count = text, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        size = len(buffer)
        self.count += size
        buffer[:] = (self.text * (size // len(self.text) + 1))[:size]
        return size


@pytest.mark.parametrize(
    "command", [["simplify", "-"], ["simplify", "--lines"], ["compose", "-", MAP]]
)
def test_an_endless_input_is_refused(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless(b"\0")
    stream = Stream(io.BufferedReader(endless))  # type: ignore[arg-type]
    code, said = ended(command, monkeypatch, stdin=stream, stdout=io.StringIO())
    assert code == 3
    assert "the standard input" in said
    assert endless.count < 3 * MOST_OF_A_MAP
