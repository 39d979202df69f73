"""The plugin for pytest: a page for each program that breaks a rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hloscope
from hloscope.testing import CheckFailedError, assert_no_copies, picture_of

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


def test_a_page_is_written_for_what_breaks_a_rule_and_nothing_else(tmp_path: Path) -> None:
    said = run(tmp_path, "--hloscope-pages", "pages")
    (page,) = (tmp_path / "pages").iterdir()
    assert f"the program: pages/{page.name}" in said
    assert "test_copies" in page.name
    assert "copy" in page.read_text()


def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    assert "the program:" not in run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"test_it.py", "__pycache__"}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("a file")
    assert "no page: FileExistsError" in run(tmp_path, "--hloscope-pages", "pages")


def test_the_picture_of_a_failure_shows_the_program() -> None:
    with pytest.raises(CheckFailedError) as failed:
        assert_no_copies(hloscope.read(COPY))
    text, ending = picture_of(failed.value)
    assert ending in (".txt", ".html")
    assert "copy" in text
