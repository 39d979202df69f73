"""A new op is five files: with all of them it works, and without any one of them a test fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

import hloscope
from tests.agreement.new_op import NEW

PACKAGE = Path(hloscope.__file__).parent


def broken(name: str, files: list[str], folder: Path) -> list[str]:
    """What does not hold of a package to which an op was added in these files."""
    added = NEW[name].added
    copytree(PACKAGE, folder / "hloscope", copy_function=os.symlink)
    for file in files:
        anchor, text = added[file]
        path = folder / "hloscope" / file
        source = path.read_text()
        assert source.count(anchor) == 1, anchor
        path.unlink()
        path.write_text(source.replace(anchor, text + anchor))
    roots = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.agreement.new_op", name],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=roots),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_five_files_are_all_of_a_new_op(name: str, tmp_path: Path) -> None:
    files = [*NEW[name].added]
    assert len(files) <= 5
    assert broken(name, files, tmp_path) == []


ONES = [(name, file) for name, new in NEW.items() for file in new.added]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "missing"), ONES, ids=map(" without ".join, ONES))
def test_a_file_that_is_missing_is_noticed(
    name: str, missing: str, full: bool, tmp_path: Path
) -> None:
    if not full and (name, missing) not in ONES[1::5]:
        pytest.skip("one in five by default, as each is a process")
    assert broken(name, [f for f in NEW[name].added if f != missing], tmp_path)
