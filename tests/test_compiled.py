"""The simplifier compiled by mypyc gives what it gives uncompiled: its tests pass there too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from benchmarks.compiled import compile_in
from tests.conftest import SHARED
from tests.test_package import LEFT_OUT, ROOT

ENGINE = "import hloscope.simplifier.engine as engine; print(engine.__file__)"


def run(*words: str, cwd: Path, **environment: str) -> str:
    paths = {"PYTHONPATH": str(cwd), "HLOSCOPE_SHARED": str(SHARED)}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=1800,
        check=False, env={**os.environ, **paths, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(3600)
def test_the_compiled_simplifier_passes_its_tests(full: bool, tmp_path: Path) -> None:
    if not full:
        pytest.skip("takes minutes: --full, or `make compiled`")
    try:
        version("mypy")
    except PackageNotFoundError:
        pytest.skip("needs mypy (the extra `dev`)")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    assert run("-c", ENGINE, cwd=tree).endswith(".py\n")
    compile_in(tree)
    assert not run("-c", ENGINE, cwd=tree).endswith(".py\n")
    run("-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "tests/simplifier", cwd=tree)
