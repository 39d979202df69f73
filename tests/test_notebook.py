"""The notebooks run, and show what they would show today."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest

from docs import refresh

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def texts(notebook: Any) -> list[str]:
    """What each code cell printed and returned, as text; how it came in pieces does not matter."""
    return [
        "".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_what_it_shows(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the notebook machinery are not ours
        shown, today = nbformat.read(path, as_version=4), refresh.executed(path)
    assert texts(shown) == texts(today), "out of date; `make docs` writes it anew"


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_in_the_folder_of_the_repository_too(path: Path, full: bool) -> None:
    """Paths are the only thing that depends on the folder: a sample runs all cells there."""
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    assert not [s for s in sources if 'read("examples/' in s], "starts in notebooks/ only by luck"
    if not full and path.stem not in ("cancellation", "dynamic_shapes"):
        pytest.skip("runs with --full; its paths are checked")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refresh.executed(path, ROOT)


def test_there_is_a_notebook_of_the_main_job() -> None:
    assert "main_job.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiles", "coalescing", "cancellation", "memory"])
def test_notebooks_take_real_dumps(
    name: str, shared: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last outputs are of the dump that the environment names."""
    stem = "gpt2_tiny12_train_step" if full else "mlp_train_step"
    monkeypatch.setenv("HLOSCOPE_DUMP", str(shared / f"real/models/{stem}.gpu.opt.hlo.txt"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        today = refresh.executed(ROOT / f"notebooks/{name}.ipynb")
    shown = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    *_, here = texts(today)
    *_, there = texts(shown)
    assert here
    assert here != there
