"""The wheel and the source distribution hold what they should, and work by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

import hloscope

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "build",
    "dist",
    "*.egg-info",
    "site",
    "*.so",
)
LARGEST = 3_000_000
"""Bytes of the wheel."""


class Built(NamedTuple):
    wheel: Path
    sdist: Path


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=250, check=False,
        env={**os.environ, "PYTHONPATH": "", "PYTHONWARNINGS": "ignore", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def build(hook: str, source: Path, out: Path) -> Path:
    """What setuptools makes of a source tree, without an index."""
    code = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"
    return out / run(sys.executable, "-c", code, out, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source distribution of this tree, and the wheel of that."""
    if int(version("setuptools").partition(".")[0]) < 68:
        pytest.skip("needs setuptools 68 (the extra `dev`)")
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    sdist = build("build_sdist", folder / "tree", folder)
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return Built(build("build_wheel", source, folder), sdist)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    files = {
        str(path.relative_to(ROOT))
        for pattern in ("*.py", "*.json", "py.typed", "*.pyi", "*.js", "*.css", "*.txt")
        for path in (ROOT / "hloscope").rglob(pattern)
    }
    assert not files - names
    assert "hloscope/display/explorer/app/vendor/dagre.min.js.LEGAL.txt" in names
    data = [name.partition(".data/data/")[2] for name in names]
    assert "share/man/man1/hloscope.1" in data
    assert "share/hloscope/examples/softmax.hlo" in data
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
    assert built.wheel.stat().st_size < LARGEST


@pytest.mark.slow
def test_the_metadata_names_extras_entry_points_and_the_licence(built: Built) -> None:
    packed = zipfile.ZipFile(built.wheel)
    (metadata,) = [name for name in packed.namelist() if name.endswith("dist-info/METADATA")]
    text = packed.read(metadata).decode()
    for extra in ("notebook", "oracle", "scan", "zst"):
        assert f"Provides-Extra: {extra}\n" in text
    assert f"Version: {hloscope.__version__}\n" in text
    assert "Apache" in text
    entries = packed.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert "hloscope = hloscope.cli:main" in entries
    assert "hloscope = hloscope.pytest_plugin" in entries
    _, _, page = text.partition("\n\n")
    html = MarkdownIt("gfm-like", {"linkify": False}).render(page)
    assert "<h1>hloscope</h1>" in html
    assert "<table>" in html
    for start in ('href="', 'src="'):
        assert all(rest.startswith("https://") for rest in html.split(start)[1:])


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(built: Built, tmp_path: Path) -> None:
    """With the libraries of this one beside it: no index is needed."""
    pytest.importorskip("pip", reason="needs pip")
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
        "--quiet", "--disable-pip-version-check", built.wheel, cwd=tmp_path)  # fmt: skip
    (site,) = home.glob("lib/python*/site-packages")
    beside = [one for one in sys.path if one.endswith("site-packages")]
    (site / "beside.pth").write_text("\n".join(beside))
    command = home / "bin/hloscope"
    assert run(command, "--version", cwd=tmp_path) == f"hloscope {hloscope.__version__}\n"
    where = run(python, "-c", "import hloscope; print(hloscope.__file__)", cwd=tmp_path)
    assert where.startswith(str(site))
    example = home / "share/hloscope/examples/softmax.hlo"
    assert "operand 2  f32[]  scale" in run(command, "index", example, cwd=tmp_path)
    assert '"title": "hloscope.index/3"' in run(command, "schema", "index", cwd=tmp_path)
    assert (home / "share/man/man1/hloscope.1").is_file()


@pytest.mark.slow
def test_the_source_distribution_passes_its_quick_tests(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert (source / "tests/test_layers.py").is_file()
    assert (source / "docs/command.md").is_file()
    quick = ["tests/test_source.py", "tests/test_lazy.py"]
    told = run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *quick, cwd=source,
        HLOSCOPE_SHARED=str(tmp_path / "none"), PYTHONPATH=str(source),
    )  # fmt: skip
    assert " passed" in told


def test_modules_and_texts_at_the_top_are_in_the_source_distribution() -> None:
    named = (ROOT / "MANIFEST.in").read_text().split()
    always = {"README.md", "pyproject.toml"}  # setuptools takes these by itself
    at_the_top = [path.name for kind in ("*.py", "*.md", "*.toml") for path in ROOT.glob(kind)]
    assert "conftest.py" in at_the_top
    assert [name for name in at_the_top if name not in {*named, *always}] == []


@pytest.mark.slow
def test_the_examples_of_one_module_are_found() -> None:
    """As the first file that is asked for, of a package that imports its modules."""
    said = run(sys.executable, "-m", "pytest", "-q", "hloscope/ops/windows.py",
               "-p", "no:cacheprovider", cwd=ROOT)  # fmt: skip
    assert "passed" in said
