"""The rooms of the package: their order, what they import, a table and a picture of them.

`tests/test_layers.py` proves the order; `docs/refresh.py` writes what docs/architecture.md shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import networkx as nx

PACKAGE: Final = Path(__file__).parents[1] / "hloscope"
ROOMS: Final = [
    "support", "affine", "simplifier", "ir", "ops", "mlir", "hlo_parser", "stablehlo",
    "indexing", "fusion", "verifier", "interpreter", "passes", "proof",
    "movement", "tiling", "memory", "cost", "display", "checks",
    "api", "", "testing", "pytest_plugin", "cli", "__main__",
]  # fmt: skip
"""From the bottom to the top: imports go from right to left.  "" is the package itself."""
FOLDERS: Final = [room for room in ROOMS if room and (PACKAGE / room).is_dir()]
FILES: Final = sorted(PACKAGE.rglob("*.py"))

_WIDTH, _HEIGHT, _ACROSS, _UP = 118, 34, 150, 74
_STYLE: Final = (
    "rect{fill:#eef1f5;stroke:#8795a5}text{fill:#1c2733}path{fill:none;stroke:#8795a5}"
    "@media (prefers-color-scheme:dark){rect{fill:#252d36;stroke:#66717f}text{fill:#dfe6ee}}"
)


def name_of(path: Path) -> str:
    """`hloscope.ops.shape` of its file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The room a module of the package is in; the module itself if it is in none.

    `hloscope.errors` belongs to `support`: its errors show source text, and limits raise them.
    """
    return "support" if module == "hloscope.errors" else [*module.split("."), ""][1]


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported anywhere in a piece of code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "hloscope":
            for alias in node.names:  # `from hloscope import mlir` imports a room
                yield f"hloscope.{alias.name}" if alias.name in ROOMS else "hloscope"
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def imports() -> nx.DiGraph:
    """Which room imports which, without what follows from others."""
    graph = nx.DiGraph()
    graph.add_nodes_from(FOLDERS)
    for path in FILES:
        room = room_of(name_of(path))
        for module in imported(tree_of(path)):
            other = room_of(module) if module.startswith("hloscope.") else ""
            if room in FOLDERS and other in FOLDERS and room != other:
                graph.add_edge(room, other)
    return nx.transitive_reduction(graph)


def table() -> str:
    """The rooms as Markdown, from the bottom to the top, with what each is for."""
    lines = ["| subpackage | contents |", "|---|---|"]
    for room in FOLDERS:
        doc = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
        about = " ".join(doc.partition("\n\n")[0].split()).removesuffix(".")
        lines.append(f"| `{room}/` | {about} |")
    return "\n".join(lines) + "\n"


def picture() -> str:
    """The rooms as SVG; a line leads from a room down to what it builds on."""
    graph = imports()
    level: dict[str, int] = {}
    for room in reversed(list(nx.topological_sort(graph))):
        level[room] = max((level[other] + 1 for other in graph[room]), default=0)
    rows = [[r for r in FOLDERS if level[r] == k] for k in range(max(level.values()) + 1)]
    width = max(map(len, rows)) * _ACROSS + 20
    height = len(rows) * _UP
    at: dict[str, tuple[float, float]] = {}
    for n, row in enumerate(rows):
        row.sort(key=lambda room: sum(at[r][0] for r in graph[room]) / max(len(graph[room]), 1))
        for k, room in enumerate(row):
            x = width / 2 + (k - (len(row) - 1) / 2) * _ACROSS
            at[room] = x, height - (n + 0.5) * _UP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="ui-monospace, monospace" font-size="13">',
        "<title>The subpackages of hloscope and their imports</title>",
        f"<style>{_STYLE}</style>",
    ]
    for room, other in sorted(graph.edges):
        (x, y), (u, v) = at[room], at[other]
        y, v = y + _HEIGHT / 2, v - _HEIGHT / 2
        middle = (y + v) / 2
        lines.append(f'<path d="M{x:g},{y:g} C{x:g},{middle:g} {u:g},{middle:g} {u:g},{v:g}"/>')
    for room, (x, y) in at.items():
        box = f'x="{x - _WIDTH / 2:g}" y="{y - _HEIGHT / 2:g}" width="{_WIDTH}" height="{_HEIGHT}"'
        lines.append(f'<rect {box} rx="6"/>')
        lines.append(f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{escape(room)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
