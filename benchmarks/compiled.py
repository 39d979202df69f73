"""A copy of the tree, compiled by mypyc, that is measured beside this one, which stays pure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("hloscope", "benchmarks", "setup.py", "pyproject.toml", "README.md")
"""What a compiled build and its run need of the tree."""
ENGINE: Final = "hloscope.simplifier.engine"
"""A module that is compiled."""


def is_compiled() -> bool:
    """Is the simplifier compiled that runs here?"""
    return not str(import_module(ENGINE).__file__).endswith("py")


def build(folder: Path) -> None:
    """Copy what is needed to a new folder, and compile there what `setup.py` names."""
    folder.mkdir()
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    print("compiling takes minutes", file=sys.stderr)
    compile_in(folder)


def compile_in(tree: Path) -> None:
    """Compile the modules of a tree that `setup.py` names, in place."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | {"HLOSCOPE_COMPILE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"cannot be compiled:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_in(tree: Path, shared: Path, script: str, *arguments: str) -> str:
    """What a script of a tree prints, which uses the hloscope of that tree."""
    return subprocess.run(
        [sys.executable, str(tree / script), *arguments],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree), "HLOSCOPE_SHARED": str(shared)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
