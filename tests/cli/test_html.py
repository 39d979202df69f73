"""`hloscope html`: the page as a file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

SOFTMAX = ROOT / "examples" / "softmax.hlo"
NEGATE = "ENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }"
TANH = "ENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] tanh(p) }"


@pytest.mark.parametrize("output", [(), ("-o", "-")])
def test_the_page_goes_to_the_standard_output(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: tuple[str, ...]
) -> None:
    result = run("html", SOFTMAX, *output)
    assert result.exit_code == 0
    assert result.stdout.startswith("<!doctype html>")
    assert not result.stderr
    assert not (ROOT / "-").exists()


def test_a_file_is_written_and_its_size_is_told(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("html", SOFTMAX, "-o", page)
    assert result.exit_code == 0
    assert not result.stdout
    assert result.stderr == f"{page}: {page.stat().st_size:,} bytes\n"
    assert page.read_text("utf-8") == run("html", SOFTMAX).stdout


@pytest.mark.parametrize("of_both", [False, True])
def test_the_program_is_not_written_over(run: Run, tmp_path: Path, of_both: bool) -> None:
    program, other = tmp_path / "program.hlo", tmp_path / "other.hlo"
    program.write_text(NEGATE)
    other.write_text(TANH)
    link = tmp_path / "link.html"
    link.symlink_to(program)
    asked = ("--diff", program, other) if of_both else (program,)
    for output in (program, link):
        result = run("html", *asked, "-o", output)
        assert result.exit_code == 2
        assert "written over the program" in result.stderr
    assert program.read_text() == NEGATE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing.hlo",), "no file `nothing.hlo`"),
        (("--diff", "examples/softmax.hlo"), "--diff compares two programs"),
        (("examples/softmax.hlo", "examples/tan.mlir"), "--diff compares two programs"),
        (("--diff", "-", "-"), "only one of the two"),
        (("--without", "costs", "examples/softmax.hlo"), "'costs' is not one of"),
        (("--device", "h101", "examples/softmax.hlo"), "no device `h101`"),
        (("examples/softmax.hlo", "-o", "/nowhere/page.html"), "cannot write `/nowhere/page.html`"),
        (("examples/softmax.hlo", "-o", "/dev/full"), "cannot write `/dev/full`"),
        (("/dev/null",), "is empty"),
        (("examples",), "is a directory"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run("html", *arguments)
    assert result.exit_code in (2, 3)
    assert said in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("length", [1, 20, 60])
def test_a_program_that_breaks_off_is_refused(run: Run, length: int) -> None:
    result = run("html", "-", stdin=NEGATE[:length])
    assert result.exit_code == 3
    assert result.stderr.startswith("<stdin>:1:")


def test_what_changed_between_two_files_is_in_the_page(run: Run, tmp_path: Path) -> None:
    older, newer = tmp_path / "older.hlo", tmp_path / "newer.hlo"
    older.write_text(NEGATE)
    newer.write_text(TANH)
    assert 'id="data-diff"' in run("html", "--diff", older, newer).stdout
    assert 'id="data-diff"' not in run("html", newer).stdout
