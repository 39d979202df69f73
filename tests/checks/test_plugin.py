"""The plugin for pytest: a page for each program that breaks a rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hloscope
from hloscope.testing import CheckFailedError, assert_coalesced, assert_no_copies, picture_of

ROOT = Path(__file__).parents[2]
COPY = "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }"
TESTS = f"""
from hloscope.testing import assert_no_copies

def test_copies(hloscope_program):
    assert_no_copies(hloscope_program({COPY!r}))

def test_other():
    assert 1 == 2

def test_fine(hloscope_program):
    assert_no_copies(hloscope_program({COPY!r}), max_bytes=32)
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", *options],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_PLUGINS": "hloscope.pytest_plugin",
             "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_page_is_written_for_what_breaks_a_rule_and_nothing_else(tmp_path: Path) -> None:
    said = run(tmp_path, "--hloscope-pages", "pages")
    (page,) = (tmp_path / "pages").iterdir()
    assert f"the program: pages/{page.name}" in said
    assert "test_copies" in page.name
    assert "copy" in page.read_text()


@pytest.mark.slow
def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    assert "the program:" not in run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"test_it.py", "__pycache__"}


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("a file")
    assert "no page: FileExistsError" in run(tmp_path, "--hloscope-pages", "pages")


def test_the_picture_of_a_failure_shows_the_program() -> None:
    with pytest.raises(CheckFailedError) as failed:
        assert_no_copies(hloscope.read(COPY))
    text, ending = picture_of(failed.value)
    assert ending in (".txt", ".html")
    assert "copy" in text


AROUND = """ENTRY e {
  p = f32[8] parameter(0)
  n = f32[8] negate(p)
  small = f32[8] copy(n)
  w = f32[8,8] broadcast(p), dimensions={0}
  b = f32[64] reshape(w)
  large = f32[64] copy(b)
  ROOT t = (f32[8], f32[64]) tuple(small, large) }"""


def test_a_failure_shows_what_stands_around_the_worst_finding() -> None:
    with pytest.raises(CheckFailedError) as failed:
        assert_no_copies(AROUND)
    said = str(failed.value)
    assert "2 copies" in said
    assert "\n> large = f32[64] copy(b)\n" in said
    assert "\n  b = f32[64] reshape(w)\n" in said
    assert "negate" not in said


def test_a_failure_of_utilisation_shows_what_the_kernel_moves() -> None:
    program = Path(__file__).parents[2] / "examples/training_step.hlo"
    with pytest.raises(CheckFailedError) as failed:
        assert_coalesced(program)
    shown = hloscope.read(program)["residual_fusion"].coalescing(device="h100")
    assert str(failed.value).endswith(f"\n\n{shown}")


def test_a_program_with_many_users_is_shown_in_part() -> None:
    users = "\n".join(f"n{k} = f32[8] negate(c)" for k in range(200))
    with pytest.raises(CheckFailedError) as failed:
        assert_no_copies(f"ENTRY e {{ p = f32[8] parameter(0)\nc = f32[8] copy(p)\n{users}\n"
                         "ROOT r = f32[8] negate(n3) }")  # fmt: skip
    assert str(failed.value).endswith("\n…")
    assert len(str(failed.value).splitlines()) < 50


@pytest.mark.parametrize("name", ["a/b", "*", "a%b", "?"])
def test_a_name_that_cannot_be_asked_by_fails_as_others_do(name: str) -> None:
    text = f"""func.func @"{name}"(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {{
      %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
      return %0 : tensor<3x2xf32> }}"""
    with pytest.raises(CheckFailedError, match="transpose of 24 bytes"):
        assert_no_copies(text)


@pytest.mark.slow
def test_what_pytest_shows_ends_at_the_assertion(tmp_path: Path) -> None:
    assert "in _require" not in run(tmp_path)
    assert "found = check_one" not in run(tmp_path)
