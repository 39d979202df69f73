"""The command `memory`: the first screen, groups, moments, two programs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from hloscope.cli.app import app
from tests.conftest import SHARED, needs_shared
from tests.cost.buffers.programs import GPU_MARK, scheduled
from tests.cost.buffers.test_answers import TRAIN


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["memory", *arguments])


@pytest.fixture
def train(tmp_path: Path) -> str:
    path = tmp_path / "train.hlo"
    path.write_text(TRAIN)
    return str(path)


def test_the_first_screen_has_the_peak_its_line_and_one_thing_to_do(train: str) -> None:
    lines = run(train).stdout.splitlines()
    assert lines[0] == "at least 7.001 MiB live at once; XLA holds about 7.001 MiB"
    assert lines[1].startswith("peak: moment 5 of 9, `s` (m.py:5)")
    assert lines[2].startswith("live: ")
    assert lines[3].startswith("to do: recompute m.py:3")


def test_groups_end_with_their_sum(train: str) -> None:
    found = run(train, "--by", "kind").stdout.splitlines()
    assert [line.split()[:2] for line in found if line.endswith((" all", "parameter"))] == [
        ["1", "MiB"],
        ["7.001", "MiB"],
    ]


@pytest.mark.parametrize("moment", ["d2", "7"])
def test_another_moment_is_shown(train: str, moment: str) -> None:
    found = run(train, "--at", moment).stdout
    assert "moment 7 of 9, `d2` (m.py:3)" in found


def test_a_device_is_compared(train: str) -> None:
    assert "a100 has" in run(train, "--device", "a100").stdout


def test_programs_of_gpus_are_compared_with_an_h100(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(scheduled("ROOT p = f32[8]{0} parameter(0)", header=GPU_MARK))
    assert "may fit: XLA will ask for about 32 bytes, h100 has 80 GiB" in run(str(path)).stdout


def test_two_programs_are_compared(train: str, tmp_path: Path) -> None:
    other = tmp_path / "other.hlo"
    other.write_text(TRAIN.replace("multiply(d2, h1)", "multiply(d2, d2)"))
    found = run(train, str(other)).stdout.splitlines()
    assert found[0].startswith("XLA holds about 7.001 MiB → 6.001 MiB (-1 MiB)")
    assert found[1].startswith("-1 MiB m.py:3 jvp()/tanh, the same 2 buffers, now live 1..7")


def test_a_program_without_a_schedule_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TRAIN.replace(", is_scheduled=true", ""))
    found = run(str(path))
    assert found.exit_code == 0
    assert found.stdout.startswith("no moments: the program has no schedule")
    assert json.loads(run(str(path), "--json").stdout)["reason"].startswith("the program has no")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--at", "nothing"], 2, "nothing"),
        (["--at", "99"], 2, "no moment 99; there are 0 to 9"),
        (["--by", "sauce"], 2, "no grouping `sauce`"),
        (["--device", "h1000"], 2, "no device `h1000`"),
        (["OTHER", "--by", "kind"], 2, "--at, --by and --device are about one program"),
    ],
)
def test_what_is_not_there_is_refused(
    train: str, arguments: list[str], code: int, says: str
) -> None:
    found = run(train, *[train if a == "OTHER" else a for a in arguments])
    assert says in found.stderr
    assert found.exit_code == code


def test_a_picture_is_printed(train: str) -> None:
    drawn = run(train, "--format", "svg").stdout
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in drawn
    assert "peak 7.001 MiB at 5" in drawn
    page = run(train, "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 1
    assert "to do: recompute m.py:3" in page
    assert json.loads(run(train, "--format", "json").stdout) == json.loads(
        run(train, "--json").stdout
    )


def test_two_programs_are_drawn_on_one_picture(train: str) -> None:
    drawn = run(train, train, "--format", "svg", "--device", "a100").stdout
    assert drawn.count("peak 7.001 MiB at 5") == 2
    assert drawn.count("a100 has 80 GiB") == 2
    page = run(train, train, "--format", "html").stdout
    assert "XLA holds the same buffers for both" in page


@pytest.mark.parametrize("more", [("--at", "d2"), ("--by", "kind")])
def test_a_picture_is_of_the_whole_schedule(train: str, more: tuple[str, str]) -> None:
    found = run(train, "--format", "svg", *more)
    assert found.exit_code == 2
    assert "--at and --by are about text and JSON" in found.stderr


def test_a_program_without_a_schedule_is_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("ENTRY e { ROOT p = f32[8] parameter(0) }")
    found = run(str(path), "--format", "svg")
    assert found.exit_code == 4
    assert "no schedule" in found.stderr
    assert not found.stdout


def test_only_one_program_is_the_standard_input() -> None:
    assert "only one of the two can be the standard input" in run("-", "-").stderr


@pytest.mark.slow
@needs_shared
def test_a_large_program_has_its_peak_its_line_and_one_thing_to_do() -> None:
    found = run(str(SHARED / "real/big/gpt48_train_step.gpu.opt.hlo.txt"), "--top", "3")
    assert found.exit_code == 0, found.stderr
    first = found.stdout.splitlines()[:5]
    assert first[0].startswith("at least 84.16 GiB live at once; XLA holds about 102.3 GiB")
    assert "(progs_nn.py:107)" in first[1]
    assert first[2].endswith("█ is 84.16 GiB")
    assert first[3].startswith("to do: recompute progs_nn.py:108: 168 values, 40.37 GiB")
    assert first[4].startswith("cannot fit: at least 84.16 GiB are live at once, h100 has 80 GiB")


@pytest.mark.slow
@needs_shared
def test_a_large_program_is_drawn_small() -> None:
    found = run(str(SHARED / "real/big/gpt48_train_step.gpu.opt.hlo.txt"), "--format", "svg")
    texts = [e.text for e in ElementTree.fromstring(found.stdout).iter() if e.tag.endswith("text")]
    assert len(found.stdout) < 300_000
    assert {"peak 84.16 GiB at 3,221", "h100 80 GiB", "forward", "backward"} <= {*texts}
    assert texts[texts.index("41.15 GiB, 48.9 %") + 1] == "progs_nn.py:108"
