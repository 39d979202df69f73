"""The documentation as static pages: `python -m docs.site build/site` (the extra `site`).

Sphinx makes them of the pages in docs/, whose examples `tests/test_docs.py` runs, of the notebooks
with the outputs that are stored in them, and of the docstrings of everything that rooms export.
The pages need no network: their search works from `file://`.  A link that leads nowhere is an
error.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import nbformat

import hloscope

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = {
    "hloscope": "The library",
    "hloscope.testing": "Assertions for tests",
    "hloscope.indexing": "Indexing maps",
    "hloscope.affine": "Expressions",
    "hloscope.simplifier": "The simplifier",
    "hloscope.proof": "Proof",
    "hloscope.tiling": "Tiles",
    "hloscope.memory": "Memory",
    "hloscope.movement": "Data movement",
    "hloscope.checks": "Checks",
    "hloscope.interpreter": "The interpreter",
    "hloscope.passes": "Passes",
    "hloscope.stablehlo": "StableHLO",
    "hloscope.ir": "The program graph",
}
"""Rooms with a page of reference."""
PARTS: Final = {
    "Which elements does it read?": (
        "first_steps", "training_step", "maps", "notebooks/main_job", "explorer",
    ),
    "Which tiles can it have?": ("tiles", "notebooks/tiles", "tiling_spaces"),
    "What does a step cost, and what is wasted?": (
        "cost", "memory", "notebooks/memory", "devices", "ptx", "profiles", "coalescing",
        "notebooks/coalescing", "gpu", "cancellation", "notebooks/cancellation", "checks", "scan",
    ),
    "More": (
        "command", "python", "threads", "stablehlo", "passes", "notebooks/dynamic_shapes",
        "artifacts", "interpreter", "layouts", "notebooks/layouts",
        "simplifier", "proof", "cost_rules", "limits", "glossary",
    ),
    "Facts": ("ops", "laws", "architecture", "status"),
}  # fmt: skip
"""The pages besides the reference, in order: the three jobs first."""
_NOT_PAGES: Final = {"package.markdown", "index.md"}
_LANGUAGES: Final = {"console", "python", "text", "json", "toml", "yaml", "html", "sh", "mlir"}
_FENCE: Final = re.compile(r"^(```+)(\w+)$", re.MULTILINE)


def stage(folder: Path) -> None:
    """Write the sources of all pages: Markdown, and lists of what rooms export."""
    for page in (ROOT / "docs").glob("*.md"):
        (folder / page.name).write_text(_page(page.read_text("utf-8")), "utf-8")
    for picture in [*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")]:
        shutil.copy(picture, folder)
    (folder / "notebooks").mkdir()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        text = _page("\n\n".join(_cells(nbformat.read(notebook, as_version=4))))
        (folder / "notebooks" / f"{notebook.stem}.md").write_text(text, "utf-8")
    (folder / "api").mkdir()
    told: dict[int, str] = {}
    for room, title in ROOMS.items():
        lines = _exports(room, title, told)
        (folder / "api" / f"{room}.rst").write_text("\n".join(lines), "utf-8")
    with (folder / "index.md").open("a", encoding="utf-8") as index:
        index.write("".join(_contents()))


def _page(text: str) -> str:
    """A page of docs/ with links to notebooks as pages, and languages that are known."""
    text = re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", r"](notebooks/\1.md)", text)
    return _FENCE.sub(lambda f: f[1] + (f[2] if f[2] in _LANGUAGES else "text"), text)


def _contents() -> Iterator[str]:
    api = tuple(f"api/{room}" for room in ROOMS)
    for title, pages in {**PARTS, "Reference": api}.items():
        listed = "\n".join(pages)
        yield f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n:maxdepth: 1\n\n{listed}\n```\n"


def _cells(notebook: Any) -> Iterator[str]:
    """The cells of a notebook as Markdown, outputs included."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield _fenced("python", cell.source)
        yield from (_shown(output) for output in cell.outputs)


def _shown(output: Any) -> str:
    """An output in the richest form that it has, as browsers show it."""
    data = {kind: "".join(part) for kind, part in output.get("data", {}).items()}
    for kind in ("image/svg+xml", "image/png"):
        if kind in data:
            as_is = kind.endswith("png")  # which notebooks keep in base64
            coded = data[kind] if as_is else b64encode(data[kind].encode()).decode()
            return _wide(f'<img alt="" src="data:{kind};base64,{"".join(coded.split())}">')
    if "text/html" in data:
        return _wide(data["text/html"])
    return _fenced("text", "".join(output.get("text") or data.get("text/plain", "")))


def _wide(html: str) -> str:
    """What may be wider than its column: it scrolls by itself."""
    return _fenced("{raw} html", f'<div style="overflow-x: auto">\n{html}\n</div>')


def _fenced(language: str, text: str) -> str:
    longest = max([len(run) for run in re.findall("`+", text)], default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _exports(room: str, title: str, told: dict[int, str]) -> Iterator[str]:
    """The page of a room: every class and function that its door lists, each told once."""
    module = importlib.import_module(room)
    yield from (title, "=" * len(title), "", f".. py:module:: {room}", "")
    yield from (inspect.cleandoc(module.__doc__ or "").partition("\n")[0], "")
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        value = getattr(module, name)
        if not getattr(value, "__module__", "").startswith("hloscope"):
            continue
        role = "class" if inspect.isclass(value) else "func"
        if id(value) in told:
            yield from (f"`{name}` is :py:{role}:`{told[id(value)]}`.", "")
        elif role == "class":
            yield from (f".. autoclass:: {room}.{name}", "   :members:", "")
        elif callable(value) and getattr(value, "__name__", "") == name:
            yield from (f".. autofunction:: {room}.{name}", "")
        else:
            continue
        told.setdefault(id(value), f"{room}.{name}")


def build(out: Path) -> list[str]:
    """Make the pages; return what Sphinx warned of.

    Sphinx is loaded here, so that what checks the sources needs none.
    """
    sphinx = importlib.import_module("sphinx.application")
    docutils = importlib.import_module("sphinx.util.docutils")
    settings = {
        "project": "hloscope",
        "version": hloscope.__version__,
        "release": hloscope.__version__,
        "html_theme": "furo",
        "html_title": f"hloscope {hloscope.__version__}",
        "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"],
        "myst_heading_anchors": 4,
        "default_role": "code",
        "napoleon_attr_annotations": False,
        "napoleon_use_ivar": True,
        "suppress_warnings": ["ref.python"],  # `bytes` is a type here, and attributes' name
        "autodoc_typehints": "signature",
        "autodoc_member_order": "bysource",
        "html_show_sourcelink": False,
        "html_copy_source": False,
        "html_show_search_summary": False,  # it fetches each page found, which file:// forbids
        "exclude_patterns": ["package.markdown"],
    }
    said = _Said()
    with TemporaryDirectory() as folder, docutils.docutils_namespace():
        source = Path(folder) / "source"
        source.mkdir()
        stage(source)
        trees = Path(folder) / "trees"
        sphinx.Sphinx(source, None, out, trees, "html", settings, status=None, warning=said).build()
    return said.lines


class _Said:
    """Where Sphinx writes its warnings."""

    def __init__(self) -> None:
        self.lines: Final[list[str]] = []

    def write(self, text: str) -> None:
        self.lines.extend(text.strip().splitlines())

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False


class _Links(HTMLParser):
    """What a page refers to, and the places in it that can be referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: Final[list[tuple[str, str]]] = []
        self.places: Final[set[str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            if name in ("href", "src") and value:
                self.targets.append((tag, value))


def broken_links(site: Path) -> list[str]:
    """Links that lead nowhere, and what would be loaded from elsewhere; the page with each."""
    pages = {path: _Links() for path in sorted(site.rglob("*.html"))}
    for path, links in pages.items():
        links.feed(path.read_text("utf-8"))
    return [
        f"{path.relative_to(site)}: {target}"
        for path, links in pages.items()
        for tag, target in links.targets
        if not _leads_somewhere(tag, target, path, pages)
    ]


def _leads_somewhere(tag: str, target: str, path: Path, pages: dict[Path, _Links]) -> bool:
    parts = urlsplit(target)
    if parts.scheme == "data":
        return True
    if parts.scheme or parts.netloc:
        return tag == "a"  # what a reader may follow; nothing is loaded from elsewhere
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.exists():
        return False
    if not parts.fragment or there not in pages:
        return True
    return unquote(parts.fragment) in pages[there].places


def main() -> None:
    """Build the site and tell what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out.resolve()
    said = build(out)
    broken = broken_links(out)
    pages = len(list(out.rglob("*.html")))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(*said, *(f"broken: {link}" for link in broken), sep="\n")
    print(f"{pages} pages, {size:,} bytes, {len(broken)} broken links, {len(said)} warnings")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
