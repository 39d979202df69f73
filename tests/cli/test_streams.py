"""What the command does with its streams: terminals, full disks, closed descriptors, signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from tests.cli.conftest import ROOT, start

EVIL = "\x1b]0;pwned\x07\x9b31m\u202e"
MESSAGE = "error: cannot write the standard output"
OWN_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments: str, text: str = "") -> str:
    """What a terminal is sent as the standard output and the standard error."""
    reader, writer = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", *arguments],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=writer, stderr=writer,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(writer)
    assert process.stdin
    process.stdin.write(text.encode("utf-8", "surrogatepass"))
    process.stdin.close()
    shown = b""
    try:
        while data := os.read(reader, 1 << 16):
            shown += data
    except OSError:  # how a terminal says that its other side has gone
        pass
    os.close(reader)
    process.wait()
    return shown.decode()


HLO = """HloModule m
ENTRY e {{ p = f32[2] parameter(0), metadata={{op_name="{evil}" source_file="{evil}"}}
 ROOT r = f32[2] custom-call(p), custom_call_target="{evil}" }}
"""
MLIR = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = "stablehlo.custom_call"(%a) {{call_target_name = "x{evil}"}} : (tensor<2xf32>) -> tensor<2xf32> loc("{evil}")
  return %0 : tensor<2xf32>
}}
"""  # noqa: E501
TEXTS = {
    "hlo": HLO.format(evil=EVIL),
    "mlir": MLIR.format(evil=EVIL),
    "broken": f"HloModule m{EVIL}",
}
COMMANDS = [
    ["ls", "-", "--all"], ["show", "-"], ["print", "-"], ["verify", "-"], ["infer", "-"],
    ["index", "-"], ["index", "-", "--json"], ["index", "-", "--format", "latex"],
    ["run", "-", "--random", "1"], ["opt", "-", "--fold"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_of_a_program_commands_a_terminal(command: list[str], kind: str) -> None:
    shown = OWN_STYLE.sub("", on_terminal(*command, text=TEXTS[kind]).replace("\r\n", "\n"))
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("command", ["index", "simplify"])
def test_an_argument_does_not_command_it_either(command: str) -> None:
    shown = OWN_STYLE.sub("", on_terminal(command, f"no{EVIL}file"))
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


def test_a_pipe_gets_the_program_as_it_is() -> None:
    metadata = 'metadata={op_name="a\u200eb"}'
    text = f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[2] parameter(0), {metadata}\n}}\n"
    with start("print", "-") as process:
        out, _ = process.communicate(text)
    assert "a\u200eb" in out


@pytest.mark.slow(keep=1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["print", "ls", "index"])
def test_a_full_disk_is_said(command: str) -> None:
    done = subprocess.run(
        f'"{sys.executable}" -m hloscope {command} examples/softmax.hlo > /dev/full',
        cwd=ROOT, shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.split(":")[:2]) == (3, MESSAGE.split(":")[:2])


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize(
    "command", ["print", "index", "index --all", "index --json", "ls", "infer"]
)
def test_a_closed_output_is_said(command: str) -> None:
    done = subprocess.run(
        f'"{sys.executable}" -m hloscope {command} examples/softmax.hlo >&-',
        cwd=ROOT, shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, f"{MESSAGE}: it is closed\n")


LATER = """
import signal, sys
sys.path.insert(0, ".")
class Late:
    def find_spec(self, name, path, target=None):
        if name == "hloscope.cli.app":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Late())
sys.argv = ["hloscope", "ls", "examples/softmax.hlo"]
from hloscope.cli import main
main()
"""


def test_an_interrupt_while_it_loads_is_one_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")


def test_an_interrupt_in_the_making_of_a_class_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrapped(*_: object, **__: object) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("hloscope.cli.help.ops.callback", wrapped)
    result = CliRunner().invoke(app, ["ops"])
    assert (result.exit_code, result.stderr.strip()) == (130, "interrupted")


BEGUN = """
import sys
sys.path.insert(0, ".")
from hloscope.cli import interrupts, main
interrupts.install()
print("begun", flush=True)
main()
"""
LOOP = """func.func @main(%n: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.while(%x = %n) : tensor<i32> cond {
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    stablehlo.return %x : tensor<i32>
  }
  return %r : tensor<i32>
}
"""
WAITING = {
    "no input": ["verify", "-"],
    "maps": ["simplify", "-", "--lines"],
    "proofs": ["index", "examples/softmax.hlo", "--all", "--verify"],
    "a loop": ["run", "{loop}", "--random", "1"],
    "help": ["run", "--help"],
}


def _end_of(process: subprocess.Popen[str]) -> str:
    """What a process says until it ends; one that does not end is killed."""
    try:
        return process.communicate(timeout=60)[1]
    finally:
        process.kill()


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("what", WAITING)
def test_an_interrupt_ends_it_whenever_it_comes(what: str, tmp_path: Path, full: bool) -> None:
    (tmp_path / "loop.mlir").write_text(LOOP)
    words = [word.replace("{loop}", str(tmp_path / "loop.mlir")) for word in WAITING[what]]
    for milliseconds in range(0, 400, 10 if full else 130):
        process = subprocess.Popen(
            [sys.executable, "-c", BEGUN, *words], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        with process:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            said = _end_of(process)
        assert process.returncode in (0, 130), (milliseconds, process.returncode, said)
        assert "Traceback" not in said
        if process.returncode:
            assert said.strip().endswith("interrupted")


LOST = """
import signal, sys
sys.path.insert(0, ".")
from hloscope.cli import interrupts
interrupts.install()
class Dying:
    def __del__(self):
        {what}
with interrupts.Raising():
    value = Dying()
    del value
print("went on")
"""


@pytest.mark.parametrize(
    ("what", "ends"),
    [
        ("signal.raise_signal(signal.SIGINT)", (130, "", "interrupted")),
        ("raise ValueError('theirs')", (0, "went on", "ValueError: theirs")),
    ],
)
def test_an_interrupt_that_nobody_would_catch_ends_it(
    what: str, ends: tuple[int, str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST.format(what=what)], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    said = done.stderr.strip().splitlines()
    assert (done.returncode, done.stdout.strip(), said[-1]) == ends


PACKAGE = Path(hloscope.__file__).parent
EARLY = re.compile(
    rf'File "(?:{re.escape(str(PACKAGE))}|[^"]*[/\\]site-packages[/\\]hloscope)[/\\]'
    r"(?!__init__|__main__|doors|cli/__init__|cli/interrupts)"
)
"""A place in our modules, those that are loaded before interrupts are taken care of left out."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["module", "script"])
def test_an_interrupt_of_a_start_is_ours_or_pythons(way: str) -> None:
    """What ends Python before our first line may have its traceback, but not one of ours."""
    script = Path(sys.executable).with_name("hloscope")
    if way == "script" and not script.exists():
        pytest.skip("the command is not installed beside this Python")
    command = [str(script)] if way == "script" else [sys.executable, "-m", "hloscope"]
    for milliseconds in range(0, 200, 10):
        with subprocess.Popen(
            [*command, "ls", "-"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            said = _end_of(process)
        assert not EARLY.search(said), (milliseconds, said)
        if "Exception ignored" in said or "Failed checking if argv[0]" in said:
            continue  # Python lost it before our first line, and went on
        assert process.returncode in (1, 130, -signal.SIGINT), (milliseconds, said)
        assert (process.returncode == 130) == said.strip().endswith("interrupted")
