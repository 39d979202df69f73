"""Write the generated parts of README.md and docs/ anew.

Generated are the outputs in ```console blocks (each line that begins with `$ hloscope` is run), the
pictures, the table of rooms in docs/architecture.md, that of bounds in docs/limits.md and that of
work in docs/cost_rules.md,
docs/ops.md, the manual page docs/hloscope.1, docs/package.markdown for package indexes, the
plots (`docs/plots.py`), and the outputs of the notebooks.
`tests/test_docs.py` and `tests/test_notebook.py` fail where one is out of date.

    python -m docs.refresh
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import nbformat
from click.testing import CliRunner
from nbclient import NotebookClient

from docs import bounds, cost_rules, house, plots
from hloscope.cli.app import app
from hloscope.stablehlo import nodes

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))
PICTURES: Final = {
    "docs/softmax.svg": "hloscope index examples/softmax.hlo --format svg --at 3,7,12",
    "docs/coalescing.svg": (
        "hloscope coalesce examples/training_step.hlo residual_fusion --format svg"
    ),
    "docs/memory.svg": "hloscope memory examples/layers.hlo --format svg",
}
"""Files that a command prints."""
TOUR: Final = ROOT / "docs/training_step.md"
_REAL: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared")) / "real"
_BIG: Final = _REAL / "big/gpt48_train_step.gpu.opt.hlo.txt"
DUMPS: Final = {
    TOUR: _REAL / "models/gpt2_tiny12_train_step.gpu.opt.hlo.txt",
    ROOT / "README.md": _BIG,
    ROOT / "docs/cost.md": _BIG,
    ROOT / "docs/memory.md": _BIG,
}
"""The program that the transcripts of a page are about; it is too large for this repository."""
_TRANSCRIPT: Final = re.compile(r"^```transcript\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROOMS: Final = re.compile(r"(?<=<!-- rooms -->\n).*?(?=<!-- end -->)", re.DOTALL)
_BOUNDS: Final = re.compile(r"(?<=<!-- bounds -->\n).*?(?=<!-- end -->)", re.DOTALL)
_WORK: Final = re.compile(r"(?<=<!-- work -->\n).*?(?=<!-- end -->)", re.DOTALL)
_OPS_HEAD: Final = """\
# Which ops have indexing rules and evaluation

Made by `hloscope ops` through `python -m docs.refresh`; not edited by hand.

```
"""


def run(command: str, folder: Path = ROOT) -> str:
    """What a command line prints, both streams, started in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        if (
            {"|", ">", "2>"} & {*shlex.split(command, comments=True)}
            or " < " in command
            or "; " in command
        ):
            return _run_in_shell(command)
        _, *arguments = shlex.split(command, comments=True)
        return CliRunner().invoke(app, arguments, prog_name="hloscope").output
    finally:
        os.chdir(before)


def _run_in_shell(command: str) -> str:
    define = f'hloscope() {{ {shlex.quote(sys.executable)} -m hloscope "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", define + command], text=True, check=False, capture_output=True
    )
    return done.stdout + done.stderr


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each console block of a page as it stands, and as it should be."""
    for block in _BLOCK.finditer(text):
        yield block.group(1), _renewed(block.group(1))


def _renewed(block: str, folder: Path = ROOT) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(
        f"{line}\n{run(line[2:], folder)}" if "hloscope" in line else f"{line}\n"
        for line in commands
    )


def toured(text: str, dump: Path) -> str:
    """The text of a page whose transcripts show what commands print of a dump today."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train_step.hlo").symlink_to(dump.resolve())
        return _TRANSCRIPT.sub(
            lambda block: f"```transcript\n{_renewed(block.group(1), folder)}```", text
        )


def renewed(text: str) -> str:
    """The text of a page with the output of every command as it is today."""
    return _BLOCK.sub(lambda block: f"```console\n{_renewed(block.group(1))}```", text)


def with_rooms(text: str) -> str:
    """The text of a page with the table of rooms as it is today."""
    return _ROOMS.sub(lambda _: house.table(), text)


def with_bounds(text: str) -> str:
    """The text of a page with the bounds that the code states today."""
    return _BOUNDS.sub(lambda _: bounds.table(), text)


def with_work(text: str) -> str:
    """The text of a page with the rules of work as they are today."""
    return _WORK.sub(lambda _: cost_rules.table(), text)


def package_page() -> str:
    """The page of a package index: README.md as it is for those who have the package, not a clone.

    What only stands in a clone is left out: pictures, links to files, what `make` does.
    """
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"^!\[.*?\]\([^)]*\)\n+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^## Try it\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"pip install '\.\[(\w+)\]'", r"pip install 'hloscope[\1]'", text)
    text = re.sub(r"^HLOSCOPE_COMPILE=.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("pip install .", "pip install hloscope")
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"`\1`", text)
    return re.sub(r"(?<!`)``([^`\n]+)``(?!`)", r"`\1`", text)


def generated() -> Iterator[tuple[Path, str]]:
    """The files that are generated as a whole."""
    for name, command in PICTURES.items():
        yield ROOT / name, run(command)
    yield ROOT / "docs/rooms.svg", house.picture()
    yield ROOT / "docs/package.markdown", package_page()
    yield ROOT / "docs/hloscope.1", run("hloscope help --man")
    yield house.PACKAGE / "stablehlo/op_methods.pyi", nodes.stub()
    yield ROOT / "docs/ops.md", f"{_OPS_HEAD}{run('hloscope ops')}```\n"


def executed(path: Path, folder: Path = ROOT / "notebooks") -> nbformat.NotebookNode:
    """A notebook with the outputs of today.

    Args:
        path: The notebook.
        folder: The folder that it runs in; Jupyter starts a notebook in its own.

    Raises:
        CellExecutionError: A cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # the kernel is a process of its own
    try:
        settings = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=120, resources=settings).execute()
    finally:
        if old is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = old
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _joined(outputs: Iterable[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Outputs of a cell; a stream that came in several parts, as chance has it, as one."""
    found: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = found[-1] if found else None
        if last and last.output_type == output.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            found.append(output)
    return found


def main() -> None:
    """Write whatever differs."""
    whole = dict(generated())
    whole |= dict(plots.plots())
    whole |= {p: f"{nbformat.writes(executed(p))}\n" for p in NOTEBOOKS}
    pages = {
        p: with_work(with_bounds(with_rooms(renewed(p.read_text()))))
        for p in PAGES
        if p not in whole
    }
    for page, dump in DUMPS.items():
        if dump.exists():
            pages[page] = toured(pages[page], dump)
    for path, text in (whole | pages).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
